"""Rows of a table function without GROUP BY: each once for every window that it is in.

    SELECT * FROM TUMBLE(flows, ts, INTERVAL '5' MINUTE)
    .window(range="5m", slide="5m").bucket(window_start=.., window_end=.., window_time=..)

Of window_start, window_end and window_time there are those that the SELECT names, or its star.
"""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from gapless.operators import aggregates
from gapless.sql_queries.places import Text
from gapless.sql_queries.relation import WINDOW_FIELDS, Field, Relation

FACTS = {
    "window_start": aggregates.window_start,
    "window_end": aggregates.window_end,
    "window_time": aggregates.window_time,
}
"""What each is, among aggregates and in a bucket."""


def bucketed(relation: Relation, select: exp.Select, text: Text) -> Relation:
    """The rows, with the facts of their windows as columns."""
    named = {
        column.name.lower()
        for column in select.find_all(exp.Column)
        if relation.is_window_field(column)
    }
    if any(isinstance(e, exp.Star) for e in select.expressions):
        own = {field.name.lower() for field in relation.fields}
        named |= set(WINDOW_FIELDS) - own
    facts = {name: FACTS[name]() for name in WINDOW_FIELDS if name in named}
    with text.at(select.args["from_"]):
        query = relation.query.bucket(**facts)
    table = relation.tables[0] if relation.tables else ""
    fields = (*relation.fields, *(Field(table, name, name) for name in facts))
    return replace(
        relation,
        query=query,
        fields=fields,
        kind="table",
        window=None,
        below=None,
        is_function=False,
        partition=(),
    )
