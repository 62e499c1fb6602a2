"""`gapless prepare`: writes files, or a growing directory, into a journal with Spark."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gapless.commands.options import (
    Ahead,
    DurabilityChoice,
    Encoding,
    End,
    JournalOut,
    KeyColumns,
    SchemaFile,
    TimeColumn,
    duration,
    ms,
)
from gapless.commands.terminal import (
    AsJson,
    is_watched,
    percent_bar,
    print_json,
    spinner,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from gapless.spark_sources.job import Job
    from gapless.spark_sources.prepared import Prepared

POLL_S = 0.25
"""How often Spark is asked how far it is."""
STAGES, STAGES_IN_ORDER = 2, 6
"""Of Spark's work: read, sort and write; with --keep-order it reads and shuffles twice."""


class FormatChoice(StrEnum):
    """Values of `--format`."""

    PARQUET = "parquet"
    CSV = "csv"
    JSONL = "jsonl"


class UnitChoice(StrEnum):
    """Values of `--time-unit`."""

    S = "s"
    MS = "ms"
    US = "us"
    NS = "ns"


def prepare(
    source: Annotated[
        list[str],
        typer.Argument(
            metavar="INPUT", help="Files, a pattern or a directory: Parquet, CSV or JSON lines."
        ),
    ],
    out: JournalOut,
    time_column: TimeColumn = None,
    key: KeyColumns = None,
    lateness: Annotated[
        str | None, typer.Option(metavar="TIME", help="How late rows may be, such as 5s or 250ms.")
    ] = None,
    ahead: Ahead = None,
    partitions: Annotated[
        int | None, typer.Option(help="Partitions of a new journal, 1 to 1024.")
    ] = None,
    schema: SchemaFile = None,
    rules: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="TOML file of rules that drop, default or reject."),
    ] = None,
    format_: Annotated[
        FormatChoice | None,
        typer.Option("--format", help="Format of the files. Default: by their names."),
    ] = None,
    encoding: Encoding = "utf-8",
    time_unit: Annotated[
        UnitChoice | None, typer.Option(help="Unit of an integer time column. Default: ms.")
    ] = None,
    keep_order: Annotated[
        bool,
        typer.Option("--keep-order", help="Keep the order of arrival instead of sorting by time."),
    ] = False,
    follow: Annotated[
        bool, typer.Option("--follow", help="Keep preparing new files of a directory.")
    ] = False,
    once: Annotated[
        bool,
        typer.Option("--once", help="With --follow: stop once the present files are in."),
    ] = False,
    trigger: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="With --follow: polling interval. Default: 1s."),
    ] = None,
    checkpoint: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="With --follow: where Spark records progress. Default: in the journal.",
        ),
    ] = None,
    durability: Annotated[
        DurabilityChoice, typer.Option(help="What the written rows survive.")
    ] = DurabilityChoice.PROCESS,
    end: End = False,
    again: Annotated[
        bool, typer.Option("--again", help="Prepare files that the journal already has again.")
    ] = False,
    spark_master: Annotated[
        str | None,
        typer.Option(metavar="URL", help="A Spark cluster. Default: run Spark here."),
    ] = None,
    cores: Annotated[int | None, typer.Option(help="Cores of a local Spark. Default: all.")] = None,
    driver_memory: Annotated[
        str,
        typer.Option(
            metavar="SIZE", help="Memory of Spark's driver, which is all that a local Spark uses."
        ),
    ] = "2g",
    as_json: AsJson = False,
) -> None:
    """Write files into a journal with Spark: cleaned and in order.

    All rows are written, or none; the same files again change nothing. Bad rows and late rows go to
    the journal's reject files. With --follow, Ctrl-C and SIGTERM end it cleanly.
    """
    from gapless.protocol.errors import Misuse
    from gapless.spark_sources.job import planned

    _check_stream_options(follow, once=once, trigger=trigger, checkpoint=checkpoint, again=again)
    trigger_ms = None if trigger is None else ms("--trigger", trigger)
    late = None if lateness is None else _duration("--lateness", lateness)
    if end and follow and not once:
        raise Misuse("--end promises that nothing follows, --follow waits for more: add --once")
    job = planned(
        source,
        out,
        time=time_column,
        key=None if key is None else ",".join(key),
        lateness=late,
        partitions=partitions,
        schema=schema,
        rules=rules,
        format=None if format_ is None else format_.value,
        time_unit=None if time_unit is None else time_unit.value,
        keep_order=keep_order,
        follow=follow,
        end=end,
        durability=durability.value,
        ahead=ahead if ahead in (None, "none") else _duration("--ahead", ahead),
        encoding=encoding,
    )
    options = {"master": spark_master, "cores": cores, "driver_memory": driver_memory}
    if follow:
        done = _follow(job, options, checkpoint, trigger_ms, once=once)
    else:
        done = _run(job, options, again=again)
    if as_json:
        print_json({"input": source, **done.document()})
    else:
        typer.echo(_line(done))


def _duration(option: str, text: str) -> int | timedelta:
    """As people write it; a whole number is in the unit of the journal's time."""
    from gapless.engine.durations import ticks

    given = duration(text)
    if isinstance(given, int):
        return given
    return timedelta(microseconds=ticks(given, "us", option))


def _check_stream_options(follow: bool, *, again: bool, **given: object) -> None:
    from gapless.protocol.errors import Misuse

    if not follow and any(given.values()):
        named = next(name for name, value in given.items() if value)
        raise Misuse(f"--{named} goes with --follow")
    if follow and again:
        raise Misuse("--again is for files; a directory that is followed has a --checkpoint")


def _run(job: Job, options: dict[str, Any], *, again: bool) -> Prepared:
    """One batch, interrupted or whole."""
    from gapless.spark_sources.prepare import already_in, run, undo
    from gapless.spark_sources.session import embedded

    if not again and (had := already_in(job)) is not None:
        return had
    interrupted = threading.Event()

    def work() -> Prepared:
        try:
            with (
                embedded(**options) as spark,
                _cancelling(spark, job, interrupted),
                _bar(spark, job),
            ):
                return run(spark, job, again=again)
        except BaseException:
            undo(job)  # no task of this Spark is left
            raise

    return _until_done(work, interrupted, f"interrupted: nothing of it is in {job.out}")


def _follow(
    job: Job,
    options: dict[str, Any],
    checkpoint: Path | None,
    trigger_ms: int | None,
    *,
    once: bool,
) -> Prepared:
    """A stream, until it is interrupted; that is how it ends."""
    from gapless.spark_sources.following import TRIGGER_MS, follow
    from gapless.spark_sources.session import embedded

    interrupted = threading.Event()
    with spinner("starting Spark") as say:

        def watch(so_far: Prepared) -> None:
            say(f"{so_far.written:,} rows written, {so_far.rejected:,} rejected")

        def work() -> Prepared:
            with embedded(**options) as spark:
                return follow(
                    spark,
                    job,
                    checkpoint=checkpoint,
                    trigger_ms=trigger_ms or TRIGGER_MS,
                    once=once,
                    watch=watch if is_watched() else None,
                    stop=interrupted,
                )

        return _until_done(work, interrupted, "interrupted before it began")


def _until_done(work: Callable[[], Prepared], interrupted: threading.Event, said: str) -> Prepared:
    """What `work` returns. It runs in a thread of its own, so that SIGINT and SIGTERM, which come
    to this one, never break into a call to Spark; they set `interrupted`, for which it looks.
    """
    from gapless.protocol.errors import Misuse

    done: list[Prepared] = []
    failed: list[BaseException] = []

    def run() -> None:
        try:
            done.append(work())
        except BaseException as error:  # noqa: BLE001  # raised again below, in the other thread
            failed.append(error)

    worker = threading.Thread(target=run, name="gapless prepare")
    with _heard(interrupted):
        worker.start()
        while worker.is_alive():
            worker.join(POLL_S)
    if done:
        return done[0]
    if interrupted.is_set():
        raise Misuse(said)
    raise failed[0]


@contextmanager
def _heard(interrupted: threading.Event) -> Iterator[None]:
    """Inside, SIGINT and SIGTERM set the event, and do nothing else."""
    signals = (signal.SIGINT, signal.SIGTERM)
    were = [signal.signal(each, lambda *_: interrupted.set()) for each in signals]
    try:
        yield
    finally:
        for each, was in zip(signals, were, strict=True):
            signal.signal(each, was)


@contextmanager
def _cancelling(spark: SparkSession, job: Job, interrupted: threading.Event) -> Iterator[None]:
    """While inside: cancels what Spark does for the job, once it is interrupted."""
    ended = threading.Event()

    def watch() -> None:
        while not ended.wait(POLL_S):
            if interrupted.is_set():
                spark.sparkContext.cancelJobGroup(job.query)

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        ended.set()
        watcher.join()


@contextmanager
def _bar(spark: SparkSession, job: Job) -> Iterator[None]:
    """While inside: how far Spark is with the job, if a person watches."""
    if not is_watched():
        yield
        return
    from gapless.spark_sources.progress import share_done

    stages = STAGES_IN_ORDER if job.keep_order else STAGES
    ended = threading.Event()
    with percent_bar("preparing") as show:

        def watch() -> None:
            while not ended.wait(POLL_S):
                show(share_done(spark, job.query, stages))

        watcher = threading.Thread(target=watch, daemon=True)
        watcher.start()
        try:
            yield
        finally:
            ended.set()
            watcher.join()


def _line(done: Prepared) -> str:
    from gapless.journal.reasons import text

    if done.already:
        return (
            f"{done.journal}: these files are prepared already, unchanged and with these options; "
            "--again prepares them anew"
        )
    where = ""
    if done.rejects:
        first = done.rejects[0]
        where = f", see {first if len(done.rejects) == 1 else first.rpartition('/')[0]}"
    line = (
        f"{done.journal}: {done.rows_in:,} rows in, {done.written:,} written, "
        f"{done.rejected:,} rejected ({done.late:,} late){where}, {done.dropped:,} dropped, "
        f"{done.partitions} partition{'' if done.partitions == 1 else 's'}, {done.seconds:.2f} s"
    )
    return "\n".join(filter(None, [line, text(dict(done.reasons), done.rejected)]))
