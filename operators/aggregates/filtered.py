"""where=: a function of some of the rows.

    group  len                count(where=(len > 5))     A 1   B 0
    A      4                  max(len, where=(len > 5))  A 9   B null
    A      9
    B      null               null is not true: the row does not count

A row that does not count leaves no trace in the state. Its group is there all the same, with an
answer of no rows. A condition that cannot be evaluated for a row (a division by zero) is no matter
of an accumulator, which has nowhere to put that row: a compiled plan computes conditions below the
aggregate, as `map` would, and the row goes aside there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from gapless.kernels.keys import Ids, Mask
from gapless.operators.aggregates.forwarding import Forwarding
from gapless.operators.aggregates.function import Accumulator, AggregateFunction, place_of
from gapless.protocol.columns import take_rows
from gapless.protocol.documents import Document
from gapless.protocol.errors import ExpressionError, Misuse
from gapless.protocol.expr import Column, Expr, col
from gapless.protocol.frame import Times


@dataclass(frozen=True, slots=True, eq=False)
class Filtered(AggregateFunction):
    """A function of the rows for which a condition is true."""

    function: AggregateFunction
    where: Expr

    def __post_init__(self) -> None:
        if not isinstance(self.where, Expr):
            raise Misuse(
                f"{self.name}: where={self.where!r:.100} is no expression: write one, as in "
                "where=gl.col('len') > 0; of a function of yours make a column first, with map()"
            )

    @property
    def name(self) -> str:
        """What the function is called."""
        return self.function.name

    @property
    def columns(self) -> tuple[str, ...]:
        """Those of the function, then others of the condition."""
        own = self.function.columns
        return (*own, *sorted(self.where.columns - {*own}))

    @property
    def bounded(self) -> bool:
        """As the function is."""
        return self.function.bounded

    @property
    def differential(self) -> bool:
        """As the function is."""
        return self.function.differential

    @property
    def sub(self) -> str:
        """What is kept of a pane."""
        return self.function.sub

    @property
    def super_(self) -> str:
        """What makes the answer of those."""
        return self.function.super_

    @property
    def may_diverge(self) -> str | None:
        """Why replicas might differ, if the function may."""
        return self.function.may_diverge

    @property
    def unfiltered(self) -> AggregateFunction:
        """The function of all rows."""
        return self.function

    def result(self, schema: pa.Schema) -> pa.DataType:
        """The function's; raises `ExpressionError` where the condition is none."""
        for column in self.columns:
            place_of(self, schema, column)
        t = self.where.type(schema)
        if not pa.types.is_boolean(t):
            raise ExpressionError(f"{self}: where= gives {t}, a condition gives bool")
        return self.function.result(schema)

    def accumulator(self, schema: pa.Schema, rows: Accumulator | None = None) -> Accumulator:
        """The function's, which counts its rows by itself: they are not those of `rows`."""
        self.result(schema)
        kept = pa.schema([schema.field(name) for name in self.function.columns])
        return _OfSome(self.function.accumulator(kept), self.where, kept.names)

    def to_document(self) -> Document:
        """The function as plain data."""
        document = self.function.to_document()
        assert isinstance(document, dict)  # noqa: S101  # for the type checker: every function's document is one
        return {**document, "where": self.where.to_document()}

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Filtered):
            return NotImplemented
        return self.function == other.function and self.where.same_as(other.where)

    def __hash__(self) -> int:
        return hash((self.function, str(self.where)))

    def __str__(self) -> str:
        text = str(self.function).removesuffix(")")
        return f"{text}{'' if text.endswith('(') else ', '}where={self.where})"


class _OfSome(Forwarding):
    """Takes in the rows for which the condition is true."""

    def __init__(self, inner: Accumulator, where: Expr, columns: list[str]) -> None:
        super().__init__(inner)
        self._where = where
        self._columns = columns

    def add(self, ids: Ids, rows: pa.RecordBatch, times: Times) -> None:
        """Adds some of the rows."""
        holds: Mask = pc.fill_null(self._where.evaluate(rows), False).to_numpy(zero_copy_only=False)
        kept = holds.nonzero()[0]
        some = rows.select(self._columns)
        if len(kept) < len(ids):
            ids, times, some = ids[kept], times[kept], take_rows(some, kept)
        self.inner.add(ids, some, times)


Named = Sequence[tuple[str, AggregateFunction]]


def conditions_below(
    aggregates: Named, names: Sequence[str]
) -> tuple[Named, list[tuple[str, Expr]]]:
    """The same aggregates with conditions that are columns, and those columns: each condition once,
    under a name that is not among `names`.
    """
    computed: list[tuple[str, Expr]] = []
    made: list[tuple[str, AggregateFunction]] = []
    for name, function in aggregates:
        if not isinstance(function, Filtered) or isinstance(function.where, Column):
            made.append((name, function))
            continue
        column = next((c for c, where in computed if where.same_as(function.where)), None)
        if column is None:
            column = _new_name([*names, *(c for c, _ in computed)])
            computed.append((column, function.where))
        made.append((name, Filtered(function.function, col(column))))
    return made, computed


def _new_name(names: Sequence[str]) -> str:
    name = "where"
    while name in names:
        name += "_"
    return name
