"""The options of `gapless run`: a new job or an earlier one, and how it runs."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from gapless.commands.options import AssumeEquivalent, size_of


class OnDivergence(StrEnum):
    """Values of `--on-divergence`."""

    REPORT = "report"
    STOP = "stop"
    MAJORITY = "majority"


@dataclass(frozen=True, kw_only=True)
class NewJob:
    """What a new job runs, on which journals, and where."""

    query: Annotated[
        Path | None,
        typer.Argument(metavar="QUERY", help="A Python file that defines `query`, or a SQL file."),
    ] = None
    journal: Annotated[
        list[str] | None,
        typer.Option(
            metavar="PATH",
            help=("The source's journal. With several sources, repeat it as SOURCE=PATH."),
        ),
    ] = None
    directory: Annotated[
        Path | None,
        typer.Option("--dir", metavar="DIR", help="The job's directory; all nodes must see it."),
    ] = None

    @property
    def is_said(self) -> bool:
        """Whether any of it is given."""
        return self.query is not None or bool(self.journal) or self.directory is not None

    def whole(self) -> tuple[Path, str | dict[str, str], Path]:
        """The query file, the journals and the directory. Raises `Misuse` where one is missing."""
        from gapless.protocol.errors import Misuse

        if self.query is None or not self.journal or self.directory is None:
            raise Misuse("give a query file, --journal PATH and --dir DIR; or --resume DIR")
        return self.query, _journals(self.journal), self.directory


@dataclass(frozen=True, kw_only=True)
class JobSettings:
    """How a job runs."""

    replicas: Annotated[int, typer.Option(help="Replicas of each shard.")] = 3
    mergers: Annotated[int, typer.Option(help="Mergers of each shard, 1 or 2.")] = 1
    shards: Annotated[
        int, typer.Option(help="Splits the job by the partitions of its journals.")
    ] = 1
    name: Annotated[
        str | None, typer.Option(help="The job's name. Default: the name of its directory.")
    ] = None
    address: Annotated[
        str | None,
        typer.Option(
            metavar="HOST:PORT",
            help=(
                "An existing Ray cluster; auto: the one on this machine. Default: start a "
                "small one that ends with this command."
            ),
        ),
    ] = None
    checkpoint_s: Annotated[float, typer.Option(help="Seconds between checkpoints.")] = 10
    retain: Annotated[
        str | None,
        typer.Option(
            metavar="TIME", help="How long to keep output, such as 24h. Default: forever."
        ),
    ] = None
    retain_bytes: Annotated[
        str | None,
        typer.Option(
            metavar="SIZE",
            help=("How much to keep of each output, such as 10GB. Default: everything."),
        ),
    ] = None
    memory_limit: Annotated[
        str | None, typer.Option(metavar="SIZE", help="Limit of one replica's state, such as 2GB.")
    ] = None
    on_divergence: Annotated[
        OnDivergence,
        typer.Option(
            help=(
                "If replicas disagree: report it, stop the job, or replace the one in the minority."
            )
        ),
    ] = OnDivergence.REPORT
    spares: Annotated[
        int,
        typer.Option(
            help=(
                "Idle processes on each node, ready to replace one that dies. With 0 the root"
                " has no standby either."
            )
        ),
    ] = 2
    timing: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help=(
                "TOML file of timeouts and intervals, such as `hang_ms = 3000`; docs/run.md "
                "lists all."
            ),
        ),
    ] = None
    assume_equivalent: AssumeEquivalent = False

    def for_launch(self) -> dict[str, Any]:
        """The arguments of `launch` that these are."""
        return {
            **vars(self),
            "retain_bytes": _size("--retain-bytes", self.retain_bytes),
            "memory_limit": _size("--memory-limit", self.memory_limit),
            "on_divergence": self.on_divergence.value,
            "timing": self.timing_values(),
        }

    def timing_values(self) -> dict[str, Any] | None:
        """The values of the `--timing` file."""
        from gapless.protocol.errors import Misuse

        if self.timing is None:
            return None
        try:
            with self.timing.open("rb") as text:
                return tomllib.load(text)
        except OSError as e:
            raise Misuse(f"--timing: {self.timing} cannot be read: {e.strerror}") from None
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as e:
            raise Misuse(
                f"--timing: {self.timing} is not TOML: {e}; write `hang_ms = 3000`"
            ) from None


@dataclass(frozen=True, kw_only=True)
class EarlierJob:
    """An earlier job, to be run again from its directory."""

    resume: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Run a job again from its directory alone."),
    ] = None
    takeover: Annotated[
        bool,
        typer.Option(
            "--takeover",
            help=("With --resume: if the job runs elsewhere, end it there first."),
        ),
    ] = False


def _size(option: str, text: str | None) -> int | None:
    return None if text is None else size_of(option, text)


def _journals(given: list[str]) -> str | dict[str, str]:
    """One path, or paths by source."""
    from gapless.protocol.errors import Misuse

    if len(given) == 1 and ("=" not in given[0] or Path(given[0]).exists()):
        return given[0]
    parted = [text.partition("=") for text in given]
    if any(not sep for _, sep, _ in parted):
        raise Misuse("--journal: with several sources, write SOURCE=PATH for each")
    paths = {source: path for source, _, path in parted}
    if len(paths) < len(parted):
        raise Misuse("--journal: give only one journal for each source")
    return paths
