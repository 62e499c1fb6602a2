"""What the section `weight` runs: queries over large, sparse, skewed and dirty inputs.

A case grows along one axis (keys, seconds of a lull, rows of one key, ...) over sizes that each
double or more. Its **work** at a size is what its definition makes of it, by default the rows that
go in and the answers that come out. What it **holds** there is what the definition has to remember,
in any unit. Seconds have to grow as the work does, bytes as what is held does, each within
`engine_weight.LINEAR` of it.

    "max over long windows"     size: seconds of the range; one row a second, one answer a second
                                work: the same at each size; so an answer may not cost more because
                                its window has more panes
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
import pyarrow as pa

from gapless.bench.weight_feeds import (
    ROW,
    Feed,
    after_a_lull,
    burst,
    changed,
    every,
    in_turn,
    lulls,
    once,
    one_after_the_other,
    spread,
)
from gapless.engine.intake import FRAME_ROWS
from gapless.engine.lateness import Lateness
from gapless.engine.query import Query, source
from gapless.operators.aggregates import count, count_distinct, first, last, max_, min_, sum_
from gapless.protocol.expr import col

HOUR_S, DAY_S = 3_600, 86_400
ALL_ANSWERS = 1 << 62


@dataclass(frozen=True)
class Case:
    """One query over inputs of growing size."""

    about: str
    """What the size is."""
    query: Callable[[int], Query]
    feed: Callable[[int], Feed]
    sizes: tuple[int, ...]
    """Ascending."""
    quick: tuple[int, ...]
    """Small ones: they show that the case runs, and warm a process up."""
    work: Callable[[int, int, int], float] = lambda size, rows, answers: rows + answers
    """Of a size, with the rows that went in and the answers that came out."""
    holds: Callable[[int], float] = lambda size: 1
    """How much must be remembered at a size, in any unit; by default as much at every one."""
    answers_max: int = ALL_ANSWERS
    """With so many answers the caller stops."""
    frame_rows: int = FRAME_ROWS


def as_size(size: int) -> float:
    """What is held grows with the size."""
    return size


def rows(name: str = "a", lateness: Lateness | int = 0) -> Query:
    """A source of `weight_feeds.ROW`."""
    return source(name, ROW, time="ts", lateness=lateness)


def counted(range_: str, slide: str) -> Query:
    """A count and a sum by key: both can be subtracted."""
    return rows().window(range_, slide).group_by("k").aggregate(n=count(), v=sum_("v"))


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


# -- rows that cannot be processed ----------------------------------------------------------------

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


CASES: Mapping[str, Case] = MappingProxyType({**WINDOWS, **INSTANTS, **JOINS, **BAD})
"""By name."""
