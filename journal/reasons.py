"""Why rows were not taken, counted: what `prepare` and `ingest` end with.

    late: below the watermark 2024-05-01 12:00:05       late             4
    len: 'many' is no int32, len: '80 B' is no int32    len: no int32    2
    len < 0                                             len < 0          1

Reasons name values; here those that differ in a value alone are one kind.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from itertools import chain, islice

from gapless.journal.disk import Disk
from gapless.journal.rejects import FOLDER, read_lines

KINDS_MAX = 10
"""That are told apart: the most frequent ones; the others are one."""
COUNTED_ROWS_MAX = 1_000_000
"""Lines that are read for it: some seconds. Where there are more, the count says of how many."""
KIND_CHARS_MAX = 80
AHEAD_FEW = 10
"""Rows that are ahead are those of a wrong clock; where they are more, and most of what was
rejected, it may be the bound that is wrong."""
RARER_THAN_THAT = (
    "    most of them lie farther beyond all others than --ahead allows, a day if nothing is said: "
    "where rows come more rarely, as weekly figures do, say --ahead 14d, or --ahead none"
)
_MISFIT = re.compile(r"([^:]*): .* is no (.*)", re.DOTALL)
_DAMAGED = "a line that does not read"


def counted(disk: Disk, names: Iterable[str]) -> dict[str, int]:
    """How many rows of reject files, whose names these are, were rejected for which kind of reason,
    the most frequent first.
    """
    found: dict[str, int] = {}
    files = (read_lines(disk, f"{FOLDER}/{name}") for name in names)
    lines = chain.from_iterable(chain.from_iterable(files))
    for _, line in islice(lines, COUNTED_ROWS_MAX):
        kind = _kind_of(line)
        found[kind] = found.get(kind, 0) + 1
    ordered = sorted(found.items(), key=lambda each: -each[1])
    told = dict(ordered[:KINDS_MAX])
    if rest := sum(count for _, count in ordered[KINDS_MAX:]):
        told[f"{len(ordered) - KINDS_MAX} other reasons"] = rest
    return told


def text(reasons: dict[str, int], rejected: int) -> str:
    """For people: one line a kind, indented."""
    width = max((len(f"{count:,}") for count in reasons.values()), default=0)
    lines = [f"    {count:>{width},}  {kind}" for kind, count in reasons.items()]
    seen = sum(reasons.values())
    if seen < rejected:
        lines.append(f"    of the first {seen:,} rows that were rejected")
    ahead = reasons.get("ahead", 0)
    if ahead >= AHEAD_FEW and 2 * ahead > seen:
        lines.append(RARER_THAN_THAT)
    return "\n".join(lines)


def _kind_of(line: bytes) -> str:
    """Of a line of a reject file."""
    try:
        return kind_of(str(json.loads(line)["reason"]))
    except (ValueError, TypeError, LookupError):
        return _DAMAGED


def kind_of(reason: str) -> str:
    """A reason without the values that it names."""
    for kind in ("late", "ahead"):
        if reason.startswith(f"{kind}:"):
            return kind
    misfit = _MISFIT.fullmatch(reason)
    return (reason if misfit is None else f"{misfit[1]}: no {misfit[2]}")[:KIND_CHARS_MAX]
