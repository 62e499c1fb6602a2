"""The intake of a replica: what is read of the sources, on its way through the plan to the tail.

    ask --> ReadSource --> SourceRead --> take_in --> plan --> part, part, part --> tail
                                                                     | the tail is full: the rest
                                                                     | waits until mergers took it
    None is read while    the tail is full, or no link has room; the plan is beyond what may be
                          promised; or it is left alone, as its snapshot is being taken

What was read while the plan is left alone is kept back, and comes again when it is free.
"""

from __future__ import annotations

from collections.abc import Callable

from gapless.failover.replica.effects import ReplicaEffect, SourceFailed, SourceRead
from gapless.failover.replica.executor import Executor
from gapless.failover.replica.outcome import Outcome
from gapless.failover.replica.output_sender import OutputSender
from gapless.failover.replica.promise_limit import PromiseLimit
from gapless.failover.replica.source_progress import SourceProgress

TAIL_ROWS_MAX = 1_000_000
"""Rows of output that some merger has not taken in; beyond it the sources are not read. It bounds
what piles up while a merger is away, and never what lives: a tail is as large as the answer is."""


class ReplicaIntake:
    """Of one life of a replica."""

    def __init__(
        self,
        executor: Executor,
        output: OutputSender,
        limit: PromiseLimit,
        holds_plan: Callable[[], bool],
    ) -> None:
        """`holds_plan`: whether somebody looks at the plan, which is then left alone."""
        self._executor = executor
        self._output = output
        self._limit = limit
        self._holds_plan = holds_plan
        self.progress = SourceProgress(executor.sources)
        """How far the sources are read."""
        self._outcome = Outcome()
        self._kept_back: list[SourceRead | SourceFailed] = []
        self.read_at = 0
        """When it was reading last."""

    # -- what it is ---------------------------------------------------------------------------

    @property
    def has_more(self) -> bool:
        """Whether parts of the last read are to be put out yet."""
        return self._outcome.is_under_way

    @property
    def uses_plan(self) -> bool:
        """Whether the plan is in the middle of something, or left alone."""
        return self._holds_plan() or self._outcome.is_under_way

    @property
    def is_reading(self) -> bool:
        """Whether a source is being read, and what it gives is taken."""
        return self.progress.is_under_way and not self.uses_plan

    def is_full(self) -> bool:
        """Whether too much of the output waits for a merger."""
        return self._output.is_full(TAIL_ROWS_MAX)

    def may_read(self) -> bool:
        """Whether what comes of a read has a place to go."""
        return (
            not self._limit.is_reached
            and self._output.has_room
            and not self.is_full()
            and not self._holds_plan()
        )

    def waits_for(self) -> str:
        """What keeps it from reading, in words; empty where nothing does."""
        if self.may_read():
            return ""
        if self._holds_plan():
            return "its snapshot is being made"
        if self._limit.is_reached:
            return f"a cutover lets it promise nothing beyond {self._limit.held_at}"
        return self._output.waits_for(TAIL_ROWS_MAX)

    # -- reading ------------------------------------------------------------------------------

    def ask(self) -> list[ReplicaEffect]:
        """Reads on, where it may."""
        return self.progress.ask() if self.may_read() else []

    def keep_back(self, event: SourceRead | SourceFailed) -> bool:
        """Whether an event is kept back, as the plan is left alone."""
        if self._holds_plan():
            self._kept_back.append(event)
            return True
        return False

    def kept_back(self) -> list[SourceRead | SourceFailed]:
        """What was kept back; nothing is any more."""
        kept_back, self._kept_back = self._kept_back, []
        return kept_back

    def take_in(self, event: SourceRead) -> None:
        """Gives the plan what was read."""
        frame = event.frame
        made = iter(()) if frame is None else self._executor.parts(event.source, frame)
        self._outcome.begin(event, made)

    def put_out(self, now: int) -> SourceRead | None:
        """Puts out what comes of the last read, as far as the tail has room: the rest waits until
        mergers have taken that in. The read, once all of it is out. Raises what the plan raises.
        """
        event = self._outcome.take(self._limit.put_out, self.is_full)
        if event is not None:
            self._limit.promise()  # what a hold would have kept back that has ended meanwhile
            self.progress.answered(event)
            self.read_at = now
        return event

    def make_room(self) -> None:
        """A full tail is folded as soon as that may leave fewer rows."""
        self._output.make_room(TAIL_ROWS_MAX)

    def begin_anew(self) -> None:
        """The plan has begun anew: nothing is read, and what was is not wanted."""
        self._outcome.drop()
        self.progress = SourceProgress(self._executor.sources)
