"""The pump gives a machine its events one by one, and ends as it says, or with what went wrong."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from gapless.actors import pump as pumps
from gapless.actors.pump import Pump
from gapless.failover import effects as ask
from gapless.failover.effects import Start, Tick
from gapless.failover.machines import Effect
from gapless.protocol.errors import Bug, JobError

WAIT_S = 20.0


class Machine:
    """Does what a test says, and remembers who called."""

    def __init__(self, answer: Callable[[Any], list[Effect]] = lambda _: []) -> None:
        self.heard: list[Any] = []
        self.threads: set[str] = set()
        self._answer = answer

    def on(self, event: Any, now: int) -> list[Effect]:
        self.heard.append(event)
        self.threads.add(threading.current_thread().name)
        assert now > 0
        return self._answer(event)

    def validate(self) -> None:
        if any(event == "poison" for event in self.heard):
            raise Bug("poisoned")


class Turned:
    """A pump, what it did, and how it ended."""

    def __init__(self, machine: Machine, **more: Callable[[Any], None]) -> None:
        self.done: list[Any] = []
        self.flushes = 0
        self.reasons: list[str] = []
        self.over = threading.Event()
        self.pump = Pump(
            "test",
            machine,
            {
                ask.Alarm: more.get("alarm", self.done.append),
                ask.Exit: lambda effect: self.pump.stop(effect.reason),
            },
            flush=self._flush,
            at_end=self._end,
        )

    def _flush(self) -> None:
        self.flushes += 1

    def _end(self, reason: str) -> None:
        self.reasons.append(reason)
        self.over.set()

    def ends(self) -> str:
        assert self.over.wait(WAIT_S)
        self.pump.join(WAIT_S)
        (reason,) = self.reasons
        assert self.pump.ended == reason
        return reason


def test_a_machine_hears_start_first_then_events_in_their_order_from_one_thread() -> None:
    machine = Machine()
    turned = Turned(machine)
    for i in range(1000):
        turned.pump.post(i)  # type: ignore[arg-type]  # the machine of this test takes anything
    turned.pump.start()
    turned.pump.end("enough")
    assert turned.ends() == "enough"
    events = [event for event in machine.heard if type(event) is not Tick]
    assert events == [Start(), *range(1000)]
    assert machine.threads == {"pump test"}


def test_effects_are_done_in_order_and_then_what_gathered_is_flushed() -> None:
    machine = Machine(lambda e: [ask.Alarm("a"), ask.Alarm("b")] if type(e) is Start else [])
    turned = Turned(machine)
    turned.pump.start()
    turned.pump.end("enough")
    turned.ends()
    assert turned.done == [ask.Alarm("a"), ask.Alarm("b")]
    assert turned.flushes >= 1


def test_nothing_follows_an_exit() -> None:
    machine = Machine(lambda e: [ask.Exit("done"), ask.Alarm("late")] if e == "go" else [])
    turned = Turned(machine)
    for event in ("go", "later"):
        turned.pump.post(event)  # type: ignore[arg-type]  # as above
    turned.pump.start()
    assert turned.ends() == "done"
    assert turned.done == []
    assert "later" not in machine.heard


def test_time_passes_by_ticks_as_long_as_it_turns() -> None:
    ticked = threading.Event()

    def answer(event: Any) -> list[Effect]:
        if type(event) is Tick:
            ticked.set()
        return []

    turned = Turned(Machine(answer))
    turned.pump.start()
    assert ticked.wait(WAIT_S)
    turned.pump.end("enough")
    turned.ends()


def test_what_is_asked_of_the_pump_is_computed_on_its_thread_and_answered_or_raised() -> None:
    machine = Machine()
    turned = Turned(machine)
    turned.pump.start()
    assert turned.pump.call(lambda: threading.current_thread().name) == "pump test"
    turned.pump.call(machine.validate)
    turned.pump.post("poison")  # type: ignore[arg-type]  # as above
    with pytest.raises(Bug, match="poisoned"):
        turned.pump.call(machine.validate)
    assert turned.pump.ended is None, "what was raised to its asker ends nothing"
    turned.pump.end("enough")
    turned.ends()


def test_whoever_asks_a_pump_that_has_ended_hears_why() -> None:
    turned = Turned(Machine())
    turned.pump.start()
    turned.pump.end("enough")
    turned.ends()
    with pytest.raises(JobError, match="has ended: enough"):
        turned.pump.call(lambda: 1)


def test_a_machine_that_breaks_ends_its_pump_with_the_reason() -> None:
    def answer(event: Any) -> list[Effect]:
        if event == "go":
            raise Bug("a sum is wrong")
        return []

    turned = Turned(Machine(answer))
    turned.pump.post("go")  # type: ignore[arg-type]  # as above
    turned.pump.start()
    assert turned.ends() == "Bug: a sum is wrong"


def test_a_doer_that_breaks_ends_the_pump_as_well() -> None:
    def alarm(_: Any) -> None:
        raise OSError("no disk")

    turned = Turned(Machine(lambda e: [ask.Alarm("a")] if type(e) is Start else []), alarm=alarm)
    turned.pump.start()
    assert turned.ends() == "OSError: no disk"


def test_timers_go_off_in_the_order_of_their_times() -> None:
    turned = Turned(Machine())
    order: list[str] = []

    def begin() -> None:
        turned.pump.later(30, lambda: turned.pump.stop("last"))
        turned.pump.later(20, lambda: order.append("second"))
        turned.pump.later(0, lambda: order.append("first"))
        turned.pump.later(20, lambda: order.append("third"))

    turned.pump.do(begin)
    turned.pump.start()
    assert turned.ends() == "last"
    assert order == ["first", "second", "third"]


def test_a_full_inbox_keeps_no_timer_waiting_for_longer_than_a_burst() -> None:
    turned = Turned(Machine())
    heard: list[int] = []

    def event(number: int) -> Callable[[], None]:
        return lambda: heard.append(number)

    turned.pump.do(lambda: turned.pump.later(0, lambda: heard.append(-1)))
    for number in range(10 * pumps.BURST_MAX):
        turned.pump.do(event(number))
    turned.pump.do(lambda: turned.pump.stop("all"))
    turned.pump.start()
    turned.ends()
    assert heard.index(-1) <= pumps.BURST_MAX


def test_what_is_large_waits_for_all_that_is_small_and_no_longer_than_a_burst() -> None:
    done: list[str] = []
    turned = Turned(Machine())
    for number in range(3):
        turned.pump.do_large(lambda number=number: done.append(f"large {number}"))  # type: ignore[misc]  # lambdas with a default
    for _ in range(2 * pumps.BURST_MAX):
        turned.pump.do(lambda: done.append("small"))
    turned.pump.do(lambda: turned.pump.later(pumps.TICK_MS, lambda: turned.pump.stop("enough")))
    turned.pump.start()
    assert turned.ends() == "enough"
    large = [at for at, what in enumerate(done) if what != "small"]
    assert [done[at] for at in large] == ["large 0", "large 1", "large 2"]
    assert len(done) == 3 + 2 * pumps.BURST_MAX
    assert large[0] >= pumps.BURST_MAX - 3  # those that come with it, large ones among them
    assert large[1] - large[0] > 1, "one of them, then what is small again"
    assert large[2] == len(done) - 1


def test_what_is_large_is_done_at_once_where_nothing_else_is_to_be_done() -> None:
    turned = Turned(Machine())
    turned.pump.start()
    turned.pump.do_large(lambda: turned.pump.stop("it was done"))
    assert turned.ends() == "it was done"


def test_a_pump_that_is_inside_work_whose_time_has_come_says_so_too() -> None:
    """A look at a source, say, whose disk takes seconds."""
    turned = Turned(Machine())
    busy: list[tuple[str, int] | None] = []

    def look() -> None:
        busy.append(turned.pump.busy)
        turned.pump.stop("all")

    turned.pump.do(lambda: turned.pump.later(20, look))
    turned.pump.start()
    turned.ends()
    [inside] = busy
    assert inside is not None
    assert inside[0] == "work of its shell"


def test_whoever_asks_a_busy_pump_for_too_long_is_told_whether_it_was_done(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What is given up before its turn is never done after its caller was told so."""
    monkeypatch.setattr(pumps, "CALL_S_MAX", 0.001)
    again, began, done = threading.Event(), threading.Event(), list[str]()
    turned = Turned(Machine())
    turned.pump.start()

    def long() -> None:
        began.set()
        again.wait(WAIT_S)
        done.append("long")

    turned.pump.do(long)
    assert began.wait(WAIT_S)
    with pytest.raises(JobError, match="nothing was done: try again"):
        turned.pump.call(lambda: done.append("given up"))
    again.set()
    turned.pump.end("enough")
    turned.ends()
    assert done == ["long"]


def test_whoever_asks_for_what_takes_too_long_is_told_that_it_has_begun(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(pumps, "CALL_S_MAX", 0.2)
    again = threading.Event()
    turned = Turned(Machine())
    turned.pump.start()
    with pytest.raises(JobError, match="has begun and is not done"):
        turned.pump.call(lambda: again.wait(WAIT_S))
    again.set()
    turned.pump.end("enough")
    turned.ends()
