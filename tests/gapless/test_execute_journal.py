from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import gapless as gl
from gapless.io import input_files as files
from gapless.journal.disk import LocalDisk
from gapless.journal.layout import Layout
from gapless.journal.writer import Writer
from tests.gapless.talkers import COLUMNS, answer, flows, latest, talkers

LATENESS_MS = 2_000
BATCH_ROWS = 700

SCHEMA = gl.StreamSchema({"more": "int64", **COLUMNS})


@pytest.fixture(scope="module")
def rows() -> pa.Table:
    rng = np.random.default_rng(1)
    ts = np.arange(20_000) * 5 - rng.integers(0, 4_000, 20_000)
    src = [f"host{n}" for n in rng.integers(0, 20, 20_000)]
    columns: list[Any] = [
        range(20_000),
        pa.array(np.maximum(ts, 0)).cast(pa.timestamp("ms")),
        src,
        rng.integers(-9, 99, 20_000),
    ]
    return pa.table(columns, names=SCHEMA.names).cast(SCHEMA.payload)


@pytest.fixture(scope="module")
def journal(rows: pa.Table, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path: Path = tmp_path_factory.mktemp("journals") / "netflow"
    writer = open_writer(path, segment_bytes=50_000)
    append(writer, rows)
    assert 100 < writer.rejected < 10_000
    return path  # with a live segment: nobody has closed it


@pytest.fixture(scope="module")
def taken(rows: pa.Table) -> pa.Table:
    """The rows that the rule of docs/journal.md leaves, in order of time."""
    kept = []
    watermark = -LATENESS_MS
    for start in range(0, len(rows), BATCH_ROWS):
        part = rows.slice(start, BATCH_ROWS)
        ts = part["ts"].cast(pa.int64()).to_numpy()
        kept.append(part.filter(pa.array(ts >= watermark)))
        watermark = max(watermark, int(ts.max()) - LATENESS_MS)
    return pa.concat_tables(kept).sort_by("ts")


def open_writer(path: Path, layout: Layout | None = None, **options: Any) -> Writer:
    layout = layout or Layout(SCHEMA, "ts", ("src",), 4, LATENESS_MS)
    return Writer(LocalDisk(path), layout, who="test", token="t", now_ms=lambda: 0, **options)


def append(writer: Writer, rows: pa.Table) -> None:
    for start in range(0, len(rows), BATCH_ROWS):
        [batch] = rows.slice(start, BATCH_ROWS).combine_chunks().to_batches()
        writer.append(batch)


@pytest.mark.parametrize("query", [talkers, latest], ids=["talkers", "latest"])
def test_a_journal_gives_what_the_rows_that_it_took_give(
    query: gl.Query, journal: Path, taken: pa.Table
) -> None:
    wanted = answer(query, taken)
    assert len(wanted.events) > 300
    assert answer(query, journal) == wanted
    assert answer(query, {"flows": str(journal)}, frame_rows=100) == wanted
    assert gl.table(query, journal).equals(gl.table(query, taken))
    assert gl.table(query, journal, at=35_000).equals(gl.table(query, taken, at=35_000))


def test_late_rows_are_the_journals_and_not_counted_again(journal: Path, taken: pa.Table) -> None:
    execution = gl.execute(talkers, journal)
    list(execution)
    assert execution.rows == {"flows": len(taken)}
    assert execution.late == {"flows": 0}
    assert execution.aside.take() == []


def test_answers_come_while_a_journal_is_read(journal: Path) -> None:
    execution = gl.execute(talkers, journal, frame_rows=1000)
    first = next(frame for frame in execution if len(frame))
    assert first.stable is not None
    assert execution.rows["flows"] < 8_000
    execution.close()


def test_a_journal_is_joined_with_another_and_with_a_table(
    journal: Path, taken: pa.Table, tmp_path: Path
) -> None:
    racks = gl.StreamSchema({"src": "string", "rack": "int32", "ts": "timestamp[ms]"})
    hosts = gl.source("hosts", racks.payload, time="ts")
    query = flows.window("5s").join(hosts.latest_by("src"), on="src").select("src", "rack", "len")
    names = [f"host{n}" for n in range(0, 20, 2)]
    columns = [pa.array(names), pa.array(range(10), pa.int32()), pa.array([0] * 10)]
    table = pa.table(columns, names=racks.names).cast(racks.payload)
    writer = open_writer(tmp_path / "hosts", Layout(racks, "ts", ("src",), 4, 0))
    append(writer, table)
    writer.end()
    wanted = answer(query, {"flows": taken, "hosts": table})
    assert len(wanted.events) > 5_000
    assert answer(query, {"flows": journal, "hosts": table}) == wanted
    assert answer(query, {"flows": journal, "hosts": tmp_path / "hosts"}) == wanted


def test_a_journal_is_read_to_the_end_of_what_is_there_when_it_is_reached(tmp_path: Path) -> None:
    layout = Layout(gl.StreamSchema({"ts": "int64"}), "ts")
    query = gl.source("flows", {"ts": "int64"}, time="ts")

    def write(*times: int) -> None:
        writer.append(pa.record_batch([times], schema=layout.schema.payload))

    writer = open_writer(tmp_path, layout)
    write(1, 2, 3)
    execution = gl.execute(query, tmp_path, frame_rows=3)
    write(4, 5, 6)
    assert [len(next(execution)), len(next(execution))] == [3, 3]
    write(7)
    assert [len(frame) for frame in execution] == [1, 0]
    write(8)
    assert list(execution) == []
    assert len(answer(query, tmp_path).events) == 8


def test_only_the_columns_of_the_source_are_read(journal: Path) -> None:
    first = next(files.journal_rows(journal, flows.sources["flows"], 100)).frame
    assert first.schema == flows.schema
    assert len(first) <= 100


# -- what is refused --------------------------------------------------------------------------


def test_a_smaller_lateness_than_the_journals_is_an_error_when_the_query_is_run(
    journal: Path,
) -> None:
    hasty = gl.source("flows", COLUMNS, time="ts", lateness="1s").latest_by("src")
    with pytest.raises(gl.Misuse, match=r"lateness 1 s, and the journal took .* 2 s late") as e:
        gl.execute(hasty, journal)
    assert f"source flows over journal {str(journal)!r}" in str(e.value)
    with pytest.raises(gl.Misuse, match="declared in order"):
        gl.table(gl.source("flows", COLUMNS, time="ts", lateness=0), journal)


def test_a_journal_of_frames_has_no_rows(tmp_path: Path) -> None:
    open_writer(tmp_path, Layout(gl.StreamSchema(COLUMNS)))
    with pytest.raises(gl.Misuse, match="the frames that a merger delivered"):
        gl.execute(latest, tmp_path)


def test_a_journal_is_no_file_among_others(journal: Path) -> None:
    with pytest.raises(gl.Misuse, match="is a journal, not a file"):
        gl.execute(latest, [journal, journal])


def test_a_column_that_is_not_there_is_named(journal: Path) -> None:
    query = gl.source("flows", {**COLUMNS, "dst": "string"}, time="ts")
    with pytest.raises(gl.SchemaError, match="column 'dst' is not in the journal"):
        gl.execute(query, journal)


def test_damage_has_a_name_and_ends_the_query(journal: Path, tmp_path: Path) -> None:
    for path in journal.rglob("*"):
        if path.is_file():
            copy = tmp_path / path.relative_to(journal)
            copy.parent.mkdir(exist_ok=True)
            copy.write_bytes(path.read_bytes())
    victim = sorted((tmp_path / "segments").iterdir())[2]
    data = bytearray(victim.read_bytes())
    data[len(data) // 2] ^= 1
    victim.write_bytes(data)
    execution = gl.execute(latest, tmp_path)
    with pytest.raises(gl.BadData, match=victim.name):
        list(execution)
    with pytest.raises(gl.Misuse, match="failed before"):
        next(execution)


def test_a_folder_without_a_layout_is_none(tmp_path: Path) -> None:
    with pytest.raises(gl.Misuse, match="has no files that end in"):
        gl.execute(latest, tmp_path)
