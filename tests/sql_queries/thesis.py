"""The 27 queries of the thesis, as text and by hand.

The texts are the thesis's own, with its misprints corrected; docs/decisions says which. Those that
it only describes in words (6-4, 7-1) are written out.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

import gapless as gl
from gapless.engine.query import Query

PACKETS = {
    "ts": "int64",
    "srcIP": "string",
    "srcPort": "int32",
    "destIP": "string",
    "destPort": "int32",
    "len": "int32",
    "length": "int32",
}
LINKS = (
    "M", "Main", "Main1", "Main2", "Control", "A", "B", "C", "D", "M1", "M2", "packets", "S0", "S1",
)  # fmt: skip
SOURCES = {
    name: gl.source(name, PACKETS, time="ts", lateness="5s", time_unit="s") for name in LINKS
}
FLOW = [("srcIP", "destIP"), ("destIP", "srcIP"), ("srcPort", "destPort"), ("destPort", "srcPort")]


@dataclass(frozen=True)
class Case:
    """One query."""

    name: str
    text: str
    by_hand: Callable[[], Query]


def _of(name: str) -> Query:
    return SOURCES[name]


def _counts(name: str, range_: str, slide: str, *by: str) -> Query:
    window = _of(name).window(range=range_, slide=slide)
    return (window.group_by(*by) if by else window).aggregate(count=gl.count())


def _tumbling_pairs() -> Query:
    made = _of("Main1").window(range="5m", slide="5m")
    made = made.join(_of("Main2").window(range="5m", slide="5m"), on=[("srcIP", "destIP")])
    return _of_pairs(made)


def _sliding_pairs() -> Query:
    made = _of("Main1").window(range="3m")
    return _of_pairs(made.join(_of("Main2").window(range="2m"), on=[("srcIP", "destIP")]))


def _of_pairs(made: Query) -> Query:
    return made.select(
        "srcIP",
        "destIP",
        src2=gl.col("srcIP_right"),
        dest2=gl.col("srcIP"),
        ts=gl.col("ts_right"),
    )


def _heavy() -> Query:
    counts = _of("Main").window(range="10m", slide="1m").group_by("srcIP").aggregate(n=gl.count())
    total = _of("Main").window(range="10m", slide="1m").aggregate(total=gl.count())
    made = counts.join(total, where=gl.col("n") >= gl.lit(0.05) * gl.col("total"))
    return made.select("srcIP", "n")


def _handshakes() -> Query:
    made = _of("S0").window(range=121)
    made = made.join(_of("S1"), on=[("srcIP", "destIP"), ("destIP", "srcIP")])
    return (
        made.group_by("ts", "ts_right")
        .aggregate(pairs=gl.count())
        .select(ts0=gl.col("ts"), ts1=gl.col("ts_right"), pairs=gl.col("pairs"))
    )


def _flow_pairs() -> Query:
    made = _of("M1").window(range="2m").join(_of("M2").window(range="2m"), on=FLOW)
    return made.window(range="1m", slide="1m", on="ts").aggregate(count=gl.count())


def _union_pairs(left: Query, right: Query, length: str) -> Query:
    made = left.window(range=length, slide=length).join(
        right.window(range=length, slide=length), on=FLOW
    )
    return made.select("srcIP", "destIP", "ts")


def _landmark() -> Query:
    made = _of("Main1").window(range="all", slide="1m")
    return made.group_by("srcIP").aggregate(count=gl.count())


CASES = (
    Case(
        "1-1",
        "SELECT srcIP, count(*) [RANGE 10 minutes, SLIDE 1 minute, WA ts] FROM M GROUP BY srcIP",
        lambda: _counts("M", "10m", "1m", "srcIP"),
    ),
    Case(
        "1-2",
        "SELECT count (*) [RANGE 1 minute, SLIDE 1 minute, WA ts]"
        " FROM Control union Main1 union Main2",
        lambda: (
            _of("Control").union(_of("Main1"), _of("Main2")).window(range="1m", slide="1m")
        ).aggregate(count=gl.count()),
    ),
    Case(
        "2-1",
        "SELECT srcIP, ts, count (*) FROM Main1"
        " WHERE srcIP = '202.101.0.0' or srcIP = '202.101.0.1' GROUP BY srcIP, ts",
        lambda: (
            _of("Main1")
            .where((gl.col("srcIP") == "202.101.0.0") | (gl.col("srcIP") == "202.101.0.1"))
            .group_by("srcIP", "ts")
            .aggregate(count=gl.count())
        ),
    ),
    Case(
        "3-1",
        "SELECT * FROM Main1 [WA ts, RANGE 3 min], Main2 [WA ts, RANGE 2 min]"
        " WHERE Main1.srcIP = Main2.destIP;",
        lambda: (
            _of("Main1")
            .window(range="3m")
            .join(_of("Main2").window(range="2m"), on=[("srcIP", "destIP")])
        ),
    ),
    Case(
        "5-1",
        "Select srcIP, count(*) [RANGE 10 minutes, SLIDE 1 minute, WATTR ts]"
        " From Main Group By srcIP",
        lambda: _counts("Main", "10m", "1m", "srcIP"),
    ),
    Case(
        "5-2",
        "SELECT srcIP, max(length) [RANGE 1000 rows, SLIDE 10 rows, WA row-num, PA srcIP]"
        " FROM Main",
        lambda: (
            _of("Main")
            .window(range=gl.rows(1000), slide=gl.rows(10), partition_by="srcIP")
            .group_by("srcIP")
            .aggregate(max=gl.max("length"))
        ),
    ),
    Case(
        "5-3",
        "SELECT srcIP, max(length) [RANGE 1000 rows, SLIDE 10 rows, WA row-num]"
        " FROM Main GROUP BY srcIP",
        lambda: (
            _of("Main")
            .window(range=gl.rows(1000), slide=gl.rows(10))
            .group_by("srcIP")
            .aggregate(max=gl.max("length"))
        ),
    ),
    Case(
        "5-4",
        "SELECT srcIP, count(*) [RANGE ALL, SLIDE 1 minute, WA ts] FROM Main1 GROUP BY srcIP",
        _landmark,
    ),
    Case(
        "5-5",
        "SELECT max(length) [RANGE 5 minutes, RATTR ts, SLIDE 1 row, SATTR row-num] FROM Main",
        lambda: _of("Main").window(range="5m", slide=gl.rows(1)).aggregate(max=gl.max("length")),
    ),
    Case(
        "5-6",
        "SELECT count(*) [RANGE 5 minutes, RATTR ts, SLIDE 5 rows, SATTR rank(ts)] FROM Main",
        lambda: _of("Main").window(range="5m", slide=gl.rows(5)).aggregate(count=gl.count()),
    ),
    Case(
        "5-7",
        "SELECT Main1.srcIP, Main1.destIP, Main2.srcIP AS src2, Main2.destIP AS dest2, Main2.ts"
        " FROM Main1, Main2 [RANGE TUMBLING 5 minutes, WA ts] WHERE Main1.srcIP = Main2.destIP",
        _tumbling_pairs,
    ),
    Case(
        "5-8",
        "SELECT Main1.srcIP, Main1.destIP, Main2.srcIP AS src2, Main2.destIP AS dest2, Main2.ts"
        " FROM Main1 [RANGE 3 minutes, WA ts], Main2 [RANGE 2 minutes, WA ts]"
        " WHERE Main1.srcIP = Main2.destIP",
        _sliding_pairs,
    ),
    Case(
        "6-1",
        "Select srcIP, count(*) [RANGE 10 minutes, SLIDE 1 minute, WA ts] From Main Group By srcIP",
        lambda: _counts("Main", "10m", "1m", "srcIP"),
    ),
    Case(
        "6-2",
        "SELECT max(length) [RANGE 4 minutes, SLIDE 1 minute, WA ts] FROM Main",
        lambda: _of("Main").window(range="4m", slide="1m").aggregate(max=gl.max("length")),
    ),
    Case(
        "6-3",
        "SELECT count(*) [RANGE 4 minutes, SLIDE 1 minute, WA ts] FROM packets GROUP BY srcIP",
        lambda: _counts("packets", "4m", "1m", "srcIP").select("count"),
    ),
    Case(
        "6-4",
        "SELECT s.srcIP, s.n"
        " FROM (SELECT srcIP, count(*) AS n [RANGE 10 minutes, SLIDE 1 minute, WA ts]"
        " FROM Main GROUP BY srcIP) AS s"
        " JOIN (SELECT count(*) AS total [RANGE 10 minutes, SLIDE 1 minute, WA ts] FROM Main) AS t"
        " ON s.n >= 0.05 * t.total",
        _heavy,
    ),
    Case(
        "6-5",
        "SELECT srcIP, count(*) [RANGE 5 minutes, SLIDE 1 minute, WA ts] FROM M1 GROUP BY srcIP",
        lambda: _counts("M1", "5m", "1m", "srcIP"),
    ),
    Case(
        "6-6",
        "SELECT srcIP, sum(len) [RANGE 10 seconds, SLIDE 1 second, WA ts]"
        " FROM packets GROUP BY srcIP",
        lambda: (_of("packets").window(range="10s", slide="1s").group_by("srcIP")).aggregate(
            sum=gl.sum("len")
        ),
    ),
    Case(
        "6-7",
        "SELECT srcIP, sum(len) [RANGE 1 second, SLIDE 1 second, WA ts] FROM Main GROUP BY srcIP",
        lambda: (_of("Main").window(range="1s", slide="1s").group_by("srcIP")).aggregate(
            sum=gl.sum("len")
        ),
    ),
    Case(
        "6-8",
        "SELECT count(*) [RANGE 10 sec, SLIDE 1 sec, WA ts]"
        " FROM (Main2 ∪ (Main1 ∪ Control)) GROUP BY srcIP",  # noqa: RUF001  # its sign
        lambda: (
            _of("Main2")
            .union(_of("Main1").union(_of("Control")))
            .window(range="10s", slide="1s")
            .group_by("srcIP")
            .aggregate(count=gl.count())
            .select("count")
        ),
    ),
    Case(
        "7-1",
        "SELECT S0.ts AS ts0, S1.ts AS ts1, count(*) AS pairs FROM S0, S1"
        " WHERE S0.srcIP = S1.destIP AND S0.destIP = S1.srcIP"
        " AND S1.ts BETWEEN S0.ts AND S0.ts + INTERVAL '2' MINUTE GROUP BY S0.ts, S1.ts",
        _handshakes,
    ),
    Case(
        "7-2",
        "SELECT count(*) [RANGE 1 minute, SLIDE 1 minute, WA M1.ts]"
        " FROM M1 [RANGE 2 minutes, WA ts], M2 [RANGE 2 minutes, WA ts]"
        " WHERE M1.srcIP = M2.destIP and M1.destIP = M2.srcIP"
        " and M1.srcPort = M2.destPort and M1.destPort = M2.srcPort",
        _flow_pairs,
    ),
    Case(
        "8-1",
        "SELECT srcIP, destIP, count(*) [RANGE 1 minute, SLIDE 1 minute, WA ts]"
        " FROM Main GROUP BY srcIP, destIP",
        lambda: _counts("Main", "1m", "1m", "srcIP", "destIP"),
    ),
    Case(
        "8-2",
        "SELECT srcIP, destIP, count(*) [RANGE 1 minute, SLIDE 1 minute, WA ts]"
        " FROM M1 UNION M2 GROUP BY srcIP, destIP",
        lambda: (
            _of("M1")
            .union(_of("M2"))
            .window(range="1m", slide="1m")
            .group_by("srcIP", "destIP")
            .aggregate(count=gl.count())
        ),
    ),
    Case(
        "8-3",
        "SELECT M1.srcIP, M1.destIP, M1.ts FROM A UNION B as M1, C UNION D as M2"
        " [RANGE TUMBLING 10 minutes, WA ts]"
        " WHERE M1.srcIP = M2.destIP and M1.destIP = M2.srcIP and"
        " M1.srcPort = M2.destPort and M1.destPort = M2.srcPort",
        lambda: _union_pairs(_of("A").union(_of("B")), _of("C").union(_of("D")), "10m"),
    ),
    Case(
        "8-4",
        "SELECT M1.srcIP, M1.destIP, M1.ts FROM M1, M2 Union C as M3"
        " [RANGE TUMBLING 1 minute, WA ts]"
        " WHERE M1.srcIP = M3.destIP and M1.destIP = M3.srcIP and"
        " M1.srcPort = M3.destPort and M1.destPort = M3.srcPort",
        lambda: _union_pairs(_of("M1"), _of("M2").union(_of("C")), "1m"),
    ),
    Case(
        "8-5",
        "SELECT count(*) [RANGE 5 minutes, SLIDE 1 minute, WA ts] FROM M1 UNION M2 UNION C",
        lambda: (_of("M1").union(_of("M2"), _of("C")).window(range="5m", slide="1m")).aggregate(
            count=gl.count()
        ),
    ),
)


def packets(rng: random.Random, count: int = 25) -> list[tuple[object, ...]]:
    """Some packets of one link, within an hour: few hosts, so that flows meet."""
    hosts = ("202.101.0.0", "202.101.0.1", "10.0.0.7")
    found: list[tuple[object, ...]] = []
    for _ in range(count):
        # Seconds in bunches, so that windows of seconds and of minutes both have several.
        ts = rng.choice((0, 60, 61, 119, 400, 600, 1200)) + rng.randrange(4)
        src, dest = rng.choice(hosts), rng.choice(hosts)
        size = rng.randrange(1500)
        found.append((ts, src, rng.choice((80, 443)), dest, rng.choice((80, 443)), size, size))
    return found
