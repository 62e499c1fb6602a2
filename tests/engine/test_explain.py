"""What `explain` says, as people read it."""

from __future__ import annotations

from textwrap import dedent

import pyarrow as pa

from gapless.engine.explain import Implementation
from gapless.engine.functions import function
from gapless.engine.lateness import k_late
from gapless.engine.query import Query, race
from gapless.engine.source import source
from gapless.engine.words import node_text
from gapless.operators.aggregates.calls import aggregate, count, max_, mean, sum_
from gapless.protocol.expr import call, col
from tests.effort import cases
from tests.engine.queries import random_query, spread, twice

FLOWS = source(
    "netflow",
    {"ts": "timestamp[ms]", "src": "int32", "len": "int32", "load": "float64"},
    time="ts",
    lateness="5s",
)
TALKERS = (
    FLOWS.where(col("len") > 0)
    .window(range="10s", slide="1s")
    .group_by("src")
    .aggregate(packets=count(), bytes=sum_("len"))
)


def said(query: Query) -> str:
    """Without the spaces that put notes into a column."""
    lines = query.explain().splitlines()
    return "\n".join(
        line[: len(line) - len(line.lstrip())] + " ".join(line.split()) for line in lines
    )


def expected(text: str) -> str:
    return dedent(text).strip()


def test_a_windowed_aggregate() -> None:
    assert said(TALKERS) == expected("""
        aggregate by src: packets=count(), bytes=sum(len) paned; reach 11 s; inserts only, in \
order of start, (vs, group) a key, ends follow from starts
          window range 10 s, slide 1 s CF
            where (len > 0)
              source netflow (ts, src, len, load) time ts, lateness 5 s inserts only, ends follow \
from starts
        aggregates:
          count() bounded, differential: count, then sum of the counts
          sum(len) bounded, differential: sum, then sum of the sums
        reach: netflow 11 s
        LMerge: r2: inserts only, in order; ties in any order
        may diverge: nothing
        late rows: of netflow found by order of arrival; replicas share a journal's verdict
        on error: stop
    """)


def test_notes_stand_in_one_column() -> None:
    notes = [line for line in TALKERS.explain().splitlines() if "inserts only, " in line][:2]
    assert notes[0].index("paned") == notes[1].index("inserts only")


def test_a_join_with_a_step_that_both_sides_read() -> None:
    big = FLOWS.where(col("len") > 1000).select("ts", "src", size=col("len"))
    q = big.window("5s").join(big.latest_by("src"), on="src", how="left").on_error("aside")
    assert said(q) == expected("""
        left join on src reach all; revises
          window range 5 s CF; reach 5 s
            #1 select ts, src, size=len
              where (len > 1000)
                source netflow (ts, src, len, load) time ts, lateness 5 s inserts only, ends \
follow from starts
          latest by src reach all; revises, (vs, payload) a key
            #1 as above
        reach: netflow all
        LMerge: r4: nothing is known that would allow less
        may diverge: nothing
        late rows: of netflow found by order of arrival; replicas share a journal's verdict
        on error: aside
    """)


def test_what_may_diverge_is_told_with_its_reason() -> None:
    q = (
        FLOWS.map(score=function(twice, "len", returns="int32"), e=call("exp", col("load")))
        .where(call("hour", col("ts").cast("timestamp[ms]")) < 12)
        .window("10s")
        .aggregate(
            total=sum_("load"),
            exact=sum_("load", scale=100),
            m=mean("load"),
            own=aggregate("len", spread, returns="int64"),
        )
    )
    told = said(q)
    assert "select score: tests.engine.queries:twice(len) is a function of yours" in told
    assert "select e: exp of floats is the C library's" in told
    assert "aggregate total: " in told
    assert "aggregate m: " in told
    assert "aggregate own: tests.engine.queries:spread is a function of yours" in told
    assert "aggregate exact: " not in told
    assert "where" not in told.partition("may diverge:")[2]
    assert "at every instant; reach all; revises" in told


def test_time_zones_may_diverge_and_utc_does_not() -> None:
    def why(zone: str) -> tuple[str, ...]:
        return _zoned(zone).where(call("hour", col("at")) > 3).properties.may_diverge

    assert why("UTC") == ()
    (sentence,) = why("Europe/Berlin")
    assert sentence.startswith("where (at.dt.hour > 3): hour of timestamp[ms, tz=Europe/Berlin] ")
    assert sentence.endswith("reads the machine's rules of time zones")
    q = _zoned("UTC").map(text=call("strftime", col("at")))
    assert "names of days" in q.properties.may_diverge[0]


def _zoned(zone: str) -> Query:
    return source("a", {"at": pa.timestamp("ms", zone)}, time="at")


def test_functions_of_integers_do_not_diverge() -> None:
    assert FLOWS.map(x=call("power", col("len"), 2)).properties.may_diverge == ()
    assert FLOWS.map(x=call("power", col("load"), 2)).properties.may_diverge != ()


def test_a_plan_shows_its_choice_of_implementation() -> None:
    assert "wid; reach 11 s" in TALKERS.explain(implementation="wid")
    assert "wid; reach 11 s" in TALKERS.explain({TALKERS.root: "wid"})
    assert "paned; reach 11 s" in TALKERS.explain({})
    landmark = FLOWS.window("all", "1s").aggregate(n=count())
    assert "held; reach all" in landmark.explain(implementation="wid")


def test_a_race_says_its_case() -> None:
    q = race(TALKERS, TALKERS.where(col("packets") > 0))
    assert "race of 2 LMerge r2: inserts only, in order; ties in any order;" in said(q)


def test_a_window_that_is_answered_and_read_otherwise_shows_its_reach() -> None:
    windowed = FLOWS.window("10s", "1s")
    q = windowed.group_by("src").aggregate(n=count()).join(windowed, on="src")
    assert "window range 10 s, slide 1 s CF; reach 11 s" in said(q)


def test_sources_that_come_in_order_have_no_late_rows() -> None:
    ordered = source("a", {"t": "int64"}, time="t", lateness=0)
    assert "time t, in order inserts only, in order of start, ends follow" in said(ordered)
    assert "late rows" not in said(ordered)
    assert "late rows: of b found" in said(
        source("b", {"t": "int64"}, time="t", lateness=k_late(2))
    )


def test_a_wide_source_names_some_of_its_columns() -> None:
    wide = source("a", {f"c{i}": "int64" for i in range(20)}, time="c0")
    assert "c11, and 8 more) time c0, with watermarks" in said(wide)


def test_every_query_can_be_explained() -> None:
    for seed in range(cases(200)):
        q = random_query(seed)
        lines = q.explain().splitlines()
        assert lines[-1] == f"on error: {q.on_error_mode}"
        assert sum(line.lstrip(" #0123456789").startswith("source ") for line in lines) == len(
            [node for node in q.derived if type(node).__name__ == "Source"]
        )
        assert repr(q).startswith("Query(")


# -- what a query costs ---------------------------------------------------------------------------


def costs_of(query: Query, implementation: Implementation = None) -> list[str]:
    """The sentences of the section, without the step that each is about."""
    told = query.explain(implementation)
    if "\ncosts:\n" not in told:
        return []
    steps = tuple(f"{node_text(node)}: " for node in query.derived)
    lines = [line.strip() for line in told.partition("\ncosts:\n")[2].splitlines()[:-1]]
    assert all(line.startswith(steps) for line in lines)
    return [line.removeprefix(next(s for s in steps if line.startswith(s))) for line in lines]


def test_what_costs_little_is_not_spoken_of() -> None:
    assert costs_of(TALKERS) == []
    assert costs_of(FLOWS.window("10m", "1s").aggregate(hi=max_("len"), early="5s")) != []
    assert costs_of(FLOWS.window("9m", "1s").aggregate(hi=max_("len"), early="5s")) == []
    assert costs_of(FLOWS.window("10s").distinct()) == []
    assert costs_of(FLOWS.latest_by("src")) == []
    assert costs_of(FLOWS.window("5s").join(FLOWS.latest_by("src"), on="src")) == []


def test_many_open_windows_are_told_with_what_answers_less() -> None:
    (sentence,) = costs_of(FLOWS.window("24h", "1s").group_by("src").aggregate(n=count()))
    assert sentence == (
        "each group has 86,400 windows open and is answered every 1 s for 1 d after its last row: "
        "a longer slide answers less often"
    )


def test_rows_that_are_counted_in_each_of_their_windows_are_told() -> None:
    q = FLOWS.window("2m", "1s").aggregate(n=count())
    assert costs_of(q) == []
    (sentence,) = costs_of(q, "wid")
    assert sentence.startswith("wid counts each row in each of its 120 windows: ")


def test_early_answers_that_each_row_revises_are_told() -> None:
    (sentence,) = costs_of(FLOWS.window("2m", "1s").aggregate(n=count(), early=True))
    assert sentence.startswith("each row revises up to 120 early answers, ")
    (sentence,) = costs_of(FLOWS.window("5m", "1s").aggregate(n=count(), early="1m"))
    assert sentence.startswith("each row revises up to 61 early answers, ")


def test_a_join_that_wants_no_column_equal_is_told() -> None:
    other = FLOWS.window("5s").select(a=col("src"))
    (sentence,) = costs_of(FLOWS.window("5s").join(other, where=col("src") < col("a")))
    assert sentence.startswith("each row is held against every row of the other side ")
    assert sentence.endswith("on=")


def test_functions_of_the_user_are_told_where_they_are_called() -> None:
    q = FLOWS.map(score=function(twice, "len", returns="int32"))
    (sentence,) = costs_of(q)
    assert sentence.startswith("tests.engine.queries:twice(len) is called in Python for each frame")
    kept = FLOWS.where(function(twice, "len", returns="bool"))
    assert costs_of(kept)[0].startswith("tests.engine.queries:twice(len) is called in Python")
    own = aggregate("len", spread, returns="int64")
    (windowed,) = costs_of(FLOWS.window("10s", "1s").aggregate(own=own))
    (alive,) = costs_of(FLOWS.window("10s").aggregate(own=own))
    assert windowed.startswith("own calls your function with all values of each group, of each ")
    assert alive.startswith("own calls your function with all values of each group, at each ")


def test_rows_that_live_for_ever_are_told_where_each_one_is_held() -> None:
    alive = FLOWS.window("all")
    for q in (alive.distinct(), alive.top_k(3, by="len"), alive.aggregate(n=count())):
        (sentence,) = costs_of(q)
        assert sentence.startswith("rows live for ever, because of window")
        assert "latest_by" in sentence
    assert costs_of(FLOWS.window("all", "1s").aggregate(n=count())) == []


def test_a_source_that_promises_nothing_by_itself_is_told_below_latest_by() -> None:
    quiet = source("quiet", {"t": "int64", "k": "int64"}, time="t")
    (sentence,) = costs_of(quiet.latest_by("k"))
    assert sentence.startswith("every row is held until quiet promises that none before it comes: ")
