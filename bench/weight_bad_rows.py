"""Cases of the section `weight` with rows that cannot be processed: how much more a bad row costs.

A bad row is kept with its reason, and its frame is gone through again to find it. So its work is
that of `BAD_COSTS` good rows, whether three in a thousand are bad or three hundred.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa

from gapless.bench.weight_case import Case, counted, rows
from gapless.bench.weight_feeds import ROW, Feed, changed, every, spread
from gapless.engine.query import Query
from gapless.engine.source import source
from gapless.protocol.expr import col

BAD_ROWS = 200_000
BAD_COSTS = 20
"""How many good rows a bad one may cost: it is kept, with its reason."""
PER_MILLE = (3, 30, 300)


def _mixed(size: int, worse: Callable[[pa.RecordBatch, np.ndarray], pa.RecordBatch]) -> Feed:
    """Rows of which `size` in a thousand are made worse."""

    def change(batch: pa.RecordBatch) -> pa.RecordBatch:
        return worse(batch, every(size / 1000, batch.num_rows))

    return changed(spread(BAD_ROWS, 100, 600), change)


def _zeros(batch: pa.RecordBatch, bad: np.ndarray) -> pa.RecordBatch:
    return batch.set_column(1, "k", pa.array(np.where(bad, 0, 7)))


def _large(batch: pa.RecordBatch, bad: np.ndarray) -> pa.RecordBatch:
    return batch.set_column(2, "v", pa.array(np.where(bad, 1 << 62, 3)))


def _texts(batch: pa.RecordBatch, bad: np.ndarray) -> pa.RecordBatch:
    return batch.append_column("t", pa.array(np.where(bad, "NA", "17"), pa.string()))


def _earlier(batch: pa.RecordBatch, bad: np.ndarray) -> pa.RecordBatch:
    ts = batch.column("ts").to_numpy()
    return batch.set_column(0, "ts", pa.array(np.where(bad, ts - 1_000_000, ts)))


def _bad_work(size: int, rows: int, answers: int) -> float:
    return rows + answers + BAD_COSTS * rows * size / 1000


def _bad(
    about: str,
    query: Callable[[int], Query],
    worse: Callable[[pa.RecordBatch, np.ndarray], pa.RecordBatch],
) -> Case:
    return Case(
        f"of a thousand rows so many {about}",
        query,
        lambda size: _mixed(size, worse),
        PER_MILLE,
        (1,),
        work=_bad_work,
    )


TEXTS = ROW.append(pa.field("t", pa.string()))

BAD = {
    "bad rows, divided by zero": _bad(
        "have a zero divisor",
        lambda size: rows().map(q=col("v") // col("k"), m=col("v") % col("k")).on_error("aside"),
        _zeros,
    ),
    "bad rows, too large": _bad(
        "have a product beyond int64",
        lambda size: rows().where(col("v") * 4 + 1 > col("k")).on_error("aside"),
        _large,
    ),
    "bad rows, no number": _bad(
        "have a text that is no number",
        lambda size: (
            source("a", TEXTS, time="ts", lateness=0)
            .map(n=col("t").cast("int64"))
            .on_error("aside")
        ),
        _texts,
    ),
    "late rows": Case(
        "of a thousand rows so many are late",
        lambda size: counted("1m", "1s").on_error("aside"),
        lambda size: _mixed(size, _earlier),
        PER_MILLE,
        (1,),
        work=_bad_work,
    ),
}
