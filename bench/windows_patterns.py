"""How many rows a second patterns take: each product with the case of its belt that it follows.

    recent       the last case before it
    chronicle    the earliest case of the last minute that no product has followed yet

Cases and products take turns, a row a millisecond, on 10,000 belts, in frames of 1,000 rows that
are made before the clock starts; a figure counts the rows of both, the best of several runs.
Before that the pairs are compared with those that a loop over all rows finds.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType

import numpy as np
import pyarrow as pa

from gapless.bench.engine_runs import best_seconds, made, rows_in, watched
from gapless.bench.harness import Row
from gapless.bench.netflow import SEED
from gapless.bench.windows_scale import Scale
from gapless.engine.plan import Plan
from gapless.engine.query import Query
from gapless.engine.source import source
from gapless.operators.followed_by import Pick
from gapless.protocol.errors import Bug
from gapless.protocol.frame import Frame

FRAME_ROWS = 1_000
BELTS = 10_000
WITHIN_MS = 60_000
RATES_MIN: Mapping[Pick, float] = MappingProxyType({"recent": 3e6, "chronicle": 1.5e6})
"""Rows a second."""

Pairs = set[tuple[int, int]]


def schema(of: str) -> pa.Schema:
    """Of cases, or of products: when, on which belt, and the number of each."""
    return pa.schema([("ts", pa.int64()), ("belt", pa.int32()), (of, pa.int64())])


def pattern(pick: Pick) -> Query:
    """Products that follow a case of their belt."""
    cases = source("cases", schema("case"), time="ts", lateness=0)
    products = source("products", schema("product"), time="ts", lateness=0)
    within = WITHIN_MS if pick == "chronicle" else None
    return cases.followed_by(products, on="belt", within=within, pick=pick)


def drawn(rows: int) -> Mapping[str, pa.RecordBatch]:
    """So many cases, and as many products: a row of each in turn."""
    rng = np.random.default_rng(SEED)
    number = np.arange(rows, dtype=np.int64)
    found = {}
    for name, of, later in (("cases", "case", 0), ("products", "product", 1)):
        belts = rng.integers(0, BELTS, rows).astype(np.int32)
        found[name] = pa.record_batch([2 * number + later, belts, number], schema=schema(of))
    return found


def expected(given: Mapping[str, pa.RecordBatch], pick: Pick) -> Pairs:
    """Numbers of cases and products that are pairs, by a loop over all rows in order."""
    cases, products = (given[name].column(1).to_pylist() for name in ("cases", "products"))
    waiting: dict[int, deque[int]] = defaultdict(deque)
    pairs: Pairs = set()
    for number, (of_case, of_product) in enumerate(zip(cases, products, strict=True)):
        waiting[of_case].append(number)
        here = waiting[of_product]
        if pick == "recent":
            if here:
                pairs.add((here[-1], number))
            continue
        while here and 2 * (number - here[0]) + 1 > WITHIN_MS:
            here.popleft()
        if here:
            pairs.add((here.popleft(), number))
    return pairs


def check(outputs: list[Frame], wanted: Pairs, pick: Pick) -> None:
    """Raises `Bug` unless these are the pairs, each once."""
    columns = [[f.payload.column(c).to_numpy() for f in outputs] for c in ("case", "product")]
    cases, products = (np.concatenate(parts).tolist() for parts in columns)
    if len(cases) != len(wanted) or set(zip(cases, products, strict=True)) != wanted:
        raise Bug(f"{pick}: {len(cases):,} pairs are not the {len(wanted):,} that are right")


def patterns(scale: Scale, plot_dir: Path | None) -> Iterator[Row]:
    """Recent and chronicle."""
    del plot_dir  # some figures make no curve
    given = drawn(scale.cases)
    plans = {pick: Plan(pattern(pick)) for pick in RATES_MIN}
    pushes = {pick: made(plan, given, FRAME_ROWS) for pick, plan in plans.items()}
    for pick, plan in plans.items():
        check(watched(plan.compile(), pushes[pick]).outputs, expected(given, pick), pick)
    for pick, plan in plans.items():
        took = best_seconds({pick: plan.compile}, pushes[pick], scale.repeat_curve)[pick]
        rate = rows_in(pushes[pick]) / took
        yield Row(f"patterns: {pick}", rate, "rows/s", RATES_MIN[pick], ">=")
