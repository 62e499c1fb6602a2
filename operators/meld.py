"""Meld: the union of streams, as each of them comes (window-queries, figure 8-2).

    input 0      ins(A,1,5) stable(4)                            stable(9)
    input 1                            ins(B,4,6) stable(7)
    output       ins(A,1,5)            ins(B,4,6) stable(4)      stable(7)

Rows pass at once, in no order, so nothing is buffered and a silent input holds back no row. What
holds of the union is what every input has promised: of stables the least. An input that has ended
promises everything. (A mark on `_vs` speaks of inserts, as a stable does.)

Marks likewise: for marks of one shape (the same columns and group) the least of each bound is
implied by every input's, so it passes when it is news. An input's stable is as good as a mark on
`_vs`, and a mark without a group as good as one for any. That takes one mark for each input and
shape; there may be as many shapes as groups, so the oldest are dropped beyond a bound.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from gapless.operators.marks import marks_table, read_marks
from gapless.operators.numbers import numbers, read_numbers
from gapless.operators.operator import Marks, Operator, Out, check_schema
from gapless.operators.state import State, check_names
from gapless.protocol.elements import BEGIN, INF
from gapless.protocol.errors import Bug, DecodeError, Misuse
from gapless.protocol.frame import Frame
from gapless.protocol.punctuation import Punctuation
from gapless.protocol.schema import VS, StreamSchema

SHAPES_MAX = 4096
"""Marks kept of each input, and of the output: groups that close early while others are awaited."""
INPUTS_MAX = 1024
"""Streams that one union takes: a query names each of them."""

_Shape = tuple[tuple[str, ...], tuple[tuple[str, object], ...]]
"""The bounded columns, and the group."""
_Bounds = tuple[int, ...]
_Told = dict[_Shape, _Bounds]
_STABLES, _MARKS, _GIVEN = "stables", "marks", "given"


class Meld(Operator):
    """All rows of all inputs. Events that several inputs have are there as often."""

    def __init__(self, schema: StreamSchema, inputs: int) -> None:
        if not 1 <= inputs <= INPUTS_MAX:
            raise Misuse(f"union of {inputs} streams: 1 to {INPUTS_MAX} can be united")
        self.schema = schema
        self.inputs = inputs
        self._stables = [BEGIN] * inputs
        self._stable = BEGIN
        self._told: list[_Told] = [{} for _ in range(inputs)]
        self._given: _Told = {}

    def push(self, source: int, frame: Frame, marks: Marks = ()) -> Out:
        """The rows as they are, and what has become true of all inputs."""
        check_schema(frame, self.schema)
        touched = self._hear(source, frame.stable, marks)
        least = min(self._stables)
        stable = least if least > self._stable else None
        self._stable = least
        if stable != frame.stable:
            frame = frame.with_stable(stable)
        if not touched:
            return Out(frame)
        return Out(frame, tuple(filter(None, map(self._news, touched))))

    # -- marks --------------------------------------------------------------------------------

    def _hear(self, source: int, stable: int | None, marks: Marks) -> Iterable[_Shape]:
        """Keeps what an input says; the shapes of marks that might pass now, each once."""
        told = self._told[source]
        touched: dict[_Shape, None] = {}
        if stable is not None and stable > self._stables[source]:
            self._stables[source] = stable
            for shape in [s for s, bounds in told.items() if _follows(s, bounds, stable)]:
                del told[shape]
            touched.update(dict.fromkeys(self._shapes(VS if stable < INF else None)))
        for mark in marks:
            shape, bounds = _taken_apart(mark)
            _keep(told, shape, bounds)
            touched[shape] = None
            if not mark.group:
                touched.update((s, None) for s in self._shapes() if s[0] == shape[0])
        return touched

    def _shapes(self, column: str | None = None) -> list[_Shape]:
        """The shapes of marks that inputs have given; only those that bound `column`, if given."""
        return [s for told in self._told for s in told if column is None or column in s[0]]

    def _news(self, shape: _Shape) -> Punctuation | None:
        """The mark of this shape that all inputs imply, if it has not been said."""
        covers = [self._cover(source, shape) for source in range(self.inputs)]
        bounds = [c for c in covers if c is not None]
        if len(bounds) < self.inputs:
            return None
        least = tuple(min(b[i] for b in bounds) for i in range(len(shape[0])))
        if _follows(shape, least, self._stable) or not _keep(self._given, shape, least):
            return None
        return _mark(shape, least)

    def _cover(self, source: int, shape: _Shape) -> _Bounds | None:
        """The bounds of a mark of this shape that an input implies; None where it implies none."""
        names, stable = shape[0], self._stables[source]
        if stable == INF:
            return (INF,) * len(names)
        told = self._told[source]
        covers = [b for b in (told.get(shape), told.get((names, ()))) if b is not None]
        if VS in names and stable > BEGIN:
            covers.append(tuple(stable if name == VS else INF for name in names))
        return max(covers, default=None)

    # -- the rest -----------------------------------------------------------------------------

    def fast_forward(self, t: int) -> int:
        """Keeps no rows, so asks its inputs for what is asked of it."""
        return t

    def snapshot(self) -> State:
        """What each input has promised, and which marks have passed."""
        told = [(i, _mark(*item)) for i, told in enumerate(self._told) for item in told.items()]
        return {
            _STABLES: numbers(stable=np.array(self._stables, np.int64)),
            _MARKS: marks_table(told),
            _GIVEN: marks_table((0, _mark(*item)) for item in self._given.items()),
        }

    def restore(self, state: State) -> None:
        """Takes it back."""
        check_names(state, _STABLES, _MARKS, _GIVEN)
        [stables] = read_numbers(state, _STABLES, "stable")
        if len(stables) != self.inputs:
            raise DecodeError(f"snapshot.{_STABLES}", f"{len(stables)} inputs", self.inputs)
        self._stables = [int(t) for t in stables]
        self._stable = min(self._stables)
        for source, mark in read_marks(state, _MARKS, self.inputs):
            _keep(self._told[source], *_taken_apart(mark))
        for _, mark in read_marks(state, _GIVEN, 1):
            _keep(self._given, *_taken_apart(mark))

    def validate(self) -> None:
        """Raises `Bug` where an invariant is broken."""
        if self._stable != min(self._stables):
            raise Bug("the stable is not the least of the inputs'")
        if any(len(told) > SHAPES_MAX for told in (*self._told, self._given)):
            raise Bug("more marks are kept than there may be")


def _taken_apart(mark: Punctuation) -> tuple[_Shape, _Bounds]:
    names = tuple(name for name, _ in mark.bounds)
    return (names, mark.group), tuple(t for _, t in mark.bounds)


def _mark(shape: _Shape, bounds: _Bounds) -> Punctuation:
    return Punctuation(tuple(zip(shape[0], bounds, strict=True)), shape[1])


def _follows(shape: _Shape, bounds: _Bounds, stable: int) -> bool:
    """Whether a stable says as much as a mark."""
    return stable == INF or any(
        name == VS and t <= stable for name, t in zip(shape[0], bounds, strict=True)
    )


def _keep(told: _Told, shape: _Shape, bounds: _Bounds) -> bool:
    """Keeps the latest of a shape, if it says more than the one before; whether it does.

    Drops the oldest shape where there are too many.
    """
    old = told.get(shape)
    if old is not None and all(t <= was for t, was in zip(bounds, old, strict=True)):
        return False
    told.pop(shape, None)
    told[shape] = bounds
    if len(told) > SHAPES_MAX:
        del told[next(iter(told))]
    return True
