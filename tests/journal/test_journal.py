"""Writer and reader against the plainest rules, for any batches, partitions, segments, frames."""

from __future__ import annotations

import errno
import random
import shutil
from collections.abc import Callable
from itertools import chain
from pathlib import Path
from typing import Any

import pytest

from gapless.journal import judge
from gapless.journal import writer as writer_module
from gapless.journal.agenda import Agenda
from gapless.journal.commit import Commits
from gapless.journal.disk import Disk, LocalDisk, Mapped
from gapless.journal.layout import Layout
from gapless.journal.reader import Reader
from gapless.journal.writer import Writer
from gapless.protocol.elements import BEGIN, INF
from gapless.protocol.errors import Fenced, JournalError, Misuse, SchemaError
from gapless.protocol.frame import Frame
from tests.effort import cases
from tests.journal.journals import (
    SCHEMA,
    Row,
    batch,
    by_partition,
    drain,
    expected,
    layout,
    memory,
    random_batches,
    read_all,
    rows_of,
    writer,
)

SEEDS = range(cases(40))


def check_readers_see_what_the_rules_say(seed: int) -> None:
    rng = random.Random(seed)
    shape = layout(partitions=rng.choice((1, 2, 3, 5)), lateness=rng.choice((0, 5, 30)))
    batches = random_batches(rng, 40)
    said = expected(batches, shape.lateness)
    disk = memory()
    out = writer(disk, shape=shape, segment_bytes=rng.choice((1, 3_000, 1 << 20)))
    readers = [
        Reader(disk, partitions=parts, frame_rows=rng.choice((1, 7, 1000)))
        for parts in (None, [0], [shape.partitions - 1])
    ]
    seen: list[list[Row]] = [[], [], []]
    for i, rows in enumerate(batches):
        made = out.append(batch(rows))
        out.validate()
        assert (made.batch, made.rows, made.rejected) == (i, len(said.kept[i]), len(said.late[i]))
        assert made.stable == said.stables[i]
        if rng.random() < 0.5:
            for j, reader in enumerate(readers):
                seen[j] += drain(reader)
                assert reader.stable == said.stables[i]
                assert reader.position == {
                    p: len(by_partition(list(chain(*said.kept[: i + 1])), shape.partitions)[p])
                    for p in reader.position
                }
        if rng.random() < 0.1:
            out.seal()
    out.close()
    wanted = by_partition(list(chain(*said.kept)), shape.partitions)
    for j, reader in enumerate(readers):
        seen[j] += drain(reader)
        assert reader.stable == said.stables[-1]
        found = by_partition(seen[j], shape.partitions)
        assert found == {p: wanted[p] if p in reader.position else [] for p in wanted}


@pytest.mark.parametrize("seed", SEEDS)
def test_readers_see_what_the_rules_say(seed: int) -> None:
    check_readers_see_what_the_rules_say(seed)


def test_a_watermark_that_counts_the_batch_itself_is_caught(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    parted = judge.parted

    def too_soon(rows: Any, shape: Layout, watermark: int, _: object) -> judge.Parted:
        times = [t for t in rows.column(0).to_pylist() if t is not None]
        return parted(rows, shape, max([watermark, *(t - shape.lateness for t in times)]))

    monkeypatch.setattr(writer_module, "parted", too_soon)
    assert any(fails(check_readers_see_what_the_rules_say, seed) for seed in range(5))


def test_a_reader_that_forgets_partitions_without_rows_is_caught(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Their watermark is recorded, too: without it a reader of them waits for ever."""
    pass_over = Agenda._pass_over

    def silent(agenda: Agenda, end: int, read: Any, but: Any = None) -> Any:
        group = pass_over(agenda, end, read, but)
        return group if but is not None else group._replace(stable=BEGIN)

    monkeypatch.setattr(Agenda, "_pass_over", silent)
    assert any(fails(check_readers_see_what_the_rules_say, seed) for seed in range(5))


def fails(check: Callable[[int], None], seed: int) -> bool:
    try:
        check(seed)
    except AssertionError:
        return True
    return False


@pytest.mark.parametrize("seed", SEEDS)
def test_a_reader_goes_on_from_any_position(seed: int) -> None:
    rng = random.Random(seed)
    disk, batches = memory(), random_batches(rng, 25)
    out = writer(disk, segment_bytes=rng.choice((1, 3_000, 1 << 20)))
    for rows in batches:
        out.append(batch(rows))
    whole = by_partition(read_all(disk), 3)
    first = Reader(disk, frame_rows=rng.choice((1, 5, 40)))
    seen: list[Row] = []
    for _ in range(rng.randrange(1, 12)):
        if (frame := first.read()) is not None:
            seen += rows_of(frame)
    if rng.random() < 0.5:
        out.close()
    second = Reader(disk, start=first.position, frame_rows=rng.choice((1, 5, 40)))
    seen += drain(second)
    assert by_partition(seen, 3) == whole
    assert second.stable == out.stable


@pytest.mark.parametrize("seed", SEEDS)
def test_rows_from_a_time_on_are_all_there_and_segments_before_it_are_not_touched(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = random.Random(seed)
    disk, batches = memory(), random_batches(rng, 60)
    with_times = writer(disk, segment_bytes=600)
    for rows in batches:
        with_times.append(batch(rows))
    with_times.close()
    everything = read_all(disk)
    t = rng.choice([r[0] for r in everything if r[0] is not None])
    facts = Commits(disk, with_times.layout).facts.to_pylist()
    old = {f["segment"] for f in facts} - {f["segment"] for f in facts if f["largest"] >= t}
    mapped: list[str] = []
    take = disk.map

    def watched(name: str, length: int) -> Mapped:
        mapped.append(name)
        return take(name, length)

    monkeypatch.setattr(disk, "map", watched)
    since = read_all(disk, since=t)
    assert not old & set(mapped)
    assert sorted(r[2] for r in since if r[0] is not None and r[0] >= t) == sorted(
        r[2] for r in everything if r[0] is not None and r[0] >= t
    )


def test_what_is_skipped_counts_as_read() -> None:
    disk = memory()
    out = writer(disk, shape=layout(partitions=1), segment_bytes=1)
    for i in range(20):
        out.append(batch([(100 + 10 * i, "a", i)]))
    reader = Reader(disk, frame_rows=1)
    reader.read()
    reader.skip_before(250)
    assert [r[2] for r in drain(reader)] == list(range(15, 20))
    assert reader.position == {0: 20}
    assert reader.stable == out.stable


def test_a_reader_that_starts_at_the_end_sees_only_what_comes(disk: Disk) -> None:
    out = writer(disk)
    out.append(batch([(100, "a", 1), (101, "b", 2)]))
    reader = Reader(disk, start="end")
    assert drain(reader) == []
    out.append(batch([(102, "a", 3)]))
    out.close()
    assert drain(reader) == [(102, "a", 3)]


def test_columns_are_chosen_and_named_where_they_are_not_there(disk: Disk) -> None:
    out = writer(disk)
    out.append(batch([(100, "a", 1)]))
    frame = Reader(disk, columns=["n", "ts"]).read()
    assert frame is not None
    assert frame.schema.names == ["n", "ts"]
    assert frame.payload.to_pylist() == [{"n": 1, "ts": 100}]
    with pytest.raises(SchemaError, match="'x' is none of ts, src, n"):
        Reader(disk, columns=["x"])


def test_an_ended_journal_promises_everything_and_takes_nothing(disk: Disk) -> None:
    out = writer(disk)
    reader = Reader(disk)
    out.append(batch([(100, "a", 1)]))
    out.end()
    assert drain(reader) == [(100, "a", 1)]
    assert reader.ended
    assert reader.stable == INF
    with pytest.raises(Misuse, match="has been ended"):
        out.append(batch([]))
    with pytest.raises(Misuse, match="has ended"):
        writer(disk, "w2")


def test_rejected_rows_are_lines_with_reason_origin_and_row(tmp_path: Path) -> None:
    out = writer(LocalDisk(tmp_path))
    out.append(batch([(100, "a", 1), (None, "b", 2)]))
    out.append(batch([(10, "c", 3)]))
    out.close()
    (path,) = (tmp_path / "rejects").iterdir()
    assert path.read_text() == (
        '{"batch": 0, "reason": "ts is null: no time", "origin": "batch 0", '
        '"row": {"ts": null, "src": "b", "n": 2}}\n'
        '{"batch": 1, "reason": "late: below the watermark 95", "origin": "batch 1", '
        '"row": {"ts": 10, "src": "c", "n": 3}}\n'
    )
    assert out.rejected == 2


# -- two writers ----------------------------------------------------------------------------------


def test_the_later_writer_wins_and_nothing_of_the_other_shows(disk: Disk) -> None:
    first = writer(disk, "w1")
    first.append(batch([(100, "a", 1)]))
    second = writer(disk, "w2")
    with pytest.raises(Fenced, match="writer w2 has taken the journal over with epoch 2"):
        first.append(batch([(101, "a", 2)]))
    second.append(batch([(102, "a", 3)]))
    with pytest.raises(Misuse, match="writes no more"):
        first.append(batch([(103, "a", 4)]))
    second.close()
    assert [r[2] for r in read_all(disk)] == [1, 3]
    assert second.batches == 2


def test_a_fenced_writer_cannot_seal_either(disk: Disk) -> None:
    first = writer(disk, "w1")
    first.append(batch([(100, "a", 1)]))
    writer(disk, "w2")
    with pytest.raises(Fenced):
        first.seal()
    assert read_all(disk) == [(100, "a", 1)]


def test_a_reader_of_the_live_segment_stops_at_the_cut(disk: Disk) -> None:
    """The zombie's bytes lie behind the cut; the reader that was in the middle never sees them."""
    first = writer(disk, "w1")
    reader = Reader(disk)
    first.append(batch([(100, "a", 1)]))
    assert [r[2] for r in drain(reader)] == [1]
    second = writer(disk, "w2")
    with pytest.raises(Fenced):
        first.append(batch([(101, "a", 2)]))
    assert drain(reader) == []
    second.append(batch([(105, "a", 3)]))
    assert [r[2] for r in drain(reader)] == [3]


def test_a_journal_is_opened_with_the_layout_that_it_has(disk: Disk) -> None:
    writer(disk).close()
    with pytest.raises(Misuse, match="is there, and has partitions 3, not 4; lateness 5, not 9"):
        writer(disk, shape=layout(4, 9))
    with pytest.raises(Misuse, match="is not a journal"):
        Reader(memory())


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"time": "at"}, "time 'at' is none of the columns"),
        ({"time": "src"}, "int64 or timestamp"),
        ({"partitions": 0}, "partitions 0: 1 to"),
        ({"lateness": -1}, "not negative"),
        ({"key": ()}, "need key="),
        ({"key": ("x",)}, "'x'"),
        ({"time": None}, "no key and no lateness"),
    ],
)
def test_a_layout_that_makes_no_sense_is_refused(given: dict[str, Any], said: str) -> None:
    options: dict[str, Any] = {"time": "ts", "key": ("src",), "partitions": 3, "lateness": 5}
    with pytest.raises(Misuse, match=said):
        Layout(SCHEMA, **(options | given))


def test_what_does_not_fit_is_refused_before_anything_is_written(disk: Disk) -> None:
    out = writer(disk)
    with pytest.raises(SchemaError, match="holds batches of"):
        out.append(batch([]).select(["ts"]))
    with pytest.raises(Misuse, match="append record batches, not frames"):
        out.append(Frame.empty(SCHEMA))
    assert out.batches == 0


def test_an_append_whose_seal_finds_no_room_is_in_and_says_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    disk = memory()
    alarms: list[str] = []
    out = writer(disk, segment_bytes=1, on_alarm=alarms.append)
    link = disk.link

    def full(*_: str) -> None:
        raise OSError(errno.ENOSPC, "no room")

    monkeypatch.setattr(disk, "link", full)
    assert out.append(batch([(100, "a", 1)])).batch == 0
    assert "make room" in alarms[0]
    monkeypatch.setattr(disk, "link", link)
    assert out.append(batch([(101, "a", 2)])).batch == 1
    assert Commits(disk, out.layout).head.batches == 2
    assert [r[2] for r in read_all(disk)] == [1, 2]


@pytest.mark.parametrize("segment_bytes", [1, 1 << 20], ids=["sealed", "live"])
def test_a_reader_is_told_of_a_journal_that_was_made_anew_under_it(segment_bytes: int) -> None:
    disk = memory()
    reader = None
    for token in ("w1", "w2"):
        out = writer(disk, token, shape=layout(1), segment_bytes=segment_bytes)
        for i in range(5 if reader is None else 9):
            out.append(batch([(100 + i, "a", i)]))
        if reader is None:
            reader = Reader(disk)
            assert len(drain(reader)) == 5
            for name in list(disk._files):
                disk.unlink(name)
    assert reader is not None
    with pytest.raises(JournalError, match="the journal was made anew"):
        drain(reader)


def test_the_first_stable_is_none_at_all(disk: Disk) -> None:
    out = writer(disk, shape=Layout(SCHEMA, "ts", (), 1, INF - 1))
    out.append(batch([(-100, "a", 1)]))
    assert out.stable == BEGIN
    reader = Reader(disk)
    assert drain(reader) == [(-100, "a", 1)]
    assert reader.stable == BEGIN


def test_a_writer_whose_journal_was_removed_says_so_and_makes_nothing_anew(tmp_path: Path) -> None:
    first = writer(LocalDisk(tmp_path / "j"))
    first.append(batch([(100, "a", 1)]))
    shutil.rmtree(tmp_path / "j")
    with pytest.raises(JournalError, match="was removed, or made anew"):
        first.append(batch([(101, "a", 2)]))
    with pytest.raises(Misuse, match="writes no more"):
        first.append(batch([(102, "a", 3)]))
    first.close()
    assert not (tmp_path / "j").exists()


def test_a_writer_does_not_commit_into_a_journal_that_was_made_anew(tmp_path: Path) -> None:
    first = writer(LocalDisk(tmp_path / "j"), "w1")
    first.append(batch([(100, "a", 1)]))
    shutil.rmtree(tmp_path / "j")
    disk = LocalDisk(tmp_path / "j")
    second = writer(disk, "w2")  # of the same epoch: no later one tells the first
    second.append(batch([(102, "a", 2)]))
    with pytest.raises(JournalError, match="was removed, or made anew"):
        first.close()
    second.append(batch([(103, "a", 3)]))
    second.close()
    assert [r[2] for r in read_all(disk)] == [2, 3]


def test_a_reader_that_follows_a_journal_that_was_removed_is_told(tmp_path: Path) -> None:
    first = writer(LocalDisk(tmp_path / "j"))
    first.append(batch([(100, "a", 1)]))
    reader = Reader(LocalDisk(tmp_path / "j"))
    assert [r[2] for r in drain(reader)] == [1]
    shutil.rmtree(tmp_path / "j")
    with pytest.raises(JournalError, match="was removed while it was read"):
        list(iter(reader.read, "never"))


def test_the_smallest_time_there_is_is_no_time_of_a_row(disk: Disk) -> None:
    out = writer(disk)
    made = out.append(batch([(BEGIN, "a", 1), (100, "a", 2)]))
    assert (made.rows, made.rejected, made.late) == (1, 1, 0)
    assert read_all(disk) == [(100, "a", 2)]


def test_a_clock_that_stands_before_1970_makes_a_journal_that_reads(disk: Disk) -> None:
    out = Writer(disk, layout(), who="w", token="w", now_ms=lambda: -1)
    out.append(batch([(100, "a", 1)]))
    out.close()
    assert read_all(disk) == [(100, "a", 1)]
    assert Commits(disk, layout()).head.at_ms == -1
