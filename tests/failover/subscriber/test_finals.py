"""Final events against the table recomputed, and the live table against the slow one."""

import random
from collections import Counter

import pytest

from gapless.failover.messages import Token
from gapless.failover.subscriber.effects import Emit
from gapless.failover.subscriber.finals import Finals
from gapless.failover.table import LiveTable, Received
from gapless.protocol.elements import BEGIN, INF
from gapless.protocol.errors import StreamViolation
from gapless.protocol.frame import Frame
from gapless.protocol.tdb import Event, Tdb
from gapless.protocol.text import DEFAULT_SCHEMA, format, parse
from gapless.protocol.variants import Telling, random_tdb, random_telling, tell
from tests.effort import cases

PAYLOADS: list[tuple[object, ...]] = [("A",), ("B",), ("C",)]
SEEDS = cases(40)


def frame(text: str) -> Frame:
    return Frame.from_elements(DEFAULT_SCHEMA, parse(text))


def stream(seed: int) -> tuple[Tdb, list[Frame]]:
    rng = random.Random(f"finals {seed}")
    table = random_tdb(rng, DEFAULT_SCHEMA, PAYLOADS, 40, duplicates=rng.random() < 0.5)
    return table, tell(table, random_telling(rng), seed)


def events(rows: Frame) -> Counter[Event]:
    table = Tdb(DEFAULT_SCHEMA)
    table.fold(rows.with_stable(None))
    return table.counts()


def test_an_event_is_given_once_its_end_lies_behind_the_stable() -> None:
    finals = Finals(DEFAULT_SCHEMA, insert_only=False)
    assert format(finals.take(frame("ins(A,6,20) ins(B,9,12) stable(10)")).elements()) == (
        "stable(10)"
    )
    assert not finals.take(frame("adj(A,6,20,30)"))
    assert format(finals.take(frame("stable(13)")).elements()) == "ins(B,9,12) stable(13)"
    assert format(finals.take(frame("stable(30)")).elements()) == "stable(30)"
    assert format(finals.take(frame("stable(31)")).elements()) == "ins(A,6,30) stable(31)"
    assert len(finals) == 0


def test_of_a_plan_that_only_inserts_an_event_is_given_once_its_start_does() -> None:
    finals = Finals(DEFAULT_SCHEMA, insert_only=True)
    given = finals.take(frame("ins(A,6,20) ins(B,9,12) stable(9)"))
    assert format(given.elements()) == "ins(A,6,20) stable(9)"


def test_the_end_makes_all_of_it_final() -> None:
    finals = Finals(DEFAULT_SCHEMA, insert_only=False)
    given = finals.take(frame("ins(A,6,inf) ins(A,6,inf) stable(inf)"))
    assert format(given.elements()) == "ins(A,6,inf) ins(A,6,inf) stable(inf)"


def test_behind_each_stable_exactly_what_is_frozen_has_been_given() -> None:
    for seed in range(SEEDS):
        table, frames = stream(seed)
        finals, so_far = Finals(DEFAULT_SCHEMA, insert_only=False), Tdb(DEFAULT_SCHEMA)
        given = Counter[Event]()
        for each in frames:
            so_far.fold(each)
            given += events(finals.take(each))
            finals.validate()
            assert given == so_far.frozen().counts()
        assert given == table.counts()


def test_who_goes_on_at_a_stable_is_given_the_rest_and_nothing_again() -> None:
    for seed in range(SEEDS):
        table, frames = stream(seed)
        so_far, finals, given = Tdb(DEFAULT_SCHEMA), Finals(DEFAULT_SCHEMA, insert_only=False), []
        for i, each in enumerate(frames):
            so_far.fold(each)
            given.append(finals.take(each))
            if each.stable is None:
                continue
            later = Finals(DEFAULT_SCHEMA, insert_only=False)
            reset = so_far.since(finals.stable).to_frame()
            rest = [
                later.begin(finals.stable, reset, resumes=True),
                *map(later.take, frames[i + 1 :]),
            ]
            assert sum(map(events, [*given, *rest]), Counter()) == table.counts()


@pytest.mark.parametrize("insert_only", [False, True])
def test_who_begins_at_a_time_is_given_all_that_ends_from_then_on_once(insert_only: bool) -> None:
    for seed in range(SEEDS):
        rng = random.Random(f"finals from a time {seed}")
        table = random_tdb(rng, DEFAULT_SCHEMA, PAYLOADS, 40, duplicates=not insert_only)
        telling = Telling(order="any", disorder=5) if insert_only else random_telling(rng)
        frames = tell(table, telling, seed)
        so_far = Tdb(DEFAULT_SCHEMA)
        for i, each in enumerate(frames):
            so_far.fold(each)
            since = so_far.stable - rng.randrange(4)
            if so_far.stable == BEGIN or so_far.stable == INF:
                continue
            finals = Finals(DEFAULT_SCHEMA, insert_only=insert_only)
            reset = so_far.since(since).to_frame()
            given = [finals.begin(since, reset, resumes=False), *map(finals.take, frames[i + 1 :])]
            finals.validate()
            assert sum(map(events, given), Counter()) == table.since(since).counts()


def test_what_lives_at_a_time_and_began_before_is_final_there_and_is_given() -> None:
    table = frame("ins(A,1,9) ins(B,7,12) stable(6)")
    finals = Finals(DEFAULT_SCHEMA, insert_only=True)
    assert events(finals.begin(5, table, resumes=False)) == events(frame("ins(A,1,9)"))
    again = Finals(DEFAULT_SCHEMA, insert_only=True)
    assert events(again.begin(6, table, resumes=True)) == events(frame(""))
    assert events(again.take(frame("stable(8)"))) == events(frame("ins(B,7,12)"))


def test_an_adjust_of_what_was_given_is_refused_and_changes_nothing() -> None:
    finals = Finals(DEFAULT_SCHEMA, insert_only=True)
    finals.take(frame("ins(A,6,20) ins(B,9,12) stable(9)"))
    with pytest.raises(StreamViolation, match=r"adj\(A,6,20,30\)"):
        finals.take(frame("ins(C,9,10) adj(B,9,12,14) adj(A,6,20,30)"))
    finals.validate()
    assert format(finals.take(frame("stable(12)")).elements()) == "ins(B,9,12) stable(12)"


# -- tables -----------------------------------------------------------------------------------


def test_differential_the_live_table_is_the_slow_one() -> None:
    for seed in range(SEEDS):
        _, frames = stream(seed)
        fast, slow = LiveTable(DEFAULT_SCHEMA), Tdb(DEFAULT_SCHEMA)
        for each in frames:
            fast.change(each)
            slow.fold(each)
            fast.validate()
            assert events(fast.rows(fast.ids())) == slow.counts()
            assert len(fast) == len(slow)


def test_memory_of_the_live_table_comes_back() -> None:
    table = LiveTable(DEFAULT_SCHEMA)
    empty = table.nbytes
    many = " ".join(f"ins(A,{i},{i + 1})" for i in range(2000))
    table.change(frame(many))
    assert table.nbytes > 2 * empty
    table.drop(table.ids())
    assert len(table) == 0
    assert table.nbytes < 2 * empty


def emit(text: str, since: int | None = None) -> Emit:
    tokens = {"0": Token("", 0, 0, 0)}
    return Emit(frame(text), tokens, since is not None, BEGIN if since is None else since)


def test_a_reset_replaces_what_ends_at_its_time_or_later_and_nothing_else() -> None:
    received = Received(DEFAULT_SCHEMA)
    received.take(emit("ins(A,1,5) ins(B,2,8) ins(C,3,9) stable(6)"))
    received.take(emit("ins(B,2,10) stable(8)", since=8))
    assert received.tdb() == Tdb(DEFAULT_SCHEMA, [Event(("A",), 1, 5), Event(("B",), 2, 10)])
    assert received.stable == 8
    assert received.since == BEGIN


def test_who_begins_with_a_reset_holds_what_comes_from_there_on() -> None:
    received = Received(DEFAULT_SCHEMA)
    received.take(emit("ins(B,2,10) stable(8)", since=8))
    assert received.since == 8
    received.take(emit("ins(B,2,10) ins(A,1,7) stable(9)", since=7))
    assert received.since == 7
    assert len(received) == 2


@pytest.mark.parametrize(
    "text", ["stable(5)", "ins(A,5,9)", "adj(A,1,7,5)", "adj(B,1,7,9)", "adj(A,1,5,9)"]
)
def test_a_program_refuses_what_was_promised_otherwise(text: str) -> None:
    received = Received(DEFAULT_SCHEMA)
    received.take(emit("ins(A,1,7) stable(6)"))
    with pytest.raises(StreamViolation):
        received.take(emit(text))
    assert received.tdb() == Tdb(DEFAULT_SCHEMA, [Event(("A",), 1, 7)])


def test_what_is_final_may_start_before_the_stable_and_is_never_adjusted() -> None:
    received = Received(DEFAULT_SCHEMA, "final")
    received.take(emit("ins(A,1,7) stable(8)"))
    received.take(emit("ins(B,1,8) stable(9)"))
    assert len(received) == 2
    with pytest.raises(StreamViolation, match="never adjusted"):
        received.take(emit("adj(B,1,8,12)"))
    assert received.stable == 9 < INF
