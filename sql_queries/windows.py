"""Windows of the text as `query.window(...)`: the thesis's clause, and table functions.

[RANGE 10 minutes, SLIDE 1 minute, WA ts]      window(range="10m", slide="1m")
[RANGE TUMBLING 5 minutes]                     window(range="5m", slide="5m")
[RANGE ALL, SLIDE 1 minute]                    window(range="all", slide="1m")
[RANGE 9 rows, SLIDE 3 rows, PA src]   window(range=rows(9), slide=rows(3), partition_by="src")
TUMBLE(flows, ts, INTERVAL '5' MINUTE)         window(range="5m", slide="5m")
HOP(flows, ts, INTERVAL '1' MINUTE, INTERVAL '5' MINUTE)    slide, then range
CUMULATE(flows, ts, INTERVAL '10' MINUTE, INTERVAL '1' HOUR)    slide="10m", restart="1h", of "all"
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from sqlglot import exp

from gapless.engine.row_counts import rows
from gapless.sql_queries.clause import (
    ROW_NUMBER,
    Attribute,
    Clause,
    Descriptor,
    Span,
    TableFunction,
)
from gapless.sql_queries.intervals import ROW_UNITS, duration, nanoseconds, signed_ns, span_ns
from gapless.sql_queries.places import Text
from gapless.sql_queries.relation import Relation, resolve

_ORDER = {
    "TUMBLE": ("DATA", "TIMECOL", "SIZE", "OFFSET"),
    "HOP": ("DATA", "TIMECOL", "SLIDE", "SIZE", "OFFSET"),
    "CUMULATE": ("DATA", "TIMECOL", "STEP", "SIZE", "OFFSET"),
    "SESSION": ("DATA", "TIMECOL", "GAP"),
}
"""The arguments of each table function, in order, by Flink's names."""


def in_window(relation: Relation, options: dict[str, Any], text: Text, at: exp.Expr) -> Relation:
    """A relation in a window; what the step raises is told at the place."""
    if relation.window is not None or relation.query.properties.window is not None:
        raise text.error(
            "this is in a window already, and a row has one: leave one of the two out, or "
            "aggregate first in a subquery",
            at,
        )
    with text.at(at):
        query = relation.query.window(**options)
    return replace(
        relation,
        query=query,
        kind="windowed",
        window=_identity(options),
        below=(relation.query, options),
        partition=tuple(options.get("partition_by", ())),
    )


def _identity(options: dict[str, Any]) -> tuple[object, ...]:
    """What tells windows apart, whichever column has the time."""
    return tuple(sorted((name, value) for name, value in options.items() if name != "on"))


# -- the clause -----------------------------------------------------------------------------------


def with_clause(relation: Relation, clause: Clause, text: Text, is_join: bool) -> Relation:
    """What a clause says of a relation."""
    parts = clause.args
    if parts.get("pa") and is_join:
        raise text.error(
            "PA divides the rows of one table, and this is a join: put the window behind a "
            "table, or GROUP BY the column",
            clause,
        )
    covers = parts.get("range")
    if covers is None:
        raise text.error("a window has a RANGE, as in [RANGE 5 minutes, SLIDE 1 minute]", clause)
    slide = _slide(covers, parts.get("slide"), text)
    on = _attribute(relation, parts, text)
    options: dict[str, Any] = {"range": _length(covers, text)}
    if slide is not None:
        options["slide"] = _length(slide, text)
    if on is not None and on not in relation.times:
        options["on"] = on
    if parts.get("pa"):
        options["partition_by"] = tuple(_column(relation, a, text) for a in parts["pa"])
    return in_window(relation, options, text, clause)


def _length(span: Span, text: Text) -> Any:
    """A span as `query.window` takes it: "all", rows(10), or "5m"."""
    if _is_all(span):
        return "all"
    if not _rows(span):
        return duration(span_ns(span, text))
    if not str(span.this).isdigit():
        raise text.error(f"{span.this} is no number of rows", span)
    with text.at(span):
        return rows(int(str(span.this)))


def _slide(covers: Span, slide: Span | None, text: Text) -> Span | None:
    if not covers.args.get("tumbling"):
        return slide
    if slide is not None:
        raise text.error("a TUMBLING window slides by its range: leave SLIDE out", slide)
    return covers


def _is_all(span: Span) -> bool:
    return str(span.args["unit"]) == "ALL"


def _rows(span: Span | None) -> bool:
    return span is not None and str(span.args["unit"]) in ROW_UNITS


def _attribute(relation: Relation, parts: dict[str, Any], text: Text) -> str | None:
    """The column that RANGE and SLIDE of time are about; None: the time of the rows."""
    both, ranged, slid = (parts.get(name) for name in ("wa", "rattr", "sattr"))
    if both is not None and (ranged is not None or slid is not None):
        raise text.error("WA is for RANGE and SLIDE both: leave out RATTR and SATTR, or WA", both)
    for word, span, attribute in (
        ("RANGE", parts.get("range"), both or ranged),
        ("SLIDE", parts.get("slide"), both or slid),
    ):
        _check_attribute(word, span, attribute, text)
    found = {
        _column(relation, each, text): each
        for each in (both, ranged, slid)
        if each is not None and each.this != ROW_NUMBER
    }
    if len(found) > 1:
        ranked = slid if slid is not None and slid.args.get("rank") else None
        raise text.error(
            "rank() orders rows by the column of RATTR: write the same column in both"
            if ranked is not None
            else "RANGE and SLIDE are of one column: write the same one in RATTR and SATTR",
            ranked or slid or ranged or next(iter(found.values())),
        )
    return next(iter(found), None)


def _check_attribute(word: str, span: Span | None, attribute: Attribute | None, text: Text) -> None:
    if span is None or attribute is None or _is_all(span):
        return
    counts = attribute.this == ROW_NUMBER or bool(attribute.args.get("rank"))
    if _rows(span) and not counts:
        raise text.error(f"{word} counts rows, so its attribute is row-num", attribute)
    if not _rows(span) and counts:
        raise text.error(f"{word} is a time, so its attribute is a column of time", attribute)


def _column(relation: Relation, attribute: Attribute, text: Text) -> str:
    return resolve(attribute.this, relation, text).column


# -- table functions ------------------------------------------------------------------------------


def arguments_of(function: TableFunction, text: Text) -> dict[str, Any]:
    """The arguments by Flink's names."""
    name = function.name
    order = _ORDER[name]
    found: dict[str, Any] = {}
    for i, argument in enumerate(function.expressions):
        called = argument.args.get("name") or (order[i] if i < len(order) else "")
        if called not in order or called in found:
            raise text.error(f"{name} takes {', '.join(order)}", argument)
        found[called] = argument
    missing = [a for a in order if a not in found and a != "OFFSET"]
    if missing:
        raise text.error(
            f"{name} needs {', '.join(missing)}; it takes {', '.join(order)}", function
        )
    return found


def _partition(relation: Relation, data: exp.Expr, text: Text) -> tuple[str, ...]:
    columns = data.args.get("partition_by") or []
    return tuple(resolve(column, relation, text).column for column in columns)


def with_table_function(
    relation: Relation, function: TableFunction, arguments: dict[str, Any], text: Text
) -> Relation:
    """What a table function says of the relation that is its DATA."""
    name = function.name
    time = arguments["TIMECOL"].this
    column = time.this if isinstance(time, Descriptor) else time
    if not isinstance(column, exp.Column):
        raise text.error("the column of time is wanted here, as in DESCRIPTOR(ts)", column)
    on = resolve(column, relation, text).column
    spans = {
        each: nanoseconds(arguments[each].this, text)
        for each in ("SIZE", "SLIDE", "STEP", "GAP")
        if each in arguments
    }
    partition = _partition(relation, arguments["DATA"], text)
    if partition and name != "SESSION":
        raise text.error("PARTITION BY divides sessions: GROUP BY the column", arguments["DATA"])
    if name == "SESSION":
        options = {"session": duration(spans["GAP"]), "partition_by": partition, "on": on}
        return replace(in_window(relation, options, text, function), is_function=True)
    size, slide = spans["SIZE"], spans.get("SLIDE", spans.get("STEP", spans["SIZE"]))
    if not size or not slide:
        raise text.error("the length of a window is more than nothing", function)
    options = {"range": duration(size), "slide": duration(slide), "on": on}
    period = slide
    if name == "CUMULATE":
        if size % slide:
            raise text.error("the size of CUMULATE is a multiple of its step", arguments["SIZE"])
        options, period = {**options, "range": "all", "restart": duration(size)}, size
    offset = signed_ns(arguments["OFFSET"].this, text) if "OFFSET" in arguments else 0
    if offset % period:
        options["origin"] = duration(offset % period)
    return replace(in_window(relation, options, text, function), is_function=True)
