"""What every operator of a plan offers.

An operator is a state machine over frames: rows in, rows out, nothing else. It is indifferent to
the order in which rows arrive inside the bounds that stables set: any order, and any cut into
frames, gives the same TDB.

`reach` and `fast_forward` are what lets a replica start in the middle and skip ahead. To give
every output with `ve >= t` right, an operator needs its input from `t - reach` on. A plan's reach
is the sum along its path.

Marks are punctuations that travel beside frames: what a stable, which speaks of `_vs` alone, cannot
say. An operator that has no use for one, or cannot say it of its own output, drops it.

What one push puts out has no bound: a stable that jumps over an hour answers 3,600 windows. An
operator that may put out far more than it takes in gives it in `parts`, made one after the other:
memory is bounded, and the caller may do something else in between.

    parts(0, stable(3600))   ->   65,000 answers, stable(40)    65,000 answers, stable(80)    ...
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from gapless.operators.memory import UNBOUNDED, Memory
from gapless.operators.state import State, check_no_state
from gapless.protocol.elements import INF
from gapless.protocol.errors import SchemaError
from gapless.protocol.frame import Frame
from gapless.protocol.punctuation import Punctuation
from gapless.protocol.schema import StreamSchema

Marks = tuple[Punctuation, ...]

ANSWER_ROWS_MAX = 1 << 16
"""Rows of one part of an output, of those operators that give it in parts: some milliseconds of
work and some megabytes, so that calls for a part cost nothing beside its rows."""


class Out(NamedTuple):
    """What one push puts out."""

    frame: Frame
    """Maybe without rows and without a stable."""
    marks: Marks = ()
    """What holds once the frame has been read."""


class Operator(ABC):
    """One step of a plan."""

    schema: StreamSchema
    """Of the output."""
    inputs: int = 1
    """How many there are: they are pushed as 0, 1, ..."""
    reach: int = 0
    """How much time before t it must see, so that every output with `ve >= t` is right. INF: all of
    it, however old."""
    memory: Memory = UNBOUNDED
    """Asked before much is laid out; a graph gives all its operators one."""
    restores_checked = False
    """Whether `restore` alone refuses every state that it cannot have had. Else it is validated
    behind it, which takes several times as long as to restore it."""

    def limited(self, memory: Memory) -> None:
        """From now on it asks this memory; called by a graph, first of all. An operator with parts
        that lay rows out hands it on to them.
        """
        self.memory = memory

    @abstractmethod
    def push(self, source: int, frame: Frame, marks: Marks = ()) -> Out:
        """Takes the next frame of an input, then its marks; returns what the output adds.

        An output stable is the largest that is true, and only given when it is larger than the
        last one.
        """

    def parts(self, source: int, frame: Frame, marks: Marks = ()) -> Iterator[Out]:
        """`push`, its output in parts of about `ANSWER_ROWS_MAX` rows at the most, each made when
        it is asked for; together they say what `push` gives as one.

        To be read to its end before anything else is called; left before, the operator is of no
        more use.
        """
        yield self.push(source, frame, marks)

    @abstractmethod
    def fast_forward(self, t: int) -> int:
        """Outputs with a final `ve < t` are not wanted any more: drop the work for them.

        Never changes an output with `ve >= t`. Returns the time such that rows of any input with a
        final `ve` before it are of no more use, BEGIN where all still are. Called with times that
        never go back.
        """

    def snapshot(self) -> State:
        """All of its state, as named record batches; later pushes do not change them."""
        return {}

    def restore(self, state: State) -> None:
        """Takes back a snapshot of an operator made with the same arguments; called once, first.

        Raises `DecodeError` where it is not one; the operator is then not to be used.
        """
        check_no_state(state)

    @property
    def nbytes(self) -> int:
        """Bytes of state."""
        return 0

    @abstractmethod
    def validate(self) -> None:
        """Raises `Bug` where an invariant is broken."""


def joined(schema: StreamSchema, parts: Iterable[Out]) -> Out:
    """The parts of an output as one."""
    outs = list(parts)
    marks = tuple(mark for out in outs for mark in out.marks)
    return Out(one_frame(schema, [out.frame for out in outs]), marks)


def one_frame(schema: StreamSchema, frames: Sequence[Frame]) -> Frame:
    """One frame of several: all rows, and the last stable."""
    if len(frames) == 1:
        return frames[0]
    stable = max((f.stable for f in frames if f.stable is not None), default=None)
    parts = [f for f in frames if len(f)]
    if not parts:
        return Frame.empty(schema, stable)
    if len(parts) > 1:
        parts = [Frame.concat([f.with_stable(None) for f in parts])]
    return parts[0].with_stable(stable)


def check_schema(frame: Frame, schema: StreamSchema) -> None:
    """Raises unless a frame is of the schema that an operator was made for."""
    if frame.schema is not schema and frame.schema != schema:
        raise SchemaError(f"the operator takes {schema}, the frame is {frame.schema}")


def _through(step: Operator, source: int, outs: Iterator[Out]) -> Iterator[Out]:
    for frame, marks in outs:
        yield from step.parts(source, frame, marks)


class Chain(Operator):
    """Operators with one input each, one after the other."""

    def __init__(self, *steps: Operator) -> None:
        self._steps = steps
        self.schema = steps[-1].schema
        self.reach = min(INF, sum(step.reach for step in steps))

    def limited(self, memory: Memory) -> None:
        """All steps ask it."""
        super().limited(memory)
        for step in self._steps:
            step.limited(memory)

    def push(self, source: int, frame: Frame, marks: Marks = ()) -> Out:
        """Sends a frame through all steps."""
        return joined(self.schema, self.parts(source, frame, marks))

    def parts(self, source: int, frame: Frame, marks: Marks = ()) -> Iterator[Out]:
        """Sends each part of a step's output through those that follow before the next is made."""
        outs: Iterator[Out] = iter((Out(frame, marks),))
        for step in self._steps:
            outs = _through(step, source, outs)
        return outs

    def fast_forward(self, t: int) -> int:
        """Asks the last step first, and each step before it for what the one behind asks."""
        for step in reversed(self._steps):
            t = step.fast_forward(t)
        return t

    def snapshot(self) -> State:
        """The state of all steps; each step's names begin with its place."""
        return {
            f"{i}.{name}": batch
            for i, step in enumerate(self._steps)
            for name, batch in step.snapshot().items()
        }

    def restore(self, state: State) -> None:
        """Gives each step its own."""
        for i, step in enumerate(self._steps):
            prefix = f"{i}."
            step.restore(
                {n.removeprefix(prefix): b for n, b in state.items() if n.startswith(prefix)}
            )

    @property
    def nbytes(self) -> int:
        """Bytes of state of all steps."""
        return sum(step.nbytes for step in self._steps)

    def validate(self) -> None:
        """Validates all steps."""
        for step in self._steps:
            step.validate()
