"""The doors by which rows come in, each as a function from the same rows to what became of them.

    a row        {"ts": "2024-05-01", "n": "7", "name": "NA"}     texts, as a file of lines has them
    a door       execute of CSV, JSON lines, Parquet, Arrow; ingest of the same; a journal read back
    an outcome   the rows that came through, and how many did not for which kind of reason

What has to come out is computed from the slow twin of the rule of texts.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
from pyarrow import parquet

import gapless as gl
from gapless.io.ingest_input import input_of
from gapless.io.stop_signals import StopSignals
from gapless.journal.disk import LocalDisk
from gapless.journal.reasons import kind_of
from gapless.journal.rejects import FOLDER, read_lines
from gapless.protocol.values import from_values, to_values
from tests.protocol.text_twin import NO, TEXTS, meaning

SCHEMA = pa.schema(
    {
        "ts": pa.timestamp("ms"),
        "n": pa.int32(),
        "x": pa.float32(),
        "name": pa.string(),
        "day": pa.date32(),
        "share": pa.decimal128(5, 2),
        "yes": pa.bool_(),
    }
)
WIDE = {
    "ts": pa.timestamp("us"),
    "n": pa.int64(),
    "x": pa.float64(),
    "name": pa.large_string(),
    "day": pa.date64(),
    "share": pa.decimal128(30, 9),
    "yes": pa.bool_(),
}
"""Wider types of the same kinds, for files with types: what does not fit is a bad row there."""
Row = dict[str, str | None]
BATCH_ROWS = 7

PLAIN = {
    "ts": "2024-05-01", "n": "7", "x": "1.5", "name": "a", "day": "2024-05-01",
    "share": "1.50", "yes": "true",
}  # fmt: skip
ODD: list[Row] = [
    {**PLAIN, name: text} for name in SCHEMA.names for text in [*TEXTS, None] if text != "\x00"
]
"""Each odd text in each column, alone in its row: nothing else is wrong with that."""

FLOWS = gl.source("flows", SCHEMA, time="ts").on_error("aside")


class Outcome(NamedTuple):
    """What became of rows, in whatever order they came."""

    rows: Counter[tuple[Any, ...]]
    rejects: Counter[str]


def expected(rows: list[Row]) -> Outcome:
    """By the twin."""
    good: list[tuple[Any, ...]] = []
    bad: list[str] = []
    for row in rows:
        values = {
            name: None if text is None else meaning(text, SCHEMA.field(name).type)
            for name, text in row.items()
        }
        misfit = next((name for name in SCHEMA.names if values[name] is NO), None)
        if misfit is not None:
            bad.append(f"{misfit}: no {SCHEMA.field(misfit).type}")
        elif values["ts"] is None:
            bad.append("ts is null: no time")
        else:
            good.append(tuple(values[name] for name in SCHEMA.names))
    return Outcome(Counter(good), Counter(bad))


# -- files of rows --------------------------------------------------------------------------------


def csv_file(rows: list[Row], folder: Path) -> Path:
    lines = [",".join(SCHEMA.names)]
    lines += [",".join(_field(row[name]) for name in SCHEMA.names) for row in rows]
    path = folder / "rows.csv"
    path.write_bytes("\n".join(lines).encode() + b"\n")
    return path


def _field(text: str | None) -> str:
    if text is None:
        return ""
    if text and not set(text) & set(',"'):
        return text
    return '"' + text.replace('"', '""') + '"'


_JSON_NUMBER = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?", re.ASCII)


def json_file(rows: list[Row], folder: Path) -> Path:
    """Numbers as numbers; those that JSON writes in another way are written so; anything else is
    a text, which is bad there, too.
    """
    path = folder / "rows.jsonl"
    path.write_text("".join(f"{{{', '.join(_members(row))}}}\n" for row in rows), "utf-8")
    return path


def _members(row: Row) -> list[str]:
    members = []
    for field in SCHEMA:
        text = row[field.name]
        if text is not None:
            members.append(f"{json.dumps(field.name)}: {_member(text, field.type)}")
    return members


def _member(text: str, t: pa.DataType) -> str:
    is_number = pa.types.is_integer(t) or pa.types.is_floating(t)
    value = meaning(text, t)
    if pa.types.is_boolean(t) and value is not NO:
        return json.dumps(value)
    if pa.types.is_decimal(t) and value is not NO:
        text = text.strip()
    if not is_number:
        return json.dumps(text, ensure_ascii=False)
    if _JSON_NUMBER.fullmatch(text.strip(" \t")):
        return text
    return json.dumps(text) if value is NO else json.dumps(value)


def typed_table(rows: list[Row]) -> tuple[pa.Table, list[Row]]:
    """The rows whose texts mean something in the wider types, as a table of those."""
    able = []
    for row in rows:
        wide = {k: None if v is None else meaning(v, WIDE[k]) for k, v in row.items()}
        if NO not in wide.values():
            able.append((row, wide))
    columns = [from_values([wide[name] for _, wide in able], WIDE[name]) for name in SCHEMA.names]
    return pa.table(columns, names=SCHEMA.names), [row for row, _ in able]


def parquet_file(rows: list[Row], folder: Path) -> Path:
    parquet.write_table(typed_table(rows)[0], folder / "rows.parquet")
    return folder / "rows.parquet"


def arrow_file(rows: list[Row], folder: Path) -> Path:
    table = typed_table(rows)[0]
    with pa.ipc.new_file(folder / "rows.arrow", table.schema) as writer:
        writer.write_table(table)
    return folder / "rows.arrow"


FILES: dict[str, Callable[[list[Row], Path], Path]] = {
    "csv": csv_file,
    "jsonl": json_file,
    "parquet": parquet_file,
    "arrow": arrow_file,
}


# -- doors ----------------------------------------------------------------------------------------


def executed(given: Any) -> Outcome:
    """`gl.execute` of a file, or of a journal."""
    execution = gl.execute(FLOWS, given)
    table = execution.to_arrow()
    bad: Counter[str] = Counter()
    for of in execution.aside.take():
        bad[kind_of(of.reason)] += of.rows.num_rows
    return Outcome(rows_of(table.select(SCHEMA.names)), bad)


def ingested(path: Path, kind: str, journal: Path) -> Outcome:
    """What `gapless ingest` does: into a journal, and read back from it."""
    with (
        StopSignals() as stop,
        gl.JournalWriter(journal, SCHEMA, time="ts", lateness=2**61, ahead=None) as writer,
    ):
        for batch in input_of(str(path), kind, SCHEMA, BATCH_ROWS, 0, stop):
            writer.append(batch.rows, origin=batch.origin, rejected=batch.rejected)
    back = executed(journal)
    assert not back.rejects, "rows of a journal have been judged"
    return Outcome(back.rows, rejects_in(journal))


def rejects_in(journal: Path) -> Counter[str]:
    """Why rows of a journal were rejected, by kinds."""
    disk = LocalDisk(journal)
    files = [read_lines(disk, f"{FOLDER}/{name}") for name in disk.list(FOLDER)]
    lines = [json.loads(line) for file in files for part in file for _, line in part]
    return Counter(kind_of(line["reason"]) for line in lines)


def rows_of(table: pa.Table) -> Counter[tuple[Any, ...]]:
    """Rows as canonical values."""
    columns = [to_values(column.combine_chunks()) for column in table.columns]
    return Counter(map(_hashed, zip(*columns, strict=True)))


def _hashed(row: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple("NaN" if isinstance(v, float) and math.isnan(v) else v for v in row)


def comparable(outcome: Outcome) -> Outcome:
    """NaN as a value that equals itself in any process, decimals by their value."""
    rows: Counter[tuple[Any, ...]] = Counter()
    for row, count in outcome.rows.items():
        plain = tuple(+v if isinstance(v, Decimal) else v for v in row)
        rows[_hashed(plain)] += count
    return Outcome(rows, outcome.rejects)


def through(door: str, rows: list[Row], folder: Path) -> tuple[Outcome, list[Row]]:
    """What became of rows that came in by a door, as "execute csv"; and which it could be given."""
    way, kind = door.split()
    path = FILES[kind](rows, folder)
    able = typed_table(rows)[1] if kind in ("parquet", "arrow") else rows
    if way == "execute":
        return executed(path), able
    return ingested(path, kind, folder / "journal"), able


DOORS = [f"{way} {kind}" for way in ("execute", "ingest") for kind in FILES]
