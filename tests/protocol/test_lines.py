"""Lines and their formats: blocks do not depend on chunks, nor rows on what stands beside them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import datetime
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gapless.protocol.errors import BadData, SchemaError
from gapless.protocol.lines import blocks as lines
from gapless.protocol.lines import line_format as line_formats
from gapless.protocol.lines.blocks import Block, Lines, spans
from gapless.protocol.lines.csv_lines import Csv
from gapless.protocol.lines.json_lines import JsonLines
from gapless.protocol.lines.line_format import LineFormat, Parsed

SCHEMA = pa.schema({"ts": pa.timestamp("ms"), "src": pa.int32(), "name": pa.string()})
Told = tuple[list[Any], list[int], list[Any]]
"""Rows, the lines that they are from, the bad lines."""
HEADER = Block(b"name,src,ts,more\n", 1)


def blocks(data: bytes, chunks: list[int], count: int) -> Iterator[Block]:
    """What `count` lines at a time gives, fed in chunks of such sizes, over and over."""
    fed, at, turn = Lines(), 0, 0
    while at < len(data):
        size = chunks[turn % len(chunks)]
        fed.feed(data[at : at + size])
        at, turn = at + size, turn + 1
        while (block := fed.take(count)) is not None:
            yield block
    fed.finish()
    while (block := fed.take(count, rest=True)) is not None:
        yield block


texts = st.lists(st.binary(max_size=12).map(lambda b: b.replace(b"\n", b"")), max_size=30)
sizes = st.lists(st.integers(1, 40), min_size=1, max_size=5)


# -- blocks ---------------------------------------------------------------------------------------


@given(texts, sizes, st.integers(1, 7), st.booleans())
def test_blocks_follow_from_the_lines_and_not_from_the_chunks(
    texts: list[bytes], chunks: list[int], count: int, ends: bool
) -> None:
    data = b"\n".join(texts) + (b"\n" if ends and texts else b"")
    got = list(blocks(data, chunks, count))
    assert got == list(blocks(data, [10**6], count))
    whole = data if data.endswith(b"\n") or not data else data + b"\n"
    assert b"".join(block.data for block in got) == whole.removeprefix(b"\xef\xbb\xbf")
    assert [block.first for block in got] == [1 + i * count for i in range(len(got))]
    assert all(block.data.count(b"\n") == count for block in got[:-1])


@given(texts, sizes)
def test_a_block_has_a_bound_in_bytes_too(texts: list[bytes], chunks: list[int]) -> None:
    data = b"".join(text + b"\n" for text in texts)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lines, "BLOCK_BYTES_MAX", 20)
        got = list(blocks(data, chunks, 10))
        assert got == list(blocks(data, [10**6], 10))
    assert b"".join(block.data for block in got) == data.removeprefix(b"\xef\xbb\xbf")
    assert all(len(block.data) <= 20 or block.data.count(b"\n") == 1 for block in got)


def test_of_a_line_without_an_end_little_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines, "LINE_BYTES_MAX", 100)
    monkeypatch.setattr(line_formats, "LINE_BYTES_MAX", 100)
    fed = Lines()
    fed.feed(b'{"src":1}\n')
    for _ in range(1_000):
        fed.feed(b"x" * 50)
    fed.feed(b'x\n{"src":2}\n')
    block = fed.take(3)
    assert block is not None
    assert len(block.data) < 200
    parsed = JsonLines(SCHEMA).parse(block)
    assert parsed.batch.column("src").to_pylist() == [1, 2]
    assert [(bad.number, bad.reason) for bad in parsed.bad] == [(1, "the line is longer than 0 MB")]


@given(texts)
def test_spans_are_the_lines_that_are_not_blank(texts: list[bytes]) -> None:
    data = b"".join(text + b"\n" for text in texts)
    got = [
        (number, data[start:end])
        for number, start, end in zip(*(part.tolist() for part in spans(data)), strict=True)
    ]
    assert got == [(i, text) for i, text in enumerate(texts) if text.strip()]


# -- rows -----------------------------------------------------------------------------------------

GOOD = {
    "json": [
        b'{"ts":"2024-05-01T12:00:00","src":1,"name":"a"}',
        b'  {"src": 2 , "more": [1, {"a": 2}]} \r',
        b'{"name":"\xc3\xa9 \\n \\u00e9","ts":"2024-05-01 12:00:00.123"}',
        b"{}",
        b'{"src":null}',
    ],
    "csv": [
        b"a,1,2024-05-01T12:00:00,x",
        b',2,,"y"\r',
        b'"a,b",,2024-05-01 12:00:00.123,',
        b'"say ""so""",3,,',
        b'"",,,',
        b"NA,-7,,null",
        b'a"b,1,,"',
    ],
}
BAD = {
    "json": [
        b"",
        b"  ",
        b"hello",
        b'{"src":1',
        b'"src":1}',
        b'{"src":1}{"src":2}',
        b'{"src":1}{"src":2}{"src":3}',
        b'{"src":"7"}',
        b'{"src":1.5}',
        b'{"src":99999999999}',
        b'{"src":1,"src":2}',
        b'{"name":"\xff"}',
        b'{"ts":1714564800000}',
        b'{"name":7}',
        b'{"src":true}',
        b'{"name":"a}',
        b'{"name":"\x00"}',
        b'{"src":\x001}',
        b"[1]",
        b'{"a":[{"b":1}',
        b'{"ts":"yesterday"}',
    ],
    "csv": [
        b"",
        b"   ",
        b"a,1",
        b"a,1,,,",
        b"a,1.5,,",
        b"a,,yesterday,",
        b'"a,1,,',
        b'a"b,"c,1,,',
        b"a\rb,1,,",
        b"\xff,1,,",
        b"a,99999999999,,",
        b'a,"",,',
        b"a,0x10,,",
        b"a,,20240501,",
        b"a,,2024-02-30,",
    ],
}


def format_of(kind: str) -> LineFormat:
    return JsonLines(SCHEMA) if kind == "json" else Csv(SCHEMA, HEADER)


def alone(kind: str, texts: list[bytes]) -> Told:
    """The slow twin: each line is a block of its own."""
    rows, numbers, bad = [], [], []
    for i, text in enumerate(texts):
        parsed = format_of(kind).parse(Block(text + b"\n", 1))
        rows += parsed.batch.to_pylist()
        numbers += [i] * parsed.batch.num_rows
        bad += [(i, each.reason, each.text) for each in parsed.bad]
    return rows, numbers, bad


def together(parsed: Parsed) -> Told:
    bad = [tuple(each[:3]) for each in parsed.bad]
    return parsed.batch.to_pylist(), parsed.numbers.tolist(), bad


def mixed(kind: str) -> st.SearchStrategy[list[bytes]]:
    return st.lists(st.sampled_from(GOOD[kind] * 3 + BAD[kind]), max_size=25)


@given(st.data())
@pytest.mark.parametrize("kind", ["json", "csv"])
def test_differential_a_line_means_the_same_alone_and_among_others(
    kind: str, data: st.DataObject
) -> None:
    texts = data.draw(mixed(kind))
    block = Block(b"".join(text + b"\n" for text in texts), 1)
    assert together(format_of(kind).parse(block)) == alone(kind, texts)


@pytest.mark.parametrize("kind", ["json", "csv"])
def test_that_check_can_fail(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the count of rows, values that span lines or share one shift all numbers."""

    def careless(self: LineFormat, text: bytes, _: int) -> tuple[pa.RecordBatch | None, str]:
        try:
            return self._decode(text)[0], ""
        except pa.ArrowInvalid as e:
            return None, str(e)

    pair = {"json": [b'{"src":1}{"src":2}', b"{}"], "csv": [b'1,2,,"', b"3,4,,"]}[kind]
    expected = alone(kind, pair)
    monkeypatch.setattr(JsonLines, "_refused", lambda *_: iter(()))
    monkeypatch.setattr(Csv, "_refused", lambda *_: iter(()))
    block = Block(b"".join(text + b"\n" for text in pair), 1)
    monkeypatch.setattr(LineFormat, "_decoded", careless)
    try:
        got = together(format_of(kind).parse(block))
    except IndexError:  # more rows than lines
        return
    assert got != expected


@pytest.mark.parametrize("kind", ["json", "csv"])
def test_each_of_the_good_lines_is_a_row_and_each_of_the_bad_ones_is_none(kind: str) -> None:
    _, numbers, bad = alone(kind, GOOD[kind])
    assert (numbers, bad) == (list(range(len(GOOD[kind]))), [])
    _, numbers, bad = alone(kind, BAD[kind])
    assert numbers == []
    assert len(bad) == len(BAD[kind]) - 2, "all but the blank ones"


def test_what_lines_say_is_what_rows_have() -> None:
    noon = datetime(2024, 5, 1, 12)  # noqa: DTZ001  # as Arrow gives times without a zone
    row = {"ts": noon, "src": 1, "name": "a"}
    assert alone("json", GOOD["json"][:1])[0] == [row]
    assert alone("csv", GOOD["csv"][:1])[0] == [row]
    names = [row["name"] for row in alone("csv", GOOD["csv"])[0]]
    assert names == ["a", None, "a,b", 'say "so"', "", "NA", 'a"b']


@pytest.mark.parametrize(
    ("kind", "line", "reason"),
    [
        ("json", b'{"src":"7"}', "src: '7' is no int32"),
        ("json", b'{"src":1.5}', "src: 1.5 is no int32"),
        ("json", b"hello", "the line is no JSON object"),
        ("json", b'{"src":1}{"src":2}', "it has several values"),
        ("csv", b"a,x,,", "src: 'x' is no int32"),
        ("csv", b"a,1", "it has 2 values, the first line 4 names"),
        ("csv", b'"a,1,,', "a quote in the line has no end: a row is one line"),
    ],
)
def test_reasons_are_for_people(kind: str, line: bytes, reason: str) -> None:
    assert [bad[:3] for bad in alone(kind, [line])[2]] == [(0, reason, line.decode())]


def test_a_mark_in_front_of_the_text_is_no_part_of_it() -> None:
    fed = Lines()
    fed.feed(b"\xef\xbb\xbf" + json.dumps({"src": 1}).encode() + b"\n")
    block = fed.take(1)
    assert block is not None
    assert JsonLines(SCHEMA).parse(block).batch.column("src").to_pylist() == [1]


@pytest.mark.parametrize(
    ("header", "error", "said"),
    [
        (b"name,src\n", SchemaError, "'ts' is not in the first line"),
        (b"ts,name,src,src\n", SchemaError, "'src' is twice in the first line"),
        (b"\xff\n", BadData, "names no columns"),
        (b"\n", SchemaError, "'ts' is not"),
    ],
)
def test_csv_says_its_columns_in_its_first_line(
    header: bytes, error: type[Exception], said: str
) -> None:
    with pytest.raises(error, match=said):
        Csv(SCHEMA, Block(header, 1))


def test_types_that_a_format_has_no_form_for_are_refused_at_once() -> None:
    with pytest.raises(SchemaError, match="interval"):
        JsonLines(pa.schema({"a": pa.month_day_nano_interval()}))
    with pytest.raises(SchemaError, match="struct"):
        Csv(pa.schema({"a": pa.struct({"b": pa.int32()})}), Block(b"a\n", 1))
