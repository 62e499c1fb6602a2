"""A merger's shell: its threads, and the mailboxes of its subscribers.

What effects do says failover/io/merger_io.py; here is on which thread. Appends and their syncs are
done by one thread, in order; reads for subscribers and of the peer by another, so that readers do
not wait for a disk that syncs; tables by a third, a slice of each in turn, so that nobody waits for
one that takes long; bases of large tables by a fourth. The pump merges meanwhile, and what it
merges gathers for the next append. What may go of the output goes now and then, on the thread that
writes it (output_retention.py).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from functools import partial

from gapless.actors import output_retention
from gapless.actors.hands import Hands
from gapless.actors.mailboxes import Mailboxes
from gapless.actors.output_retention import TRIM_MS, OutputRetention
from gapless.actors.setup import JobDir, Setup, token
from gapless.actors.shell import Shell
from gapless.actors.subscriber_start import explained
from gapless.failover import effects as ask
from gapless.failover.io.merger_io import EFFECTS, MergerIO
from gapless.failover.io.steps import Place, Step
from gapless.failover.life_start import MergerStart
from gapless.failover.merger.effects import MergerEvent
from gapless.failover.merger.machine import Merger
from gapless.failover.merger.output_journal import OutputJournal
from gapless.failover.merger.output_reader import OutputReader
from gapless.failover.messages import Opened
from gapless.merge.lmerge import LMerge
from gapless.protocol.errors import Bug, GaplessError


class MergerShell(Shell):
    """One life of a merger."""

    NAPS = True

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
            base_bytes=output_retention.base_bytes(record.settings),
            segment_bytes=output_retention.segment_bytes(record.settings),
            on_alarm=self._tell,
            guard=threading.Lock(),
        )
        self._retention = OutputRetention(
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
        self._hands: dict[Place, Hands] = {
            "write": self._writing,
            "sync": self._writing,
            "base": self._basing,
            "read": self._reading,
            "scan": self._scanning,
            "peer": self._reading,
        }
        self._io = MergerIO(
            self._output,
            lambda peer: OutputReader(job_dir.output(peer), setup.schema),
            self._tell,
            base_disk=lambda: job_dir.output(self.life.slot),
            where=f" ({self.life} on node {setup.node})",
            explain=partial(explained, self.life.slot),
        )
        self._mailboxes = Mailboxes()
        self._does |= dict.fromkeys(EFFECTS, lambda effect: self._has_done(self._io.step(effect)))
        self._pump(self.machine)
        if self._retention.is_wanted:
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
        if self._mailboxes.asks(subscriber, data):
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

    # -- the output ---------------------------------------------------------------------------

    def _has_done(self, step: Step[MergerEvent]) -> None:
        """Has a step done by its thread, and then what follows from it."""
        self._hands[step.place].do(lambda: self._run(step))

    def _run(self, step: Step[MergerEvent]) -> None:
        done = step.run()
        if isinstance(done, Step):
            self._has_done(done)
        elif done is not None:
            self.pump.post(done)

    def _trim_later(self) -> None:
        self._writing.do(self._trim)
        self.pump.later(TRIM_MS, self._trim_later)

    def _trim(self) -> None:
        try:
            self._retention.trim()
        except (GaplessError, OSError) as e:  # what is wrong with the journal the next append says
            self._tell(f"the output is not trimmed: {e} ({self.life} on node {self.setup.node})")
