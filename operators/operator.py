"""What every operator of a plan offers.

An operator is a state machine over frames: rows in, rows out, nothing else. It is indifferent to
the order in which rows arrive inside the bounds that stables set: any order gives the same TDB.

`reach` and `fast_forward` are what lets a replica start in the middle and skip ahead. To give
every output with `ve >= t` right, an operator needs its input from `t - reach` on. A plan's reach
is the sum along its path.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

from gapless.protocol.elements import INF
from gapless.protocol.errors import SchemaError
from gapless.protocol.frame import Frame
from gapless.protocol.schema import StreamSchema


class Operator(ABC):
    """One step of a plan with one input."""

    schema: StreamSchema
    """Of the output."""
    reach: int = 0
    """How much time before t it must see, so that every output with `ve >= t` is right. INF: all of
    it, however old."""

    @abstractmethod
    def push(self, frame: Frame) -> Frame:
        """Takes the next frame of the input; returns what the output adds, maybe nothing."""

    @abstractmethod
    def fast_forward(self, t: int) -> int:
        """Outputs with a final `ve < t` are not wanted any more: drop the work for them.

        Never changes an output with `ve >= t`. Returns the time before which input rows are of no
        more use, BEGIN where all still are. Called with times that never go back.
        """

    @property
    def nbytes(self) -> int:
        """Bytes of state."""
        return 0

    @abstractmethod
    def validate(self) -> None:
        """Raises `Bug` where an invariant is broken."""


def check_schema(frame: Frame, schema: StreamSchema) -> None:
    """Raises unless a frame is of the schema that an operator was made for."""
    if frame.schema is not schema and frame.schema != schema:
        raise SchemaError(f"the operator takes {schema}, the frame is {frame.schema}")


class Chain(Operator):
    """Operators one after the other."""

    def __init__(self, *steps: Operator) -> None:
        self._steps = steps
        self.schema = steps[-1].schema
        self.reach = min(INF, sum(step.reach for step in steps))

    def push(self, frame: Frame) -> Frame:
        """Sends a frame through all steps."""
        for step in self._steps:
            frame = step.push(frame)
        return frame

    def fast_forward(self, t: int) -> int:
        """Asks the last step first, and each step before it for what the one behind asks."""
        for step in reversed(self._steps):
            t = step.fast_forward(t)
        return t

    @property
    def nbytes(self) -> int:
        """Bytes of state of all steps."""
        return sum(step.nbytes for step in self._steps)

    def validate(self) -> None:
        """Validates all steps."""
        for step in self._steps:
            step.validate()
