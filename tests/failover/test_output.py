"""A merger's output on its disk: recovery, takeover, cursors, tables, peers; and when it cannot."""

import random
from pathlib import Path
from typing import Any

import pytest

from gapless.chaos.storage import SimulatedDisk, View
from gapless.failover import fold as fold_module
from gapless.failover import recent as recent_module
from gapless.failover.effects import Appended
from gapless.failover.fold import Fold
from gapless.failover.messages import Token
from gapless.failover.output import BeyondEnd, OutputJournal, OutputReader
from gapless.journal.commit import Commits
from gapless.journal.disk import Disk, LocalDisk
from gapless.journal.layout import Layout
from gapless.journal.retention import Retention, trim
from gapless.protocol.elements import BEGIN, INF
from gapless.protocol.errors import (
    DiskFull,
    Fenced,
    JournalError,
    Misuse,
    SchemaError,
    Trimmed,
)
from gapless.protocol.frame import Frame
from gapless.protocol.schema import StreamSchema
from gapless.protocol.tdb import Tdb
from gapless.protocol.text import DEFAULT_SCHEMA
from gapless.protocol.variants import random_tdb, random_telling, tell
from tests.failover.mergers import frame, text

PAYLOADS: list[tuple[object, ...]] = [("A",), ("B",), ("C",)]


@pytest.fixture
def disk() -> SimulatedDisk:
    return SimulatedDisk()


def journal(disk: Disk, token: str = "t1", **how: Any) -> OutputJournal:
    return OutputJournal(disk, DEFAULT_SCHEMA, "m0.0/1.1", token, lambda: 0, **how)


def say(out: OutputJournal, *frames: str) -> Appended:
    for each in frames:
        out.append(frame(each))
    return out.sync()


def token(offset: int, stable: int = BEGIN) -> Token:
    return Token("m0.0", 1, offset, stable)


def reader(disk: Disk) -> OutputReader:
    return OutputReader(disk, DEFAULT_SCHEMA)


def read(source: OutputReader, at: Token) -> str | None:
    found = source.read(at)
    return None if found is None else text(found)


def events(rows: Frame) -> Tdb:
    table = Tdb(DEFAULT_SCHEMA)
    table.fold(rows)
    return table


# -- writing, recovering ----------------------------------------------------------------------


def test_what_was_synced_is_there_for_the_next_life(disk: SimulatedDisk) -> None:
    out = journal(disk)
    assert say(out, "ins(A,1,50) ins(B,2,4) stable(3)", "adj(B,2,4,9) ins(C,5,7)") == Appended(4, 3)
    live, offset = journal(disk, "t2").recover()
    assert offset == 4
    assert events(live) == events(frame("ins(A,1,50) ins(B,2,9) ins(C,5,7) stable(3)"))


def test_rows_without_a_stable_promise_nothing(disk: SimulatedDisk) -> None:
    out = journal(disk)
    assert say(out, "ins(A,1,50)", "ins(B,90,95)") == Appended(2, BEGIN)
    assert say(out, "ins(C,4,5)") == Appended(3, BEGIN)
    assert reader(disk).table(BEGIN)[0].stable is None
    live, offset = journal(disk, "t2").recover()
    assert (live.stable, offset) == (None, 3)
    assert read(reader(disk), token(0)) == "ins(A,1,50) ins(B,90,95) ins(C,4,5)"


def test_the_second_writer_fences_the_first_whose_unsynced_rows_may_be_in_the_cut(
    disk: SimulatedDisk,
) -> None:
    first = journal(disk)
    say(first, "ins(A,1,50) stable(1)")
    first.append(frame("ins(B,2,9)"))
    second = journal(disk, "t2")
    assert second.epoch > first.epoch
    with pytest.raises(Fenced):
        first.sync()
    live, offset = second.recover()
    assert (len(live), offset) == (2, 2)
    say(second, "ins(C,3,9)")
    assert read(reader(disk), token(0)) == "ins(A,1,50) ins(B,2,9) ins(C,3,9) stable(1)"


@pytest.mark.parametrize("seed", range(30))
def test_what_a_takeover_has_found_is_safe_even_if_its_writer_had_not_synced_it(
    disk: SimulatedDisk, seed: int
) -> None:
    first = journal(disk)
    say(first, "ins(A,1,50) stable(1)")
    first.append(frame("ins(B,2,9)"))
    journal(disk, "t2")
    disk.crash("", random.Random(seed))
    assert journal(disk, "t3").recover()[1] == 2


@pytest.mark.parametrize("seed", range(20))
def test_a_base_and_what_follows_is_the_whole_output(disk: SimulatedDisk, seed: int) -> None:
    rng = random.Random(f"output {seed}")
    table = random_tdb(rng, DEFAULT_SCHEMA, PAYLOADS, 40, duplicates=True)
    frames = tell(table, random_telling(rng), seed)
    out, told, lives = journal(disk, segment_bytes=1500), Tdb(DEFAULT_SCHEMA), 1
    for each in frames:
        what = rng.random()
        out.append(each)
        told.fold(each)
        out.sync()
        if what < 0.2:
            out.seal(_live(told).to_frame())
        elif what < 0.3:
            lives += 1
            out = journal(disk, f"t{lives}", segment_bytes=1500)
        if what < 0.4:
            whole = Fold(DEFAULT_SCHEMA)
            source = reader(disk)
            at = token(0)
            while (found := source.read(at)) is not None:
                whole.add(found)
                at = token(at.offset + len(found), max(whole.stable, BEGIN))
            live, offset = out.recover()
            assert offset == at.offset
            assert events(live) == events(whole.table()) == _live(told)
        since = rng.randrange(-5, 70)
        if since <= told.stable:
            found, offset = reader(disk).table(since)
            assert events(found).counts() == told.since(since).counts()
            assert events(found).stable == told.stable


def _live(table: Tdb) -> Tdb:
    live = Tdb(DEFAULT_SCHEMA) if table.stable == INF else table.since(table.stable)
    live.stable = table.stable
    return live


def test_it_wants_a_base_once_enough_lies_behind_the_last(disk: SimulatedDisk) -> None:
    out = journal(disk, base_bytes=1)
    assert say(out, "ins(A,1,50) stable(1)").wants_base
    out.seal(frame("ins(A,1,50) stable(1)"))
    assert not out.sync().wants_base
    assert say(out, "ins(B,2,50)").wants_base


def test_a_full_disk_refuses_a_frame_and_takes_it_later(disk: SimulatedDisk) -> None:
    place = View(disk, "m0.0")
    out = journal(place)
    say(out, "ins(A,1,50) stable(1)")
    disk.fill("m0.0")
    with pytest.raises(DiskFull):
        out.append(frame("ins(B,2,9)"))
    with pytest.raises(DiskFull):
        out.seal(frame("ins(A,1,50) stable(1)"))
    with pytest.raises(DiskFull):
        journal(place, "t2")
    disk.empty("m0.0")
    again = journal(place, "t3")
    assert say(again, "ins(B,2,9)") == Appended(2, 1)


def test_a_full_segment_is_sealed_also_where_appends_share_a_sync(disk: SimulatedDisk) -> None:
    out = journal(disk, segment_bytes=1)
    for i in range(5):
        say(out, f"ins(A,{i},50)", f"ins(B,{i},50)")
    assert len(disk.list("segments")) == 5
    assert read(reader(disk), token(9)) == "ins(B,4,50)"


def test_an_output_that_has_ended_is_read_and_not_written(disk: SimulatedDisk) -> None:
    first = journal(disk)
    assert say(first, "ins(A,1,inf) stable(inf)") == Appended(1, INF)
    second = journal(disk, "t2")  # it commits the end
    assert second.sync() == Appended(1, INF)
    third, fourth = journal(disk, "t3"), journal(disk, "t4")
    assert first.epoch < second.epoch < third.epoch < fourth.epoch
    for out in (second, third, fourth):
        live, offset = out.recover()
        assert (text(live), offset) == ("stable(inf)", 1)
    assert third.sync() == Appended(1, INF)
    third.seal(frame("stable(inf)"))
    with pytest.raises(Misuse, match="ended"):
        third.append(frame("ins(B,1,2)"))
    assert reader(disk).table(7)[0] == frame("ins(A,1,inf) stable(inf)")


def test_another_schema_is_refused(disk: SimulatedDisk) -> None:
    say(journal(disk), "ins(A,1,50)")
    other = StreamSchema({"q": "int8"})
    with pytest.raises(Misuse):
        OutputJournal(disk, other, "m", "t2", lambda: 0)
    with pytest.raises(SchemaError):
        OutputReader(disk, other).table(BEGIN)
    with pytest.raises(SchemaError):
        OutputReader(disk, other).read(token(0))


def test_it_stands_on_a_real_disk_too(tmp_path: Path) -> None:
    place = LocalDisk(tmp_path)
    out = journal(place)
    say(out, "ins(A,1,50) stable(1)", "ins(B,2,9) stable(2)")
    out.seal(frame("ins(A,1,50) ins(B,2,9) stable(2)"))
    live, offset = journal(place, "t2").recover()
    assert (text(live), offset) == ("ins(A,1,50) ins(B,2,9) stable(2)", 2)
    assert read(reader(place), token(1)) == "ins(B,2,9) stable(2)"


# -- cursors ----------------------------------------------------------------------------------


def test_a_cursor_goes_on_exactly_where_its_token_says(disk: SimulatedDisk) -> None:
    out, source = journal(disk), reader(disk)
    say(out, "ins(A,1,50) stable(1)")
    assert read(source, token(0)) == "ins(A,1,50) stable(1)"
    assert read(source, token(1, 1)) is None
    say(out, "ins(B,2,9)", "stable(2)")
    assert read(source, token(1, 1)) == "ins(B,2,9) stable(2)"
    assert read(source, token(1, 1)) == "ins(B,2,9) stable(2)"  # the answer was lost
    assert read(source, token(0)) == "ins(A,1,50) ins(B,2,9) stable(2)"  # so were some before
    assert read(source, token(2, 1)) == "stable(2)"
    assert read(source, token(2, 2)) is None
    say(out, "stable(3)")
    assert read(source, token(2, 2)) == "stable(3)"
    assert read(source, token(2, 2)) == "stable(3)"  # lost
    assert read(source, token(2, 3)) is None


def test_a_cursor_sees_nothing_that_is_not_safe(disk: SimulatedDisk) -> None:
    out, source = journal(disk), reader(disk)
    out.append(frame("ins(A,1,50) stable(1)"))
    assert read(source, token(0)) is None
    out.sync()
    assert read(source, token(0)) == "ins(A,1,50) stable(1)"


def test_trimmed_rows_and_rows_that_never_were_are_told_apart(disk: SimulatedDisk) -> None:
    out = journal(disk, segment_bytes=1)
    for i in range(1, 6):
        say(out, f"ins(A,{i},{i + 1}) stable({i})")
    with pytest.raises(BeyondEnd) as beyond:
        reader(disk).read(token(6))
    assert OutputReader.why(beyond.value) == "future"
    out.seal(frame("ins(A,4,5) ins(A,5,6) stable(5)"))
    _trim(disk)
    for ask in (lambda r: r.read(token(2)), lambda r: r.table(4), lambda r: r.peer(4)):
        with pytest.raises(Trimmed) as gone:
            ask(reader(disk))
        assert OutputReader.why(gone.value) == "trimmed"
    table, offset = reader(disk).table(5)
    assert (text(table), offset) == ("ins(A,4,5) ins(A,5,6) stable(5)", 5)


def _trim(disk: Disk) -> None:
    retention = Retention(keep_bytes=0)
    trim(Commits(disk, Layout(DEFAULT_SCHEMA)), retention, token="trim", now_ms=0)


def test_a_cursor_that_trim_overtook_is_told_so_and_works_on_elsewhere(disk: SimulatedDisk) -> None:
    out, source = journal(disk, segment_bytes=1), reader(disk)
    say(out, "ins(A,1,9) stable(1)")
    assert read(source, token(0)) == "ins(A,1,9) stable(1)"
    say(out, "ins(B,2,9) stable(2)")
    out.seal(frame("ins(A,1,9) ins(B,2,9) stable(2)"))
    _trim(disk)
    with pytest.raises(Trimmed):
        source.read(token(1, 1))
    assert read(source, token(2, 1)) == "stable(2)"


def test_what_is_damaged_is_an_error_each_time_and_never_silence(disk: SimulatedDisk) -> None:
    out = journal(disk)
    say(out, "ins(A,1,9) stable(1)")
    out.seal(None)
    (name,) = disk.files("segments")
    mend = disk.flip_bit(name, random.Random(1))
    source = reader(disk)
    for _ in range(2):
        with pytest.raises(JournalError) as damage:
            source.read(token(0))
        assert OutputReader.why(damage.value) == "trimmed"
    mend()
    assert read(source, token(0)) == "ins(A,1,9) stable(1)"


@pytest.mark.parametrize("rows_max", [8, 1000])
@pytest.mark.parametrize("seed", range(10))
def test_what_is_kept_in_memory_is_what_the_journal_has(
    disk: SimulatedDisk, seed: int, rows_max: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recent_module, "ROWS_MAX", rows_max)
    rng = random.Random(f"recent {seed}")
    monkeypatch.setattr(recent_module, "READ_ROWS", rng.choice((1, 5, 1000)))
    table = random_tdb(rng, DEFAULT_SCHEMA, PAYLOADS, 40, duplicates=True)
    out, told, lives = journal(disk), Tdb(DEFAULT_SCHEMA), 1
    out.recover()
    for each in tell(table, random_telling(rng), seed):
        out.append(each)
        told.fold(each)
        if rng.random() < 0.7:
            end = out.sync().offset
            at = token(rng.randint(0, end), rng.randint(-5, 70))
            assert _all(out.reader(), at) == _all(reader(disk), at)
            since = rng.randint(-5, 70)
            if since <= told.stable:
                (mine, there), (theirs, end) = (
                    r.table(since) for r in (out.reader(), reader(disk))
                )
                assert (events(mine), there) == (events(theirs), end)
        if rng.random() < 0.05:
            lives += 1
            out = journal(disk, f"t{lives}")
            out.recover()
        if out._recent is not None:
            out._recent.validate()


def _all(source: OutputReader, at: Token) -> tuple[list[object], int]:
    """All rows behind a token, and the last stable."""
    rows: list[object] = []
    while (found := source.read(at)) is not None:
        rows += found.with_stable(None).elements()
        stable = at.stable if found.stable is None else found.stable
        assert stable > at.stable or len(found)
        at = token(at.offset + len(found), stable)
    return rows, at.stable


def test_rows_that_are_not_safe_are_not_handed_out_from_memory_either(disk: SimulatedDisk) -> None:
    first = journal(disk)
    first.recover()
    say(first, "ins(A,1,9) stable(1)")
    first.append(frame("ins(B,2,9)"))
    assert read(first.reader(), token(1, 1)) is None
    journal(disk, "t2")
    with pytest.raises(Fenced):
        first.sync()
    assert read(first.reader(), token(1, 1)) is None


# -- tables and peers -------------------------------------------------------------------------


def test_a_table_begins_at_the_older_base_where_the_newer_is_too_late(disk: SimulatedDisk) -> None:
    out = journal(disk, segment_bytes=1)
    say(out, "ins(A,1,9) ins(B,2,5) stable(3)")
    out.seal(frame("ins(A,1,9) ins(B,2,5) stable(3)"))
    _trim(disk)
    say(out, "ins(C,4,6) stable(4)", "stable(8)")
    assert text(reader(disk).table(5)[0]) == "ins(A,1,9) ins(B,2,5) ins(C,4,6) stable(8)"
    out.seal(frame("ins(A,1,9) stable(8)"))
    assert text(reader(disk).table(8)[0]) == "ins(A,1,9) stable(8)"


def test_a_table_of_the_future_is_refused(disk: SimulatedDisk) -> None:
    say(journal(disk), "ins(A,1,9) stable(3)")
    with pytest.raises(BeyondEnd, match="up to 3, not 4"):
        reader(disk).table(4)


@pytest.mark.parametrize("seed", range(20))
def test_a_peer_is_read_as_a_stream_that_joins(disk: SimulatedDisk, seed: int) -> None:
    rng = random.Random(f"peer {seed}")
    table = random_tdb(rng, DEFAULT_SCHEMA, PAYLOADS, 40, duplicates=True)
    out, told, source = journal(disk), Tdb(DEFAULT_SCHEMA), reader(disk)
    heard, since = Tdb(DEFAULT_SCHEMA), rng.choice((BEGIN, 0, 20, 40))
    for each in tell(table, random_telling(rng), seed):
        say(out, text(each))
        told.fold(each)
        if rng.random() < 0.2:
            out.seal(_live(told).to_frame())
        if rng.random() < 0.1 and told.stable >= since:
            _hear(source, since, heard)
    join_at = _hear(source, since, heard)
    assert join_at <= since
    assert heard.since(join_at).counts() == told.since(join_at).counts()
    assert heard.stable == told.stable


def _hear(source: OutputReader, since: int, heard: Tdb) -> int:
    while True:
        found, join_at = source.peer(since)
        if found is None:
            return join_at
        heard.fold(found)


def test_a_peer_that_has_no_journal_yet_has_nothing_new(disk: SimulatedDisk) -> None:
    source = reader(disk)
    assert source.peer(5) == (None, BEGIN)
    say(journal(disk), "ins(A,1,9) stable(3)")
    assert source.peer(5) == (frame("ins(A,1,9) stable(3)"), BEGIN)
    assert source.peer(5) == (None, BEGIN)


def test_a_peer_that_was_damaged_and_mended_goes_on_where_it_was(disk: SimulatedDisk) -> None:
    out, source = journal(disk, segment_bytes=1), reader(disk)
    say(out, "ins(A,1,9) stable(3)")
    source.peer(BEGIN)
    say(out, "ins(B,4,9) stable(4)")
    mend = disk.flip_bit(disk.files("segments")[-1], random.Random(1))
    for _ in range(2):
        with pytest.raises(JournalError):
            source.peer(BEGIN)
    mend()
    assert source.peer(BEGIN) == (frame("ins(B,4,9) stable(4)"), BEGIN)


# -- adding up --------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(30))
def test_a_fold_is_the_table_however_often_it_folds(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = random.Random(f"fold {seed}")
    monkeypatch.setattr(fold_module, "FOLD_ROWS_MIN", rng.choice((1, 10, 1000)))
    table = random_tdb(rng, DEFAULT_SCHEMA, PAYLOADS, 40, duplicates=True)
    since = rng.choice((BEGIN, 10, 30, 50))
    live, part, told = Fold(DEFAULT_SCHEMA), Fold(DEFAULT_SCHEMA, since), Tdb(DEFAULT_SCHEMA)
    for each in tell(table, random_telling(rng), seed):
        for fold in (live, part):
            fold.add(each)
        told.fold(each)
        if rng.random() < 0.3:
            assert events(live.table()) == _live(told)
            assert events(part.table()).counts() == told.since(since).counts()
