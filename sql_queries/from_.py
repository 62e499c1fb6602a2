"""FROM: tables, unions of tables, subqueries and table functions, and their joins.

A name is that of a source, of a view, or of a WITH. A table's own clause is its window; a TUMBLING
one behind the last of several tables that have none is of all of them, as the thesis writes it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from sqlglot import exp

from gapless.engine.query import Query
from gapless.sql_queries.clause import Clause, Melded, TableFunction, clause_of
from gapless.sql_queries.expressions import UserFunctions, conjuncts
from gapless.sql_queries.joins import Joiner, sides_of
from gapless.sql_queries.near import nearest
from gapless.sql_queries.places import Text
from gapless.sql_queries.relation import Relation, bounded, columns_named
from gapless.sql_queries.windows import arguments_of, with_clause, with_table_function

Tables = Mapping[str, Relation]
"""Sources, views and names of WITH."""
Subquery = Callable[[exp.Expr, Tables], Relation]
"""Translates a query of FROM."""

_OF_TABLES = {"this", "alias", "clause", "joins", "version", "expressions", "partition_by", "name"}


class From:
    """Translates the FROM of one SELECT."""

    def __init__(
        self, tables: Tables, text: Text, functions: UserFunctions, subquery: Subquery
    ) -> None:
        self._tables = tables
        self._text = text
        self._functions = functions
        self._subquery = subquery

    def relation(self, select: exp.Select) -> tuple[Relation, list[exp.Expr]]:
        """What it gives, and the conditions of WHERE that no join has taken."""
        from_ = select.args.get("from_")
        if from_ is None:
            raise self._text.error("a SELECT reads a table: FROM is missing", select)
        first = from_.this
        joins = [*(first.args.get("joins") or []), *(select.args.get("joins") or [])]
        where = select.args.get("where")
        left = conjuncts(where.this) if where is not None else []
        shared = self._shared_clause(first, joins)
        whole = self._one(first, bool(joins), shared)
        joiner = Joiner(self._text, self._functions, _mentioned(select))
        for join in joins:
            other = self._one(join.this, True, shared)
            self._check_names(whole, other, join)
            on = join.args.get("on")
            conditions = conjuncts(on) if on is not None else []
            if not join.args.get("side"):
                taken = [c for c in left if self._is_for(c, whole, other)]
                conditions += taken
                left = [c for c in left if c not in taken]
            whole = joiner.joined(whole, other, join, conditions)
        return whole, left

    def _check_names(self, whole: Relation, other: Relation, join: exp.Join) -> None:
        twice = next((t for t in other.tables if t and whole.has_table(t)), None)
        if twice is not None:
            raise self._text.error(f"two tables are called {twice!r}: name one with AS", join)

    def _is_for(self, condition: exp.Expr, left: Relation, right: Relation) -> bool:
        """Whether a condition of WHERE can be one of the join."""
        if condition.find(exp.Select) is not None:
            return False
        if any(c.name.lower() in self._functions for c in condition.find_all(exp.Anonymous)):
            return False
        columns = list(condition.find_all(exp.Column))
        return bool(columns) and all(sides_of(c, (left, right)) for c in columns)

    # -- one table ----------------------------------------------------------------------------

    def _shared_clause(self, first: exp.Expr, joins: list[exp.Join]) -> Clause | None:
        """A TUMBLING clause behind the last of several tables, which is for all of them."""
        each = [first, *(join.this for join in joins)]
        found = clause_of(each[-1])
        if len(each) == 1 or found is None or any(clause_of(t) for t in each[:-1]):
            return None
        covers = found.args.get("range")
        return found if covers is not None and covers.args.get("tumbling") else None

    def _one(self, node: exp.Expr, is_joined: bool, shared: Clause | None = None) -> Relation:
        found = self._named(node)
        clause = clause_of(node) or shared
        if clause is not None or is_joined:
            bounded(found, node, self._text)
        if clause is not None:
            found = with_clause(found, clause, self._text, is_joined)
        return found

    def _named(self, node: exp.Expr) -> Relation:
        for name, value in node.args.items():
            if value and name not in _OF_TABLES:
                raise self._text.error(f"{name.upper()} is not supported in FROM", node)
        found = self._bare(node)
        alias = node.args.get("alias")
        if alias is not None:
            found = found.named(alias.name, columns_named(found, alias, self._text))
        return found

    def _bare(self, node: exp.Expr) -> Relation:
        match node:
            case TableFunction():
                return self._called(node)
            case Melded():
                return self._melded(node)
            case exp.Subquery():
                inner = node.this
                if isinstance(inner, exp.Table | Melded | TableFunction | exp.Subquery):
                    return self._one(inner, False)
                return replace(self._subquery(inner, self._tables).named(""), tables=())
            case exp.Table() if isinstance(node.this, exp.Identifier):
                return self._table(node, node.this)
            case exp.Table() if isinstance(node.this, exp.Anonymous):
                raise self._text.error(
                    f"no table function {node.this.name!r}"
                    f"{nearest(node.this.name, ('TUMBLE', 'HOP', 'CUMULATE', 'SESSION'))}",
                    node,
                )
        raise self._text.error("FROM takes tables, subqueries and table functions", node)

    def _table(self, node: exp.Expr, name: exp.Expr) -> Relation:
        if node.args.get("db"):
            raise self._text.error("a table has one name, without a schema", node)
        return self._found(name.name, bool(name.args.get("quoted")), name)

    def _found(self, name: str, quoted: bool, at: exp.Expr) -> Relation:
        if name in self._tables:
            return self._tables[name].named(name)
        alike = [] if quoted else [n for n in self._tables if n.lower() == name.lower()]
        if len(alike) == 1:
            return self._tables[alike[0]].named(name)
        raise self._text.error(
            f"no table {name!r}{nearest(name, list(self._tables))}; sources=, --source or CREATE "
            "TABLE gives one",
            at,
        )

    def _melded(self, node: Melded) -> Relation:
        inputs = [self._one(each, True) for each in node.expressions]
        return self.union(inputs, node)

    def union(self, inputs: list[Relation], at: exp.Expr) -> Relation:
        """The rows of all, under the names of the first."""
        first = inputs[0]
        if any(each.kind == "windowed" for each in inputs):
            windows = {each.window for each in inputs}
            if len(windows) > 1:
                raise self._text.error("one of these is in another window than the first", at)
        names = first.query.schema.names
        queries = [first.query, *(self._renamed(each, names, at) for each in inputs[1:])]
        with self._text.at(at):
            query = queries[0].union(*queries[1:])
        kinds = {each.kind for each in inputs}
        kind = first.kind if len(kinds) == 1 else "table"
        return replace(first.named(""), query=query, kind=kind, tables=())

    def _renamed(self, relation: Relation, names: list[str], at: exp.Expr) -> Query:
        """Its columns under other names, by their places."""
        own = relation.query.schema.names
        if own == names:
            return relation.query
        if len(own) != len(names):
            raise self._text.error(
                f"the first of these has {len(names)} columns ({', '.join(names)}), another has "
                f"{len(own)} ({', '.join(own)})",
                at,
            )
        return renamed(relation.query, dict(zip(names, own, strict=True)))

    def renamed_like(self, relation: Relation, first: Relation, at: exp.Expr) -> Query:
        """A query with the columns' names of another."""
        return self._renamed(relation, list(first.query.schema.names), at)

    def _called(self, node: TableFunction) -> Relation:
        arguments = arguments_of(node, self._text)
        data = arguments["DATA"]
        inner: Any = data.this
        if isinstance(inner, exp.Column) and not inner.table:
            found = self._found(inner.name, bool(inner.this.args.get("quoted")), inner)
        elif isinstance(inner, exp.Expr) and not isinstance(inner, exp.Column):
            found = self._one(inner, False)
        else:
            raise self._text.error("a table is wanted here, as in TABLE flows", data)
        bounded(found, data, self._text)
        return with_table_function(found, node, arguments, self._text)


def renamed(query: Query, columns: dict[str, str]) -> Query:
    """These columns, under new names."""
    from gapless.protocol.expr import col

    return query.select(**{new: col(old) for new, old in columns.items()})


def _mentioned(select: exp.Select) -> set[tuple[str, str]]:
    """Tables and columns that a SELECT names together, other than where it says what it joins."""
    outside = [
        node
        for name, value in select.args.items()
        if name not in ("joins", "from_", "with_")
        for node in (value if isinstance(value, list) else [value])
        if isinstance(node, exp.Expr)
    ]
    return {
        (column.table.lower(), column.name.lower())
        for node in outside
        for column in node.find_all(exp.Column)
        if column.table
    }
