"""Top-N: ORDER BY and LIMIT of what is alive at once, in a window or among answers.

    SELECT src, count(*) AS n FROM .. [..] GROUP BY src ORDER BY n DESC LIMIT 10
    .top_k(10, by="n")

    SELECT .. FROM (SELECT .., ROW_NUMBER() OVER (PARTITION BY window_start ORDER BY n DESC) AS r
                    FROM ..) WHERE r <= 3
    .top(3, by="n", rank="r")                      of each window; r may be read on

    ORDER BY n DESC NULLS FIRST, src               by=[desc("n", nulls="first"), asc("src")]

A stream has no order as a whole, and no first ten rows. Of rows without a window only the first and
the last one of each key are known, by the time: r = 1 is `dedupe` if it ascends, else `latest_by`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal

from sqlglot import exp

from gapless.operators.rank_keys import RankKey
from gapless.protocol.expr import Column, Expr
from gapless.sql_queries.clause import Direct
from gapless.sql_queries.expressions import Expressions
from gapless.sql_queries.items import Item
from gapless.sql_queries.ordering import direct, ordinal
from gapless.sql_queries.places import Text
from gapless.sql_queries.relation import Relation, bounded, resolve


def limited(
    relation: Relation,
    node: exp.Expr,
    text: Text,
    column: Callable[[exp.Expr], exp.Expr] | None = None,
) -> Relation:
    """What ORDER BY and LIMIT at a query leave of it; `column` is what stands for an expression."""
    order, limit = node.args.get("order"), node.args.get("limit")
    if node.args.get("offset") is not None:
        raise text.error("OFFSET is not supported: LIMIT keeps the first rows", node.args["offset"])
    at = order if order is not None else limit
    if at is None:
        return relation
    bounded(relation, at, text)
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
    made = Expressions(relation, text, {})
    column = column or partial(_named, relation=relation, text=text)
    keys = [_key(each, made.of(column(each.this))) for each in order.expressions]
    with text.at(order):
        query = relation.query.top_k(_count(limit, text), keys)
    return relation.then(query)


def _named(node: exp.Expr, relation: Relation, text: Text) -> exp.Expr:
    """What a node of ORDER BY means over an answer: maybe the number of a column."""
    if not isinstance(node, exp.Literal) or node.is_string:
        return node
    return direct(ordinal(node, relation.query.schema.names, text), node)


def _key(ordered: exp.Expr, by: Expr) -> RankKey:
    """One thing that rows are ordered by."""
    return RankKey(by, bool(ordered.args.get("desc")), bool(ordered.args.get("nulls_first")))


# -- ROW_NUMBER() -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class RowNumber:
    """A ROW_NUMBER() in a select list."""

    name: str
    window: exp.Expr


def row_number_of(items: Sequence[Item]) -> RowNumber | None:
    """The ROW_NUMBER() of a select list, if it has one."""
    for item in items:
        if is_row_number(item.node):
            return RowNumber(item.name, item.node)
    return None


def is_row_number(node: exp.Expr) -> bool:
    """Whether a node is a ROW_NUMBER()."""
    return isinstance(node, exp.Window) and node.this.name.lower() == "row_number"


def rows_kept(
    conditions: list[exp.Expr], is_number: Callable[[exp.Expr], bool]
) -> tuple[int, list[exp.Expr]] | None:
    """How many rows a condition such as `r <= 3` keeps, and the conditions that are left: of
    `r = 3` that one, too.
    """
    for condition in conditions:
        count, is_whole = _bound(condition, is_number)
        if count is not None:
            left = [each for each in conditions if each is not condition or not is_whole]
            return count, left
    return None


def _bound(node: exp.Expr, is_number: Callable[[exp.Expr], bool]) -> tuple[int | None, bool]:
    """The largest number that a condition keeps, and whether it keeps all up to it."""
    this, other = node.this, node.args.get("expression")
    kind: type[exp.Expr] = type(node)
    if isinstance(node, exp.Between) and is_number(this):
        return _whole(node.args["high"]), _whole(node.args["low"]) == 1
    if isinstance(node, exp.In) and is_number(this) and node.expressions:
        numbers = [_whole(each) for each in node.expressions]
        return max((n for n in numbers if n is not None), default=None), False
    if isinstance(other, exp.Expr) and is_number(other):
        this, other, kind = other, this, _TURNED.get(kind, kind)
    count = _whole(other)
    if count is None or not isinstance(this, exp.Expr) or not is_number(this):
        return None, False
    if issubclass(kind, exp.LTE):
        return count, True
    if issubclass(kind, exp.LT):
        return count - 1, True
    return (count, count == 1) if issubclass(kind, exp.EQ) else (None, False)


_TURNED: dict[type[exp.Expr], type[exp.Expr]] = {exp.GTE: exp.LTE, exp.GT: exp.LT}


def _whole(node: Any) -> int | None:
    is_number = isinstance(node, exp.Literal) and not node.is_string and node.name.isdigit()
    return int(node.name) if is_number else None


def ranked(
    relation: Relation, number: RowNumber, keeps: tuple[int, bool], text: Text
) -> tuple[Relation, exp.Expr | None]:
    """The first rows of each partition, and what their numbers are; the number is None where it is
    not read. `keeps`: how many, and whether their numbers are read.
    """
    (count, is_read), window = keeps, number.window
    order = window.args.get("order")
    if order is None:
        raise text.error("ROW_NUMBER() needs an ORDER BY: OVER (ORDER BY n DESC)", window)
    columns = [
        column if isinstance(column, str) else resolve(column, relation, text).column
        for column in _partition(window)
        if isinstance(column, str) or not relation.is_window_field(column)
    ]
    made = Expressions(relation, text, {})
    keys = [_key(each, made.of(each.this)) for each in order.expressions]
    with text.at(window):
        if relation.kind != "rows":
            taken = {name.lower() for name in relation.query.schema.names}
            rank = number.name if number.name.lower() not in taken else "row_number_1"
            query = relation.query.top(count, keys, within=columns, rank=rank)
            return relation.then(query), direct(rank, window)
        direction = _by_time(keys, relation)
        if count == 1 and columns and direction is not None:
            one = exp.Literal.number(1) if is_read else None
            if direction == "first":
                return relation.then(relation.query.dedupe(*columns)), one
            newest = replace(relation, query=relation.query.latest_by(*columns), kind="table")
            return newest, one
    raise text.error(
        "a stream without a window has no first rows: give it a window, or take the first or the "
        "last row of each key, with PARTITION BY key ORDER BY its time, and = 1",
        window,
    )


def _partition(window: exp.Expr) -> list[Any]:
    """The columns of PARTITION BY: nodes, or what the query calls them."""
    given = window.args.get("partition_by") or []
    return [str(each.this) if isinstance(each, Direct) else each for each in given]


def _by_time(keys: list[RankKey], relation: Relation) -> Literal["first", "last"] | None:
    """Which row by time comes first, if the order is the time's."""
    (first, *others) = keys
    by = first.by
    if others or not isinstance(by, Column) or by.name not in relation.times:
        return None
    return "last" if first.largest else "first"


def _count(limit: exp.Expr, text: Text) -> int:
    number = limit.args.get("count") if isinstance(limit, exp.Fetch) else limit.expression
    if not isinstance(number, exp.Literal) or number.is_string or not number.name.isdigit():
        raise text.error("LIMIT takes a number of rows", limit)
    if limit.args.get("limit_options") and limit.args["limit_options"].args.get("with_ties"):
        raise text.error("WITH TIES is not supported", limit)
    return int(number.name)
