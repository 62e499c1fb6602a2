"""Settle: out come inserts alone, of events that are there for good, and of all of them."""

import random
from collections import Counter
from collections.abc import Iterator

import pytest

from gapless.kernels.keys import Ids
from gapless.operators import settle
from gapless.operators.event_counts import EventCounts
from gapless.operators.operator import Marks, Operator, Out
from gapless.operators.settle import Settle
from gapless.operators.state import facts
from gapless.protocol.elements import INF, Insert, Stable
from gapless.protocol.errors import DecodeError, GaplessError, StreamViolation
from gapless.protocol.frame import Frame
from gapless.protocol.punctuation import Punctuation
from gapless.protocol.schema import StreamSchema
from gapless.protocol.tdb import Tdb
from gapless.protocol.text import format, parse
from gapless.protocol.variants import random_tdb
from tests.effort import cases
from tests.operators import laws

SCHEMA = StreamSchema({"p": "string", "at": "int64"})
ROWS: list[tuple[object, ...]] = [(p, n) for p in ("A", "B") for n in (1, 20)]


def make() -> Settle:
    return Settle(SCHEMA)


def drawn(seed: int) -> tuple[random.Random, Tdb]:
    rng = random.Random(seed)
    return rng, random_tdb(rng, SCHEMA, ROWS, 30, 50, duplicates=True)


def starts(tdb: Tdb, before: int = INF) -> Counter[object]:
    """What is the same for all who tell one table."""
    return Counter((e.payload, e.vs) for e in tdb.events if e.vs < before)


def say(operator: Operator, text: str) -> str:
    frame = Frame.from_elements(SCHEMA, parse(text, SCHEMA))
    return format(operator.push(0, frame).frame.elements())


def test_the_example_of_the_header() -> None:
    operator = make()
    assert say(operator, "ins((A,1),6,9) ins((B,1),8,12) ins((C,1),7,9)") == ""
    assert say(operator, "adj((C,1),7,9,7)") == ""
    assert say(operator, "stable(7)") == "ins((A,1),6,9) stable(7)"
    assert say(operator, "adj((A,1),6,9,20)") == ""
    assert say(operator, "stable(9)") == "ins((B,1),8,12) stable(9)"


def test_what_is_below_a_stable_is_out_with_it_however_it_was_told() -> None:
    for seed in range(cases(60)):
        rng, tdb = drawn(seed)
        told = [(0, f) for f in laws.tellings(tdb, seed)]
        for cut in (told, laws.recut(rng, told)):
            operator, out, said = make(), Tdb(SCHEMA), Tdb(SCHEMA)
            for _, frame in cut:
                said.fold(frame)
                pushed = laws.follow(operator, out, 0, frame)
                assert pushed.frame.insert_only
                assert out.stable == said.stable
                assert starts(out) == starts(said, said.stable), f"seed {seed}"
            assert starts(out) == starts(tdb)
            assert len(operator) == 0
        laws.holds_that_a_restored_one_goes_on_the_same(make, told, rng.randrange(len(told)))


def test_inserts_pass_with_their_ends() -> None:
    for seed in range(cases(20)):
        rng, tdb = drawn(seed)
        told = [(0, f) for f in laws.tellings(tdb, seed, inserts=True)]
        assert laws.runs(make(), told) == tdb
        laws.holds_that_fast_forward_spares_only_what_ends_before(make, told, tdb, rng)
        t = rng.randrange(60)
        laws.holds_that_a_start_at_reach_gives_all_that_is_wanted(make, told, tdb, t)


def test_equal_events_pass_as_often_as_they_are_there() -> None:
    operator = make()
    say(operator, "ins((A,1),6,9) ins((A,1),6,9) ins((A,1),6,9) adj((A,1),6,9,6)")
    assert say(operator, "stable(7)") == "ins((A,1),6,9) ins((A,1),6,9) stable(7)"


def test_an_adjust_of_what_is_not_there_is_refused_and_nothing_of_its_frame_counts() -> None:
    operator = make()
    say(operator, "ins((A,1),6,9)")
    with pytest.raises(StreamViolation):
        say(operator, "ins((B,1),8,9) adj((A,1),6,8,12)")
    operator.validate()
    assert say(operator, "stable(inf)") == "ins((A,1),6,9) stable(inf)"


def test_a_mark_waits_while_a_row_that_it_forbids_is_held() -> None:
    operator = make()
    say(operator, "ins((A,3),6,9) ins((B,3),8,12)")
    marks = (Punctuation.of(at=5), Punctuation.of({"p": "A"}, at=9), Punctuation.of({"p": "C"}))

    def passed(stable: int, given: Marks = ()) -> Marks:
        return operator.push(0, Frame.empty(SCHEMA, stable), given).marks

    assert passed(5, marks) == marks[2:]
    assert passed(7) == marks[1:2]
    assert passed(9) == marks[:1]


def test_marks_that_pass_are_true_of_what_comes_out_after_them() -> None:
    count = 0
    for seed in range(cases(40)):
        rng, tdb = drawn(seed)
        told = laws.tellings(tdb, seed)
        operator, given = make(), list[Punctuation]()
        for i, frame in enumerate(told):
            rest = [f.inserts.batch for f in told[i + 1 :]]
            drawn_marks = [Punctuation.of({"p": "A"}, at=rng.choice((5, 30))), Punctuation.of(at=5)]
            marks = tuple(m for m in drawn_marks if not any(m.matches(b).any() for b in rest))
            out = operator.push(0, frame, marks)
            operator.validate()
            assert not any(m.matches(out.frame.batch).any() for m in given)
            given += out.marks
        count += len(given)
    assert count > 50


def test_marks_that_wait_are_bounded_and_in_the_snapshot(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settle, "MARKS_WAITING_MAX", 3)
    operator, new = make(), make()
    say(operator, "ins((A,3),6,9)")
    assert not operator.push(
        0, Frame.empty(SCHEMA), tuple(Punctuation.of(at=n) for n in range(10, 20))
    ).marks
    new.restore(operator.snapshot())
    new.validate()
    assert len(new.push(0, Frame.empty(SCHEMA, 7)).marks) == 3


def test_state_is_flat_over_a_long_stream() -> None:
    operator, sizes = make(), []
    for i in range(300):
        rows = [Insert((f"{i} {n}", i), 10 * i + n, 10 * i + 50) for n in range(20)]
        operator.push(0, Frame.from_elements(SCHEMA, [*rows, Stable(10 * i)]))
        sizes.append(operator.nbytes)
    assert max(sizes[50:]) <= 1.1 * max(sizes[:50])


def test_what_is_no_snapshot_of_it_is_refused() -> None:
    old = make()
    say(old, "ins((A,3),6,9) stable(2)")
    state = dict(old.snapshot())
    columns_lost = {**state, "held": Frame.empty(SCHEMA).batch.drop_columns(["at"])}
    settled_before = {**state, "facts": facts(stable=7)}
    for bad in ({}, columns_lost, settled_before):
        with pytest.raises(DecodeError):
            make().restore(bad)


class PassesAtOnce(Settle):
    """Broken: takes what has come for what will stay."""

    def _settled(self, frame: Frame, stable: int) -> Iterator[Frame]:
        del stable
        yield frame.inserts


class LosesCopies(Settle):
    """Broken: takes equal events for one."""

    def __init__(self, schema: StreamSchema) -> None:
        super().__init__(schema)
        self._held = OnceEach(schema)


class OnceEach(EventCounts):
    def rows(self, ids: Ids) -> Frame:
        self.count.values[ids] = 1
        return super().rows(ids)


class HoldsTheEdge(Settle):
    """Broken: promises a little more than its input has."""

    def push(self, source: int, frame: Frame, marks: Marks = ()) -> Out:
        out = super().push(source, frame, marks).frame
        return Out(out if out.stable in (None, INF) else out.with_stable((out.stable or 0) + 1))


@pytest.mark.parametrize("broken", [PassesAtOnce, LosesCopies, HoldsTheEdge])
def test_the_checks_of_this_file_catch_a_broken_one(broken: type[Settle]) -> None:
    def caught(seed: int) -> bool:
        _, tdb = drawn(seed)
        told = [(0, f) for f in laws.tellings(tdb, seed)]
        try:
            return starts(laws.runs(broken(SCHEMA), told)) != starts(tdb)
        except (GaplessError, AssertionError):
            return True

    assert any(map(caught, range(20)))
