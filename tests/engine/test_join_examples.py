"""The thesis's joins and unions as plans: its figures, its semantics of windows as an oracle."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import gapless as gl
from gapless.engine import marks_read
from gapless.engine.execute import Execution
from gapless.engine.graph import Graph
from gapless.engine.plan import Plan
from gapless.engine.query import Query
from gapless.journal.generate.quotes import Quotes
from gapless.merge.lmerge import LMerge
from gapless.operators.meld import Meld
from gapless.protocol.frame import Frame
from gapless.protocol.schema import StreamSchema
from gapless.protocol.tdb import Event, Tdb
from tests.effort import cases
from tests.sql_queries.thesis import CASES

COLUMNS = {"ts": "int64", "k": "int64"}
S0, S1 = (gl.source(name, COLUMNS, time="ts", lateness=0) for name in ("S0", "S1"))
Rows = list[tuple[int, int]]


def told(graph: Graph, name: str, *rows: tuple[int, int], stable: int) -> list[Any]:
    """Rows of a source, then what it promises; the payloads of what comes out."""
    ts, k = (np.array([row[i] for row in rows], np.int64) for i in (0, 1))
    columns = [pa.array(ts), pa.array(k)]
    given = Frame.from_columns(StreamSchema(COLUMNS), ts, ts + 1, columns, stable=stable)
    out = graph.push(name, given)
    graph.validate()
    return [tuple(row.values()) for row in out.inserts.payload.to_pylist()]


# -- Q7-1 and figure 7-5: boxes are complete before slabs are -------------------------------------


def sliding_boxes() -> None:
    """|S0.ts - S1.ts| <= 2, in a count by both times, under other names and behind a condition."""
    near = S0.window(3).join(S1.window(3), on="k").where(gl.col("k") > 0)
    pairs = near.select(a=gl.col("ts"), b=gl.col("ts_right")).group_by("a", "b")
    graph = Plan(pairs.aggregate(n=gl.count())).compile()
    assert told(graph, "S1", (0, 1), (2, 1), stable=1) == []
    assert told(graph, "S0", (0, 1), (1, 1), stable=2) == [(0, 0, 1), (1, 0, 1)]  # the box (2, 1)
    assert told(graph, "S0", stable=3) == []  # the slab (*, 1): it has nothing new
    assert told(graph, "S1", stable=3) == [(0, 2, 1), (1, 2, 1)]


def tumbling_boxes() -> None:
    """S0.ts / 10 = S1.ts / 10: figure 7-4."""
    joined = S0.window(10, 10).join(S1.window(10, 10), on="k")
    graph = Plan(joined.group_by("ts", "ts_right").aggregate(n=gl.count())).compile()
    told(graph, "S0", (21, 1), (26, 1), stable=27)
    assert told(graph, "S1", (22, 1), stable=22) == []
    assert told(graph, "S1", stable=23) == [(21, 22, 1), (26, 22, 1)]


def handshake_boxes() -> None:
    """Q7-1 as text: an answer of a SYN comes up to 2 minutes after it."""
    text = next(case.text for case in CASES if case.name == "7-1")
    columns = {"ts": "int64", "srcIP": "string", "destIP": "string"}
    sources = {
        name: gl.source(name, columns, time="ts", lateness=0, time_unit="s")
        for name in ("S0", "S1")
    }
    graph = Plan(gl.sql(text, sources)).compile()

    def sent(name: str, ts: int, src: str, dest: str, stable: int) -> list[Any]:
        times = np.array([ts])
        payload = [pa.array(times), pa.array([src]), pa.array([dest])]
        schema = sources[name].schema
        given = Frame.from_columns(schema, times, times + 1, payload, stable=stable)
        return [*graph.push(name, given).inserts.payload.to_pylist()]

    assert sent("S0", 100, "a", "b", stable=102) == []
    answered = sent("S1", 105, "b", "a", stable=106)
    assert answered == [{"ts0": 100, "ts1": 105, "pairs": 1}]  # no slab: S0 is at 102


BOXES = (sliding_boxes, tumbling_boxes, handshake_boxes)


@pytest.mark.parametrize("boxes", BOXES)
def test_a_count_of_pairs_is_told_once_its_box_is_complete(boxes: Any) -> None:
    boxes()


@pytest.mark.parametrize("boxes", BOXES)
def test_a_plan_that_asks_its_join_for_no_marks_is_caught(
    boxes: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(marks_read, "_closes_groups", lambda *_: False)
    with pytest.raises(AssertionError):
        boxes()


# -- figure 8-3: an ordered stream is split, and its parts are joined again ------------------------


def test_a_count_behind_a_union_of_parts_waits_for_nothing_but_time() -> None:
    """Rows that satisfy A, and of the others those that satisfy B, one frame later."""
    cheap, dear = gl.col("k") < 3, gl.col("k") % 2 == 0
    parts = S0.where(cheap).union(S0.where(~cheap).where(dear))
    plan = Plan(parts.window(10, 10).aggregate(n=gl.count()))
    graph = plan.compile()
    rows = [(t, t % 7) for t in range(40)]
    answers = []
    for start in range(0, 40, 5):
        answers += told(graph, "S0", *rows[start : start + 5], stable=start + 5)
        assert all(s.operator.nbytes == 0 for s in graph.steps if isinstance(s.operator, Meld))
        assert len(answers) == (start + 5) // 10, "no slack: a window is told with its last row"
    passed = [t for t, k in rows if k < 3 or k % 2 == 0]
    assert answers == [(sum(e - 10 <= t < e for t in passed),) for e in range(10, 50, 10)]


# -- 5.2.2: a join by its window extents (Eqs. 5.19 to 5.22) --------------------------------------


def wids(ts: int, covers: int, slide: int) -> range:
    """The extents that a row is in. Sliding: one at each tick, (w - RANGE, w]."""
    return range(ts, ts + covers) if slide == 1 else range(ts // slide, ts // slide + 1)


def widjoin(left: Rows, right: Rows, spans: tuple[int, int], slide: int) -> Counter[Event]:
    """Eq. 5.19 over the pairs (i, i) of 5.20: each extent of the left joined with its partner.
    A result is there in as many extents as it is joined in, one after the other.
    """
    found: Counter[tuple[int, int]] = Counter()
    ids = {w for rows, r in zip((left, right), spans, strict=True) for t, _ in rows
           for w in wids(t, r, slide)}  # fmt: skip
    first: dict[tuple[int, int], int] = {}
    for w in sorted(ids):
        of_left = [i for i, (t, _) in enumerate(left) if w in wids(t, spans[0], slide)]
        of_right = [i for i, (t, _) in enumerate(right) if w in wids(t, spans[1], slide)]
        for i in of_left:
            for j in of_right:
                if left[i][1] == right[j][1]:
                    found[i, j] += 1
                    first.setdefault((i, j), w)
    # A tumbling extent is answered when it is over, for as long as it was.
    late = 0 if slide == 1 else 1
    return Counter(
        Event(
            (*left[i][::-1], right[j][0]),
            (first[i, j] + late) * slide,
            (first[i, j] + late + extents) * slide,
        )
        for (i, j), extents in found.items()
    )


def matched(left: Rows, right: Rows, spans: tuple[int, int]) -> Counter[Any]:
    """Eqs. 5.21 and 5.22: each row joins the extents on the other side that it is matched to."""
    either = []
    for mine, theirs, own, other in ((left, right, *spans), (right, left, *spans[::-1])):
        pairs = {
            (i, j)
            for i, (t, k) in enumerate(mine)
            for w in range(t, t + own)  # l.WA - 1 < w <= (l.WA + RANGE) / UNIT - 1
            for j, (u, m) in enumerate(theirs)
            if w in wids(u, other, 1) and k == m
        }
        either.append(pairs if mine is left else {(j, i) for i, j in pairs})
    assert either[0] == either[1]
    return Counter((*left[i][::-1], right[j][0]) for i, j in either[0])


def table(query: Query, inputs: dict[str, Any]) -> Tdb:
    tdb = Tdb(query.schema)
    for frame in Execution(Plan(query), inputs):
        tdb.fold(frame)
    return tdb


def as_table(rows: Rows) -> pa.Table:
    columns = {name: pa.array([r[i] for r in rows], pa.int64()) for i, name in enumerate(COLUMNS)}
    return pa.table(columns)


@pytest.mark.parametrize(("spans", "slide"), [((3, 3), 1), ((6, 2), 1), ((5, 5), 5)])
def test_a_join_is_what_its_extents_join(spans: tuple[int, int], slide: int) -> None:
    for seed in range(cases(12)):
        rng = random.Random(seed)
        left, right = (
            sorted((rng.randrange(-15, 15), rng.randrange(2)) for _ in range(14)) for _ in spans
        )
        late = [gl.source(name, COLUMNS, time="ts", lateness=99) for name in ("S0", "S1")]
        sides = [
            side.window(span, None if slide == 1 else slide)
            for side, span in zip(late, spans, strict=True)
        ]
        given = {"S0": rng.sample(left, len(left)), "S1": rng.sample(right, len(right))}
        query = sides[0].join(sides[1], on="k")
        tdb = table(query, {name: as_table(rows) for name, rows in given.items()})
        assert Counter(tdb.events) == widjoin(left, right, spans, slide), seed
        if slide == 1:
            assert Counter(e.payload for e in tdb.events) == matched(left, right, spans), seed


# -- VI-B: plans over quotes, merged --------------------------------------------------------------


def disordered(rows: pa.Table, seed: int) -> Iterator[pa.RecordBatch]:
    """The rows up to 200 ms out of order, in batches of any size."""
    rng = np.random.default_rng(seed)
    ts = rows["ts"].cast(pa.int64()).to_numpy()
    rows = rows.take(pa.array(np.argsort(ts + rng.integers(0, 200, len(ts)), kind="stable")))
    at = 0
    while at < len(rows):
        size = int(rng.integers(1, 300))
        yield from rows.slice(at, size).combine_chunks().to_batches()
        at += size


@pytest.mark.parametrize("early", [None, True])
def test_counts_of_quotes_from_disordered_copies_merge_into_one(early: bool | None) -> None:
    rows = pa.Table.from_batches(list(Quotes(events=1_500, rate=300, symbols=5, burst_ms=0)))
    quotes = gl.source("quotes", rows.schema, time="ts", lateness=200)
    windowed = quotes.window("1s", "500ms").group_by("symbol")
    query = windowed.aggregate(early=early, n=gl.count(), best=gl.max("bid"))
    runs = [Execution(Plan(query), {"quotes": disordered(rows, seed)}) for seed in range(3)]
    known = query.properties.merge
    merge = LMerge(query.schema, properties=[known] * 3)
    inputs = [merge.attach(properties=known) for _ in runs]
    merged, each = Tdb(query.schema), [Tdb(query.schema) for _ in runs]
    rng, left = random.Random(3), list(range(3))
    while left:
        turn = rng.choice(left)
        frame = next(runs[turn], None)
        if frame is None:
            left.remove(turn)
            continue
        each[turn].fold(frame)
        merged.fold(merge.push(inputs[turn], frame))
        merge.validate()
    assert merge.case == ("r2" if early is None else "r3")
    assert merge.divergences.count == 0
    assert merged == each[0] == each[1] == each[2]
    assert len(merged.events) > 20
