"""Top-N: ORDER BY and LIMIT of what is alive at once, in a window or among answers.

    SELECT src, count(*) AS n FROM .. [..] GROUP BY src ORDER BY n DESC LIMIT 10
    .top_k(10, by="n")

A stream has no order as a whole, and no first ten rows.
"""

from __future__ import annotations

from sqlglot import exp

from gapless.protocol.expr import Expr, col
from gapless.sql_queries.expressions import Expressions
from gapless.sql_queries.places import Text
from gapless.sql_queries.relation import Relation


def limited(relation: Relation, node: exp.Expr, text: Text) -> Relation:
    """What ORDER BY and LIMIT at a query leave of it."""
    order, limit = node.args.get("order"), node.args.get("limit")
    if node.args.get("offset") is not None:
        raise text.error("OFFSET is not supported: LIMIT keeps the first rows", node.args["offset"])
    at = order if order is not None else limit
    if at is None:
        return relation
    if relation.kind == "rows":
        raise text.error(
            "a stream without a window has no first rows: give it a window, as in FROM flows "
            "[RANGE 5 minutes, SLIDE 1 minute]",
            at,
        )
    if limit is None:
        raise text.error("the rows of an answer have no order: say how many with LIMIT", at)
    if order is None:
        raise text.error("LIMIT alone would keep any rows: say which with ORDER BY", at)
    if len(order.expressions) > 1:
        raise text.error("ORDER BY several columns is not supported yet", order.expressions[1])
    first = order.expressions[0]
    if first.args.get("nulls_first"):
        raise text.error("NULLS FIRST is not supported yet: nulls come last", first)
    by = _by(first.this, relation, text)
    with text.at(order):
        query = relation.query.top_k(_count(limit, text), by, largest=bool(first.args.get("desc")))
    return relation.then(query)


def _by(node: exp.Expr, relation: Relation, text: Text) -> Expr:
    names = relation.query.schema.names
    if isinstance(node, exp.Literal) and not node.is_string:
        number = int(node.name) if node.name.isdigit() else 0
        if not 1 <= number <= len(names):
            raise text.error(f"there are {len(names)} columns", node)
        return col(names[number - 1])
    return Expressions(relation, text, {}).of(node)


def _count(limit: exp.Expr, text: Text) -> int:
    number = limit.args.get("count") if isinstance(limit, exp.Fetch) else limit.expression
    if not isinstance(number, exp.Literal) or number.is_string or not number.name.isdigit():
        raise text.error("LIMIT takes a number of rows", limit)
    if limit.args.get("limit_options") and limit.args["limit_options"].args.get("with_ties"):
        raise text.error("WITH TIES is not supported", limit)
    return int(number.name)
