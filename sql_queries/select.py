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
from gapless.sql_queries.items import Item, items_of
from gapless.sql_queries.over import has_over, over
from gapless.sql_queries.places import AT, Text, start_of
from gapless.sql_queries.relation import Relation
from gapless.sql_queries.selection import selected
from gapless.sql_queries.semi_joins import is_semi_join, semi_joined
from gapless.sql_queries.top_n import RowNumber, limited, ranked, row_number_of, rows_kept
from gapless.sql_queries.windows import with_clause

_SELECT = {
    "expressions", "from_", "joins", "where", "group", "having", "distinct", "order", "limit",
    "offset", "with_",
}  # fmt: skip
_COMBINED = {"this", "expression", "distinct", "with_", "order", "limit", "offset"}
_INSTEAD = {
    "qualify": "QUALIFY is not supported: filter in a query around this one",
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
            columns = [c.name for c in each.args["alias"].args.get("columns") or []]
            found[each.alias] = self.query(each.this, found).named(each.alias, columns)
        return found

    # -- one SELECT ---------------------------------------------------------------------------

    def _select(self, node: exp.Select, tables: Tables, kept: int | None = None) -> Relation:
        """`kept`: of its ROW_NUMBER(), how many rows the query around it keeps."""
        self._check(node, _SELECT)
        relation, conditions = self._from(node, tables)
        relation = self._filtered(relation, [c for c in conditions if not is_semi_join(c)])
        for condition in filter(is_semi_join, conditions):
            inner = partial(self.query, tables=self._with(node, tables))
            relation = semi_joined(relation, condition, inner, self._text)
        if relation.is_function and not is_grouped(node):
            relation = bucketed(relation, node, self._text)
        number = row_number_of(node)
        if number is not None:
            if kept is None:
                raise self._text.error(
                    f"say how many rows, in a query around this one: WHERE {number.name} <= 3",
                    number.window,
                )
            relation = ranked(relation, number, kept, self._text)
            node = _with_rank(node, number, relation)
        clause = self._clause(node)
        if clause is not None:
            relation = with_clause(relation, clause, self._text, bool(node.args.get("joins")))
        items = items_of(node, relation, self._text)
        distinct = node.args.get("distinct")
        if has_over(items):
            made = over(relation, items, node, self._text, self._functions)
        elif is_grouped(node):
            made = Grouping(relation, node, items, self._text, self._functions).answer()
        else:
            if distinct is not None:
                relation = self._of_all_time(relation, distinct)
            made = self._projected(relation, items, node)
        if distinct is not None:
            made = self._distinct(made, distinct)
        return limited(made, node, self._text)

    def _from(self, node: exp.Select, tables: Tables) -> tuple[Relation, list[exp.Expr]]:
        """FROM, and the conditions that are left: not `WHERE r <= 3` of a ROW_NUMBER() in it."""
        from_ = node.args.get("from_")
        inner = from_.this if from_ is not None else None
        number = None
        if isinstance(inner, exp.Subquery) and not node.args.get("joins"):
            number = row_number_of(inner.this)
        if number is None or inner is None:
            return From(tables, self._text, self._functions, self.query).relation(node)
        where = node.args.get("where")
        kept = rows_kept(number, conjuncts(where.this) if where is not None else [])
        if kept is None:
            raise self._text.error(
                f"say how many rows are kept: WHERE {number.name} <= 3", number.window
            )
        count, condition = kept

        def subquery(each: exp.Expr, others: Tables) -> Relation:
            if each is inner.this and isinstance(each, exp.Select):
                return self._select(each, self._with(each, others), count)
            return self.query(each, others)

        relation, conditions = From(tables, self._text, self._functions, subquery).relation(node)
        return relation, [each for each in conditions if each is not condition]

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
        columns = [(item.name, made.computed(item.node)) for item in items]
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
            made = from_.union([self.query(n, tables) for n in _inputs(node)], node)
            if node.args.get("distinct"):
                made = self._distinct(self._of_all_time(made, node), node)
            return made
        sides = [
            self._of_all_time(self.query(n, tables), node) for n in (node.this, node.expression)
        ]
        if node.args.get("distinct"):
            sides = [self._distinct(side, node) for side in sides]
        right = from_.renamed_like(sides[1], sides[0], node)
        with self._text.at(node):
            query: Query = sides[0].query.difference(right)
        return replace(sides[0], query=query, kind="table")


def _with_rank(node: exp.Select, number: RowNumber, relation: Relation) -> exp.Select:
    """The SELECT with the column of ranks in place of its ROW_NUMBER(), if there is one; a star
    has it already.
    """
    is_number = [e is number.window or e.this is number.window for e in node.expressions]
    has_rank = number.name in relation.query.schema.names
    has_star = any(isinstance(e, exp.Star) for e in node.expressions)
    made = node.copy()
    items = []
    for item, is_it in zip(made.expressions, is_number, strict=True):
        if not is_it:
            items.append(item)
        elif has_rank and not has_star:
            column = exp.column(number.name, quoted=True)
            column.meta[AT] = start_of(item)
            items.append(column)
    made.set("expressions", items)
    return made


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
