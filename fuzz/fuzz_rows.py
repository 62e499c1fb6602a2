"""Targets of rows as they come in: what bytes become, and that every door says the same of them.

lines    bytes of a CSV or JSON file: each line means the same alone and among the others
rows     texts in columns: through every door they are what the slow twin says (tests/gapless/
doors.py), as a table and as rejects
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from gapless.protocol.lines.blocks import Block, Lines
from gapless.protocol.lines.formats import format_of
from gapless.protocol.lines.line_format import LineFormat
from gapless.protocol.values import payload_tuples
from tests.gapless.doors import DOORS, ODD, SCHEMA, Row, comparable, csv_file, expected, json_file
from tests.gapless.doors import through as came_through

LINES_MAX = 60
"""Of one input: each is parsed again alone."""
INGEST_EVERY = 16
"""One input of so many goes into journals as well, which takes ten times as long."""
HEADER = Block(",".join(SCHEMA.names).encode() + b"\n", 1)


def line_seeds() -> Iterable[bytes]:
    """Files as the doors' tests write them, the first byte their kind."""
    with tempfile.TemporaryDirectory() as folder:
        for start in range(0, len(ODD), LINES_MAX):
            part = ODD[start : start + LINES_MAX]
            _, _, lines = csv_file(part, Path(folder)).read_bytes().partition(b"\n")
            yield b"\x00" + lines
            yield b"\x01" + json_file(part, Path(folder)).read_bytes()


def lines(data: bytes) -> None:
    """Parses lines together, and each alone."""
    if not data:
        return
    kind = "jsonl" if data[0] % 2 else "csv"
    reads = format_of(kind, SCHEMA, None if data[0] % 2 else HEADER)
    fed = Lines()
    fed.feed(data[1:])
    fed.finish()
    block = fed.take(LINES_MAX, rest=True)
    if block is None:
        return
    rows, bad = _parsed(reads, block.data)
    alone: list[Any] = []
    refused: list[Any] = []
    for i, line in enumerate(block.data.splitlines(keepends=True) if _plain(block.data) else []):
        got, wrong = _parsed(reads, line)
        alone += [(i, row) for _, row in got]
        refused += [(i, *rest) for _, *rest in wrong]
    if _plain(block.data):
        assert (rows, bad) == (alone, refused)


def _plain(data: bytes) -> bool:
    """Whether Python cuts lines where files are cut: at their ends alone."""
    return not set(data) & set(b"\r\x0b\x0c\x1c\x1d\x1e\x85")


def _parsed(reads: LineFormat, data: bytes) -> tuple[list[Any], list[Any]]:
    parsed = reads.parse(Block(data, 1))
    parsed.batch.validate(full=True)
    rows = list(zip(parsed.numbers.tolist(), map(repr, payload_tuples(parsed.batch)), strict=True))
    return rows, [(bad.number, bad.reason, bad.text) for bad in parsed.bad]


def row_seeds() -> Iterable[bytes]:
    """Rows as `rows` reads them."""
    for start in range(0, len(ODD), LINES_MAX):
        part = ODD[start : start + LINES_MAX]
        fields = ("\x1f".join(row[name] or "" for name in SCHEMA.names) for row in part)
        yield bytes([start % 256]) + "\x1e".join(fields).encode()


def rows(data: bytes) -> None:
    """Sends rows through the doors."""
    if not data:
        return
    text = data[1:].decode(errors="ignore").translate(dict.fromkeys(map(ord, "\r\n\x00")))
    given = [_row(line) for line in text.split("\x1e")[:LINES_MAX]]
    ways = [door for door in DOORS if door.startswith("execute") or data[0] % INGEST_EVERY == 0]
    for door in ways:
        with tempfile.TemporaryDirectory() as folder:
            got, able = came_through(door, given, Path(folder))
        assert comparable(got) == comparable(expected(able)), door


def _row(line: str) -> Row:
    fields = iter(line.split("\x1f"))
    return {name: next(fields, None) for name in SCHEMA.names}
