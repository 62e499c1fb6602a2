"""Those who read a merger's output: what they are given, when they wait, why they are declined."""

from collections import deque

import pytest

from gapless.chaos.sim.disk import SimulatedDisk
from gapless.failover.effects import Tick
from gapless.failover.merger import openings
from gapless.failover.merger import readers as serving
from gapless.failover.merger.effects import (
    Appended,
    DropTable,
    MergerEffect,
    OutputRead,
    ReadOutput,
    ReadRefused,
    ReadTable,
    TableRead,
)
from gapless.failover.merger.machine import Merger
from gapless.failover.merger.scan import Scan, Scans
from gapless.failover.messages import Attach, Data, Declined, Delivery, Fetch, Open, Opened, Token
from gapless.protocol.elements import BEGIN
from gapless.protocol.frame import Frame
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
    assert machine.on(Fetch("s", token()), 0) == [ReadOutput("s", token())]
    for _ in range(75):
        assert machine.on(Fetch("s", token()), 0) == []
    answer = OutputRead("s", 0, frame("ins(A,1,5)"))
    assert sent(machine.on(answer, 0)) == [Delivery(0, frame("ins(A,1,5)"), token(1))]
    assert machine.on(answer, 0) == []
    machine.on(Fetch("s", token(1)), 0)
    assert machine.on(answer, 0) == []  # it has gone on meanwhile


def test_of_what_is_asked_while_a_read_is_under_way_the_last_is_read_then() -> None:
    machine = merger(offset=5)
    machine.on(Fetch("s", token()), 0)
    for offset in (1, 2, 3):
        assert machine.on(Fetch("s", token(offset)), 0) == []
        machine.validate()
    answer = OutputRead("s", 0, frame("ins(A,1,5)"))
    assert machine.on(answer, 0) == [ReadOutput("s", token(3))]
    machine.on(Fetch("s", token(4)), 0)
    machine.on(Fetch("s", token(3)), 0)  # the same again: nothing else is wanted any more
    refused = ReadRefused("s", token(3), "trimmed", "gone")
    assert [m.asked for m in sent(machine.on(refused, 0))] == [token(3)]
    machine.validate()


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
    machine.on(Open("s", 3, BEGIN), 0)
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


# -- how many are read ------------------------------------------------------------------------


def tables(effects: list[MergerEffect]) -> list[tuple[str, int]]:
    return [(e.subscriber, e.attempt) for e in effects if isinstance(e, ReadTable)]


def read(subscriber: str, attempt: int = 1) -> TableRead:
    return TableRead(subscriber, attempt, 3, frame("stable(9)"), 5)


def test_a_table_that_is_asked_for_again_while_it_is_read_is_read_once() -> None:
    machine = merger("stable(9)", offset=5)
    assert tables(machine.on(Open("s", 1, 3), 0)) == [("s", 1)]
    for t in range(75):
        assert machine.on(Open("s", 1, 3), 800 * t) == []
    assert [type(m) for m in sent(machine.on(read("s"), 60_000))] == [Opened]
    assert machine.on(read("s"), 60_000) == []
    assert tables(machine.on(Open("s", 1, 3), 60_000)) == [("s", 1)]  # its answer was lost


def test_a_later_attempt_takes_the_place_of_the_table_that_is_read() -> None:
    machine = merger("stable(9)", offset=5)
    machine.on(Open("s", 1, 3), 0)
    effects = machine.on(Open("s", 2, 4), 0)
    assert (DropTable("s", 1) in effects, tables(effects)) == (True, [("s", 2)])
    assert machine.on(Open("s", 1, 3), 0) == []  # late
    assert machine.on(read("s", 1), 0) == []
    assert len(sent(machine.on(read("s", 2), 0))) == 1
    machine.validate()


def test_a_few_tables_are_read_at_once_and_the_others_in_the_order_they_asked() -> None:
    machine = merger("stable(9)", offset=5)
    names = [f"s{i}" for i in range(openings.SCANS_MAX + 3)]
    begun = [each for name in names for each in tables(machine.on(Open(name, 1, 3), 0))]
    assert begun == [(name, 1) for name in names[: openings.SCANS_MAX]]
    assert machine.sizes()["waiting questions"] == len(names)
    for i, name in enumerate(names):
        effects = machine.on(read(name), 0)
        assert len(sent(effects)) == 1
        assert tables(effects) == [(n, 1) for n in names[i + openings.SCANS_MAX :][:1]]
        machine.validate()
    assert machine.sizes()["waiting questions"] == 0


# -- in parts ---------------------------------------------------------------------------------


def opened_parts(monkeypatch: pytest.MonkeyPatch) -> Merger:
    """One that hands out a table of five rows, two at a time."""
    monkeypatch.setattr(openings, "PART_ROWS_MAX", 2)
    machine = merger("stable(9)", offset=5)
    machine.on(Open("s", 1, 3), 0)
    rows = " ".join(f"ins(K{i},1,inf)" for i in range(5))
    [first] = sent(machine.on(TableRead("s", 1, 3, frame(f"{rows} stable(9)"), 5), 0))
    assert (first.part, first.parts, len(first.frame), first.frame.stable) == (0, 3, 2, None)
    return machine


def part(machine: Merger, number: int, now: int = 0, attempt: int = 1) -> Opened | None:
    answers = sent(machine.on(Open("s", attempt, 3, number), now))
    return answers[0] if answers else None


def test_a_large_table_is_handed_out_part_by_part_as_they_are_asked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    machine = opened_parts(monkeypatch)
    second, third = part(machine, 1), part(machine, 2)
    assert second is not None
    assert third is not None
    assert [len(p.frame) for p in (second, third)] == [2, 1]
    assert [p.frame.stable for p in (second, third)] == [None, 9]
    assert second.token == third.token == Token("m0.0", 1, 5, 9)
    assert part(machine, 1) == second  # its answer was lost
    assert machine.sizes()["waiting questions"] == 1
    machine.on(Fetch("s", third.token), 0)  # it has them all
    assert part(machine, 2) is None
    machine.validate()


def test_a_table_of_wide_rows_is_handed_out_in_parts_of_so_many_bytes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rows = frame(" ".join(f"ins({'K' * 1_000}{i},1,inf)" for i in range(9)) + " stable(9)")
    monkeypatch.setattr(openings, "PART_BYTES_MAX", 3_500)
    machine = merger("stable(9)", offset=9)
    machine.on(Open("s", 1, 3), 0)
    [first] = sent(machine.on(TableRead("s", 1, 3, rows, 9), 0))
    all_parts = [first, *(part(machine, n) for n in range(1, first.parts))]
    assert [len(each.frame) for each in all_parts if each is not None] == [3, 3, 3]
    assert all(each.frame.nbytes <= 3_500 for each in all_parts if each is not None)


def test_a_table_is_held_no_longer_than_somebody_asks_for_its_parts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    machine = opened_parts(monkeypatch)
    assert part(machine, 1, openings.GONE_MS - 1) is not None
    machine.on(Tick(), 2 * openings.GONE_MS - 2)
    assert part(machine, 1, 2 * openings.GONE_MS - 2) is not None
    machine.on(Tick(), 4 * openings.GONE_MS)
    assert machine.sizes()["waiting questions"] == 0
    effects = machine.on(Open("s", 1, 3, 2), 4 * openings.GONE_MS)
    assert tables(effects) == [("s", 1)]  # another is read, and told from its begin


def test_tables_that_are_handed_out_count_as_those_that_are_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    machine = opened_parts(monkeypatch)
    names = [f"s{i}" for i in range(openings.SCANS_MAX)]
    begun = [each for name in names for each in tables(machine.on(Open(name, 1, 3), 0))]
    assert len(begun) == openings.SCANS_MAX - 1
    machine.validate()
    assert part(machine, 0, attempt=0) is None  # late
    effects = machine.on(Open("s", 2, 3), 0)  # the later attempt waits for its turn
    assert tables(effects) == [(names[-1], 1)]
    machine.validate()


def test_who_asks_no_more_is_dropped_whether_it_waits_or_is_read_for() -> None:
    machine = merger("stable(9)", offset=5)
    names = [f"s{i}" for i in range(openings.SCANS_MAX + 2)]
    for name in names:
        machine.on(Open(name, 1, 3), 0)
    machine.on(Open("never", 1, 50), 0)  # the output is not there yet
    for t in range(0, openings.GONE_MS, 500):  # the first and the last but one ask on
        for name in (names[0], names[-2]):
            machine.on(Open(name, 1, 3), t)
        machine.on(Tick(), t)
    effects = machine.on(Tick(), openings.GONE_MS)
    assert [e.subscriber for e in effects if isinstance(e, DropTable)] == names[1:-2]
    assert tables(effects) == [(names[-2], 1)]
    assert machine.sizes()["waiting questions"] == 2
    machine.validate()


def test_a_table_at_hand_is_answered_behind_one_slice_of_each_that_takes_long() -> None:
    """Slices are counted: what is done is done in the order of a queue, as the shells do it."""
    slices: list[str] = []

    class Long(Scan):
        def __init__(self, name: str, count: int) -> None:
            self.name, self.left = name, count

        def step(self) -> tuple[Frame, int] | None:
            slices.append(self.name)
            self.left -= 1
            return None if self.left else (frame("stable(9)"), 5)

    opened: dict[int, Scan | tuple[Frame, int]] = {
        1: Long("an hour", 1000),
        2: Long("a minute", 10),
        3: (frame("stable(9)"), 5),
    }
    scans = Scans(opened.__getitem__)
    queue = deque(ReadTable(f"s{i}", 1, i) for i in (1, 2, 3))
    for effect in queue:
        scans.begin(effect)
    answered: dict[str, int] = {}
    while queue:
        effect = queue.popleft()
        if not scans.wants(effect.subscriber, effect.attempt):
            continue
        if scans.step(effect) is None:
            queue.append(effect)
        else:
            answered[effect.subscriber] = len(slices)
            if effect.subscriber == "s2":
                scans.drop(DropTable("s1", 1))
    assert answered == {"s3": 2, "s2": 20}
    assert len(scans) == 0
