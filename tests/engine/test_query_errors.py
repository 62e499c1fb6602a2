"""What cannot be meant is an error while the query is written, with a sentence that helps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from gapless.engine.functions import function
from gapless.engine.node_base import DEPTH_MAX
from gapless.engine.nodes import NODES_MAX
from gapless.engine.query import Query, race
from gapless.engine.source import source
from gapless.operators.aggregates.calls import count, sum_
from gapless.protocol.errors import ExpressionError, Misuse, SchemaError
from gapless.protocol.expr import call, col, lit
from tests.engine.queries import some_source, twice

Q = source(
    "flows",
    {"ts": "timestamp[ms]", "src": "int32", "len": "int64", "name": "string", "on": "date32"},
    time="ts",
)
HOP = Q.window("10s", "1s")
SECONDS = source("s", {"ts": "int64", "src": "int32", "len": "int64"}, time="ts", time_unit="s")
ANY: Any = Q  # to write what a type checker would refuse


def of(columns: dict[str, str], **more: Any) -> Query:
    return source("a", columns, **{"time": "t", **more})


CASES: dict[str, tuple[Callable[[], Any], type[Misuse], str]] = {
    # -- sources
    "time is unknown": (
        lambda: of({"time": "int64"}, time="tme"),
        SchemaError,
        r"source a: time: no column 'tme' among time \(did you mean 'time'\?\)",
    ),
    "time is no time": (
        lambda: of({"t": "string"}),
        SchemaError,
        r"source a: time 't' is string: a time is an int64, or a timestamp\[ms\]",
    ),
    "time counts days": (
        lambda: of({"t": "date32"}),
        SchemaError,
        r"time 't' is date32\[day\]: a time is an int64",
    ),
    "time is of another unit": (
        lambda: of({"t": "timestamp[us]"}, time_unit="ms"),
        SchemaError,
        (
            r"is timestamp\[us\], and times are in ms: cast it to timestamp\[ms\], or say "
            r"time_unit='us'"
        ),
    ),
    "a name begins with _": (
        lambda: of({"t": "int64", "_x": "int64"}),
        SchemaError,
        "do not start with _",
    ),
    "a source without a name": (
        lambda: source("", {"t": "int64"}, time="t"),
        Misuse,
        "source: '' is not a name",
    ),
    "no such unit": (lambda: of({"t": "int64"}, time_unit="min"), SchemaError, "time unit"),
    "two sources of one name": (
        lambda: some_source("a", 5).union(some_source("a", 6)),
        Misuse,
        "two sources are called 'a' and differ",
    ),
    # -- rows one by one
    "a misspelt column": (
        lambda: Q.where(col("lenn") > 0),
        ExpressionError,
        r"where \(lenn > 0\): no column 'lenn' among ts, src, len, name, on \(did you mean 'len'",
    ),
    "a number as a condition": (
        lambda: Q.where(col("len") + 1),
        ExpressionError,
        r"where \(len \+ 1\): gives int64, a condition gives bool",
    ),
    "types that do not compare": (
        lambda: Q.where(col("name") > 0),
        ExpressionError,
        "has no kernel matching",
    ),
    "a text as a condition": (
        lambda: ANY.where("len > 0"),
        ExpressionError,
        r"'len > 0' is not an expression; write it with gl.col",
    ),
    "a number as a column": (
        lambda: ANY.select(x=1),
        ExpressionError,
        "select x: 1 is not an expression",
    ),
    "an expression without a name": (
        lambda: ANY.select(col("len") + 1),
        ExpressionError,
        r"select: give \(len \+ 1\) a name, as in select\('a', b=\(len \+ 1\)\)",
    ),
    "a column that is not there": (lambda: Q.select("sr"), SchemaError, "did you mean 'src'"),
    "a column twice": (
        lambda: Q.select("src", "src"),
        SchemaError,
        "two columns would be called 'src'",
    ),
    "nothing selected": (Q.select, Misuse, "select: names at least one column"),
    "nothing mapped": (Q.map, Misuse, "map: name at least one column"),
    "a column without a type": (
        lambda: Q.map(x=lit(None)),
        SchemaError,
        r"select x = None: has no type; lit\(None, type\) gives it one",
    ),
    "no such function": (
        lambda: function(3, "len", returns="int64"),  # type: ignore[arg-type]  # meant
        Misuse,
        "3 cannot be called",
    ),
    "a function of nothing": (
        lambda: function(twice, returns="int64"),
        Misuse,
        "name the columns that tests.engine.queries:twice is called with",
    ),
    "a function that returns lists": (
        lambda: function(twice, "len", returns=pa.list_view(pa.int64())),
        SchemaError,
        "is not supported; use list<item: int64>",
    ),
    "a function that returns what nobody knows": (
        lambda: function(twice, "len", returns="int65"),
        SchemaError,
        "Arrow knows no type 'int65'",
    ),
    "a function of columns that are not there": (
        lambda: Q.map(x=function(twice, "lem", returns="int64")),
        ExpressionError,
        "no column 'lem'",
    ),
    # -- lifetimes
    "a window after a window": (
        lambda: HOP.where(col("len") > 0).window("5s"),
        Misuse,
        r"window: its input is in a window already, window\(range=10000, slide=1000\)",
    ),
    "a window on what does not progress": (
        lambda: Q.window("1s", on="len"),
        Misuse,
        "window on='len': nothing is promised of that column.*; ts does",
    ),
    "a window on nothing that progresses": (
        lambda: Q.latest_by("src").select("src").window("1s", on="src"),
        Misuse,
        "none does here",
    ),
    "a window on an unknown column": (
        lambda: Q.window("1s", on="tss"),
        SchemaError,
        "window on: no column 'tss'.*did you mean 'ts'",
    ),
    "an empty window": (lambda: Q.window(0), Misuse, "window range 0: it is at least 1"),
    "a slide of nothing": (lambda: Q.window("1s", "0s"), Misuse, "window slide '0s': it is at"),
    "a range that is no duration": (lambda: Q.window("long"), Misuse, "window range 'long': write"),
    "too many windows": (
        lambda: Q.window("1d", "1ms").aggregate(n=count()),
        Misuse,
        "a row would be in 86400000 windows, 100000 are the most",
    ),
    "an end that is no time": (
        lambda: Q.lifetime("name"),
        SchemaError,
        "lifetime end name is string: a time is an int64",
    ),
    "an end that is not there": (lambda: Q.lifetime("nam"), SchemaError, "did you mean 'name'"),
    "two ends": (lambda: Q.lifetime("ts", "1s"), Misuse, "give end= or duration=, one of them"),
    "no end": (Q.lifetime, Misuse, "give end= or duration=, one of them"),
    "the latest of nothing": (Q.latest_by, Misuse, "latest_by: name the columns"),
    "the latest by the unknown": (lambda: Q.latest_by("sr"), SchemaError, "did you mean 'src'"),
    # -- aggregates
    "an empty group": (
        Q.group_by,
        Misuse,
        r"group_by: name the columns; for one group of all rows use query.aggregate\(...\)",
    ),
    "a group of the unknown": (lambda: Q.group_by("scr"), SchemaError, "did you mean 'src'"),
    "a group column twice": (lambda: Q.group_by("src", "src"), SchemaError, "comes twice"),
    "no aggregate": (HOP.aggregate, Misuse, "aggregate: names at least one aggregate"),
    "an aggregate of the unknown": (
        lambda: HOP.aggregate(x=sum_("lne")),
        SchemaError,
        "aggregate x: no column 'lne'.*did you mean 'len'",
    ),
    "a condition of the unknown": (
        lambda: HOP.aggregate(x=count(where=col("lne") > 1)),
        SchemaError,
        "aggregate x: no column 'lne'.*did you mean 'len'",
    ),
    "a condition that gives a number": (
        lambda: HOP.aggregate(x=count(where=col("len") + 1)),
        ExpressionError,
        r"count\(where=\(len \+ 1\)\): where= gives int64, a condition gives bool",
    ),
    "a sum of names": (lambda: HOP.aggregate(x=sum_("name")), SchemaError, "string"),
    "an expression as an aggregate": (
        lambda: ANY.aggregate(x=col("len")),
        Misuse,
        r"aggregate x: len is not an aggregate function; write it as in n=gl.count\(\)",
    ),
    "an aggregate called as its group": (
        lambda: HOP.group_by("src").aggregate(src=count()),
        SchemaError,
        "two columns would be called 'src'",
    ),
    "early without a slide": (
        lambda: Q.window("10s").aggregate(n=count(), early="1s"),
        Misuse,
        r"aggregate early=: only windows with a slide are answered early",
    ),
    "early that is no duration": (
        lambda: HOP.aggregate(n=count(), early="soon"),
        Misuse,
        "aggregate early 'soon'",
    ),
    "a window on a column that is dropped": (
        lambda: (
            Q.window("1s")
            .join(Q.window("1s"), on="src")
            .window("2s", "1s", on="ts_right")
            .select("src")
            .aggregate(n=count())
        ),
        Misuse,
        "aggregate: its window reads 'ts_right', which a select above it drops",
    ),
    "windows on different columns": (
        lambda: _two_times("ts").union(_two_times("ts_right")).aggregate(n=count()),
        Misuse,
        "the inputs of its union are windowed on different columns",
    ),
    # -- top-k
    "no rows": (lambda: Q.top_k(0, "len"), Misuse, "top_k 0: a number of rows"),
    "a part of a row": (lambda: ANY.top_k(1.5, "len"), Misuse, "top_k 1.5: a number of rows"),
    "by the unknown": (lambda: Q.top_k(1, "lem"), SchemaError, "did you mean 'len'"),
    "within the unknown": (lambda: Q.top_k(1, "len", within="sr"), SchemaError, "top_k within"),
    "by nothing": (
        lambda: Q.top_k(1, lit(None)),
        ExpressionError,
        "is null, whose values have no order",
    ),
    # -- several inputs
    "a join on the unknown": (
        lambda: Q.join(Q, on="sr"),
        SchemaError,
        "join on, left side: no column 'sr'",
    ),
    "a join on what the right lacks": (
        lambda: Q.join(Q.select("ts", "len"), on="src"),
        SchemaError,
        "join on, right side: no column 'src'",
    ),
    "a join on different types": (
        lambda: Q.join(Q, on={"src": "len"}),
        SchemaError,
        "join on 'src' = 'len': int32 and int64; cast one in a select",
    ),
    "a join on a column twice": (
        lambda: Q.join(Q, on=[("src", "src"), ("src", "src")]),
        SchemaError,
        "comes twice",
    ),
    "a join on what is no pair": (
        lambda: ANY.join(Q, on=[("src", "src", "src")]),
        Misuse,
        r"a column, or a pair \(left, right\)",
    ),
    "a join of another kind": (lambda: ANY.join(Q, how="outer"), Misuse, "how='outer': use one of"),
    "a join with a number": (lambda: ANY.join(3), Misuse, "join: 3 is not a query"),
    "a join whose condition is none": (
        lambda: Q.join(Q, where=col("len")),
        ExpressionError,
        "join where len: gives int64, a condition gives bool",
    ),
    "a join whose condition is a function": (
        lambda: ANY.join(Q, where=function(twice, "len", returns="bool")),
        ExpressionError,
        r"a function goes into where\(\) above the join",
    ),
    "a join of two units of time": (
        lambda: Q.join(SECONDS, on="src"),
        SchemaError,
        "times are in ms on the left and in s on the right",
    ),
    "a join that keeps all rows": (
        lambda: Q.join(Q.window("all").distinct("src"), on="src"),
        Misuse,
        r"join: rows of the right side live for ever, because of window\(range='all'\).*aggregate",
    ),
    "a union of nothing": (Q.union, Misuse, "union: give at least one other query"),
    "a union of other columns": (
        lambda: Q.union(Q.select("ts")),
        SchemaError,
        "the first has the columns ts, src, len, name, on, number 2 has ts: select the same ones",
    ),
    "a union of other types": (
        lambda: Q.select("src").union(Q.select("src"), Q.select(src=col("len"))),
        SchemaError,
        "union: column 0 is src: int32 in the first and src: int64 in number 3: cast one",
    ),
    "a union of other names": (
        lambda: Q.select("src").union(Q.select(dst=col("src"))),
        SchemaError,
        "src: int32 in the first and dst: int32 in number 2: select them in one order",
    ),
    "a union of other nulls": (
        lambda: _strict(True).union(_strict(False)),
        SchemaError,
        "t: int64 in the first and t: int64 not null in number 2: say the same of nulls",
    ),
    "a difference of two units of time": (
        lambda: Q.select("src").difference(SECONDS.select("src")),
        SchemaError,
        "difference: times are in ms, of number 2 in s",
    ),
    "a difference with None": (lambda: ANY.difference(None), Misuse, "None is not a query"),
    "a race of one": (lambda: race(Q), Misuse, "race: give at least two queries"),
    "a race of different answers": (lambda: race(Q, HOP.aggregate(n=count())), SchemaError, "race"),
    # -- the whole
    "another way with errors": (
        lambda: ANY.on_error("ignore"),
        Misuse,
        "on_error 'ignore': use 'stop' or 'aside'",
    ),
}


def _strict(nullable: bool) -> Query:
    return source("ab"[nullable], pa.schema([pa.field("t", pa.int64(), nullable)]), time="t")


def _two_times(on: str) -> Query:
    return Q.window("1s").join(Q.window("1s"), on="src").window("2s", "1s", on=on)


@pytest.mark.parametrize("case", CASES)
def test_a_query_without_meaning_is_refused_when_it_is_written(case: str) -> None:
    make, kind, sentence = CASES[case]
    with pytest.raises(kind, match=sentence):
        make()


def test_a_long_list_of_columns_is_cut_in_messages() -> None:
    wide = source("a", {f"column{i}": "int64" for i in range(100)}, time="column0")
    with pytest.raises(SchemaError, match=r"column19, \.\.\. \(100 in all\) \(did you mean"):
        wide.select("colum7")


def test_depth_and_size_are_bounded() -> None:
    q = deep = some_source()
    for _ in range(DEPTH_MAX - 1):
        deep = deep.normalise()
    with pytest.raises(Misuse, match=f"more than {DEPTH_MAX} steps one above the other"):
        deep.normalise()
    with pytest.raises(Misuse, match="257 inputs, 1 to 256 can be"):
        q.union(*[q] * 256)
    rows = [q.where(call("greater", col("k"), i)) for i in range(NODES_MAX)]
    unions = [rows[i].union(*rows[i + 1 : i + 200]) for i in range(0, NODES_MAX, 200)]
    with pytest.raises(Misuse, match=f"more than {NODES_MAX} steps"):
        unions[0].union(*unions[1:])
