"""aggregate(column, fn): a function of a user's, over all values of a group.

    def spread(values):                     values: an Arrow array, ascending, without nulls
        return pc.max(values).as_py() - pc.min(values).as_py()

    gl.aggregate("len", spread, returns="int64")

It is holistic: every value is kept, with its count, so a window can slide by subtracting. Values
come in the order of `operators/order.py`, so a function that only looks at them gives the same on
every replica. Where it raises, or gives what does not fit `returns`, there is no answer, and the
reason says which. A group of nulls alone is null, without a call.

It travels by name, "module:qualname": the reader of a plan has the function, or an error.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from gapless.kernels.keys import Ids
from gapless.operators.aggregates.function import (
    Accumulator,
    AggregateFunction,
    Unanswerable,
    place_of,
)
from gapless.operators.aggregates.inputs import present_rows
from gapless.operators.aggregates.parts import OfParts
from gapless.operators.aggregates.plain import plain_type, plain_values, restored
from gapless.operators.aggregates.tally import Tally
from gapless.protocol.columns import take
from gapless.protocol.documents import Document
from gapless.protocol.errors import Misuse
from gapless.protocol.frame import Times
from gapless.protocol.plain import type_to_plain
from gapless.protocol.schema import check_type

REASON_CHARS_MAX = 200
"""Of what a user's function raises, in a reason: some put all their data into the message."""


@dataclass(frozen=True, slots=True)
class Custom(AggregateFunction):
    """What a user's function makes of the values."""

    column: str
    function: Callable[[pa.Array], Any]
    returns: pa.DataType

    name = "aggregate"
    bounded = False
    differential = True
    sub = "values and their counts"
    super_ = "the function, of the values in order"

    def __post_init__(self) -> None:
        if not callable(self.function):
            raise Misuse(f"aggregate: {self.function!r} is not a function")
        if not isinstance(self.returns, pa.DataType):
            raise Misuse(f"aggregate: returns={self.returns!r}: an Arrow type")
        check_type("returns", self.returns)

    @property
    def columns(self) -> tuple[str, ...]:
        """The one column."""
        return (self.column,)

    @property
    def qualified_name(self) -> str:
        """The function, as "module:qualname"."""
        fn = self.function
        of = fn if hasattr(fn, "__qualname__") else type(fn)
        return f"{of.__module__}:{of.__qualname__}"

    def result(self, schema: pa.Schema) -> pa.DataType:
        """What the user has said."""
        place_of(self, schema, self.column)
        return self.returns

    def accumulator(self, schema: pa.Schema, rows: Accumulator | None = None) -> Accumulator:
        """Every value, with its count."""
        place = place_of(self, schema, self.column)
        return _Values(place, schema.field(place).type, self)

    def to_document(self) -> Document:
        """The function's name, and the rest, as plain data."""
        return {
            "function": self.name,
            "column": self.column,
            "call": self.qualified_name,
            "returns": type_to_plain(self.returns),
        }

    def __str__(self) -> str:
        return f"aggregate({self.column}, {self.qualified_name}, returns={self.returns})"


class _Values(OfParts):
    """Counted values, and the answers of the ids that were asked for last.

    `results` and `unanswerable` come in pairs, and a call of a user's function costs what it likes:
    answers are kept until something changes.
    """

    differential = True

    def __init__(self, place: int, t: pa.DataType, custom: Custom) -> None:
        self._place = place
        self._type = t
        self._custom = custom
        self._tally = Tally(plain_type(t))
        self._asked: tuple[bytes, pa.Array, Unanswerable | None] | None = None
        super().__init__(self._tally)

    def add(self, ids: Ids, rows: pa.RecordBatch, times: Times) -> None:
        """Counts each value."""
        self._asked = None
        ids, column = present_rows(ids, rows.column(self._place))
        self._tally.add(ids, plain_values(column))

    def merge(self, ids: Ids, partial: pa.RecordBatch) -> None:
        """Adds counts."""
        self._asked = None
        super().merge(ids, partial)

    def unmerge(self, ids: Ids, partial: pa.RecordBatch) -> None:
        """Subtracts counts."""
        self._asked = None
        super().unmerge(ids, partial)

    def clear(self, ids: Ids) -> None:
        """Back to no values."""
        self._asked = None
        super().clear(ids)

    def results(self, ids: Ids) -> pa.Array:
        """What the function says."""
        return self._answers(ids)[0]

    def unanswerable(self, ids: Ids) -> Unanswerable | None:
        """Where it raised, or gave what does not fit."""
        return self._answers(ids)[1]

    def _answers(self, ids: Ids) -> tuple[pa.Array, Unanswerable | None]:
        key = ids.tobytes()
        if self._asked is None or self._asked[0] != key:
            self._asked = (key, *self._called(ids))
        return self._asked[1:]

    def _called(self, ids: Ids) -> tuple[pa.Array, Unanswerable | None]:
        """Calls the function once for each id that has values."""
        positions, values, counts = self._tally.in_order(ids)
        repeated = np.repeat(np.arange(len(counts)), counts)
        column = restored(take(values, pa.array(repeated)), self._type)
        ends = np.searchsorted(positions[repeated], np.arange(len(ids)), side="right")
        answers: list[pa.Scalar] = []
        mask = np.zeros(len(ids), np.bool_)
        reasons: dict[int, str] = {}
        begin = 0
        for i, end in enumerate(ends.tolist()):
            answer: pa.Scalar | str = pa.scalar(None, self._custom.returns)
            if end > begin:
                answer = _call(self._custom, column.slice(begin, end - begin))
            if isinstance(answer, str):
                mask[i], reasons[i] = True, answer
                answer = pa.scalar(None, self._custom.returns)
            answers.append(answer)
            begin = end
        column = pa.array(answers, self._custom.returns)
        if not reasons:
            return column, None
        first = next(iter(reasons.values()))
        others = {i: why for i, why in reasons.items() if why != first}
        return column, Unanswerable(mask, first, others)


def _call(custom: Custom, values: pa.Array) -> pa.Scalar | str:
    """The function's answer as a scalar of the type that it returns; or why there is none."""
    try:
        answer = custom.function(values)
    except Exception as e:  # noqa: BLE001  # a user's function may raise anything
        return f"{custom.qualified_name} raised {type(e).__name__}: {e}"[:REASON_CHARS_MAX]
    wanted = custom.returns
    if isinstance(answer, pa.Scalar):
        if answer.type == wanted:
            return answer
        if answer.is_valid or not pa.types.is_null(answer.type):
            return f"{custom.qualified_name} was to give {wanted}, gave {answer.type}"
        answer = None
    try:
        if pa.types.is_integer(wanted) and isinstance(answer, float | np.floating):
            raise TypeError("a float is no integer")  # Arrow would cut off what is behind the point
        return pa.scalar(answer, wanted)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as e:
        text = f"{custom.qualified_name} was to give {wanted}, gave {answer!r}: {e}"
        return text[:REASON_CHARS_MAX]
