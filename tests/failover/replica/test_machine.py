"""A replica one message at a time: sessions, holds, drains, orders, and its place in the tail."""

from __future__ import annotations

from typing import Any

import pytest

from gapless.engine.plan import Plan
from gapless.failover.effects import Exit, Start, Tick
from gapless.failover.messages import (
    Ack,
    Assign,
    Attach,
    Data,
    Drain,
    Hold,
    Life,
    Refused,
    Retire,
    Session,
)
from gapless.failover.replica import intake
from gapless.failover.replica.effects import ReadSource, ReplicaEffect, SourceRead
from gapless.failover.replica.executor import Executor
from gapless.failover.replica.link import CREDITS, PROBE_HEARTBEATS
from gapless.failover.replica.machine import Replica
from gapless.failover.replica.output_sender import BACKLOG_FRAMES_MAX
from gapless.failover.statuses import ReplicaStatus
from gapless.failover.timing import Timing
from gapless.protocol.elements import BEGIN, INF
from gapless.protocol.envelope import Incarnation
from gapless.protocol.frame import Frame
from gapless.protocol.text import format, parse
from tests.failover.replicas import LIFE, MERGERS, flows, sent, started_with

T = Timing()
PASSES = Plan(flows().select("src", "len"))
SOURCE = PASSES.query.sources["flows"].schema
FIRST, SECOND = MERGERS


def started(**start: Any) -> Replica:
    machine = Replica(LIFE, started_with(**start), Executor("plan", PASSES), T)
    machine.on(Start(), 0)
    return machine


def gives(text: str, at: int = 0) -> SourceRead:
    """A read: rows of the source are `ins((ts,src,len),ts,ts+1)`, here written `ins(A,ts,te)`."""
    elements = parse(text.replace("(A,", "((0,A,1),"), SOURCE)
    return SourceRead("flows", Frame.from_elements(SOURCE, elements), {0: at})


def session(merger: str = FIRST, attempt: int = 1, life: Life = LIFE) -> Session:
    return Session(life, merger, attempt)


def ack(
    sequence: int,
    durable: int = BEGIN,
    *,
    merger: str = FIRST,
    attempt: int = 1,
    epoch: int = 1,
    throttled: bool = False,
) -> Ack:
    of = session(merger, attempt)
    return Ack(of, epoch, sequence, durable, durable, throttled)


def opened(*, mergers: tuple[str, ...] = (FIRST,), **start: Any) -> Replica:
    """Attached to all its mergers, and heard of by them."""
    machine = started(mergers=mergers, **start)
    for merger in mergers:
        machine.on(ack(0, merger=merger), 0)
    return machine


def told(effects: list[ReplicaEffect]) -> list[str]:
    """What goes to mergers, as text."""
    said = []
    for message in [*sent(effects, Attach), *sent(effects, Data)]:
        frame = message.tail if isinstance(message, Attach) else message.frame
        number = "attach" if isinstance(message, Attach) else str(message.sequence)
        said.append(f"{number}: {format(frame.elements())}")
    return said


def reads(effects: list[ReplicaEffect]) -> bool:
    return any(isinstance(effect, ReadSource) for effect in effects)


def exits(effects: list[ReplicaEffect]) -> str | None:
    return next((e.reason for e in effects if isinstance(e, Exit)), None)


# -- sessions ---------------------------------------------------------------------------------


def test_data_follows_once_the_merger_has_answered_the_attach() -> None:
    machine = started(mergers=(FIRST,))
    assert told(machine.on(gives("ins(A,1,2) stable(1)"), 0)) == []
    assert told(machine.on(ack(0), 0)) == ["1: ins((A,1),1,2) stable(1)"]


def test_what_is_not_acked_is_said_again_ever_more_seldom() -> None:
    machine = opened()
    machine.on(gives("ins(A,1,2)"), 0)
    machine.on(ack(1), 0)
    machine.on(gives("ins(A,2,3)"), 0)
    said = {now: told(machine.on(Tick(), now)) for now in range(0, 5000, 50)}
    again = [now for now, texts in said.items() if texts == ["2: ins((A,1),2,3)"]]
    assert again == [200, 600, 1400, 3000, 4600]
    asked = [now for now, texts in said.items() if texts == ["1: "]]
    assert asked == [now for now in range(400, 5000, 200) if now not in again]
    machine.on(ack(2), 5000)
    machine.on(gives("ins(A,3,4)"), 5000)
    assert told(machine.on(Tick(), 5000 + T.resend_ms)) == ["3: ins((A,1),3,4)"]


def test_no_more_than_its_credit_is_on_the_way_and_a_link_that_lags_gets_all_at_once() -> None:
    machine = opened()
    said = [told(machine.on(gives(f"ins(A,{i},{i + 1})", i), 0)) for i in range(CREDITS + 4)]
    assert [len(s) for s in said] == [1] * CREDITS + [0] * 4
    assert told(machine.on(ack(1), 0)) == [
        "9: ins((A,1),8,9) ins((A,1),9,10) ins((A,1),10,11) ins((A,1),11,12)"
    ]


def test_reading_stops_while_every_open_link_lags() -> None:
    machine = opened(mergers=MERGERS)
    count = CREDITS + BACKLOG_FRAMES_MAX
    answers = [machine.on(gives(f"ins(A,{i},{i + 1})", i), 0) for i in range(count)]
    assert [reads(a) for a in answers] == [True] * (count - 1) + [False]
    assert reads(machine.on(ack(3, merger=SECOND), 0))


def test_reading_goes_on_while_no_link_is_open_up_to_the_tails_limit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(intake, "TAIL_ROWS_MAX", 30)
    machine = started()
    answers = [machine.on(gives(f"ins(A,{i},{i + 1})", i), 0) for i in range(30)]
    assert [reads(a) for a in answers] == [True] * 29 + [False]


def test_a_full_tail_behind_an_event_without_end_gets_room_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(intake, "TAIL_ROWS_MAX", 3)
    machine = opened()
    machine.output.tail.add(
        Frame.from_elements(machine.schema, parse("ins((A,1),1,inf)", machine.schema))
    )
    assert not reads(machine.on(gives("ins(A,1,2) ins(A,2,3) ins(A,3,4) stable(20)"), 0))
    assert not reads(machine.on(ack(0, 20), 0))  # durable, by another's word, and not acked
    assert reads(machine.on(Tick(), T.heartbeat_ms)) or reads(machine.on(Tick(), T.hang_ms))


def test_a_refused_replica_attaches_anew_with_all_that_may_be_missing() -> None:
    machine = opened()
    machine.on(gives("ins(A,1,2) ins(A,9,10) stable(8)"), 0)
    machine.on(ack(1, 7), 0)
    [attach] = sent(machine.on(Refused(session(), 2, "no such session"), T.reattach_ms), Attach)
    assert (attach.session, attach.join_at) == (session(attempt=2), 7)
    assert format(attach.tail.elements()) == "ins((A,1),9,10) stable(8)"


def test_one_that_is_refused_again_and_again_does_not_hurry() -> None:
    machine = started(mergers=(FIRST,))
    attempts: list[int] = []
    for now in range(0, 3000, 50):
        effects = machine.on(Refused(session(attempt=len(attempts) + 1), 1, "no"), now)
        effects += machine.on(Tick(), now)
        attempts += [now] * len(sent(effects, Attach))
    assert attempts == [100, 300, 700, 1500, 2300]


def test_an_ack_of_a_later_life_of_the_merger_opens_a_new_session_and_a_late_one_does_not() -> None:
    machine = opened()
    assert sent(machine.on(ack(0, 99, epoch=0), 500), Attach) == []
    assert machine.output.tail.since == BEGIN
    [attach] = sent(machine.on(ack(0, epoch=2), 500), Attach)
    assert attach.session == session(attempt=2)


def test_an_ack_of_what_was_never_sent_opens_a_new_session() -> None:
    assert len(sent(opened().on(ack(7), 500), Attach)) == 1


def test_words_to_a_session_that_is_over_are_not_heard() -> None:
    machine = opened()
    assert machine.on(ack(0, 5, attempt=0), 500) == []
    assert machine.on(Refused(session(attempt=0), 1, "gone"), 500) == []
    assert machine.on(ack(0, merger="m9.9"), 500) == []


def test_a_late_refusal_of_a_merger_that_is_gone_is_not_heard() -> None:
    machine = started(mergers=(FIRST,))
    machine.on(ack(0, epoch=2), 0)
    assert machine.on(Refused(session(), 1, "gone"), 500) == []


def test_a_fenced_life_exits_and_does_nothing_more() -> None:
    machine = opened()
    assert exits(machine.on(Refused(session(attempt=0), 1, "r0.0/3.2 is here", fenced=True), 0))
    assert machine.on(Tick(), 5000) == []


def test_the_fence_of_another_life_is_not_ours() -> None:
    other = Life("r0.0", Incarnation(2, 1))
    assert opened().on(Refused(session(life=other), 1, "fenced", fenced=True), 0) == []


def test_an_idle_link_asks_whether_its_session_is_still_there() -> None:
    machine = opened()
    quiet = PROBE_HEARTBEATS * T.heartbeat_ms
    assert told(machine.on(Tick(), quiet - 1)) == []
    assert told(machine.on(Tick(), quiet)) == ["1: "]
    refused = machine.on(Refused(session(), 2, "no such session"), quiet + 1)
    assert len(sent(refused, Attach)) == 1


def test_a_throttled_link_waits_and_then_goes_on() -> None:
    machine = opened()
    machine.on(gives("ins(A,1,2)"), 0)
    machine.on(ack(0, throttled=True), 150)
    assert told(machine.on(Tick(), T.resend_ms)) == []
    assert told(machine.on(Tick(), 150 + T.resend_ms)) == ["1: ins((A,1),1,2)"]


# -- two mergers ------------------------------------------------------------------------------


def test_the_slowest_merger_says_what_may_be_forgotten_and_skipped() -> None:
    machine = opened(mergers=MERGERS)
    machine.on(gives("ins(A,1,2) ins(A,9,10) stable(8)"), 0)
    machine.on(ack(1, 8), 0)
    assert machine.output.tail.since == BEGIN
    machine.on(ack(1, 5, merger=SECOND), 0)
    machine.on(Tick(), 50)
    assert (machine.output.tail.since, machine.forwarded) == (5, 5)


def test_a_merger_that_is_assigned_anew_has_made_nothing_durable() -> None:
    machine = opened(mergers=MERGERS)
    machine.on(gives("ins(A,1,2) stable(8)"), 0)
    machine.on(ack(1, 8), 0)
    machine.on(Assign(3, 2, (FIRST,)), 0)
    assert machine.output.links.mergers == (FIRST,)
    assert machine.output.tail.since == 8
    [attach] = sent(machine.on(Assign(3, 3, MERGERS), 0), Attach)
    assert attach.session == session(SECOND, 2)  # it may still know the first
    machine.on(gives("stable(20)"), 0)
    machine.on(ack(2, 20), 0)
    assert machine.output.tail.since == 8


def test_settled_frames_that_went_unsent_are_left_out_and_their_stable_is_not() -> None:
    machine = opened(mergers=MERGERS)
    for i in range(CREDITS + 2):
        machine.on(gives(f"ins(A,{i},{i + 1}) stable({i})", i), 0)
        machine.on(ack(i + 1), 0)
    machine.on(ack(CREDITS + 2, CREDITS + 10), 0)
    machine.on(ack(0, CREDITS + 10, merger=SECOND), 0)  # it heard all that from other replicas
    machine.on(gives("stable(30)"), 0)
    last = told(machine.on(ack(CREDITS, 30, merger=SECOND), 0))
    assert last[-1].endswith("stable(30)")
    assert "ins" not in "".join(last[1:])


def test_an_order_of_a_lower_term_or_an_older_version_is_not_obeyed() -> None:
    machine = opened(mergers=MERGERS)
    assert machine.on(Assign(2, 9, (FIRST,)), 0) == []
    assert machine.on(Assign(3, 1, (FIRST,)), 0) == []
    assert machine.on(Hold(4, 9), 0)
    assert machine.on(Drain(3), 0) == []
    assert (machine.obeys(4), machine.obeys(3), machine.output.links.mergers) == (
        True,
        False,
        MERGERS,
    )


# -- holding, draining, ending ----------------------------------------------------------------


def test_a_held_replica_promises_nothing_beyond_and_reads_no_further() -> None:
    machine = opened(held_at=10)
    effects = machine.on(gives("ins(A,12,13) stable(12)"), 0)
    assert told(effects) == ["1: ins((A,1),12,13) stable(10)"]
    assert not reads(effects)
    effects = machine.on(Hold(3, INF), 0)
    assert told(effects) == ["2: stable(12)"]
    assert reads(effects)
    [status] = sent(effects, ReplicaStatus)
    assert (status.stable, status.held_at) == (12, INF)


def test_a_hold_never_takes_back_what_was_promised() -> None:
    machine = opened()
    machine.on(gives("stable(12)"), 0)
    machine.on(Hold(3, 10), 0)
    assert told(machine.on(gives("ins(A,12,13) stable(20)"), 0)) == ["2: ins((A,1),12,13)"]
    assert machine.output.tail.stable == 12


def test_a_drained_replica_has_read_sent_and_heard_of_all_there_was() -> None:
    machine = opened()  # a read is under way: what it answers says nothing of the time after
    machine.on(Drain(3), 0)
    assert not reads(machine.on(SourceRead("flows", None, {0: 0}), 0))
    assert reads(machine.on(Tick(), 50))
    assert reads(machine.on(gives("ins(A,1,2)"), 50))
    machine.on(SourceRead("flows", None, {0: 1}), 60)
    assert sent(machine.on(Drain(3), 60), ReplicaStatus)[0].is_drained is False
    assert [s.is_drained for s in sent(machine.on(ack(1), 70), ReplicaStatus)] == [True]
    assert not reads(machine.on(Tick(), 100))


def test_an_ended_source_is_drained_at_once() -> None:
    machine = opened()
    machine.on(gives("stable(inf)"), 0)
    machine.on(ack(1, INF), 0)
    machine.on(Drain(3), 0)
    assert machine.is_drained


def test_it_exits_when_it_is_retired_and_not_when_another_life_is() -> None:
    machine = opened()
    assert exits(machine.on(Retire(3, Life("r0.0", Incarnation(2, 1)), "old"), 0)) is None
    assert exits(machine.on(Retire(3, LIFE, "replaced"), 0)) == "retired: replaced"


def test_rows_that_the_plan_does_not_take_end_this_life() -> None:
    machine = opened()
    strange = Frame.from_elements(machine.schema, parse("ins((A,1),1,2)", machine.schema))
    reason = exits(machine.on(SourceRead("flows", strange, {0: 1}), 0))
    assert reason is not None
    assert "ts" in reason


def test_it_says_how_it_is_at_every_heartbeat() -> None:
    machine = opened()
    said = [now for now in range(50, 1001, 50) if sent(machine.on(Tick(), now), ReplicaStatus)]
    assert said == [250, 500, 750, 1000]
