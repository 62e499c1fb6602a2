"""The executor: one running plan, fed with what readers of journals give.

    a reader's frame                 what goes into the graph
    ts, src, len   stable 17         ts, len   stable 10       the plan's columns; grid 10
    ts, src, len   stable 19         ts, len                   10 was given before
    (no rows)      stable 19         nothing at all

Stables are thinned to the times at which an answer can change, and one that says no more than the
last is dropped: a reader that begins again at a position promises again what it promised before.
That memory, `given`, is a part of every checkpoint.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import pyarrow as pa

from gapless.engine.graph import Graph
from gapless.engine.plan import Plan
from gapless.operators.aside import Aside
from gapless.operators.operator import one_frame
from gapless.operators.state import State
from gapless.protocol.elements import BEGIN, INF
from gapless.protocol.errors import DecodeError, Misuse
from gapless.protocol.frame import Frame
from gapless.protocol.schema import StreamSchema


class Executor:
    """One instance of a plan. After an error that `parts` raised it is of no more use."""

    def __init__(
        self, name: str, plan: Plan | Callable[[], Graph], aside: Aside | None = None
    ) -> None:
        """`plan`: a plan, or what makes its graph, a new one with each call (for spliced plans).
        `aside`: where these graphs put the rows that they cannot process, for the caller to take.
        """
        self.name = name
        """The plan's, by which snapshots fit or do not."""
        self._puts_aside = aside
        self._make: Callable[[], Graph] = plan.compile if isinstance(plan, Plan) else plan
        self._graph = self._make()
        self.schema: StreamSchema = self._graph.schema
        """Of the output."""
        self.sources: Mapping[str, StreamSchema] = self._graph.sources
        """What it reads, and the columns that it needs."""
        self.reach: Mapping[str, int] = self._graph.reach
        """For each source, how much time before t it must be read for outputs with `ve >= t`."""
        self.given: dict[str, int] = dict.fromkeys(self.sources, BEGIN)
        """The last stable that the graph was given, of each source."""
        self._useless = dict.fromkeys(self.sources, BEGIN)  # rows that end before it, by source

    @property
    def stable(self) -> int:
        """The last that was put out."""
        return self._graph.stable

    @property
    def nbytes(self) -> int:
        """Bytes of state."""
        return self._graph.nbytes

    @property
    def set_aside(self) -> int:
        """Rows that it could not process so far, where that is known."""
        return 0 if self._puts_aside is None else self._puts_aside.count

    def read_from(self, join_at: int) -> dict[str, int]:
        """By source, from which rows on a replay reads for all outputs with `ve >= join_at`."""
        reads_all = {s: join_at == BEGIN or reach == INF for s, reach in self.reach.items()}
        return {
            source: BEGIN if reads_all[source] else max(BEGIN, join_at - reach)
            for source, reach in self.reach.items()
        }

    @property
    def useless(self) -> Mapping[str, int]:
        """Rows that end before it are not wanted, by source."""
        return dict(self._useless)

    def push(self, source: str, frame: Frame) -> Frame:
        """Takes the next frame of a source; all output that follows as one frame, maybe empty."""
        return one_frame(self.schema, list(self.parts(source, frame)))

    def parts(self, source: str, frame: Frame) -> Iterator[Frame]:
        """`push`, with the output in parts of bounded rows, each made when it is asked for; to be
        read to their end before anything else is called.
        """
        wanted = self.sources.get(source)
        if wanted is None:
            raise Misuse(f"no source {source!r}: this plan reads {', '.join(self.sources)}")
        frame = self._useful(source, frame)
        if frame.schema is not wanted and frame.schema != wanted:
            frame = _projected(frame, wanted)
        stable = frame.stable
        if stable is not None:
            thinned = self._thinned(source, stable)
            if thinned != stable:
                frame = frame.with_stable(thinned)
        if frame:
            yield from self._graph.parts(source, frame)
            if frame.stable is not None:
                self.given[source] = frame.stable

    def _useful(self, source: str, frame: Frame) -> Frame:
        """Without rows that no output needs any more: a reader skips whole segments only."""
        t = self._useless[source]
        if t == BEGIN or not len(frame) or not frame.insert_only:
            return frame
        useful = frame.ve >= t
        return frame if useful.all() else frame.take(useful, frame.stable)

    def _thinned(self, source: str, t: int) -> int | None:
        """The stable that says as much to the plan; None where that was said before."""
        if t != INF:
            grid = self._graph.grids[source]
            t = t // grid * grid
        return t if t > self.given[source] else None

    def fast_forward(self, t: int) -> dict[str, int]:
        """Outputs with a final `ve < t` need not be made. For each source the time before which its
        rows are of no more use; BEGIN where all are.
        """
        useless = self._graph.fast_forward(t)
        for source, before in useless.items():
            self._useless[source] = max(self._useless[source], before)
        return useless

    def snapshot(self) -> State:
        """What the plan remembers; with `given`, all that another instance needs to go on."""
        return self._graph.snapshot()

    def restore(self, state: State, given: Mapping[str, int]) -> None:
        """Becomes what gave the snapshot. Raises `DecodeError`, and is then as new, where the
        snapshot is of another plan, or damaged.
        """
        self.become(self.restored(state, given), given)

    def restored(self, state: State, given: Mapping[str, int]) -> Graph:
        """What `become` takes; raises as `restore`. It touches nothing of the executor, so another
        thread may do it.
        """
        if given.keys() != self.sources.keys():
            raise DecodeError("checkpoint.given", f"is of {sorted(given)}", sorted(self.sources))
        graph = self._make()
        graph.restore(state)
        return graph

    def become(self, graph: Graph, given: Mapping[str, int]) -> None:
        """Continues with what was restored."""
        self._graph = graph
        self.given = dict(given)
        self._useless = dict.fromkeys(self.sources, BEGIN)

    def go_on(self, state: State, given: Mapping[str, int], useless: Mapping[str, int]) -> None:
        """As `restore`, with the rows that were not wanted."""
        self.restore(state, given)
        self._useless = dict(useless)

    def begin_anew(self) -> None:
        """Forgets all that it was given."""
        self._graph = self._make()
        self.given = dict.fromkeys(self.sources, BEGIN)
        self._useless = dict.fromkeys(self.sources, BEGIN)

    def validate(self) -> None:
        """Raises `Bug` where an invariant is broken."""
        self._graph.validate()


def _projected(frame: Frame, wanted: StreamSchema) -> Frame:
    """Only the columns that a source of the plan has: a journal may hold more."""
    payload = frame.payload
    missing = [name for name in wanted.names if name not in payload.schema.names]
    if missing:
        raise DecodeError(
            f"column {missing[0]}", "is not in the journal's frame", "prepare the journal with it"
        )
    columns: list[pa.Array] = [payload.column(name) for name in wanted.names]
    return frame.with_payload(wanted, columns)
