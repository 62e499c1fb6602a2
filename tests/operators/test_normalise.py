"""Normalise: tables that say the same at every instant become one table, legally and in time."""

import random
from collections import Counter, defaultdict
from itertools import pairwise

import pyarrow as pa
import pytest

from gapless.operators.normalise import Normalise
from gapless.operators.operator import Marks, Operator, Out
from gapless.protocol.elements import BEGIN, INF, Adjust, Element, Insert, Stable
from gapless.protocol.errors import DecodeError, GaplessError, StreamViolation
from gapless.protocol.frame import Frame, Times, frames_of
from gapless.protocol.schema import StreamSchema
from gapless.protocol.tdb import Event, Tdb
from gapless.protocol.text import DEFAULT_SCHEMA, format, parse
from gapless.protocol.variants import Telling, random_tdb, random_telling, tell
from tests.effort import cases

PAYLOADS: list[tuple[object, ...]] = [("A",), ("B",)]
INSTANTS = range(-5, 130)
"""Every instant at which a table of these tests changes lies between the first and the last."""


def normal_form(tdb: Tdb) -> Tdb:
    """The oracle: looks at each instant how many copies are alive, and at nothing else."""
    starts: defaultdict[object, list[int]] = defaultdict(list)
    ends: defaultdict[object, list[int]] = defaultdict(list)
    alive: Counter[tuple[object, ...]] = Counter()
    for at in INSTANTS:
        now = tdb.snapshot(at)
        for payload in now | alive:
            rise = now[payload] - alive[payload]
            starts[payload] += [at] * rise
            ends[payload] += [at] * -rise
        alive = now
    for payload, n in alive.items():
        ends[payload] += [INF] * n
    events = [
        Event(payload, vs, ve)  # type: ignore[arg-type]  # a defaultdict's keys are payloads here
        for payload in starts
        for vs, ve in zip(starts[payload], ends[payload], strict=True)
    ]
    return Tdb(tdb.schema, events)


def fragmented(tdb: Tdb, rng: random.Random) -> Tdb:
    """Another table with the same snapshots: lifetimes cut, pieces joined, ends exchanged."""
    pieces = []
    for payload, vs, ve in tdb.events:
        last = min(ve, vs + 40)
        cuts = [rng.randrange(vs + 1, last) for _ in range(rng.choice((0, 1, 3))) if vs + 1 < last]
        points = [vs, *sorted(set(cuts)), ve]
        pieces += [Event(payload, a, b) for a, b in pairwise(points)]
    for _ in range(10):
        i, j = rng.randrange(len(pieces)), rng.randrange(len(pieces))
        (p, a, b), (q, c, d) = pieces[i], pieces[j]
        if p == q and i != j and max(a, c) < min(b, d):
            pieces[i], pieces[j] = Event(p, a, d), Event(p, c, b)
    other = Tdb(tdb.schema, pieces)
    assert all(other.snapshot(at) == tdb.snapshot(at) for at in INSTANTS)
    return other


def drawn(seed: int) -> tuple[random.Random, Tdb]:
    rng = random.Random(seed)
    return rng, random_tdb(rng, DEFAULT_SCHEMA, PAYLOADS, 16, 40, duplicates=bool(seed % 3))


def run(operator: Operator, frames: list[Frame]) -> Tdb:
    """What comes out, folded; so it is legal at every prefix. Each stable is passed on."""
    out = Tdb(operator.schema)
    for frame in frames:
        out.fold(operator.push(0, frame).frame)
        operator.validate()
        assert frame.stable in (None, out.stable)
    return out


def say(operator: Operator, text: str) -> str:
    frame = Frame.from_elements(operator.schema, parse(text, operator.schema))
    return format(operator.push(0, frame).frame.elements())


def test_the_example_of_the_header() -> None:
    normalise = Normalise(DEFAULT_SCHEMA)
    assert say(normalise, "ins(A,0,10) ins(A,5,15) ins(A,10,20)") == "ins(A,0,15) ins(A,5,20)"


def test_a_piece_that_continues_another_extends_it() -> None:
    normalise = Normalise(DEFAULT_SCHEMA)
    assert say(normalise, "ins(A,0,10) stable(10)") == "ins(A,0,10) stable(10)"
    assert say(normalise, "ins(A,10,20) stable(15)") == "adj(A,0,10,20) stable(15)"
    assert say(normalise, "adj(A,10,20,15)") == "adj(A,0,20,15)"
    assert say(normalise, "stable(16)") == "stable(16)"
    assert len(normalise) == 0
    assert say(normalise, "ins(A,16,20)") == "ins(A,16,20)"  # [0,15) is settled, and so is the gap


def test_the_pieces_of_one_table_however_cut_and_told_give_its_normal_form() -> None:
    for seed in range(cases(100)):
        rng, tdb = drawn(seed)
        wanted = normal_form(tdb)
        for variant in range(3):
            pieces = fragmented(tdb, rng) if variant else tdb
            out = run(Normalise(DEFAULT_SCHEMA), tell(pieces, random_telling(rng), variant))
            assert out == wanted, f"seed {seed}\n{out.difference(wanted)}"
            assert out.stable == INF


def test_at_every_prefix_the_output_is_the_normal_form_of_the_input() -> None:
    for seed in range(cases(30)):
        rng, tdb = drawn(seed)
        normalise = Normalise(DEFAULT_SCHEMA)
        said, told = Tdb(DEFAULT_SCHEMA), Tdb(DEFAULT_SCHEMA)
        for frame in tell(fragmented(tdb, rng), random_telling(rng), seed):
            said.fold(frame)
            told.fold(normalise.push(0, frame).frame)
            assert told == normal_form(said), f"seed {seed}\n{told.difference(normal_form(said))}"


def test_normal_form_is_its_own_normal_form() -> None:
    for seed in range(cases(20)):
        rng, tdb = drawn(seed)
        wanted = normal_form(tdb)
        frames = tell(wanted, Telling(), seed)
        normalise = Normalise(DEFAULT_SCHEMA)
        elements = [e for frame in frames for e in normalise.push(0, frame).frame.elements()]
        assert not [e for e in elements if isinstance(e, Adjust)]
        assert run(Normalise(DEFAULT_SCHEMA), tell(wanted, random_telling(rng), seed)) == wanted


def test_lifetimes_that_never_overlap_keep_payload_and_start_a_key() -> None:
    for seed in range(cases(30)):
        rng = random.Random(seed)
        cuts = sorted(rng.sample(range(60), 12))
        pieces = [Event((rng.choice("AB"),), a, b) for a, b in pairwise(cuts)]
        out = run(
            Normalise(DEFAULT_SCHEMA), tell(Tdb(DEFAULT_SCHEMA, pieces), random_telling(rng), seed)
        )
        keys = [(e.payload, e.vs) for e in out.events]
        assert len(set(keys)) == len(keys)


def test_its_stable_is_its_inputs_and_no_later_one_would_be_true() -> None:
    normalise = Normalise(DEFAULT_SCHEMA)
    told = Tdb(DEFAULT_SCHEMA)
    first = Frame.from_elements(DEFAULT_SCHEMA, parse("ins(A,1,7) stable(7)"))
    told.fold(normalise.push(0, first).frame)
    assert told.stable == 7
    later = normalise.push(
        0, Frame.from_elements(DEFAULT_SCHEMA, parse("ins(A,7,9) ins(B,7,8)"))
    ).frame
    for bold, legal in ((7, True), (8, False)):  # both the adjust and the insert break stable(8)
        for e in later.elements():
            promised = Tdb(DEFAULT_SCHEMA, told.events)
            promised.stable = bold
            if legal:
                promised.fold_elements([e])
            else:
                with pytest.raises(StreamViolation):
                    promised.fold_elements([e])


def test_what_a_stable_settles_is_forgotten_and_what_is_open_is_kept() -> None:
    for seed in range(cases(40)):
        rng, tdb = drawn(seed)
        normalise = Normalise(DEFAULT_SCHEMA)
        told = Tdb(DEFAULT_SCHEMA)
        for frame in tell(tdb, random_telling(rng), seed):
            told.fold(normalise.push(0, frame).frame)
            if frame.stable is not None:
                unsettled = [e for e in told.counts() if e.ve >= told.stable != INF]
                assert len(normalise) == len(
                    {(e.payload, t) for e in unsettled for t in (e.vs, e.ve)}
                ), f"seed {seed}"


def test_it_asks_nothing_of_its_input_and_spares_only_what_is_not_wanted() -> None:
    spared = 0
    for seed in range(cases(60)):
        rng, tdb = drawn(seed)
        normalise, told, skipped = Normalise(DEFAULT_SCHEMA), Tdb(DEFAULT_SCHEMA), BEGIN
        for frame in tell(fragmented(tdb, rng), random_telling(rng), seed):
            if rng.random() < 0.3:
                skipped = max(skipped, rng.randint(0, 60))
                assert normalise.fast_forward(skipped) == BEGIN
            told.fold(normalise.push(0, frame).frame)
            normalise.validate()
        wanted = normal_form(tdb)
        assert told.since(skipped) == wanted.since(skipped), f"seed {seed}"
        spared += len(wanted) - len(told)
    assert spared > 0
    assert Normalise(DEFAULT_SCHEMA).reach == INF


def test_an_adjust_of_what_is_not_there_is_refused_and_nothing_of_its_frame_counts() -> None:
    normalise = Normalise(DEFAULT_SCHEMA)
    say(normalise, "ins(A,1,5)")
    with pytest.raises(StreamViolation) as caught:
        say(normalise, "ins(B,1,9) adj(A,1,8,4) ins(C,2,3)")
    assert caught.value.element == "adj(A,1,8,4)"
    normalise.validate()
    assert say(normalise, "ins(A,5,6) stable(inf)") == "adj(A,1,5,6) stable(inf)"


def test_rows_that_cancel_put_nothing_out_and_leave_nothing_behind() -> None:
    normalise = Normalise(DEFAULT_SCHEMA)
    assert say(normalise, "ins(A,1,5) adj(A,1,5,1)") == ""
    assert say(normalise, "stable(3)") == "stable(3)"
    assert len(normalise) == 0


def test_payload_columns_of_every_layout_pass() -> None:
    schema = StreamSchema({"word": "string_view", "x": "float64"})
    normalise = Normalise(schema)
    assert say(normalise, "ins((x,-0.0),1,2) ins((a,nan),1,3) ins((x,0.0),2,4)") == (
        "ins((x,0.0),1,4) ins((a,nan),1,3)"
    )


def test_state_goes_back_after_a_peak() -> None:
    normalise = Normalise(DEFAULT_SCHEMA)
    empty = normalise.nbytes
    many = [Insert((f"payload {i}",), i, i + 2) for i in range(20_000)]
    for frame in frames_of(DEFAULT_SCHEMA, many):
        normalise.push(0, frame)
    peak = normalise.nbytes
    assert say(normalise, "stable(30000)") == "stable(30000)"
    assert peak > 100 * empty
    assert normalise.nbytes < peak / 20


def test_a_long_stream_of_touching_pieces_keeps_a_small_state() -> None:
    normalise = Normalise(DEFAULT_SCHEMA)
    told: list[Element] = []
    for i in range(300):
        frame: list[Element] = [Insert(("A",), 10 * i, 10 * i + 10), Stable(10 * i + 10)]
        told += normalise.push(0, Frame.from_elements(DEFAULT_SCHEMA, frame)).frame.elements()
        assert len(normalise) == 2
    assert [e for e in told if isinstance(e, Insert)] == [Insert(("A",), 0, 10)]


def test_a_snapshot_at_any_frame_gives_the_same_output_from_then_on() -> None:
    for seed in range(cases(40)):
        rng, tdb = drawn(seed)
        frames = tell(fragmented(tdb, rng), random_telling(rng), seed)
        first, cut = Normalise(DEFAULT_SCHEMA), rng.randint(0, len(frames))
        first.fast_forward(rng.choice((BEGIN, 10, 30)))
        for frame in frames[:cut]:
            first.push(0, frame)
        second = Normalise(DEFAULT_SCHEMA)
        second.restore(first.snapshot())
        second.validate()
        assert len(second) == len(first)
        for frame in frames[cut:]:
            one, other = (n.push(0, frame).frame.elements() for n in (first, second))
            assert sorted(one, key=repr) == sorted(other, key=repr), f"seed {seed}"


def test_a_snapshot_that_is_none_is_refused() -> None:
    normalise = Normalise(DEFAULT_SCHEMA)
    say(normalise, "ins(A,0,10) ins(B,5,15) stable(3)")
    state = dict(normalise.snapshot())
    boundaries = state["boundaries"]
    backwards = pa.array([-t for t in boundaries["time"].to_pylist()])
    for broken in (
        {**state, "more": boundaries},
        {n: t for n, t in state.items() if n != "payloads"},
        {**state, "payloads": state["payloads"].slice(1)},
        {**state, "payloads": pa.concat_batches([state["payloads"]] * 2)},
        {**state, "boundaries": boundaries.slice(1)},
        {**state, "boundaries": pa.concat_batches([boundaries] * 2)},
        {**state, "boundaries": boundaries.set_column(1, boundaries.schema.field(1), backwards)},
        {**state, "facts": boundaries},
    ):
        with pytest.raises(DecodeError):
            Normalise(DEFAULT_SCHEMA).restore(broken)


class KeepsMeetingPoints(Normalise):
    """Broken: an end and a start that meet both stay."""

    def push(self, source: int, frame: Frame, marks: Marks = ()) -> Out:
        return Out(frame)


class ForgetsOpenStarts(Normalise):
    """Broken: takes a start below the stable for settled."""

    def push(self, source: int, frame: Frame, marks: Marks = ()) -> Out:
        out = super().push(source, frame, marks)
        self._form._forget((self._form._time.values < self._stable).nonzero()[0])
        return out


class PairsNothingAgain(Normalise):
    """Broken: a late start leaves the pairs that were put out as they are."""

    def _revise(self, frame: Frame) -> Frame:
        return super()._revise(frame).inserts


class PromisesMore(Normalise):
    """Broken: takes what ends at the stable for settled."""

    def push(self, source: int, frame: Frame, marks: Marks = ()) -> Out:
        later: Times | None = None if frame.stable in (None, INF) else frame.vs
        out = super().push(source, frame, marks).frame
        if later is None or out.stable is None:
            return Out(out)
        return Out(out.with_stable(out.stable + 1))


@pytest.mark.parametrize(
    "broken", [KeepsMeetingPoints, ForgetsOpenStarts, PairsNothingAgain, PromisesMore]
)
def test_the_checks_of_this_file_catch_a_broken_one(broken: type[Normalise]) -> None:
    def caught(seed: int) -> bool:
        rng, tdb = drawn(seed)
        frames = tell(fragmented(tdb, rng), random_telling(rng), seed)
        try:
            return run(broken(DEFAULT_SCHEMA), frames) != normal_form(tdb)
        except (GaplessError, AssertionError, ValueError):
            return True

    assert any(caught(seed) for seed in range(30))
