"""Those who read a merger's output: what they are given, when they wait, why they are declined."""

import pytest

from gapless.chaos.storage import SimulatedDisk
from gapless.failover import serving
from gapless.failover.effects import Appended, OutputRead, ReadOutput, ReadRefused, ReadTable
from gapless.failover.messages import Attach, Data, Declined, Delivery, Fetch, Open, Opened, Token
from gapless.protocol.elements import BEGIN
from tests.failover.mergers import M1, M2, R0, Pump, attach, data, frame, merger, sent, text


def token(offset: int = 0, stable: int = BEGIN, slot: str = M1, epoch: int = 1) -> Token:
    return Token(slot, epoch, offset, stable)


def pump(*said: str) -> Pump:
    """A merger that one replica has told all this."""
    made = Pump(SimulatedDisk())
    made.happens(Attach(R0, BEGIN, frame()))
    for i, each in enumerate(said):
        made.happens(Data(R0, i + 1, frame(each)))
    return made


# -- cursors ----------------------------------------------------------------------------------


def test_a_cursor_gets_what_is_behind_its_token_and_the_token_behind_that() -> None:
    made = pump("ins(A,1,5) stable(3)", "ins(B,4,9)")
    made.happens(Fetch("s", token(0)))
    (got,) = made.answers(Delivery)
    assert text(got.frame) == "ins(A,1,5) ins(B,4,9) stable(3)"
    assert (got.after, got.token) == (0, token(2, 3))


def test_a_token_keeps_its_stable_over_rows_that_promise_nothing() -> None:
    made = pump("ins(A,1,5) stable(3)", "ins(B,4,9)")
    made.happens(Fetch("s", token(1, 3)))
    (got,) = made.answers(Delivery)
    assert (text(got.frame), got.token) == ("ins(B,4,9)", token(2, 3))


def test_a_subscriber_at_the_end_is_answered_when_there_is_more() -> None:
    made = pump("ins(A,1,5) stable(3)")
    made.happens(Fetch("s", token(1, 3)))
    made.happens(Fetch("s", token(1, 3)))  # it has heard nothing and asks again
    assert made.answers(Delivery) == []
    made.happens(Data(R0, 2, frame("stable(4)")))
    (got,) = made.answers(Delivery)
    assert (text(got.frame), got.token) == ("stable(4)", token(1, 4))


def test_nothing_is_delivered_before_it_is_durable() -> None:
    machine = merger()
    attach(machine, R0, "ins(A,1,5)")
    assert machine.on(Fetch("s", token()), 0) == []
    assert machine.on(Appended(1, BEGIN), 0) == [ReadOutput("s", token())]


def test_what_was_asked_twice_is_delivered_once() -> None:
    machine = merger(offset=5)
    for _ in range(2):
        assert machine.on(Fetch("s", token()), 0) == [ReadOutput("s", token())]
    answer = OutputRead("s", 0, frame("ins(A,1,5)"))
    assert sent(machine.on(answer, 0)) == [Delivery(0, frame("ins(A,1,5)"), token(1))]
    assert machine.on(answer, 0) == []
    machine.on(Fetch("s", token(1)), 0)
    assert machine.on(answer, 0) == []  # it has gone on meanwhile


def test_a_read_that_found_nothing_waits_and_does_not_ask_in_a_circle() -> None:
    machine = merger(offset=5)
    machine.on(Fetch("s", token()), 0)
    assert machine.on(OutputRead("s", 0, None), 0) == []
    attach(machine, R0, "ins(A,1,5)")
    assert machine.on(Appended(6, BEGIN), 0) == [ReadOutput("s", token())]


def test_a_token_of_another_merger_means_nothing_here() -> None:
    (declined,) = sent(merger(offset=64).on(Fetch("s", token(3, slot=M2)), 0))
    assert isinstance(declined, Declined)
    assert (declined.merger, declined.asked, declined.why) == (M1, token(3, slot=M2), "elsewhere")
    (declined,) = sent(merger(offset=64).on(Fetch("s", token(3, slot="")), 0))
    assert declined.why == "elsewhere"


def test_a_token_from_the_future_is_declined_by_what_the_journal_says() -> None:
    made = pump("ins(A,1,5) stable(3)")
    made.happens(Fetch("s", token(7)))
    (declined,) = made.answers(Declined)
    assert (declined.asked, declined.why) == (token(7), "future")


def test_a_life_that_was_taken_over_does_not_take_its_successors_tokens_for_bad_ones() -> None:
    old = pump("ins(A,1,5) stable(3)")
    new = Pump(old.disk, counter=2)
    new.happens(Attach(R0, BEGIN, frame("ins(A,1,5) ins(B,4,9) stable(4)")))
    old.happens(Fetch("s", token(2, 4, epoch=2)))
    assert old.answers(Declined) == []
    old.happens(Fetch("t", token(0)))
    (got,) = old.answers(Delivery)  # what was durable before the cut, it may still hand out
    assert text(got.frame) == "ins(A,1,5) stable(3)"


def test_a_refused_read_is_said_to_who_asked_and_to_nobody_twice() -> None:
    machine = merger(offset=5)
    machine.on(Fetch("s", token()), 0)
    refused = ReadRefused("s", token(), "trimmed", "row 0 is gone")
    assert sent(machine.on(refused, 0)) == [Declined(M1, token(), "trimmed", "row 0 is gone")]
    assert machine.on(refused, 0) == []
    table = ReadRefused("s", 3, "trimmed", "row 0 is gone")
    assert sent(machine.on(table, 0)) == [Declined(M1, 3, "trimmed", "row 0 is gone")]


def test_who_waits_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving, "SUBSCRIBERS_MAX", 2)
    machine = merger(offset=5)
    for name in "abc":
        machine.on(Fetch(name, token(5)), 0)
        machine.on(Fetch(name + "!", token(1)), 0)
        machine.on(Open(name, 1, 9), 0)
        machine.validate()
    attach(machine, R0, "ins(A,1,5)")
    assert machine.on(Appended(6, BEGIN), 0) == []  # two are read for, who waited asks again


# -- tables -----------------------------------------------------------------------------------


def test_a_new_subscriber_gets_all_that_is_not_settled_and_goes_on_behind_it() -> None:
    made = pump("ins(A,1,2) ins(B,1,9) stable(5)", "ins(C,6,9)")
    made.happens(Open("s", 1, None))
    (opened,) = made.answers(Opened)
    assert text(opened.frame) == "ins(B,1,9) ins(C,6,9) stable(5)"
    assert (opened.attempt, opened.since, opened.token) == (1, 5, token(3, 5))
    made.happens(Fetch("s", opened.token))
    made.happens(Data(R0, 3, frame("stable(6)")))
    (got,) = made.answers(Delivery)
    assert (text(got.frame), got.token) == ("stable(6)", token(3, 6))


def test_a_table_in_the_past_is_all_that_ends_since_then() -> None:
    made = pump("ins(A,1,2) ins(B,1,4) stable(5)")
    made.happens(Open("s", 1, 3))
    assert text(made.answers(Opened)[0].frame) == "ins(B,1,4) stable(5)"


def test_before_the_first_stable_a_table_is_all_there_is() -> None:
    made = pump("ins(A,1,2)")
    made.happens(Open("s", 1, None))
    (opened,) = made.answers(Opened)
    assert (text(opened.frame), opened.token) == ("ins(A,1,2)", token(1))


def test_a_table_of_a_time_to_come_waits_until_the_output_is_there() -> None:
    machine = merger()
    assert machine.on(Open("s", 1, 7), 0) == []
    assert machine.on(Open("s", 2, 6), 0) == []
    assert machine.on(Open("s", 1, 7), 0) == []  # late: it has asked again since
    attach(machine, R0, "stable(5)")
    machine.on(Appended(0, 5), 0)
    data(machine, R0, 1, "stable(6)")
    assert ReadTable("s", 2, 6) in machine.on(Appended(0, 6), 0)
    data(machine, R0, 2, "stable(9)")
    assert not any(isinstance(e, ReadTable) for e in machine.on(Appended(0, 9), 0))


def test_a_table_that_was_trimmed_is_declined() -> None:
    machine = merger("stable(9)", offset=5)
    assert machine.on(Open("s", 4, 3), 0) == [ReadTable("s", 4, 3)]
    (declined,) = sent(machine.on(ReadRefused("s", 4, "trimmed", "gone"), 0))
    assert (declined.asked, declined.why) == (4, "trimmed")
