"""Scripts: statements one after the other, and the queries that they give.

CREATE TABLE flows (ts TIMESTAMP(3), src INT, len INT,
WATERMARK FOR ts AS ts - INTERVAL '5' SECOND);      gl.source("flows", ..)
CREATE VIEW big AS SELECT * FROM flows WHERE len > 1000;                a name for a query
SELECT src, count(*) AS n FROM big [RANGE 10 s, SLIDE 1 s] GROUP BY src;
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from sqlglot import exp

from gapless.engine.query import Query
from gapless.engine.source import source
from gapless.protocol.errors import Misuse
from gapless.sql_queries.casts import arrow_type
from gapless.sql_queries.dialect import parse
from gapless.sql_queries.expressions import UserFunctions
from gapless.sql_queries.intervals import duration, nanoseconds
from gapless.sql_queries.near import nearest
from gapless.sql_queries.places import Text
from gapless.sql_queries.relation import Relation, columns_named
from gapless.sql_queries.select import Queries

STATEMENTS_MAX = 1000
"""Statements of one script."""


@dataclass(frozen=True, slots=True)
class Answer:
    """A query of a script, and whether it is to be explained only."""

    query: Query
    is_explained: bool = False


@dataclass
class Script:
    """What the statements so far have defined."""

    tables: dict[str, Relation] = field(default_factory=dict)
    functions: UserFunctions = field(default_factory=dict)
    offered: dict[str, Callable[[str], Query]] = field(default_factory=dict)
    """Tables that are made when a text names them, unless it creates them itself."""

    def add_source(self, name: str, query: Query) -> None:
        """A query under a name: a source's, or any."""
        if not isinstance(query, Query):
            raise Misuse(f"sources: {name!r} is a {type(query).__name__}, not a query")
        self.tables[name] = Relation.of(query, name, kind_of(query))

    def run(self, text: str) -> list[Answer]:
        """Reads statements; the queries that they give. Raises `SqlError`."""
        statements, at = parse(text)
        if len(statements) > STATEMENTS_MAX:
            raise at.error(
                f"{len(statements)} statements, {STATEMENTS_MAX} are the most",
                statements[STATEMENTS_MAX],
            )
        self._take_offers(statements)
        queries = Queries(at, self.functions)
        found = []
        for statement in statements:
            match statement:
                case exp.Create(kind="TABLE"):
                    self._create_table(statement, at)
                case exp.Create():
                    name = statement.this.this.name
                    self._check_new(name, statement, at)
                    made = queries.query(statement.expression, self.tables)
                    columns = columns_named(made, statement.this, at)
                    self.tables[name] = made.named(name, columns)
                case exp.Describe():
                    found.append(Answer(queries.answer(statement.this, self.tables).query, True))
                case _:
                    found.append(Answer(queries.answer(statement, self.tables).query))
        return found

    def _take_offers(self, statements: list[exp.Expr]) -> None:
        created = {_created(s).lower() for s in statements if isinstance(s, exp.Create)}
        named = {n.name.lower() for s in statements for n in s.find_all(exp.Identifier)}
        for name, made in self.offered.items():
            if name not in self.tables and name.lower() in named - created:
                self.add_source(name, made(name))

    def _check_new(self, name: str, node: exp.Expr, at: Text) -> None:
        if name in self.tables:
            raise at.error(f"there is a table {name!r} already", node)

    def _create_table(self, node: exp.Create, at: Text) -> None:
        schema = node.this
        if not isinstance(schema, exp.Schema):
            raise at.error("a table has columns, as in CREATE TABLE t (ts TIMESTAMP(3), ..)", node)
        name = schema.this.name
        self._check_new(name, node, at)
        fields: list[pa.Field] = []
        watermarks: list[exp.WatermarkColumnConstraint] = []
        for each in schema.expressions:
            if isinstance(each, exp.ColumnDef):
                fields.append(_field(each, at))
            elif isinstance(each, exp.WatermarkColumnConstraint):
                watermarks.append(each)
            else:
                raise at.error("a table has columns and WATERMARKs, and no other constraint", each)
        for each in watermarks:
            if all(each.this.name.lower() != field.name.lower() for field in fields):
                near = nearest(each.this.name, [field.name for field in fields])
                raise at.error(f"no column {each.this.name!r}{near}", each.this)
        of_time = [each for each in watermarks if _is_of_time(each)]
        if len(of_time) > 1:
            other = "of another column write AS ts - INTERVAL '60' SECOND, of the time"
            raise at.error(f"a table has one time; {other}", of_time[1])
        if not of_time:
            raise at.error(
                f"table {name} has no WATERMARK: which column is the time, and how late may rows "
                "be? As in WATERMARK FOR ts AS ts - INTERVAL '5' SECOND",
                node,
            )
        time = _named(of_time[0].this.name, fields)
        others = [each for each in watermarks if each is not of_time[0]]
        progress = {_named(w.this.name, fields): _behind(w, time, at) for w in others}
        if len(progress) < len(others):
            raise at.error("a column has one WATERMARK", others[-1])
        with at.at(others[0] if others else of_time[0]):
            lateness = _behind(of_time[0], time, at)
            query = source(name, pa.schema(fields), time=time, lateness=lateness, progress=progress)
        self.add_source(name, query)


def _created(node: exp.Create) -> str:
    """The name that a CREATE gives."""
    schema = node.this
    return str(schema.this.name if isinstance(schema, exp.Schema) else schema.name)


def _field(node: exp.ColumnDef, at: Text) -> pa.Field:
    kind = node.args.get("kind")
    if kind is None:
        raise at.error("a column has a type, as in len INT", node)
    nullable = True
    for constraint in node.args.get("constraints") or []:
        if not isinstance(constraint.kind, exp.NotNullColumnConstraint):
            raise at.error("of a column one may say NOT NULL, and nothing else", constraint)
        nullable = bool(constraint.kind.args.get("allow_null"))
    return pa.field(node.name, arrow_type(kind, at), nullable)


def _named(name: str, fields: list[pa.Field]) -> str:
    """The column, as it was written where it was defined."""
    return next((f.name for f in fields if f.name.lower() == name.lower()), name)


def _read(node: exp.WatermarkColumnConstraint) -> Any:
    """What stands behind AS, without what is subtracted."""
    rule = node.expression
    return rule.this if isinstance(rule, exp.Sub) else rule


def _is_of_time(node: exp.WatermarkColumnConstraint) -> bool:
    """Whether it follows from its own column, or from what the input says."""
    read = _read(node)
    return not (isinstance(read, exp.Column) and read.name.lower() != node.this.name.lower())


def _behind(node: exp.WatermarkColumnConstraint, time: str, at: Text) -> Any:
    """AS ts - INTERVAL, where ts is the time: of the time, how late rows may be, of another column,
    how far before it that is; AS ts: not at all. Of the time without AS: the input says it.
    """
    rule, read = node.expression, _read(node)
    if not rule:
        return None
    if not isinstance(read, exp.Column) or read.name.lower() != time.lower():
        raise at.error(f"write AS {time} - INTERVAL '5' SECOND, of the table's time", node)
    return duration(nanoseconds(rule.expression, at)) if isinstance(rule, exp.Sub) else 0


def kind_of(query: Query) -> Any:
    """How long the rows of a query live, seen from outside."""
    properties = query.properties
    if properties.window is not None:
        return "windowed"
    return "rows" if properties.lasts == 1 and properties.starts else "table"


def sql(
    text: str,
    sources: Mapping[str, Query] | None = None,
    functions: Mapping[str, Any] | None = None,
) -> Query:
    """The query that a text in SQL describes: the last statement, a SELECT.

    `sources`: queries by the names that FROM says; CREATE TABLE makes others. `functions`: yours by
    name, each with the type that it gives, {"rate": (rate, "float64")}; they are called as with
    `gl.function`. What cannot be a query is refused with a `SqlError`, which shows the place.
    """
    if not isinstance(text, str):
        raise Misuse(f"sql: a text is wanted, and this is a {type(text).__name__}")
    script = Script(functions=functions_of(_by_name("functions", functions)))
    for name, query in _by_name("sources", sources).items():
        script.add_source(name, query)
    answers = script.run(text)
    if len(answers) != 1:
        raise Misuse(
            f"sql: the text has {len(answers)} queries; write one SELECT, and CREATE VIEW for "
            "what it reads"
        )
    return answers[0].query


def _by_name(what: str, given: Any) -> Mapping[str, Any]:
    """What is given by names in the text."""
    if given is None:
        return {}
    if not isinstance(given, Mapping) or not all(isinstance(name, str) for name in given):
        raise Misuse(f'sql: give {what} by their names, as in {what}={{"flows": ...}}')
    return given


def functions_of(functions: Mapping[str, Any]) -> UserFunctions:
    """Functions of the user by their names in small letters."""
    found: UserFunctions = {}
    for name, given in functions.items():
        if not isinstance(given, tuple | list) or len(given) != 2 or not callable(given[0]):
            raise Misuse(
                f"sql: function {name!r}: give it with the type that it returns, as in "
                f'functions={{"{name}": ({name}, "float64")}}'
            )
        found[name.lower()] = (given[0], given[1])
    return found
