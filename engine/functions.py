"""Functions of users inside a query: called with Arrow arrays, giving an Arrow array.

    score = gl.function(rate, "len", "src", returns="float64")
    flows.map(score=score)                  rate(len, src) is called once a frame

The function gets the columns of a frame, as they are, and gives one value for each row, as an array
of the declared type. It decides by the row alone: frames are cut differently in each replica. Where
it raises, or gives something else, it is called again with parts of the frame, down to single rows:
those that it fails for alone go aside (operators/evaluation.py).

A function is code, so it does not travel in a document: it is named there, "module:qualname", and
the reader of the document brings it. `explain` names it too, as nobody can see whether two calls
of it agree.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa

from gapless.engine.names import check_column
from gapless.protocol.errors import Misuse, SchemaError
from gapless.protocol.schema import check_type
from gapless.protocol.type_text import type_of_text


class UserFunction:
    """A function of columns, where an expression may stand. Immutable, compared by content."""

    __slots__ = ("columns", "function", "name", "returns")

    is_foreign = True
    """Operators: it may raise anything, and give anything."""

    def __init__(
        self,
        function: Callable[..., Any],
        columns: tuple[str, ...],
        returns: pa.DataType,
        name: str | None = None,
    ) -> None:
        self.function = function
        self.columns = columns
        self.returns = returns
        self.name = name_of(function) if name is None else name

    def evaluate(self, batch: pa.RecordBatch) -> Any:
        """Whatever the function gives for these rows: to be checked by the caller."""
        names = batch.schema
        return self.function(*(batch.column(names.get_field_index(c)) for c in self.columns))

    def type(self, schema: pa.Schema) -> pa.DataType:
        """What it was declared to give; raises where a column is missing."""
        for column in self.columns:
            check_column(f"{self}", column, schema.names)
        return self.returns

    def same_as(self, other: object) -> bool:
        """Whether both are the same function, of the same columns."""
        return (
            isinstance(other, UserFunction)
            and self.function is other.function
            and (self.name, self.columns, self.returns)
            == (other.name, other.columns, other.returns)
        )

    def __str__(self) -> str:
        return f"{self.name}({', '.join(self.columns)})"

    def __repr__(self) -> str:
        return str(self)


def function(call: Callable[..., Any], *columns: str, returns: pa.DataType | str) -> UserFunction:
    """`call`, given these columns as Arrow arrays, gives an array of type `returns`."""
    if not callable(call):
        raise Misuse(f"function: {call!r} cannot be called")
    if not columns:
        raise Misuse(f"function: name the columns that {name_of(call)} is called with")
    for column in columns:
        if not isinstance(column, str):
            raise Misuse(f"function {name_of(call)}: {column!r} is not a column's name")
    try:
        t = type_of_text(returns) if isinstance(returns, str) else returns
    except SchemaError as e:
        raise SchemaError(f"function {name_of(call)}: {e}") from None
    check_type(f"function {name_of(call)}", t)
    return UserFunction(call, columns, t)


def name_of(call: Callable[..., Any]) -> str:
    """What documents call it: "module:qualname"; of an object that is called, that of its type."""
    named = call if hasattr(call, "__qualname__") else type(call)
    return f"{named.__module__}:{named.__qualname__}"
