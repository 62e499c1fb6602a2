"""Rows for the tests of journal handles, and a journal that takes them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa

import gapless as gl

SCHEMA = {"ts": "timestamp[ms]", "src": "int32", "len": "double"}
EXAMPLES = Path(__file__).parents[3] / "examples" / "journal"
NOON = 1_714_564_800_000  # 2024-05-01 12:00:00


def made(path: Path, **options: Any) -> gl.JournalWriter:
    given: dict[str, Any] = {"time": "ts", "key": "src", "partitions": 4, "lateness": "5s"}
    return gl.JournalWriter(path / "j", SCHEMA, **{**given, **options})


def rows(path: Path, **options: Any) -> list[dict[str, Any]]:
    """All rows that a reader gets, in the order of their numbers."""
    with gl.JournalReader(path / "j", **options) as reader:
        frames = list(reader)
    got = [row for frame in frames for row in frame.payload.to_pylist()]
    return sorted(got, key=repr)


def rejects(path: Path) -> list[dict[str, Any]]:
    files = sorted((path / "j" / "rejects").glob("*"))
    return [json.loads(line) for file in files for line in file.read_text().splitlines()]


TICKS = [NOON, NOON + 1, NOON + 2]
TIMES = pa.array(TICKS, pa.timestamp("ms"))
TABLE = pa.table({"ts": TIMES, "src": pa.array([1, 2, 3], pa.int32()), "len": [1.0, None, 2.5]})
