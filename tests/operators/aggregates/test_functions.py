"""Functions as data: they print, travel and compare; what they declare, and what they refuse."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from gapless.operators.aggregates import (
    aggregate,
    arg_max,
    arg_min,
    array_agg,
    bool_and,
    bool_or,
    count,
    count_distinct,
    first,
    last,
    max_,
    mean,
    min_,
    mode,
    quantile,
    stddev,
    string_agg,
    sum_,
    var,
)
from gapless.operators.aggregates.function import AggregateFunction
from gapless.protocol.documents import pack, unpack
from gapless.protocol.errors import DecodeError, ExpressionError, Misuse, SchemaError
from gapless.protocol.expr import col


def width(values: pa.Array) -> int:
    """A user's function."""
    return int(values[-1].as_py() - values[0].as_py())


PLAIN = {
    "count()": count(),
    "count(len)": count("len"),
    "sum(len)": sum_("len"),
    "sum(len, scale=100)": sum_("len", scale=100),
    "mean(len)": mean("len"),
    "mean(len, scale=7)": mean("len", scale=7),
    "var(len)": var("len"),
    "min(len)": min_("len"),
    "max(len)": max_("len"),
    "first(len)": first("len"),
    "last(len)": last("len"),
    "count_distinct(len)": count_distinct("len"),
    'count_distinct(len, method="hll", precision=10)': count_distinct("len", "hll", 10),
    "quantile(len, 0.99, accuracy=0.01)": quantile("len", 0.99),
    "quantile(len, 1.0, accuracy=0.05)": quantile("len", 1, 0.05),
    "quantile(len, 0.5, exact=True)": quantile("len", 0.5, exact=True),
    "mode(len)": mode("len"),
    "var(len, ddof=1)": var("len", ddof=1),
    "stddev(len)": stddev("len"),
    "stddev(len, scale=10, ddof=1)": stddev("len", 10, 1),
    "arg_min(len, src)": arg_min("len", "src"),
    "arg_max(src, len)": arg_max("src", "len"),
    "array_agg(len)": array_agg("len"),
    "count(where=(len > 5))": count(where=col("len") > 5),
    "sum(len, scale=100, where=ok)": sum_("len", 100, where=col("ok")),
    "sum(len, where=ok)": sum_("len", where=col("ok")),
}
OF_OTHERS = {
    "bool_and(ok)": bool_and("ok"),
    "bool_or(ok)": bool_or("ok"),
    "string_agg(src, ', ')": string_agg("src", ", "),
    "string_agg(src, ',', where=ok)": string_agg("src", where=col("ok")),
}
CUSTOM = aggregate("len", width, returns="int64")
NAME = f"{__name__}:width"
ALL = [*PLAIN.values(), CUSTOM]

SCHEMA = pa.schema(
    [("src", pa.string()), ("len", pa.int32()), ("price", pa.float64()), ("ok", pa.bool_())]
)


@pytest.mark.parametrize("text", PLAIN | OF_OTHERS)
def test_a_function_prints_as_it_is_written_and_travels_as_data(text: str) -> None:
    function = (PLAIN | OF_OTHERS)[text]
    assert str(function) == text
    again = AggregateFunction.from_document(unpack(pack(function.to_document())))
    assert again == function
    assert hash(again) == hash(function)
    assert [f for f in (*ALL, *OF_OTHERS.values()) if f == function] == [function]


def test_a_users_function_travels_by_name() -> None:
    assert str(CUSTOM) == f"aggregate(len, {NAME}, returns=int64)"
    document = unpack(pack(CUSTOM.to_document()))
    assert AggregateFunction.from_document(document, {NAME: width}) == CUSTOM
    with pytest.raises(DecodeError, match=r"no function .*width' is available"):
        AggregateFunction.from_document(document)


@pytest.mark.parametrize(
    "document",
    [
        None,
        [],
        {},
        {"function": "median", "column": "len"},
        {"function": "count", "column": 3},
        {"function": "count", "columns": "len"},
        {"function": "sum"},
        {"function": "sum", "column": "len", "scale": 0},
        {"function": "sum", "column": "len", "scale": 1.5},
        {"function": "sum", "column": "len", "returns": "int64"},
        {"function": "count_distinct", "column": "len", "method": "guess", "precision": 12},
        {"function": "count_distinct", "column": "len", "method": "hll", "precision": 60},
        {"function": "quantile", "column": "len", "q": 1.5, "accuracy": 0.01},
        {"function": "quantile", "column": "len", "q": float("nan"), "accuracy": 0.01},
        {"function": "quantile", "column": "len", "q": 0.5, "accuracy": 0.0},
        {"function": "quantile", "column": "len", "q": 2.0, "exact": True},
        {"function": "quantile", "column": "len", "q": 0.5, "exact": True, "accuracy": 0.1},
        {"function": "var", "column": "len", "ddof": 2},
        {"function": "arg_min", "column": "len"},
        {"function": "string_agg", "column": "len"},
        {"function": "mode", "column": "len", "where": 7},
        {"function": "aggregate", "column": "len", "call": NAME},
        {"function": "aggregate", "column": "len", "call": NAME, "returns": "list<int8>"},
        {"function": "aggregate", "column": "len", "call": NAME, "returns": b"nonsense"},
    ],
)
def test_a_document_that_says_no_function_is_refused(document: Any) -> None:
    with pytest.raises(DecodeError):
        AggregateFunction.from_document(document, {NAME: width})


def test_declarations_are_the_thesis_s() -> None:
    def named(what: str) -> set[str]:
        return {f.name for f in ALL if getattr(f, what)}

    assert named("bounded") == {f.name for f in ALL} - {"aggregate", "array_agg", "mode"}
    assert not count_distinct("len").bounded
    assert count_distinct("len", "hll").bounded
    assert {f.name for f in ALL if not f.differential} == {
        "min", "max", "first", "last", "count_distinct", "arg_min", "arg_max",
    }  # fmt: skip
    assert count_distinct("len").differential
    assert not count_distinct("len", "hll").differential
    assert named("may_diverge") == {"sum", "mean", "var", "stddev"}
    for function in ALL:
        assert function.sub
        assert function.super_
        assert {*function.columns} <= {"len", "src", "ok"}


def test_only_sums_of_unscaled_floats_may_diverge() -> None:
    for function in (sum_, mean, var, stddev):
        assert function("len").accumulator(SCHEMA).may_diverge is None
        assert function("price", scale=100).accumulator(SCHEMA).may_diverge is None
        reason = function("price").accumulator(SCHEMA).may_diverge
        assert reason is not None
        assert "scale=" in reason
    for function_ in ALL:
        state = function_.accumulator(SCHEMA)
        assert state.may_diverge is None
        assert state.differential == function_.differential


@pytest.mark.parametrize("function", ALL, ids=str)
def test_results_are_of_the_type_that_is_declared_before_and_after_rows(
    function: AggregateFunction,
) -> None:
    for t in (pa.int32(), pa.float64(), pa.uint64()):
        schema = SCHEMA.set(1, pa.field("len", t))
        state = function.accumulator(schema)
        row = {"src": "a", "len": 3, "price": 1.0, "ok": True}
        batch = pa.RecordBatch.from_pylist([row], schema=schema)
        assert state.results(np.empty(0, np.int64)).type == function.result(schema)
        assert state.take(np.empty(0, np.int64)).num_rows == 0
        for _ in range(2):
            assert state.results(np.array([0])).type == function.result(schema)
            state.add(np.array([0]), batch, np.array([5]))


def test_results_say_of_what_type_they_are() -> None:
    wanted = {"min": "int32", "max": "int32", "first": "int32", "last": "int32"}
    wanted |= {"count": "int64", "count_distinct": "int64", "sum": "int64", "aggregate": "int64"}
    wanted |= {"mean": "double", "var": "double", "stddev": "double", "quantile": "double"}
    wanted |= {"mode": "int32", "arg_min": "int32", "arg_max": "string"}
    wanted |= {"array_agg": "list<item: int32>"}
    for function in ALL:
        t = "double" if "sum(len, scale=100" in str(function) else wanted[function.name]
        if "exact=True" in str(function):
            t = "int32"
        assert str(function.result(SCHEMA)) == t


@pytest.mark.parametrize("function", [f for f in ALL if "len" in f.columns], ids=str)
def test_a_column_that_is_not_there_is_named(function: AggregateFunction) -> None:
    other = pa.schema([("src", pa.string()), ("bytes", pa.int32()), ("ok", pa.bool_())])
    for ask in (function.result, function.accumulator):
        with pytest.raises(SchemaError, match="no column 'len' among src, bytes, ok"):
            ask(other)


@pytest.mark.parametrize(
    ("t", "remedy"),
    [
        (pa.string(), "it takes integers and floats"),
        (pa.bool_(), "cast it to int8"),
        (pa.timestamp("ms"), "cast it to int64"),
        (pa.duration("s"), "cast it to int64"),
        (pa.decimal128(10, 2), "cast it to float64 and give scale="),
        (pa.decimal32(5, 2), "cast it to float64 and give scale="),
        (pa.dictionary(pa.int32(), pa.int16()), "cast it to int16"),
        (pa.struct([("x", pa.int8())]), "it takes integers and floats"),
    ],
    ids=str,
)
def test_arithmetic_on_what_is_no_number_is_refused_with_what_to_do(
    t: pa.DataType, remedy: str
) -> None:
    schema = pa.schema([("len", t)])
    for function in (sum_("len"), mean("len", 10), var("len"), quantile("len", 0.5)):
        for ask in (function.result, function.accumulator):
            with pytest.raises(SchemaError) as e:
                ask(schema)
            assert f"{function}: column 'len' is {t}; {remedy}" in str(e.value)


WRONG: dict[str, Callable[[], Any]] = {
    "scale 0": lambda: sum_("len", scale=0),
    "scale beyond float64": lambda: sum_("len", scale=10**16),
    "scale a bool": lambda: mean("len", scale=True),
    "scale a float": lambda: var("len", scale=0.5),  # type: ignore[arg-type]  # it is refused
    "scale of a deviation": lambda: stddev("len", scale=-1),
    "ddof 2": lambda: var("len", ddof=2),
    "ddof a bool": lambda: stddev("len", ddof=True),
    "an exact one with an accuracy": lambda: quantile("len", 0.5, 0.1, exact=True),
    "an exact one of q beyond 1": lambda: quantile("len", 1.5, exact=True),
    "a separator that is no text": lambda: string_agg("src", 7),  # type: ignore[arg-type]  # it is refused
    "where a name": lambda: count(where="ok"),  # type: ignore[arg-type]  # it is refused
    "where a function": lambda: count(where=len),  # type: ignore[arg-type]  # it is refused
    "q below 0": lambda: quantile("len", -0.1),
    "q NaN": lambda: quantile("len", float("nan")),
    "accuracy 0": lambda: quantile("len", 0.5, accuracy=0),
    "accuracy 0.9": lambda: quantile("len", 0.5, accuracy=0.9),
    "method": lambda: count_distinct("len", "guess"),  # type: ignore[arg-type]  # it is refused
    "precision 3": lambda: count_distinct("len", "hll", 3),
    "precision 17": lambda: count_distinct("len", "hll", 17),
    "no function": lambda: aggregate("len", 7, "int64"),  # type: ignore[arg-type]  # it is refused
    "a list": lambda: aggregate("len", width, pa.list_view(pa.int8())),
    "no type's name": lambda: aggregate("len", width, "integer"),
    "no type": lambda: aggregate("len", width, None),
}


@pytest.mark.parametrize("name", WRONG)
def test_an_argument_that_means_nothing_is_refused(name: str) -> None:
    with pytest.raises(Misuse):
        WRONG[name]()


def test_a_column_of_another_type_is_refused_with_what_to_do() -> None:
    for function, remedy in (
        (bool_and("len"), "bool_and(len): column 'len' is int32; make a bool of it first"),
        (bool_or("src"), "bool_or(src): column 'src' is string; make a bool of it first"),
        (string_agg("len"), "column 'len' is int32; it joins texts: make one of it first"),
        (count(where=col("len")), "count(where=len): where= gives int32, a condition gives bool"),
    ):
        for ask in (function.result, function.accumulator):
            with pytest.raises((SchemaError, ExpressionError)) as e:
                ask(SCHEMA)
            assert remedy in str(e.value)


# -- users' functions -----------------------------------------------------------------------------


def ask(fn: Any, returns: Any, xs: list[Any], t: pa.DataType) -> tuple[Any, str | None]:
    state = aggregate("x", fn, returns).accumulator(pa.schema([("x", t)]))
    batch = pa.RecordBatch.from_arrays([pa.array(xs, t)], ["x"])
    state.add(np.zeros(len(xs), np.int64), batch, np.zeros(len(xs), np.int64))
    one = np.array([0])
    unanswerable = state.unanswerable(one)
    answer = state.results(one)[0].as_py()
    return answer, None if unanswerable is None else unanswerable.reason


def test_a_users_function_gives_python_values_or_arrow_scalars() -> None:
    xs = [Decimal("2.50"), Decimal("-1.00"), None]
    t = pa.decimal128(9, 2)
    assert ask(lambda v: v[0], t, xs, t) == (Decimal("-1.00"), None)
    assert ask(lambda v: v[0].as_py(), t, xs, t) == (Decimal("-1.00"), None)
    assert ask(len, "int64", xs, t) == (2, None)
    assert ask(lambda v: np.int16(3), "int64", xs, t) == (3, None)
    assert ask(lambda v: None, "int64", xs, t) == (None, None)
    assert ask(lambda v: pa.scalar(None), "int64", xs, t) == (None, None)


def test_where_a_users_function_fails_there_is_no_answer_but_a_reason() -> None:
    def raises(_: pa.Array) -> int:
        raise RuntimeError("no luck")

    for fn, reason in (
        (raises, "raises raised RuntimeError: no luck"),
        (lambda v: "x", "was to give int64, gave"),
        (lambda v: 2.5, "was to give int64, gave"),
        (lambda v: 2**70, "was to give int64, gave"),
        (lambda v: pa.scalar(1, pa.int32()), "was to give int64, gave int32"),
        (lambda v: pa.scalar(None, pa.string()), "was to give int64, gave string"),
        (lambda v: v, "was to give int64, gave"),
    ):
        answer, said = ask(fn, "int64", [1, 2], pa.int64())
        assert answer is None
        assert reason in str(said)


def test_each_group_has_the_reason_that_it_has_alone() -> None:
    """Whatever it is answered with: replicas answer different groups together."""

    def raises(values: pa.Array) -> int:
        if values[0].as_py() < 3:
            return 1
        raise RuntimeError(f"{values[0]} is too much")

    state = aggregate("x", raises, "int64").accumulator(pa.schema([("x", pa.int64())]))
    xs = [7, 1, 9, 7, 2, 8]
    batch = pa.record_batch({"x": xs})
    state.add(np.arange(6), batch, np.zeros(6, np.int64))
    found = state.unanswerable(np.arange(6))
    assert found is not None
    said = {at: why for mask, why in found.by_reason() for at in mask.nonzero()[0].tolist()}
    assert said.keys() == {0, 2, 3, 5} == set(found.mask.nonzero()[0].tolist())
    assert all(f"{xs[at]} is too much" in why for at, why in said.items())


def test_a_group_of_nulls_alone_is_null_without_a_call() -> None:
    def never(_: pa.Array) -> int:
        raise AssertionError

    assert ask(never, "int64", [None, None], pa.int64()) == (None, None)


def test_a_users_function_is_called_once_for_results_and_unanswerable() -> None:
    calls: list[int] = []

    def counted(values: pa.Array) -> int:
        calls.append(len(values))
        return len(values)

    state = aggregate("x", counted, "int64").accumulator(pa.schema([("x", pa.int64())]))
    batch = pa.record_batch({"x": [5, 5, 1]})
    state.add(np.array([0, 0, 1]), batch, np.zeros(3, np.int64))
    ids = np.array([0, 1])
    for _ in range(2):
        state.unanswerable(ids)
        assert state.results(ids).to_pylist() == [2, 1]
    assert calls == [2, 1]
    state.add(np.array([1]), batch.slice(2), np.zeros(1, np.int64))
    assert state.results(ids).to_pylist() == [2, 2]
    state.merge(ids[:1], state.take(ids[1:]))
    assert state.results(ids).to_pylist() == [4, 2]
    state.unmerge(ids[:1], state.take(ids[1:]))
    assert state.results(ids).to_pylist() == [2, 2]
    state.clear(ids)
    assert state.results(ids).to_pylist() == [None, None]
