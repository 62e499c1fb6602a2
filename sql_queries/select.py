"""SELECT, and what combines several: UNION, EXCEPT, WITH.

    FROM, joins  >  WHERE  >  the window of the select list  >  GROUP BY, HAVING  >  the columns
         >  DISTINCT  >  ORDER BY .. LIMIT

Each is a step of the query, or none where it would change nothing: `SELECT *` is not one.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from sqlglot import exp

from gapless.engine.query import Query
from gapless.protocol.expr import Expr
from gapless.sql_queries.aggregate_calls import is_grouped
from gapless.sql_queries.buckets import bucketed
from gapless.sql_queries.clause import CLAUSE, Clause
from gapless.sql_queries.expressions import Expressions, UserFunctions, conjuncts
from gapless.sql_queries.from_ import From, Tables
from gapless.sql_queries.group_by import Grouping
from gapless.sql_queries.group_windows import in_grouped_window
from gapless.sql_queries.items import Item, items_of
from gapless.sql_queries.ordering import Ordering, direct
from gapless.sql_queries.over import has_over, over
from gapless.sql_queries.places import Text
from gapless.sql_queries.relation import Numbered, Relation, bounded, columns_named
from gapless.sql_queries.selection import checked, selected
from gapless.sql_queries.semi_joins import is_semi_join, semi_joined
from gapless.sql_queries.top_n import (
    RowNumber,
    is_row_number,
    limited,
    ranked,
    row_number_of,
    rows_kept,
)
from gapless.sql_queries.windows import with_clause

_SELECT = {
    "expressions", "from_", "joins", "where", "group", "having", "distinct", "order", "limit",
    "offset", "with_", "qualify",
}  # fmt: skip
_COMBINED = {"this", "expression", "distinct", "with_", "order", "limit", "offset"}
_READ_LATER = ("group", "having", "order")
_INSTEAD = {
    "windows": "WINDOW is not supported: write the window behind OVER",
    "laterals": "LATERAL is not supported: a subquery sees only the tables of its own FROM",
    "locks": "FOR stands behind a table, as in FOR SYSTEM_TIME AS OF",
    "into": "INTO is not supported: the answer goes where `gapless run` says",
}


class Queries:
    """Translates the queries of one script."""

    def __init__(self, text: Text, functions: UserFunctions) -> None:
        self._text = text
        self._functions = functions

    def answer(self, node: exp.Expr, tables: Tables) -> Relation:
        """The relation that a query gives, whole: no query around it says more of it."""
        return bounded(self.query(node, tables), node, self._text)

    def query(self, node: exp.Expr, tables: Tables) -> Relation:
        """The relation that a query gives, over these tables."""
        tables = self._with(node, tables)
        match node:
            case exp.Select():
                return self._select(node, tables)
            case exp.Subquery():
                self._check(node, {"this", "with_", "order", "limit", "offset"})
                return limited(self.query(node.this, tables), node, self._text)
            case exp.Union() | exp.Except() | exp.Intersect():
                self._check(node, _COMBINED)
                return limited(self._combined(node, tables), node, self._text)
        raise self._text.error("a query is wanted here: SELECT ...", node)

    def _check(self, node: exp.Expr, known: set[str]) -> None:
        for name, value in node.args.items():
            if value and name not in known:
                word = name.rstrip("_").upper()
                raise self._text.error(_INSTEAD.get(name, f"{word} is not supported"), node)

    def _with(self, node: exp.Expr, tables: Tables) -> Tables:
        with_ = node.args.get("with_")
        if with_ is None:
            return tables
        if with_.args.get("recursive"):
            raise self._text.error("WITH RECURSIVE is not supported: a query has no loops", with_)
        found = dict(tables)
        for each in with_.expressions:
            made = self.query(each.this, found)
            columns = columns_named(made, each.args["alias"], self._text)
            found[each.alias] = made.named(each.alias, columns)
        return found

    # -- one SELECT ---------------------------------------------------------------------------

    def _select(self, node: exp.Select, tables: Tables) -> Relation:
        self._check(node, _SELECT)
        relation = self._rows(node, tables)
        clause = self._clause(node)
        if clause is not None:
            relation = with_clause(relation, clause, self._text, bool(node.args.get("joins")))
        node, relation = in_grouped_window(node, relation, self._text)
        items = items_of(node, relation, self._text)
        number = row_number_of(items) or self._qualified(node)
        if number is None:
            return self._limited(relation, items, node, is_grouped(node))
        return self._numbered(relation, items, node, number)

    def _rows(self, node: exp.Select, tables: Tables) -> Relation:
        """FROM and WHERE."""
        from_ = From(tables, self._text, self._functions, self.query)
        relation, conditions = from_.relation(node)
        if relation.numbered is not None:
            relation, conditions = self._first(relation, conditions, node)
        aliases = tuple(e.alias for e in node.expressions if isinstance(e, exp.Alias))
        relation = replace(relation, aliases=aliases)
        relation = self._filtered(relation, [c for c in conditions if not is_semi_join(c)])
        for condition in filter(is_semi_join, conditions):
            inner = partial(self.answer, tables=self._with(node, tables))
            relation = semi_joined(relation, condition, inner, self._text)
        if relation.is_function and not is_grouped(node):
            relation = bucketed(relation, node, self._text)
        return relation

    def _limited(
        self, relation: Relation, items: list[Item], node: exp.Select, grouped: bool
    ) -> Relation:
        """The answer, ordered and limited; what only the order reads is not in it."""
        distinct = node.args.get("distinct")
        ordering = Ordering(items, relation, self._text)
        order = node.args.get("order")
        for each in order.expressions if order is not None else []:
            ordering.column(each.this)
            if ordering.hidden and distinct is not None:
                raise self._text.error("DISTINCT is ordered by what it selects", each)
        made = self._answer(relation, [*items, *ordering.hidden], node, grouped)
        if distinct is not None:
            made = self._distinct(made, distinct)
        made = limited(made, node, self._text, ordering.column)
        if not ordering.hidden:
            return made
        shown = [item.name for item in items]
        fields = tuple(f for f in made.fields if f.column in shown)
        return replace(made.then(made.query.select(*shown)), fields=fields)

    def _answer(
        self, relation: Relation, items: list[Item], node: exp.Select, grouped: bool
    ) -> Relation:
        """The columns of a select list."""
        if has_over(items):
            return over(relation, items, node, self._text, self._functions)
        if grouped:
            return Grouping(relation, node, items, self._text, self._functions).answer()
        distinct = node.args.get("distinct")
        if distinct is not None:
            relation = self._of_all_time(relation, distinct)
        return self._projected(relation, items, node)

    # -- ROW_NUMBER() -------------------------------------------------------------------------

    def _numbered(
        self, relation: Relation, items: list[Item], node: exp.Select, number: RowNumber
    ) -> Relation:
        """A SELECT with ROW_NUMBER(): QUALIFY says how many rows are kept, or a query around it."""
        if is_grouped(node):
            relation, items, number = self._over_answers(relation, items, node, number)

        def first(count: int, is_read: bool) -> Relation:
            made, column = ranked(relation, number, (count, is_read), self._text)
            shown = [each for each in items if each.node is not number.window or column]
            if column is not None:
                shown = [
                    replace(each, node=column) if each.node is number.window else each
                    for each in shown
                ]
            return self._limited(made, shown, node, False)

        qualify = node.args.get("qualify")
        if qualify is not None:
            kept = rows_kept(conjuncts(qualify.this), lambda n: self._is_number(n, number))
            if kept is None or kept[1]:
                raise self._text.error(
                    f"QUALIFY says how many rows are kept, as in {number.name} <= 3; write other "
                    "conditions in a query around this one",
                    qualify.this,
                )
            return first(kept[0], True)
        made = first(1, True)
        return replace(made, numbered=Numbered(number.name, first))

    def _over_answers(
        self, relation: Relation, items: list[Item], node: exp.Select, number: RowNumber
    ) -> tuple[Relation, list[Item], RowNumber]:
        """The answers of groups, and what ROW_NUMBER() orders them by as columns of theirs."""
        others = [each for each in items if each.node is not number.window]
        ordering = Ordering(others, relation, self._text)
        window = number.window.copy()
        for each in window.args["order"].expressions if window.args.get("order") else []:
            each.set("this", ordering.column(each.this))
        window.set(
            "partition_by",
            [
                ordering.column(each)
                for each in window.args.get("partition_by") or []
                if not (isinstance(each, exp.Column) and relation.is_window_field(each))
            ],
        )
        answers = self._answer(relation, [*others, *ordering.hidden], node, True)
        over_them = [
            replace(each, node=window if each.node is number.window else direct(each.name, node))
            for each in items
        ]
        return answers, over_them, RowNumber(number.name, window)

    def _first(
        self, relation: Relation, conditions: list[exp.Expr], node: exp.Select
    ) -> tuple[Relation, list[exp.Expr]]:
        """So many first rows as a condition says, and the conditions that are left."""
        numbered = relation.numbered
        if numbered is None:
            return relation, conditions

        def is_number(each: exp.Expr) -> bool:
            found = relation.find(each) if isinstance(each, exp.Column) else []
            return [f.column for f in found] == [numbered.column]

        kept = rows_kept(conditions, is_number)
        if kept is None:
            bounded(relation, node.args["from_"].this, self._text)
        count, left = kept or (0, [])
        read = [*node.expressions, *left, *(node.args.get(k) for k in _READ_LATER)]
        is_read = any(
            isinstance(n, exp.Star) or is_number(n)
            for each in read
            if isinstance(each, exp.Expr)
            for n in each.walk()
        )
        made = numbered.first(count, is_read)
        there = made.query.schema.names
        fields = tuple(f for f in relation.fields if f.column in there)
        return replace(made, fields=fields, tables=relation.tables), left

    def _qualified(self, node: exp.Select) -> RowNumber | None:
        """The ROW_NUMBER() that stands in QUALIFY alone."""
        qualify = node.args.get("qualify")
        if qualify is None:
            return None
        found = next((n for n in qualify.walk() if is_row_number(n)), None)
        if found is None:
            raise self._text.error("QUALIFY is of ROW_NUMBER(): write others as WHERE", qualify)
        return RowNumber("row_number", found)

    @staticmethod
    def _is_number(node: exp.Expr, number: RowNumber) -> bool:
        named = isinstance(node, exp.Column) and node.name.lower() == number.name.lower()
        return named or node == number.window

    def _filtered(self, relation: Relation, conditions: list[exp.Expr]) -> Relation:
        """The conditions as one step; functions of the user are steps of their own."""
        if not conditions:
            return relation
        made = Expressions(relation, self._text, self._functions)
        query = relation.query
        whole: Expr | None = None
        for node in conditions:
            condition = made.condition(node)
            with self._text.at(node):
                made_alone = query.where(condition)  # so that an error has this one's place
                if isinstance(condition, Expr):
                    whole = condition if whole is None else whole & condition
                else:
                    query = made_alone
        return relation.then(query if whole is None else query.where(whole))

    def _clause(self, node: exp.Select) -> Clause | None:
        found = [e for e in node.expressions if e.args.get(CLAUSE)]
        if len(found) > 1:
            raise self._text.error(
                "two windows for one select list: leave one out", found[1].args[CLAUSE]
            )
        return found[0].args[CLAUSE] if found else None

    def _projected(self, relation: Relation, items: list[Item], node: exp.Select) -> Relation:
        made = Expressions(relation, self._text, self._functions)
        columns = []
        for item in items:
            column = made.computed(item.node)
            with self._text.at(item.node):
                checked(column, relation)
            columns.append((item.name, column))
        with self._text.at(node):
            query = selected(relation.query, columns)
        fields = Relation.of(query, "", relation.kind)
        return replace(fields, window=relation.window, is_function=relation.is_function, tables=())

    # -- sets ---------------------------------------------------------------------------------

    def _of_all_time(self, relation: Relation, at: exp.Expr) -> Relation:
        """Of rows that live for an instant, what holds from their time on."""
        if relation.kind != "rows":
            return relation
        with self._text.at(at):
            query = relation.query.window(range="all")
        return replace(relation, query=query, kind="table")

    def _distinct(self, relation: Relation, at: exp.Expr) -> Relation:
        if at.args.get("on"):
            raise self._text.error(
                "DISTINCT ON is not supported: of each key the last row is ROW_NUMBER() OVER "
                "(PARTITION BY key ORDER BY its time DESC) = 1",
                at,
            )
        return relation.then(relation.query.distinct())

    def _combined(self, node: exp.Expr, tables: Tables) -> Relation:
        from_ = From(tables, self._text, self._functions, self.query)
        if isinstance(node, exp.Intersect):
            raise self._text.error("INTERSECT is not supported: join on all columns", node)
        if isinstance(node, exp.Union):
            made = from_.union([self.answer(n, tables) for n in _inputs(node)], node)
            if node.args.get("distinct"):
                made = self._distinct(self._of_all_time(made, node), node)
            return made
        sides = [
            self._of_all_time(self.answer(n, tables), node) for n in (node.this, node.expression)
        ]
        if node.args.get("distinct"):
            sides = [self._distinct(side, node) for side in sides]
        right = from_.renamed_like(sides[1], sides[0], node)
        with self._text.at(node):
            query: Query = sides[0].query.difference(right)
        return replace(sides[0], query=query, kind="table")


def _inputs(node: exp.Union) -> list[exp.Expr]:
    """The queries that UNION ALL combines, without the unions between them."""
    found: list[exp.Expr] = [node.expression]
    left = node.this
    while (
        isinstance(left, exp.Union)
        and bool(left.args.get("distinct")) == bool(node.args.get("distinct"))
        and not any(left.args.get(k) for k in ("order", "limit", "offset", "with_"))
    ):
        found.append(left.expression)
        left = left.this
    return [left, *reversed(found)]
