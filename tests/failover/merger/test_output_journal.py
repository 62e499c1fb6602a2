"""A merger's output on its disk: recovery, takeover, cursors, tables, peers; and when it cannot."""

import errno
import random
from pathlib import Path
from typing import Any

import pytest

from gapless.chaos.sim.disk import SimulatedDisk, View
from gapless.failover.fold import Fold
from gapless.failover.merger import output_journal as output
from gapless.failover.merger.bases import BaseDraft
from gapless.failover.merger.effects import Appended
from gapless.failover.merger.output_journal import OutputJournal
from gapless.failover.merger.output_reader import OutputReader
from gapless.journal import cursor, segment, writer
from gapless.journal.base import read_base
from gapless.journal.commit import Commits
from gapless.journal.disk import LocalDisk
from gapless.journal.layout import opened as layout_opened
from gapless.journal.verify import Verifier
from gapless.protocol.elements import BEGIN, INF
from gapless.protocol.errors import (
    DiskFull,
    Fenced,
    JournalError,
    Misuse,
    SchemaError,
)
from gapless.protocol.frame import Frame
from gapless.protocol.schema import StreamSchema
from gapless.protocol.tdb import Tdb
from gapless.protocol.text import DEFAULT_SCHEMA
from gapless.protocol.variants import random_tdb, random_telling, tell
from tests.failover.mergers import frame, text
from tests.failover.outputs import (
    PAYLOADS,
    events,
    journal,
    life,
    read,
    reader,
    say,
    token,
    unsettled,
)


@pytest.fixture
def disk() -> SimulatedDisk:
    return SimulatedDisk()


# -- writing, recovering ----------------------------------------------------------------------


def test_an_earlier_life_does_not_take_over_from_a_later_one(disk: SimulatedDisk) -> None:
    def opened(counter: int) -> OutputJournal:
        return OutputJournal(disk, DEFAULT_SCHEMA, life(counter), f"t{counter}", lambda: 0)

    opened(2)
    later = opened(7)
    with pytest.raises(Fenced, match=r"m0\.0/1\.7 writes here, which came after m0\.0/1\.3"):
        opened(3)
    assert say(later, "ins(A,1,5) stable(3)") == Appended(1, 3)
    later.watch()
    opened(8)
    with pytest.raises(Fenced):
        later.watch()


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
            out.seal(unsettled(told).to_frame())
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
            assert events(live) == events(whole.table()) == unsettled(told)
        since = rng.randrange(-5, 70)
        if since <= told.stable:
            found, offset = reader(disk).table(since)
            assert events(found).counts() == told.since(since).counts()
            assert events(found).stable == told.stable


def test_it_wants_a_base_once_enough_lies_behind_the_last(disk: SimulatedDisk) -> None:
    out = journal(disk, base_bytes=1)
    assert say(out, "ins(A,1,50) stable(1)").wants_base
    out.seal(frame("ins(A,1,50) stable(1)"))
    assert not out.sync().wants_base
    assert say(out, "ins(B,2,50)").wants_base


def test_a_life_that_comes_back_reads_no_more_records_than_a_base_may_have_behind_it(
    disk: SimulatedDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(output, "RECORDS_MAX", 5)
    out = journal(disk)
    for i in range(1, 40):
        if say(out, f"ins(A,{i},{i + 1}) stable({i})").wants_base:
            out.seal(frame(f"ins(A,{i},{i + 1}) stable({i})"))
    next_life = OutputJournal(disk, DEFAULT_SCHEMA, life(2), "t2", lambda: 0)
    decoded = counted(monkeypatch)
    live, rows = next_life.recover()
    assert (live.stable, rows) == (39, 39)
    assert len(decoded) <= 5, "what a base may have behind it"
    assert say(next_life, *(f"ins(A,{i},{i + 1}) stable({i})" for i in (40, 41))).wants_base


def counted(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The records that readers decode from now on, by their segments."""
    decoded: list[str] = []
    read_record = segment.read

    def read_one(name: str, *rest: Any) -> Any:
        decoded.append(name)
        return read_record(name, *rest)

    monkeypatch.setattr(cursor, "read", read_one)
    return decoded


def test_a_large_base_has_more_records_behind_it(
    disk: SimulatedDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(output, "RECORDS_MAX", 2)
    monkeypatch.setattr(output, "ROWS_PER_RECORD", 3)
    out = journal(disk)
    table = " ".join(f"ins({name},1,50)" for name in "ABCDEF")
    assert not say(out, f"{table} stable(1)").wants_base
    assert say(out, "stable(2)").wants_base
    out.seal(frame(f"{table} stable(2)"))
    assert [say(out, f"stable({i})").wants_base for i in (3, 4, 5, 6)] == [
        False,
        False,
        False,
        True,
    ]


def test_an_output_without_a_stable_wants_no_base_however_much_it_has_said(
    disk: SimulatedDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(output, "RECORDS_MAX", 2)
    out = journal(disk, base_bytes=1)
    assert not any(say(out, f"ins(A,{i},50)").wants_base for i in range(5))
    assert say(out, "stable(1)").wants_base


def test_a_full_disk_refuses_a_frame_and_takes_it_later(disk: SimulatedDisk) -> None:
    place = View(disk, "m0.0")
    out = journal(place, headroom_bytes=0)
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
        OutputJournal(disk, other, life(2), "t2", lambda: 0)
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


# -- bases that are made beside ---------------------------------------------------------------


def opened(disk: SimulatedDisk, counter: int = 1) -> OutputJournal:
    return OutputJournal(disk, DEFAULT_SCHEMA, life(counter), f"t{counter}", lambda: 0)


def begun(disk: SimulatedDisk, rng: random.Random) -> tuple[OutputJournal, BaseDraft]:
    """An output with a base, more behind it, and one that is begun."""
    journal = opened(disk)
    for t in range(rng.randrange(1, 30)):
        journal.append(frame(f"ins(k{t},{t},inf) stable({t})"))
        if rng.random() < 0.3:
            journal.append(frame(f"adj(k{t},{t},inf,{t + rng.randrange(1, 9)})"))
        journal.sync()
        if rng.random() < 0.1:
            journal.seal(table_at_end(disk))
    draft = journal.begin_base()
    assert draft is not None
    return journal, draft


def as_table(rows: Frame) -> Tdb:
    table = Tdb(DEFAULT_SCHEMA)
    table.fold(rows.with_stable(None))
    return table


def table_at_end(disk: SimulatedDisk) -> Frame:
    table, _ = OutputReader(disk, DEFAULT_SCHEMA).scan(None).run()
    return table


@pytest.mark.parametrize("seed", range(30))
def test_a_base_that_is_made_beside_stands_for_what_was_there_when_it_was_begun(
    disk: SimulatedDisk, seed: int
) -> None:
    rng = random.Random(seed)
    journal, draft = begun(disk, rng)
    before = table_at_end(disk)
    for t in range(40, 40 + rng.randrange(9)):  # all this goes on meanwhile
        journal.append(frame(f"ins(k{t},{t},inf) stable({t})"))
        journal.sync()
        if rng.random() < 0.3:
            journal.seal(None)
    made = draft.make()
    assert made.rows == len(before)
    assert journal.put_base(draft, made) == ""
    commits = Commits(disk, layout_opened(disk))
    live = read_base(disk, commits.layout, commits.head.bases[-1])
    assert (as_table(live), live.stable) == (as_table(before), before.stable)
    end = table_at_end(disk)
    live, rows = opened(disk, 2).recover()
    assert (as_table(live), live.stable) == (as_table(end), end.stable)
    assert rows == OutputReader(disk, DEFAULT_SCHEMA).scan(None).run()[1]
    assert [f for f in Verifier(disk).findings() if f.severity == "damage"] == []


def test_a_base_that_was_taken_away_before_a_commit_named_it_is_none(disk: SimulatedDisk) -> None:
    journal, draft = begun(disk, random.Random(1))
    made = draft.make()
    disk.unlink(draft.name)
    assert "taken away" in journal.put_base(draft, made)
    journal.append(frame("ins(z,90,inf) stable(90)"))
    journal.sync()
    live, _ = opened(disk, 2).recover()
    assert live.stable == 90


def test_a_base_is_never_written_over_one_that_a_commit_names(
    disk: SimulatedDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal, draft = begun(disk, random.Random(3))
    assert journal.put_base(draft, draft.make()) == ""
    end = table_at_end(disk)

    def full(*_: Any) -> int:
        raise OSError(errno.ENOSPC, "the disk is full")

    with monkeypatch.context() as patch:
        patch.setattr(disk, "append", full)
        with pytest.raises(DiskFull):
            journal.seal(end)
    commits = Commits(disk, layout_opened(disk))
    assert as_table(read_base(disk, commits.layout, commits.head.bases[-1])) == as_table(end)


def test_an_end_that_cannot_be_noted_ends_the_writer_and_what_was_synced_is_there(
    disk: SimulatedDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = opened(disk)
    journal.append(frame("ins(A,1,50) stable(1)"))

    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "the disk is full")

    with monkeypatch.context() as patch:
        patch.setattr(writer, "put_live_end", full)
        with pytest.raises(JournalError, match="its end cannot be noted"):
            journal.sync()
    assert text(opened(disk, 2).recover()[0]) == "ins(A,1,50) stable(1)"


def test_what_follows_a_base_that_could_not_be_committed_is_lost_with_its_life(
    disk: SimulatedDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal, draft = begun(disk, random.Random(4))
    made = draft.make()

    def fail(*_: Any, **__: Any) -> None:
        raise JournalError("the commit cannot be read back")

    with monkeypatch.context() as patch:
        patch.setattr(Commits, "add", fail)
        with pytest.raises(JournalError):
            journal.put_base(draft, made)
    for follows in (lambda: journal.append(frame("ins(z,90,inf)")), journal.sync):
        with pytest.raises(JournalError, match="last commit has failed"):
            follows()


def test_a_base_is_not_made_of_what_somebody_else_has_taken_over(disk: SimulatedDisk) -> None:
    journal, draft = begun(disk, random.Random(2))
    made = draft.make()
    opened(disk, 2)
    with pytest.raises((Fenced, JournalError)):
        journal.put_base(draft, made)
