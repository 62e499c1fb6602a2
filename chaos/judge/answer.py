"""The right answer of a job, and how far an output is from it, counted in rows.

    recomputed   A [0,10)   B [3,12)   C [20,30)      one run over all that is in the journals now
    output       A [0,10)   B [3,15)   stable 20      compared is what is settled at its stable
                            lost 1: B [3,12)     contradicting 1: B [3,15)     C is not due yet

The answer is computed by one instance of the plan that the job is to run, without replicas, merging
or restarts, over the sources' journals read once from beginning to end; what has been trimmed from
those can not be judged any more. A later end of a source changes nothing that is settled, so the
comparison is right while the job runs.

At a stable L everything with `ve < L` has to be there exactly, and of the other events that start
before L as many as in the answer: their ends may still differ (chaos/sim/checkers/wanted.py).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from gapless.actors.reader_registry import began
from gapless.actors.setup import JobDir
from gapless.failover.replica.executor import Executor
from gapless.failover.replica.sources import Sources
from gapless.failover.table import LiveTable
from gapless.kernels import KeyTable
from gapless.protocol.elements import BEGIN, INF
from gapless.protocol.frame import Frame
from gapless.protocol.text import format_element

EXAMPLES_MAX = 3
"""Events of each kind that are shown; the first ones say what it is about."""


def recompute(job: JobDir, partitions: tuple[int, ...] | None = None) -> Frame:
    """All events of the answer as inserts, as if the sources ended now; of all partitions, or of
    those of one shard. Raises what reading them raises.
    """
    name = job.job.desired().plans[0]
    executor = Executor(name, job.plan(name).compile)  # without the job's limit of memory
    disks = {source: disk for source, disk in job.sources().items() if source in executor.sources}
    sources = Sources(disks, executor.sources, partitions, began(job.disk))
    sources.open(None, {})
    table = LiveTable(executor.schema)
    waiting = dict.fromkeys(executor.sources, BEGIN)
    while waiting:
        source = min(waiting, key=lambda each: waiting[each])  # who is behind is what is waited for
        frame, _ = sources.read(source)
        if frame is None:
            frame = Frame.empty(executor.sources[source], INF)
            del waiting[source]
        elif frame.stable is not None:
            waiting[source] = frame.stable
        table.change(executor.push(source, frame))
    return table.rows(table.ids())


@dataclass(frozen=True, slots=True)
class Compared:
    """One output against the answer. The counts are of rows."""

    who: str
    stable: int
    """How far it is settled, and so compared."""
    rows: int
    """Of the answer, that should be there by then."""
    lost: int = 0
    """Of those, what is not there."""
    duplicated: int = 0
    """What is there more often than it should be."""
    contradicting: int = 0
    """What is there and in no answer."""
    examples: tuple[str, ...] = ()
    """Some of them, in words."""

    @property
    def is_right(self) -> bool:
        """Whether it is the answer, as far as it goes."""
        return not (self.lost or self.duplicated or self.contradicting)

    def __str__(self) -> str:
        wrong = (
            f"{self.lost} lost, {self.duplicated} duplicated, {self.contradicting} contradicting"
        )
        shown = f": {'; '.join(self.examples)}" if self.examples else ""
        return f"{self.who}: {self.rows} rows settled, {wrong}{shown}"


def compare(
    who: str,
    held: Frame,
    answer: Frame,
    stable: int,
    *,
    since: int = BEGIN,
    final: bool = False,
    by_start: bool = False,
) -> Compared:
    """What is held at a stable, as inserts, against the answer.

    `since`: only events with `ve` from here on are compared, as others were never asked for.
    `final`: only what nothing can change any more is held; `by_start`: that is what starts before
    the stable, else what ends before it.
    """
    there = _Settled(held, stable, since, only_ends=final and not by_start, by_start=by_start)
    wanted = _Settled(answer, stable, since, only_ends=final and not by_start, by_start=by_start)
    keys = KeyTable(pa.schema([*list(held.schema.arrow)[:2], *held.schema.payload]))
    held_ids, _ = keys.intern(there.batch(keys.schema))
    wanted_ids, _ = keys.intern(wanted.batch(keys.schema))
    size = keys.capacity
    h, w = np.bincount(held_ids, minlength=size), np.bincount(wanted_ids, minlength=size)
    missing, extra = np.maximum(w - h, 0), np.maximum(h - w, 0)
    return Compared(
        who,
        stable,
        len(wanted_ids),
        lost=int(missing.sum()),
        duplicated=int(extra[w > 0].sum()),
        contradicting=int(extra[w == 0].sum()),
        examples=(
            *there.told("too often", extra[held_ids] > 0),
            *wanted.told("lost", missing[wanted_ids] > 0),
        ),
    )


class _Settled:
    """The events of a table that are settled at a stable."""

    def __init__(
        self, rows: Frame, stable: int, since: int, *, only_ends: bool, by_start: bool
    ) -> None:
        vs, ve = rows.vs, rows.ve
        if stable == INF:
            chosen, ends = np.ones(len(rows), np.bool_), ve
        else:
            chosen = (ve if only_ends else vs) < stable
            # A half-frozen event is compared by its start: its end may still move.
            ends = np.where(ve < stable, ve, INF)
        chosen &= (vs if by_start else ve) >= since
        self._rows = rows.take(np.flatnonzero(chosen))
        self._ends: npt.NDArray[np.int64] = np.ascontiguousarray(ends[chosen], np.int64)

    def batch(self, schema: pa.Schema) -> pa.RecordBatch:
        """Starts, ends and payloads."""
        columns = self._rows.batch.columns
        return pa.RecordBatch.from_arrays(
            [columns[0], pa.array(self._ends), *columns[3:]], schema=schema
        )

    def told(self, what: str, chosen: npt.NDArray[np.bool_]) -> list[str]:
        """The first ones of some rows, in words."""
        first = np.flatnonzero(chosen)[:EXAMPLES_MAX]
        return [f"{what} {format_element(e)}" for e in self._rows.take(first).elements()]
