"""What cannot be a query: the error names the place, shows it, and says what to write instead."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

import gapless as gl
from tests.sql_queries.test_select import FLOWS, SOURCES

BAD = {
    "SELECT len FROM flows [RANGE 5 min, RATTR ts, SLIDE 5 rows, SATTR ^rank(len)]": (
        "rank.. orders rows by the column of RATTR"
    ),
    "SELECT * FROM CUMULATE(flows, ts, INTERVAL '7' SECOND, ^INTERVAL '1' HOUR)": (
        "the size of CUMULATE is a multiple of its step"
    ),
    "SELECT * FROM ^TUMBLE(flows, ts, INTERVAL '0' SECOND)": (
        "the length of a window is more than nothing"
    ),
    **dict.fromkeys(
        (
            f"CREATE TABLE t (a INT, WATERMARK FOR a AS a - ^INTERVAL '{length}')"
            for length in ("", "1", "1 hour 30", "1:30", "01:90:00", "01:30:00 1 day", "1h -2m")
        ),
        "this is not a length of time",
    ),
    "SELECT * FROM ^CUMULATE(flows, ts, INTERVAL '1' HOUR)": "CUMULATE needs SIZE",
    "SELECT * FROM TUMBLE(flows, ts, INTERVAL '5' MINUTE, ^5)": ("a length of time is wanted here"),
    "SELECT count(*) ^[RANGE 5 min, SLIDE 1 min, WA f.ts, PA src] FROM flows [RANGE 1 s] f, hosts"
    " WHERE src = id": "PA divides the rows of one table, and this is a join",
    "SELECT len FROM flows ^[RANGE 5 minutes, WA len]": "nothing is promised of that column",
    "SELECT len FROM flows ^ORDER BY len LIMIT 3": "a stream without a window has no first rows",
    "SELECT len FROM flows ^LIMIT 3": "a stream without a window has no first rows",
    "SELECT len FROM flows [RANGE 5 s] ^ORDER BY len": "say how many with LIMIT",
    "SELECT len FROM flows [RANGE 5 s] ^LIMIT 3": "say which with ORDER BY",
    "SELECT f.len FROM flows f ^JOIN hosts h ON f.src = h.id": "nothing bounds this join",
    "SELECT f.len FROM flows f ^JOIN hosts h ON f.src = h.id AND f.ts > h.at": (
        "compared in one direction only"
    ),
    "SELECT f.len FROM flows f, (SELECT id FROM hosts WHERE ^f.src = id) h": "its own FROM: join",
    "SELECT len FROM flows WHERE ^EXISTS (SELECT 1 FROM hosts)": "EXISTS is not supported: write x",
    "SELECT len FROM flows WHERE len IN (SELECT ^id FROM hosts)": "give their table a window",
    "SELECT len FROM flows WHERE ^len NOT IN (SELECT id FROM hosts [RANGE 1 h])": "LEFT JOIN",
    "SELECT len FROM flows WHERE ^len + 1 IN (SELECT id FROM hosts [RANGE 1 h])": "stands a column",
    "SELECT len FROM flows WHERE len IN (SELECT ^id, at FROM hosts [RANGE 1 h])": "gives 2",
    "SELECT len FROM flows f WHERE len IN (SELECT id FROM hosts [RANGE 1 h] WHERE ^f.src = id)": (
        "its own FROM: join"
    ),
    "SELECT count(*) FROM TUMBLE(flows, ts, INTERVAL '5' SECOND) WHERE ^src IN (SELECT id FROM"
    " hosts [RANGE 1 h]) GROUP BY window_start": "goes before the window",
    "SELECT len FROM flows f ^ASOF JOIN hosts h ON f.src = h.id AND f.ts >= h.at": (
        "JOIN h FOR SYSTEM_TIME AS OF f.ts"
    ),
    "SELECT ^TUMBLE(ts, INTERVAL '1' MINUTE) AS w FROM flows": "stands in FROM",
    "SELECT count(*) FROM flows GROUP BY ^TUMBLE(ts)": "write TUMBLE.ts, INTERVAL",
    "SELECT ^TUMBLE_START(ts, INTERVAL '2' HOUR) AS w FROM flows GROUP BY TUMBLE(ts, INTERVAL '1'"
    " HOUR)": "GROUP BY has no such window",
    "SELECT ^HOP_END(ts, INTERVAL '1' HOUR) AS w FROM flows GROUP BY TUMBLE(ts, INTERVAL '1' HOUR"
    ")": "GROUP BY has no such window",
    "SELECT ^TUMBLE_PROCTIME(ts, INTERVAL '1' HOUR) AS w FROM flows GROUP BY TUMBLE(ts, INTERVAL"
    " '1' HOUR)": "a query has no clock: write TUMBLE_ROWTIME",
    "SELECT count(*) FROM flows GROUP BY TUMBLE(ts, INTERVAL '1' HOUR), ^SESSION(ts, INTERVAL '1'"
    " HOUR)": "two windows in one GROUP BY",
    "SELECT count(*) FROM flows GROUP BY SESSION(ts, INTERVAL '1' HOUR), ^src + 1": (
        "beside SESSION stand columns"
    ),
    "SELECT count(*) FROM flows [RANGE 5 s] GROUP BY ^TUMBLE(ts, INTERVAL '1' HOUR)": (
        "in a window already"
    ),
    "CREATE TABLE t (a ^DECIMAL(99, 2), WATERMARK FOR a)": "p from 1 to 38",
    "CREATE TABLE t (a ^DECIMAL(2, 9), WATERMARK FOR a)": "s up to p",
    "CREATE TABLE t (at BIGINT, WATERMARK FOR ^att)": "no column 'att': did you mean at",
    "CREATE VIEW v(a, b) AS SELECT src FROM flows": "there are 1 columns to name",
    "WITH v(a, ^a) AS (SELECT src, len FROM flows) SELECT * FROM v": "two columns would be called",
    "SELECT ^now() AS n FROM flows": "a query has no clock",
    "SELECT ^lag(len) OVER (ORDER BY ts) AS n FROM flows": "lag.. is not supported",
    "SELECT ^rank() OVER (ORDER BY len) AS n FROM flows [RANGE 5 s]": "ROW_NUMBER.. in a query",
    "SELECT ^percentile_cont(0.5) WITHIN GROUP (ORDER BY len) AS m FROM flows": "exact_quantile",
    "SELECT DISTINCT ON (src) len FROM flows [RANGE 5 s]": "ROW_NUMBER",
    "^EXPLAIN flows": "EXPLAIN takes a query",
    "SELECT len, ^(SELECT id FROM hosts) AS id FROM flows": "a subquery stands in FROM",
    "WITH RECURSIVE ^f AS (SELECT len FROM flows) SELECT len FROM f": "RECURSIVE is not supported",
    "SELECT DISTINCT src FROM flows [RANGE 5 s] ORDER BY ^len LIMIT 3": "by what it selects",
    "SELECT src FROM flows QUALIFY ^len > 3": "QUALIFY is of ROW_NUMBER",
    "SELECT src, row_number() OVER (PARTITION BY src ORDER BY ts) AS r FROM flows QUALIFY ^r = 1"
    " AND len > 3": "QUALIFY says how many rows",
    "SELECT src FROM (SELECT src, ^row_number() OVER (PARTITION BY src ORDER BY ts) AS r FROM flows"
    ") WHERE r <= 2": "take the first or the last row of each key",
    "SELECT src, count(*) FROM flows [RANGE 5 s] GROUP BY ^ROLLUP(src)": "ROLLUP is not supported",
    "^UPDATE flows SET len = 3": "rows come from outside and do not change",
    "^DROP TABLE flows": "no statement begins with DROP",
    "SELECT ^conut(*) FROM flows": "no function 'conut': did you mean .*count",
    "SELECT ^lenn FROM flows": "no column 'lenn': did you mean len",
    "SELECT len FROM ^flwos": "no table 'flwos': did you mean flows",
    'SELECT len FROM flows WHERE proto = ^"tcp"': "a text stands in single quotes",
    "SELECT ^len FROM flows [RANGE 5 s] a, flows [RANGE 5 s] b WHERE a.src = b.src": (
        "'len' is ambiguous: say a.len or b.len"
    ),
    "SELECT f.len FROM flows [RANGE 5 s] f^, hosts f": "two tables are called 'f'",
    "SELECT count(*) ^[RANGE 5 s] FROM flows [RANGE 5 s]": "in a window already",
    "SELECT count(*) AS n [RANGE 5 s], max(len) ^[RANGE 5 s] FROM flows": "two windows",
    "SELECT count(*) FROM TUMBLE(flows, ts, INTERVAL '5' SECOND) GROUP BY ^src": (
        "the window has to be named: GROUP BY window_start"
    ),
    "SELECT src FROM flows [RANGE 5 s] GROUP BY ^proto, src HAVING len > 3": None,
    "SELECT ^len, count(*) FROM flows [RANGE 5 s] GROUP BY src": "neither in GROUP BY nor",
    "SELECT sum(^count(*)) FROM flows [RANGE 5 s]": "an aggregate of an aggregate",
    "SELECT len FROM flows WHERE ^count(*) > 3": "is an aggregate: .* HAVING",
    "SELECT ^len + 1 FROM flows": "this column has no name: give it one with AS",
    "SELECT len, src AS len FROM flows": "two columns would be called 'len'",
    "SELECT len FROM flows WHERE ^len = NULL": "write IS NULL",
    "SELECT len FROM flows WHERE ts > ^'yesterday'": "'yesterday' is no timestamp",
    "SELECT len FROM flows WHERE len IN (1, ^'x')": "'x' is no int32",
    "SELECT len FROM flows WHERE ^proto > 5": "string and int64 do not go together",
    "SELECT len, ^ts + 1 AS x FROM flows": "timestamp.ms. and int64 do not go together",
    "SELECT len, ^EXTRACT(hour FROM len) AS x FROM flows": "it does not take int32",
    "SELECT len, ^NULL AS x FROM flows": "CAST.NULL AS INT",
    "SELECT len AS x FROM flows WHERE ^x > 3": "is a name of this select list",
    "SELECT max(len, ^src) FROM flows": "does not take 2 arguments",
    "SELECT array_agg(len ^ORDER BY len) FROM flows [RANGE 5 s]": "in the order of time",
    "SELECT (len ^FROM flows": "\\) is missing before 'FROM'",
    "SELECT len FROM flows WHERE": "something is missing here",
    "SELECT len FROM flows ^SELECT len FROM flows": "'SELECT' is not expected here",
    "CREATE TABLE t ^AS SELECT len FROM flows": "is CREATE VIEW",
    "CREATE TABLE ^IF NOT EXISTS t (a INT)": "leave IF NOT EXISTS out",
    "CREATE ^OR REPLACE VIEW t AS SELECT len FROM flows": "leave OR REPLACE out",
    "CREATE SOURCE t (a INT, WATERMARK FOR a) ^WITH (connector = 'kafka')": "said outside",
    "SELECT ^random() AS x FROM flows": "replicas would draw different ones",
    "SELECT ^CURRENT_DATE AS x FROM flows": "a query has no clock",
    "SELECT ^(len, src) AS x FROM flows": "a row of values",
    "SELECT len FROM flows WHERE ts > ^CURRENT_TIMESTAMP": "a query has no clock",
    "SELECT len FROM flows [RANGE 5 ^s SLIDE 1 s]": None,
    "SELECT len FROM flows ^[SLIDE 1 s]": "a window has a RANGE",
    "SELECT len FROM flows [RANGE ^5 months]": "a month has no fixed length",
    "SELECT len FROM flows [RANGE 5 s, WA ^row-num]": "RANGE is a time",
    "SELECT len FROM flows [^RNGE 5 s]": None,
    "SELECT len FROM flows f ^CROSS JOIN hosts h": "nothing bounds this join",
    "SELECT len FROM flows f ^NATURAL JOIN hosts h": "NATURAL JOIN is not supported",
    "SELECT len FROM flows f ^SEMI JOIN hosts h ON f.src = h.id": "SEMI JOIN is not supported",
    "SELECT len FROM flows, ^WHERE len > 3": None,
    "SELECT len FROM": "the name of a table is missing",
    "SELECT ^TUPLE FROM flows": "no column",
    "SELECT len FROM ^generate_series(1, 3)": "no table function 'generate_series'",
    "SELECT len FROM flows; ^SELECT src FROM hosts LIMIT": None,
    "SELECT 'len FROM flows": "a quote or a comment has no end",
    "CREATE TABLE flows (^a INT, WATERMARK FOR a)": None,
    "^CREATE TABLE t (a INT)": "table t has no WATERMARK",
    "CREATE TABLE t (a BIGINT, b BIGINT, WATERMARK FOR a, WATERMARK FOR ^b)": "has one time",
    "CREATE TABLE t (a BIGINT, b BIGINT, WATERMARK FOR a, WATERMARK FOR ^b AS c)": "write AS a -",
    "CREATE TABLE t (a BIGINT, b INT, WATERMARK FOR a, WATERMARK FOR ^b AS a)": "progress 'b' is",
    "CREATE TABLE t (a ^GEOMETRY, WATERMARK FOR a)": "none of the types",
    "CREATE TABLE t (a INT, WATERMARK FOR a) ^WITH (path = 'x')": "said outside",
    "SELECT src FROM flows ^INTERSECT SELECT id FROM hosts": "INTERSECT is not supported",
    "SELECT src FROM flows ^UNION ALL SELECT name, id FROM hosts": None,
    "SELECT DISTINCT ON (src) len FROM flows": "DISTINCT ON is not supported",
    "SELECT len FROM flows [RANGE 5 s] ORDER BY len LIMIT 3 OFFSET ^3": "OFFSET is not supported",
    "SELECT len FROM flows [RANGE 5 s] ORDER BY len LIMIT ^'3'": None,
    "SELECT abs(^len, 1, 2) AS x FROM flows": None,
    "SELECT ^CAST('x' AS INT) AS n FROM flows": "is no int32",
    "SELECT len FROM (SELECT len, ^row_number() OVER (ORDER BY len) AS r FROM flows) WHERE r < 9": (
        "a stream without a window has no first rows"
    ),
    "SELECT len, ^row_number() OVER (ORDER BY len) AS r FROM flows [RANGE 5 s, SLIDE 5 s]": (
        "in a query around this one: WHERE r <= 3"
    ),
    "WITH f AS (SELECT len, row_number() OVER (ORDER BY len) AS r FROM flows [RANGE 5 s, SLIDE 5 s"
    "]) SELECT len FROM ^f": "in a query around this one: WHERE r <= 3",
    "SELECT len FROM (SELECT len, ^row_number() OVER (ORDER BY len) AS r FROM flows"
    " [RANGE 5 s]) WHERE r < 9": "is said of each window",
    "SELECT ^window_start FROM flows": "FROM TUMBLE",
    "SELECT len, ^window_start FROM flows [RANGE 5 s, SLIDE 5 s]": "beside aggregates",
    "SELECT len FROM flows WHERE ^len BETWEEN SYMMETRIC 3 AND 1": "SYMMETRIC is not supported",
    "SELECT len FROM flows WHERE proto LIKE 'a' ESCAPE 'b'": "ESCAPE is not supported",
    "SELECT ^a.flows.len FROM flows": "with DB is not supported",
    "SELECT proto, ^sum(len) OVER (ORDER BY ts) AS n FROM flows": None,
    "SELECT sum(len) OVER (^ORDER BY len) AS n FROM flows": "OVER goes by time: ORDER BY ts",
    "SELECT sum(len) OVER (ORDER BY ts ROWS BETWEEN ^3 PRECEDING AND 1 FOLLOWING) n FROM flows": (
        "OVER ends with the row"
    ),
    "SELECT ^sum(len) OVER (ORDER BY ts) AS n FROM flows [RANGE 5 s]": "in a window or an answer",
    "SELECT max(len) OVER (ORDER BY ts) AS a, ^max(len) OVER (PARTITION BY src ORDER BY ts) AS b"
    " FROM flows": "the same window",
    "SELECT len FROM flows [RANGE ^1.5 rows]": "no number of rows",
    "SELECT ^src FROM flows [RANGE 5 rows, SLIDE 5 rows]": None,
    "SELECT string_agg(proto, ^proto) FROM flows [RANGE 5 s]": "has to be a constant",
    "SELECT avg(len, ^1, 2) FROM flows [RANGE 5 s]": "does not take 3 arguments",
}


@pytest.mark.parametrize("marked", BAD)
def test_the_error_says_what_and_where(marked: str) -> None:
    said = BAD[marked]
    with pytest.raises(gl.SqlError, match=said) as raised:
        gl.sql(marked.replace("^", ""), SOURCES)
    error = raised.value
    head, line, caret = str(error).rsplit("\n", 2)
    assert head.startswith(f"line {error.line}, column {error.column}: ")
    place = len(caret) - 1
    assert caret == " " * place + "^"
    if "^" in marked and said is not None:
        behind = marked.partition("^")[2][:5].rstrip()
        assert line[place:].startswith(behind), f"{head}\n{line}\n{caret}"


def test_the_line_of_several_is_shown() -> None:
    text = "SELECT src,\n\tlenn\nFROM flows"
    with pytest.raises(gl.SqlError) as raised:
        gl.sql(text, SOURCES)
    assert str(raised.value).splitlines()[1:] == ["   lenn", "   ^"]
    assert (raised.value.line, raised.value.column) == (2, 2)


def test_a_long_line_is_cut_around_the_place() -> None:
    columns = ", ".join(f"len AS a{i}" for i in range(400))
    text = f"SELECT {columns}, lenn FROM flows"  # noqa: S608  # a test's own
    with pytest.raises(gl.SqlError) as raised:
        gl.sql(text, SOURCES)
    _, line, caret = str(raised.value).split("\n")
    assert len(line) < 120
    assert line[caret.index("^") :].startswith("lenn")


@pytest.mark.parametrize("given", [None, 5, b"SELECT len FROM flows"])
def test_what_is_no_text_is_refused(given: Any) -> None:
    with pytest.raises(gl.Misuse, match="a text is wanted"):
        gl.sql(given, SOURCES)


@pytest.mark.parametrize("given", [[FLOWS], FLOWS, {5: FLOWS}])
def test_tables_and_functions_have_names(given: Any) -> None:
    with pytest.raises(gl.Misuse, match="give sources by their names"):
        gl.sql("SELECT len FROM flows", given)
    with pytest.raises(gl.Misuse, match="give functions by their names"):
        gl.sql("SELECT len FROM flows", SOURCES, given)


def test_an_error_goes_through_pickle() -> None:
    with pytest.raises(gl.SqlError) as raised:
        gl.sql("SELECT", SOURCES)
    copy = pickle.loads(pickle.dumps(raised.value))  # noqa: S301  # our own
    assert (str(copy), copy.line, copy.column) == (str(raised.value), 1, raised.value.column)


DEEP = {
    "parentheses": "SELECT " + "(" * 10_000 + "len" + ")" * 10_000 + " AS x FROM flows",
    "subqueries": "SELECT len FROM " + "(SELECT len FROM " * 2_000 + "flows" + ")" * 2_000,
    "not": "SELECT len FROM flows WHERE " + "NOT " * 10_000 + "len > 1",
    "and": "SELECT len FROM flows WHERE " + "len > 1 AND " * 7_000 + "len > 1",
    "minus": "SELECT " + "- " * 10_000 + "len AS x FROM flows",
    "unions": "SELECT len FROM flows" + " UNION ALL SELECT len FROM flows" * 2_000,
    "explain": "EXPLAIN " * 10_000 + "SELECT len FROM flows",
    "cases": "SELECT " + "CASE WHEN len > 1 THEN " * 2_000 + "1" + " END" * 2_000 + " AS x FROM f",
    "casts": "SELECT len" + "::INT" * 10_000 + " AS x FROM flows",
    "long": "SELECT len FROM flows WHERE " + "len > 1 AND " * 90_000 + "len > 1",
}


@pytest.mark.parametrize("what", DEEP)
def test_what_is_too_long_or_too_deep_is_refused(what: str) -> None:
    with pytest.raises(gl.SqlError, match=r"nests deeper|operators one above|are the most"):
        gl.sql(DEEP[what], SOURCES)


def test_many_statements_are_refused() -> None:
    with pytest.raises(gl.SqlError, match="statements, 1000 are the most"):
        gl.sql("SELECT len FROM flows;" * 1_001, SOURCES)  # a text of a test


def test_what_is_within_the_bounds_is_read() -> None:
    text = "SELECT " + "(" * 20 + "len" + ")" * 20 + " AS x FROM (((flows)))"
    assert gl.sql(text, SOURCES).schema.names == ["x"]
