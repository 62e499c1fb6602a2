"""What a merger that comes back does before it merges: takes its output over, and rebuilds from it.

    records  r r r r r r | base | r r r r r r | base | r r r        a base after RECORDS_MAX of them
                                                      `---' read, one by one, while the output waits

The output is one of many small frames, as a job that has run for minutes has it: the wait is not to
grow with the life of the job.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

import pyarrow as pa

from gapless.bench.harness import Context, Row
from gapless.bench.journal_files import folder
from gapless.failover.merger.output_journal import OutputJournal
from gapless.failover.messages import Life
from gapless.journal.disk import LocalDisk
from gapless.protocol.elements import BEGIN
from gapless.protocol.envelope import Incarnation
from gapless.protocol.frame import Frame
from gapless.protocol.schema import StreamSchema

FRAMES, QUICK_FRAMES = 20_000, 3_000
"""Of one row each: some minutes of an output that says something every 10 ms."""
SYNC_EVERY = 50
TAKEOVER_S = 0.5

SCHEMA = StreamSchema({"id": "int64"})


def measure_takeover(context: Context) -> Iterator[Row]:
    """An output of many small frames, taken over and rebuilt from."""
    frames = QUICK_FRAMES if context.quick else FRAMES
    with folder("takeover") as path:
        disk = LocalDisk(path)
        _write(_opened(disk, 1), frames)
        begin = time.perf_counter()
        _, rows = _opened(disk, 2).recover()
        took_s = time.perf_counter() - begin
        yield Row(f"takeover of an output of {rows:,} small frames", took_s, "s", TAKEOVER_S, "<=")


def _opened(disk: LocalDisk, counter: int) -> OutputJournal:
    life = Life("m0.0", Incarnation(1, counter))
    return OutputJournal(disk, SCHEMA, life, f"bench-{counter}", lambda: 0)


def _write(output: OutputJournal, frames: int) -> None:
    """As a merger does, whose live table is empty: each event ends before the next begins."""
    for i in range(frames):
        columns = [[i], [i + 1], [BEGIN], [i]]
        output.append(Frame(pa.record_batch(columns, schema=SCHEMA.arrow), i + 1))
        if i % SYNC_EVERY == SYNC_EVERY - 1 and output.sync().wants_base:
            output.seal(Frame.empty(SCHEMA, i + 1))
    output.sync()
