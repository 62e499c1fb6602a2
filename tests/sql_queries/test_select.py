"""What a SELECT becomes: the query that one would write by hand."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import gapless as gl
from gapless.engine.query import Query

FLOWS = gl.source(
    "flows", {"ts": "timestamp[ms]", "src": "int32", "len": "int32", "proto": "string"}, time="ts"
)
HOSTS = gl.source("hosts", {"at": "timestamp[ms]", "id": "int32", "name": "string"}, time="at")
SOURCES = {"flows": FLOWS, "hosts": HOSTS}
LEN, SRC = gl.col("len"), gl.col("src")
BIG = FLOWS.window(range="10s", slide="1s").group_by("src").aggregate(n=gl.count())
NAMED = HOSTS.window(range="1h").select("id")


def made(text: str) -> Query:
    return gl.sql(text, SOURCES)


SAME: dict[str, Callable[[], Query]] = {
    "SELECT * FROM flows": lambda: FLOWS,
    "select SRC, Len from FLOWS": lambda: FLOWS.select("src", "len"),
    "SELECT f.src AS s, len * 8 AS bits FROM flows f WHERE len > 3 AND src IN (1, 2)": lambda: (
        FLOWS.where((LEN > 3) & SRC.is_in([1, 2])).select(s=SRC, bits=LEN * 8)
    ),
    "SELECT src FROM (SELECT src, len FROM flows) AS f WHERE f.len > 3": lambda: (
        FLOWS.select("src", "len").where(LEN > 3).select("src")
    ),
    "WITH f AS (SELECT src AS s FROM flows) SELECT s + 1 AS t FROM f": lambda: FLOWS.select(
        s=SRC
    ).select(t=gl.col("s") + 1),
    "CREATE VIEW f(s) AS SELECT src FROM flows; SELECT s FROM f": lambda: FLOWS.select(
        "src"
    ).select(s=SRC),
    "SELECT src, count(*) AS n FROM flows [RANGE 10 s, SLIDE 1 s] GROUP BY src": lambda: BIG,
    "SELECT src, count(*) AS n FROM TABLE(HOP(TABLE flows, DESCRIPTOR(ts),"
    " INTERVAL '1' SECOND, INTERVAL '10' SECONDS)) GROUP BY window_start, window_end, src": (
        lambda: BIG
    ),
    "SELECT src, count(*) AS n FROM HOP(flows, ts, INTERVAL '1 second', INTERVAL 10 SECOND)"
    " GROUP BY src, window_start": lambda: BIG,
    "SELECT src, count(*) AS n FROM HOP(DATA => TABLE flows, TIMECOL => DESCRIPTOR(ts),"
    " SIZE => INTERVAL '10' SECOND, SLIDE => INTERVAL '1' SECOND) GROUP BY src, window_start": (
        lambda: BIG
    ),
    "SELECT src, count(*) AS n FROM flows [RANGE 10 s, SLIDE 1 s] GROUP BY 1 HAVING count(*) > 3": (
        lambda: BIG.where(gl.col("n") > 3)
    ),
    "SELECT count(*) AS n, src FROM flows [RANGE 10 s, SLIDE 1 s] GROUP BY src"
    " ORDER BY n DESC LIMIT 3": lambda: BIG.select("n", "src").top_k(3, by="n"),
    "SELECT src, sum(len * 8) / count(*) AS mean FROM flows [RANGE TUMBLING 5 minutes]"
    " GROUP BY src": lambda: (
        FLOWS.map(arg_1=LEN * 8)
        .window(range="5m", slide="5m")
        .group_by("src")
        .aggregate(agg_1=gl.sum("arg_1"), agg_2=gl.count())
        .select("src", mean=gl.col("agg_1") / gl.col("agg_2"))
    ),
    "SELECT len % 10 AS last, count(DISTINCT src) AS srcs, avg(len) FROM"
    " TUMBLE(flows, ts, INTERVAL '1' MINUTE) GROUP BY window_end, last": lambda: (
        FLOWS.map(last=LEN.remainder(10))
        .window(range="1m", slide="1m")
        .group_by("last")
        .aggregate(srcs=gl.count_distinct("src"), avg=gl.mean("len"))
    ),
    "SELECT count(*) FILTER (WHERE len > 3) AS n, stddev(len), max_by(src, len * 2) AS top,"
    " string_agg(proto, '-') FROM flows [RANGE 5 s]": lambda: (
        FLOWS.map(arg_1=LEN * 2)
        .window(range="5s")
        .aggregate(
            n=gl.count(where=LEN > 3),
            stddev=gl.stddev("len", ddof=1),
            top=gl.arg_max("src", "arg_1"),
            string_agg=gl.string_agg("proto", "-"),
        )
    ),
    "SELECT src, sum(len) AS bytes FROM SESSION(TABLE flows PARTITION BY src, DESCRIPTOR(ts),"
    " INTERVAL '30' SECOND) GROUP BY src, window_start, window_end": lambda: (
        FLOWS.window(session="30s", partition_by="src")
        .group_by("src")
        .aggregate(bytes=gl.sum("len"))
    ),
    "SELECT count(*) AS n, max(len * 2) AS most FROM TABLE(SESSION(TABLE flows, DESCRIPTOR(ts),"
    " INTERVAL '30' SECOND)) GROUP BY window_end": lambda: (
        FLOWS.map(arg_1=LEN * 2).window(session="30s").aggregate(n=gl.count(), most=gl.max("arg_1"))
    ),
    "SELECT src, n FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY src ORDER BY n DESC) AS r FROM"
    " (SELECT src, count(*) AS n FROM flows [RANGE 10 s, SLIDE 1 s] GROUP BY src)) WHERE r <= 3"
    " AND n > 1": lambda: (
        BIG.top(3, by="n", within="src", rank="r").where(gl.col("n") > 1).select("src", "n")
    ),
    "SELECT * FROM (SELECT src, ROW_NUMBER() OVER (ORDER BY n) AS r, n FROM (SELECT src,"
    " count(*) AS n FROM flows [RANGE 10 s, SLIDE 1 s] GROUP BY src)) WHERE r = 1": lambda: BIG.top(
        1, by="n", largest=False, rank="r"
    ).select("src", "r", "n"),
    "SELECT * FROM (SELECT *, ROW_NUMBER() OVER (ORDER BY n DESC NULLS FIRST, src ASC) AS r FROM"
    " (SELECT src, count(*) AS n FROM flows [RANGE 10 s, SLIDE 1 s] GROUP BY src)) WHERE r < 3": (
        lambda: BIG.top(2, by=[gl.desc("n", nulls="first"), gl.asc("src")], rank="r")
    ),
    "SELECT src, count(*) AS n FROM flows [RANGE 10 s, SLIDE 1 s] GROUP BY src"
    " ORDER BY n, 1 DESC NULLS LAST FETCH FIRST 3 ROWS ONLY": lambda: BIG.top_k(
        3, by=[gl.asc("n"), "src"]
    ),
    "SELECT src, len FROM (SELECT src, len, ROW_NUMBER() OVER (PARTITION BY src ORDER BY ts DESC)"
    " AS r FROM flows) WHERE r = 1": lambda: FLOWS.latest_by("src").select("src", "len"),
    "SELECT src, len FROM (SELECT src, len, ROW_NUMBER() OVER (PARTITION BY src ORDER BY ts) AS r"
    " FROM flows) WHERE r = 1": lambda: FLOWS.dedupe("src").select("src", "len"),
    "WITH f AS (SELECT *, ROW_NUMBER() OVER (PARTITION BY src, len ORDER BY ts ASC) AS r FROM"
    " flows) SELECT * FROM f WHERE r <= 1": lambda: FLOWS.dedupe("src", "len").map(r=gl.lit(1)),
    "CREATE VIEW f AS SELECT src, n, ROW_NUMBER() OVER (ORDER BY n DESC) FROM (SELECT src, count(*)"
    " AS n FROM flows [RANGE 10 s, SLIDE 1 s] GROUP BY src); SELECT g.c FROM f AS g(a, b, c)"
    " WHERE g.c BETWEEN 2 AND 3 AND b > 1": lambda: (
        BIG.top(3, by="n", rank="row_number")
        .where(gl.col("row_number").between(2, 3) & (gl.col("n") > 1))
        .select(c=gl.col("row_number"))
    ),
    "SELECT src, len FROM flows QUALIFY 1 >= ROW_NUMBER() OVER (PARTITION BY src ORDER BY ts)": (
        lambda: FLOWS.dedupe("src").select("src", "len")
    ),
    "SELECT src, ROW_NUMBER() OVER (PARTITION BY window_end ORDER BY count(*) DESC) AS r FROM HOP("
    "flows, ts, INTERVAL '1' SECOND, INTERVAL '10' SECOND) GROUP BY src, window_end"
    " QUALIFY r < 3": lambda: (
        FLOWS.window(range="10s", slide="1s")
        .group_by("src")
        .aggregate(order_1=gl.count())
        .top(2, by="order_1", rank="r")
        .select("src", "r")
    ),
    "SELECT src FROM flows [RANGE 10 s, SLIDE 1 s] GROUP BY src ORDER BY count(*) DESC LIMIT 3": (
        lambda: (
            FLOWS.window(range="10s", slide="1s")
            .group_by("src")
            .aggregate(order_1=gl.count())
            .top_k(3, by="order_1")
            .select("src")
        )
    ),
    "SELECT src, count(*) AS n FROM flows [RANGE 10 s, SLIDE 1 s] GROUP BY src"
    " ORDER BY count(*) DESC, flows.src LIMIT 3": lambda: BIG.top_k(3, by=["n", gl.asc("src")]),
    "SELECT src AS s FROM flows f [RANGE 5 s] ORDER BY f.len + 1 LIMIT 3": lambda: (
        FLOWS.window(range="5s")
        .select(s=SRC, order_1=LEN + 1)
        .top_k(3, by="order_1", largest=False)
        .select("s")
    ),
    "SELECT src, count(*) AS n FROM flows [RANGE 10 s, SLIDE 1 s] GROUP BY src"
    " HAVING n > 3 AND src < 9": lambda: BIG.where(gl.col("n") > 3).where(SRC < 9),
    "SELECT src, max(len) + 1 AS len FROM flows [RANGE 5 s] GROUP BY src HAVING len > 3": lambda: (
        FLOWS.window(range="5s")
        .group_by("src")
        .aggregate(agg_1=gl.max("len"))
        .where(gl.col("agg_1") + 1 > 3)
        .select("src", len=gl.col("agg_1") + 1)
    ),
    "SELECT src, count(*) AS n FROM flows GROUP BY HOP(ts, INTERVAL '1' SECOND, INTERVAL '10'"
    " SECOND), src": lambda: BIG,
    "SELECT TUMBLE_START(ts, INTERVAL '10' SECOND) AS w, src, count(*) AS n FROM flows GROUP BY"
    " src, TUMBLE(ts, INTERVAL '10' SECOND) HAVING n > 1 AND TUMBLE_END(ts, INTERVAL '10' SECOND)"
    " > TIMESTAMP '1970-01-01'": lambda: (
        FLOWS.window(range="10s", slide="10s")
        .group_by("src")
        .aggregate(w=gl.window_start(), n=gl.count(), window_end=gl.window_end())
        .where(gl.col("n") > 1)
        .where(gl.col("window_end") > gl.lit(pa.scalar(0, pa.timestamp("us"))))
        .select("w", "src", "n")
    ),
    "SELECT src, count(*) AS n FROM flows GROUP BY SESSION(ts, INTERVAL '30' SECOND), src"
    " ORDER BY SESSION_ROWTIME(ts, INTERVAL '30' SECOND) LIMIT 3": lambda: (
        FLOWS.window(session="30s", partition_by="src")
        .group_by("src")
        .aggregate(n=gl.count(), order_1=gl.window_time())
        .top_k(3, by="order_1", largest=False)
        .select("src", "n")
    ),
    "SELECT src, count(*) AS n FROM flows [RANGE 10 s, SLIDE 1 s] GROUP BY ALL": lambda: BIG,
    "SELECT src FROM flows WHERE ts >= '1970-01-02' AND '7' < len": lambda: FLOWS.where(
        (gl.col("ts") >= gl.lit(pa.scalar(86_400_000, pa.timestamp("ms"))))
        & (gl.lit(7, "int32") < LEN)
    ).select("src"),
    "SELECT src FROM flows WHERE ts BETWEEN '1970-01-01' AND '1970-01-02' AND len IN ('7')": (
        lambda: FLOWS.where(
            gl.col("ts").between(*(pa.scalar(t, pa.timestamp("ms")) for t in (0, 86_400_000)))
            & LEN.is_in([7])
        ).select("src")
    ),
    "SELECT array_agg(len ORDER BY ts) AS a, listagg(proto), first_value(len) FROM flows [RANGE 5 s"
    ", SLIDE 5 s]": lambda: FLOWS.window(range="5s", slide="5s").aggregate(
        a=gl.array_agg("len"), listagg=gl.string_agg("proto"), first_value=gl.first("len")
    ),
    "SELECT sum(len * 8) AS s, max(len * 8) AS m, sum(len * 8) / 2 AS h FROM flows [RANGE 5 s]": (
        lambda: (
            FLOWS.map(arg_1=LEN * 8)
            .window(range="5s")
            .aggregate(s=gl.sum("arg_1"), m=gl.max("arg_1"))
            .select("s", "m", h=gl.col("s") / 2)
        )
    ),
    "SELECT count(*) AS n FROM HOP(flows, ts, INTERVAL '00:01:30.5', INTERVAL '1 day 2 hours"
    " 00:03:00') GROUP BY window_start": lambda: FLOWS.window("93780s", "90500ms").aggregate(
        n=gl.count()
    ),
    "SELECT count(*) AS n FROM TUMBLE(flows, ts, INTERVAL '1 hour 30 minutes') GROUP BY"
    " window_start": lambda: FLOWS.window("90m", "90m").aggregate(n=gl.count()),
    "SELECT window_start, window_end AS e, src, count(*) AS n FROM TUMBLE(flows, ts, INTERVAL '10'"
    " SECOND) GROUP BY window_start, window_end, src HAVING count(*) > 1": lambda: (
        FLOWS.window(range="10s", slide="10s")
        .group_by("src")
        .aggregate(window_start=gl.window_start(), e=gl.window_end(), n=gl.count())
        .where(gl.col("n") > 1)
        .select("window_start", "e", "src", "n")
    ),
    "CREATE VIEW tens AS SELECT window_time, count(*) AS n FROM TUMBLE(flows, ts, INTERVAL '10'"
    " SECOND) GROUP BY window_start, window_end, window_time; SELECT sum(n) AS n FROM TABLE(TUMBLE("
    "TABLE tens, DESCRIPTOR(window_time), INTERVAL '1' MINUTE)) GROUP BY window_start": lambda: (
        FLOWS.window(range="10s", slide="10s")
        .aggregate(window_time=gl.window_time(), n=gl.count())
        .window(range="1m", slide="1m", on="window_time")
        .aggregate(n=gl.sum("n"))
    ),
    "SELECT src, count(*) AS n FROM TABLE(CUMULATE(TABLE flows, DESCRIPTOR(ts),"
    " INTERVAL '10' MINUTE, INTERVAL '1' HOUR)) GROUP BY window_start, window_end, src": lambda: (
        FLOWS.window("all", "10m", restart="1h").group_by("src").aggregate(n=gl.count())
    ),
    "SELECT window_start, count(*) AS n FROM CUMULATE(DATA => TABLE flows, TIMECOL =>"
    " DESCRIPTOR(ts), SIZE => INTERVAL '1' DAY, STEP => INTERVAL '1' HOUR, OFFSET =>"
    " INTERVAL '-2' HOUR) GROUP BY window_start, window_end": lambda: FLOWS.window(
        "all", "1h", restart="1d", origin="22h"
    ).aggregate(window_start=gl.window_start(), n=gl.count()),
    "SELECT * FROM CUMULATE(flows, ts, INTERVAL '5' SECOND, INTERVAL '10' SECOND)": lambda: (
        FLOWS.window("all", "5s", restart="10s").bucket(
            window_start=gl.window_start(),
            window_end=gl.window_end(),
            window_time=gl.window_time(),
        )
    ),
    "SELECT src, count(*) AS n FROM TUMBLE(flows, ts, INTERVAL '15 minutes', INTERVAL '5 minutes')"
    " GROUP BY src, window_start": lambda: (
        FLOWS.window("15m", "15m", origin="5m").group_by("src").aggregate(n=gl.count())
    ),
    "SELECT src, count(*) AS n FROM TABLE(HOP(TABLE flows, DESCRIPTOR(ts), INTERVAL '1' SECOND,"
    " INTERVAL '10' SECOND, -INTERVAL '0.3' SECOND)) GROUP BY window_start, window_end, src": (
        lambda: FLOWS.window("10s", "1s", origin=700).group_by("src").aggregate(n=gl.count())
    ),
    "SELECT src, count(*) AS n FROM HOP(flows, ts, INTERVAL '1' SECOND, INTERVAL '10' SECOND,"
    " INTERVAL '3' SECOND) GROUP BY src, window_start": lambda: BIG,
    "SELECT * FROM TUMBLE(flows, ts, INTERVAL '10' SECOND)": lambda: FLOWS.window(
        range="10s", slide="10s"
    ).bucket(
        window_start=gl.window_start(),
        window_end=gl.window_end(),
        window_time=gl.window_time(),
    ),
    "SELECT w.len, w.window_end FROM HOP(flows, ts, INTERVAL '5' SECOND, INTERVAL '10' SECOND) w"
    " WHERE len > 3": lambda: (
        FLOWS.window(range="10s", slide="5s")
        .where(LEN > 3)
        .bucket(window_end=gl.window_end())
        .select("len", "window_end")
    ),
    "SELECT src, count(*) AS n, sum(len * 8) AS bits FROM flows GROUP BY src": lambda: (
        FLOWS.map(arg_1=LEN * 8)
        .window(range="all", slide=gl.rows(1), partition_by="src")
        .group_by("src")
        .aggregate(n=gl.count(), bits=gl.sum("arg_1"))
    ),
    "SELECT count(*) AS n FROM flows": lambda: FLOWS.window(
        range="all", slide=gl.rows(1)
    ).aggregate(n=gl.count()),
    "SELECT src FROM flows GROUP BY src": lambda: FLOWS.window(range="all").distinct("src"),
    "SELECT max(len) FROM flows [RANGE 100 rows, SLIDE 1 min, RATTR row-num, SATTR ts]": lambda: (
        FLOWS.window(range=gl.rows(100), slide="1m").aggregate(max=gl.max("len"))
    ),
    "SELECT src, ts, sum(len) OVER (PARTITION BY src ORDER BY ts ROWS BETWEEN 9 PRECEDING AND"
    " CURRENT ROW) AS bytes, 1 + count(*) OVER (PARTITION BY src ORDER BY ts ROWS BETWEEN 9"
    " PRECEDING AND CURRENT ROW) AS n FROM flows WHERE len > 3": lambda: (
        FLOWS.where(LEN > 3)
        .window(range=gl.rows(10), slide=gl.rows(1), partition_by="src")
        .group_by("src")
        .aggregate(ts=gl.max("ts"), bytes=gl.sum("len"), agg_1=gl.count())
        .select("src", "ts", "bytes", n=gl.lit(1) + gl.col("agg_1"))
    ),
    "SELECT avg(len) OVER (ORDER BY ts RANGE INTERVAL '5' SECOND PRECEDING) AS mean FROM flows": (
        lambda: FLOWS.window(range=5_001, slide=gl.rows(1)).aggregate(mean=gl.mean("len"))
    ),
    "SELECT max(len) OVER (ORDER BY ts) AS most FROM flows": lambda: FLOWS.window(
        range="all", slide=gl.rows(1)
    ).aggregate(most=gl.max("len")),
    "SELECT DISTINCT src FROM flows": lambda: FLOWS.window(range="all").distinct("src"),
    "SELECT DISTINCT src FROM flows [RANGE 5 s]": lambda: FLOWS.window(range="5s").distinct("src"),
    "SELECT src FROM flows UNION ALL SELECT id FROM hosts UNION ALL SELECT len FROM flows": (
        lambda: FLOWS.select("src").union(
            HOSTS.select("id").select(src=gl.col("id")), FLOWS.select("len").select(src=LEN)
        )
    ),
    "SELECT src, len FROM flows WHERE len > 3 AND src IN (SELECT id FROM hosts [RANGE 1 h])": (
        lambda: (
            FLOWS.where(LEN > 3)
            .join(NAMED.where(gl.col("id").is_valid()).distinct(), on=[("src", "id")])
            .select("src", "len")
        )
    ),
    "SELECT src FROM flows WHERE proto ~ '^t'": lambda: FLOWS.where(
        gl.col("proto").str.matches("^t")
    ).select("src"),
    "SELECT src FROM flows EXCEPT ALL SELECT id FROM hosts": lambda: (
        FLOWS.select("src")
        .window(range="all")
        .difference(HOSTS.select("id").window(range="all").select(src=gl.col("id")))
    ),
    "SELECT name, count(*) AS n FROM (SELECT f.ts, name FROM flows f, hosts [RANGE 1 h] h"
    " WHERE f.src = h.id AND f.len > 3 AND h.name <> 'x') j [RANGE 10 s, SLIDE 10 s, WA ts]"
    " GROUP BY name": lambda: (
        FLOWS.where(LEN > 3)
        .join(HOSTS.window(range="1h").where(gl.col("name") != "x"), on=[("src", "id")])
        .select("ts", "name")
        .window(range="10s", slide="10s", on="ts")
        .group_by("name")
        .aggregate(n=gl.count())
    ),
    "SELECT len, name FROM flows JOIN hosts FOR SYSTEM_TIME AS OF flows.ts ON src = id": lambda: (
        FLOWS.join(HOSTS.latest_by("id"), on=[("src", "id")]).select("len", "name")
    ),
    "SELECT * FROM flows LEFT JOIN hosts ON src = id AND at BETWEEN ts - INTERVAL '2' SECOND AND ts"
    " + INTERVAL '1' MINUTE": lambda: FLOWS.window(range=60_001).join(
        HOSTS.window(range=2_001), on=[("src", "id")], how="left"
    ),
    "SELECT * FROM flows JOIN hosts ON src = id AND at > ts AND at < ts + INTERVAL '5' MINUTE": (
        lambda: FLOWS.window(range="5m").join(HOSTS, on=[("src", "id")], where=_later(60 * 5))
    ),
    "SELECT len FROM flows JOIN hosts h ON src = h.id AND ts = at": lambda: FLOWS.join(
        HOSTS, on=[("src", "id")]
    ).select("len"),
    "SELECT src FROM flows [RANGE 5 s] LEFT JOIN hosts [RANGE 5 s] h ON src = h.id"
    " WHERE h.id IS NULL": lambda: (
        FLOWS.window(range="5s")
        .join(HOSTS.window(range="5s").map(id_right=gl.col("id")), on=[("src", "id")], how="left")
        .where(gl.col("id_right").is_null())
        .select("src")
    ),
    "SELECT l.src FROM TUMBLE(flows, ts, INTERVAL '5' SECOND) l JOIN"
    " TUMBLE(hosts, at, INTERVAL '5' SECOND) r ON l.src = r.id AND l.window_start = r.window_start"
    " AND l.window_end = r.window_end": lambda: (
        FLOWS.window(range="5s", slide="5s")
        .join(HOSTS.window(range="5s", slide="5s"), on=[("src", "id")])
        .select("src")
    ),
    "CREATE TABLE t (ts TIMESTAMP(3) NOT NULL, x BIGINT, WATERMARK FOR ts AS ts -"
    " INTERVAL '5' SECOND); SELECT x FROM t": lambda: gl.source(
        "t",
        pa.schema([pa.field("ts", pa.timestamp("ms"), False), pa.field("x", pa.int64())]),
        time="ts",
        lateness="5s",
    ).select("x"),
    "CREATE TABLE t (ts BIGINT, Start BIGINT, WATERMARK FOR start AS TS - INTERVAL '60' SECOND,"
    " WATERMARK FOR ts AS ts); SELECT count(*) AS n [RANGE 5 s, SLIDE 5 s, WA Start]"
    " FROM t": lambda: (
        gl.source(
            "t", {"ts": "int64", "Start": "int64"}, time="ts", lateness=0, progress={"Start": "60s"}
        )
        .window(range="5s", slide="5s", on="Start")
        .aggregate(n=gl.count())
    ),
    "CREATE TABLE t (ts TIMESTAMP, WATERMARK FOR ts); SELECT * FROM t": lambda: gl.source(
        "t", {"ts": "timestamp[us]"}, time="ts"
    ),
}


def _later(seconds: int) -> gl.Expr:
    at, ts = gl.col("at"), gl.col("ts")
    return (at > ts) & (at < ts + gl.lit(pa.scalar(seconds, pa.duration("s"))))


@pytest.mark.parametrize("text", SAME)
def test_the_text_is_the_query_by_hand(text: str) -> None:
    query, by_hand = made(text), SAME[text]()
    assert query.same_as(by_hand), f"{query.explain()}\n{by_hand.explain()}"


def longest(values: pa.Array) -> pa.Array:
    return pc.multiply(values, 2)


def test_in_a_subquery_neither_doubles_a_row_nor_finds_null() -> None:
    hosts = pa.table(
        {
            "at": pa.array([0, 1, 5, 90], pa.timestamp("ms")),
            "id": pa.array([1, 1, None, 2], pa.int32()),
            "name": ["a", "b", "c", "d"],
        }
    )
    flows = pa.table(
        {
            "ts": pa.array([10, 20, 30, 95, 4_000_000], pa.timestamp("ms")),
            "src": pa.array([1, None, 2, 2, 1], pa.int32()),
            "len": pa.array([1, 2, 3, 4, 5], pa.int32()),
            "proto": ["tcp"] * 5,
        }
    )
    query = made("SELECT len FROM flows WHERE src IN (SELECT id FROM hosts [RANGE 1 h])")
    answer = gl.execute(query, {"flows": flows, "hosts": hosts}).to_arrow()
    assert sorted(answer["len"].to_pylist()) == [1, 4]


def test_functions_of_the_user_are_called_by_their_names() -> None:
    functions = {"Twice": (longest, "int32")}
    query = gl.sql("SELECT src, twice(len) FROM flows", SOURCES, functions=functions)
    by_hand = FLOWS.select("src", twice=gl.function(longest, "len", returns="int32"))
    assert query.same_as(by_hand)


def test_functions_come_with_a_type() -> None:
    with pytest.raises(gl.Misuse, match="give it with the type"):
        gl.sql("SELECT src FROM flows", SOURCES, functions={"twice": longest})


def test_a_star_of_a_table_has_its_columns() -> None:
    query = made("SELECT h.*, len FROM flows, hosts [RANGE 1 h] h WHERE flows.src = h.id")
    assert query.schema.names == ["at", "id", "name", "len"]


@pytest.mark.parametrize("text", ["", ";", "CREATE VIEW f AS SELECT src FROM flows"])
def test_a_text_without_a_query_is_refused(text: str) -> None:
    with pytest.raises(gl.Misuse, match="0 queries"):
        made(text)


def test_sources_are_queries() -> None:
    with pytest.raises(gl.Misuse, match="not a query"):
        gl.sql("SELECT 1", {"flows": "flows.parquet"})  # type: ignore[dict-item]  # on purpose
