"""The merger one message at a time: what it answers to repeats, gaps, strangers and orders."""

import pytest

from gapless.failover.effects import Alarm, Exit, Start, Tick
from gapless.failover.merger import durable_output, input_sessions, inputs
from gapless.failover.merger import output_writer as writing
from gapless.failover.merger.effects import (
    Append,
    Appended,
    AppendRefused,
    BaseMade,
    MakeBase,
    OutputLost,
    Seal,
    Sealed,
)
from gapless.failover.messages import Ack, Drain, Fence, Refused, Retire
from gapless.failover.statuses import InputStatus, MergerStatus
from gapless.merge.lmerge import LMerge
from gapless.merge.policy import Policy, lag
from gapless.protocol.elements import BEGIN, INF
from tests.failover.mergers import (
    M1,
    R0,
    R1,
    attach,
    data,
    life,
    merger,
    none_of,
    only,
    sent,
    session,
    text,
)

# -- sessions ---------------------------------------------------------------------------------


def test_a_frame_is_acked_appended_and_durable_only_once_the_journal_says_so() -> None:
    machine = merger()
    attach(machine, R0)
    effects = data(machine, R0, 1, "ins(A,1,5) stable(3)")
    assert sent(effects) == [Ack(R0, 1, 1, BEGIN, BEGIN)]
    assert text(only(effects, Append).frame) == "ins(A,1,5) stable(3)"
    assert sent(machine.on(Appended(1, 3), 0)) == []
    assert machine.durable_stable == 3
    assert sent(machine.on(Tick(), 1)) == [Ack(R0, 1, 1, 3, 3)]
    assert sent(machine.on(Tick(), 2)) == [], "it has been told"


def test_answers_go_to_the_life_that_asked_and_not_to_its_slot() -> None:
    (answer,) = attach(merger(), R0)
    assert answer.to == "r0.0/" + str(R0.life.incarnation)


def test_a_repeated_or_early_frame_changes_nothing_and_is_acked_as_far_as_it_goes() -> None:
    machine = merger()
    attach(machine, R0)
    data(machine, R0, 1, "ins(A,1,5)")
    expected = [Ack(R0, 1, 1, BEGIN, BEGIN)]
    assert sent(data(machine, R0, 1, "ins(A,1,5)")) == expected
    assert sent(data(machine, R0, 3, "ins(C,1,5)")) == expected
    assert sent(attach(machine, R0)) == expected
    assert not machine.expects(R0, 1)
    assert machine.expects(R0, 2)
    assert not machine.expects(R0, 3)


def test_frames_of_an_unknown_session_are_refused() -> None:
    machine = merger()
    attach(machine, R0)
    assert sent(data(machine, R1, 1, "ins(A,1,5)")) == [Refused(R1, 1, "no such session")]


def test_frames_of_a_session_that_another_life_of_the_merger_knows_are_refused() -> None:
    machine = merger()
    attach(machine, R0)
    later = session(attempt=2)
    assert sent(data(machine, later, 1, "ins(A,1,5)"), Refused)
    assert sent(attach(machine, later), Ack)
    assert sent(data(machine, R0, 1, "ins(A,1,5)"), Refused)


def test_a_later_attempt_of_a_life_replaces_its_link() -> None:
    machine = merger()
    attach(machine, R0, "ins(A,1,5)")
    attach(machine, session(attempt=2), "ins(A,1,5)")
    machine.validate()
    assert sent(attach(machine, R0)) == [Refused(R0, 1, "a later session is attached")]


def test_a_successor_feeds_the_merger_beside_the_life_that_it_may_replace() -> None:
    machine = merger()
    attach(machine, R0, "ins(A,1,5)")
    successor = session(counter=2)
    attach(machine, successor, "ins(A,1,5)")
    assert sent(data(machine, R0, 1, "ins(B,6,9)"), Ack)
    assert sent(data(machine, successor, 1, "ins(B,6,9)"), Ack)
    machine.validate()


def test_an_attach_that_meant_another_merger_is_refused() -> None:
    (answer,) = sent(attach(merger(), session(merger="m0.9")))
    assert isinstance(answer, Refused)
    assert "m0.9" in answer.reason


def test_bad_content_ends_the_session_with_its_reason_and_is_counted() -> None:
    machine = merger()
    attach(machine, R0)
    (answer,) = sent(data(machine, R0, 1, "adj(A,1,5,6)"))
    assert isinstance(answer, Refused)
    assert not answer.fenced
    assert "adj(A,1,5,6)" in answer.reason
    (status,) = sent(machine.on(Tick(), 5000), MergerStatus)
    assert (status.detached, status.inputs) == (1, ())
    assert sent(attach(machine, session(attempt=2)), Ack)


def test_more_replicas_than_a_merger_takes_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inputs, "LINKS_MAX", 1)
    machine = merger()
    attach(machine, R0)
    assert sent(attach(machine, R1)) == [Refused(R1, 1, "1 are attached")]


def test_of_a_slot_that_dies_again_and_again_the_oldest_lives_are_let_go() -> None:
    machine = merger()
    lives = [session(counter=n) for n in range(1, inputs.LIVES_MAX + 2)]
    for each in lives[:-1]:
        attach(machine, each)
    refused = sent(attach(machine, lives[-1]), Refused)
    assert [r.session for r in refused] == [lives[0]]
    assert sent(attach(machine, session(counter=1, attempt=2)), Refused)
    machine.validate()


def test_lives_that_have_died_keep_nobody_of_their_slot_out_however_late_they_came() -> None:
    machine = merger()
    for n in range(2, inputs.LIVES_MAX + 2):  # successors that were given up, one after the other
        attach(machine, session(counter=n), now=n)
    replies = sent(attach(machine, session(counter=1), now=100))
    assert [type(each) for each in replies] == [Refused, Ack]
    assert replies[0].session == session(counter=2)
    data(machine, session(counter=1), 1, "stable(5)", now=101)
    machine.validate()


def test_a_new_life_goes_on_from_what_its_journal_holds() -> None:
    machine = merger("ins(A,1,50) stable(3)", epoch=2, offset=640)
    effects = attach(machine, R0, "ins(A,1,50) ins(B,9,12) stable(20)", join_at=3)
    assert text(only(effects, Append).frame) == "ins(B,9,12) stable(20)"
    assert sent(effects) == [Ack(R0, 2, 0, 3, 3)]


# -- fences and orders ------------------------------------------------------------------------


def test_a_fenced_life_is_detached_and_never_attaches_again() -> None:
    machine = merger()
    attach(machine, R0, "ins(A,1,5)")
    attach(machine, R1, "ins(A,1,5)")
    successor = session(counter=2)
    attach(machine, successor, "ins(A,1,5)")
    (refused,) = sent(machine.on(Fence(1, successor.life), 0))
    assert (refused.session, refused.fenced) == (R0, True)
    (again,) = sent(attach(machine, session(attempt=2)))
    assert again.fenced
    assert sent(data(machine, successor, 1, ""), Ack)
    assert sent(data(machine, R1, 1, ""), Ack)
    machine.validate()


def test_a_fence_may_come_before_the_life_that_it_keeps_out() -> None:
    machine = merger()
    assert machine.on(Fence(1, life("r0.0", 5)), 0) == []
    assert machine.on(Fence(1, life("r0.0", 3)), 0) == []  # resent, late
    (refused,) = sent(attach(machine, session(counter=4)))
    assert refused.fenced


def test_orders_of_an_older_supervisor_are_not_obeyed() -> None:
    machine = merger()
    attach(machine, R0)
    machine.on(Fence(7, life("r0.9")), 0)
    assert machine.obeys(7)
    assert not machine.obeys(6)
    assert machine.on(Fence(6, life("r0.0", 2)), 0) == []
    assert machine.on(Retire(6, machine.life, "old"), 0) == []
    assert machine.on(Retire(7, life(M1, 2), "another life"), 0) == []
    assert machine.on(Retire(7, machine.life, "scaled down"), 0) == [Exit("scaled down")]
    assert attach(machine, R1) == []


def test_a_merger_whose_journal_was_taken_over_ends() -> None:
    assert merger().on(OutputLost("epoch 2 has begun"), 0) == [Exit("epoch 2 has begun")]


# -- the journal ------------------------------------------------------------------------------


def test_what_gathers_while_an_append_is_under_way_goes_as_one() -> None:
    machine = merger()
    attach(machine, R0, "ins(A,1,5)")
    for i, said in enumerate(("ins(B,2,9) stable(2)", "ins(C,3,9)", "ins(D,4,9) stable(4)")):
        assert none_of(data(machine, R0, i + 1, said), Append)
    effects = machine.on(Appended(1, BEGIN), 0)
    assert text(only(effects, Append).frame) == "ins(B,2,9) ins(C,3,9) ins(D,4,9) stable(4)"
    assert none_of(machine.on(Appended(4, 4), 0), Append)


def test_on_a_full_disk_all_waits_and_nothing_is_lost() -> None:
    machine = merger()
    attach(machine, R0, "ins(A,1,5) stable(1)")
    effects = machine.on(AppendRefused("0 MB are free"), 1000)
    assert only(effects, Alarm).what == "the output waits: 0 MB are free"
    data(machine, R0, 1, "ins(B,2,9)")
    assert none_of(machine.on(Tick(), 1040), Append)
    again = only(machine.on(Tick(), 1050), Append)
    assert text(again.frame) == "ins(A,1,5) ins(B,2,9) stable(1)"
    assert machine.on(AppendRefused("0 MB are free"), 1060) == []  # said once
    machine.validate()
    machine.on(Tick(), 1110)
    machine.on(Appended(2, 1), 1120)
    machine.validate()
    assert machine.durable_stable == 1


def test_while_too_much_waits_for_the_disk_nothing_is_taken_in(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(durable_output, "PENDING_ROWS_MAX", 2)
    machine = merger()
    attach(machine, R0, "ins(A,1,5) ins(B,1,5)")
    throttled = Ack(R0, 1, 0, BEGIN, BEGIN, throttled=True)
    assert sent(data(machine, R0, 1, "ins(C,2,9)")) == [throttled]
    assert attach(machine, R1, "ins(A,1,5)") == []  # it says so again
    machine.on(Appended(2, BEGIN), 0)
    assert sent(data(machine, R0, 1, "ins(C,2,9)")) == [Ack(R0, 1, 1, BEGIN, BEGIN)]
    machine.validate()


def test_over_the_limit_of_its_state_only_who_is_ahead_of_the_output_waits(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(input_sessions, "STATE_BYTES_MAX", 0)
    machine = merger()
    attach(machine, R0, "ins(A,1,50) stable(5)")
    attach(machine, R1, "ins(B,40,60) stable(30)", join_at=20)
    machine.on(Tick(), 0)
    (ahead,) = sent(data(machine, R1, 1, "ins(C,41,60)"))
    assert (ahead.throttled, ahead.sequence) == (True, 0)
    (leads,) = sent(data(machine, R0, 1, "stable(20)"), Ack)
    assert (leads.throttled, leads.sequence) == (False, 1)
    (now,) = sent(data(machine, R1, 1, "ins(C,41,60)"), Ack)  # R1 leads now, at 30
    assert (now.throttled, now.sequence) == (False, 1)


def test_an_output_that_lags_by_policy_does_not_throttle_its_leader(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(input_sessions, "STATE_BYTES_MAX", 0)
    machine = merger(policy=Policy(stable=lag(4)))
    attach(machine, R0, "stable(10)")
    machine.on(Tick(), 0)
    (answer,) = sent(data(machine, R0, 1, "stable(20)"), Ack)
    assert answer.sequence == 1


def test_a_base_is_the_table_at_the_end_of_an_append_also_under_load() -> None:
    machine = merger()
    attach(machine, R0, "ins(A,1,5) stable(1)")
    data(machine, R0, 1, "ins(B,2,9)")
    append = only(machine.on(Appended(1, 1, wants_base=True), 0), Append)
    assert text(append.frame) == "ins(B,2,9)"
    data(machine, R0, 2, "ins(C,3,9)")  # in the LMerge, not in the append
    effects = machine.on(Appended(2, 1), 0)
    assert text(only(effects, Seal).base) == "ins(A,1,5) ins(B,2,9) stable(1)"
    assert none_of(effects, Append)
    assert text(only(machine.on(Sealed(), 0), Append).frame) == "ins(C,3,9)"
    machine.validate()


def test_a_large_base_is_made_beside_and_the_output_goes_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(writing, "BASE_ROWS_MAX", 1)
    looked: list[int] = []
    monkeypatch.setattr(LMerge, "live", lambda self: looked.append(len(self)))
    machine = merger()
    attach(machine, R0, "ins(A,1,5) ins(B,2,9) stable(1)")
    data(machine, R0, 1, "ins(C,3,9)")
    effects = machine.on(Appended(2, 1, wants_base=True), 0)
    assert [type(e) for e in effects if isinstance(e, MakeBase | Append)] == [MakeBase, Append]
    data(machine, R0, 2, "ins(D,4,9)")
    effects = machine.on(Appended(3, 1, wants_base=True), 1)  # one is being made
    assert none_of(effects, MakeBase)
    only(effects, Append)
    machine.on(Appended(4, 1), 2)
    machine.on(Drain(1), 2)
    assert none_of(machine.on(Tick(), 5000), Seal)  # it is not done yet
    assert machine.on(BaseMade("no room"), 5000) == []
    data(machine, R0, 3, "ins(E,5,9)", 5001)
    assert none_of(machine.on(Appended(5, 1, wants_base=True), 5002), MakeBase)  # not at once again
    data(machine, R0, 4, "ins(F,6,9)", 6001)
    only(machine.on(Appended(6, 1, wants_base=True), 6002), MakeBase)
    assert looked == []
    machine.validate()


def test_before_the_first_stable_there_is_no_base() -> None:
    machine = merger()
    attach(machine, R0, "ins(A,1,5)")
    assert none_of(machine.on(Appended(1, BEGIN, wants_base=True), 0), Seal)
    data(machine, R0, 1, "stable(1)")
    assert text(only(machine.on(Appended(1, 1), 0), Seal).base) == "ins(A,1,5) stable(1)"


# -- feedback, heartbeat, drain ---------------------------------------------------------------


def test_feedback_never_exceeds_what_is_durable() -> None:
    machine = merger()
    attach(machine, R0)
    (answer,) = sent(data(machine, R0, 1, "ins(A,1,5) stable(30)"), Ack)
    assert (answer.durable_stable, answer.feedback) == (BEGIN, BEGIN)
    machine.on(Appended(1, 30), 0)
    (answer,) = sent(machine.on(Tick(), 1), Ack)
    assert (answer.durable_stable, answer.feedback) == (30, 30)


def test_it_says_how_it_is_at_the_start_and_every_heartbeat() -> None:
    machine = merger()
    (first,) = sent(machine.on(Start(), 0), MergerStatus)
    assert first.waiting_for is not None
    attach(machine, R0, "stable(7)")
    attach(machine, R1, "stable(9)", join_at=8)
    assert none_of(machine.on(Tick(), 999), type(first))
    (status,) = sent(machine.on(Tick(), 1000), MergerStatus)
    assert status.inputs == (
        InputStatus(R0.life, 7, True, led=1),
        InputStatus(R1.life, 9, False),
    )
    assert (status.stable, status.durable_stable, status.waiting_for) == (7, BEGIN, None)
    assert sent(machine.on(Tick(), 1050), MergerStatus) == []


def test_a_drained_merger_has_sealed_all_that_was_said() -> None:
    machine = merger()
    machine.on(Start(), 0)
    attach(machine, R0, "ins(A,1,5) stable(3)", now=0)
    machine.on(Drain(1), 10)
    assert none_of(machine.on(Tick(), 100), Seal)  # not durable yet
    machine.on(Appended(1, 3), 110)
    assert text(only(machine.on(Tick(), 150), Seal).base) == "ins(A,1,5) stable(3)"
    (status,) = sent(machine.on(Sealed(), 160), MergerStatus)
    assert status.is_drained
    data(machine, R0, 1, "ins(B,6,9)", now=170)  # one came late, and counts
    assert not sent(machine.on(Tick(), 1200), MergerStatus)[0].is_drained
    machine.on(Appended(2, 3), 1210)
    only(machine.on(Tick(), 1300), Seal)
    assert sent(machine.on(Sealed(), 1310), MergerStatus)[0].is_drained


def test_replicas_that_only_ask_whether_it_knows_them_do_not_keep_it_open() -> None:
    machine = merger()
    attach(machine, R0, "stable(3)", now=0)
    machine.on(Appended(0, 3), 0)
    machine.on(Drain(1), 0)
    data(machine, R0, 1, "", now=90)
    only(machine.on(Tick(), 100), Seal)


def test_an_output_ends_as_any_other_goes_on() -> None:
    machine = merger()
    attach(machine, R0, "ins(A,1,inf) stable(inf)")
    machine.on(Appended(1, INF), 0)
    assert sent(machine.on(Tick(), 1)) == [Ack(R0, 1, 0, INF, INF)]
    again = merger("stable(inf)", epoch=2, offset=1)
    assert sent(attach(again, R0, join_at=INF)) == [Ack(R0, 2, 0, INF, INF)]
    again.validate()
