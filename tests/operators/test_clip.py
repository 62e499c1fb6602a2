"""Clip: each event is cut at T, and what is said of it later is cut with it."""

import random

import pytest

from gapless.operators.clip import Clip
from gapless.protocol.elements import BEGIN, INF
from gapless.protocol.errors import DecodeError, Misuse, SchemaError, StreamViolation
from gapless.protocol.frame import Frame
from gapless.protocol.schema import StreamSchema
from gapless.protocol.tdb import Event, Tdb
from gapless.protocol.text import format, parse
from gapless.protocol.variants import random_tdb
from tests.operators import laws

SCHEMA = StreamSchema({"p": "string"})
ROWS: list[tuple[object, ...]] = [("A",), ("B",), ("C",)]
SEEDS = range(120)


def cut(tdb: Tdb, at: int, *, before: bool) -> Tdb:
    """The oracle, an event at a time."""
    if before:
        return Tdb(
            tdb.schema, [Event(e.payload, e.vs, min(e.ve, at)) for e in tdb.events if e.vs < at]
        )
    return Tdb(tdb.schema, [Event(e.payload, max(e.vs, at), e.ve) for e in tdb.events if e.ve > at])


def clip(at: int, *, before: bool) -> Clip:
    return Clip(SCHEMA, before=at) if before else Clip(SCHEMA, from_=at)


def drawn(seed: int) -> tuple[random.Random, Tdb, int]:
    rng = random.Random(seed)
    return rng, random_tdb(rng, SCHEMA, ROWS, 25, 60, duplicates=bool(seed % 2)), rng.randint(1, 70)


def told(seed: int, tdb: Tdb) -> laws.Told:
    return [(0, frame) for frame in laws.tellings(tdb, seed)]


def say(operator: Clip, text: str) -> str:
    frame = Frame.from_elements(SCHEMA, parse(text, SCHEMA))
    return format(operator.push(0, frame).frame.elements())


def check_any_telling(seeds: range, *, before: bool) -> None:
    for seed in seeds:
        _, tdb, at = drawn(seed)
        wanted = cut(tdb, at, before=before)
        out = laws.runs(clip(at, before=before), told(seed, tdb))
        assert out == wanted, f"seed {seed}: {out.difference(wanted)}"
        assert out.stable == INF


@pytest.mark.parametrize("before", [True, False], ids=["before", "from"])
def test_any_telling_of_a_table_gives_the_table_cut_at_the_time(before: bool) -> None:
    check_any_telling(SEEDS, before=before)


@pytest.mark.parametrize("before", [True, False], ids=["before", "from"])
def test_smaller_frames_a_restart_and_a_skip_change_nothing(before: bool) -> None:
    for seed in SEEDS[:60]:
        rng, tdb, at = drawn(seed)
        wanted = cut(tdb, at, before=before)
        stream = told(seed, tdb)
        assert laws.runs(clip(at, before=before), laws.recut(rng, stream)) == wanted

        def make(at: int = at) -> Clip:
            return clip(at, before=before)

        laws.holds_that_a_restored_one_goes_on_the_same(make, stream, rng.randint(0, len(stream)))
        inserts = [(0, frame) for frame in laws.tellings(tdb, seed, inserts=True)]
        laws.holds_that_a_start_at_reach_gives_all_that_is_wanted(
            make, inserts, wanted, rng.randint(0, 60)
        )


@pytest.mark.parametrize("before", [True, False], ids=["before", "from"])
def test_what_it_does_not_ask_for_any_more_is_not_missed(before: bool) -> None:
    for seed in SEEDS[:60]:
        rng, tdb, at = drawn(seed)
        wanted = cut(tdb, at, before=before)
        operator, out, skipped, needed = clip(at, before=before), Tdb(SCHEMA), BEGIN, BEGIN
        for frame in laws.tellings(tdb, seed, inserts=True):
            if rng.random() < 0.3:
                skipped = max(skipped, rng.randint(0, 70))
                needed = operator.fast_forward(skipped)
            laws.follow(operator, out, 0, frame.take(frame.ve >= needed, frame.stable))
        assert out.since(skipped) == wanted.since(skipped)


def test_an_end_that_moves_across_the_time_begins_or_ends_a_part() -> None:
    after = Clip(SCHEMA, from_=10)
    assert say(after, "ins(A,6,8)") == "stable(10)"
    assert say(after, "adj(A,6,8,20)") == "ins(A,10,20)"
    assert say(after, "adj(A,6,20,15)") == "adj(A,10,20,15)"
    assert say(after, "adj(A,6,15,10)") == "adj(A,10,15,10)"
    before = Clip(SCHEMA, before=10)
    assert say(before, "ins(A,6,8) adj(A,6,8,20)") == "ins(A,6,8) adj(A,6,8,10)"
    assert say(before, "adj(A,6,20,15) ins(B,10,12)") == ""
    assert say(before, "adj(A,6,15,6)") == "adj(A,6,10,6)"


def test_nothing_is_open_before_a_time_that_is_stable_and_nothing_is_said_before_the_other() -> (
    None
):
    before, after = Clip(SCHEMA, before=10), Clip(SCHEMA, from_=10)
    assert [say(before, f"stable({t})") for t in (4, 9, 10, 12)] == [
        "stable(4)",
        "stable(9)",
        "stable(inf)",
        "",
    ]
    assert [say(after, f"stable({t})") for t in (4, 9, 10, 12)] == [
        "stable(10)",
        "",
        "",
        "stable(12)",
    ]


def test_a_frame_on_its_side_passes_as_it_is() -> None:
    frame = Frame.from_elements(SCHEMA, parse("ins(A,6,8) ins(B,7,10)", SCHEMA))
    assert Clip(SCHEMA, before=10).push(0, frame).frame is frame
    assert Clip(SCHEMA, from_=5).push(0, frame.with_stable(6)).frame.batch is frame.batch


def test_inserts_that_never_change_stay_so() -> None:
    for seed in SEEDS[:20]:
        _, tdb, at = drawn(seed)
        for before in (True, False):
            operator = clip(at, before=before)
            for frame in laws.tellings(tdb, seed, inserts=True):
                assert operator.push(0, frame).frame.insert_only


class KeepsAdjusts(Clip):
    """Cuts an adjust that brings an event over the time as if its part had been there."""

    def _from(self, frame: Frame) -> Frame:
        late = frame.ve > self._at
        kept = frame.take(late)
        starts = kept.vs.clip(min=self._at)
        return Frame.made(SCHEMA, starts, kept.ve, kept.payload.columns, kept.was)


def test_a_clip_that_takes_adjusts_for_adjusts_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Clip, "_from", KeepsAdjusts._from)
    with pytest.raises((AssertionError, StreamViolation, Misuse)):
        check_any_telling(SEEDS, before=False)


def test_a_clip_that_promises_the_end_too_early_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    promise = Clip._promise

    def hasty(self: Clip, stable: int | None) -> int | None:
        return promise(self, stable if stable is None else min(INF, stable + 5))

    monkeypatch.setattr(Clip, "_promise", hasty)
    with pytest.raises((AssertionError, StreamViolation)):
        check_any_telling(SEEDS, before=True)


@pytest.mark.parametrize(
    "options", [{}, {"before": 1, "from_": 2}, {"before": INF}, {"from_": BEGIN}]
)
def test_one_finite_time_is_needed(options: dict[str, int]) -> None:
    with pytest.raises(Misuse, match=r"clip.*(one of them|a finite time)"):
        Clip(SCHEMA, **options)


def test_frames_and_states_of_others_are_refused() -> None:
    other = StreamSchema({"q": "int64"})
    with pytest.raises(SchemaError):
        Clip(SCHEMA, before=10).push(0, Frame.empty(other, 3))
    with pytest.raises(DecodeError):
        Clip(SCHEMA, before=10).restore({})
