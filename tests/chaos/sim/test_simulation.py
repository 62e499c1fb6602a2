"""Users' queries go through the simulator: good ones pass, each kind of bug is found and told."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pytest

import gapless as gl
from gapless.chaos.failed import SimulationFailed, WrongAnswer
from gapless.chaos.sim.simulation import simulate
from gapless.engine.query import Query
from gapless.protocol.errors import Misuse, SchemaError
from tests.chaos import users
from tests.chaos.users import flows, rows

FEW = 2
"""Schedules for queries that are to pass: they are many."""
ENOUGH = 20
"""Within which each bug has to be found; most are in the first."""

windowed = flows.window(range="4s", slide="1s")
counts = windowed.group_by("src").aggregate(packets=gl.count(), bytes=gl.sum("len"))
CLEAN: dict[str, Query] = {
    "where and map": flows.where(gl.col("len") > 300).map(half=gl.col("len") / 2),
    "a good function": users.mapped(users.kilobytes, "len", returns="float64"),
    "windows and groups": counts,
    "early answers": windowed.group_by("src").aggregate(early=True, n=gl.count()),
    "quantiles": windowed.aggregate(median=gl.quantile("len", 0.5), kinds=gl.count_distinct("src")),
    "above an aggregate": counts.aggregate(most=gl.max("packets"), hosts=gl.count()),
    "top": counts.top_k(1, by="bytes"),
    "ranked": counts.top(2, by="bytes"),
    "heavy": flows.window(range="10s", slide="2s").heavy("src", share=0.2),
    "heavy, estimated": flows.window(range="10s", slide="2s").heavy(
        "src", share=0.2, method="count_min"
    ),
    "latest": flows.latest_by("src"),
    "sessions": flows.window(session="1s", partition_by="src").aggregate(n=gl.count()),
    "landmarks": flows.window(range="all", slide="2s").group_by("src").aggregate(n=gl.count()),
    "cumulated": flows.window(range="all", slide="2s", restart="6s")
    .group_by("src")
    .aggregate(n=gl.count(), most=gl.max("len")),
    "rows so far": flows.window(range="all", slide=gl.rows(1)).aggregate(total=gl.sum("len")),
    "windows of rows": flows.window(range=gl.rows(5), slide=gl.rows(2), partition_by="src")
    .group_by("src")
    .aggregate(n=gl.count(), most=gl.max("len")),
    "the last rows": flows.window(range=gl.rows(4), slide="1s").aggregate(total=gl.sum("len")),
    "lives of rows": flows.window(range=gl.rows(3), partition_by="src").aggregate(n=gl.count()),
    "slide by tuple": flows.window(range="2s", slide=gl.rows(1), partition_by="src")
    .group_by("src")
    .aggregate(n=gl.count()),
    "the first of each": flows.dedupe("src", within="2s"),
    "lifetimes": flows.lifetime(duration="3s").select("src").distinct(),
    "union": flows.select("src").union(flows.where(gl.col("len") > 700).select("src")),
    "difference": flows.select("src", "len").difference(
        flows.where(gl.col("len") > 700).select("src", "len")
    ),
}
"""Queries whose answer follows from the rows."""


def found(query: Query, **how: Any) -> SimulationFailed:
    """What the simulator says of a query that has a bug."""
    with pytest.raises(SimulationFailed) as failed:
        simulate(query, rows(), **{"seeds": ENOUGH, **how})
    return failed.value


# -- good ones ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", CLEAN)
def test_a_query_whose_answer_follows_from_the_rows_passes(name: str) -> None:
    simulated = simulate(CLEAN[name], rows(40), seeds=FEW)
    assert simulated.seeds == FEW
    assert simulated.faults > FEW
    assert simulated.frames > 100 * FEW
    assert simulated.verdicts["table"] == {"holds": FEW}


def test_a_join_of_two_sources_passes() -> None:
    names = gl.source("names", {"ts": "timestamp[ms]", "src": "string"}, time="ts", lateness="1s")
    query = flows.lifetime(duration="1s").join(
        names.lifetime(duration="9s"), on=[("src", "src")], how="inner"
    )
    known = rows(9).select(["ts", "src"])
    assert simulate(query, {"flows": rows(30), "names": known}, seeds=FEW).seeds == FEW


@pytest.mark.parametrize("pick", ["recent", "chronicle"])
def test_rows_that_follow_others_pass(pick: Literal["recent", "chronicle"]) -> None:
    cases = gl.source(
        "cases", {"ts": "timestamp[ms]", "src": "string", "len": "int64"}, time="ts", lateness="1s"
    )
    lighter = gl.col("len") < gl.col("len_right")
    query = cases.followed_by(flows, on="src", where=lighter, within="3s", pick=pick)
    for each in (query, cases.followed_by(flows, on="src", pick=pick)):
        assert simulate(each, {"flows": rows(30), "cases": rows(40)}, seeds=FEW).seeds == FEW


@pytest.mark.parametrize("other", ["wid", "two_level"])
def test_two_plans_of_one_query_pass(other: Literal["wid", "two_level"]) -> None:
    plans = [gl.Plan(counts), gl.Plan(counts, other)]
    assert simulate(counts, rows(40), plans=plans, seeds=FEW).seeds == FEW


def test_rows_may_be_a_batch_or_a_data_frame_in_any_order() -> None:
    batch = rows(30).combine_chunks().to_batches()[0]
    order = np.random.default_rng(1).permutation(30)
    for events in (batch, batch.take(pa.array(order)), rows(30).to_pandas()):
        assert simulate(counts, events, seeds=1).seeds == 1


def test_the_answer_that_is_expected_may_be_a_table_or_what_makes_one() -> None:
    query = flows.window(range="60s", slide="60s").aggregate(n=gl.count())
    start = users.START_MS // 60_000 * 60_000 + 60_000  # where the window ends
    answer = pa.table({"_vs": [start], "_ve": [start + 60_000], "n": [30]})
    assert simulate(query, rows(30), expected=answer, seeds=1).seeds == 1

    def counted(events: pa.Table) -> pa.Table:
        return answer.set_column(2, "n", pa.array([events.num_rows]))

    assert simulate(query, rows(30), expected=counted, seeds=1).seeds == 1
    table = gl.Tdb(query.schema, [gl.Event((30,), start, start + 60_000)])
    assert simulate(query, rows(30), expected=table, seeds=1).seeds == 1


def test_the_same_seeds_give_the_same_runs() -> None:
    assert simulate(counts, rows(30), seeds=2, first_seed=5) == simulate(
        counts, rows(30), seeds=2, first_seed=5
    )


# -- bugs -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", users.LOOKING_BEYOND)
def test_a_function_that_looks_beyond_the_row_is_found(name: str) -> None:
    query = users.LOOKING_BEYOND[name]
    failed = found(query)
    text = str(failed)
    assert text.startswith(f"seed {failed.seed}: the output of the job is not the answer")
    assert "is a function of yours; it must decide by the row alone" in text
    assert text.endswith(f"replay it: {failed.replay}")


def test_a_memory_that_only_a_death_empties_needs_faults_to_be_found() -> None:
    known: set[int] = set()

    def is_first(lengths: pa.Array) -> pa.Array:
        """Of each length; it comes again three seconds later, and no row is later than two."""
        found = []
        for length in lengths.to_pylist():
            found.append(length not in known)
            known.add(length)
        return pa.array(found)

    failed = found(flows.where(gl.function(is_first, "len", returns="bool")))
    assert failed.faults > 0
    assert f"it fails with the first {failed.faults} of the seed's" in str(failed)
    assert "crash" in str(failed)
    assert known == set()


def test_a_failure_replays_with_the_call_that_it_names() -> None:
    query = users.LOOKING_BEYOND["memory, a set"]
    failed = found(query)
    call = {"simulate": simulate, "query": query, "events": rows()}
    with pytest.raises(SimulationFailed) as again:
        eval(failed.replay, call)  # noqa: S307  # what our own error says
    assert again.value.seed == failed.seed
    assert again.value.result.problem == failed.result.problem
    assert again.value.result.causes == failed.result.causes
    assert again.value.faults == failed.faults


def test_the_replay_names_what_else_was_given() -> None:
    query = users.LOOKING_BEYOND["memory, a number"]
    failed = found(query, plans=[query])
    assert failed.replay.startswith("simulate(query, events, plans=plans, first_seed=")


def test_a_function_that_raises_is_told_with_what_it_raises() -> None:
    failed = found(users.mapped(users.divides, "len"))
    assert "a replica has ended itself: RowError" in str(failed)
    assert "ZeroDivisionError" in str(failed)


class OneForAll:
    """Counts for all processes, as something outside of them would."""

    def __init__(self) -> None:
        self.calls = 0

    def __deepcopy__(self, memo: object) -> OneForAll:
        raise TypeError("it is a connection")


def test_what_is_no_part_of_the_seed_is_told_as_such() -> None:
    outside = OneForAll()

    def asks(lengths: pa.Array) -> pa.Array:
        """What is outside says something else for a while."""
        outside.calls += 1
        more = 1 if 5 <= outside.calls <= 12 else 0
        return pa.array([length + more for length in lengths.to_pylist()], pa.int64())

    failed = found(users.mapped(asks, "len"))
    assert "it does not fail each time: something that it depends on is no part" in str(failed)


def test_an_aggregate_of_a_user_that_remembers_is_found() -> None:
    calls = itertools.count()
    query = flows.window(range="2s", slide="1s").aggregate(
        number=gl.aggregate("len", lambda _: next(calls), returns="int64")
    )
    assert "number" in str(found(query))


# -- answers that are wrong without any fault -----------------------------------------------------


def test_a_plan_that_is_not_equivalent_is_found_before_anything_breaks() -> None:
    above, least = flows.where(gl.col("len") > 700), flows.where(gl.col("len") >= 700)
    with pytest.raises(WrongAnswer, match="plan1, run once without any fault, does not give"):
        simulate(above, rows(), plans=[above, least])
    agreed = rows().slice(8, 7)  # lengths of 800 to 1,400
    assert simulate(above, agreed, plans=[above, least], seeds=1).seeds == 1


def test_plans_that_are_the_same_on_good_days_alone_are_named_as_suspects() -> None:
    known: set[int] = set()

    def is_first(lengths: pa.Array) -> pa.Array:
        before = set(known)
        known.update(lengths.to_pylist())
        return pa.array([length not in before for length in lengths.to_pylist()])

    plans = {"all": flows, "new": flows.where(gl.function(is_first, "len", returns="bool"))}
    assert "plans all, new: that they have one table is your word" in str(found(flows, plans=plans))


def test_an_answer_that_is_not_what_was_expected_says_what_is_lost() -> None:
    query = flows.window(range="60s", slide="60s").aggregate(n=gl.count())
    start = users.START_MS // 60_000 * 60_000 + 60_000  # where the window ends
    answer = pa.table({"_vs": [start], "_ve": [start + 60_000], "n": [31]})
    with pytest.raises(WrongAnswer) as wrong:
        simulate(query, rows(30), expected=answer)
    assert "does not give what is expected: of 1 events 1 are lost" in str(wrong.value)
    assert re.search(r"too often ins\(30,.*lost ins\(31,", str(wrong.value), re.DOTALL)


# -- what cannot be -------------------------------------------------------------------------------


def nothing(count: int) -> pa.Table:
    return rows(count).slice(0, 0)


REFUSED: dict[str, tuple[Callable[[], object], str]] = {
    "no rows": (lambda: simulate(counts, nothing(3)), "no rows"),
    "too many": (lambda: simulate(counts, rows(2_001)), r"2,001 events: 2,000 are the most.*slice"),
    "no table": (lambda: simulate(counts, [1, 2]), "a list: give a pyarrow table"),
    "another source": (lambda: simulate(counts, {"flow": rows()}), "reads flows"),
    "one source too many": (
        lambda: simulate(counts, {"flows": rows(), "more": rows()}),
        "events for 'more'",
    ),
    "a null time": (
        lambda: simulate(counts, rows(3).set_column(0, "ts", pa.nulls(3, pa.timestamp("ms")))),
        "row 0 of its events: ts is null",
    ),
    "a missing column": (lambda: simulate(counts, rows().drop_columns(["len"])), "len"),
    "seeds": (lambda: simulate(counts, rows(), seeds=0), "seeds=0: a whole number, 1 to 100,000"),
    "seed": (lambda: simulate(counts, rows(), first_seed=-1), "first_seed=-1: .* 0 or more"),
    "faults": (lambda: simulate(counts, rows(), faults=1.5), "faults=1.5"),  # type: ignore[arg-type]  # refused
    "no plans": (lambda: simulate(counts, rows(), plans=[]), "one is the least"),
    "no answer": (
        lambda: simulate(flows.where(gl.col("len") > 10_000), rows()),
        "no events, so nothing could be wrong",
    ),
    "not tabular": (lambda: simulate(counts, rows(), expected=3), "a int: give"),
    "no times": (
        lambda: simulate(counts, rows(), expected=rows().select(["src"])),
        "column '_vs' is not there",
    ),
    "another answer": (
        lambda: simulate(counts, rows(), expected=gl.Tdb(flows.schema)),
        "what is expected holds",
    ),
    "k late": (
        lambda: simulate(
            gl.source("flows", flows.schema.payload, time="ts", lateness=gl.k_late(3)), rows()
        ),
        "late",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_tried_is_refused_with_what_to_do(name: str) -> None:
    call, why = REFUSED[name]
    with pytest.raises((Misuse, SchemaError), match=why):
        call()


def test_a_memory_that_is_full_already_is_suspected_where_there_is_no_answer() -> None:
    kept = {f"host-{i}" for i in range(3)}

    def is_unknown(sources: pa.Array) -> pa.Array:
        fresh = [source not in kept for source in sources.to_pylist()]
        kept.update(sources.to_pylist())
        return pa.array(fresh)

    query = flows.where(gl.function(is_unknown, "src", returns="bool"))
    with pytest.raises(Misuse, match=r"kept something since this process began.*\n.*is_unknown"):
        simulate(query, rows())
