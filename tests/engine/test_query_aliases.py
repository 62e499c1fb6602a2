"""Names that people type: they work, or the error says what to write."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest

import gapless as gl
from gapless.engine import query_aliases
from gapless.protocol import expr_aliases

FLOWS = gl.source(
    "flows", {"ts": "timestamp[ms]", "src": "string", "len": "int64"}, time="ts", lateness="5s"
)
Q: Any = FLOWS
GL: Any = gl
X: Any = gl.col("x")
T = gl.col("text")


def test_names_that_mean_the_same_work() -> None:
    assert Q.filter(gl.col("len") > 3).same_as(FLOWS.where(gl.col("len") > 3))
    assert Q.with_columns(n=gl.col("len") + 1).same_as(FLOWS.map(n=gl.col("len") + 1))
    windowed: Any = FLOWS.window("10s")
    ours = windowed.group_by("src").aggregate(n=gl.count())
    assert windowed.groupby("src").agg(n=gl.count()).same_as(ours)
    assert X.isin([1]).same_as(gl.col("x").is_in([1]))
    assert X.isnull().same_as(gl.col("x").is_null())
    assert X.astype("int8").same_as(gl.col("x").cast("int8"))
    assert X.str.startswith("a").same_as(gl.col("x").str.starts_with("a"))
    assert X.dt.hour().same_as(gl.col("x").dt.hour)
    assert X.dt.dayofyear.same_as(gl.col("x").dt.day_of_year)
    assert X.list.len().same_as(gl.col("x").list.length())


WRITE = [
    (lambda: Q.limit(10), "no first rows: use q.top_k"),
    (lambda: Q.sort("len"), "no order of rows: use q.top_k"),
    (lambda: Q.rename(a="b"), "use q.select"),
    (lambda: Q.drop("len"), "use q.select"),
    (lambda: Q.with_column("n", X), "use q.map"),
    (lambda: Q.sum("len"), r"use q.aggregate\(sum=gl.sum"),
    (lambda: Q.collect, "use gl.execute"),
    (lambda: Q.group_by("src").sum("len"), r"use .aggregate\(sum=gl.sum"),
    (lambda: Q.wheer(X > 3), "did you mean where"),
    (lambda: Q.group_byy("src"), "did you mean group_by"),
    (lambda: X.sum, r"use q.aggregate\(sum=gl.sum"),
    (lambda: X.alias("y"), r"as in q.map\(name"),
    (lambda: X.contains("a"), r"use x.str.contains\(pattern"),
    (lambda: X.startswith("a"), "use x.str.starts_with"),
    (lambda: X.hour, "use x.dt.hour"),
    (lambda: X.eq(3), "use x == y"),
    (lambda: X.desc, "use gl.desc"),
    (lambda: Q.tumble("5s"), "use q.window"),
    (lambda: GL.median("len"), "use gl.quantile"),
    (lambda: X.is_nul, "did you mean is_null"),
    (lambda: X.str.substring(1, 2), "use x.str.slice"),
    (lambda: X.str.containz("a"), "did you mean contains"),
    (lambda: X.dt.minutes, "did you mean minute"),
    (lambda: X.list.leng, "did you mean length"),
    (lambda: GL.avg, "use gl.mean"),
    (lambda: GL.soruce_, "did you mean source"),
]


@pytest.mark.parametrize(("make", "says"), WRITE, ids=map(str, range(len(WRITE))))
def test_names_that_mean_something_else_lead_to_ours(make: Any, says: str) -> None:
    with pytest.raises(AttributeError, match=says):
        make()


def test_a_function_that_is_not_called_is_no_condition() -> None:
    with pytest.raises(gl.ExpressionError, match="is_null is a function: call it"):
        FLOWS.where(X.is_null)


def test_the_names_that_work_are_ours() -> None:
    windowed: Any = FLOWS.window("10s").group_by("src")
    for of, holder in [
        (query_aliases.SAME, FLOWS),
        (query_aliases.OF_GROUPS, windowed),
        (expr_aliases.SAME, T),
        (expr_aliases.OF_TEXT, T.str),
        (expr_aliases.OF_DATES, T.dt),
        (expr_aliases.OF_LISTS, T.list),
    ]:
        for other, ours in of.items():
            assert hasattr(type(holder), ours), other
            assert not hasattr(type(holder), other)


def test_queries_and_expressions_are_copied_and_pickled_as_before() -> None:
    assert copy.deepcopy(FLOWS).same_as(FLOWS)
    again = pickle.loads(pickle.dumps(T.str.lower()))  # noqa: S301  # our own bytes
    assert again.same_as(T.str.lower())
    assert not hasattr(X, "__array__")
    assert not hasattr(FLOWS, "no_such_thing")
