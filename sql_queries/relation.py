"""What FROM gives a SELECT: a query, and what its columns are called in the text.

A relation's rows are one of three, which decides what GROUP BY, DISTINCT and joins mean over it:

    rows      as a source gives them: each lives for the instant of its time
    windowed  in a window, behind a clause or a table function: they live as it says
    table     an answer: aggregates, joins, differences, the latest row of a key

`window_start`, `window_end` and `window_time` are no columns but facts of a windowed relation: they
become aggregates where rows are grouped, and mean "in one window" where two relations are joined.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from sqlglot import exp

from gapless.engine.query import Query
from gapless.protocol.expr import Expr
from gapless.sql_queries.near import nearest
from gapless.sql_queries.places import Text

Kind = Literal["rows", "windowed", "table"]

WINDOW_FIELDS = ("window_start", "window_end", "window_time")


@dataclass(frozen=True, slots=True)
class Field:
    """A column as the text may name it: `table.name`, or `name`."""

    table: str
    name: str
    column: str
    """What the query calls it."""


@dataclass(frozen=True, slots=True)
class Numbered:
    """Rows with a ROW_NUMBER(), before anybody has said how many of them are kept."""

    column: str
    """The column of the numbers."""
    first: Callable[[int, bool], Relation]
    """So many first rows; with that column if it is read."""


@dataclass(frozen=True, slots=True)
class Relation:
    """A query and its names."""

    query: Query
    fields: tuple[Field, ...]
    kind: Kind
    window: tuple[object, ...] | None = None
    """What tells its window from others; None where it has none."""
    tables: tuple[str, ...] = ()
    """The names of the tables that it is made of."""
    is_function: bool = False
    """Whether a table function made the window, so that GROUP BY names it."""
    below: tuple[Query, dict[str, Any]] | None = None
    """The query below the window, and the window: columns are computed there, for some windows are
    answered by the aggregate directly above them. None where there is a step above already."""
    partition: tuple[str, ...] = ()
    """The columns by whose values the window divides rows."""
    aliases: tuple[str, ...] = ()
    """The names that the select list over it gives: an error about one of them says so."""
    numbered: Numbered | None = None
    """Where a query around this one has to say how many first rows are kept."""

    @staticmethod
    def of(query: Query, table: str, kind: Kind) -> Relation:
        """All columns of a query, under their own names."""
        fields = tuple(Field(table, name, name) for name in query.schema.names)
        return Relation(query, fields, kind, None, (table,))

    def then(self, query: Query) -> Relation:
        """The same names over a query with the same columns."""
        return replace(self, query=query, below=None)

    def computed(self, columns: Mapping[str, Expr]) -> Query:
        """The query with these columns besides."""
        if not columns:
            return self.query
        if self.below is None:
            return self.query.map(**columns)
        query, options = self.below
        return query.map(**columns).window(**options)

    def named(self, table: str, columns: Sequence[str] = ()) -> Relation:
        """Under another name, as behind AS; see `columns_named`."""
        names = [*columns, *(f.name for f in self.fields[len(columns) :])]
        fields = tuple(Field(table, n, f.column) for n, f in zip(names, self.fields, strict=True))
        return replace(self, fields=fields, tables=(table,))

    @property
    def times(self) -> frozenset[str]:
        """The columns that hold the time of their row."""
        return self.query.properties.starts

    def has_table(self, name: str) -> bool:
        """Whether a table of this name is in it."""
        return any(t.lower() == name.lower() for t in self.tables)

    def find(self, column: exp.Column) -> list[Field]:
        """The fields that a name in the text may mean."""
        table, name = column.table, column.name
        quoted = bool(column.this.args.get("quoted"))
        found = [
            f
            for f in self.fields
            if (not table or f.table.lower() == table.lower())
            and (f.name == name or (not quoted and f.name.lower() == name.lower()))
        ]
        exact = [f for f in found if f.name == name]
        return exact or found

    def is_window_field(self, column: exp.Column) -> bool:
        """Whether a name means a fact of the window."""
        name = column.name.lower()
        if name not in WINDOW_FIELDS or self.window is None or self.find(column):
            return False
        return not column.table or self.has_table(column.table)


def bounded(relation: Relation, at: exp.Expr, text: Text) -> Relation:
    """The relation, unless its ROW_NUMBER() waits for a condition."""
    if relation.numbered is None:
        return relation
    name = next(f.name for f in relation.fields if f.column == relation.numbered.column)
    raise text.error(
        f"say how many rows are kept, in a query around this one: WHERE {name} <= 3",
        next(at.find_all(exp.Window), at),
    )


def columns_named(relation: Relation, alias: exp.Expr, text: Text) -> list[str]:
    """The names that stand behind a table's: of its first columns, none of them twice."""
    given = alias.args.get("columns") or alias.expressions
    names = [each.name for each in given]
    if len(names) > len(relation.fields):
        raise text.error(f"there are {len(relation.fields)} columns to name", alias)
    for number, name in enumerate(names):
        if name in names[:number]:
            raise text.error(f"two columns would be called {name!r}", given[number])
    return names


def resolve(column: exp.Column, relation: Relation, text: Text) -> Field:
    """The one field that is meant. Raises `SqlError` where there is none, or more."""
    found = relation.find(column)
    if len(found) == 1:
        return found[0]
    if found:
        choices = " or ".join(f"{f.table}.{f.name}" for f in found)
        raise text.error(f"{column.name!r} is ambiguous: say {choices}", column)
    if column.table and not relation.has_table(column.table):
        raise text.error(
            f"no table {column.table!r} here{_list(relation.tables)}; a subquery sees only the "
            "tables of its own FROM: join it instead",
            column,
        )
    if column.name.lower() in WINDOW_FIELDS:
        raise text.error(
            f"{column.name} is of a window, and there is none here: FROM TUMBLE(...) gives one"
            if relation.window is None
            else f"{column.name} stands beside aggregates of the window: a row alone may be in "
            "several windows",
            column,
        )
    if column.name in relation.aliases:
        raise text.error(
            f"{column.name!r} is a name of this select list, known in HAVING and ORDER BY: write "
            "what it stands for, or read it in a query around this one",
            column,
        )
    names = [f.name for f in relation.fields if not column.table or f.table == column.table]
    advice = "; a text stands in single quotes" if column.this.args.get("quoted") else ""
    raise text.error(f"no column {column.name!r}{nearest(column.name, names)}{advice}", column)


def _list(names: Iterable[str]) -> str:
    there = ", ".join(n for n in names if n)
    return f" (there is {there})" if there else ""
