"""`x IN (SELECT ..)` in WHERE: a row is kept while the subquery's answer has its value.

    FROM flows WHERE src IN (SELECT id FROM hosts [RANGE 1 hour])
    flows.join(hosts.window(range="1h").select("id").where(id is not null).distinct(), on=src = id)

At each instant that is SQL's IN: the values are distinct, so no row is doubled, and null is in
nothing. What the subquery gives has to last, so its rows need a window.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from sqlglot import exp

from gapless.protocol.expr import col
from gapless.sql_queries.places import Text
from gapless.sql_queries.relation import Relation, resolve


def is_semi_join(condition: exp.Expr) -> bool:
    """Whether a condition of WHERE is `x IN (SELECT ..)`."""
    return isinstance(condition, exp.In) and condition.args.get("query") is not None


def semi_joined(
    relation: Relation, node: exp.Expr, subquery: Callable[[exp.Expr], Relation], text: Text
) -> Relation:
    """The rows of a relation whose value is in a subquery's answer."""
    if not isinstance(node.this, exp.Column):
        raise text.error("before IN (SELECT ..) stands a column: compute it in a subquery", node)
    if relation.is_function:
        raise text.error(
            "IN (SELECT ..) goes before the window: FROM TUMBLE((SELECT .. WHERE x IN ..), ts, ..)",
            node,
        )
    column = resolve(node.this, relation, text).column
    inner = node.args["query"]
    found = subquery(inner.this)
    names = found.query.schema.names
    if len(names) != 1:
        raise text.error(f"IN takes one column, and this gives {len(names)}", inner)
    if found.kind == "rows":
        raise text.error(
            "these rows are there for an instant: give their table a window, as in FROM hosts "
            "[RANGE 1 hour]",
            inner,
        )
    with text.at(node):
        values = found.query.where(col(names[0]).is_valid()).distinct()
        query = relation.query.join(values, on=[(column, names[0])])
    return replace(relation, query=query, kind="table", window=None, below=None)
