"""Rows for the tests of `gapless ingest` as files of every kind, and what a journal has of them."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import csv, parquet

import gapless as gl

SCHEMA = pa.schema({"ts": pa.timestamp("ms"), "src": pa.int32(), "n": pa.int64()})
SCHEMA_TOML = 'ts = "timestamp[ms]"\nsrc = "int32"\nn = "int64"\n'
MAKES = ["--time", "ts", "--key", "src", "--lateness", "2s", "--partitions", "3"]
FORMATS = ["jsonl", "csv", "parquet", "arrow"]
START = 1_714_564_800_000  # 2024-05-01 12:00:00


def table(rows: int, seed: int = 0) -> pa.Table:
    """Rows a tenth of a second apart; of a hundred one is half a minute late."""
    rng = random.Random(seed)
    ts = [START + 100 * n - (30_000 if rng.random() < 0.01 else 0) for n in range(rows)]
    src = [rng.randrange(20) for _ in range(rows)]
    return pa.table({"ts": ts, "src": src, "n": range(rows)}, schema=SCHEMA)


def text_lines(rows: pa.Table) -> list[str]:
    texts = rows.set_column(0, "ts", rows.column("ts").cast(pa.string())).to_pylist()
    return [json.dumps(row) for row in texts]


def write(rows: pa.Table, path: Path) -> Path:
    if path.suffix == ".parquet":
        parquet.write_table(rows, path, row_group_size=700)
    elif path.suffix == ".arrow":
        with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, rows.schema) as writer:
            writer.write_table(rows, max_chunksize=300)
    elif path.suffix == ".csv":
        csv.write_csv(rows, path)
    else:
        path.write_text("".join(f"{line}\n" for line in text_lines(rows)))
    return path


def read(journal: Path) -> pa.Table:
    """All rows, partition by partition in their order."""
    batches = []
    for partition in range(gl.JournalWriter(journal).layout.partitions):
        with gl.JournalReader(journal, partitions=[partition]) as reader:
            batches += [frame.payload for frame in reader]
    return pa.Table.from_batches(batches, SCHEMA)


def rejects(journal: Path) -> list[dict[str, Any]]:
    files = sorted((journal / "rejects").glob("*"))
    lines = [line for file in files for line in file.read_text().splitlines()]
    return sorted(map(json.loads, lines), key=lambda line: (line["batch"], line["origin"]))
