"""Top and heavy in queries: what they say of windows, what they lead to, and what has none."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import duckdb
import numpy as np
import pyarrow as pa
import pytest

import gapless as gl
from gapless.engine.plan import Plan
from gapless.engine.query import Query
from gapless.merge.choose import choose
from gapless.protocol.errors import GaplessError

FLOWS = gl.source("flows", {"ts": "int64", "src": "string", "len": "int64"}, time="ts", lateness=20)
HOP = FLOWS.window(range=60, slide=20)
TALKERS = HOP.group_by("src").aggregate(n=gl.count())


def rows(seed: int, count: int = 400) -> pa.Table:
    rng = np.random.default_rng(seed)
    src = [f"10.0.0.{i}" for i in np.minimum(rng.geometric(0.15, count), 30)]
    return pa.table(
        {
            "ts": np.sort(rng.integers(0, 300, count)),
            "src": src,
            "len": rng.integers(40, 60, count),
        }
    )


Q6_4 = """
    with ends as (select unnest(range(20, 361, 20)) as e),
    counted as (select e, src, count(*) as n from flows join ends on e - 60 <= ts and ts < e
                group by e, src)
    select e, src, n from counted qualify n >= 0.05 * sum(n) over (partition by e)
"""
TOP = """
    with ends as (select unnest(range(20, 361, 20)) as e)
    select e, ts, src, len, row_number() over
        (partition by e order by len desc, ts, src, len) as rank
    from flows join ends on e - 60 <= ts and ts < e qualify rank <= 3
"""


def told(query: Query, flows: pa.Table) -> Counter[tuple[object, ...]]:
    found: Counter[tuple[object, ...]] = Counter()
    for frame in gl.execute(query, flows):
        for e in frame.elements():
            if isinstance(e, gl.Insert):
                found[(e.vs, *e.payload)] += 1
    return found


@pytest.mark.parametrize(
    ("query", "sql"),
    [(HOP.heavy("src", share=0.05), Q6_4), (HOP.top(3, by="len"), TOP)],
    ids=["Q6-4", "the longest packets"],
)
def test_oracle_duckdb_says_the_same_of_each_window(query: Query, sql: str) -> None:
    for seed in range(3):
        flows = rows(seed)
        asked = duckdb.sql(sql)
        assert asked is not None
        wanted = asked.fetchall()
        assert told(query, flows) == Counter(wanted)
        assert len(wanted) > 30


def test_both_lead_to_the_case_of_streams_in_rank_order() -> None:
    for query in (TALKERS.top(3, by="n"), HOP.heavy("src", share=0.05)):
        p = query.properties.merge
        assert choose([p, p])[0] == "r1"
        raced = gl.race(query, query.where(gl.col("src").is_null() | ~gl.col("src").is_null()))
        flows = rows(1)
        assert told(raced, flows) == told(query, flows)
        assert "r1" in raced.explain()


def test_answers_that_are_revised_are_ranked_once_they_are_final() -> None:
    early = HOP.group_by("src").aggregate(n=gl.count(), early=20).top(3, by="n")
    flows = rows(2)
    assert told(early, flows) == told(TALKERS.top(3, by="n"), flows)
    assert early.properties.insert_only


def test_what_is_explained_and_travels() -> None:
    query = TALKERS.top(3, by="n", within="src", rank="place")
    heavy = HOP.heavy("src", share=0.05)
    assert "top 3 of each window by n, largest first within src: place" in query.explain()
    assert "heavy: n is 0.05 of each window, or more" in heavy.explain()
    assert query.schema.names == ["src", "n", "place"]
    assert heavy.schema.names == ["src", "n"]
    for each in (query, heavy):
        again = Query.from_document(each.to_document())
        assert again.same_as(each)
        assert Plan(again).compile().schema == each.schema


BAD: dict[str, tuple[Callable[[], Query], str]] = {
    "no windows": (lambda: FLOWS.lifetime(duration=5).top(3, by="len"), "here are none"),
    "all of the past": (lambda: FLOWS.window("all", 20).top(3, by="len"), "say window"),
    "no slide": (lambda: FLOWS.window(60).heavy("src", share=0.1), "here are none"),
    "sessions": (lambda: FLOWS.window(session=30).top(3, by="len"), "session"),
    "held": (
        lambda: FLOWS.window("all", 20).group_by("src").aggregate(n=gl.count()).top(3, by="n"),
        "here are none: write window\\(range=, slide=\\) before",
    ),
    "no row": (lambda: TALKERS.top(0, by="n"), "top 0: a number of rows, 1 to"),
    "an unknown column": (lambda: TALKERS.top(3, by="m"), "top by: no column 'm'"),
    "within the unknown": (lambda: TALKERS.top(3, by="n", within="sr"), "did you mean 'src'"),
    "ranks that are there": (
        lambda: TALKERS.top(3, by="n", rank="src"),
        "there is a column 'src' already: give that of the ranks another name, as in rank='place'",
    ),
    "no share": (lambda: HOP.heavy("src", share=0), "above 0 and at most 1, as in share=0.05"),
    "a share beyond all": (lambda: HOP.heavy("src", share=5), "as in share=0.05 for 5 %"),
    "a share as text": (lambda: HOP.heavy("src", share="5%"), "as in share=0.05 for 5 %"),  # type: ignore[arg-type]  # it is refused
    "heavy what": (lambda: HOP.heavy(share=0.1), "group_by: name the columns"),
}


@pytest.mark.parametrize("name", BAD)
def test_what_has_no_meaning_is_refused_with_what_to_write(name: str) -> None:
    make, sentence = BAD[name]
    with pytest.raises(GaplessError, match=sentence):
        make()
