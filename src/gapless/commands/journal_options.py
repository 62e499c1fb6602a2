"""What the commands of `gapless journal` share: the journal's path, and times in its unit."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from gapless.journal.disk import LocalDisk
    from gapless.journal.layout import Layout

JournalPath = Annotated[Path, typer.Argument(metavar="JOURNAL", help="The journal's directory.")]


def opened(path: Path) -> tuple[LocalDisk, Layout]:
    """The journal at a path."""
    from gapless.journal import layout
    from gapless.journal.disk import LocalDisk

    disk = LocalDisk(path)
    return disk, layout.opened(disk)


def time_of(option: str, text: str, layout: Layout) -> int:
    """A time that is written as an ISO text, or as a count of the unit of the journal."""
    from gapless.engine.answer import instant
    from gapless.protocol.errors import Misuse

    digits = text.removeprefix("-")
    given: Any = int(text) if digits.isascii() and digits.isdecimal() else text
    try:
        return instant(given, layout.schema.time_unit)
    except Misuse as e:
        raise Misuse(f"{option}: {e}") from None
