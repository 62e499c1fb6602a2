"""What orders do to messages: which of them, how often, and that nothing is kept for ever."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gapless.chaos.drill.means import mishaps as module
from gapless.chaos.drill.means.mishaps import REORDER_MS, HeldMessages, Mishaps
from gapless.chaos.drill.means.orders import Order
from gapless.failover.messages import Ack, Attach, Data, Drain, Life, Refused, Session
from gapless.protocol.elements import BEGIN
from gapless.protocol.envelope import Incarnation
from gapless.protocol.frame import Frame
from gapless.protocol.schema import StreamSchema

NONE = Frame.empty(StreamSchema({"p": "int32"}), 5)


def session(counter: int, slot: str = "r0.0") -> Session:
    return Session(Life(slot, Incarnation(1, counter)), "m0.0", 1)


def data(number: int, counter: int = 1) -> Data:
    return Data(session(counter), number, NONE)


class Process:
    """One process, with a clock that a test turns."""

    def __init__(self, orders: Mapping[int, Order]) -> None:
        self.now_ms = 0.0
        self.taken: list[Any] = []
        self.struck: Counter[int] = Counter()
        self.waiting = HeldMessages(lambda: self.now_ms)
        self.mishaps = Mishaps(self.waiting, lambda number: self.struck.update([number]))
        self.mishaps.orders = orders

    def arrive(self, *messages: Any) -> list[Any]:
        for message in messages:
            self.mishaps.arrives(message, self.taken.append, self.taken.append)
        return self.taken

    def after(self, ms: float) -> list[Any]:
        self.now_ms += ms
        self.waiting.give_due()
        return self.taken


HUNDRED = [data(n) for n in range(1, 101)]


def test_without_orders_all_messages_come_as_they_are() -> None:
    assert Process({}).arrive(*HUNDRED) == HUNDRED


@pytest.mark.parametrize("share", [0.2, 1.0])
def test_a_share_of_the_messages_is_lost_and_counted(share: float) -> None:
    process = Process({4: Order("lose", share=share)})
    taken = process.arrive(*HUNDRED)
    assert process.struck == {4: 100 - len(taken)}
    assert 100 * share * 0.5 <= process.struck[4] <= 100 * share * 1.5
    assert [m for m in HUNDRED if m in taken] == taken


def test_which_messages_are_hit_follows_from_the_seed() -> None:
    runs = [Process({1: Order("lose", share=0.5, seed=s)}).arrive(*HUNDRED) for s in (3, 3, 4)]
    assert runs[0] == runs[1] != runs[2]


def test_doubled_messages_come_twice_in_a_row() -> None:
    process = Process({1: Order("double")})
    assert process.arrive(*HUNDRED[:2]) == [HUNDRED[0]] * 2 + [HUNDRED[1]] * 2
    assert process.struck == {1: 2}


def test_an_order_is_about_the_messages_that_it_names() -> None:
    attach = Attach(session(1), BEGIN, NONE)
    ack, refused = Ack(session(1), 1, 1, 0, 0), Refused(session(1), 1, "gone")
    sent = [attach, data(1), ack, refused, Drain(1)]
    assert Process({1: Order("lose", messages="frames")}).arrive(*sent) == sent[2:]
    assert Process({1: Order("lose", messages="feedback")}).arrive(*sent) == [*sent[:2], sent[4]]
    assert Process({1: Order("lose")}).arrive(*sent) == []


def test_a_delayed_message_comes_when_it_is_due_and_others_overtake_it() -> None:
    process = Process({1: Order("delay", messages="frames", ms=30)})
    ack = Ack(session(1), 1, 1, 0, 0)
    assert process.arrive(data(1), ack, data(2)) == [ack]
    assert process.after(29) == [ack]
    assert process.waiting.due_in_ms(20) == 1
    assert process.after(1) == [ack, data(1), data(2)]
    assert process.waiting.due_in_ms(20) == 20


def test_a_reordered_message_comes_behind_the_next() -> None:
    process = Process({1: Order("reorder")})
    assert process.arrive(*HUNDRED[:5]) == [HUNDRED[i] for i in (1, 0, 3, 2)]
    assert process.struck == {1: 2}
    process.after(REORDER_MS)
    assert process.taken[4:] == [HUNDRED[4]], "nobody came to be first"
    assert process.struck == {1: 2}, "and nothing changed its place"
    process.arrive(HUNDRED[5])
    assert process.after(REORDER_MS)[5:] == [HUNDRED[5]]


def test_what_waits_for_an_order_that_is_taken_back_is_taken_at_once_and_in_order() -> None:
    process = Process({1: Order("delay", ms=1e6), 2: Order("reorder", share=1e-9)})
    process.arrive(*HUNDRED)
    process.waiting.let_go({1: Order("delay", ms=1e6)})
    assert process.taken == []
    process.waiting.let_go({})
    assert process.taken == HUNDRED
    assert process.after(2e6) == HUNDRED


def test_more_than_so_many_do_not_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "HELD_MAX", 10)
    process = Process({1: Order("delay", ms=5)})
    assert process.arrive(*HUNDRED) == HUNDRED[10:]
    assert process.struck == {1: 10}, "who did not wait was not delayed"


def test_a_stale_frame_is_of_an_earlier_life_of_a_slot_that_has_a_later_one() -> None:
    process = Process({1: Order("stale")})
    old = [data(n, counter=1) for n in (1, 2)]
    other = Data(session(2, "r0.1"), 1, NONE)
    assert process.arrive(*old, other) == [*old, other]
    assert process.struck == {}
    new = [data(n, counter=3) for n in (1, 2, 3)]
    taken = process.arrive(*new)[3:]
    assert taken == [new[0], old[0], new[1], old[1], new[2], old[0]]
    assert process.struck == {1: 3}


def test_of_stale_lives_so_much_is_kept_and_no_more() -> None:
    process = Process({1: Order("stale", share=1e-9)})
    for counter in range(100):
        process.arrive(*(data(n, counter) for n in range(1, 101)))
    (sent,) = process.mishaps._sent.values()
    assert len(sent._by_life) == module.STALE_LIVES
    assert {len(frames) for frames in sent._by_life.values()} == {module.STALE_FRAMES}


KINDS = st.sampled_from(["lose", "double", "delay", "reorder"])
SHARES = st.floats(0.01, 1.0)


@given(st.lists(st.tuples(KINDS, SHARES), max_size=4), st.integers(0, 100))
def test_whatever_is_ordered_in_the_end_only_the_lost_are_missing(
    drawn: list[tuple[Any, float]], seed: int
) -> None:
    orders = {
        n: Order(what, share=share, ms=20, seed=seed) for n, (what, share) in enumerate(drawn, 1)
    }
    process = Process(orders)
    for message in HUNDRED:
        process.arrive(message)
        process.after(3)
    process.waiting.let_go({})
    taken = Counter(message.sequence for message in process.taken)
    whats = {what for what, _ in drawn}
    if "lose" not in whats:
        assert taken.keys() == set(range(1, 101))
    if "double" not in whats:
        assert set(taken.values()) <= {1}
    if not whats & {"delay", "reorder"}:
        assert [m.sequence for m in process.taken] == sorted(taken.elements())
