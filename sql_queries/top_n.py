"""Top-N: ORDER BY and LIMIT of what is alive at once, in a window or among answers.

    SELECT src, count(*) AS n FROM .. [..] GROUP BY src ORDER BY n DESC LIMIT 10
    .top_k(10, by="n")

    SELECT .. FROM (SELECT .., ROW_NUMBER() OVER (PARTITION BY window_start ORDER BY n DESC) AS r
                    FROM ..) WHERE r <= 3
    .top(3, by="n", rank="r")                      of each window; r may be read on

    ORDER BY n DESC NULLS FIRST, src               by=[desc("n", nulls="first"), asc("src")]

A stream has no order as a whole, and no first ten rows. Of rows without a window only the last one
of each key is known: r = 1 by the time, descending.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from sqlglot import exp

from gapless.operators.rank_keys import RankKey
from gapless.protocol.expr import Column, Expr, col
from gapless.sql_queries.expressions import Expressions
from gapless.sql_queries.places import Text
from gapless.sql_queries.relation import Field, Relation, resolve


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
    keys = [_key(each, _ordered_by(each.this, relation, text)) for each in order.expressions]
    with text.at(order):
        query = relation.query.top_k(_count(limit, text), keys)
    return relation.then(query)


def _key(ordered: exp.Expr, by: Expr) -> RankKey:
    """One thing that rows are ordered by."""
    return RankKey(by, bool(ordered.args.get("desc")), bool(ordered.args.get("nulls_first")))


# -- ROW_NUMBER() -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class RowNumber:
    """A ROW_NUMBER() in a select list."""

    name: str
    window: exp.Expr


def row_number_of(select: exp.Expr) -> RowNumber | None:
    """The ROW_NUMBER() of a SELECT, if it has one."""
    for item in select.expressions if isinstance(select, exp.Select) else []:
        window = item.this if isinstance(item, exp.Alias) else item
        if isinstance(window, exp.Window) and window.this.name.lower() == "row_number":
            return RowNumber(item.alias or "row_number", window)
    return None


def rows_kept(number: RowNumber, conditions: list[exp.Expr]) -> tuple[int, exp.Expr] | None:
    """How many rows a condition such as `r <= 3` keeps, and that condition."""
    for condition in conditions:
        column, count = condition.this, condition.args.get("expression")
        if (
            isinstance(column, exp.Column)
            and column.name.lower() == number.name.lower()
            and isinstance(count, exp.Literal)
            and count.name.isdigit()
        ):
            match condition:
                case exp.LTE():
                    return int(count.name), condition
                case exp.LT():
                    return int(count.name) - 1, condition
                case exp.EQ() if int(count.name) == 1:
                    return 1, condition
    return None


def ranked(relation: Relation, number: RowNumber, count: int, text: Text) -> Relation:
    """The first rows of each partition."""
    window = number.window
    order = window.args.get("order")
    if order is None:
        raise text.error("ROW_NUMBER() needs an ORDER BY: OVER (ORDER BY n DESC)", window)
    columns = [
        resolve(column, relation, text).column
        for column in window.args.get("partition_by") or []
        if not relation.is_window_field(column)
    ]
    made = Expressions(relation, text, {})
    keys = [_key(each, made.of(each.this)) for each in order.expressions]
    with text.at(window):
        if relation.kind != "rows":
            rank = number.name
            query = relation.query.top(count, keys, within=columns, rank=rank)
            return replace(relation.then(query), fields=(*relation.fields, Field("", rank, rank)))
        if count == 1 and columns and _is_last(keys, relation):
            return replace(relation, query=relation.query.latest_by(*columns), kind="table")
    raise text.error(
        "a stream without a window has no first rows: give it a window, or take the last row of "
        "each key, with PARTITION BY key ORDER BY its time DESC, and = 1",
        window,
    )


def _is_last(keys: list[RankKey], relation: Relation) -> bool:
    """Whether the last row by time comes first."""
    (first, *others) = keys
    by = first.by
    return not others and first.largest and isinstance(by, Column) and by.name in relation.times


def _ordered_by(node: exp.Expr, relation: Relation, text: Text) -> Expr:
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
