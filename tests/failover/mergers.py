"""What the tests of mergers share: a merger in a test's hands, and one with a journal under it."""

from collections import deque
from typing import Any

from gapless.chaos.sim.disk import SimulatedDisk, View
from gapless.failover.effects import Alarm, Exit, Send, Start, Tick
from gapless.failover.life_start import MergerStart
from gapless.failover.merger import effects as ask
from gapless.failover.merger.bases import BaseDraft
from gapless.failover.merger.effects import MergerEffect, MergerEvent
from gapless.failover.merger.machine import Merger
from gapless.failover.merger.output_journal import OutputJournal
from gapless.failover.merger.output_reader import OutputReader
from gapless.failover.messages import Attach, Data, Life, Session, Token
from gapless.failover.timing import Timing
from gapless.journal.reader import Reader
from gapless.merge.choose import CaseName
from gapless.merge.lmerge import LMerge
from gapless.protocol.elements import BEGIN
from gapless.protocol.envelope import Incarnation
from gapless.protocol.errors import DiskFull, Fenced, GaplessError, JournalError
from gapless.protocol.frame import Frame
from gapless.protocol.tdb import Tdb
from gapless.protocol.text import DEFAULT_SCHEMA, format, parse

TIMING = Timing(heartbeat_ms=1000, backfill_ms=100, disk_retry_ms=50, drain_ms=100)
M1, M2 = "m0.0", "m0.1"


def frame(text: str = "") -> Frame:
    """A frame in text notation."""
    return Frame.from_elements(DEFAULT_SCHEMA, parse(text))


def text(given: Frame) -> str:
    """And back."""
    return format(given.elements())


def life(slot: str, counter: int = 1) -> Life:
    return Life(slot, Incarnation(1, counter))


def session(slot: str = "r0.0", counter: int = 1, attempt: int = 1, merger: str = M1) -> Session:
    return Session(life(slot, counter), merger, attempt)


R0, R1, R2 = session("r0.0"), session("r0.1"), session("r0.2")


def merger(
    live: str = "",
    epoch: int = 1,
    offset: int = 0,
    peers: tuple[str, ...] = (),
    *,
    acks_each: bool = False,
    **how: Any,
) -> Merger:
    merge = LMerge(DEFAULT_SCHEMA, "r3", **how)
    start = MergerStart(0, peers)
    return Merger(life(M1), start, epoch, merge, frame(live), offset, TIMING, acks_each=acks_each)


def sent(effects: list[MergerEffect], kind: type | None = None) -> list[Any]:
    """The messages among effects, of one kind or all."""
    messages = [e.message for e in effects if isinstance(e, Send)]
    return [m for m in messages if kind is None or isinstance(m, kind)]


def only(effects: list[MergerEffect], kind: type) -> Any:
    """The one effect of a kind."""
    (effect,) = (e for e in effects if isinstance(e, kind))
    return effect


def none_of(effects: list[MergerEffect], kind: type) -> bool:
    return not any(isinstance(e, kind) for e in effects)


def attach(
    machine: Merger, who: Session, tail: str = "", join_at: int = BEGIN, now: int = 0
) -> Any:
    return machine.on(Attach(who, join_at, frame(tail)), now)


def data(machine: Merger, who: Session, sequence: int, said: str, now: int = 0) -> Any:
    return machine.on(Data(who, sequence, frame(said)), now)


class Pump:
    """One life of a merger over a disk; what it sends is kept. Appends stay unsynced until `sync`
    where `lazy`, so that things can happen between.
    """

    def __init__(
        self,
        disk: SimulatedDisk,
        slot: str = M1,
        counter: int = 1,
        peers: tuple[str, ...] = (),
        *,
        case: CaseName = "r3",
        lazy: bool = False,
        build: type[Merger] = Merger,
        journal: type[OutputJournal] = OutputJournal,
        base_bytes: int = 2000,
        segment_bytes: int = 4000,
        merge: LMerge | None = None,
    ) -> None:
        self.disk = disk
        self.slot = slot
        self.sent: deque[tuple[str, Any]] = deque()
        self.alarms: list[str] = []
        self.over: str | None = None
        self.bases = 0
        self.unsynced = False
        self.draft: BaseDraft | None = None  # of a base that is begun
        self.now = 0
        self._lazy = lazy
        self._readers: dict[str, OutputReader] = {}
        token = f"{slot}-{counter}"
        self.journal = journal(
            View(disk, slot),
            DEFAULT_SCHEMA,
            life(slot, counter),
            token,
            lambda: self.now,
            base_bytes=base_bytes,
            segment_bytes=segment_bytes,
        )
        live, offset = self.journal.recover()
        merge = LMerge(DEFAULT_SCHEMA, case) if merge is None else merge
        self.machine = build(
            life(slot, counter),
            MergerStart(0, peers),
            self.journal.epoch,
            merge,
            live,
            offset,
            TIMING,
        )
        self.happens(Start())

    def happens(self, event: MergerEvent) -> None:
        """Gives an event to the machine, and does what follows."""
        if self.over is not None:
            return
        for effect in self.machine.on(event, self.now):
            self._do(effect)

    def tick(self, ms: int = 50) -> None:
        self.now += ms
        self.happens(Tick())

    def sync(self) -> None:
        """What was appended is made durable, and the merger told."""
        self.unsynced = False
        try:
            done = self.journal.sync()
        except (Fenced, JournalError) as e:
            self.happens(ask.OutputLost(str(e)))
        else:
            self.happens(done)

    def answers(self, kind: type) -> list[Any]:
        """The messages of a kind, and none of them any more."""
        found = [m for _, m in self.sent if isinstance(m, kind)]
        self.sent = deque(each for each in self.sent if not isinstance(each[1], kind))
        return found

    def _do(self, effect: MergerEffect) -> None:  # noqa: C901  # a case for each effect
        match effect:
            case Send(to, message):
                self.sent.append((to, message))
            case Exit(reason):
                self.over = reason
            case Alarm(what):
                self.alarms.append(what)
            case ask.Append(rows):
                self._append(rows)
            case ask.Seal(base):
                self._seal(base)
            case ask.MakeBase():
                self.draft = self.journal.begin_base()
                if not self._lazy:
                    self.make_base()
            case ask.ReadOutput(subscriber, token):
                self._read(subscriber, token)
            case ask.ReadTable(subscriber, attempt, since):
                self._read_table(subscriber, attempt, since)
            case ask.DropTable():
                pass  # it is read already
            case ask.ReadPeer(peer, since):
                self._read_peer(peer, since)
            case ask.ClosePeer(peer):
                self._readers.pop(f"peer {peer}")

    def _append(self, rows: Frame) -> None:
        try:
            self.journal.append(rows)
        except DiskFull as e:
            self.happens(ask.AppendRefused(str(e)))
            return
        except (Fenced, JournalError) as e:
            self.happens(ask.OutputLost(str(e)))
            return
        self.unsynced = True
        if not self._lazy:
            self.sync()

    def _seal(self, base: Frame | None) -> None:
        try:
            self.journal.seal(base)
        except DiskFull:
            pass
        except (Fenced, JournalError) as e:
            self.happens(ask.OutputLost(str(e)))
            return
        self.bases += base is not None
        self.happens(ask.Sealed())

    def make_base(self) -> None:
        """The base that was begun is made, and the journal told."""
        draft, self.draft = self.draft, None
        if draft is not None:
            why_not = self.journal.put_base(draft, draft.make())
            self.bases += not why_not
            self.happens(ask.BaseMade(why_not))

    def reader(self, name: str, slot: str | None = None) -> OutputReader:
        if name not in self._readers:
            own = self.journal.reader()
            other = View(self.disk, slot or self.slot)
            self._readers[name] = own if slot is None else OutputReader(other, DEFAULT_SCHEMA)
        return self._readers[name]

    def _read(self, subscriber: str, token: Token) -> None:
        try:
            rows = self.reader(subscriber).read(token)
        except GaplessError as e:
            self.happens(ask.ReadRefused(subscriber, token, OutputReader.why(e), str(e)))
            return
        self.happens(ask.OutputRead(subscriber, token.offset, rows))

    def _read_table(self, subscriber: str, attempt: int, since: int) -> None:
        try:
            rows, offset = self.reader(subscriber).table(since)
        except GaplessError as e:
            self.happens(ask.ReadRefused(subscriber, attempt, OutputReader.why(e), str(e)))
            return
        self.happens(ask.TableRead(subscriber, attempt, since, rows, offset))

    def _read_peer(self, peer: str, since: int) -> None:
        try:
            rows, join_at = self.reader(f"peer {peer}", peer).peer(since)
        except GaplessError:
            rows, join_at = None, BEGIN
        self.happens(ask.PeerRead(peer, rows, join_at))


def journal_rows(disk: SimulatedDisk, slot: str = M1) -> tuple[Tdb, list[Any]]:
    """The table that a journal tells from its begin, and its rows one by one."""
    table, rows = Tdb(DEFAULT_SCHEMA), []
    reader = Reader(View(disk, slot), frame_rows=1)
    while (read := reader.read()) is not None:
        table.fold(read)
        rows += read.with_stable(None).elements()
    return table, rows
