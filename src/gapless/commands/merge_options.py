"""The options of `gapless merge`: how it merges, and which recordings."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from gapless.merge.policy import Policy


class CaseChoice(StrEnum):
    """Values of `--case`."""

    AUTO = "auto"
    R0 = "r0"
    R1 = "r1"
    R2 = "r2"
    R3 = "r3"
    R4 = "r4"


class Order(StrEnum):
    """Values of `--order`: which file's frame comes next."""

    ROUND_ROBIN = "round-robin"
    BY_VS = "by-vs"


@dataclass(frozen=True, kw_only=True)
class MergeOptions:
    """How inputs are merged."""

    case: Annotated[
        CaseChoice,
        typer.Option(help="The case of LMerge; auto: r3, then r4 if an input has a key twice."),
    ] = CaseChoice.AUTO
    policy: Annotated[
        str,
        typer.Option(
            metavar="RULES",
            help=(
                "What is output when: "
                "insert=first|leading|highest_insert|most_unfrozen|half_frozen|fully_frozen|quorum(K),"
                " adjust=at_stable|at_once|leading, stable=maximum|lag(D); separate several "
                "by commas."
            ),
        ),
    ] = ""
    schema: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMNS",
            help=(
                'Payload columns, such as "src:string,len:int32". Default: "p:string", with '
                "--files the columns of the first file."
            ),
        ),
    ] = None
    check: Annotated[
        bool,
        typer.Option(
            "--check", help=("After every line, check that the output can still follow its inputs.")
        ),
    ] = False


@dataclass(frozen=True, kw_only=True)
class RecordingOptions:
    """Whether the inputs are recordings, and what comes of them."""

    files: Annotated[
        bool, typer.Option("--files", help="The arguments are recorded streams, one input each.")
    ] = False
    order: Annotated[Order, typer.Option(help="With --files: which input's frame comes next.")] = (
        Order.ROUND_ROBIN
    )
    out: Annotated[
        Path | None,
        typer.Option(
            dir_okay=False,
            metavar="FILE",
            help="With --files: write the output to an Arrow IPC stream instead of as text.",
        ),
    ] = None

    def check(self) -> None:
        """Raises where options do not go together."""
        if not self.files and (self.out is not None or self.order is not Order.ROUND_ROBIN):
            raise typer.BadParameter("--out and --order go with --files")


_RULE = re.compile(r"\s*(insert|adjust|stable)\s*=\s*([a-z_]+)\s*(?:\(\s*([0-9]{1,18})\s*\))?\s*")


def parse_policy(text: str) -> Policy:
    """The policy written as `insert=quorum(2),adjust=at_once,stable=lag(5)`; parts are optional."""
    from gapless.merge.policy import Policy, lag, quorum
    from gapless.protocol.errors import Misuse

    chosen: dict[str, Any] = {}
    for part in text.split(",") if text.strip() else ():
        rule = _RULE.fullmatch(part)
        if rule is None:
            raise typer.BadParameter(
                f"--policy: expected insert=, adjust= or stable= and a rule, found {part.strip()!r}"
            )
        what, name, number = rule.groups()
        if what in chosen:
            raise typer.BadParameter(f"--policy: {what} is there twice")
        takes_number = {("insert", "quorum"): quorum, ("stable", "lag"): lag}.get((what, name))
        if (takes_number is None) != (number is None):
            form = f"{name} takes no number" if takes_number is None else f"expected {name}(NUMBER)"
            raise typer.BadParameter(f"--policy: {form}, found {part.strip()!r}")
        try:
            chosen[what] = name if takes_number is None else takes_number(int(number))
        except Misuse as e:
            raise typer.BadParameter(f"--policy: {e}") from None
    try:
        return Policy(**chosen)
    except Misuse as e:
        raise typer.BadParameter(f"--policy: {e}") from None
