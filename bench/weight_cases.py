"""What the section `weight` runs: queries over large, sparse, skewed and dirty inputs.

Each case is one of `weight_case.py`; those with dirty inputs are in `weight_bad_rows.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import numpy as np
import pyarrow as pa

from gapless.bench.weight_bad_rows import BAD
from gapless.bench.weight_case import Case, as_size, counted, rows
from gapless.bench.weight_feeds import (
    ROW,
    Feed,
    after_a_lull,
    burst,
    changed,
    in_turn,
    lulls,
    once,
    one_after_the_other,
    spread,
)
from gapless.engine.query import Query
from gapless.engine.source import source
from gapless.operators.aggregates import count, count_distinct, first, last, max_, min_, sum_
from gapless.protocol.expr import col

HOUR_S, DAY_S = 3_600, 86_400

# -- windows --------------------------------------------------------------------------------------


def _extremes(size: int) -> Query:
    grouped = rows().window(f"{size}s", "1s").group_by("k")
    return grouped.aggregate(
        lo=min_("v"), hi=max_("v"), f=first("v"), l=last("v"), x=sum_("x"), b=max_("x")
    )


def _sketched(size: int) -> Query:
    grouped = rows().window(f"{size}s", "1s").group_by("k")
    return grouped.aggregate(d=count_distinct("v", method="hll"))


def _early(range_: str, early: str | bool) -> Query:
    grouped = rows().window(range_, "1s").group_by("k")
    return grouped.aggregate(n=count(), hi=max_("v"), early=early)


WINDOWS = {
    "1 h / 1 s": Case(
        "keys, 500 rows of each within an hour",
        lambda size: counted("1h", "1s"),
        lambda size: spread(500 * size, size, HOUR_S),
        (50, 100, 200),
        (5, 10),
        holds=as_size,
    ),
    "24 h / 1 s": Case(
        "keys, 5,000 rows of each within a day",
        lambda size: counted("24h", "1s"),
        lambda size: spread(5_000 * size, size, DAY_S),
        (2, 4, 8),
        (1, 2),
        holds=as_size,
    ),
    "1 h / 1 s, up to a million keys": Case(
        "keys, each once within an hour; stopped after two million answers",
        lambda size: counted("1h", "1s"),
        lambda size: once(size, HOUR_S),
        (10_000, 100_000, 1_000_000),
        (1_000,),
        holds=as_size,
        answers_max=2_000_000,
    ),
    "no key twice": Case(
        "rows within two hours; 1 h / 1 m",
        lambda size: counted("1h", "1m"),
        lambda size: once(size, 2 * HOUR_S),
        (10_000, 20_000, 40_000),
        (1_000,),
        holds=as_size,
    ),
    "burst": Case(
        "rows within one second; 1 h / 1 s, 10 keys",
        lambda size: counted("1h", "1s"),
        lambda size: burst(size, 10),
        (250_000, 500_000, 1_000_000),
        (10_000,),
    ),
    "lull": Case(
        "seconds without a row; 1 h / 1 s, 100 keys, 50,000 rows before",
        lambda size: counted("1h", "1s"),
        lambda size: after_a_lull(50_000, 100, 600, size),
        (28 * 60, DAY_S, 365 * DAY_S),
        (600,),
    ),
    "a lull after each row": Case(
        "rows, 1,000 windows between two of them; 1 m / 1 s",
        lambda size: counted("1m", "1s"),
        lambda size: lulls(size, 1_000),
        (5_000, 10_000, 20_000),
        (500,),
    ),
    "functions that cannot be subtracted": Case(
        "seconds of the window, slide 1 s; a row a second of one key, for two hours",
        _extremes,
        lambda size: spread(2 * HOUR_S, 1, 2 * HOUR_S),
        (600, HOUR_S, 4 * HOUR_S),
        (10, 60),
        holds=as_size,
    ),
    "functions that cannot be subtracted, by keys": Case(
        "keys, 500 rows of each within an hour; 1 h / 1 s",
        lambda size: _extremes(HOUR_S),
        lambda size: spread(500 * size, size, HOUR_S),
        (25, 50, 100),
        (2, 5),
        holds=as_size,
    ),
    "sketches": Case(
        "seconds of the window, slide 1 s; a row a second of one key, for 20 minutes",
        _sketched,
        lambda size: spread(1_200, 1, 1_200),
        (300, 900, HOUR_S),
        (10, 60),
        holds=as_size,
    ),
    "early, all windows": Case(
        "rows of 10 keys, one a second; 10 m / 1 s, frames of 10 rows",
        lambda size: _early("10m", early=True),
        lambda size: spread(size, 10, size),
        (500, 1_000, 2_000),
        (50,),
        frame_rows=10,
    ),
    "early, the next windows": Case(
        "seconds of the window, slide 1 s, 10 s early; an hour of 10 rows a second, 10 keys",
        lambda size: _early(f"{size}s", early="10s"),
        lambda size: spread(10 * HOUR_S, 10, HOUR_S),
        (60, 600, HOUR_S),
        (10, 20),
        holds=as_size,
    ),
    "landmark": Case(
        "rows of 1,000 keys, all since the beginning, every second",
        lambda size: counted("all", "1s"),
        lambda size: spread(size, 1_000, HOUR_S),
        (250_000, 500_000, 1_000_000),
        (10_000,),
    ),
}

# -- what is alive at an instant ------------------------------------------------------------------


def _alive() -> Query:
    return rows().window("1h")


INSTANTS = {
    "at every instant, one key": Case(
        "rows of one key within an hour, alive for an hour each",
        lambda size: _alive().group_by("k").aggregate(n=count(), v=sum_("v"), hi=max_("v")),
        lambda size: spread(size, 1, HOUR_S),
        (25_000, 50_000, 100_000),
        (1_000,),
        holds=as_size,
    ),
    "top 10 of one group": Case(
        "rows within an hour, alive for an hour each",
        lambda size: _alive().top_k(10, by="x"),
        lambda size: spread(size, size, HOUR_S),
        (25_000, 50_000, 100_000),
        (1_000,),
        holds=as_size,
    ),
    "distinct, 10 payloads": Case(
        "rows within an hour, alive for an hour each, of 10 payloads",
        lambda size: _alive().select("k").distinct(),
        lambda size: spread(size, 10, HOUR_S),
        (50_000, 100_000, 200_000),
        (1_000,),
        holds=as_size,
    ),
    "latest_by, one key": Case(
        "rows of one key, no stable before the end, frames of 1,000 rows",
        lambda size: source("a", ROW, time="ts").latest_by("k"),
        lambda size: spread(size, 1, HOUR_S),
        (50_000, 100_000, 200_000),
        (5_000,),
        holds=as_size,
        frame_rows=1_000,
    ),
}

# -- joins ----------------------------------------------------------------------------------------


def _paired(how: str = "inner", where: bool = False) -> Query:
    left, right = rows("a").window("1h"), rows("b").window("1h")
    few = (col("v") == col("v_right")) & (col("x") > col("x_right")) if where else None
    return left.join(right, on="k", where=few, how=how)  # type: ignore[arg-type]  # one of four


def _sides(size: int, keys: int) -> Feed:
    return in_turn(spread(size, keys, 600, "a"), spread(size, keys, 600, "b"))


JOINS = {
    "join, many keys": Case(
        "rows a side, of half as many keys",
        lambda size: _paired(),
        lambda size: _sides(size, size // 2),
        (100_000, 200_000, 400_000),
        (1_000,),
        holds=as_size,
    ),
    "join, one key": Case(
        "rows a side, all of one key: so many pairs, squared",
        lambda size: _paired(),
        lambda size: _sides(size, 1),
        (1_000, 2_000, 4_000),
        (100,),
        holds=as_size,
    ),
    "join, one key, few pairs pass": Case(
        "rows a side, all of one key; `where` looks at each pair, none passes",
        lambda size: _paired(where=True),
        lambda size: _sides(size, 1),
        (1_000, 2_000, 4_000),
        (100,),
        work=lambda size, rows, answers: float(size) * size,
        holds=as_size,
    ),
    "join, one key, a million rows a side": Case(
        "rows a side, all of one key, one side first; stopped after four million pairs",
        lambda size: _paired(),
        lambda size: one_after_the_other(spread(size, 1, 600, "a"), spread(size, 1, 600, "b")),
        (250_000, 500_000, 1_000_000),
        (1_000,),
        holds=as_size,
        answers_max=4_000_000,
    ),
    "full join, one key": Case(
        "rows a side, all of one key, each alive for an hour: null rows before the first",
        lambda size: _paired("full"),
        lambda size: _sides(size, 1),
        (500, 1_000, 2_000),
        (50,),
        holds=as_size,
    ),
    "full join, nothing fits": Case(
        "rows a side of one key each, of which the other has none",
        lambda size: _paired("full"),
        lambda size: in_turn(
            spread(size, 1, 600, "a"), changed(spread(size, 1, 600, "b"), _other_keys)
        ),
        (50_000, 100_000, 200_000),
        (1_000,),
        holds=as_size,
    ),
}


def _other_keys(batch: pa.RecordBatch) -> pa.RecordBatch:
    return batch.set_column(1, "k", pa.array(np.ones(batch.num_rows, np.int64)))


CASES: Mapping[str, Case] = MappingProxyType({**WINDOWS, **INSTANTS, **JOINS, **BAD})
"""By name."""
