"""The columns of an answer."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from gapless.engine.query import Query
from gapless.protocol.errors import ExpressionError
from gapless.protocol.expr import Expr, col
from gapless.sql_queries.relation import Relation


def selected(query: Query, columns: list[tuple[str, Any]]) -> Query:
    """Exactly these columns; the query itself where it has them so."""
    names = query.schema.names
    if [name for name, _ in columns] == list(names) and all(
        isinstance(made, Expr) and made.same_as(col(name)) for name, made in columns
    ):
        return query
    return query.select(**dict(columns))


def checked(column: Any, relation: Relation) -> None:
    """Raises where a column does not suit the rows, or has no type."""
    if isinstance(column, Expr):
        found = column.type(relation.query.schema.payload)
        if pa.types.is_null(found):
            raise ExpressionError("NULL alone has no type: write CAST(NULL AS INT)")
