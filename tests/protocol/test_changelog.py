"""Changes as columns, from Arrow and to Arrow; Debezium's envelopes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gapless.protocol.changelog import KINDS, WORDS, Changes
from gapless.protocol.debezium import from_debezium, to_debezium
from gapless.protocol.elements import BEGIN, INF
from gapless.protocol.errors import ChangeError, Misuse, SchemaError
from gapless.protocol.frame import Frame
from gapless.protocol.schema import StreamSchema
from gapless.protocol.text import parse
from tests.protocol.strategies import frames, schemas

SCHEMA = StreamSchema({"k": "string", "v": "int32"})
ROW = pa.struct([("k", pa.string()), ("v", pa.int32())])


def batch(**columns: Any) -> pa.RecordBatch:
    n = max(len(c) for c in columns.values())
    return pa.RecordBatch.from_pydict(
        {"k": ["A"] * n, "v": pa.array([1] * n, pa.int32())} | columns
    )


# -- reading columns ------------------------------------------------------------------------------


def test_every_word_for_a_kind_is_read_in_every_layout() -> None:
    words = list(WORDS)
    for t in (pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int32(), "utf8")):
        column = pa.array(words).cast(t)
        changes = Changes.of(batch(op=column, ts=[1] * len(words)), SCHEMA)
        assert changes.kinds.tolist() == [WORDS[word] for word in words]
    for t in (pa.int8(), pa.uint8(), pa.int64()):
        changes = Changes.of(batch(op=pa.array(range(4), t), ts=[1] * 4), SCHEMA)
        assert [KINDS[kind] for kind in changes.kinds] == ["+I", "-U", "+U", "-D"]
        assert changes.is_plus.tolist() == [True, False, True, False]


@pytest.mark.parametrize(
    ("columns", "row", "what"),
    [
        ({"op": ["+I", "what"], "ts": [1, 2]}, 1, "op is 'what' (use +I"),
        ({"op": ["+I", None], "ts": [1, 2]}, 1, "op is None"),
        ({"op": [0, 4], "ts": [1, 2]}, 1, "op is 4"),
        ({"op": ["+I", "+I"], "ts": [1, None]}, 1, "ts is null"),
        ({"op": ["+I", "+I"], "ts": [1, INF]}, 1, "ts is inf"),
        ({"op": ["+I", "+I"], "ts": [BEGIN, 1]}, 0, "ts is begin"),
    ],
)
def test_a_row_that_is_none_is_named(columns: dict[str, Any], row: int, what: str) -> None:
    with pytest.raises(ChangeError) as caught:
        Changes.of(batch(**columns), SCHEMA)
    assert caught.value.row == row
    assert str(caught.value).startswith(f"row {row}: {what}")


def test_a_lifetime_that_is_empty_is_named() -> None:
    with pytest.raises(ChangeError, match=r"row 1: the lifetime \[5, 5\) is empty"):
        Changes.of(batch(op=["+", "-"], ts=[1, 5], te=[INF, 5]), SCHEMA, end="te")


def test_columns_that_do_not_fit_are_named() -> None:
    good = {"op": ["+I"], "ts": [1]}
    for wrong, match in (
        ({"op": [1.5]}, "a kind is a string"),
        ({"ts": ["now"]}, "cast it to int64, or a timestamp in ms"),
        ({"ts": pa.array([1], pa.timestamp("ns"))}, "timestamp in ms"),
        ({"v": pa.array([1], pa.int64())}, "'v' is int64: cast it to int32"),
    ):
        with pytest.raises(SchemaError, match=match):
            Changes.of(batch(**(good | wrong)), SCHEMA)
    with pytest.raises(SchemaError, match="needs one column 'when'"):
        Changes.of(batch(**good), SCHEMA, time="when")
    with pytest.raises(Misuse, match="RecordBatch"):
        Changes.of(pa.table({"op": ["+I"]}), SCHEMA)


def test_a_time_may_be_a_timestamp_and_one_of_the_payload() -> None:
    schema = StreamSchema({"k": "string", "at": "timestamp[ms]"})
    rows = pa.record_batch({"op": ["+I"], "k": ["A"], "at": pa.array([7], pa.timestamp("ms"))})
    changes = Changes.of(rows, schema, time="at")
    assert changes.to_list() == [("+I", 7, ("A", 7))]


def test_a_plus_has_what_the_schema_requires_and_a_minus_need_not() -> None:
    fields = [pa.field("k", pa.string(), nullable=False), pa.field("v", pa.int32(), nullable=False)]
    schema = StreamSchema(pa.schema(fields))
    rows = {"op": ["+I", "-D", "+U", "+U", "+U"], "ts": [1] * 5, "k": ["A"] * 5}
    values = pa.array([1, None, 2, None, None], pa.int32())
    changes = Changes.of(batch(**rows, v=values), schema)
    with pytest.raises(ChangeError, match="row 3: no value in column v"):
        changes.check_pluses()
    changes.take(np.array([0, 1, 2])).check_pluses()


# -- writing columns ------------------------------------------------------------------------------


@given(schemas().flatmap(frames), st.sampled_from(["flink", "number"]))
def test_what_is_written_is_read_as_it_was(frame: Frame, words: Any) -> None:
    there = Changes.of_frame(frame)
    written = there.to_arrow(kind="_op", time="_from", end="_to", words=words)
    back = Changes.of(written, frame.schema, kind="_op", time="_from", end="_to")
    assert back.to_list() == there.to_list()


def test_kinds_are_written_in_other_words() -> None:
    changes = Changes.of(batch(op=["+I", "-U", "+U", "-D"], ts=[1, 2, 2, 3]), SCHEMA)
    assert changes.to_arrow()["op"].to_pylist() == ["+I", "-U", "+U", "-D"]
    opened = changes.to_arrow(words="open/close")
    assert opened["op"].to_pylist() == ["open", "close", "open", "close"]
    assert changes.to_arrow(words="+/-")["op"].to_pylist() == ["+", "-", "+", "-"]
    with pytest.raises(Misuse, match="flink"):
        changes.to_arrow(words="french")
    with pytest.raises(SchemaError, match="'k'"):
        changes.to_arrow(kind="k")


def test_a_frame_is_told_as_lifetimes_given_and_taken_back() -> None:
    text = "ins((A,1),6,20) adj((A,1),6,20,30) adj((A,1),6,30,6) stable(11)"
    frame = Frame.from_elements(SCHEMA, parse(text, SCHEMA))
    assert [change[:3] for change in Changes.of_frame(frame).to_list()] == [
        ("+I", 6, 20),
        ("-U", 6, 20),
        ("+U", 6, 30),
        ("-D", 6, 30),
    ]


# -- Debezium -------------------------------------------------------------------------------------


def envelopes(*rows: tuple[Any, Any, Any, Any]) -> pa.RecordBatch:
    before, after, ops, times = zip(*rows, strict=True)
    return pa.record_batch(
        {
            "before": pa.array(before, ROW),
            "after": pa.array(after, ROW),
            "op": pa.array(ops, pa.string()),
            "ts_ms": pa.array(times, pa.int64()),
        }
    )


def row(k: str, v: int) -> dict[str, Any]:
    return {"k": k, "v": v}


def test_envelopes_become_changes() -> None:
    log = envelopes(
        (None, row("B", 0), "r", 1),
        (None, row("A", 1), "c", 2),
        (row("A", 1), row("A", 2), "u", 5),
        (None, row("A", 3), "u", 6),
        (row("A", 3), None, "d", 9),
        (None, None, None, None),
    )
    changes = from_debezium(log, SCHEMA)
    assert changes.to_list() == [
        ("+I", 1, ("B", 0)),
        ("+I", 2, ("A", 1)),
        ("-U", 5, ("A", 1)),
        ("+U", 5, ("A", 2)),
        ("+U", 6, ("A", 3)),
        ("-D", 9, ("A", 3)),
    ]
    assert [changes.row(i) for i in range(6)] == [0, 1, 2, 2, 3, 4]


@pytest.mark.parametrize(
    ("envelope", "keyed", "what"),
    [
        ((None, row("A", 1), "u", 1), False, "no before"),
        ((None, None, "d", 1), True, "no before"),
        ((row("A", 1), None, "u", 1), True, "no after"),
        ((None, None, "c", 1), True, "no after"),
        ((None, None, "t", 1), True, "op is 't' \\(a truncate"),
        ((None, None, "x", 1), True, "op is 'x'"),
        ((None, row("A", 1), "c", None), True, "ts_ms is null"),
        ((None, row("A", 1), "c", INF), True, "ts_ms is"),
    ],
)
def test_an_envelope_that_lacks_something_is_named(
    envelope: tuple[Any, Any, Any, Any], keyed: bool, what: str
) -> None:
    log = envelopes((None, None, None, None), envelope)
    with pytest.raises(ChangeError, match=f"row 1: {what}"):
        from_debezium(log, SCHEMA, keyed=keyed)


def test_columns_of_envelopes_that_do_not_fit_are_named() -> None:
    log = envelopes((None, row("A", 1), "c", 1))
    with pytest.raises(SchemaError, match="struct"):
        from_debezium(log, SCHEMA, after="ts_ms")
    with pytest.raises(SchemaError, match="op is a string"):
        from_debezium(log, SCHEMA, op="ts_ms")
    with pytest.raises(SchemaError, match="ts_us"):
        from_debezium(log, StreamSchema(SCHEMA.payload, "us"))
    with pytest.raises(Misuse, match="time="):
        from_debezium(log, StreamSchema(SCHEMA.payload, "s"))
    for none in (log.slice(0, 0), log.set_column(0, "before", pa.nulls(1))):
        assert len(from_debezium(none, SCHEMA)) == none.num_rows


def test_changes_become_envelopes_and_these_the_same_changes() -> None:
    said = batch(
        op=["+I", "-U", "+U", "-D", "+U"],
        ts=[1, 5, 5, 9, 10],
        k=["A", "A", "A", "A", "B"],
        v=pa.array([1, 1, 2, 2, None], pa.int32()),
    )
    changes = Changes.of(said, SCHEMA)
    log = to_debezium(changes)
    assert log["op"].to_pylist() == ["c", "u", "d", "u"]
    assert log["before"].to_pylist() == [None, row("A", 1), row("A", 2), None]
    assert log["after"].to_pylist() == [row("A", 1), row("A", 2), None, {"k": "B", "v": None}]
    assert from_debezium(log, SCHEMA).to_list() == changes.to_list()
    assert len(to_debezium(Changes.none(SCHEMA))) == 0


def test_what_is_no_envelope_is_refused() -> None:
    for ops, times in ((["-U", "+U"], [1, 2]), (["-U", "-D"], [1, 1]), (["+I", "-U"], [1, 2])):
        with pytest.raises(Misuse, match="its \\+U is not behind it"):
            to_debezium(Changes.of(batch(op=ops, ts=times), SCHEMA))
    timed = Changes.of(batch(op=["+"], ts=[1], te=[2]), SCHEMA, end="te")
    with pytest.raises(Misuse, match="how long"):
        to_debezium(timed)
