"""Meld: rows at once, promises once every input has made them."""

import random

import pytest

from gapless.operators import meld
from gapless.operators.meld import Meld
from gapless.operators.operator import Marks, Out
from gapless.protocol.elements import BEGIN, INF
from gapless.protocol.errors import DecodeError, GaplessError, Misuse
from gapless.protocol.frame import Frame
from gapless.protocol.punctuation import Punctuation
from gapless.protocol.schema import StreamSchema
from gapless.protocol.tdb import Tdb
from gapless.protocol.text import format, parse
from gapless.protocol.variants import random_tdb
from tests.effort import cases
from tests.operators import laws

SCHEMA = StreamSchema({"src": "string", "at": "int64"})
ROWS: list[tuple[object, ...]] = [(s, n) for s in ("A", "B") for n in (1, 20, 40)]
NOTHING = Frame.empty(SCHEMA)


def drawn(seed: int, inputs: int = 3) -> tuple[random.Random, list[Tdb], laws.Told, Tdb]:
    """Tables, a way of telling them all, and their union."""
    rng = random.Random(seed)
    tables = [random_tdb(rng, SCHEMA, ROWS, 12, 50, duplicates=True) for _ in range(inputs)]
    told = laws.woven(rng, *(laws.tellings(t, seed * 9 + i) for i, t in enumerate(tables)))
    return rng, tables, told, Tdb(SCHEMA, [e for t in tables for e in t.events])


def make() -> Meld:
    return Meld(SCHEMA, 3)


def say(union: Meld, source: int, text: str) -> str:
    frame = Frame.from_elements(SCHEMA, parse(text, SCHEMA))
    return format(union.push(source, frame).frame.elements())


def test_the_example_of_the_header() -> None:
    union = Meld(SCHEMA, 2)
    assert say(union, 0, "ins((A,1),1,5) stable(4)") == "ins((A,1),1,5)"
    assert say(union, 1, "ins((B,1),4,6) stable(7)") == "ins((B,1),4,6) stable(4)"
    assert say(union, 0, "stable(9)") == "stable(7)"
    assert say(union, 0, "stable(inf)") == ""
    assert say(union, 1, "stable(30)") == "stable(30)"


def test_rows_pass_at_once_and_the_stable_is_the_least_there_is() -> None:
    for seed in range(cases(40)):
        rng, _, told, wanted = drawn(seed)
        for cut in (told, laws.recut(rng, told)):
            union, out, heard = make(), Tdb(SCHEMA), [BEGIN] * 3
            for source, frame in cut:
                pushed = laws.follow(union, out, source, frame)
                if frame.stable is not None:
                    heard[source] = frame.stable
                assert len(pushed.frame) == len(frame)
                assert out.stable == min(heard)
            assert out == wanted
            assert out.stable == INF
        laws.holds_that_a_restored_one_goes_on_the_same(make, told, rng.randrange(len(told)))


def test_skipping_and_starting_late_spare_only_what_is_not_wanted() -> None:
    for seed in range(cases(20)):
        rng, tables, _, wanted = drawn(seed)
        told = laws.woven(rng, *(laws.tellings(t, seed, inserts=True) for t in tables))
        laws.holds_that_fast_forward_spares_only_what_ends_before(make, told, wanted, rng)
        t = rng.randrange(60)
        laws.holds_that_a_start_at_reach_gives_all_that_is_wanted(make, told, wanted, t)


def test_a_frame_of_one_input_is_passed_on_as_it_is() -> None:
    union = Meld(SCHEMA, 1)
    frame = Frame.from_elements(SCHEMA, parse("ins((A,1),1,5) stable(4)", SCHEMA))
    assert union.push(0, frame).frame is frame


def test_a_mark_passes_once_every_input_implies_it_and_only_once() -> None:
    union = Meld(SCHEMA, 2)
    assert not union.push(0, NOTHING, (Punctuation.of(at=5),)).marks
    assert union.push(1, NOTHING, (Punctuation.of(at=3),)).marks == (Punctuation.of(at=3),)
    assert union.push(1, NOTHING, (Punctuation.of(at=9),)).marks == (Punctuation.of(at=5),)
    assert not union.push(1, NOTHING, (Punctuation.of(at=12),)).marks
    assert not union.push(0, NOTHING, (Punctuation.of(at=2),)).marks  # says less than before


def test_marks_of_a_group_wait_for_that_group_or_for_a_promise_about_all() -> None:
    union = Meld(SCHEMA, 2)
    group = Punctuation.of({"src": "A"}, at=5)
    assert not union.push(0, NOTHING, (group, Punctuation.of({"src": "B"}, at=8))).marks
    assert not union.push(1, NOTHING, (Punctuation.of({"src": "C"}, at=5),)).marks
    marks = union.push(1, NOTHING, (Punctuation.of(at=7),)).marks
    assert set(marks) == {group, Punctuation.of({"src": "B"}, at=7)}


def test_a_stable_is_as_good_as_a_mark_on_starts_and_an_end_as_good_as_any() -> None:
    union = Meld(SCHEMA, 2)
    by_group = Punctuation.of({"src": "A"}, _vs=9)
    assert not union.push(0, NOTHING, (by_group, Punctuation.of(at=4))).marks
    assert union.push(1, Frame.empty(SCHEMA, 8)).marks == (Punctuation.of({"src": "A"}, _vs=8),)
    assert union.push(1, Frame.empty(SCHEMA, 30)).marks == (by_group,)
    out = union.push(1, Frame.empty(SCHEMA, INF))
    assert out.marks == (Punctuation.of(at=4),)
    assert out.frame == NOTHING


def test_whatever_marks_pass_no_row_after_them_is_one_that_they_forbid() -> None:
    """Each input gives marks that are true of its own rest; now and then they pass."""
    passed = 0
    for seed in range(cases(40)):
        rng, _, told, _ = drawn(seed, inputs=2)
        given: list[Punctuation] = []
        union = Meld(SCHEMA, 2)
        for i, (source, frame) in enumerate(told):
            rest = [f.inserts.batch for s, f in told[i + 1 :] if s == source]
            marks = tuple(m for m in some_marks(rng) if not any(m.matches(b).any() for b in rest))
            assert not any(mark.matches(frame.inserts.batch).any() for mark in given)
            out = union.push(source, frame, marks)
            union.validate()
            given += out.marks
        passed += len(given)
    assert passed > 100


def some_marks(rng: random.Random) -> list[Punctuation]:
    def bounds() -> dict[str, int]:
        names = rng.choice((["at"], ["_vs"], ["_vs", "at"], []))
        return {name: rng.randint(1, 60) for name in names}

    return [Punctuation.of(rng.choice(({}, {"src": "A"})), **bounds()) for _ in range(3)]


def test_marks_are_in_the_snapshot() -> None:
    old, new = Meld(SCHEMA, 2), Meld(SCHEMA, 2)
    old.push(0, Frame.empty(SCHEMA, 4), (Punctuation.of({"src": "A"}, at=5),))
    old.push(0, NOTHING, (Punctuation.of(at=3),))
    old.push(1, NOTHING, (Punctuation.of(at=2),))
    new.restore(old.snapshot())
    for union in (old, new):
        marks = (Punctuation.of(at=2), Punctuation.of({"src": "A"}, at=6))
        assert union.push(1, NOTHING, marks).marks == (Punctuation.of({"src": "A"}, at=5),)


def test_marks_that_are_kept_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(meld, "SHAPES_MAX", 10)
    union = Meld(SCHEMA, 2)
    union.push(0, NOTHING, tuple(Punctuation.of({"src": f"{i}"}, at=5) for i in range(100)))
    union.validate()
    assert union.push(1, NOTHING, (Punctuation.of({"src": "99"}, at=5),)).marks
    assert not union.push(1, NOTHING, (Punctuation.of({"src": "1"}, at=5),)).marks


def test_what_is_no_snapshot_of_it_is_refused() -> None:
    with pytest.raises(DecodeError):
        Meld(SCHEMA, 2).restore(Meld(SCHEMA, 3).snapshot())
    with pytest.raises(DecodeError):
        Meld(SCHEMA, 2).restore({})
    with pytest.raises(Misuse):
        Meld(SCHEMA, 0)


class PromisesTheMost(Meld):
    """Broken: takes one input's promise for all of them."""

    def push(self, source: int, frame: Frame, marks: Marks = ()) -> Out:
        if frame.stable is not None:
            self._stables = [max(t, frame.stable) for t in self._stables]
        return super().push(source, frame, marks)


def test_the_laws_catch_a_broken_one() -> None:
    def caught(seed: int) -> bool:
        _, _, told, wanted = drawn(seed)
        try:
            return laws.runs(PromisesTheMost(SCHEMA, 3), told) != wanted
        except (GaplessError, AssertionError):
            return True

    assert any(map(caught, range(10)))
