"""The options of `gapless prepare`: the journal, the files, Spark, and the wait for more files."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from gapless.commands.options import (
    Ahead,
    Encoding,
    KeyColumns,
    SchemaFile,
    TimeColumn,
    duration,
    ms,
)


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


@dataclass(frozen=True, kw_only=True)
class JournalOptions:
    """What becomes of rows in the journal."""

    out: Annotated[
        str | None,
        typer.Option(metavar="JOURNAL", help="The journal; created if it does not exist."),
    ] = None
    time_column: TimeColumn = None
    key: KeyColumns = None
    lateness: Annotated[
        str | None, typer.Option(metavar="TIME", help="How late rows may be, such as 5s or 250ms.")
    ] = None
    ahead: Ahead = None
    partitions: Annotated[
        int | None, typer.Option(help="Partitions of a new journal, 1 to 1024.")
    ] = None
    schema: SchemaFile = None

    def path(self) -> str:
        """The journal's path. Raises `Misuse` where it is not given."""
        from gapless.protocol.errors import Misuse

        if self.out is None:
            raise Misuse("--out JOURNAL: name the journal; or --infer FILE, to begin with a schema")
        return self.out

    def for_job(self) -> dict[str, Any]:
        """The arguments of `planned` that these are."""
        return {
            "time": self.time_column,
            "key": None if self.key is None else ",".join(self.key),
            "lateness": None if self.lateness is None else _duration("--lateness", self.lateness),
            "partitions": self.partitions,
            "schema": self.schema,
            "ahead": self.ahead
            if self.ahead in (None, "none")
            else _duration("--ahead", self.ahead),
        }


@dataclass(frozen=True, kw_only=True)
class FileOptions:
    """What the files hold, and what is done to their rows."""

    rules: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="TOML file of rules that drop, default or reject."),
    ] = None
    format_: Annotated[
        FormatChoice | None,
        typer.Option("--format", help="Format of the files. Default: by their names."),
    ] = None
    encoding: Encoding = "utf-8"
    time_unit: Annotated[
        UnitChoice | None, typer.Option(help="Unit of an integer time column. Default: ms.")
    ] = None
    keep_order: Annotated[
        bool,
        typer.Option("--keep-order", help="Keep the order of arrival instead of sorting by time."),
    ] = False

    def for_job(self) -> dict[str, Any]:
        """The arguments of `planned` that these are."""
        return {
            "rules": self.rules,
            "format": None if self.format_ is None else self.format_.value,
            "time_unit": None if self.time_unit is None else self.time_unit.value,
            "keep_order": self.keep_order,
            "encoding": self.encoding,
        }


@dataclass(frozen=True, kw_only=True)
class FollowOptions:
    """How new files of a directory are waited for."""

    follow: Annotated[
        bool, typer.Option("--follow", help="Keep preparing new files of a directory.")
    ] = False
    once: Annotated[
        bool,
        typer.Option("--once", help="With --follow: stop once the present files are in."),
    ] = False
    trigger: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="With --follow: polling interval. Default: 1s."),
    ] = None
    checkpoint: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="With --follow: where Spark records progress. Default: in the journal.",
        ),
    ] = None

    @property
    def trigger_ms(self) -> int | None:
        """The polling interval, if one is given."""
        return None if self.trigger is None else ms("--trigger", self.trigger)

    def check(self, *, end: bool, again: bool) -> None:
        """Raises `Misuse` where options do not go together."""
        from gapless.protocol.errors import Misuse

        mine = {"once": self.once, "trigger": self.trigger, "checkpoint": self.checkpoint}
        if not self.follow and any(mine.values()):
            named = next(name for name, value in mine.items() if value)
            raise Misuse(f"--{named} goes with --follow")
        if self.follow and again:
            raise Misuse("--again is for files; a directory that is followed has a --checkpoint")
        if end and self.follow and not self.once:
            raise Misuse("--end promises that nothing follows, --follow waits for more: add --once")


@dataclass(frozen=True, kw_only=True)
class SparkOptions:
    """Which Spark does it."""

    spark_master: Annotated[
        str | None,
        typer.Option(metavar="URL", help="A Spark cluster. Default: run Spark here."),
    ] = None
    cores: Annotated[int | None, typer.Option(help="Cores of a local Spark. Default: all.")] = None
    driver_memory: Annotated[
        str,
        typer.Option(
            metavar="SIZE", help="Memory of Spark's driver, which is all that a local Spark uses."
        ),
    ] = "2g"

    def for_session(self) -> dict[str, Any]:
        """The same, as a session takes them."""
        return {
            "master": self.spark_master,
            "cores": self.cores,
            "driver_memory": self.driver_memory,
        }


def _duration(option: str, text: str) -> int | timedelta:
    """As people write it; a whole number is in the unit of the journal's time."""
    from gapless.engine.durations import ticks

    given = duration(text)
    if isinstance(given, int):
        return given
    return timedelta(microseconds=ticks(given, "us", option))
