"""What an effect of a merger does, where disks fail at any of their calls and where they do not."""

from __future__ import annotations

import errno
from typing import Any

import pytest

from gapless.chaos.sim.disk import SimulatedDisk, View
from gapless.failover.io import output_reads
from gapless.failover.io.merger_io import EFFECTS, MergerIO, OutputEffect
from gapless.failover.io.steps import Step
from gapless.failover.merger import effects as ask
from gapless.failover.merger import recent_rows, scan
from gapless.failover.merger.output_journal import OutputJournal
from gapless.failover.merger.output_reader import OutputReader
from gapless.failover.messages import Life, Token
from gapless.protocol.elements import BEGIN
from gapless.protocol.envelope import Incarnation
from gapless.protocol.errors import GaplessError
from gapless.protocol.frame import Frame
from gapless.protocol.text import DEFAULT_SCHEMA, parse
from tests.failover.io.failing_disk import CALLS_MAX, ERRORS, Failing

LOST, READS = ask.OutputLost, (ask.ReadRefused, ask.OutputLost)
ANSWERS: dict[type[OutputEffect], tuple[type, ...]] = {
    ask.Append: (ask.Appended, ask.AppendRefused, LOST),
    ask.Seal: (ask.Sealed, LOST),
    ask.MakeBase: (ask.BaseMade, LOST),
    ask.WatchOutput: (type(None), LOST),
    ask.ReadOutput: (ask.OutputRead, *READS),
    ask.ReadTable: (ask.TableRead, *READS),
    ask.DropTable: (type(None),),
    ask.ReadPeer: (ask.PeerRead,),
    ask.ClosePeer: (type(None),),
}


def rows(text: str) -> Frame:
    return Frame.from_elements(DEFAULT_SCHEMA, parse(text))


class World:
    """An output with some rows, its peer's, and the interpreter of its life."""

    def __init__(self, appends: int = 6, **options: Any) -> None:
        self.raw = SimulatedDisk()
        self.disk = Failing(View(self.raw, "m0.0"))
        self.peer_disk = Failing(View(self.raw, "m0.1"))
        self.alarms: list[str] = []
        peer = self.output(self.peer_disk, "m0.1", 1)
        peer.append(rows("ins(A,1,9) stable(2)"))
        peer.sync()
        self.journal = self.output(self.disk, "m0.0", 1)
        self.io = MergerIO(self.journal, self.open_peer, self.alarms.append, **options)
        for t in range(1, appends + 1):
            done = self.io.do(ask.Append(rows(f"ins(A,{t},20) stable({t})")))
            assert isinstance(done, ask.Appended)

    def output(self, disk: Any, slot: str, counter: int) -> OutputJournal:
        who = Life(slot, Incarnation(1, counter))
        journal = OutputJournal(disk, DEFAULT_SCHEMA, who, f"{slot}-{counter}", lambda: 0)
        journal.recover()
        return journal

    def open_peer(self, peer: str) -> OutputReader:
        assert peer == "m0.1"
        return OutputReader(self.peer_disk, DEFAULT_SCHEMA)

    def forget_recent(self) -> None:
        """As after many more rows: what is asked for is read from the disk."""
        reads = self.io._reads
        for reader in (reads._nearest, *reads._readers.values()):
            reader._recent = None
        self.journal._recent = None
        reads._scans = scan.Scans(self.journal.reader().open_table)


def token(offset: int, stable: int = BEGIN) -> Token:
    return Token("m0.0", 1, offset, stable)


def effect_of(kind: type[OutputEffect]) -> OutputEffect:
    made: dict[type[OutputEffect], OutputEffect] = {
        ask.Append: ask.Append(rows("ins(B,7,30) stable(7)")),
        ask.Seal: ask.Seal(rows("ins(A,1,20) ins(A,2,20) stable(2)")),
        ask.MakeBase: ask.MakeBase(),
        ask.WatchOutput: ask.WatchOutput(),
        ask.ReadOutput: ask.ReadOutput("s", token(1, 1)),
        ask.ReadTable: ask.ReadTable("s", 1, 2),
        ask.DropTable: ask.DropTable("s", 1),
        ask.ReadPeer: ask.ReadPeer("m0.1", BEGIN),
        ask.ClosePeer: ask.ClosePeer("m0.1"),
    }
    return made[kind]


@pytest.mark.parametrize("kind", EFFECTS, ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("number", range(len(ERRORS)))
def test_whatever_a_disk_raises_at_whichever_call_is_one_of_the_answers(
    kind: type[OutputEffect], number: int
) -> None:
    for at in range(CALLS_MAX):
        world = World(appends=2)
        world.forget_recent()
        for disk in (world.disk, world.peer_disk):
            disk.fail(at, ERRORS[number])
        done = world.io.do(effect_of(kind))
        assert isinstance(done, ANSWERS[kind]), f"call {at}: {done}"
        if world.disk.left is not None and world.peer_disk.left is not None:
            return  # the effect has made all of its calls
    pytest.fail(f"more than {CALLS_MAX} calls")


def test_a_refused_append_is_not_in_the_journal_and_can_be_tried_again() -> None:
    for at in range(CALLS_MAX):
        world = World(appends=2)
        world.disk.fail(at, ERRORS[0])
        done = world.io.do(effect_of(ask.Append))
        if world.disk.left is not None:
            assert at > 0
            return
        if isinstance(done, ask.AppendRefused):
            again = world.io.do(effect_of(ask.Append))
            assert isinstance(again, ask.Appended)
            assert again.offset == 3
    pytest.fail("never")


def test_a_life_whose_journal_was_taken_over_hears_so_from_whatever_it_writes() -> None:
    for kind in (ask.Append, ask.Seal, ask.WatchOutput):
        world = World(appends=2, where=" (here)")
        world.output(world.disk, "m0.0", 2)
        done = world.io.do(effect_of(kind))
        assert isinstance(done, ask.OutputLost), kind
        assert done.is_taken_over
        assert done.reason.endswith(" (here)")


def test_an_append_and_its_sync_are_two_steps_for_who_wants_time_to_pass_and_one_for_a_thread() -> (
    None
):
    world = World()
    written = world.io.step(effect_of(ask.Append)).do()
    assert isinstance(written, Step)
    assert written.place == "sync"
    assert world.io.recent(ask.ReadOutput("s", token(6, 6))) == ask.OutputRead("s", 6, None)
    assert isinstance(written.do(), ask.Appended)
    read = world.io.recent(ask.ReadOutput("s", token(6, 6)))
    assert read is not None
    assert read.frame is not None
    assert isinstance(world.io.step(effect_of(ask.Append)).run(), ask.Appended)


def test_rows_that_were_written_last_are_answered_without_the_disk() -> None:
    world = World()
    before = world.raw.reads
    for offset in range(7):
        read = world.io.recent(ask.ReadOutput("s", token(offset, offset)))
        assert read is not None
        assert (read.frame is None) == (offset == 6)
    assert world.raw.reads == before
    world.forget_recent()
    assert world.io.recent(ask.ReadOutput("s", token(2, 2))) is None
    assert isinstance(world.io.do(ask.ReadOutput("s", token(2, 2))), ask.OutputRead)
    assert world.raw.reads > before


def test_one_place_is_read_once_for_all_who_are_there_until_more_is_appended(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(recent_rows, "KEPT_READS_MAX", 2)
    world = World()

    def read(offset: int) -> Frame | None:
        answer = world.io.recent(ask.ReadOutput("s", token(offset, offset)))
        assert answer is not None
        return answer.frame

    assert read(3) is read(3)
    first = read(3)
    read(4)
    read(5)
    assert read(3) is not first, "it was let go"
    assert read(6) is None
    world.io.do(effect_of(ask.Append))
    assert read(6) is not None


def test_of_too_many_places_in_an_output_the_one_that_was_used_least_lately_is_let_go(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(output_reads, "READERS_MAX", 2)
    world = World()
    world.forget_recent()

    def read(subscriber: str) -> OutputReader:
        done = world.io.do(ask.ReadOutput(subscriber, token(0)))
        assert isinstance(done, ask.OutputRead)
        return world.io._reads._readers[subscriber]

    first = read("a")
    read("b")
    assert read("a") is first
    read("c")
    assert set(world.io._reads._readers) == {"a", "c"}
    assert read("b") is not first, "it is found again"
    world.io.forget("b")
    assert set(world.io._reads._readers) == {"c"}


def test_a_table_is_read_in_slices_until_it_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scan, "SLICE_FRAMES", 1)
    world = World()
    world.forget_recent()
    table = ask.ReadTable("s", 1, 3)
    step = world.io.step(table).do()
    assert isinstance(step, Step)
    assert step.place == "scan"
    assert world.io.do(ask.DropTable("s", 1)) is None
    assert step.do() is None
    assert isinstance(world.io.do(table), ask.TableRead)


def test_a_peer_that_does_not_read_is_said_once_and_read_on_where_it_was() -> None:
    world = World()
    world.peer_disk.error = lambda: OSError(errno.EIO, "it has failed")
    for _ in range(3):
        world.peer_disk.left = 0
        assert world.io.do(ask.ReadPeer("m0.1", BEGIN)) == ask.PeerRead("m0.1", None)
    assert len(world.alarms) == 1
    world.peer_disk.left = None
    read = world.io.do(ask.ReadPeer("m0.1", BEGIN))
    assert isinstance(read, ask.PeerRead)
    assert read.frame is not None
    assert read.frame.stable == 2
    assert world.io.do(ask.ReadPeer("m0.1", BEGIN)) == ask.PeerRead("m0.1", None)


def test_a_subscriber_is_told_of_an_error_what_the_shell_explains() -> None:
    def explain(error: GaplessError) -> str:
        return f"explained: {type(error).__name__}"

    world = World(explain=explain)
    done = world.io.do(ask.ReadOutput("s", token(99)))
    assert isinstance(done, ask.ReadRefused)
    assert (done.why, done.reason) == ("future", "explained: BeyondEnd")
