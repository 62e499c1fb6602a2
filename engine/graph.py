"""The graph of operators that runs a plan: frames go in at its sources and come out at its end.

    flows --+--> 0 Filter --> 1 HoppingAggregate --+--> 3 Meld --> output
            +--> 2 Select -------------------------+

Steps are numbered so that each reads sources and earlier steps only; what the last one puts out is
the graph's output. A push goes depth first: what an operator puts out is taken by its first
consumer, and by all that follow from that, before its second consumer sees it. At a fork all
consumers get the same frame, as frames never change. What says nothing (no rows, no stable, no
marks) goes no further. All output that one push caused is given back as one frame, or in `parts`:
a step that gives its output in parts makes the next one when all that follows from this one is out.

Either a push is done whole or the graph has failed: operators that have seen a frame and others
that have not cannot go on together, so after an error every call is refused with the first reason.
The same holds for parts that are not read to their end, and nothing else is called between them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NoReturn

import pyarrow as pa

from gapless.engine.steps import Counters, Edge, Node, Step, connect
from gapless.operators.memory import Memory
from gapless.operators.operator import Marks, Operator, Out, check_schema, one_frame
from gapless.operators.state import State, as_part, facts, part, read_facts
from gapless.protocol import frame as frames
from gapless.protocol.elements import BEGIN, INF, format_time
from gapless.protocol.errors import Bug, DecodeError, Misuse, StreamViolation
from gapless.protocol.frame import Frame
from gapless.protocol.punctuation import Punctuation
from gapless.protocol.schema import StreamSchema

_UNFIT = (
    Bug,
    Misuse,
    StreamViolation,
    pa.ArrowException,
    ArithmeticError,
    LookupError,
    TypeError,
    ValueError,
)
"""What comes of tables of the right names and columns with rows that no operator has written."""

_NOT_READ = "a push whose output was not read to its end"
_GRAPH = "graph"  # the part of a snapshot that is no step's


_Waiting = tuple[Edge, Frame, Marks] | tuple[Node, Iterator[Out]]
"""What is yet to be pushed, or the parts of an output that are yet to be made."""


class Graph:
    """Operators, each fed by sources or earlier operators; the last one's output is the graph's.

    `time_columns`: for these sources every stable t goes in with a mark as well, "no later row has
    column < t", for operators that look at a column and not at `_vs`.

    `grids`: the multiple of time between two stables of a source that can change anything; between
    them a source may keep its stables to itself. Told to its feeder, not used here.
    """

    def __init__(
        self,
        sources: Mapping[str, StreamSchema],
        steps: Sequence[Step],
        *,
        clock: Callable[[], int] | None = None,
        memory_limit: int | None = None,
        time_columns: Mapping[str, str] | None = None,
        grids: Mapping[str, int] | None = None,
    ) -> None:
        if not sources:
            raise Misuse("a graph has one source at least")
        self.sources = dict(sources)
        self.schema = steps[-1].operator.schema if steps else next(iter(sources.values()))
        self.stable = BEGIN
        """The last that was put out."""
        self.grids = {name: (grids or {}).get(name, 1) for name in sources}
        self._steps = tuple(steps)
        self._nodes = [Node(step) for step in steps]
        self._entries = connect(self.sources, self._steps, self._nodes)
        with_state = [node for node in self._nodes if node.has_state]
        self._memory = Memory(memory_limit, [(node.name, node.operator) for node in with_state])
        for step in steps:
            step.operator.limited(self._memory)
        self._clock = clock
        self.time_columns = dict(time_columns or {})
        self._nothing = Frame.empty(self.schema)
        self._wanted = BEGIN
        self._failure: str | None = None

    # -- running ------------------------------------------------------------------------------

    def push(self, source: str, frame: Frame, marks: Marks = ()) -> Frame:
        """Takes the next frame of a source, then its marks; gives all output that follows from it.

        The output is one frame, in element order, with the last stable. An error of an operator, or
        `MemoryLimit`, is raised once and the graph has failed; nothing of this push is put out.
        """
        outs = list(self._through(*self._taken(source, frame, marks)))
        out = one_frame(self.schema, outs) if outs else self._nothing
        if out.stable is not None:
            self.stable = out.stable
        return out

    def parts(self, source: str, frame: Frame, marks: Marks = ()) -> Iterator[Frame]:
        """`push`, with the output in parts: each is made when it is asked for, and says something.

        They are to be read to their end before anything else is called.
        """
        for out in self._through(*self._taken(source, frame, marks)):
            if out.stable is not None:
                self.stable = out.stable
            if out:
                yield out

    def _taken(
        self, source: str, frame: Frame, marks: Marks
    ) -> tuple[tuple[Edge, ...] | None, Frame, Marks]:
        """Who reads the source, None where there is nothing to be read; and the frame's marks."""
        entry = self._entries.get(source)
        if entry is None or self._failure is not None:
            self._refuse(source)
        check_schema(frame, self.sources[source])
        stable = frame.stable
        if stable is not None and source in self.time_columns:
            marks = (*marks, Punctuation(((self.time_columns[source], stable),)))
        says = stable is not None or marks or len(frame)
        return entry if says else None, frame, marks

    def _through(
        self, entry: tuple[Edge, ...] | None, frame: Frame, marks: Marks
    ) -> Iterator[Frame]:
        """All that comes out; unless it is read to its end, or where it raises, the graph fails."""
        if entry is None:
            return
        self._failure = _NOT_READ
        try:
            for number, out in enumerate(self._flow(entry, frame, marks)):
                if number:
                    self._memory.look()
                yield out
            self._memory.look()
        except GeneratorExit:
            raise
        except BaseException as e:
            self._fail(e)
            raise
        self._failure = None

    def finish(self, source: str) -> Frame:
        """The end of a source: nothing more will come of it."""
        if source not in self.sources:
            self._refuse(source)
        return self.push(source, Frame.empty(self.sources[source], INF))

    def _flow(self, consumers: tuple[Edge, ...], frame: Frame, marks: Marks) -> Iterator[Frame]:
        """Sends a frame through the graph; the frames that come out, in order."""
        if not consumers:
            yield frame
        # Consumers and further parts, until it is their turn.
        waiting: list[_Waiting] = [(edge, frame, marks) for edge in reversed(consumers)]
        clock = self._clock
        since = clock() if clock is not None else 0
        while waiting:
            given = waiting.pop()
            out: Out | None
            if len(given) == 3:
                (node, port), frame, marks = given
                node.frames += 1
                node.rows_in += frame.batch.num_rows
                if self._memory.limit is not None:
                    self._memory.ask(frame.nbytes, f"rows that go into {node.name}")
                if node.cuts:
                    waiting.append((node, node.operator.parts(port, frame, marks)))
                    continue
                out = node.push(port, frame, marks)
            else:
                node, parts = given
                out = next(parts, None)
                if out is None:
                    continue
                waiting.append(given)
            frame, marks = out
            node.rows_out += frame.batch.num_rows
            if frame.stable is not None:
                node.stable = frame.stable
            if clock is not None:
                now = clock()
                node.busy_ns += now - since
                since = now
            if not node.consumers:
                yield frame
                since = clock() if clock is not None else 0
            elif frame.batch.num_rows or frame.stable is not None or marks:
                waiting += [(edge, frame, marks) for edge in reversed(node.consumers)]

    def _fail(self, error: BaseException) -> None:
        self._failure = f"{type(error).__name__}: {error}"

    def _refuse(self, source: str | None = None) -> NoReturn:
        if self._failure is not None:
            raise Misuse(
                "this graph failed before and is not to be used any more; start a new one. The "
                f"first error was {self._failure}"
            )
        raise Misuse(f"no source {source!r}: this graph reads {', '.join(self.sources)}")

    # -- skipping -----------------------------------------------------------------------------

    @property
    def reach(self) -> dict[str, int]:
        """For each source, how much time before t it is needed, so that every output with `ve >= t`
        is right: along the path that needs most. INF: all of it.
        """
        above: dict[str | int, int] = {}
        for number in reversed(range(len(self._steps))):
            step = self._steps[number]
            total = min(INF, step.operator.reach + above.get(number, 0))
            for origin in step.inputs:
                above[origin] = max(above.get(origin, 0), total)
        return {name: above.get(name, 0) for name in self.sources}

    def fast_forward(self, t: int) -> dict[str, int]:
        """Outputs with a final `ve < t` are not wanted any more: every operator drops what it can.

        For each source the time before which its rows are of no more use; BEGIN where all are.
        """
        if self._failure is not None:
            self._refuse()
        self._wanted = max(self._wanted, t)
        wanted: dict[str | int, int] = {}
        last = len(self._steps) - 1
        try:
            for number in reversed(range(len(self._steps))):
                step = self._steps[number]
                ask = self._wanted if number == last else wanted[number]
                if ask > BEGIN:
                    ask = step.operator.fast_forward(ask)
                for origin in step.inputs:
                    wanted[origin] = min(wanted.get(origin, INF), ask)
        except BaseException as e:
            self._fail(e)
            raise
        return {name: wanted.get(name, self._wanted) for name in self.sources}

    # -- state --------------------------------------------------------------------------------

    def snapshot(self) -> State:
        """The state of all steps; the names of each begin with its number and its operator's class.

        What a graph of the same plan needs to go on from here, and nothing of what was counted.
        """
        if self._failure is not None:
            self._refuse()
        state = dict(as_part({"facts": facts(stable=self.stable, wanted=self._wanted)}, _GRAPH))
        for prefix, operator in self._named():
            state.update(as_part(operator.snapshot(), prefix))
        return state

    def restore(self, state: State) -> None:
        """Takes back a snapshot of a graph of the same plan; called once, first.

        Raises `DecodeError` where it is not one; the graph has then failed.
        """
        if self._failure is not None:
            self._refuse()
        if any(node.frames for node in self._nodes):
            raise Misuse("a graph is restored before anything is pushed")
        try:
            for name, batch in state.items():
                if not isinstance(batch, pa.RecordBatch):
                    raise DecodeError(name, f"is a {type(batch).__name__}", "a record batch")
            self.stable, self._wanted = read_facts(part(state, _GRAPH), "stable", "wanted")
            left = set(state) - set(as_part(part(state, _GRAPH), _GRAPH))
            for prefix, operator in self._named():
                own = part(state, prefix)
                left -= set(as_part(own, prefix))
                _restore(operator, own, prefix)
            if left:
                raise DecodeError(
                    "snapshot", f"{sorted(left)} are of no step here", "the same plan"
                )
        except BaseException as e:
            self._fail(e)
            raise
        self._memory.look()

    def _named(self) -> Iterable[tuple[str, Operator]]:
        for number, step in enumerate(self._steps):
            yield f"{number}.{type(step.operator).__name__}", step.operator

    # -- looking at it ------------------------------------------------------------------------

    @property
    def steps(self) -> tuple[Step, ...]:
        """In order."""
        return self._steps

    @property
    def nbytes(self) -> int:
        """Bytes of state of all steps."""
        return sum(node.operator.nbytes for node in self._nodes if node.has_state)

    @property
    def counters(self) -> list[Counters]:
        """What each step has done so far, in order."""
        return [
            Counters(
                number,
                node.name,
                node.frames,
                node.rows_in,
                node.rows_out,
                node.busy_ns,
                node.operator.nbytes,
                node.stable,
            )
            for number, node in enumerate(self._nodes)
        ]

    def validate(self) -> None:
        """Raises `Bug` where an invariant is broken, of the graph or of a step."""
        for node in self._nodes:
            node.operator.validate()
        if self._nodes and self._nodes[-1].stable > self.stable:
            raise Bug(
                f"the last step has promised {format_time(self._nodes[-1].stable)}, the graph "
                f"{format_time(self.stable)}"
            )


def _restore(operator: Operator, state: State, prefix: str) -> None:
    """Gives an operator its state back; a state that it cannot have had is a `DecodeError`."""
    try:
        for batch in state.values():
            batch.validate(full=True)
        operator.restore(state)
        if not operator.restores_checked or frames.CHECKS_MADE:
            operator.validate()
    except _UNFIT as e:
        raise DecodeError(prefix, f"no state of this step: {type(e).__name__}: {e}") from e
