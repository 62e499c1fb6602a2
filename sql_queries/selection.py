"""The columns of an answer."""

from __future__ import annotations

from typing import Any

from gapless.engine.query import Query
from gapless.protocol.expr import Expr, col


def selected(query: Query, columns: list[tuple[str, Any]]) -> Query:
    """Exactly these columns; the query itself where it has them so."""
    names = query.schema.names
    if [name for name, _ in columns] == list(names) and all(
        isinstance(made, Expr) and made.same_as(col(name)) for name, made in columns
    ):
        return query
    return query.select(**dict(columns))
