"""The `gapless` command: assembles the commands and turns errors into exit codes.

An error that Gapless raises on purpose says what to do next, and is printed as one sentence. Any
other is a bug or the machine's fault, and keeps its traceback. Both exit with 2, because the
command could not run; Python's own code for an uncaught error, 1, would mean that it ran and found
a problem.
"""

from __future__ import annotations

import io
import os
import signal
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated

import typer

from gapless.commands.bench import bench
from gapless.commands.chaos import chaos
from gapless.commands.cutover import cutover
from gapless.commands.demo import demo
from gapless.commands.doctor import doctor
from gapless.commands.explain import explain
from gapless.commands.generate import generate
from gapless.commands.ingest import ingest
from gapless.commands.journal import journal
from gapless.commands.merge import merge
from gapless.commands.prepare import prepare
from gapless.commands.push import push
from gapless.commands.run import run
from gapless.commands.sidecar import sidecar
from gapless.commands.sql import sql
from gapless.commands.status import status
from gapless.commands.stop import stop
from gapless.commands.tail import tail
from gapless.commands.terminal import ExitCode
from gapless.protocol.errors import GaplessError

app = typer.Typer(
    name="gapless",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,  # plain help: it starts sooner, and brackets stay brackets
    pretty_exceptions_enable=False,  # a traceback is to be copied into a report as it is
)
app.command()(doctor)
app.command()(bench)
app.command()(demo)
app.command()(merge)
app.command()(ingest)
app.command()(prepare)
app.command()(run)
app.command()(explain)
app.command()(sql)
app.command()(status)
app.command()(stop)
app.command()(cutover)
app.command()(push)
app.command()(tail)
app.add_typer(chaos, name="chaos")
app.add_typer(generate, name="generate")
app.add_typer(journal, name="journal")
app.add_typer(sidecar, name="sidecar")


def _print_version(wanted: bool) -> None:
    if wanted:
        from importlib import metadata

        typer.echo(f"gapless {metadata.version('gapless')}")
        raise typer.Exit


@app.callback()
def gapless(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version and exit."
        ),
    ] = False,
) -> None:
    """Keep continuous queries running when processes and machines fail.

    Every command exits with 0 (done), 1 (found a problem) or 2 (could not run), and takes --json.
    """


class _Output(io.TextIOWrapper):
    """Standard output that goes on when nobody reads it any more, as behind `| head`: a command
    then ends with its own verdict. What writes bytes, to `buffer`, is still told, and may stop.
    """

    def write(self, text: str) -> int:
        """Writes, or lets it be."""
        try:
            return super().write(text)
        except BrokenPipeError:
            self._go_nowhere()
            return len(text)

    def flush(self) -> None:
        """Flushes, or lets it be."""
        try:
            super().flush()
        except BrokenPipeError:
            self._go_nowhere()

    def _go_nowhere(self) -> None:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, self.fileno())
        os.close(nowhere)


@contextmanager
def _read_or_not() -> Iterator[None]:
    """Inside, a closed standard output is not an error."""
    out = sys.stdout
    if not isinstance(out, io.TextIOWrapper):  # closed, or a test's
        yield
        return
    out.flush()
    ours = _Output(
        out.buffer,
        out.encoding,
        out.errors,
        line_buffering=out.line_buffering,
        write_through=out.write_through,
    )
    sys.stdout = ours
    try:
        yield
    finally:
        sys.stdout = out
        ours.flush()
        ours.detach()


def main() -> None:
    """The entry point. Never returns: ends the process with an exit code."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # cleans up as Ctrl-C does
    try:
        with _read_or_not():
            app()
    except GaplessError as error:
        sys.stderr.write(f"gapless: {error}\n")
        sys.exit(ExitCode.COULD_NOT_RUN)
    except Exception:  # noqa: BLE001 - printed whole, and the exit code tells it from a finding
        traceback.print_exc()
        sys.exit(ExitCode.COULD_NOT_RUN)
