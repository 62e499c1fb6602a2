"""Race: whichever plan is ahead, the table is the one that all of them tell."""

import random

import pytest

from gapless.engine.race import Race
from gapless.merge.choose import StreamProperties
from gapless.operators.operator import Marks, Out
from gapless.protocol.elements import BEGIN, INF
from gapless.protocol.errors import DecodeError, GaplessError, Misuse, StreamViolation
from gapless.protocol.frame import Frame
from gapless.protocol.schema import StreamSchema
from gapless.protocol.tdb import Event, Tdb
from gapless.protocol.text import DEFAULT_SCHEMA, format, parse
from gapless.protocol.variants import Order, Telling, random_tdb, random_telling, tell
from tests.effort import cases
from tests.operators import laws

IN_ORDER = StreamProperties(insert_only=True, ordered=True)
KNOWN: dict[str, StreamProperties] = {
    "r0": StreamProperties(insert_only=True, strictly_ordered=True),
    "r1": StreamProperties(
        insert_only=True, ordered=True, deterministic_ties=True, ve_of_vs=True, lossless=True
    ),
    "r2": IN_ORDER,
    "r3": StreamProperties(key=True),
    "r4": StreamProperties(),
}
PAYLOADS: list[tuple[object, ...]] = [("A",), ("B",), ("C",)]


def make(case: str) -> Race:
    return Race(DEFAULT_SCHEMA, [KNOWN[case]] * 2)


def table(case: str, rng: random.Random) -> Tdb:
    """A table that streams of such properties can tell."""
    tdb = random_tdb(rng, DEFAULT_SCHEMA, PAYLOADS, 25, 50, duplicates=case == "r4")
    events = tdb.events
    if case == "r0":
        events = list({e.vs: e for e in events}.values())
    if case == "r1":
        events = [Event(e.payload, e.vs, e.vs + 1 + e.vs % 7) for e in events]
    return Tdb(DEFAULT_SCHEMA, events)


def telling(case: str, rng: random.Random) -> Telling:
    if case in ("r3", "r4"):
        return random_telling(rng)
    return Telling(
        order="ties_shuffled" if case == "r2" else "by_start",
        stable_every=rng.choice((2, 5)),
        stable_lag=rng.choice((0, 5)),
        frame_rows=rng.choice((1, 4)),
    )


def drawn(case: str, seed: int) -> tuple[random.Random, Tdb, laws.Told]:
    rng = random.Random(f"{case} {seed}")
    tdb = table(case, rng)
    streams = [tell(tdb, telling(case, rng), seed * 2 + i) for i in range(2)]
    return rng, tdb, laws.woven(rng, *streams)


def say(race: Race, source: int, text: str) -> str:
    frame = Frame.from_elements(DEFAULT_SCHEMA, parse(text))
    return format(race.push(source, frame).frame.elements())


def test_the_example_of_the_header() -> None:
    race = make("r3")
    assert say(race, 0, "ins(A,6,7) stable(4)") == "ins(A,6,7) stable(4)"
    assert say(race, 1, "ins(A,6,12) stable(9)") == "adj(A,6,7,12) stable(9)"
    assert say(race, 0, "adj(A,6,7,12) stable(11)") == "stable(11)"


@pytest.mark.parametrize("case", KNOWN)
def test_what_is_known_of_the_plans_chooses_the_case(case: str) -> None:
    assert make(case).case == case
    assert Race(DEFAULT_SCHEMA, [KNOWN[case], KNOWN["r4"]]).case == "r4"


@pytest.mark.parametrize("case", KNOWN)
def test_the_table_is_the_one_that_all_tell_and_as_early_as_any_tells_it(case: str) -> None:
    for seed in range(cases(25)):
        rng, tdb, told = drawn(case, seed)
        for cut in (told, laws.recut(rng, told)):
            race, out, ahead = make(case), Tdb(DEFAULT_SCHEMA), BEGIN
            for source, frame in cut:
                laws.follow(race, out, source, frame)
                ahead = ahead if frame.stable is None else max(ahead, frame.stable)
                assert out.stable == ahead
            assert out == tdb, f"seed {seed}\n{out.difference(tdb)}"
            assert out.stable == INF
            assert (race.detached, race.divergences) == ({}, 0)


@pytest.mark.parametrize("case", KNOWN)
def test_a_restored_one_goes_on_the_same(case: str) -> None:
    for seed in range(cases(15)):
        rng, _, told = drawn(case, seed)
        at = rng.randrange(len(told))
        laws.holds_that_a_restored_one_goes_on_the_same(lambda: make(case), told, at)


@pytest.mark.parametrize("case", KNOWN)
def test_skipping_spares_only_what_is_not_wanted_and_looks_like_no_divergence(case: str) -> None:
    for seed in range(cases(25)):
        rng, tdb, told = drawn(case, seed)
        race = make(case)
        laws.holds_that_fast_forward_spares_only_what_ends_before(
            iter([race]).__next__, told, tdb, rng
        )
        assert (race.detached, race.divergences) == ({}, 0)


@pytest.mark.parametrize("case", KNOWN)
def test_starting_late_gives_all_that_is_wanted(case: str) -> None:
    for seed in range(cases(10)):
        rng, tdb, _ = drawn(case, seed)
        order: Order = "by_start" if case != "r2" else "ties_shuffled"
        streams = [tell(tdb, Telling(order=order), i) for i in range(2)]
        told, t = laws.woven(rng, *streams), rng.randrange(60)
        laws.holds_that_a_start_at_reach_gives_all_that_is_wanted(lambda: make(case), told, tdb, t)


def test_a_plan_that_breaks_its_promise_is_let_go_and_the_race_goes_on() -> None:
    race = make("r3")
    say(race, 0, "ins(A,6,7) stable(9)")
    assert say(race, 0, "ins(B,3,7)") == ""
    assert isinstance(race.detached[0], StreamViolation)
    assert say(race, 0, "ins(C,30,31)") == ""  # nobody listens to it
    assert say(race, 1, "ins(A,6,7) stable(inf)") == "stable(inf)"
    new = make("r3")
    new.restore(race.snapshot())
    assert list(new.detached) == [0]
    with pytest.raises(StreamViolation, match="ins\\(D,1,2\\)"):
        say(race, 1, "ins(D,1,2)")


def test_two_plans_that_differ_are_counted() -> None:
    race = make("r3")
    say(race, 0, "ins(A,6,7)")
    say(race, 1, "ins(A,6,8)")
    say(race, 0, "stable(9)")
    say(race, 1, "stable(12)")
    assert race.divergences == 1


def test_what_is_no_snapshot_of_it_is_refused() -> None:
    state = make("r3").snapshot()
    three = Race(DEFAULT_SCHEMA, [KNOWN["r3"]] * 3).snapshot()
    document = state["document"]
    for bad in ({}, {**state, "document": document.slice(1)}, {"document": document}, three):
        with pytest.raises(DecodeError):
            make("r3").restore(bad)
    with pytest.raises(Misuse):
        Race(StreamSchema({"n": "int64"}), [])


class ListensToOne(Race):
    """Broken: the other plan is not heard."""

    def push(self, source: int, frame: Frame, marks: Marks = ()) -> Out:
        return Out(Frame.empty(self.schema)) if source else super().push(source, frame, marks)


class SkipsTooMuch(Race):
    """Broken: plans skip what the output has not settled."""

    def fast_forward(self, t: int) -> int:
        super().fast_forward(t)
        return t


def test_the_checks_of_this_file_catch_one_that_listens_to_one_plan() -> None:
    race = ListensToOne(DEFAULT_SCHEMA, [KNOWN["r3"]] * 2)
    assert say(race, 1, "stable(9)") == ""  # as early as any would be stable(9)


def test_the_checks_of_this_file_catch_one_that_skips_too_much() -> None:
    def caught(seed: int) -> bool:
        rng, tdb, told = drawn("r2", seed)
        race = SkipsTooMuch(DEFAULT_SCHEMA, [KNOWN["r4"]] * 2)
        try:
            laws.holds_that_fast_forward_spares_only_what_ends_before(lambda: race, told, tdb, rng)
        except (AssertionError, GaplessError):
            return True
        return race.divergences > 0

    assert any(map(caught, range(30)))
