"""What is claimed of streams whose rows have new lifetimes, and of what is built on them."""

from __future__ import annotations

from gapless.engine.known import Hop
from gapless.engine.query import Query
from gapless.operators.aggregates.calls import count
from gapless.operators.windows import Hopping, Landmark
from gapless.protocol.elements import INF
from gapless.protocol.expr import col
from tests.engine.queries import some_source

A = some_source("a")  # ts, k, s; lateness 5
HOP = A.window(10, 5)
COUNTS = HOP.group_by("k").aggregate(n=count())


def test_lifetimes() -> None:
    def lived(q: Query) -> tuple[int, int | None, int, bool]:
        p = q.properties
        return p.longest, p.lasts, p.grain, p.ve_of_vs

    assert lived(A) == (1, 1, 1, True)
    assert lived(A.window(7)) == (7, 7, 1, True)
    assert lived(A.window(10, 5)) == (10, 10, 5, True)
    assert lived(A.window(7, 5)) == (10, None, 5, False)
    assert lived(A.window(3, 5)) == (5, None, 5, False)
    assert lived(A.window("all", 5)) == (INF, INF, 5, True)
    assert lived(A.lifetime(duration=4)) == (4, 4, 1, True)
    assert lived(A.lifetime(end="k")) == (INF, None, 1, False)
    assert lived(A.latest_by("k")) == (INF, None, 1, False)
    assert lived(COUNTS) == (5, 5, 5, True)
    assert lived(COUNTS.window(20)) == (20, 20, 5, True)
    assert lived(COUNTS.lifetime(duration=4)) == (4, 4, 1, True)
    assert lived(A.window(10).union(A.window(10))) == (10, 10, 1, True)
    assert lived(A.window(10).union(A.window(9))) == (10, None, 1, False)
    assert lived(A.window(10, 5).union(A.window(20, 10))) == (20, None, 5, False)
    assert lived(A.window(10).join(A.window(3), on="k")) == (3, None, 1, False)
    assert lived(A.window(10).join(A.window(3), on="k", how="left"))[0] == 10
    assert lived(A.window(10).join(A.window(30), on="k", how="full"))[0] == 30
    assert lived(COUNTS.distinct()) == (INF, None, 5, False)


def test_columns_that_are_the_start() -> None:
    def starts(q: Query) -> frozenset[str]:
        return q.properties.starts

    assert starts(A.latest_by("k").select("k", a=col("ts"), b=col("ts"))) == {"a", "b"}
    assert starts(A.window(10)) == {"ts"}
    assert starts(HOP) == frozenset()
    assert starts(A.window(9).join(A.window(9), on="k").window(5, on="ts_right")) == {"ts_right"}


def test_the_window_that_an_aggregate_answers() -> None:
    def hop(q: Query) -> Hop | None:
        return q.properties.hop

    assert hop(HOP) == hop(HOP.where(col("k") > 0).select("s")) == Hop(Hopping(10, 5), None)
    assert hop(A.window("all", 5)) == Hop(Landmark(5), None)
    assert hop(A.window(10)) is None
    assert hop(HOP.union(A.window(10, 5))) == Hop(Hopping(10, 5), None)
    assert hop(HOP.union(A.window(10, 2))) is None
    assert hop(HOP.distinct()) is None
    assert hop(HOP.normalise()) is None
    joined = A.window(9).join(A.window(9), on="k").window(10, 5, on="ts_right")
    assert hop(joined) == Hop(Hopping(10, 5), "ts_right")
    assert hop(joined.select(at=col("ts_right"))) == Hop(Hopping(10, 5), "at")
    assert joined.aggregate(n=count()).properties.reach == {"a": INF}


def test_lifetimes_that_never_end_until_something_supersedes_them() -> None:
    landmark = A.window("all")
    for q in (landmark, landmark.select("k").distinct(), landmark.union(A), landmark.normalise()):
        assert q.properties.endless is not None
    superseded = (
        landmark.latest_by("k"),
        landmark.aggregate(n=count()),
        landmark.top_k(3, "k"),
        landmark.lifetime(duration=5),
        A.difference(landmark),
    )
    for q in superseded:
        assert q.properties.endless is None
