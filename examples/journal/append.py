"""Appends readings of a few sensors to a journal, a batch every so often, as a live program would.

    python examples/journal/append.py data/readings [BATCHES]

Run examples/journal/follow.py beside it. Kill it, start it again: it continues with the batch that
was next, and nothing is there twice.
"""

import sys

import numpy as np

import gapless as gl

SCHEMA = {"ts": "timestamp[ms]", "sensor": "int32", "celsius": "double"}


def batch(number: int) -> dict[str, np.ndarray]:
    """A second of readings: the same each time it is asked for."""
    rng = np.random.default_rng(number)
    ts = 1_700_000_000_000 + 1_000 * number + np.sort(rng.integers(0, 1_000, 100))
    return {"ts": ts, "sensor": rng.integers(0, 8, 100), "celsius": rng.normal(20, 3, 100).round(1)}


def main(path: str, batches: int = 60) -> None:
    """Appends the batches that are not there yet, and ends the journal."""
    with gl.JournalWriter(
        path, SCHEMA, time="ts", key="sensor", partitions=4, lateness="2s"
    ) as writer:
        for number in range(writer.batches, batches):
            written = writer.append(batch(number))
        writer.end()
        print(f"{written.batch + 1} batches, {writer.rows} rows, {writer.rejected} rejected")


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:]))
