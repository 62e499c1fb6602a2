"""`gapless ingest`: appends rows of a file, or lines as they arrive, to a journal, without
Spark.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gapless.commands.option_groups import grouped
from gapless.commands.options import (
    Ahead,
    DurabilityChoice,
    Encoding,
    End,
    JournalOut,
    KeyColumns,
    SchemaFile,
    TimeColumn,
    count,
    duration,
    ms,
)
from gapless.commands.terminal import AsJson, ExitCode, percent_bar, print_json, spinner

if TYPE_CHECKING:
    import pyarrow as pa

    from gapless.io.ingest_batches import Batch, Input
    from gapless.io.journal_handles import JournalWriter, Stop
    from gapless.journal.written import Durability


@dataclass
class Totals:
    """Counts of the rows, and the time it took."""

    rows_in: int = 0
    batches: int = 0
    written: int = 0
    rejected: int = 0
    """Late ones included."""
    late: int = 0
    resumed: int = 0
    """Rows of the input that were in the journal before."""
    seconds: float = 0.0
    reasons: dict[str, int] = field(default_factory=dict)
    """By kind of reason, how many rows were rejected."""


@dataclass(frozen=True, kw_only=True)
class RowOptions:
    """What becomes of rows in the journal."""

    time_column: TimeColumn = None
    key: KeyColumns = None
    lateness: Annotated[
        str, typer.Option(metavar="TIME", help="How late rows may be, such as 5s or 250ms.")
    ] = "0s"
    ahead: Ahead = None
    partitions: Annotated[int, typer.Option(help="Partitions of a new journal.")] = 1
    schema: SchemaFile = None
    format_: Annotated[
        str | None,
        typer.Option("--format", help="jsonl, csv, parquet or arrow. Default: by the file's name."),
    ] = None
    encoding: Encoding = "utf-8"

    def writer(self, out: str, columns: pa.Schema | None, durability: Durability) -> JournalWriter:
        """The writer of a journal of such rows."""
        from gapless.io.journal_handles import JournalWriter

        return JournalWriter(
            out,
            columns,
            time=self.time_column,
            key=self.key or (),
            lateness=duration(self.lateness),
            partitions=self.partitions,
            durability=durability,
            on_alarm=lambda said: typer.echo(said, err=True),
            ahead=self._ahead,
        )

    @property
    def _ahead(self) -> str | int | None:
        if self.ahead is None:
            return "a day"
        return None if self.ahead == "none" else duration(self.ahead)


@dataclass(frozen=True, kw_only=True)
class BatchOptions:
    """How rows are cut into batches."""

    batch_rows: Annotated[
        str, typer.Option(metavar="N", help="Rows of a batch, which is appended as a whole.")
    ] = "10k"
    max_wait: Annotated[
        str,
        typer.Option(
            metavar="TIME", help="Standard input: how long a row waits until its batch is appended."
        ),
    ] = "200ms"
    idle: Annotated[
        str | None,
        typer.Option(
            metavar="TIME", help="Standard input: after so long without a row the time goes on."
        ),
    ] = None


@grouped
def ingest(
    *,
    out: JournalOut,
    source: Annotated[
        str,
        typer.Argument(
            metavar="FILE", help="A file (.jsonl, .csv, .parquet, .arrow), or - for standard input."
        ),
    ] = "-",
    rows: RowOptions,
    batches: BatchOptions,
    durability: Annotated[
        DurabilityChoice, typer.Option(help="What an appended batch survives.")
    ] = DurabilityChoice.PROCESS,
    resume: Annotated[
        bool, typer.Option("--resume", help="Skip the file's batches that the journal already has.")
    ] = False,
    end: End = False,
    as_json: AsJson = False,
) -> None:
    """Append rows of a file, or lines as they arrive, to a journal.

    Bad lines and late rows go to the journal's reject files. Ctrl-C and SIGTERM end it cleanly:
    appended batches stay. Continue with a file by --resume.
    """
    from gapless.io.ingest_input import STDIN, input_of, kind_of
    from gapless.io.lull import Lull
    from gapless.io.stop_signals import StopSignals
    from gapless.protocol.errors import Misuse
    from gapless.protocol.lines.formats import check_encoding

    if resume and source == STDIN:
        raise Misuse("--resume reads its input again, which standard input cannot do: give a file")
    kind, batch_rows = kind_of(source, rows.format_), count("--batch-rows", batches.batch_rows)
    wait_s = ms("--max-wait", batches.max_wait) / 1000
    idle_s = None if batches.idle is None else ms("--idle", batches.idle, least=1) / 1000
    letters = check_encoding(rows.encoding)
    columns = _columns(out, rows.schema, source, kind)
    began, totals = time.perf_counter(), Totals()
    with StopSignals() as stop, rows.writer(out, columns, durability.value) as writer:
        if not writer.layout.has_rows:
            raise Misuse(f"{out} holds frames, and these are rows: say --time for a new journal")
        payload = writer.layout.schema.payload
        lull = None if idle_s is None else Lull(writer, idle_s)
        input = input_of(source, kind, payload, batch_rows, wait_s, stop, letters, lull)
        _append_all(input, writer, stop, totals, resume=resume, is_stdin=source == STDIN)
        interrupted = stop.is_set()
        if end and not interrupted:
            writer.end()
        stable = writer.stable
        totals.reasons = _reasons(out, writer.epoch)
    totals.seconds = round(time.perf_counter() - began, 3)
    _tell(_document(source, out, totals, stable, end, interrupted), as_json)
    if interrupted and source != STDIN:
        raise typer.Exit(ExitCode.PROBLEM)


def _append_all(
    input: Input,
    writer: JournalWriter,
    stop: Stop,
    totals: Totals,
    *,
    resume: bool,
    is_stdin: bool,
) -> None:
    """Appends every batch, except those that a resumed journal has."""
    with _shown(input, is_stdin, totals) as show:
        if resume:
            _pass_over(input, writer, stop, totals)
        for batch in input:
            _append(writer, batch, totals)
            show()


def _columns(out: str, schema: Path | None, source: str, kind: str) -> pa.Schema | None:
    """What is said of the columns; None where the journal is there, and says it."""
    from gapless.io.ingest_columns import schema_of
    from gapless.journal.disk import LocalDisk
    from gapless.journal.layout import layout_of
    from gapless.protocol.errors import Misuse
    from gapless.spark_sources.schema_file import read_schema

    if schema is not None:
        return read_schema(schema)
    try:
        is_there = layout_of(LocalDisk(out)) is not None
    except OSError as e:  # below a file, say
        raise Misuse(f"journal {out} cannot be opened: {e}") from None
    return None if is_there else schema_of(source, kind)


def _pass_over(given: Input, writer: JournalWriter, stop: Stop, totals: Totals) -> None:
    """Leaves out the batches that the journal has, if they are the file's first ones."""
    from gapless.protocol.errors import Misuse

    batches, rows = given.skip(writer.batches)
    there = writer.rows + writer.rejected
    if (batches, rows) != (writer.batches, there) and not stop.is_set():
        raise Misuse(
            f"--resume: the journal has {there:,} rows in {writer.batches:,} batches, the file's "
            f"first {batches:,} have {rows:,}: give the file and the --batch-rows that it was "
            "begun with; where others have written, too, there is no going on"
        )
    totals.resumed = rows


def _append(writer: JournalWriter, batch: Batch, totals: Totals) -> None:
    written = writer.append(batch.rows, origin=batch.origin, rejected=batch.rejected)
    totals.rows_in += batch.taken
    totals.batches += 1
    totals.written += written.rows
    totals.rejected += written.rejected
    totals.late += written.late


def _reasons(out: str, epoch: int) -> dict[str, int]:
    """Why rows were rejected that came in one epoch, which its files have in their names."""
    from gapless.journal import rejects
    from gapless.journal.disk import LocalDisk
    from gapless.journal.reasons import counted

    disk = LocalDisk(out)
    mine = [n for n in disk.list(rejects.FOLDER) if n.startswith(f"{epoch:010}-")]
    return counted(disk, mine)


@contextmanager
def _shown(given: Input, is_stdin: bool, totals: Totals) -> Iterator[Callable[[], None]]:
    """While inside: how far it is, if a person watches. Yields what is called after a batch."""
    if is_stdin:
        with spinner("waiting for lines") as say:
            yield lambda: say(f"{totals.rows_in:,} rows, {totals.rejected:,} rejected")
        return
    with percent_bar(f"ingesting {given.name}") as show:
        yield lambda: show(given.share_read)


def _document(
    source: str, out: str, totals: Totals, stable: int, end: bool, interrupted: bool
) -> dict[str, Any]:
    """What was done, as plain data."""
    return {
        "input": source,
        "journal": out,
        **vars(totals),
        "stable": stable,
        "ended": end and not interrupted,
        "interrupted": interrupted,
    }


def _tell(document: dict[str, Any], as_json: bool) -> None:
    if as_json:
        print_json(document)
    else:
        typer.echo(_line(document))


def _line(document: dict[str, Any]) -> str:
    from gapless.journal.reasons import text

    resumed = f", {document['resumed']:,} were in" if document["resumed"] else ""
    interrupted = " (interrupted)" if document["interrupted"] else ""
    rejects = f", see {document['journal']}/rejects" if document["rejected"] else ""
    line = (
        f"{document['journal']}: {document['rows_in']:,} rows in{resumed}, "
        f"{document['written']:,} written, {document['rejected']:,} rejected "
        f"({document['late']:,} late){rejects}, {document['seconds']:.2f} s{interrupted}"
    )
    return "\n".join(filter(None, [line, text(document["reasons"], document["rejected"])]))
