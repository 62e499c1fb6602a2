"""A column of lists, from files and programs through queries and journals, and out again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyarrow import parquet

import gapless as gl
from gapless.protocol.errors import GaplessError, RowError, SchemaError
from tests.gapless.command import Gapless

COLUMNS = {"ts": "int64", "who": "string", "tags": "list<string>"}
posts = gl.source("posts", COLUMNS, time="ts", lateness=5)
ROWS = [
    (1, "a", ["x", "y"]),
    (2, "b", []),
    (3, "a", None),
    (4, "c", ["x", None]),
    (5, "b", ["x", "y"]),
    (6, "d", ["x", "y"]),
]
LAYOUTS = [
    pa.list_(pa.field("element", pa.string())),
    pa.large_list(pa.string_view()),
    pa.list_view(pa.large_string()),
    pa.list_(pa.dictionary(pa.int8(), pa.string())),
]


def table(t: pa.DataType = LAYOUTS[0]) -> pa.Table:
    ts, who, tags = zip(*ROWS, strict=True)
    return pa.table({"ts": ts, "who": who, "tags": pa.array(tags, t)})


def events(query: Any, rows: Any) -> list[str]:
    """Payloads with their lives, in some order that the same query always has."""
    found = gl.execute(query, rows).to_arrow().to_pylist()
    return sorted(repr(tuple(row.values())) for row in found)


@pytest.mark.parametrize("t", LAYOUTS, ids=str)
def test_every_layout_gives_what_one_gives(t: pa.DataType) -> None:
    latest = posts.latest_by("who")
    assert events(latest, table(t)) == events(latest, table())
    assert events(latest, table(t).slice(1)) == events(latest, table().slice(1))
    assert len(events(latest, table())) == 6


def test_lists_pass_filters_and_are_kept_as_the_latest_of_their_key(tmp_path: Path) -> None:
    parquet.write_table(table(), tmp_path / "posts.parquet")
    query = posts.where(gl.call("list_value_length", gl.col("tags")) > 0).latest_by("who")
    found = gl.execute(query, tmp_path / "posts.parquet").to_pandas()
    assert [None if v is None else list(v) for v in found["tags"]] == [
        ["x", "y"],
        ["x", None],
        ["x", "y"],
        ["x", "y"],
    ]


def test_a_list_is_a_key_by_its_value() -> None:
    """Null, empty and with a null in it are three."""
    counted = posts.window("1m", slide="1m").group_by("tags").aggregate(n=gl.count())
    found = gl.execute(counted, table()).to_arrow().select(["tags", "n"]).to_pylist()
    assert sorted(repr(tuple(row.values())) for row in found) == [
        "(None, 1)",
        "(['x', 'y'], 3)",
        "(['x', None], 1)",
        "([], 1)",
    ]


def test_a_list_may_be_computed_whatever_layout_arrow_gives_it() -> None:
    slice_ = gl.call("list_slice", gl.col("tags"), start=0, stop=1, return_fixed_size_list=True)
    words = gl.call("split_pattern", gl.col("who"), pattern=",")
    query = posts.select("ts", first=slice_, words=words)
    assert str(query.schema.payload.field("first").type) == "list<item: string>"
    found = gl.execute(query, table()).to_arrow().to_pylist()
    assert [row["first"] for row in found] == [["x"], [None], None, ["x"], ["x"], ["x"]]
    assert [row["words"] for row in found] == [[who] for _, who, _ in ROWS]


def test_a_list_has_no_order_to_be_ranked_by() -> None:
    with pytest.raises(GaplessError, match="whose values have no order"):
        posts.top_k(1, by="tags")


def test_a_list_whose_element_does_not_fit_is_a_bad_row() -> None:
    small = gl.source("s", {"ts": "int64", "n": "list<int8>"}, time="ts", lateness=0)
    rows = pa.table({"ts": [1, 2, 3], "n": [[1], [2, 300], []]})
    with pytest.raises(RowError, match="the value is no list<item: int8>"):
        list(gl.execute(small, rows))
    aside = gl.execute(small.on_error("aside"), rows)
    assert aside.to_arrow().column("n").to_pylist() == [[1], []]


def test_a_cast_of_lists_fails_in_the_rows_that_it_fails_in_alone() -> None:
    numbers = gl.source("s", {"ts": "int64", "n": "list<int64>"}, time="ts", lateness=0)
    rows = pa.table({"ts": [1, 2, 3, 4], "n": [[1], [2, 300], [], None]})
    query = numbers.select("ts", n=gl.col("n").cast("list<int8>")).on_error("aside")
    assert gl.execute(query, rows).to_arrow().column("n").to_pylist() == [[1], [], None]


@pytest.mark.parametrize("written", ["map<string, int8>", "list<map<string, int8>>", "list<null>"])
def test_what_no_list_may_hold_is_refused_by_name(written: str) -> None:
    with pytest.raises(SchemaError, match="'tags"):
        gl.source("s", {"ts": "int64", "tags": written}, time="ts")


def test_a_journal_keeps_lists_and_gives_them_to_people_and_programs(
    gapless: Gapless, tmp_path: Path
) -> None:
    path = tmp_path / "j"
    with gl.JournalWriter(path, COLUMNS, time="ts", key="who", partitions=2) as writer:
        writer.append(table(LAYOUTS[1]))
        with pytest.raises(SchemaError, match="'tags' is list<item: int64>"):
            writer.append({"ts": [9], "who": ["e"], "tags": [[1]]})
    shown = gapless("journal", "show", path).out
    assert "list<item: string>" in shown
    for name in ("o.parquet", "o.arrow", "o.jsonl"):
        gapless("journal", "export", path, tmp_path / name)
    told = [json.loads(line) for line in (tmp_path / "o.jsonl").read_text().splitlines()]
    stored = parquet.read_table(tmp_path / "o.parquet").to_pylist()
    for rows in (told, stored):
        found = sorted(rows, key=lambda row: row["ts"])
        assert [row["tags"] for row in found] == [tags for *_, tags in ROWS]
    with gl.JournalReader(path) as reader:
        read = pa.Table.from_batches([frame.payload for frame in reader])
    assert events(posts, read.sort_by("ts")) == events(posts, table())
    outcome = gapless("journal", "export", path, tmp_path / "o.csv")
    assert outcome.code == 2
    assert "list" in outcome.err


def test_lines_of_json_have_lists_and_those_that_do_not_fit_are_rejected(
    gapless: Gapless, tmp_path: Path
) -> None:
    lines: list[dict[str, Any]] = [{"ts": ts, "who": who, "tags": tags} for ts, who, tags in ROWS]
    lines += [{"ts": 7, "who": "e", "tags": bad} for bad in (5, [5], {"a": "b"})]
    (tmp_path / "in.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    (tmp_path / "s.toml").write_text('ts = "int64"\nwho = "string"\ntags = "list<string>"\n')
    out = tmp_path / "j"
    options = ["--schema", tmp_path / "s.toml", "--time", "ts", "--out", out]
    told = gapless("ingest", tmp_path / "in.jsonl", *options, "--json").document
    assert (told["written"], told["rejected"]) == (6, 3)
    with gl.JournalReader(out) as reader:
        tags = [v for frame in reader for v in frame.payload.column("tags").to_pylist()]
    assert tags == [tags for *_, tags in ROWS]


def test_smallest_largest_and_distinct_of_lists_are_answered() -> None:
    found = gl.execute(
        posts.window("1m", slide="1m").aggregate(
            low=gl.min("tags"), high=gl.max("tags"), some=gl.count_distinct("tags")
        ),
        table(),
    ).to_arrow()
    assert found.select(["low", "high", "some"]).to_pylist() == [
        {"low": [], "high": ["x", None], "some": 3}
    ]
    assert pc.sum(found.column("some")).as_py() == 3


def test_lists_join_are_distinct_and_are_taken_away_by_their_values() -> None:
    """Null meets nothing in a join; in tables it is a value like any other."""
    left, right = (gl.source(name, COLUMNS, time="ts", lateness=5) for name in ("p", "q"))
    first, second = (query.window("1m", slide="1m") for query in (left, right))
    both = {"p": table(), "q": table(LAYOUTS[1])}
    assert gl.execute(first.join(second, on="tags"), both).to_arrow().num_rows == 3 * 3 + 1 + 1
    tags = gl.execute(first.select("tags").distinct(), table()).to_arrow()["tags"].to_pylist()
    assert sorted(tags, key=repr) == [None, ["x", "y"], ["x", None], []]
    early = right.where(gl.col("ts") < 4).window("1m", slide="1m").select("tags")
    rest = gl.execute(first.select("tags").difference(early), both).to_arrow()
    assert sorted(rest["tags"].to_pylist(), key=repr) == [["x", "y"]] * 2 + [["x", None]]
