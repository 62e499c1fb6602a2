"""Difference: at each instant as many copies as the left has more than the right."""

import random
from collections import Counter

import pytest

from gapless.operators.difference import LEFT, RIGHT, Difference
from gapless.operators.pieces import Pieces, Rows, Spans
from gapless.protocol.elements import BEGIN, INF
from gapless.protocol.errors import GaplessError, StreamViolation
from gapless.protocol.punctuation import Punctuation
from gapless.protocol.tdb import Tdb
from gapless.protocol.text import DEFAULT_SCHEMA, format
from gapless.protocol.variants import random_tdb
from tests.effort import cases
from tests.operators.instants import (
    Alive,
    by_instant,
    frame_of,
    run,
    run_tight,
    run_with_snapshot,
    say,
    told,
)

PAYLOADS: list[tuple[object, ...]] = [("A",), ("B",)]


def left_over(alive: list[Alive]) -> Alive:
    left, right = alive
    return left - right  # Counter's own: nothing below none


def drawn(seed: int) -> tuple[random.Random, list[Tdb]]:
    rng = random.Random(seed)
    sizes = (20, rng.choice((0, 5, 20)))
    return rng, [random_tdb(rng, DEFAULT_SCHEMA, PAYLOADS, n, 50, duplicates=True) for n in sizes]


def test_the_example_of_the_header() -> None:
    difference = Difference(DEFAULT_SCHEMA)
    assert say(difference, "ins(A,0,9) ins(A,2,9) stable(12)", LEFT) == []
    assert format(say(difference, "ins(A,4,6) stable(12)", RIGHT)) == (
        "ins(A,0,4) ins(A,2,9) ins(A,6,9) stable(12)"
    )
    assert len(difference) == 0


def test_any_telling_of_two_tables_gives_their_difference_at_each_instant_tightly() -> None:
    for seed in range(cases(80)):
        rng, tdbs = drawn(seed)
        wanted = by_instant(left_over, tdbs, DEFAULT_SCHEMA)
        for variant in range(2):
            steps = told(tdbs, rng, 10 * seed + variant)
            out = run_tight(Difference(DEFAULT_SCHEMA), left_over, steps)
            assert out == wanted, f"seed {seed}\n{out.difference(wanted)}"
            assert out.stable == INF


def test_an_idle_input_holds_stables_back_and_nothing_else() -> None:
    difference = Difference(DEFAULT_SCHEMA)
    for i in range(50):
        assert say(difference, f"ins(A,{i},{i + 5}) stable({i})", LEFT) == []
    assert len(say(difference, "stable(40)", RIGHT)) > 1
    assert say(difference, "stable(30)", RIGHT) == []  # older than what it has said


def test_a_mark_of_one_input_promises_nothing() -> None:
    difference = Difference(DEFAULT_SCHEMA)
    out = difference.push(LEFT, frame_of(DEFAULT_SCHEMA, "ins(A,0,9)"), (Punctuation.of(),))
    assert out.marks == ()
    assert not out.frame


def test_an_adjust_changes_what_its_own_input_has_said() -> None:
    difference = Difference(DEFAULT_SCHEMA)
    say(difference, "ins(A,0,9)", LEFT)
    with pytest.raises(StreamViolation):
        say(difference, "adj(A,0,9,8)", RIGHT)


def test_a_snapshot_at_any_frame_gives_the_same_output_from_then_on() -> None:
    for seed in range(cases(40)):
        rng, tdbs = drawn(seed)
        steps = told(tdbs, rng, seed)
        run_with_snapshot(lambda: Difference(DEFAULT_SCHEMA), steps, rng.randint(0, len(steps)))


def test_fast_forward_asks_nothing_and_changes_nothing_that_ends_at_or_after_its_time() -> None:
    for seed in range(cases(40)):
        rng, tdbs = drawn(seed)
        difference, out, skipped = Difference(DEFAULT_SCHEMA), Tdb(DEFAULT_SCHEMA), BEGIN
        for source, frame in told(tdbs, rng, seed):
            if rng.random() < 0.3:
                skipped = max(skipped, rng.randint(0, 60))
                assert difference.fast_forward(skipped) == BEGIN
            out.fold(difference.push(source, frame).frame)
            difference.validate()
        wanted = by_instant(left_over, tdbs, DEFAULT_SCHEMA)
        assert out.since(skipped) == wanted.since(skipped), f"seed {seed}"
    assert Difference(DEFAULT_SCHEMA).reach == INF


class OwesLater(Difference):
    """Broken: what the right has too much is taken off later."""

    def _answer(self, pieces: Pieces, spans: Spans) -> Rows:
        rows = super()._answer(pieces, spans)
        left = (self._events.input.values[spans.event] == LEFT).nonzero()[0]
        one_sided = Spans(spans.event[left], spans.first[left], spans.last[left])
        copies = self._events.count.values[one_sided.event]
        return Rows(rows.piece, rows.payload, one_sided.covered(len(pieces), copies)[rows.piece])


class PromisesForOne(Difference):
    """Broken: passes on what one input promises."""

    def _next_stable(self, source: int, stable: int | None) -> int | None:
        super()._next_stable(source, stable)
        most = max(self._input_stables)
        return most if most > self._stable else None


@pytest.mark.parametrize("broken", [OwesLater, PromisesForOne])
def test_the_checks_of_this_file_catch_a_broken_one(broken: type[Difference]) -> None:
    def caught(seed: int) -> bool:
        rng, tdbs = drawn(seed)
        try:
            out = run(broken(DEFAULT_SCHEMA), told(tdbs, rng, seed))
        except (GaplessError, AssertionError, ValueError):
            return True
        return out != by_instant(left_over, tdbs, DEFAULT_SCHEMA)

    assert any(caught(seed) for seed in range(30))


def test_difference_with_itself_is_empty() -> None:
    for seed in range(cases(20)):
        rng, (tdb, _) = drawn(seed)
        out = run(Difference(DEFAULT_SCHEMA), told([tdb, tdb], rng, seed))
        assert out.counts() == Counter()
