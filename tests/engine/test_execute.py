import random
from collections.abc import Iterable, Iterator
from datetime import UTC, date, datetime, timedelta, timezone
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gapless.engine import nodes
from gapless.engine.answer import answer, instant, last_answer
from gapless.engine.execute import Execution, by_source
from gapless.engine.plan import Plan
from gapless.engine.query import Query
from gapless.engine.source import source
from gapless.operators.aggregates import count, min_
from gapless.operators.aggregates.filtered import conditions_below
from gapless.protocol.elements import BEGIN, INF
from gapless.protocol.errors import Misuse, RowError, SchemaError, StreamViolation
from gapless.protocol.expr import col
from gapless.protocol.frame import Frame, frames_of
from gapless.protocol.punctuation import Punctuation
from gapless.protocol.schema import StreamSchema
from gapless.protocol.tdb import Tdb
from gapless.protocol.text import parse
from gapless.protocol.variants import random_tdb, random_telling, tell

a = source("a", {"ts": "int64", "k": "int32"}, time="ts", lateness=5)
b = source("b", {"ts": "int64", "k": "int32"}, time="ts", lateness=5)
counted = a.window(10, slide=5).group_by("k").aggregate(n=count())


def rows(*pairs: tuple[int | None, int]) -> pa.RecordBatch:
    columns = [
        pa.array([t for t, _ in pairs], pa.int64()),
        pa.array([k for _, k in pairs], "int32"),
    ]
    return pa.record_batch(columns, names=["ts", "k"])


def many(size: int, step: int = 1) -> pa.Table:
    ts = np.arange(size) * step
    return pa.table({"ts": ts, "k": (ts % 3).astype(np.int32)})


def run(query: Query, inputs: Any, **options: Any) -> Execution:
    return Execution(Plan(query), by_source(query, inputs), **options)


def fold(frames: Iterable[Frame], schema: StreamSchema) -> Tdb:
    table = Tdb(schema)
    for frame in frames:
        table.fold(frame)
    return table


# -- running ----------------------------------------------------------------------------------


def test_frames_come_as_input_is_read_and_the_last_one_ends_the_stream() -> None:
    read = []

    def batches() -> Iterator[pa.RecordBatch]:
        for t in range(0, 40, 4):
            read.append(t)
            yield rows((t, 1), (t + 1, 2))

    execution = run(counted, batches())
    assert read == []
    first = next(execution)
    assert len(read) < 5
    frames = [first, *execution]
    assert frames[-1].stable == execution.stable == INF
    assert all(frames), "no frame says nothing"
    assert next(execution, None) is None
    assert execution.rows == {"a": 20}


@pytest.mark.parametrize("rows_max", [1, 7, 16384])
def test_the_form_of_an_input_and_the_size_of_frames_make_no_difference(rows_max: int) -> None:
    table = many(100)
    [batch] = table.to_batches()
    wanted = fold(run(counted, table), counted.schema)
    assert len(wanted.events) > 30

    class Foreign:
        def __arrow_c_stream__(self, schema: Any = None) -> Any:
            return table.__arrow_c_stream__(schema)

    for each in (
        table,
        batch,
        table.to_reader(max_chunksize=9),
        table.to_batches(max_chunksize=13),
        iter(table.to_batches(max_chunksize=13)),
        Foreign(),
        {"a": table},
    ):
        assert fold(run(counted, each, frame_rows=rows_max), counted.schema) == wanted


def test_watermarks_between_batches_close_windows() -> None:
    query = source("a", a.sources["a"].schema.payload, time="ts").window(10, slide=10)
    counts = query.group_by("k").aggregate(n=count())
    inputs = [rows((1, 1), (12, 1)), Punctuation.of(ts=10), rows((5, 1)), Punctuation.of()]
    execution = run(counts.on_error("aside"), inputs)
    assert [(f.stable, len(f)) for f in execution] == [(20, 1), (INF, 1)]
    assert execution.late == {"a": 1}
    [kept] = execution.aside.take()
    assert kept.rows.to_pylist() == [{"ts": 5, "k": 1}]


def test_a_group_that_its_source_closes_is_answered_at_once() -> None:
    query = source("a", a.sources["a"].schema.payload, time="ts").window(10, slide=10)
    counts = query.group_by("k").aggregate(n=count()).on_error("aside")
    inputs = [rows((1, 1), (2, 2)), Punctuation.of({"k": 1}, ts=10), rows((3, 1), (4, 2))]
    execution = run(counts, inputs)
    frames = list(execution)
    assert [f.payload.to_pylist() for f in frames] == [[{"k": 1, "n": 1}], [{"k": 2, "n": 2}]]
    assert execution.late == {"a": 1}


def test_of_several_sources_the_one_that_is_least_far_is_read_next() -> None:
    far = {"a": -1, "b": -1}

    def told(name: str, step: int) -> Iterator[pa.RecordBatch]:
        for t in range(0, 60, step):
            assert far[name] == min(far.values())
            far[name] = t
            yield rows((t, 1))

    query = a.window(5).join(b.window(5), on="k")
    assert len(fold(run(query, {"a": told("a", 2), "b": told("b", 3)}), query.schema).events) > 20


def test_a_large_batch_does_not_make_its_source_run_ahead() -> None:
    query = a.union(b)
    execution = run(query, {"a": many(1000), "b": many(1000)}, frame_rows=10)
    starts = [int(frame.vs.max()) for frame in execution if len(frame)]
    assert all(later >= earlier - 10 for earlier, later in pairwise(starts))


def test_counters_count_what_was_read_and_put_out() -> None:
    ticks = iter(range(10**6))
    execution = run(a.where(col("k") > 0), many(90), clock=lambda: next(ticks), frame_rows=30)
    out = sum(map(len, execution))
    [step] = execution.counters
    assert (step.rows_in, step.rows_out, step.frames, step.stable) == (90, out, 4, INF)
    assert step.busy_ns > 0
    assert out == 60


# -- what goes wrong --------------------------------------------------------------------------


def test_inputs_that_do_not_fit_the_query_are_misuse() -> None:
    two = a.union(b)
    table = many(3)
    for query, inputs, message in [
        (two, table, r"reads a, b: say which input is whose, as in \{'a': ...\}"),
        (two, {"a": table}, "no input for source 'b'"),
        (a, {"a": table, "c": table}, "an input for 'c': the query reads a"),
        (a, 3, "an input is a int: it is to be a table"),
        (a, "rows.parquet", "gapless.execute opens files"),
        (a, [3], "gives int, and not record batches"),
    ]:
        with pytest.raises(Misuse, match=message):
            list(run(query, inputs))


def test_after_an_error_there_is_no_more() -> None:
    execution = run(a, iter([rows((1, 1)), pa.record_batch({"ts": [2]}), rows((3, 1))]))
    next(execution)
    with pytest.raises(SchemaError, match="column 'k' is not in its input"):
        next(execution)
    with pytest.raises(Misuse, match="failed before; the first error was SchemaError"):
        next(execution)


def test_a_bad_row_stops_the_query_or_stays_aside_as_it_says() -> None:
    inputs = [rows((10, 1), (None, 2), (2, 3), (11, 0))]
    query = a.where((col("ts") // col("k")) > 0)
    with pytest.raises(RowError, match="source a: ts is null: no time; the row: ts=None, k=2"):
        list(run(query, inputs))
    execution = run(query.on_error("aside"), inputs)
    assert [len(frame) for frame in execution] == [1, 0]
    assert execution.aside.count == 3
    assert {kept.where for kept in execution.aside.take()} == {"source a", "where ((ts // k) > 0)"}
    assert execution.late == {"a": 1}


def test_a_row_that_a_condition_of_an_aggregate_fails_for_counts_nowhere() -> None:
    inputs = [rows((10, 1), (12, 0), (13, 2), (14, -3))]
    query = a.window(5, slide=5).aggregate(n=count(), large=count(where=col("ts") // col("k") > 9))
    with pytest.raises(RowError, match=r"aggregate where = \(\(ts // k\) > 9\): divide by zero"):
        list(run(query, inputs))
    execution = run(query.on_error("aside"), inputs)
    assert fold(execution, query.schema).events == [((3, 1), 15, 20)]
    assert execution.aside.count == 1


def test_conditions_of_aggregates_are_computed_once_and_may_be_columns() -> None:
    big = col("k") > 1
    query = a.map(where=col("k") == 1).window(5, slide=5)
    query = query.aggregate(
        n=count(where=big), least=min_("k", where=big), one=count(where=col("where"))
    )
    assert isinstance(query.root, nodes.Aggregate)
    columns = conditions_below(query.root.aggregates, ["where"])[1]
    assert [name for name, _ in columns] == ["where_"]
    table = fold(run(query, [rows((10, 1), (12, 3), (13, 2))]), query.schema)
    assert table.events == [((2, 2, 1), 15, 20)]


def test_closing_lets_go_of_the_inputs() -> None:
    closed = []

    def batches() -> Iterator[pa.RecordBatch]:
        try:
            while True:
                yield rows((1, 1))
        finally:
            closed.append(True)

    with run(a, batches()) as execution:
        next(execution)
    assert closed == [True]
    with pytest.raises(Misuse, match="closed before its end"):
        next(execution)


# -- answers ----------------------------------------------------------------------------------

S = StreamSchema({"p": "string"})


def frames(text: str) -> list[Frame]:
    return list(frames_of(S, parse(text, S)))


def payloads(table: pa.Table) -> list[Any]:
    return list(table.column("p").to_pylist())


def test_the_answer_at_a_time_is_what_is_alive_then() -> None:
    told = "ins(B,5,15) ins(A,0,10) stable(8) adj(B,5,15,20) ins(C,10,20) stable(inf)"
    at = {7: ["A", "B"], 4: ["A"], 15: ["B", "C"], 20: [], -1: []}
    for t, wanted in at.items():
        assert payloads(answer(frames(told), S, t)) == wanted
    assert payloads(last_answer(frames(told), S, insert_only=False)) == ["B", "C"]
    assert payloads(last_answer([], S, insert_only=True)) == []


@given(seed=st.integers(0, 2**31), t=st.integers(-2, 90))
def test_answers_are_those_of_the_table_however_it_is_told(seed: int, t: int) -> None:
    rng = random.Random(seed)
    some: list[tuple[object, ...]] = [("A",), ("B",), (None,)]
    table = random_tdb(rng, S, some, duplicates=seed % 2 == 0)
    told = tell(table, random_telling(rng), seed)
    key = lambda p: (p is None, p)  # noqa: E731  # nulls last
    wanted = sorted((e.payload[0] for e in table.events if e.vs <= t < e.ve), key=key)
    assert payloads(answer(told, S, t)) == wanted
    last = max((e.ve for e in table.events), default=BEGIN)
    wanted = sorted((e.payload[0] for e in table.events if e.ve == last), key=key)
    assert payloads(last_answer(told, S, insert_only=False)) == wanted


def test_an_answer_reads_no_further_than_it_must() -> None:
    def told() -> Iterator[Frame]:
        yield from frames("ins(A,0,10) ins(B,3,9) stable(7)")
        yield from frames("ins(C,8,9) stable(8)")
        raise AssertionError("read too far")

    assert payloads(answer(told(), S, 6)) == ["A", "B"]
    assert payloads(answer(told(), S, 7)) == ["A", "B"]


def test_an_answer_of_a_stream_that_contradicts_itself_is_none() -> None:
    with pytest.raises(StreamViolation):
        answer(frames("adj(A,0,10,0) stable(inf)"), S, 5)


@pytest.mark.parametrize(
    ("at", "unit", "ticks"),
    [
        (5, "ms", 5),
        (np.int64(5), "ns", 5),
        (datetime(1970, 1, 1, 0, 0, 1, 500_999), "ms", 1500),  # noqa: DTZ001  # that is the test
        (datetime(1969, 12, 31, 23, 59, 59, 999_999, UTC), "s", -1),
        (datetime(1970, 1, 1, 2, tzinfo=timezone(timedelta(hours=2))), "us", 0),
        (date(1970, 1, 2), "s", 86_400),
        (pa.scalar(3_000_001, pa.timestamp("us")), "ms", 3000),
        (pa.scalar(3, pa.timestamp("s", "UTC")), "ns", 3_000_000_000),
        (pa.scalar(date(1970, 1, 2)), "ms", 86_400_000),
        (pa.scalar(7), "ms", 7),
        (np.datetime64("1970-01-01T00:00:02"), "ms", 2000),
    ],
)
def test_a_time_is_said_in_many_ways(at: Any, unit: str, ticks: int) -> None:
    assert instant(at, unit) == ticks


@pytest.mark.parametrize(
    "at",
    [
        "now",
        1.5,
        True,
        INF,
        BEGIN,
        pa.scalar("x"),
        np.datetime64("1970", "Y"),
        np.datetime64("NaT"),
        pa.scalar(None, pa.timestamp("s")),
    ],
)
def test_what_is_no_time_is_misuse(at: Any) -> None:
    with pytest.raises(Misuse, match="time "):
        instant(at, "ms")


NOON = 1_714_564_800_000
"""2024-05-01T12:00:00Z, in ms."""


@pytest.mark.parametrize(
    ("text", "unit", "ticks"),
    [
        ("2024-05-01", "ms", NOON - 43_200_000),
        ("2024-05-01", "s", NOON // 1_000 - 43_200),
        ("2024-05-01T12:00:00Z", "ms", NOON),
        ("2024-05-01T12:00", "ms", NOON),
        ("2024-05-01 14:00:00+02:00", "ms", NOON),
        ("2024-05-01T12:00:00.1239Z", "ms", NOON + 123),
        ("2024-05-01T12:00:00.123456789Z", "us", NOON * 1_000 + 123_456),
        ("2024-05-01T12:00:00.123456789Z", "ns", NOON * 1_000_000 + 123_456_789),
        ("2024-05-01T12:00:00.1234567", "ns", NOON * 1_000_000 + 123_456_700),
        ("1969-12-31T23:59:59.999999999Z", "ns", -1),
        ("1969-12-31T23:59:59.9999Z", "ms", -1),
    ],
)
def test_a_time_may_be_a_text_as_iso_8601_has_them(text: str, unit: str, ticks: int) -> None:
    assert instant(text, unit) == ticks


@pytest.mark.parametrize("text", ["", "soon", "12:30", "2024-13-01", "7", "gt1-abc", "2024-05-01T"])
def test_a_text_that_is_no_time_says_how_to_write_one(text: str) -> None:
    with pytest.raises(Misuse, match=r"write it as '2024-05-01'.*or an int, a count of ms"):
        instant(text, "ms")


def test_a_date_may_be_beyond_the_years_of_python() -> None:
    assert instant(pa.scalar((1 << 31) - 1, pa.date32()), "s") == ((1 << 31) - 1) * 86_400
    assert instant(pa.scalar(-86_400_000, pa.date64()), "ns") == -86_400 * 10**9


def test_an_empty_input_with_other_columns_is_wrong_too() -> None:
    query = source("s", {"ts": "int64", "n": "int32"}, time="ts")
    other = pa.schema({"when": pa.int64(), "n": pa.int32()})
    inputs = [
        other.empty_table(),
        pa.RecordBatchReader.from_batches(other, []),
        [pa.RecordBatch.from_pylist([], schema=other)],
    ]
    for empty in inputs:
        with pytest.raises(SchemaError, match="ts"):
            list(run(query, empty))


def test_a_data_frame_is_read_as_the_table_that_it_is() -> None:
    query = source("s", {"ts": "int64", "n": "int32"}, time="ts").where(col("n") > 1)
    table = pa.table({"ts": [1, 2], "n": pa.array([1, 2], pa.int32())})
    assert [len(f) for f in run(query, table.to_pandas())] == [len(f) for f in run(query, table)]


def test_an_execution_that_was_closed_before_its_end_does_not_look_finished() -> None:
    query = source("s", {"ts": "int64", "n": "int32"}, time="ts")
    batches = [pa.record_batch({"ts": [t], "n": pa.array([1], pa.int32())}) for t in range(3)]
    execution = run(query, batches)
    next(execution)
    execution.close()
    with pytest.raises(Misuse, match="closed before its end"):
        next(execution)
    finished = run(query, batches)
    list(finished)
    finished.close()
    assert list(finished) == []


def test_numbers_that_are_none_are_refused() -> None:
    query = source("s", {"ts": "int64", "n": "int32"}, time="ts")
    for wrong in ("1GB", 2.5, 0):
        with pytest.raises(Misuse, match="memory_limit"):
            run(query, [], memory_limit=wrong)
        with pytest.raises(Misuse, match="frame_rows"):
            run(query, [], frame_rows=wrong)
