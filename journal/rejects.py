"""Rows that were not taken: lines of JSON, each with the reason, where it came from, and the row.

    {"batch": 17, "reason": "late: below the watermark 2024-05-01 12:00:05", "origin": "...",
     "row": {"ts": "2024-05-01 12:00:01", "src": 7}}

They lie beside the journal, one file a segment or a task, for people and their tools. A line says
which batch it came with: a writer that takes a journal over cuts the lines of batches that are not
in.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeAlias

import numpy as np

from gapless.journal.disk import Disk
from gapless.journal.judge import Parted
from gapless.protocol.plain_rows import plain_rows

Origin: TypeAlias = Callable[[int], str]
"""Where row i of a batch comes from."""
Rejected: TypeAlias = tuple[str, str, Any]
"""A row that was not taken: the reason, its origin, the row as plain data."""

FOLDER = "rejects"
LINE_CHARS_MAX = 1 << 16
"""Of one row's text: a row is to be found again by it, not kept."""
FILE_BYTES_MAX = 64 << 20
"""Of a file of rows that a query has set aside: a person who has looked at so much has seen what is
wrong. Of a journal's there is no bound: they are cut and copied with it."""
ALARM_FACTOR = 10
"""Of rows that are set aside the first is told, the tenth, the hundredth."""
_CHUNK_BYTES = 1 << 20


def beside(segment: str) -> str:
    """The file of rejected rows beside a segment."""
    return f"{FOLDER}/{segment.rpartition('/')[2]}.jsonl"


def lines_of(batch: int, verdict: Parted, origin: str | Origin) -> bytes:
    """The rejected rows of a verdict as lines; all are from one place, or each from its own."""
    if verdict.mask is None:
        return b""
    rows = plain_rows(verdict.rejected)
    if isinstance(origin, str):
        origins = [origin] * len(rows)
    else:
        origins = [origin(i) for i in np.flatnonzero(~verdict.mask).tolist()]
    return lines(batch, zip(verdict.reasons, origins, rows, strict=True))


def lines(batch: int, rejected: Iterable[Rejected]) -> bytes:
    """Rejected rows as lines: reason, origin, and the row as plain data."""
    return b"".join(_line(batch, reason, origin, row) for reason, origin, row in rejected)


def _line(batch: int, reason: str, origin: str, row: Any) -> bytes:
    line = {"batch": batch, "reason": reason, "origin": origin, "row": row}
    text = json.dumps(line, ensure_ascii=False)
    if len(text) > LINE_CHARS_MAX:
        line["row"] = str(row)[:LINE_CHARS_MAX]
        text = json.dumps(line, ensure_ascii=False)
    return text.encode(errors="replace") + b"\n"


def aside_text(count: int, last: str, see: str, lost: int) -> str:
    """How people are told that a query has set rows aside, `last` the last of them."""
    many = "1 row was" if count == 1 else f"{count:,} rows were"
    where = f", the last in {last}" if last else ""
    missing = f"; {lost:,} of them are not in it" if lost else ""
    return f"{many} set aside, and count nowhere{where}; {see}{missing}"


def cut(disk: Disk, name: str, batches: int) -> int:
    """Takes away the lines of batches that are not among the first so many, and a torn one.

    Returns how many lines are left.
    """
    size = end = disk.size(name)
    while end:
        start = max(0, end - _CHUNK_BYTES)
        chunk = disk.read(name, start, end - start)
        first = chunk.find(b"\n") + 1 if start else 0  # the line before it is the next chunk's
        kept = _kept(chunk, first, batches)
        end = start + kept
        if kept > first or not start:
            break
    if end < size:
        disk.truncate(name, end)
    starts = range(0, end, _CHUNK_BYTES)
    return sum(disk.read(name, at, min(_CHUNK_BYTES, end - at)).count(b"\n") for at in starts)


def read_lines(disk: Disk, name: str) -> Iterator[list[tuple[int, bytes]]]:
    """The lines of a file, some at a time, each with where it begins; the last may be torn."""
    at, rest = 0, b""
    while chunk := disk.read(name, at + len(rest), _CHUNK_BYTES):
        *lines, rest = (rest + chunk).split(b"\n")
        found = []
        for line in lines:
            found.append((at, line + b"\n"))
            at += len(line) + 1
        yield found
    if rest:
        yield [(at, rest)]


def _kept(chunk: bytes, first: int, batches: int) -> int:
    """Where the last line ends that stays."""
    at = kept = first
    for line in chunk[first:].splitlines(keepends=True):
        at += len(line)
        if line.endswith(b"\n") and _is_of(line, batches):
            kept = at
    return kept


def _is_of(line: bytes, batches: int) -> bool:
    """Whether a line is of one of the first so many batches. One that is damaged says nothing, and
    stays where a good one follows: it is for people, and stops no writer.
    """
    try:
        return bool(json.loads(line)["batch"] < batches)
    except (ValueError, TypeError, LookupError):
        return False
