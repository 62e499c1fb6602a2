"""Options that several commands share, and parsers of columns and amounts (`10k`, `5s`)."""

from __future__ import annotations

import re
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from gapless.protocol.schema import StreamSchema

# -- of what becomes a journal --------------------------------------------------------------------

JournalOut = Annotated[
    str, typer.Option("--out", metavar="JOURNAL", help="The journal; created if it does not exist.")
]
TimeColumn = Annotated[
    str | None, typer.Option("--time", metavar="COLUMN", help="The column with each row's time.")
]
KeyColumns = Annotated[
    list[str] | None,
    typer.Option("--key", metavar="COLUMN", help="Partition by this column; may be repeated."),
]
SchemaFile = Annotated[
    Path | None,
    typer.Option("--schema", metavar="FILE", help="TOML or JSON: each column's Arrow type."),
]
Encoding = Annotated[
    str,
    typer.Option(metavar="NAME", help="Encoding of text: utf-8, latin-1, windows-1252, and so on."),
]
Ahead = Annotated[
    str | None,
    typer.Option(
        metavar="TIME",
        help=(
            "Reject rows that are further ahead of all others than this, such as 2d; "
            "none: reject none. Default: a day."
        ),
    ),
]
End = Annotated[
    bool, typer.Option("--end", help="Then promise that nothing follows; cannot be undone.")
]


class DurabilityChoice(StrEnum):
    """Values of `--durability`."""

    PROCESS = "process"
    MACHINE = "machine"


# -- of a job that runs ---------------------------------------------------------------------------

QueryPath = Annotated[
    Path,
    typer.Argument(metavar="QUERY", help="A Python file that defines `query`, or a SQL file."),
]
JobName = Annotated[str, typer.Argument(metavar="NAME", help="The job's name.")]
Address = Annotated[
    str,
    typer.Option(
        "--address",
        metavar="HOST:PORT",
        help=("The job's Ray cluster; auto: search your clusters on this machine."),
    ),
]
AssumeEquivalent = Annotated[
    bool,
    typer.Option(
        "--assume-equivalent",
        help=(
            "Your promise that differently written plans give the same answer; it cannot "
            "be checked."
        ),
    ),
]


# -- columns --------------------------------------------------------------------------------------

_NO_WIDTH = ("int", "integer", "long", "bigint")
"""Common names of integer types that Arrow does not have."""


def parse_schema(text: str) -> StreamSchema:
    """The schema written as `src:string,len:int32`."""
    from gapless.protocol.errors import SchemaError
    from gapless.protocol.schema import StreamSchema

    columns: dict[str, Any] = {}
    for part in text.split(","):
        name, colon, kind = (piece.strip() for piece in part.partition(":"))
        if not (name and colon and kind):
            raise typer.BadParameter(f"--schema: expected NAME:TYPE, found {part.strip()!r}")
        if name in columns:
            raise typer.BadParameter(f"--schema: column {name!r} is there twice")
        columns[name] = kind
    try:
        return StreamSchema(columns)
    except SchemaError as e:
        wide = any(kind in _NO_WIDTH for kind in columns.values())
        hint = "; write the size of an integer: int32 or int64" if wide else ""
        raise typer.BadParameter(f"--schema: {e}{hint}") from None


def names_in(text: str) -> tuple[str, ...]:
    """The names written as `a,b`; none of an empty text."""
    return tuple(name.strip() for name in text.split(",") if name.strip())


# -- amounts --------------------------------------------------------------------------------------

_COUNT = re.compile(r"([0-9]{1,15})(?:\.([0-9]{1,6}))?([kKMG]?)")
_ZEROS = {"": 0, "k": 3, "K": 3, "M": 6, "G": 9}
_SIZE = re.compile(r"([0-9]{1,15})(?:\.([0-9]{1,3}))?\s*([kKMGT]?)(i?)[bB]?")
_POWERS = {"": 0, "k": 1, "K": 1, "M": 2, "G": 3, "T": 4}


def count(option: str, text: str) -> int:
    """The number written as `5M`, `1.5k` or `200`."""
    from gapless.protocol.errors import Misuse

    form = _COUNT.fullmatch(text)
    decimals = (form[2] or "").rstrip("0") if form else ""
    if form is None or len(decimals) > _ZEROS[form[3]]:
        raise Misuse(f"{option} {text[:50]!r}: write a whole number such as 200, 10k, 1.5M or 2G")
    return int(form[1] + decimals + "0" * (_ZEROS[form[3]] - len(decimals)))


def size_of(option: str, text: str) -> int:
    """The bytes written as `500MB`, `1.5GiB` or `4096`."""
    from gapless.protocol.errors import Misuse

    form = _SIZE.fullmatch(text)
    if form is None:
        raise Misuse(f"{option} {text[:50]!r}: write a size as 500MB, 10GB or 4GiB")
    whole, part, power, binary = form.groups()
    unit: int = (1024 if binary else 1000) ** _POWERS[power]
    return int(whole) * unit + int((part or "").ljust(3, "0") or 0) * unit // 1000


def duration(text: str) -> str | int:
    """A duration as commands take it: `5s`, or a whole number in the unit of the journal's time."""
    return int(text) if text.isascii() and text.isdecimal() else text


def ms(option: str, text: str, least: int = 0) -> int:
    """The milliseconds written as `5s` or `250ms`."""
    from gapless.engine.durations import ticks

    return ticks(text, "ms", option, least)
