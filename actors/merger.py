"""A merger's shell: its output journal, and the mailboxes of its subscribers.

Appends and their syncs are done by one thread, in order; reads for subscribers and of the peer by
another, so that readers do not wait for a disk that syncs; tables by a third, a slice of each
in turn (failover/merger/scan.py), so that nobody waits for one that takes long; bases of large
tables by a fourth. The pump merges
meanwhile, and what it merges gathers for the next append. What may go of the output goes now and
then (retaining.py), on the thread that writes it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from gapless.actors import retaining
from gapless.actors.hands import Hands
from gapless.actors.mailboxes import Mailboxes
from gapless.actors.retaining import TRIM_MS, Retaining
from gapless.actors.setup import JobDir, Setup, token
from gapless.actors.shell import Shell
from gapless.failover import effects as ask
from gapless.failover.life_start import MergerStart
from gapless.failover.merger.bases import BaseDraft, Made
from gapless.failover.merger.machine import Merger
from gapless.failover.merger.output_journal import OutputJournal, OutputReader
from gapless.failover.merger.scan import Scans
from gapless.failover.messages import Opened, Token
from gapless.merge.lmerge import LMerge
from gapless.protocol.errors import Bug, DiskFull, Fenced, GaplessError, JournalError, Trimmed

READERS_MAX = 64
"""Places in the output that are kept open: one a subscriber that reads; the oldest are let go."""


class MergerShell(Shell):
    """One life of a merger."""

    def __init__(self, setup: Setup, job_dir: JobDir, at_end: Callable[[str], None]) -> None:
        super().__init__(setup, job_dir, at_end)
        start, timing = setup.start, setup.timing
        if not isinstance(start, MergerStart):
            raise Bug(f"{setup.life} is started as {start}")
        record = job_dir.job.record
        self._output = OutputJournal(
            job_dir.output(self.life.slot),
            setup.schema,
            self.life,
            token(),
            lambda: time.time_ns() // 1_000_000,
            base_bytes=retaining.base_bytes(record.settings),
            segment_bytes=retaining.segment_bytes(record.settings),
            on_alarm=self._tell,
            guard=threading.Lock(),
        )
        self._retaining = Retaining(
            job_dir.output(self.life.slot),
            record.settings,
            {peer: job_dir.output(peer) for peer in start.peers},
            token(),
            lambda: time.time_ns() // 1_000_000,
            self._tell,
        )
        live, offset = self._output.recover()
        merge = LMerge(setup.schema, record.case)
        self.machine = Merger(self.life, start, self._output.epoch, merge, live, offset, timing)
        self._writing = Hands(f"output of {self.life}", self._broken)
        self._reading = Hands(f"reads of {self.life}", self._broken)
        self._scanning = Hands(f"scans of {self.life}", self._broken)
        self._basing = Hands(f"bases of {self.life}", self._broken)
        self._scans = Scans(self._output.reader().open_table)
        self._mailboxes = Mailboxes()
        self._readers: dict[str, OutputReader] = {}
        self._peers: dict[str, OutputReader] = {}
        self._does |= {
            ask.Append: lambda effect: self._writing.do(lambda: self._append(effect)),
            ask.Seal: lambda effect: self._writing.do(lambda: self._seal(effect)),
            ask.MakeBase: lambda _: self._writing.do(self._begin_base),
            ask.WatchOutput: lambda _: self._writing.do(self._watch),
            ask.ReadOutput: lambda effect: self._reading.do(lambda: self._read_output(effect)),
            ask.ReadTable: lambda effect: self._scanning.do(lambda: self._read_table(effect)),
            ask.DropTable: lambda effect: self._scanning.do(lambda: self._scans.drop(effect)),
            ask.ReadPeer: lambda effect: self._reading.do(lambda: self._read_peer(effect)),
            ask.ClosePeer: lambda effect: self._reading.do(lambda: self._close_peer(effect)),
        }
        self._pump(self.machine)
        if self._retaining.is_wanted:
            self.pump.do(lambda: self.pump.later(TRIM_MS, self._trim_later))

    def _let_go(self) -> None:
        self._mailboxes.end()
        self._writing.end()
        self._reading.end()
        self._scanning.end()
        self._basing.end()

    # -- subscribers --------------------------------------------------------------------------

    def answer(self, subscriber: str, data: bytes) -> list[bytes]:
        """Takes a subscriber's questions and waits a while for answers. For any thread."""
        self._mailboxes.open(subscriber)
        self.hear(data)
        return self._mailboxes.fetch(subscriber)

    def _send(self, effect: ask.Send) -> None:
        """Answers to subscribers are encoded by the thread that has read them, not by those that
        wait for them: Arrow's allocator is slow with the first large frame in each thread.
        """
        if not self._mailboxes.has(effect.to):
            super()._send(effect)
            return
        to, message = effect.to, effect.message
        hands = self._scanning if isinstance(message, Opened) else self._reading
        hands.do(lambda: self._mailboxes.put(to, self.wire.encode([message])))

    # -- the output, on the thread that writes it ---------------------------------------------

    def _append(self, effect: ask.Append) -> None:
        try:
            self._output.append(effect.frame)
            done = self._output.sync()
        except DiskFull as e:
            self.pump.post(ask.AppendRefused(self._where(e)))
        except (Fenced, JournalError, OSError) as e:
            self.pump.post(ask.OutputLost(self._where(e)))
        else:
            self.pump.post(done)

    def _seal(self, effect: ask.Seal) -> None:
        try:
            self._output.seal(effect.base)
        except DiskFull as e:  # a base that did not fit is made another time
            self._tell(f"no base of the output: {e}")
        except (Fenced, JournalError, OSError) as e:
            self.pump.post(ask.OutputLost(self._where(e)))
            return
        self.pump.post(ask.Sealed())

    def _begin_base(self) -> None:
        try:
            draft = self._output.begin_base(self.dir.output(self.life.slot))
        except DiskFull as e:
            self._no_base(e)
        except (Fenced, JournalError, OSError) as e:
            self.pump.post(ask.OutputLost(self._where(e)))
        else:
            if draft is not None:
                self._basing.do(lambda: self._make_base(draft))

    def _make_base(self, draft: BaseDraft) -> None:
        """On a thread of its own."""
        try:
            made = draft.make()
        except (GaplessError, OSError) as e:
            self._no_base(e)
        else:
            self._writing.do(lambda: self._put_base(draft, made))

    def _put_base(self, draft: BaseDraft, made: Made) -> None:
        try:
            why_not = self._output.put_base(draft, made)
        except DiskFull as e:
            self._no_base(e)
        except (Fenced, JournalError, OSError) as e:
            self.pump.post(ask.OutputLost(self._where(e)))
        else:
            self.pump.post(ask.BaseMade(why_not))

    def _no_base(self, error: Exception) -> None:
        """One that did not fit is made another time."""
        self._tell(f"no base of the output: {error}")
        self.pump.post(ask.BaseMade(str(error)))

    def _watch(self) -> None:
        try:
            self._output.watch()
        except (Fenced, OSError) as e:
            self.pump.post(ask.OutputLost(self._where(e)))

    def _trim_later(self) -> None:
        self._writing.do(self._trim)
        self.pump.later(TRIM_MS, self._trim_later)

    def _trim(self) -> None:
        try:
            self._retaining.trim()
        except (GaplessError, OSError) as e:  # what is wrong with the journal the next append says
            self._tell(f"the output is not trimmed: {self._where(e)}")

    def _where(self, error: Exception) -> str:
        return f"{error} ({self.life} on node {self.setup.node})"

    # -- reading ------------------------------------------------------------------------------

    def _read_output(self, effect: ask.ReadOutput) -> None:
        subscriber, wanted = effect.subscriber, effect.token
        try:
            frame = self._reader(subscriber).read(wanted)
        except GaplessError as e:
            self._readers.pop(subscriber, None)
            self._refuse(subscriber, wanted, e)
        else:
            self.pump.post(ask.OutputRead(subscriber, wanted.offset, frame))

    def _read_table(self, effect: ask.ReadTable) -> None:
        self._scans.begin(effect)
        self._step(effect)

    def _step(self, effect: ask.ReadTable) -> None:
        """A slice; the next one waits for those of others."""
        if not self._scans.wants(effect.subscriber, effect.attempt):
            return
        try:
            done = self._scans.step(effect)
        except GaplessError as e:
            self._refuse(effect.subscriber, effect.attempt, e)
            return
        if done is None:
            self._scanning.do(lambda: self._step(effect))
        else:
            self.pump.post(done)

    def _reader(self, subscriber: str) -> OutputReader:
        reader = self._readers.pop(subscriber, None) or self._output.reader()
        self._readers[subscriber] = reader
        if len(self._readers) > READERS_MAX:
            del self._readers[next(iter(self._readers))]
        return reader

    def _refuse(self, subscriber: str, asked: Token | int, error: GaplessError) -> None:
        why, reason = OutputReader.why(error), str(error)
        if isinstance(error, Trimmed):
            reason = (
                f"merger {self.life.slot}: that part of the output has been trimmed, as the job's "
                'retain= says: subscribe with start="now", whose first frame is a reset that '
                f"replaces all you hold ({error})"
            )
        self.pump.post(ask.ReadRefused(subscriber, asked, why, reason))

    def _read_peer(self, effect: ask.ReadPeer) -> None:
        if effect.peer not in self._peers:
            disk = self.dir.output(effect.peer)
            self._peers[effect.peer] = OutputReader(disk, self.setup.schema)
        try:
            frame, join_at = self._peers[effect.peer].peer(effect.since)
        except GaplessError as e:
            self._tell(f"the output of {effect.peer} does not read: {e}")
            self.pump.post(ask.PeerRead(effect.peer, None))  # it goes on where it was, once it can
        else:
            self.pump.post(ask.PeerRead(effect.peer, frame, join_at))

    def _close_peer(self, effect: ask.ClosePeer) -> None:
        self._peers.pop(effect.peer, None)
