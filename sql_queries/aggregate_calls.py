"""The aggregates of one select list: each becomes a column of the answer.

SELECT sum(len * 8) AS bits, count(*) FILTER (WHERE len > 9) / count(*) AS share

below      arg_1 = len * 8                               computed of each row
functions  bits=sum("arg_1"), agg_1=count(where=..), agg_2=count()
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import msgpack
from sqlglot import exp

from gapless.operators import aggregates as ours
from gapless.operators.aggregates.function import AggregateFunction
from gapless.protocol.expr import Expr
from gapless.sql_queries import aggregates, functions
from gapless.sql_queries.buckets import FACTS
from gapless.sql_queries.expressions import Expressions, UserFunctions
from gapless.sql_queries.places import Text
from gapless.sql_queries.relation import WINDOW_FIELDS, Relation, resolve


class AggregateCalls:
    """Collects the aggregates of a select list, and the columns that they need."""

    def __init__(
        self, relation: Relation, text: Text, functions: UserFunctions, taken: Sequence[str] = ()
    ) -> None:
        """`taken`: names that the answer's other columns have."""
        self._relation = relation
        self._text = text
        self._rows = Expressions(relation, text, functions)
        self._taken = set(taken)
        self._arguments, self._answers = _numbered("arg"), _numbered("agg")
        self._columns: dict[object, str] = {}  # of a node, a fact, or a latest value
        self._expressions: dict[bytes, str] = {}  # computed columns by their documents
        self.computed: dict[str, Expr] = {}
        """Columns that are computed of each row, below."""
        self.functions: dict[str, Any] = {}
        """The aggregates by the names of their columns."""

    def take(self, name: str) -> None:
        """The answer has another column of this name."""
        self._taken.add(name)

    def column_of(self, node: exp.Expr, name: str | None = None) -> str:
        """The column of an aggregate's answers: `name`, if that is free."""
        if node in self._columns:
            return self._columns[node]
        with self._text.at(node):
            function = self._built(node)
        return self._add(node, function, name)

    def fact_of(self, node: exp.Column, name: str | None = None) -> str:
        """The column of window_start, window_end or window_time."""
        field = node.name.lower()
        if field not in WINDOW_FIELDS:
            raise self._text.error(f"{node.name} is no fact of a window", node)
        return self._columns.get(field) or self._add(field, FACTS[field](), name or field)

    def latest(self, column: str) -> str:
        """The column of the largest value of another."""
        what = ("latest", column)
        return self._columns.get(what) or self._add(what, ours.max_(column), column)

    def compute(self, node: exp.Expr, name: str | None = None) -> str:
        """A column that is computed of each row, below the groups."""
        made = self._rows.of(node)
        what = msgpack.packb(made.to_document())
        if what in self._expressions:
            return self._expressions[what]
        taken = (self._relation.query.schema.names, self.computed)
        if name is None or any(name in names for names in taken):
            name = next(n for n in self._arguments if not any(n in names for names in taken))
        self.computed[name] = made
        self._expressions[what] = name
        return name

    def _add(self, what: Any, function: AggregateFunction, name: str | None) -> str:
        taken = (self.functions, self._taken)
        if name is None or any(name in names for names in taken):
            name = next(n for n in self._answers if not any(n in names for names in taken))
        self._columns[what] = name
        self.functions[name] = function
        return name

    # -- one aggregate ------------------------------------------------------------------------

    def _built(self, node: exp.Expr) -> AggregateFunction:
        where: Expr | None = None
        while isinstance(node, exp.Paren):
            node = node.this
        if isinstance(node, exp.Filter):
            where = self._rows.of(node.expression.this)
            node = node.this
        name = node.name.lower()
        given = node.expressions
        if len(given) == 1 and isinstance(given[0], exp.Distinct):
            values = given[0].expressions
            if name != "count" or len(values) != 1:
                raise self._text.error("DISTINCT stands in count(DISTINCT column)", node)
            return aggregates.count_distinct(self._argument(values[0]), where)
        if name == "count" and (not given or isinstance(given[0], exp.Star | exp.Literal)):
            return aggregates.built(name, [], where)
        if not given:
            raise self._text.error(f"{name}() needs a column", node)
        given = [self._by_time(each) for each in given]
        columns = 2 if name in aggregates.OF_TWO else 1
        if len(given) > columns and name not in aggregates.WITH_CONSTANT:
            raise self._text.error(f"{name}() does not take {len(given)} arguments", given[columns])
        arguments = [self._argument(each) for each in given[:columns]]
        arguments += [self._constant(each) for each in given[columns:]]
        try:
            return aggregates.built(name, arguments, where)
        except TypeError:
            raise self._text.error(f"{name}() does not take {len(given)} arguments", node) from None

    def _by_time(self, node: exp.Expr) -> exp.Expr:
        """An argument without ORDER BY, where that is the order that it has anyhow."""
        if not isinstance(node, exp.Order):
            return node
        relation, by = self._relation, [each.this for each in node.expressions]
        below, options = relation.below or (relation.query, {})
        times = below.properties.starts & {options.get("on") or each for each in below.schema.names}
        found = relation.find(by[0]) if isinstance(by[0], exp.Column) else []
        is_time = len(by) == len(found) == 1 and found[0].column in times
        if not is_time or node.expressions[0].args.get("desc") or node.this is None:
            raise self._text.error("values are in the order of time: leave ORDER BY out", node)
        inner: exp.Expr = node.this
        return inner

    def _constant(self, node: exp.Expr) -> Any:
        try:
            return functions.constant(self._rows.of(node), "this")
        except functions.BadArgument as e:
            raise self._text.error(str(e), node) from None

    def _argument(self, node: exp.Expr) -> str:
        if isinstance(node, exp.Column):
            return resolve(node, self._relation, self._text).column
        inner = next((n for n in node.walk() if is_aggregate(n)), None)
        if inner is not None:
            raise self._text.error(
                "an aggregate of an aggregate: make the inner one in a subquery", inner
            )
        return self.compute(node)


def is_aggregate(node: exp.Expr) -> bool:
    """Whether a node is an aggregate, also with FILTER behind it."""
    while isinstance(node, exp.Paren):
        node = node.this
    if isinstance(node, exp.Filter):
        node = node.this
    return isinstance(node, exp.Anonymous) and node.name.lower() in aggregates.AGGREGATES


def is_grouped(select: exp.Select) -> bool:
    """Whether a SELECT is about groups of rows: also where its list has aggregates without OVER."""
    return bool(select.args.get("group") or select.args.get("having")) or any(
        is_aggregate(node) and node.find_ancestor(exp.Window) is None
        for item in select.expressions
        for node in item.walk()
    )


def _numbered(prefix: str) -> Iterator[str]:
    number = 0
    while True:
        number += 1
        yield f"{prefix}_{number}"
