"""aggregate(columns, fn): a function of a user's, over all values or rows of a group.

    def spread(values):                     values: an Arrow array, ascending, without nulls
        return pc.max(values).as_py() - pc.min(values).as_py()

    gl.aggregate("len", spread, returns="int64")

    def spent(price, count):                rows by time, then by their values; an array a column
        return pc.sum(pc.multiply(price, count)).as_py()

    gl.aggregate(("price", "count"), spent, returns="int64", merge=operator.add)

Without `merge` it is holistic: all is kept, with its count, so a window can slide by subtracting
(`custom_rows.py`). With it, an answer is kept for each pane, and answers are merged
(`custom_answers.py`); the laws that this needs are tried first (`merge_laws.py`).

Values come in the order of `operators/order.py`, so a function that only looks at them gives the
same on every replica. Where it raises, or gives what does not fit `returns`, there is no answer,
and the reason says which.

It travels by name, "module:qualname": the reader of a plan has the function, or an error.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from gapless.operators.aggregates.function import (
    Accumulator,
    AggregateFunction,
    Unanswerable,
    place_of,
)
from gapless.protocol.documents import Document
from gapless.protocol.errors import Misuse
from gapless.protocol.plain import type_to_plain
from gapless.protocol.schema import check_type

REASON_CHARS_MAX = 200
"""Of what a user's function raises, in a reason: some put all their data into the message."""

Said: TypeAlias = "pa.Scalar | str"
"""An answer of the type that the function returns, or the reason why there is none."""


@dataclass(frozen=True, slots=True)
class Custom(AggregateFunction):
    """What a user's function makes of one column's values, or of rows of several columns."""

    names: tuple[str, ...]
    function: Callable[..., Any]
    returns: pa.DataType
    merge: Callable[[Any, Any], Any] | None = None
    of_rows: bool = False
    """Whether it takes rows, by time and with their nulls, and not one column's sorted values."""

    name = "aggregate"

    def __post_init__(self) -> None:
        if not callable(self.function):
            raise Misuse(f"aggregate: {self.function!r} is not a function")
        if self.merge is not None and not callable(self.merge):
            raise Misuse(
                f"aggregate: merge={self.merge!r:.100} is not a function: give one that makes the "
                "answer of two groups' rows together from their two answers"
            )
        if not self.names:
            raise Misuse("aggregate: no columns: name those that the function reads")
        if len(set(self.names)) < len(self.names):
            raise Misuse(f"aggregate: a column twice among {', '.join(self.names)}: name it once")
        if not isinstance(self.returns, pa.DataType):
            raise Misuse(f"aggregate: returns={self.returns!r}: an Arrow type")
        check_type("returns", self.returns)

    @property
    def columns(self) -> tuple[str, ...]:
        """Those that it reads."""
        return self.names

    @property
    def bounded(self) -> bool:
        """One answer is kept, or every value."""
        return self.merge is not None

    @property
    def differential(self) -> bool:
        """Values are counted; answers cannot be taken out again."""
        return self.merge is None

    @property
    def sub(self) -> str:
        """What is kept of a pane."""
        if self.merge is not None:
            return "the function's answer"
        return "rows and their counts" if self.of_rows else "values and their counts"

    @property
    def super_(self) -> str:
        """What makes the answer of those."""
        if self.merge is not None:
            return "merge, of two answers at a time"
        return f"the function, of the {'rows' if self.of_rows else 'values'} in order"

    @property
    def qualified_name(self) -> str:
        """The function, as "module:qualname"."""
        return name_of(self.function)

    def result(self, schema: pa.Schema) -> pa.DataType:
        """What the user has said. Raises `Misuse` where `merge` breaks a law."""
        types = tuple(schema.field(place_of(self, schema, name)).type for name in self.names)
        if self.merge is not None:
            from gapless.operators.aggregates.merge_laws import try_laws

            try_laws(self, types)
        return self.returns

    def accumulator(self, schema: pa.Schema, rows: Accumulator | None = None) -> Accumulator:
        """Every value or row with its count, or one answer."""
        from gapless.operators.aggregates.custom_answers import CustomAnswers
        from gapless.operators.aggregates.custom_rows import CustomRows

        self.result(schema)
        kind = CustomRows if self.merge is None else CustomAnswers
        return kind(self, schema)

    def ask(self, columns: Sequence[pa.Array]) -> Said:
        """What the function makes of rows, in order."""
        return self._said(self.function, columns)

    def merged(self, one: pa.Scalar, other: pa.Scalar) -> Said:
        """What `merge` makes of two answers, which it gets as Python values. A null is neutral."""
        if not one.is_valid or not other.is_valid:
            return one if one.is_valid else other
        assert self.merge is not None  # noqa: S101  # for the type checker: who asks has one
        return self._said(self.merge, (one, other))

    def _said(self, function: Callable[..., Any], args: Sequence[Any]) -> Said:
        """The answer as a scalar of the type that is returned; or why there is none."""
        name = name_of(function)
        try:
            answer = function(*(a.as_py() if isinstance(a, pa.Scalar) else a for a in args))
        except Exception as e:  # noqa: BLE001  # a user's function may raise anything
            return f"{name} raised {type(e).__name__}: {e}"[:REASON_CHARS_MAX]
        wanted = self.returns
        if isinstance(answer, pa.Scalar):
            if answer.type == wanted:
                return answer
            if answer.is_valid or not pa.types.is_null(answer.type):
                return f"{name} was to give {wanted}, gave {answer.type}"
            answer = None
        try:
            if pa.types.is_integer(wanted) and isinstance(answer, float | np.floating):
                raise TypeError("a float is no integer")  # Arrow would cut off its fraction
            return pa.scalar(answer, wanted)
        except (pa.ArrowException, TypeError, ValueError, OverflowError) as e:
            return f"{name} was to give {wanted}, gave {answer!r}: {e}"[:REASON_CHARS_MAX]

    def column(self, said: Iterable[Said | None]) -> tuple[pa.Array, Unanswerable | None]:
        """What was said as a column, null where it was nothing or a reason; and the reasons."""
        answers: list[pa.Scalar | None] = []  # no scalars of null: Arrow fails for those of lists
        reasons: dict[int, str] = {}
        for i, each in enumerate(said):
            if isinstance(each, str):
                reasons[i] = each
            answered = isinstance(each, pa.Scalar) and each.is_valid
            answers.append(each if answered else None)
        column = pa.array(answers, self.returns)
        if not reasons:
            return column, None
        mask = np.zeros(len(answers), np.bool_)
        mask[[*reasons]] = True
        first = next(iter(reasons.values()))
        others = {i: why for i, why in reasons.items() if why != first}
        return column, Unanswerable(mask, first, others)

    def to_document(self) -> Document:
        """The functions' names, and the rest, as plain data."""
        return {
            "function": self.name,
            **({"columns": [*self.names]} if self.of_rows else {"column": self.names[0]}),
            "call": self.qualified_name,
            **({} if self.merge is None else {"merge": name_of(self.merge)}),
            "returns": type_to_plain(self.returns),
        }

    def __str__(self) -> str:
        names = f"({', '.join(self.names)})" if self.of_rows else self.names[0]
        merge = "" if self.merge is None else f", merge={name_of(self.merge)}"
        return f"aggregate({names}, {self.qualified_name}, returns={self.returns}{merge})"


def name_of(function: Callable[..., Any]) -> str:
    """A function, as "module:qualname"."""
    of = function if hasattr(function, "__qualname__") else type(function)
    return f"{of.__module__}:{of.__qualname__}"
