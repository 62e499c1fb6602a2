"""The machines one message at a time: what each answers to repeats, gaps and strangers."""

import pytest

from gapless.failover import merger as merger_module
from gapless.failover import replica as replica_module
from gapless.failover.merger import Merger
from gapless.failover.messages import (
    Ack,
    Append,
    Appended,
    Attach,
    Data,
    Delivery,
    Effect,
    Emit,
    Fetch,
    OutputRead,
    ReadOutput,
    ReadSource,
    Refused,
    Send,
    Session,
    SourceRead,
    Start,
    Tick,
    Token,
)
from gapless.failover.replica import (
    OUTBOX_FRAMES_MAX,
    REATTACH_AFTER_MS,
    RESEND_AFTER_MS,
    Replica,
)
from gapless.failover.subscriber import FETCH_AFTER_MS, Subscriber
from gapless.merge.lmerge import LMerge
from gapless.operators.aggregates.calls import count
from gapless.operators.filter import Filter
from gapless.operators.hopping import HoppingAggregate
from gapless.operators.windows import Hopping
from gapless.protocol.elements import BEGIN
from gapless.protocol.envelope import Incarnation
from gapless.protocol.errors import Misuse
from gapless.protocol.expr import col
from gapless.protocol.frame import Frame
from gapless.protocol.text import DEFAULT_SCHEMA, format, parse

LIFE = Incarnation(1, 0)
SESSION = Session("r1", LIFE, 1)


def frame(text: str) -> Frame:
    return Frame.from_elements(DEFAULT_SCHEMA, parse(text))


def merger(live: str = "", epoch: int = 1, offset: int = 0) -> Merger:
    return Merger("m1", epoch, LMerge(DEFAULT_SCHEMA, "r3"), frame(live), offset)


def replica(join_at: int = BEGIN) -> Replica:
    return Replica("r1", LIFE, Filter(DEFAULT_SCHEMA, col("p") != "hidden"), "m1", join_at)


def sent(effects: list[Effect]) -> list[object]:
    return [e.message for e in effects if isinstance(e, Send)]


def attached(text: str = "") -> Merger:
    machine = merger()
    machine.on(Attach(SESSION, BEGIN, frame(text)), 0)
    return machine


# -- merger -----------------------------------------------------------------------------------


def test_a_frame_is_acked_appended_and_durable_only_once_the_journal_says_so() -> None:
    machine = attached()
    ack, append = machine.on(Data(SESSION, 1, frame("ins(A,1,5) stable(3)")), 0)
    assert ack == Send("r1", Ack(SESSION, 1, 1, BEGIN, BEGIN))
    assert isinstance(append, Append)
    assert format(append.frame.elements()) == "ins(A,1,5) stable(3)"
    assert sent(machine.on(Appended(64, 3), 0)) == [Ack(SESSION, 1, 1, 3, 3)]


def test_a_repeated_or_early_frame_changes_nothing_and_is_acked_as_far_as_it_goes() -> None:
    machine = attached()
    first = Data(SESSION, 1, frame("ins(A,1,5)"))
    machine.on(first, 0)
    assert machine.on(first, 0) == [Send("r1", Ack(SESSION, 1, 1, BEGIN, BEGIN))]
    assert machine.on(Data(SESSION, 3, frame("ins(C,1,5)")), 0) == [
        Send("r1", Ack(SESSION, 1, 1, BEGIN, BEGIN))
    ]
    assert machine.on(Attach(SESSION, BEGIN, frame("")), 0) == [
        Send("r1", Ack(SESSION, 1, 1, BEGIN, BEGIN))
    ]


def test_frames_of_an_unknown_session_are_refused() -> None:
    stranger = Session("r2", LIFE, 1)
    (answer,) = sent(attached().on(Data(stranger, 1, frame("ins(A,1,5)")), 0))
    assert answer == Refused(stranger, 1, "no such session")


def test_a_later_life_replaces_an_earlier_one_and_a_zombie_is_refused() -> None:
    machine = attached("ins(A,1,5)")
    later = Session("r1", Incarnation(1, 1), 1)
    machine.on(Attach(later, BEGIN, frame("ins(A,1,5)")), 0)
    (answer,) = sent(machine.on(Attach(SESSION, BEGIN, frame("")), 0))
    assert isinstance(answer, Refused)
    (answer,) = sent(machine.on(Data(SESSION, 1, frame("ins(B,1,5)")), 0))
    assert isinstance(answer, Refused)


def test_bad_content_ends_the_session_with_its_reason() -> None:
    (answer,) = sent(attached().on(Data(SESSION, 1, frame("adj(A,1,5,6)")), 0))
    assert isinstance(answer, Refused)
    assert "adj(A,1,5,6)" in answer.reason


def test_a_subscriber_at_the_end_is_answered_when_there_is_more() -> None:
    machine = attached()
    token = Token("m1", 1, 0, BEGIN)
    assert machine.on(Fetch("s1", token), 0) == []
    assert ReadOutput("s1", 0) in machine.on(Appended(64, 3), 0)
    assert machine.on(Fetch("s1", token), 0) == [ReadOutput("s1", 0)]
    (delivery,) = sent(machine.on(OutputRead("s1", 0, frame("stable(3)"), 64), 0))
    assert delivery == Delivery(0, frame("stable(3)"), Token("m1", 1, 64, 3))


def test_a_token_that_this_merger_cannot_have_given_is_not_answered() -> None:
    machine = merger(offset=64)
    for token in (Token("m2", 1, 0, BEGIN), Token("m1", 1, 128, BEGIN)):
        assert machine.on(Fetch("s1", token), 0) == []
    assert machine.on(Appended(256, 3), 0) == []
    with pytest.raises(Misuse, match="-64"):
        Fetch("s1", Token("m1", 1, -64, BEGIN))


def test_a_new_life_goes_on_from_what_its_journal_holds() -> None:
    machine = merger("ins(A,1,50) stable(3)", epoch=2, offset=640)
    effects = machine.on(Attach(SESSION, 3, frame("ins(A,1,50) ins(B,9,12) stable(20)")), 0)
    assert [format(e.frame.elements()) for e in effects if isinstance(e, Append)] == [
        "ins(B,9,12) stable(20)"
    ]
    assert sent(effects) == [Ack(SESSION, 2, 0, 3, 3)]


# -- replica ----------------------------------------------------------------------------------


def started(join_at: int = BEGIN) -> Replica:
    machine = replica(join_at)
    machine.on(Start(), 0)
    return machine


def test_a_life_attaches_with_its_join_time_and_reads_from_its_reach_before_it() -> None:
    assert replica(20).on(Start(), 0) == [
        Send("m1", Attach(SESSION, 20, frame(""))),
        ReadSource(None, 20),
    ]


def test_output_is_numbered_and_sent_again_after_silence() -> None:
    machine = started()
    (data, _) = machine.on(SourceRead(frame("ins(A,1,5)"), 64), 0)
    assert data == Send("m1", Data(SESSION, 1, frame("ins(A,1,5)")))
    assert sent(machine.on(Tick(), RESEND_AFTER_MS - 1)) == []
    again = sent(machine.on(Tick(), RESEND_AFTER_MS))
    assert again == [Attach(SESSION, BEGIN, frame("")), Data(SESSION, 1, frame("ins(A,1,5)"))]
    machine.on(Ack(SESSION, 1, 1, BEGIN, BEGIN), RESEND_AFTER_MS)
    assert sent(machine.on(Tick(), 10 * RESEND_AFTER_MS)) == []


def test_it_stops_reading_while_its_outbox_is_full() -> None:
    machine = started()
    reads = 0
    for i in range(3 * OUTBOX_FRAMES_MAX):
        effects = machine.on(SourceRead(frame(f"ins(A,{i},{i + 1})"), 64 * i), 0)
        if not any(isinstance(e, ReadSource) for e in effects):
            break
        reads += 1
    assert reads < OUTBOX_FRAMES_MAX
    resumed = machine.on(Ack(SESSION, 1, 1, BEGIN, BEGIN), 0)
    assert any(isinstance(e, ReadSource) for e in resumed)


def test_when_it_is_refused_it_attaches_anew_with_all_that_may_be_missing() -> None:
    machine = started()
    machine.on(SourceRead(frame("ins(A,1,5) ins(B,9,12) stable(8)"), 64), 0)
    machine.on(Ack(SESSION, 1, 1, 7, 7), 0)
    refused = machine.on(Refused(SESSION, 2, "no such session"), REATTACH_AFTER_MS)
    (attach,) = sent(refused)
    assert attach == Attach(Session("r1", LIFE, 2), 7, frame("ins(B,9,12) stable(8)"))


def test_a_replica_that_is_refused_again_and_again_does_not_hurry() -> None:
    machine = started()
    assert sent(machine.on(Refused(SESSION, 1, "bad content"), 1)) == []
    assert sent(machine.on(Tick(), REATTACH_AFTER_MS - 1)) == []
    assert len(sent(machine.on(Tick(), REATTACH_AFTER_MS))) == 1


def test_it_stops_reading_while_nothing_of_its_output_becomes_durable(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(replica_module, "TAIL_ROWS_MAX", 2)
    machine = started()
    machine.on(SourceRead(frame("ins(A,1,5)"), 64), 0)
    machine.on(SourceRead(frame("ins(B,9,12) stable(8)"), 128), 0)
    stuck = machine.on(Ack(SESSION, 1, 2, BEGIN, BEGIN), 0)
    assert not any(isinstance(e, ReadSource) for e in stuck)
    durable = machine.on(Ack(SESSION, 1, 2, 8, 8), 0)
    assert any(isinstance(e, ReadSource) for e in durable)


def test_messages_that_mean_nothing_cannot_be_made() -> None:
    with pytest.raises(Misuse):
        Attach(SESSION, BEGIN - 1, frame(""))
    with pytest.raises(Misuse):
        Data(SESSION, 0, frame(""))


def test_more_replicas_than_a_merger_takes_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(merger_module, "INPUTS_MAX", 1)
    stranger = Session("r2", LIFE, 1)
    (answer,) = sent(attached().on(Attach(stranger, BEGIN, frame("")), 0))
    assert answer == Refused(stranger, 1, "1 replicas are attached")


def test_an_ack_of_frames_does_not_trim_the_tail() -> None:
    machine = started()
    machine.on(SourceRead(frame("ins(A,1,5) stable(8)"), 64), 0)
    machine.on(Ack(SESSION, 1, 1, BEGIN, BEGIN), 0)
    assert format(machine.retell().elements()) == "ins(A,1,5) stable(8)"


def test_an_ack_from_another_epoch_opens_a_new_session_and_a_late_one_does_not() -> None:
    machine = started()
    machine.on(Ack(SESSION, 2, 0, BEGIN, BEGIN), 0)
    assert sent(machine.on(Ack(SESSION, 1, 0, BEGIN, BEGIN), 0)) == []
    (attach,) = sent(machine.on(Ack(SESSION, 3, 0, BEGIN, BEGIN), 0))
    assert attach == Attach(Session("r1", LIFE, 2), BEGIN, frame(""))


def test_an_ack_of_what_was_never_sent_opens_a_new_session() -> None:
    (attach,) = sent(started().on(Ack(SESSION, 1, 7, BEGIN, BEGIN), 0))
    assert isinstance(attach, Attach)


def test_words_to_a_session_that_is_over_are_not_heard() -> None:
    machine = started()
    old = Session("r1", LIFE, 0)
    assert machine.on(Ack(old, 1, 0, BEGIN, BEGIN), 0) == []
    assert machine.on(Refused(old, 1, "gone"), 0) == []


def test_a_frame_that_the_plan_refuses_is_read_again_and_never_passed_over() -> None:
    counts = HoppingAggregate(DEFAULT_SCHEMA, Hopping(5, 5), ["p"], [("count", count())])
    machine = Replica("r1", LIFE, counts, "m1")
    machine.on(Start(), 0)
    machine.on(SourceRead(frame("ins(A,1,5)"), 64), 0)
    with pytest.raises(Misuse, match="Settle"):
        machine.on(SourceRead(frame("adj(A,1,5,6)"), 128), 0)
    assert ReadSource(64, BEGIN) in machine.on(Tick(), 0)


# -- subscriber -------------------------------------------------------------------------------


def test_a_delivery_counts_only_where_the_token_stands() -> None:
    machine = Subscriber("s1", "m1")
    machine.on(Start(), 0)
    first = Delivery(0, frame("ins(A,1,5) stable(3)"), Token("m1", 1, 64, 3))
    emit, fetch = machine.on(first, 0)
    assert emit == Emit(first.frame, first.token)
    assert fetch == Send("m1", Fetch("s1", first.token))
    assert machine.on(first, 0) == []
    assert machine.on(Delivery(128, frame("stable(9)"), Token("m1", 1, 192, 9)), 0) == []


def test_a_delivery_that_leads_nowhere_cannot_be_said() -> None:
    for offset in (0, 64):
        with pytest.raises(Misuse, match="a frame takes bytes"):
            Delivery(64, frame("stable(9)"), Token("m1", 1, offset, 9))


def test_offsets_of_another_merger_mean_nothing() -> None:
    machine = Subscriber("s1", "m1")
    assert machine.on(Delivery(0, frame("stable(9)"), Token("m2", 1, 64, 9)), 0) == []
    with pytest.raises(Misuse, match="m2"):
        Subscriber("s1", "m1", Token("m2", 1, 64, 9))


def test_it_asks_again_after_silence() -> None:
    machine = Subscriber("s1", "m1")
    machine.on(Start(), 0)
    assert machine.on(Tick(), FETCH_AFTER_MS - 1) == []
    assert len(machine.on(Tick(), FETCH_AFTER_MS)) == 1


def test_its_token_keeps_the_last_stable_over_frames_without_one() -> None:
    machine = Subscriber("s1", "m1", Token("m1", 1, 64, 3))
    machine.on(Start(), 0)
    machine.on(Delivery(64, frame("ins(B,4,5)"), Token("m1", 1, 128, BEGIN)), 0)
    assert machine.token == Token("m1", 1, 128, 3)
