"""Windows in GROUP BY, as older Flink and Calcite write them.

    SELECT TUMBLE_START(ts, INTERVAL '5' MINUTE) AS start, src, count(*) AS n
    FROM flows GROUP BY TUMBLE(ts, INTERVAL '5' MINUTE), src

The call in GROUP BY says what TUMBLE, HOP or SESSION in FROM says. TUMBLE_START, TUMBLE_END and
TUMBLE_ROWTIME of the same arguments are window_start, window_end and window_time. A session is one
of the other columns of GROUP BY.
"""

from __future__ import annotations

from typing import NamedTuple

from sqlglot import exp

from gapless.sql_queries.clause import Argument, TableFunction
from gapless.sql_queries.places import AT, Text, start_of
from gapless.sql_queries.relation import Relation
from gapless.sql_queries.windows import arguments_of, with_table_function


class _Form(NamedTuple):
    """How a window in GROUP BY is written."""

    text: str
    most: int
    """Its arguments, the last of them maybe an offset."""
    least: int


_FORMS = {
    "TUMBLE": _Form("TUMBLE(ts, INTERVAL '5' MINUTE)", 3, 2),
    "HOP": _Form("HOP(ts, INTERVAL '1' MINUTE, INTERVAL '5' MINUTE), slide and size", 4, 3),
    "SESSION": _Form("SESSION(ts, INTERVAL '30' SECOND)", 2, 2),
}
_FACTS = {"START": "window_start", "END": "window_end", "ROWTIME": "window_time"}


def in_grouped_window(
    select: exp.Select, relation: Relation, text: Text
) -> tuple[exp.Select, Relation]:
    """The relation in the window that GROUP BY calls, and the SELECT with its facts as columns."""
    group = select.args.get("group")
    calls = [each for each in group.expressions if _name(each) in _FORMS] if group else []
    if not calls:
        return select, relation
    if len(calls) > 1:
        raise text.error("two windows in one GROUP BY: leave one out", calls[1])
    call = calls[0]
    others = [each for each in group.expressions if each is not call] if group else []
    made = _windowed(relation, call, others, text)
    whole = select.copy()
    for node in list(whole.find_all(exp.Anonymous)):
        if node.find_ancestor(exp.Subquery, exp.From, exp.Join) is None:
            fact = _fact(node, call, text)
            if fact is not None:
                column = exp.column(fact)
                column.meta[AT] = start_of(node)
                node.replace(column)
    return whole, made


def _name(node: exp.Expr) -> str:
    return node.name.upper() if isinstance(node, exp.Anonymous) else ""


def _windowed(relation: Relation, call: exp.Expr, others: list[exp.Expr], text: Text) -> Relation:
    name = _name(call)
    form = _FORMS[name]
    if not form.least <= len(call.expressions) <= form.most:
        raise text.error(f"write {form.text}", call)
    data = Argument(this=exp.Table())
    if name == "SESSION":
        for each in others:
            if not isinstance(each, exp.Column):
                raise text.error(
                    "beside SESSION stand columns: compute this one in a subquery first", each
                )
        data.set("partition_by", [each.copy() for each in others])
    given = [Argument(this=each.copy()) for each in call.expressions]
    function = TableFunction(this=name, expressions=[data, *given])
    function.meta[AT] = start_of(call)
    return with_table_function(relation, function, arguments_of(function, text), text)


def _fact(node: exp.Expr, call: exp.Expr, text: Text) -> str | None:
    """What a call is of the window: TUMBLE_START(..) its start, TUMBLE(..) itself as well."""
    window, _, what = _name(node).partition("_")
    if window not in _FORMS or (what and what not in (*_FACTS, "PROCTIME")):
        return None
    if what == "PROCTIME":
        raise text.error(f"a query has no clock: write {window}_ROWTIME", node)
    if window != _name(call) or node.expressions != call.expressions:
        raise text.error(
            f"GROUP BY has no such window: write the arguments of {_name(call)} there", node
        )
    return _FACTS[what or "START"]
