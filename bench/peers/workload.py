"""The files that every engine reads: W1 to W3 in each layout that one of them prefers.

    flows.parquet  a.parquet  b.parquet      one file in order of arrival, 100,000 rows a group
    flows.csv      a.csv      b.csv          the same as text, with a header
    flows_csv/     a_csv/     b_csv/         two files, blocks of 1,000 rows in turn: two tasks that
                                             read one each at the same speed see one ordered stream
    flows.arrow                              one file of 8,192-row batches

Written once: sizes are in the directory's name, and what is whole has its mark.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.parquet as pq

from gapless.bench import netflow

_MARK = "whole"
_BLOCK_ROWS = 1_000


def files(root: Path, events: int, events_a_side: int, say: Callable[[str], None]) -> Path:
    """The directory with the workload of this size, written now or before."""
    directory = root / f"data-{events}-{events_a_side}"
    if (directory / _MARK).exists():
        return directory
    say(f"writing {events:,} flows and twice {events_a_side:,} rows to join into {directory}")
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    rng = netflow.generator()
    flows = pa.Table.from_batches([netflow.flows(events, rng)])
    _write(flows, directory, "flows")
    with pa.ipc.new_file(directory / "flows.arrow", flows.schema) as file:
        file.write_table(flows, max_chunksize=8_192)
    for side in "ab":
        _write(pa.Table.from_batches([netflow.join_side(events_a_side, rng)]), directory, side)
    (directory / _MARK).touch()
    return directory


def _write(table: pa.Table, directory: Path, name: str) -> None:
    pq.write_table(table, directory / f"{name}.parquet", row_group_size=100_000)
    pc.write_csv(table, directory / f"{name}.csv")
    striped = directory / f"{name}_csv"
    striped.mkdir()
    block = np.arange(table.num_rows) // _BLOCK_ROWS
    for stripe in (0, 1):
        part = table.filter(pa.array(block % 2 == stripe))
        pc.write_csv(part, striped / f"p{stripe}.csv", pc.WriteOptions(include_header=False))
