"""The busiest sources of the last ten seconds, every second, over rows that arrive out of order.

    python examples/engine/talkers.py

It prints the plan, each frame as it comes, and the answer at the end.
"""

import numpy as np
import pyarrow as pa

import gapless as gl

flows = gl.source(
    "netflow",
    {"ts": "timestamp[ms]", "src": "int32", "len": "int32"},
    time="ts",
    lateness="5s",
)
talkers = (
    flows.where(gl.col("len") > 0)
    .window(range="10s", slide="1s")
    .group_by("src")
    .aggregate(packets=gl.count(), bytes=gl.sum("len"))
)


def rows(n: int = 200_000) -> pa.Table:
    """A thousand rows a second of event time, each up to four seconds late."""
    rng = np.random.default_rng(1)
    ts = 1_700_000_000_000 + np.arange(n) - rng.integers(0, 4000, n)
    columns = {"src": rng.integers(0, 5, n), "len": rng.integers(0, 1500, n)}
    return pa.table({"ts": pa.array(ts, pa.timestamp("ms")), **columns})


if __name__ == "__main__":
    print(talkers.explain())
    given = rows()
    execution = gl.execute(talkers, given)
    for frame in execution:
        print(frame)
    for step in execution.counters:
        print(f"{step.name}: {step.rows_in:,} rows in, {step.rows_out:,} out")
    print(gl.table(talkers.top_k(2, by="bytes"), given).to_pandas())
