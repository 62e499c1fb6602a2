"""`gapless prepare`: writes files, or a growing directory, into a journal with Spark."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gapless.commands.option_groups import grouped
from gapless.commands.options import DurabilityChoice, End
from gapless.commands.prepare_options import (
    FileOptions,
    FollowOptions,
    JournalOptions,
    SparkOptions,
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


@grouped
def prepare(
    *,
    source: Annotated[
        list[str],
        typer.Argument(
            metavar="INPUT", help="Files, a pattern or a directory: Parquet, CSV or JSON lines."
        ),
    ],
    journal: JournalOptions,
    files: FileOptions,
    stream: FollowOptions,
    durability: Annotated[
        DurabilityChoice, typer.Option(help="What the written rows survive.")
    ] = DurabilityChoice.PROCESS,
    end: End = False,
    again: Annotated[
        bool, typer.Option("--again", help="Prepare files that the journal already has again.")
    ] = False,
    infer: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Write a TOML schema of the input to FILE, for you to edit; prepare nothing.",
        ),
    ] = None,
    session: SparkOptions,
    as_json: AsJson = False,
) -> None:
    """Write files into a journal with Spark: cleaned and in order.

    All rows are written, or none; the same files again change nothing. Bad rows and late rows go to
    the journal's reject files. With --follow, Ctrl-C and SIGTERM end it cleanly.
    """
    from gapless.spark_sources.job import planned

    if infer is not None:
        _infer(source, files, infer)
        return
    stream.check(end=end, again=again)
    trigger_ms = stream.trigger_ms
    job = planned(
        source,
        journal.path(),
        follow=stream.follow,
        end=end,
        durability=durability.value,
        **journal.for_job(),
        **files.for_job(),
    )
    options = session.for_session()
    if stream.follow:
        done = _follow(job, options, stream.checkpoint, trigger_ms, once=stream.once)
    else:
        done = _run(job, options, again=again)
    if as_json:
        print_json({"input": source, **done.document()})
    else:
        typer.echo(_line(done))


def _infer(source: list[str], files: FileOptions, to: Path) -> None:
    """Writes the schema file."""
    from gapless.protocol.errors import Misuse
    from gapless.spark_sources.schema_guess import schema_file
    from gapless.spark_sources.source_files import listed

    found = listed(source, files.for_job()["format"], follow=False)
    text = schema_file(found.paths[0], found.format)
    if to.suffix != ".toml":
        raise Misuse(f"--infer {to}: the schema is TOML: give its name the end .toml")
    try:
        with to.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise Misuse(f"--infer {to}: the file is there already: name another") from None
    except OSError as e:
        raise Misuse(f"--infer {to}: it cannot be written: {e.strerror}") from None
    typer.echo(f"{to}: look it over, then prepare with --schema {to}")


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
    from gapless.spark_sources.directory_stream import TRIGGER_MS, follow
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
def _looking(look: Callable[[], None]) -> Iterator[None]:
    """While inside: a thread looks at something, again and again."""
    ended = threading.Event()

    def watch() -> None:
        while not ended.wait(POLL_S):
            look()

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        ended.set()
        watcher.join()


@contextmanager
def _cancelling(spark: SparkSession, job: Job, interrupted: threading.Event) -> Iterator[None]:
    """While inside: cancels what Spark does for the job, once it is interrupted."""

    def look() -> None:
        if interrupted.is_set():
            spark.sparkContext.cancelJobGroup(job.query)

    with _looking(look):
        yield


@contextmanager
def _bar(spark: SparkSession, job: Job) -> Iterator[None]:
    """While inside: how far Spark is with the job, if a person watches."""
    if not is_watched():
        yield
        return
    from gapless.spark_sources.progress import share_done

    stages = STAGES_IN_ORDER if job.keep_order else STAGES
    with (
        percent_bar("preparing") as show,
        _looking(lambda: show(share_done(spark, job.query, stages))),
    ):
        yield


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
