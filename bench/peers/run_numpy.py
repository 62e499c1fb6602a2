"""What a programmer would write by hand, in numpy, one batch: WORKLOAD FORMAT DATA OUT CORES.

Knows beforehand that there are 10,000 sources and that all fits into memory; W1 and W2 only.
"""

import json
import sys
import time

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

KEYS = 10_000
workload, _format, data, out, _cores = sys.argv[1:]


def run(slides: int) -> None:
    """Counts into panes of 1 s by bincount, slides by the difference of running totals."""
    table = pq.read_table(f"{data}/flows.parquet")
    ts, src, length = (table[name].to_numpy() for name in ("ts", "src", "len"))
    pane = ts // 1000
    first = int(pane.min())
    panes = int(pane.max()) - first + 1
    cell = (pane - first) * KEYS + src
    cnt = np.bincount(cell, minlength=panes * KEYS).reshape(panes, KEYS)
    slen = np.bincount(cell, weights=length, minlength=panes * KEYS).astype(np.int64)
    cnt, slen = slide(cnt, slides), slide(slen.reshape(panes, KEYS), slides)
    w, s = np.nonzero(cnt)
    starts = (w + first - slides + 1) * 1000
    columns = {"w": starts, "src": s.astype(np.int32), "cnt": cnt[w, s], "slen": slen[w, s]}
    pq.write_table(pa.table(columns), f"{out}/result.parquet")


def slide(panes: np.ndarray, slides: int) -> np.ndarray:
    """Row i: panes i - slides + 1 to i."""
    total = np.zeros((len(panes) + 2 * slides - 1, KEYS), np.int64)
    total[slides : slides + len(panes)] = panes
    np.cumsum(total, axis=0, out=total)
    return total[slides:] - total[:-slides]


start = time.perf_counter()
run({"w1": 10, "w2": 1}[workload])
seconds = time.perf_counter() - start
sys.stdout.write(json.dumps({"seconds": seconds, "version": np.__version__}) + "\n")
