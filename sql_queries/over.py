"""OVER: an aggregate of the rows before each row, answered at every row.

    SELECT src, ts, sum(len) OVER (PARTITION BY src ORDER BY ts
                                   ROWS BETWEEN 9 PRECEDING AND CURRENT ROW) AS bytes
    .window(range=rows(10), slide=rows(1), partition_by="src").group_by("src")
    .aggregate(ts=max("ts"), bytes=sum("len"))

This is the thesis's slide-by-tuple window. RANGE of a time has the rows of that time before the
row; ROWS n PRECEDING the last n and itself; UNBOUNDED PRECEDING all. Rows of one partition and one
time have one answer, which includes them all. Beside aggregates the select list has the columns of
the partition and the time: those of the row alone belong to no window.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from sqlglot import exp

from gapless.engine.row_counts import rows
from gapless.protocol.expr import Expr, col
from gapless.sql_queries.aggregate_calls import AggregateCalls, is_aggregate
from gapless.sql_queries.expressions import Expressions, UserFunctions
from gapless.sql_queries.intervals import nanoseconds, ticks
from gapless.sql_queries.items import Item
from gapless.sql_queries.places import Text
from gapless.sql_queries.relation import Relation, resolve
from gapless.sql_queries.selection import selected
from gapless.sql_queries.windows import in_window

_RANK = "ROW_NUMBER() in a query around a window gives ranks, as in WHERE r <= 3"
_BEFORE = "a window answers with aggregates: first(x), last(x) .. OVER (.. ROWS 1 PRECEDING)"
_OF_RANKS = {
    **dict.fromkeys(("rank", "dense_rank", "percent_rank", "ntile", "cume_dist"), _RANK),
    **dict.fromkeys(("lag", "lead", "nth_value"), _BEFORE),
}
"""Functions that stand before OVER elsewhere, and what to write here."""


def has_over(items: list[Item]) -> bool:
    """Whether an item is an aggregate with OVER."""
    return any(isinstance(node, exp.Window) for item in items for node in item.node.walk())


def over(
    relation: Relation, items: list[Item], select: exp.Select, text: Text, functions: UserFunctions
) -> Relation:
    """The answers of a select list with OVER."""
    windows = [node for item in items for node in item.node.walk() if isinstance(node, exp.Window)]
    first = windows[0]
    called = first.this.name.lower()
    if called in _OF_RANKS:
        raise text.error(f"{called}() is not supported: {_OF_RANKS[called]}", first)
    if relation.kind != "rows":
        raise text.error("OVER looks at rows, and these are in a window or an answer", first)
    for each in windows[1:]:
        if _frame(each) != _frame(first):
            raise text.error("every OVER of a select list is the same window", each)
    time = _time(first, relation, text)
    partition = [
        resolve(column, relation, text).column for column in first.args.get("partition_by") or []
    ]
    calls = AggregateCalls(relation, text, functions, taken=partition)
    times: list[str] = []

    def instead(node: exp.Expr) -> Expr | None:
        if isinstance(node, exp.Window):
            if not is_aggregate(node.this):
                raise text.error(f"{node.this.name}() is no aggregate", node)
            return col(calls.column_of(node.this, names.get(id(node))))
        if isinstance(node, exp.Column):
            column = resolve(node, relation, text).column
            if column in partition:
                return col(column)
            if column == time:
                times.append(column)
                return col(calls.latest(column))
            raise text.error(
                f"beside OVER stand columns of PARTITION BY and the time, not {node.name!r}", node
            )
        return None

    names = {id(item.node): item.name for item in items}
    made = Expressions(relation, text, functions, instead)
    columns = [(item.name, made.of(item.node)) for item in items]
    options: dict[str, Any] = {"range": _range(first, relation, text), "slide": rows(1)}
    if partition:
        options["partition_by"] = tuple(partition)
    windowed = in_window(relation, options, text, first)
    with text.at(select):
        query = windowed.computed(calls.computed)
        grouped = query.group_by(*partition) if partition else query
        query = selected(grouped.aggregate(**calls.functions), columns)
    return replace(Relation.of(query, "", "table"), tables=())


def _frame(window: exp.Expr) -> tuple[object, ...]:
    return tuple(window.args.get(name) for name in ("partition_by", "order", "spec", "alias"))


def _time(window: exp.Expr, relation: Relation, text: Text) -> str:
    """The column of ORDER BY: the time of the rows."""
    order = window.args.get("order")
    ordered = order.expressions if order is not None else []
    if (
        len(ordered) == 1
        and isinstance(ordered[0].this, exp.Column)
        and not ordered[0].args["desc"]
    ):
        column = resolve(ordered[0].this, relation, text).column
        if column in relation.times:
            return column
    raise text.error(
        f"OVER goes by time: ORDER BY {', '.join(sorted(relation.times)) or 'a column of time'}",
        order or window,
    )


def _range(window: exp.Expr, relation: Relation, text: Text) -> Any:
    spec = window.args.get("spec")
    if spec is None:
        return "all"
    start, end = spec.args.get("start"), spec.args.get("end")
    is_to_now = end in (None, "CURRENT ROW")
    is_before = str(spec.args.get("start_side") or "").upper() == "PRECEDING"
    if not is_to_now or not is_before or spec.args.get("exclude"):
        raise text.error("OVER ends with the row: BETWEEN .. PRECEDING AND CURRENT ROW", spec)
    if start == "UNBOUNDED":
        return "all"
    if str(spec.args["kind"]).upper() == "ROWS":
        if not isinstance(start, exp.Literal) or not start.name.isdigit():
            raise text.error("ROWS takes a number, as in ROWS 9 PRECEDING", spec)
        return rows(int(start.name) + 1)
    # RANGE of SQL includes the row that is just so old; a window of ours does not.
    unit = relation.query.schema.time_unit
    return ticks(nanoseconds(start, text, "INTERVAL '5' MINUTE"), unit, start, text) + 1
