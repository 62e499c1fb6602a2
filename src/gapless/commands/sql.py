"""`gapless sql`: a shell for SQL over files and journals.

    gapless sql --source flows=flows.parquet -c "SELECT src, count(*) AS n FROM flows [...] ..."
    gapless sql --source flows=data/netflow              asks for statements; each ends with ;

A query reads its inputs to their present end, and each event of its answer is printed once, with
the time from and until which it holds. CREATE TABLE and CREATE VIEW hold for the statements behind.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gapless.commands.terminal import AsJson, ExitCode, output, print_json, print_line

if TYPE_CHECKING:
    import pyarrow as pa

    from gapless.engine.query import Query
    from gapless.sql_queries.script import Answer, Script

ROWS_SHOWN_MAX = 1_000
"""Rows of an answer shown without --json."""
PROMPT, CONTINUED = "sql> ", "  -> "
ENDS = frozenset(("exit", "quit", "\\q", ".exit", ".quit"))
"""What ends the shell, as Ctrl-D does."""


def sql(
    query: Annotated[
        Path | None, typer.Argument(metavar="FILE.sql", help="Statements to run; then it ends.")
    ] = None,
    command: Annotated[
        list[str] | None,
        typer.Option("-c", "--command", metavar="SQL", help="Statements to run; then it ends."),
    ] = None,
    source: Annotated[
        list[str] | None,
        typer.Option(
            "--source",
            metavar="NAME=PATH",
            help="A table: a journal, or a file or folder (Parquet, Arrow, CSV, JSON lines).",
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Answer queries in SQL over files and journals.

    Inputs are read to their present end. Without -c and FILE.sql it asks for statements; each ends
    with a semicolon. Ctrl-C stops a query; exit or Ctrl-D ends. Journals, Parquet and Arrow files
    say their columns; for others, write CREATE TABLE name (.., WATERMARK FOR ..).
    """
    from gapless.protocol.errors import GaplessError

    shell = Shell(_paths(source or []))
    texts = [*(command or []), *([_text(query)] if query is not None else [])]
    if texts:
        documents = [d for text in texts for d in shell.run(text, as_json=as_json)]
        if as_json:
            print_json(documents)
        return
    asks, is_refused = sys.stdin.isatty(), False
    for text in statements(sys.stdin, asks=asks):
        try:
            for document in shell.run(text, as_json=as_json):
                print_json(document)
        except GaplessError as e:
            is_refused = True
            sys.stderr.write(f"{e}\n")
        except KeyboardInterrupt:
            if not asks:
                raise
            sys.stderr.write("interrupted\n")  # the query, not the shell
    raise typer.Exit(ExitCode.COULD_NOT_RUN if is_refused and not asks else 0)


class Shell:
    """What has been defined so far, and where tables lie."""

    def __init__(self, paths: dict[str, str]) -> None:
        from gapless.sql_queries.script import Script

        self.paths = paths
        self.script: Script = Script(offered=dict.fromkeys(paths, self._source))

    def _source(self, name: str) -> Query:
        from gapless.io.sql_sources import source_of

        return source_of(name, self.paths[name])

    def run(self, text: str, *, as_json: bool) -> Iterator[dict[str, Any]]:
        """Answers the queries of a text: prints them, or gives them as documents."""
        for answer in self.script.run(text):
            document = self._answered(answer, as_json=as_json)
            if document is not None:
                yield document

    def _answered(self, answer: Answer, *, as_json: bool) -> dict[str, Any] | None:
        if answer.is_explained:
            if as_json:
                return {"plan": answer.query.explain()}
            print_line(answer.query.explain())
            return None
        table = self._table(answer.query)
        if as_json:
            return _document(table, answer.query)
        _print(table, answer.query)
        return None

    def _table(self, query: Query) -> pa.Table:
        """Every event of the answer, in order of time."""
        import logging

        from gapless.embedded import execute
        from gapless.protocol.errors import Misuse

        missing = [name for name in query.sources if name not in self.paths]
        if missing:
            raise Misuse(f"nothing says where table {missing[0]} lies: --source {missing[0]}=PATH")
        inputs = {name: self.paths[name] for name in query.sources}
        execution = execute(query, inputs)
        table = execution.to_arrow()
        if execution.aside.count:
            logging.getLogger("gapless").warning("%d rows were set aside", execution.aside.count)
        keys = [("_vs", "ascending"), ("_ve", "ascending")]
        return table.sort_by(keys)


def statements(lines: Any, *, asks: bool) -> Iterator[str]:
    """Texts up to a line that ends with a semicolon; the last one may have none. Ctrl-C at the
    prompt drops what has been typed.
    """
    read: list[str] = []
    while True:
        if asks:
            sys.stdout.write(CONTINUED if read else PROMPT)
            sys.stdout.flush()
        try:
            line = lines.readline()
        except KeyboardInterrupt:
            if not asks:
                raise
            sys.stdout.write("\n")
            read.clear()
            continue
        if asks and not read and line.strip(" \n;").lower() in ENDS:
            return
        read.append(line)
        if not line or line.rstrip().endswith(";"):
            text = "".join(read)
            if text.strip():
                yield text
            read.clear()
        if not line:
            return


def _paths(given: list[str]) -> dict[str, str]:
    from gapless.protocol.errors import Misuse

    found: dict[str, str] = {}
    for text in given:
        name, sep, path = text.partition("=")
        if not sep or not name or not path:
            raise Misuse(f"--source {text}: write NAME=PATH")
        if name in found:
            raise Misuse(f"--source {name}: give only one path for each table")
        found[name] = path
    return found


def _text(path: Path) -> str:
    from gapless.commands.query_file import read_sql

    return read_sql(path)


def _document(table: pa.Table, query: Query) -> dict[str, Any]:
    from gapless.protocol.elements import INF
    from gapless.protocol.plain_rows import plain_rows

    rows = [row for batch in table.to_batches() for row in plain_rows(batch)]
    for row in rows:
        if row["_ve"] == INF:
            row["_ve"] = None
    columns = {field.name: str(field.type) for field in query.schema.payload}
    return {"columns": columns, "unit": query.schema.time_unit, "rows": rows}


def _print(table: pa.Table, query: Query) -> None:
    from rich.table import Table

    from gapless.protocol.tables import readable

    first = readable(table.slice(0, ROWS_SHOWN_MAX), query.schema.time_unit)
    names = ["from" if n == "_vs" else "until" if n == "_ve" else n for n in first.schema.names]
    grid = Table(*names, box=None)
    for row in first.to_pylist():
        grid.add_row(*("" if value is None else str(value) for value in row.values()))
    output().print(grid)
    if table.num_rows > ROWS_SHOWN_MAX:
        print_line(f"... and {table.num_rows - ROWS_SHOWN_MAX:,} rows more: --json has them all")
