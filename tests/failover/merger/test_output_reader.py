"""Reading a merger's output: cursors, tables, peers; from the disk and from memory."""

import random
from collections.abc import Callable

import pytest

from gapless.chaos.sim.disk import SimulatedDisk
from gapless.failover import fold as fold_module
from gapless.failover.fold import Fold
from gapless.failover.merger import output_reader as output_module
from gapless.failover.merger import recent_rows as recent_module
from gapless.failover.merger.output_reader import OutputReader
from gapless.failover.merger.scan import BeyondEnd
from gapless.failover.messages import Token
from gapless.journal.commit import Commits
from gapless.journal.disk import Disk
from gapless.journal.layout import Layout
from gapless.journal.retention import Retention, trim
from gapless.protocol.elements import BEGIN
from gapless.protocol.errors import (
    Fenced,
    JournalError,
    Trimmed,
)
from gapless.protocol.tdb import Tdb
from gapless.protocol.text import DEFAULT_SCHEMA
from gapless.protocol.variants import random_tdb, random_telling, tell
from tests.failover.mergers import frame, text
from tests.failover.outputs import PAYLOADS, events, journal, read, reader, say, token, unsettled


@pytest.fixture
def disk() -> SimulatedDisk:
    return SimulatedDisk()


# -- cursors ----------------------------------------------------------------------------------


@pytest.mark.parametrize("kept_bytes", [0, output_module.KEPT_BYTES_MAX])
def test_a_cursor_goes_on_exactly_where_its_token_says(
    disk: SimulatedDisk, kept_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(output_module, "KEPT_BYTES_MAX", kept_bytes)
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
    asks: list[Callable[[OutputReader], object]] = [
        lambda r: r.read(token(2)),
        lambda r: r.table(4),
        lambda r: r.peer(4),
    ]
    for ask in asks:
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
            out.seal(unsettled(told).to_frame())
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
            assert events(live.table()) == unsettled(told)
            assert events(part.table()).counts() == told.since(since).counts()
