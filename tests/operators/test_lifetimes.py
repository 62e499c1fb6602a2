"""SetLifetimes: a row's lifetime comes from its time and payload, whatever its end was."""

import random
from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pytest

from gapless.operators.aside import Aside
from gapless.operators.lifetimes import SetLifetimes, Window
from gapless.operators.operator import Marks, Out
from gapless.operators.windows import For, Hopping, Landmark, Sliding, Until
from gapless.protocol.elements import BEGIN, INF
from gapless.protocol.errors import ExpressionError, GaplessError, RowError, SchemaError
from gapless.protocol.expr import col, if_else, lit
from gapless.protocol.frame import Frame
from gapless.protocol.punctuation import Punctuation
from gapless.protocol.schema import StreamSchema
from gapless.protocol.tdb import Event, Tdb
from gapless.protocol.text import format, parse
from gapless.protocol.variants import random_tdb
from tests.effort import cases
from tests.operators import laws

SCHEMA = StreamSchema({"p": "string", "until": "int64"})
ROWS: list[tuple[object, ...]] = [("A", 61), ("A", 80), ("B", 70), ("B", None)]
DAY_MS = 86_400_000
WINDOWS: dict[str, Window] = {
    "hopping": Hopping(10, 5),
    "uneven": Hopping(7, 3),
    "gaps": Hopping(2, 7),
    "sliding": Sliding(4),
    "landmark": Landmark(5),
    "landmark, no slide": Landmark(),
    "for": For(6),
    "until": Until(col("until")),
}


def lifetime(window: Window, e: Event) -> Iterator[Event]:
    """The table in docs/engine.md, a row at a time."""
    match window:
        case Hopping(r, s):
            vs, ve = (e.vs // s + 1) * s, ((e.vs + r) // s + 1) * s
        case Landmark(None):
            vs, ve = e.vs, INF
        case Landmark(int(s)):
            vs, ve = (e.vs // s + 1) * s, INF
        case Sliding(r) | For(r):
            vs, ve = e.vs, e.vs + r
        case _:
            until = e.payload[1]
            vs, ve = e.vs, until if isinstance(until, int) else INF
    if vs < ve:
        yield Event(e.payload, vs, ve)


def promised(window: Window, t: int) -> int:
    match window:
        case Hopping(_, s) | Landmark(int(s)) if t != INF:
            return (t // s + 1) * s
    return t


def living(window: Window, tdb: Tdb) -> Tdb:
    """The oracle."""
    return Tdb(tdb.schema, [new for e in tdb.events for new in lifetime(window, e)])


def drawn(seed: int) -> tuple[random.Random, Tdb]:
    rng = random.Random(seed)
    return rng, random_tdb(rng, SCHEMA, ROWS, 25, 60, duplicates=bool(seed % 2))


def frame(text: str, schema: StreamSchema = SCHEMA) -> Frame:
    return Frame.from_elements(schema, parse(text, schema))


def say(operator: SetLifetimes, text: str) -> str:
    return format(operator.push(0, frame(text, operator.schema)).frame.elements())


def test_the_example_of_the_header() -> None:
    window = SetLifetimes(StreamSchema({"p": "string"}), Hopping(10, 5))
    assert say(window, "ins(A,7,8) stable(8)") == "ins(A,10,20) stable(10)"
    assert say(window, "adj(A,7,8,9) stable(8)") == ""
    assert say(window, "adj(A,7,9,7)") == "adj(A,10,20,10)"


@pytest.mark.parametrize("name", WINDOWS)
def test_whatever_the_order_the_ends_and_the_cut_the_same_table_comes_out(name: str) -> None:
    window = WINDOWS[name]
    for seed in range(cases(25)):
        rng, tdb = drawn(seed)
        told = [(0, f) for f in laws.tellings(tdb, seed)]
        for cut in (told, laws.recut(rng, told)):
            assert laws.runs(SetLifetimes(SCHEMA, window), cut) == living(window, tdb), f"{seed}"
        laws.holds_that_a_restored_one_goes_on_the_same(
            lambda: SetLifetimes(SCHEMA, window), told, rng.randrange(len(told))
        )


@pytest.mark.parametrize("name", WINDOWS)
def test_it_promises_what_its_rows_allow_and_only_news(name: str) -> None:
    window = WINDOWS[name]
    for seed in range(cases(10)):
        _, tdb = drawn(seed)
        operator, last, out = SetLifetimes(SCHEMA, window), BEGIN, Tdb(SCHEMA)
        for f in laws.tellings(tdb, seed):
            laws.follow(operator, out, 0, f)
            last = last if f.stable is None else f.stable
            assert out.stable == (BEGIN if last == BEGIN else promised(window, last))


@pytest.mark.parametrize("name", WINDOWS)
def test_skipping_and_starting_late_spare_only_what_is_not_wanted(name: str) -> None:
    window = WINDOWS[name]
    for seed in range(cases(20)):
        rng, tdb = drawn(seed)
        source_rows = Tdb(SCHEMA, [Event(e.payload, e.vs, e.vs + 1) for e in tdb.events])
        told = [(0, f) for f in laws.tellings(source_rows, seed, inserts=True)]
        wanted = living(window, tdb)

        def make() -> SetLifetimes:
            return SetLifetimes(SCHEMA, window)

        laws.holds_that_fast_forward_spares_only_what_ends_before(make, told, wanted, rng)
        if make().reach < INF:
            t = rng.randrange(60)
            laws.holds_that_a_start_at_reach_gives_all_that_is_wanted(make, told, wanted, t)


def test_ends_saturate_and_rows_that_would_start_when_time_is_over_go_aside() -> None:
    schema = StreamSchema({"p": "string"})
    late, last = INF - 3, INF - 1
    assert say(SetLifetimes(schema, Sliding(10)), f"ins(A,{late},{last})") == f"ins(A,{late},inf)"
    aside = Aside("aside")
    hopping = SetLifetimes(schema, Hopping(10, 5), aside=aside)
    assert say(hopping, f"ins(A,{last},inf) ins(B,1,2)") == "ins(B,5,15)"
    [kept] = aside.take()
    assert (kept.reason, kept.rows.column("p").to_pylist()) == ("starts when time is over", ["A"])


def test_an_end_that_is_not_after_its_start_goes_aside_and_so_does_what_cannot_be_computed() -> (
    None
):
    aside = Aside("aside")
    until = SetLifetimes(SCHEMA, Until(col("until") + 1), aside=aside)
    text = f"ins((A,3),4,5) ins((B,4),4,5) ins((C,{INF}),4,5) ins((D,null),4,5) ins((E,9),4,5)"
    assert say(until, text) == "ins((B,4),4,5) ins((D,null),4,inf) ins((E,9),4,10)"
    assert say(until, "adj((A,3),4,5,4) adj((E,9),4,5,4)") == "adj((E,9),4,10,4)"
    reasons = [(k.reason, k.rows.column("p").to_pylist()) for k in aside.take()]
    assert reasons[0] == ("overflow", ["C"])
    assert reasons[1] == ("the end is not after the start", ["A"])
    with pytest.raises(RowError, match="not after the start"):
        say(SetLifetimes(SCHEMA, Until(lit(3))), "ins((A,3),4,5)")


def test_an_end_may_be_a_time_of_the_streams_unit() -> None:
    schema = StreamSchema({"p": pa.string(), "to": pa.timestamp("ms")})
    until = SetLifetimes(schema, Until(col("to")))
    assert say(until, "ins((A,17),4,5)") == "ins((A,17),4,17)"
    days = StreamSchema({"p": pa.string(), "to": pa.date64()})
    times = np.array([4]), np.array([5])
    columns = [pa.array(["A"]), pa.array([DAY_MS]).cast("date64")]
    rows = Frame.from_columns(days, *times, columns)
    assert SetLifetimes(days, Until(col("to"))).push(0, rows).frame.ve.tolist() == [DAY_MS]
    small = StreamSchema({"n": "int32"})
    assert say(SetLifetimes(small, Until(col("n"))), "ins(17,4,5)") == "ins(17,4,17)"


@pytest.mark.parametrize(
    ("window", "on", "error"),
    [
        (Until(col("p")), None, SchemaError),
        (Until(col("gone")), None, ExpressionError),
        (Until(if_else(col("p") == "A", 1.5, 2.5)), None, SchemaError),
        (Until(col("seconds")), None, SchemaError),
        (Until(col("days")), None, SchemaError),
        (Sliding(3), "p", SchemaError),
        (Sliding(3), "gone", SchemaError),
        (Sliding(3), "seconds", SchemaError),
    ],
)
def test_what_is_no_time_is_refused_when_it_is_made(
    window: Window, on: str | None, error: type[GaplessError]
) -> None:
    schema = StreamSchema({"p": pa.string(), "seconds": pa.timestamp("s"), "days": pa.date32()})
    with pytest.raises(error):
        SetLifetimes(schema, window, on)


AT = StreamSchema({"p": "string", "at": "int64"})


def test_another_column_may_be_the_time_and_its_marks_then_are_what_is_promised() -> None:
    window = SetLifetimes(AT, Hopping(10, 5), on="at")
    assert window.reach == INF
    assert window.fast_forward(50) == BEGIN
    assert say(window, "ins((A,7),30,31) stable(31)") == "ins((A,7),10,20)"
    assert say(window, "adj((A,7),30,31,30)") == "adj((A,7),10,20,10)"
    marks = (Punctuation.of(at=8), Punctuation.of(at=13), Punctuation.of({"p": "A"}, at=40))
    out = window.push(0, Frame.empty(AT, 33), marks)
    assert (out.frame, out.marks) == (Frame.empty(AT, 15), marks)
    assert window.push(0, Frame.empty(AT), marks).frame == Frame.empty(AT)
    assert say(window, "stable(inf)") == "stable(inf)"


def test_rows_without_that_time_go_aside() -> None:
    aside = Aside("aside")
    window = SetLifetimes(AT, Sliding(10), "at", aside)
    text = f"ins((A,null),1,2) ins((B,3),1,2) ins((C,{INF}),1,2) ins((D,{BEGIN}),1,2)"
    assert say(window, text) == "ins((B,3),3,13)"
    [kept] = aside.take()
    assert kept.reason == "at is no time"
    assert kept.rows.column("p").to_pylist() == ["A", "C", "D"]


def test_marks_speak_of_the_new_starts() -> None:
    window = SetLifetimes(AT, Hopping(10, 5))
    marks = (Punctuation.of({"p": "A"}, _vs=7), Punctuation.of(at=3), Punctuation.of(_vs=INF))
    assert window.push(0, Frame.empty(AT), marks).marks == (
        Punctuation.of({"p": "A"}, _vs=10),
        Punctuation.of(at=3),
        Punctuation.of(_vs=INF),
    )
    on = SetLifetimes(AT, Hopping(10, 5), on="at")
    assert on.push(0, Frame.empty(AT), marks).marks == (Punctuation.of(at=3),)


class FollowsEnds(SetLifetimes):
    """Broken: an end that moves is taken for news."""

    def _rows(self, frame: Frame) -> Frame:
        return super()._rows(frame.take(frame.is_insert | (frame.ve > frame.vs)))


class PassesStables(SetLifetimes):
    """Broken: promises of a start what is true of the slide after it."""

    def push(self, source: int, frame: Frame, marks: Marks = ()) -> Out:
        out = super().push(source, frame, marks).frame
        later = None if frame.stable in (None, INF) else (out.stable or 0) + 5
        return Out(out.with_stable(later))


@pytest.mark.parametrize("broken", [FollowsEnds, PassesStables])
def test_the_laws_catch_a_broken_one(broken: type[SetLifetimes]) -> None:
    window = Hopping(10, 5)

    def caught(seed: int) -> bool:
        _, tdb = drawn(seed)
        told = [(0, f) for f in laws.tellings(tdb, seed)]
        try:
            return laws.runs(broken(SCHEMA, window), told) != living(window, tdb)
        except (GaplessError, AssertionError):
            return True

    assert any(map(caught, range(10)))
