"""Changelogs of other engines through a sidecar: pushed by copies that tell them differently, read
back as one changelog; by programs, and by a person at a shell.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet

from gapless.changelog import Changes, FinalChanges, Retractions, Revisions, Upserts
from gapless.protocol.elements import INF
from gapless.protocol.schema import StreamSchema
from gapless.protocol.tdb import Tdb
from gapless.sidecar.client.consumer import Consumer
from gapless.sidecar.client.producer import Producer
from tests.sidecar.helpers import PATIENCE_S, Caller, frame_of, read_until, sidecar
from tests.sidecar.test_commands import gapless, process

LOADS = StreamSchema({"id": "string", "load": "int32"})
Row = tuple[str, int, str, int | None]

UPSERTS: list[list[Row]] = [
    [("+I", 1, "a", 10), ("+I", 2, "b", 20)],
    [("+U", 5, "a", 11), ("+U", 6, "b", 20), ("-D", 9, "b", None)],
    [("+I", 12, "b", 21)],
]
"""By key, cut by their engine, with an update that changes nothing."""
RETRACTIONS: list[list[Row]] = [
    [("+I", 2, "b", 20)],
    [("+U", 5, "a", 11), ("-U", 5, "a", 10), ("+I", 1, "a", 10), ("-D", 9, "b", 20)],
    [("+I", 12, "b", 21)],
]
"""The same table by row, in another order, other batches."""
TABLE = "ins((a,10),1,5) ins((a,11),5,inf) ins((b,20),2,9) ins((b,21),12,inf)"
CHANGES = [
    ("+I", 1, ("a", 10)),
    ("+I", 2, ("b", 20)),
    ("-U", 5, ("a", 10)),
    ("+U", 5, ("a", 11)),
    ("-D", 9, ("b", 20)),
    ("+I", 12, ("b", 21)),
]
END = 20


def changes_of(rows: list[Row]) -> Changes:
    names = ["op", "ts", "id", "load"]
    types = [pa.string(), pa.int64(), pa.string(), pa.int32()]
    columns = [pa.array(c, t) for c, t in zip(zip(*rows, strict=True), types, strict=True)]
    return Changes.of(pa.RecordBatch.from_arrays(columns, names=names), LOADS)


def table() -> Tdb:
    table = Tdb(LOADS)
    table.fold(frame_of(f"{TABLE} stable({END})", LOADS))
    return table


def push_both(address: str) -> None:
    """Both copies, a batch of one and a batch of the other."""
    by_key, by_row = Upserts(LOADS, ["id"]), Retractions(LOADS)
    with (
        Producer(address, "loads", "flink-1", LOADS) as one,
        Producer(address, "loads", "flink-2", LOADS) as two,
    ):
        for first, second in zip(UPSERTS, RETRACTIONS, strict=True):
            one.push(by_key.push(changes_of(first), watermark=1))
            two.push(by_row.push(changes_of(second), watermark=1))
        two.stable(END)
        one.stable(END)


def divergences(address: str) -> int:
    with Caller(address) as caller:
        (status,) = caller.status("loads").streams
    return status.divergences


def read_changes(address: str, key: list[str]) -> list[tuple[Any, ...]]:
    """What a consumer's writer hands out."""
    writer, said = FinalChanges(LOADS, key), []
    with Consumer(address, "loads", start="earliest") as frames:
        while writer.stable < END:
            frame = frames.next(PATIENCE_S)
            assert frame is not None
            said += writer.push(frame).changes.to_list()
    return said


def test_two_copies_in_different_order_are_one_table(tmp_path: Path) -> None:
    with sidecar(tmp_path) as one:
        push_both(one.address)
        with Consumer(one.address, "loads", start="earliest") as consumer:
            assert read_until(consumer, END, LOADS) == table()
        assert divergences(one.address) == 0


def test_it_is_read_back_as_the_changelog_that_it_was(tmp_path: Path) -> None:
    with sidecar(tmp_path) as one:
        push_both(one.address)
        assert read_changes(one.address, ["id"]) == CHANGES


def test_one_copy_dies_in_the_middle_and_its_changelog_goes_on(tmp_path: Path) -> None:
    with sidecar(tmp_path) as one:
        by_key = Upserts(LOADS, ["id"])
        dying = Producer(one.address, "loads", "flink-1", LOADS)
        dying.push(by_key.push(changes_of(UPSERTS[0]), watermark=2))
        assert dying.flush(PATIENCE_S)
        dying.abandon()
        by_row = Retractions(LOADS)
        with Producer(one.address, "loads", "flink-2", LOADS) as two:
            for rows in RETRACTIONS:
                two.push(by_row.push(changes_of(rows)))
            two.stable(END)
        assert read_changes(one.address, ["id"]) == CHANGES


def test_revisions_at_once_read_again_are_the_table(tmp_path: Path) -> None:
    with sidecar(tmp_path) as one:
        push_both(one.address)
        reader, read = Revisions(LOADS), Tdb(LOADS)
        with Consumer(one.address, "loads", start="earliest") as frames:
            while read.stable < END:
                frame = frames.next(PATIENCE_S)
                assert frame is not None
                read.fold(reader.push(Changes.of_frame(frame), frame.stable))
        assert read == table()


def test_a_copy_that_loses_a_delete_tells_another_table(tmp_path: Path) -> None:
    """Whether the tests above can fail."""
    lost = [[row for row in rows if row[0] != "-D"] for rows in UPSERTS]
    with sidecar(tmp_path) as one:
        by_key = Upserts(LOADS, ["id"])
        with Producer(one.address, "loads", "flink-1", LOADS) as a:
            for rows in lost:
                a.push(by_key.push(changes_of(rows), watermark=1))
            a.stable(END)
        assert read_changes(one.address, ["id"]) != CHANGES
        with Consumer(one.address, "loads", start="earliest") as consumer:
            assert read_until(consumer, END, LOADS) != table()


# -- at a shell ------------------------------------------------------------------------------------


def flink_file(path: Path) -> Path:
    rows = [row for rows in UPSERTS for row in rows]
    names = ("op", "ts", "id", "load")
    path.write_text("".join(json.dumps(dict(zip(names, row, strict=True))) + "\n" for row in rows))
    return path


def debezium_file(path: Path) -> Path:
    row = pa.struct([("id", pa.string()), ("load", pa.int32())])
    images = [
        ("c", 1, None, ("a", 10)),
        ("c", 2, None, ("b", 20)),
        ("u", 5, ("a", 10), ("a", 11)),
        ("d", 9, ("b", 20), None),
        (None, None, None, None),
        ("c", 12, None, ("b", 21)),
    ]
    ops, times, before, after = zip(*images, strict=True)
    parquet.write_table(
        pa.table(
            {
                "before": pa.array([v and dict(zip(("id", "load"), v)) for v in before], row),  # noqa: B905  # two and two
                "after": pa.array([v and dict(zip(("id", "load"), v)) for v in after], row),  # noqa: B905  # two and two
                "op": pa.array(ops, pa.string()),
                "ts_ms": pa.array(times, pa.int64()),
            }
        ),
        path,
    )
    return path


def test_a_person_pushes_two_forms_of_a_changelog_and_reads_one(tmp_path: Path) -> None:
    flink, debezium = flink_file(tmp_path / "flink.jsonl"), debezium_file(tmp_path / "d.parquet")
    columns = ("--schema", "id:string,load:int32")
    with process(tmp_path / "data") as (_, address):
        at = ("--sidecar", address)
        to = ("--stream", "loads", "--by", "id", *at)
        said = gapless("push", flink, "--name", "flink", "--changelog", "flink", *columns, *to)
        assert said.startswith("6 changes: 1 frames, ")
        pushed = gapless(
            "push", debezium, "--name", "pg", "--changelog", "debezium", "--end", "--json", *to
        )
        assert json.loads(pushed)["changes"] == 6
        read = ("tail", "loads", "--start", "earliest", "--changelog")
        lines = gapless(*read, "flink", "--by", "id", *at).splitlines()
        assert [line for line in lines if not line.startswith("--")] == [
            f"{kind} {time} ({name},{load})" for kind, time, (name, load) in CHANGES
        ]
        envelopes = [
            json.loads(line)
            for line in gapless(*read, "debezium", "--by", "id", "--json", *at).splitlines()
        ]
        assert [(e["op"], e["ts_ms"]) for e in envelopes] == [
            ("c", 1),
            ("c", 2),
            ("u", 5),
            ("d", 9),
            ("c", 12),
        ]


@pytest.mark.parametrize("eager", [False, True])
def test_what_tail_prints_as_json_push_reads(tmp_path: Path, eager: bool) -> None:
    with process(tmp_path) as (_, address):
        with Producer(address, "loads", "a", LOADS) as a:
            a.push(frame_of(f"{TABLE} stable({INF})", LOADS))
        at = ("--sidecar", address)
        more = ("--eager",) if eager else ()
        read = gapless(
            "tail", "loads", "--start", "earliest", "--changelog", "flink", "--json", *more, *at
        )
        until = ("--until", "end") if eager else ()
        gapless(
            *("push", "-", "--stream", "again", "--name", "b", "--changelog", "flink", "--end"),
            *("--schema", "id:string,load:int32", *until, *at),
            stdin=read,
        )
        with Consumer(address, "again", start="earliest") as consumer:
            again = read_until(consumer, INF, LOADS)
        told = Tdb(LOADS)
        told.fold(frame_of(f"{TABLE} stable({INF})", LOADS))
        assert again == told
