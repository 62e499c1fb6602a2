"""What the effects of a merger do, to its output journal and the outputs of its peers.

    Append       write, sync          Appended | AppendRefused | OutputLost
    Seal         write                Sealed | OutputLost
    MakeBase     write, base, write   BaseMade | OutputLost
    WatchOutput  write                OutputLost, or nothing
    ReadOutput, ReadTable, DropTable  output_reads.py, which a stored output has, too
    ReadPeer     peer                 PeerRead
    ClosePeer    peer                 nothing

Every error of a disk or a journal becomes one of these events here, and nowhere else:

    writing   DiskFull                the journal is as it was: refused, to be tried again later;
                                      at a sync as the others
              Fenced, JournalError,
              OSError                 this life's output is lost
    a peer    GaplessError, OSError   nothing new: the reader goes on where it was, asked again

The steps of one place run one at a time; those of different places may run on different threads.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import assert_never, get_args

from gapless.failover.io.output_reads import OutputReads, ReadEffect
from gapless.failover.io.steps import Outcome, Step
from gapless.failover.merger.bases import BaseDraft, Made
from gapless.failover.merger.effects import (
    Append,
    AppendRefused,
    BaseMade,
    ClosePeer,
    MakeBase,
    MergerEvent,
    OutputLost,
    OutputRead,
    PeerRead,
    ReadOutput,
    ReadPeer,
    Seal,
    Sealed,
    WatchOutput,
)
from gapless.failover.merger.output_journal import OutputJournal
from gapless.failover.merger.output_reader import OutputReader
from gapless.journal.disk import Disk
from gapless.protocol.errors import DiskFull, Fenced, GaplessError, JournalError
from gapless.protocol.frame import Frame

OutputEffect = Append | Seal | MakeBase | WatchOutput | ReadEffect | ReadPeer | ClosePeer
"""What is interpreted here."""
EFFECTS: tuple[type[OutputEffect], ...] = get_args(OutputEffect)
"""The same, as classes."""
_LOST = (Fenced, JournalError, OSError)


class MergerIO:
    """Interprets the effects of one life of a merger."""

    def __init__(
        self,
        output: OutputJournal,
        open_peer: Callable[[str], OutputReader],
        on_alarm: Callable[[str], None],
        *,
        base_disk: Callable[[], Disk | None] = lambda: None,
        where: str = "",
        explain: Callable[[GaplessError], str] = str,
    ) -> None:
        """`open_peer`: a reader of a peer's output. `on_alarm`: is told, on the thread of the step,
        what a person should know. `base_disk`: opens the disk of the output again, for the thread
        that makes a base; None where that is the thread that writes. `where`: follows each reason
        why the output is lost. `explain`: what a subscriber is told about an error.
        """
        self._output = output
        self._open_peer = open_peer
        self._on_alarm = on_alarm
        self._base_disk = base_disk
        self._where = where
        self._reads = OutputReads(output.reader, self._lost, explain)
        self._peers: dict[str, OutputReader] = {}
        self._unread: dict[str, str] = {}  # by peer, why its output does not read

    def step(self, effect: OutputEffect) -> Step[MergerEvent]:  # one for each effect
        """The first step of an effect."""
        if isinstance(effect, ReadEffect):
            return self._reads.step(effect)
        match effect:
            case Append(frame):
                return Step("write", partial(self._append, frame))
            case Seal(base):
                return Step("write", partial(self._seal, base))
            case MakeBase():
                return Step("write", self._begin_base)
            case WatchOutput():
                return Step("write", self._watch)
            case ReadPeer():
                return Step("peer", partial(self._read_peer, effect))
            case ClosePeer():
                return Step("peer", partial(self._close_peer, effect))
        assert_never(effect)

    def do(self, effect: OutputEffect) -> MergerEvent | None:
        """All that an effect does, on one thread."""
        return self.step(effect).finish()

    # -- writing ------------------------------------------------------------------------------

    def _append(self, frame: Frame) -> Outcome[MergerEvent]:
        try:
            self._output.append(frame)
        except DiskFull as e:
            return AppendRefused(str(e) + self._where)
        except _LOST as e:
            return self._lost(e)
        return Step("sync", self._sync)

    def _sync(self) -> MergerEvent:
        try:
            return self._output.sync()
        except (DiskFull, *_LOST) as e:  # what was appended may be there: it is not tried again
            return self._lost(e)

    def _seal(self, base: Frame | None) -> MergerEvent:
        try:
            self._output.seal(base)
        except DiskFull as e:  # a base that did not fit is made another time
            self._on_alarm(f"no base of the output: {e}")
        except _LOST as e:
            return self._lost(e)
        return Sealed()

    def _watch(self) -> MergerEvent | None:
        try:
            self._output.watch()
        except (DiskFull, *_LOST) as e:
            return self._lost(e)
        return None

    def _lost(self, error: Exception) -> OutputLost:
        return OutputLost(str(error) + self._where, isinstance(error, Fenced))

    # -- bases --------------------------------------------------------------------------------

    def _begin_base(self) -> Outcome[MergerEvent]:
        try:
            draft = self._output.begin_base(self._base_disk())
        except DiskFull as e:
            return self._no_base(e)
        except _LOST as e:
            return self._lost(e)
        if draft is None:
            return BaseMade("the output has ended")
        return Step("base", partial(self._make_base, draft))

    def _make_base(self, draft: BaseDraft) -> Outcome[MergerEvent]:
        try:
            made = draft.make()
        except (GaplessError, OSError) as e:
            return self._no_base(e)
        return Step("write", partial(self._put_base, draft, made))

    def _put_base(self, draft: BaseDraft, made: Made) -> MergerEvent:
        try:
            why_not = self._output.put_base(draft, made)
        except DiskFull as e:
            return self._no_base(e)
        except _LOST as e:
            return self._lost(e)
        return BaseMade(why_not)

    def _no_base(self, error: Exception) -> MergerEvent:
        """It is made another time."""
        self._on_alarm(f"no base of the output: {error}")
        return BaseMade(str(error))

    # -- reading ------------------------------------------------------------------------------

    def recent(self, effect: ReadOutput) -> OutputRead | None:
        """The answer, where it was written so lately that it is in memory. For any thread."""
        return self._reads.recent(effect)

    def forget(self, subscriber: str) -> None:
        """It reads no more. For any thread."""
        self._reads.forget(subscriber)

    # -- peers --------------------------------------------------------------------------------

    def _read_peer(self, effect: ReadPeer) -> MergerEvent:
        peer = effect.peer
        try:
            if peer not in self._peers:
                self._peers[peer] = self._open_peer(peer)
            frame, join_at = self._peers[peer].peer(effect.since)
        except (GaplessError, OSError) as e:
            if self._unread.get(peer) != str(e):  # it is asked again at every tick
                self._unread[peer] = str(e)
                self._on_alarm(f"the output of {peer} does not read: {e}")
            return PeerRead(peer, None)
        self._unread.pop(peer, None)
        return PeerRead(peer, frame, join_at)

    def _close_peer(self, effect: ClosePeer) -> None:
        self._peers.pop(effect.peer, None)
        self._unread.pop(effect.peer, None)
