"""The output of a job, read from its directory; neither the job nor its cluster has to run.

    output = gl.output("jobs/talkers")
    for frame in output.subscribe(start=token): ...      to its end, or on as it grows
    output.table()                                       the last answer
    output.status()                                      whether it is stopped, how far it goes

It reads the mergers' journals only, so it needs no Ray and runs no code of the job. If the job is
stopped, one journal of each shard is read: the token's, which continues at the next row, or the
longest. Otherwise all are merged and followed, as in `Job.subscribe`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from gapless.actors.feed import Feed
from gapless.actors.setup import RAY_TIMING, JobDir
from gapless.actors.stored import StoredMerger
from gapless.actors.subscriber_start import Start, mergers_of, slots_of, start_at, subscriber_of
from gapless.actors.subscription import Subscription
from gapless.engine.answer import answer, instant, last_answer
from gapless.failover.job.desired import Desired, State
from gapless.failover.merger.scan import end_of, last_events
from gapless.failover.subscriber.machine import StartAt
from gapless.failover.table import Deliver
from gapless.journal.layout import layout_of
from gapless.protocol.elements import BEGIN, INF
from gapless.protocol.errors import Misuse
from gapless.protocol.schema import StreamSchema

TABLE_S = 60.0
"""How long `table` waits for the output of a running job to reach the requested time."""


@dataclass(frozen=True, slots=True)
class OutputOf:
    """The output of one merger."""

    merger: str
    rows: int
    stable: int


@dataclass(frozen=True, slots=True)
class OutputStatus:
    """The state of the output in a job's directory."""

    name: str
    job_dir: str
    state: State
    """The desired state: only a cluster knows whether anything runs."""
    outputs: tuple[OutputOf, ...]

    @property
    def stable(self) -> int:
        """The time up to which every shard is durable in one of its mergers' journals."""
        shards: dict[str, int] = {}
        for each in self.outputs:
            shard = each.merger.partition(".")[0]
            shards[shard] = max(shards.get(shard, BEGIN), each.stable)
        return min(shards.values(), default=BEGIN)

    @property
    def has_ended(self) -> bool:
        """Whether nothing can follow: the input has ended and is fully processed."""
        return self.stable == INF


class Output:
    """A job's output, read from its directory. See the module."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """Raises `Misuse` if there is no job, `JobError` if its directory cannot be read."""
        self.dir = Path(path)
        self._job_dir = JobDir(self.dir)
        self._record = self._job_dir.job.record
        self.name = self._record.name
        self._known: StreamSchema | None = None

    @property
    def schema(self) -> StreamSchema:
        """The schema of the output. Raises `Misuse` if no merger has started yet."""
        if self._known is None:
            layouts = [layout_of(self._job_dir.output(slot)) for slot in self._slots()]
            known = [layout.schema for layout in layouts if layout is not None]
            if not known:
                raise Misuse(
                    f"{self.dir}: job {self.name} has no output yet: no merger has started"
                )
            self._known = known[0]
        return self._known

    def subscribe(
        self,
        deliver: Deliver = "changes",
        start: Start | Any = "now",
        *,
        mergers: Sequence[int] | None = None,
    ) -> Subscription:
        """Like `Job.subscribe`, from the journals. Ends with the output, or after everything
        written by a job that was stopped before; else it continues as the journals grow.
        """
        desired = self._desired()
        at = start_at(start, self.schema.time_unit)
        by_shard = mergers_of(desired, mergers)
        if mergers is None and desired.state == "stopped":
            by_shard = {shard: self._one_of(slots, shard, at) for shard, slots in by_shard.items()}
        machine = subscriber_of(self._record, by_shard, self.schema, deliver, at, RAY_TIMING)
        return Subscription(Feed(machine, slots_of(by_shard), self.schema, self.dir))

    def _one_of(self, slots: tuple[str, ...], shard: str, start: StartAt) -> tuple[str, ...]:
        """The merger whose journal is read of a stopped job; all of them where none would do."""
        token = start.get(shard) if isinstance(start, Mapping) else None
        if token is not None and token.merger in slots:
            merger = StoredMerger(token.merger, self._job_dir.output(token.merger), self.schema)
            return (token.merger,) if merger.goes_on(token) else slots
        best = self._farthest(slots)
        return slots if best is None else (best,)

    def _farthest(self, slots: tuple[str, ...]) -> str | None:
        """Of a shard's mergers the one whose journal goes farthest; None where none has begun."""
        ends = [end for slot in slots if (end := self._end_of(slot)) is not None]
        return max(ends, key=lambda end: end.stable).merger if ends else None

    def table(self, at: Any = None) -> pa.Table:
        """Like `Job.table`: the durable answer at a time; by default the newest, or the last one
        of an output that has ended.
        """
        if at is None:
            return self.last_table()
        since = instant(at, self.schema.time_unit)
        with self.subscribe(start=since) as subscription:
            try:
                emit = subscription.next_emit(TABLE_S)
            except StopIteration:
                emit = None
        if emit is None:
            raise Misuse(f"table: the output of {self.name} is not stable up to {at}")
        return answer([emit.frame], self.schema, since)

    def last_table(self) -> pa.Table:
        """The answer at the last instant at which anything is alive, of what is durable."""
        shards = mergers_of(self._desired(), None).values()
        best = [slot for slots in shards if (slot := self._farthest(slots)) is not None]
        frames = [last_events(self._job_dir.output(slot), self.schema) for slot in best]
        return last_answer(frames, self.schema, True)

    def status(self) -> OutputStatus:
        """What is there."""
        desired = self._desired()
        ends = (self._end_of(slot) for slot in self._slots())
        outputs = tuple(end for end in ends if end is not None)
        return OutputStatus(self.name, str(self.dir), desired.state, outputs)

    def _desired(self) -> Desired:
        return self._job_dir.job.desired()

    def _slots(self) -> tuple[str, ...]:
        return slots_of(mergers_of(self._desired(), None))

    def _end_of(self, slot: str) -> OutputOf | None:
        disk = self._job_dir.output(slot)
        if layout_of(disk) is None:
            return None
        return OutputOf(slot, *end_of(disk))

    def __repr__(self) -> str:
        return f"<Output of job {self.name} in {self.dir}>"


def output(path: str | os.PathLike[str]) -> Output:
    """The output in a job's directory; neither the job nor its cluster has to run. Raises
    `Misuse` if there is no job.
    """
    return Output(path)
