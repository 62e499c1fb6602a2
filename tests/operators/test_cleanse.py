"""Cleanse: the same table as inserts alone, in one order, as soon as that is possible."""

import random
from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pytest

from gapless.kernels.keys import Ids
from gapless.operators.cleanse import Cleanse
from gapless.operators.event_counts import EventCounts
from gapless.operators.operator import Marks, Out
from gapless.protocol.elements import BEGIN, INF, Element, Insert, Stable
from gapless.protocol.errors import Bug, DecodeError, StreamViolation
from gapless.protocol.frame import Frame, frames_of
from gapless.protocol.schema import StreamSchema
from gapless.protocol.tdb import Event, Freeze, Tdb, freeze
from gapless.protocol.text import DEFAULT_SCHEMA, format, parse
from gapless.protocol.variants import random_tdb, random_telling, tell
from tests.effort import cases

PAYLOADS: list[tuple[object, ...]] = [("A",), ("B",), ("C",), ("D",)]


def say(cleanse: Cleanse, text: str) -> str:
    frame = Frame.from_elements(cleanse.schema, parse(text, cleanse.schema))
    return format(cleanse.push(0, frame).frame.elements())


def clean(frames: list[Frame], cleanse: Cleanse | None = None) -> list[Element]:
    """Everything that comes out; the output is folded, so it is legal at every prefix."""
    if cleanse is None:
        cleanse = Cleanse(frames[0].schema)
    folded = Tdb(cleanse.schema)
    out: list[Element] = []
    for frame in frames:
        given = cleanse.push(0, frame).frame
        folded.fold(given)
        cleanse.validate()
        out += given.elements()
    return out


def inserts(elements: list[Element]) -> list[Insert]:
    return [e for e in elements if isinstance(e, Insert)]


def expected_stable(said: Tdb) -> int:
    """The rule, from the table: the input's stable, or the first start that is not final."""
    open_starts = (
        e.vs for e in said.counts() if freeze(e.vs, e.ve, said.stable) is not Freeze.FULL
    )
    return min(said.stable, *open_starts, INF)


def drawn(seed: int) -> tuple[random.Random, Tdb]:
    rng = random.Random(seed)
    return rng, random_tdb(rng, DEFAULT_SCHEMA, PAYLOADS, duplicates=bool(seed % 2))


def test_the_example_of_the_header() -> None:
    cleanse = Cleanse(DEFAULT_SCHEMA)
    assert say(cleanse, "ins(B,8,inf) ins(A,6,12) ins(A,6,12)") == ""
    assert say(cleanse, "ins(C,9,10) stable(11)") == "stable(6)"
    assert say(cleanse, "adj(B,8,inf,10) stable(13)") == (
        "ins(A,6,12) ins(A,6,12) ins(B,8,10) ins(C,9,10) stable(13)"
    )
    assert len(cleanse) == 0


def test_every_telling_of_a_table_comes_out_as_the_same_inserts_in_the_same_order() -> None:
    for seed in range(cases(60)):
        rng, tdb = drawn(seed)
        streams = [inserts(clean(tell(tdb, random_telling(rng), i))) for i in range(3)]
        assert streams[0] == streams[1] == streams[2], f"seed {seed}"
        assert streams[0] == [Insert(*e) for e in sorted(tdb.events, key=lambda e: (e.vs, e.ve, e))]


def test_inserts_alone_come_out_and_their_starts_never_fall() -> None:
    for seed in range(cases(40)):
        rng, tdb = drawn(seed)
        out = clean(tell(tdb, random_telling(rng), seed))
        assert not [e for e in out if not isinstance(e, Insert | Stable)]
        starts = [e.vs for e in inserts(out)]
        assert starts == sorted(starts)
        promised = [e.t for e in out if isinstance(e, Stable)]
        assert promised == sorted(set(promised))  # each says something new
        assert out[-1] == Stable(INF)


def test_it_holds_no_longer_than_it_must_and_promises_all_it_can() -> None:
    for seed in range(cases(40)):
        rng, tdb = drawn(seed)
        cleanse = Cleanse(DEFAULT_SCHEMA)
        said, told = Tdb(DEFAULT_SCHEMA), Tdb(DEFAULT_SCHEMA)
        for frame in tell(tdb, random_telling(rng), seed):
            said.fold(frame)
            told.fold(cleanse.push(0, frame).frame)
            if frame.stable is not None:
                first = expected_stable(said)
                assert told.stable == max(first, BEGIN)
                out = [e for e in said.frozen().events if e.vs <= first]
                assert told == Tdb(DEFAULT_SCHEMA, out), f"seed {seed}"


def test_fast_forward_changes_nothing_that_ends_at_or_after_its_time() -> None:
    for seed in range(cases(60)):
        rng, tdb = drawn(seed)
        cleanse = Cleanse(DEFAULT_SCHEMA)
        told, skipped = Tdb(DEFAULT_SCHEMA), BEGIN
        for frame in tell(tdb, random_telling(rng), seed):
            if rng.random() < 0.3:
                skipped = max(skipped, rng.randint(0, 60))
                assert cleanse.fast_forward(skipped) == skipped
            told.fold(cleanse.push(0, frame).frame)
            cleanse.validate()
        assert told.since(skipped) == tdb.since(skipped), f"seed {seed}"
        assert told.stable == INF


def test_fast_forward_drops_what_is_held_and_final() -> None:
    cleanse = Cleanse(DEFAULT_SCHEMA)
    assert say(cleanse, "ins(A,1,inf) ins(B,2,4) ins(C,3,9) stable(12)") == "stable(1)"
    cleanse.fast_forward(5)
    assert len(cleanse) == 2
    assert say(cleanse, "adj(A,1,inf,13) stable(14)") == "ins(A,1,13) ins(C,3,9) stable(14)"


def test_an_input_that_starts_at_t_tells_every_event_that_ends_at_or_after_it() -> None:
    for seed in range(cases(30)):
        rng, tdb = drawn(seed)
        out = clean(tell(tdb, random_telling(rng, join_at=30), seed))
        wanted = tdb.since(30)
        assert Tdb(DEFAULT_SCHEMA, (Event(e.payload, e.vs, e.ve) for e in inserts(out))) == wanted


def test_an_adjust_of_what_is_not_there_is_named_and_nothing_of_its_frame_counts() -> None:
    cleanse = Cleanse(DEFAULT_SCHEMA)
    say(cleanse, "ins(A,1,5)")
    with pytest.raises(StreamViolation) as caught:
        say(cleanse, "ins(B,1,9) adj(A,1,5,7) adj(C,2,6,8) adj(A,1,7,8)")
    assert caught.value.element == "adj(C,2,6,8)"
    cleanse.validate()
    assert say(cleanse, "stable(inf)") == "ins(A,1,5) stable(inf)"


def test_a_frame_may_begin_revise_and_remove_one_event() -> None:
    cleanse = Cleanse(DEFAULT_SCHEMA)
    assert say(cleanse, "ins(A,1,5) adj(A,1,5,7) adj(A,1,7,1) ins(A,1,3) stable(4)") == (
        "ins(A,1,3) stable(4)"
    )
    assert len(cleanse) == 0


def test_columns_of_every_layout_pass() -> None:
    schema = StreamSchema({"word": "string_view", "n": "float16", "b": "bool"})
    cleanse = Cleanse(schema)
    assert say(cleanse, "ins((x,-0.0,true),1,2) ins((x,0.0,true),1,2) ins((a,nan,null),1,2)") == ""
    assert say(cleanse, "stable(inf)") == (
        "ins((a,nan,null),1,2) ins((x,0.0,true),1,2) ins((x,0.0,true),1,2) stable(inf)"
    )


def test_state_goes_back_after_a_peak() -> None:
    cleanse = Cleanse(DEFAULT_SCHEMA)
    empty = cleanse.nbytes
    many = [Insert((f"payload {i}",), i, i + 2) for i in range(20_000)]
    for frame in frames_of(DEFAULT_SCHEMA, many):
        cleanse.push(0, frame)
    peak = cleanse.nbytes
    assert say(cleanse, "stable(30000)").count("ins") == 20_000
    assert peak > 100 * empty
    assert cleanse.nbytes < peak / 20
    cleanse.validate()


def test_a_snapshot_at_any_frame_gives_the_same_output_from_then_on() -> None:
    for seed in range(cases(40)):
        rng, tdb = drawn(seed)
        frames = tell(tdb, random_telling(rng), seed)
        first, cut = Cleanse(DEFAULT_SCHEMA), rng.randint(0, len(frames))
        first.fast_forward(rng.choice((BEGIN, 10, 30)))
        for frame in frames[:cut]:
            first.push(0, frame)
        second = Cleanse(DEFAULT_SCHEMA)
        second.restore(first.snapshot())
        second.validate()
        assert len(second) == len(first)
        assert clean(frames[cut:], first) == clean(frames[cut:], second), f"seed {seed}"


def test_a_snapshot_that_is_none_is_refused() -> None:
    cleanse = Cleanse(DEFAULT_SCHEMA)
    say(cleanse, "ins(A,0,10) ins(B,5,15) stable(3)")
    state = dict(cleanse.snapshot())
    events = state["events"]
    for broken in (
        {**state, "more": events},
        {n: t for n, t in state.items() if n != "payloads"},
        {**state, "payloads": state["payloads"].slice(1)},
        {**state, "events": events.slice(1)},
        {**state, "events": pa.concat_batches([events, events])},
        {**state, "events": events.set_column(1, events.schema.field(1), events["ve"])},
        {**state, "events": events.set_column(3, events.schema.field(3), pa.array([1, 0]))},
        {**state, "facts": events},
    ):
        with pytest.raises(DecodeError):
            Cleanse(DEFAULT_SCHEMA).restore(broken)


class PromisesLikeItsInput(Cleanse):
    """Broken: forgets in its promise what it still holds."""

    def push(self, source: int, frame: Frame, marks: Marks = ()) -> Out:
        return Out(super().push(source, frame, marks).frame.with_stable(frame.stable))


class ReleasesByStart(Cleanse):
    """Broken: leaves the order of ties to chance."""

    def _release(self, t: int) -> Frame:
        frame = super()._release(t)
        return frame.take(np.argsort(-frame.ve, kind="stable"), frame.stable)


class ForgetsDuplicates(Cleanse):
    """Broken: a set, not a multiset."""

    def _release(self, t: int) -> Frame:
        count = self._held.count.values
        count[count > 1] = 1
        return super()._release(t)


class KeepsReleased(Cleanse):
    """Broken: does not forget what it has released."""

    def __init__(self, schema: StreamSchema) -> None:
        super().__init__(schema)
        self._held = NeverForgets(schema)


class NeverForgets(EventCounts):
    def forget(self, ids: Ids) -> None:
        pass


@pytest.mark.parametrize(
    "broken", [PromisesLikeItsInput, ReleasesByStart, ForgetsDuplicates, KeepsReleased]
)
def test_the_checks_of_this_file_catch_a_broken_one(broken: Callable[..., Cleanse]) -> None:
    def caught(seed: int) -> bool:
        rng, tdb = drawn(seed)
        try:
            out = inserts(clean(tell(tdb, random_telling(rng), seed), broken(DEFAULT_SCHEMA)))
        except (Bug, StreamViolation, RuntimeError, ValueError):
            return True
        return out != [Insert(*e) for e in sorted(tdb.events, key=lambda e: (e.vs, e.ve, e))]

    assert any(caught(seed) for seed in range(20))
