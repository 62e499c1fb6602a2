"""What is settled is left out: what all awaited mergers call so; each row is skipped once."""

from __future__ import annotations

from gapless.failover.effects import Start, Tick
from gapless.failover.messages import Ack, Session
from gapless.failover.replica.effects import SkipSource
from gapless.failover.replica.executor import Executor
from gapless.failover.replica.fast_forward import FastForward
from gapless.failover.replica.machine import Replica
from gapless.failover.replica.output_sender import OutputSender
from gapless.failover.replica.rejoins import RejoinTracker
from gapless.failover.timing import Timing
from gapless.protocol.elements import BEGIN
from tests.failover.replicas import LIFE, MERGERS, SLIDE, counting, started_with


def forward() -> tuple[OutputSender, FastForward]:
    executor = Executor("plan", counting())
    output = OutputSender(LIFE, MERGERS, executor.schema, Timing())
    return output, FastForward(executor, output, RejoinTracker("s"))


def test_rows_that_only_settled_outputs_need_are_skipped_and_each_is_once() -> None:
    _, skips = forward()
    assert skips.to(50) == [SkipSource("flows", 50 - 2 * SLIDE - 1)], "a window before the last"
    assert skips.to(50) == []
    assert len(skips.to(50 + SLIDE)) == 1


def test_where_a_plan_begins_anew_all_is_skipped_again() -> None:
    _, skips = forward()
    first = skips.to(50)
    skips.begin_anew()
    assert skips.at == BEGIN
    assert skips.to(50) == first


def test_only_what_all_awaited_mergers_call_settled_is_left_out() -> None:
    machine = Replica(LIFE, started_with(), Executor("plan", counting()), Timing())
    machine.on(Start(), 0)
    for merger, feedback in zip(MERGERS, (50, 30), strict=True):
        machine.on(Tick(), 0)
        machine.on(Ack(Session(LIFE, merger, 1), 1, 0, BEGIN, feedback), 0)
    machine.on(Tick(), 1)
    assert machine.forwarded == 30
