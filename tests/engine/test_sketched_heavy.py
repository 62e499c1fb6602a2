"""`heavy(method="count_min")` in queries: none is missing, and what it says of itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import gapless as gl
from gapless.engine.plan import Plan
from gapless.engine.query import Query
from gapless.merge.choose import choose
from gapless.protocol.errors import DecodeError, GaplessError

FLOWS = gl.source(
    "flows",
    {"ts": "int64", "seen": "int64", "src": "string", "len": "int64"},
    time="ts",
    lateness=20,
    progress={"seen": 15},
)
HOP = FLOWS.window(range=60, slide=20)
HEAVY = HOP.heavy("src", share=0.05, method="count_min")


def rows(seed: int, count: int = 2_000) -> pa.Table:
    rng = np.random.default_rng(seed)
    ts = np.sort(rng.integers(0, 300, count)) + rng.integers(0, 20, count)
    return pa.table(
        {
            "ts": ts,
            "seen": ts - rng.integers(0, 15, count),
            "src": [f"10.0.0.{i}" for i in rng.geometric(0.1, count)],
            "len": rng.integers(40, 60, count),
        }
    )


def told(query: Query, flows: pa.Table) -> list[tuple[object, ...]]:
    """All inserts, in the order in which they come."""
    found = (e for frame in gl.execute(query, flows) for e in frame.elements())
    return [(e.vs, *e.payload) for e in found if isinstance(e, gl.Insert)]


SHAPES: dict[str, Callable[[Query], Query]] = {
    "hopping": lambda q: q.window(range=60, slide=20),
    "from an origin": lambda q: q.window(range=60, slide=20, origin=7),
    "cumulating": lambda q: q.window(range="all", slide=20, restart=60),
    "by another column": lambda q: q.window(range=60, slide=20, on="seen"),
    "behind a condition": lambda q: q.window(range=60, slide=20).where(gl.col("len") > 45),
}


@pytest.mark.parametrize("name", SHAPES)
def test_of_few_values_it_says_what_counting_says(name: str) -> None:
    below = SHAPES[name](FLOWS)
    for columns in (["src"], ["src", "len"]):
        exact = below.heavy(*columns, share=0.02)
        sketched = below.heavy(*columns, share=0.02, method="count_min")
        flows = rows(len(columns))
        assert told(sketched, flows) == told(exact, flows)
        assert sketched.schema == exact.schema
    assert below.heavy("src", share=0.1, method="exact").same_as(below.heavy("src", share=0.1))


def test_it_leads_to_r1_reaches_as_far_as_its_window_and_travels() -> None:
    p = HEAVY.properties
    assert choose([p.merge, p.merge])[0] == "r1"
    assert (p.reach, p.unique, p.longest, p.grain) == ({"flows": 80}, ("src",), 20, 20)
    assert "heavy src: 0.05 of each window, or more, by count_min" in HEAVY.explain()
    assert "reach 80 ms" in HEAVY.explain()
    assert Query.from_document(HEAVY.to_document()).same_as(HEAVY)
    assert not HEAVY.same_as(HOP.heavy("src", share=0.05))
    assert Plan(HEAVY).compile().schema == HEAVY.schema
    raced = gl.race(HEAVY, HEAVY.where(~gl.col("src").is_null()))
    flows = rows(3)
    assert told(raced, flows) == told(HEAVY, flows)


def test_a_document_from_anybody_is_looked_at() -> None:
    for name, value in (("share", 7), ("columns", ["srcc"]), ("columns", []), ("share", "1")):
        document: Any = HEAVY.to_document()
        document["nodes"][-1][name] = value
        with pytest.raises(DecodeError):
            Query.from_document(document)


def _heavy(q: Query, share: float = 0.1) -> Query:
    return q.heavy("src", share=share, method="count_min")


BAD: dict[str, tuple[Callable[[], Query], str]] = {
    "no window": (lambda: _heavy(FLOWS), "here are none: write window\\(range=, slide=\\) before"),
    "no slide": (lambda: _heavy(FLOWS.window(60)), "here are none"),
    "all of the past": (lambda: _heavy(FLOWS.window("all", 20)), "here are none"),
    "sessions": (lambda: _heavy(FLOWS.window(session=30)), "session"),
    "counted rows": (lambda: _heavy(FLOWS.window(gl.rows(9), gl.rows(3))), "counts rows"),
    "answers": (lambda: _heavy(HOP.group_by("src").aggregate(k=gl.count())), "here are none"),
    "a dropped column": (
        lambda: _heavy(FLOWS.window(60, 20, on="seen").select("src")),
        "which a select above it drops",
    ),
    "no share": (lambda: _heavy(HOP, 0), "above 0 and at most 1, as in share=0.05"),
    "too small a share": (lambda: _heavy(HOP, 0.00009), "0.0001 is the least.*leave method= out"),
    "no column": (lambda: HOP.heavy(share=0.1, method="count_min"), "name the columns"),
    "an unknown column": (
        lambda: HOP.heavy("sr", share=0.1, method="count_min"),
        "did you mean 'src'",
    ),
    "a column twice": (lambda: HOP.heavy("src", "src", share=0.1, method="count_min"), "src"),
    "its own column": (
        lambda: FLOWS.map(n=gl.col("src")).window(60, 20).heavy("n", share=0.1, method="count_min"),
        "n",
    ),
    "an unknown method": (
        lambda: HOP.heavy("src", share=0.1, method="count-min"),  # type: ignore[arg-type]  # it is refused
        "method 'count-min': 'exact' counts all values, 'count_min' estimates",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_what_has_no_meaning_is_refused_with_what_to_write(name: str) -> None:
    make, sentence = BAD[name]
    with pytest.raises(GaplessError, match=sentence):
        make()
