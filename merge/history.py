"""What an LMerge remembers while it may still have to step to a more general case.

r0, r1 and r2 keep almost nothing, so a step from them could not know what was put out and who said
what. A merger that may be attached to by an input of any kind therefore keeps the frames of its
inputs (references, not copies), and those of its output, until all their events are settled. r3 and
r4 hold the same in their own state.
"""

from __future__ import annotations

from collections import deque

from gapless.protocol.elements import BEGIN, INF
from gapless.protocol.frame import Frame
from gapless.protocol.schema import StreamSchema


class _Recent:
    """The frames of one stream that hold events which are not settled."""

    def __init__(self) -> None:
        self._frames: deque[tuple[int, Frame]] = deque()

    def add(self, frame: Frame) -> None:
        if len(frame):
            self._frames.append((int(frame.ve.max()), frame.with_stable(None)))

    def settle(self, stable: int) -> None:
        while self._frames and (self._frames[0][0] < stable or stable == INF):
            self._frames.popleft()

    def rows(self, schema: StreamSchema, stable: int) -> Frame:
        if not self._frames or stable == INF:
            return Frame.empty(schema)
        rows = Frame.concat([frame for _, frame in self._frames])
        return rows.take(rows.ve >= stable)

    @property
    def nbytes(self) -> int:
        return sum(frame.nbytes for _, frame in self._frames)


class History:
    """What the output and each input said of events that are not settled; inserts only."""

    def __init__(self, schema: StreamSchema) -> None:
        self._schema = schema
        self._stable = BEGIN
        self._output = _Recent()
        self._inputs: dict[int, _Recent] = {}

    def attach(self, number: int) -> None:
        """A new input."""
        self._inputs[number] = _Recent()

    def detach(self, number: int) -> None:
        """An input has left: what it said is in the output, or was never needed."""
        del self._inputs[number]

    def said(self, number: int, frame: Frame) -> None:
        """An input's frame was taken in."""
        self._inputs[number].add(frame)

    def put_out(self, frames: list[Frame]) -> None:
        """These went out."""
        for frame in frames:
            self._output.add(frame)

    def settle(self, stable: int) -> None:
        """The output has promised `stable`."""
        self._stable = stable
        for stream in (self._output, *self._inputs.values()):
            stream.settle(stable)

    def live(self) -> Frame:
        """What was put out and is not settled."""
        return self._output.rows(self._schema, self._stable)

    def told(self, number: int) -> Frame:
        """What an input said of events that are not settled."""
        return self._inputs[number].rows(self._schema, self._stable)

    @property
    def nbytes(self) -> int:
        """Bytes that are kept from being freed."""
        return self._output.nbytes + sum(stream.nbytes for stream in self._inputs.values())
