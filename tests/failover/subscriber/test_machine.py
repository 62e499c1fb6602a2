"""A subscriber one message at a time: what counts, what does not, and when it gives up."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from gapless.failover.effects import Send, Start, Tick
from gapless.failover.messages import Declined, Delivery, Fetch, Open, Opened, Token
from gapless.failover.subscriber.cursor import CURSOR, SLOWER_MAX, Cursor
from gapless.failover.subscriber.effects import Emit, Give, SubscriberEffect
from gapless.failover.subscriber.machine import Subscriber
from gapless.failover.table import Received
from gapless.failover.timing import Timing
from gapless.protocol.elements import BEGIN, INF, Insert
from gapless.protocol.errors import Misuse, StreamViolation, TokenError
from gapless.protocol.frame import Frame
from gapless.protocol.schema import StreamSchema
from gapless.protocol.text import DEFAULT_SCHEMA, format, parse

Mergers = Mapping[str, tuple[str, ...]]

ONE: Mergers = {"0": ("m0.0",)}
BOTH: Mergers = {"0": ("m0.0", "m0.1")}
SHARDS: Mergers = {"0": ("m0.0",), "1": ("m1.0",)}
SILENCE = Timing().fetch_ms


def frame(text: str = "") -> Frame:
    return Frame.from_elements(DEFAULT_SCHEMA, parse(text))


def subscriber(mergers: Mergers = ONE, **how: Any) -> Subscriber:
    return Subscriber("s", mergers, DEFAULT_SCHEMA, **how)


def asked(effects: list[SubscriberEffect]) -> list[tuple[str, Open | Fetch]]:
    sends = [(e.to, e.message) for e in effects if isinstance(e, Send)]
    return [(to, m) for to, m in sends if isinstance(m, Open | Fetch)]


def emitted(effects: list[SubscriberEffect]) -> list[str]:
    return [format(e.frame.elements()) for e in effects if isinstance(e, Emit)]


def delivery(after: int, text: str, merger: str = "m0.0", stable: int = BEGIN) -> Delivery:
    rows = frame(text)
    last = stable if rows.stable is None else rows.stable
    return Delivery(after, rows, Token(merger, 1, after + len(rows), last))


def opened(question: Open, since: int, text: str, offset: int, merger: str = "m0.0") -> Opened:
    table = frame(text)
    stable = BEGIN if table.stable is None else table.stable
    return Opened(question.attempt, since, table, Token(merger, 1, offset, stable))


def opening(machine: Subscriber, now: int = 0) -> dict[str, Open]:
    """The first questions, by merger."""
    return {to: q for to, q in asked(machine.on(Start(), now)) if isinstance(q, Open)}


# -- one merger -------------------------------------------------------------------------------


def test_a_new_subscriber_gets_a_reset_and_reads_on_behind_it() -> None:
    machine = subscriber()
    (question,) = opening(machine).values()
    assert question.since is None
    effects = machine.on(opened(question, 5, "ins(A,1,7) stable(6)", 10), 0)
    token = Token("m0.0", 1, 10, 6)
    assert effects == [
        Emit(frame("ins(A,1,7) stable(6)"), {"0": token}, reset=True, since=5),
        Send("m0.0", Fetch("s", token)),
    ]
    effects = machine.on(delivery(10, "adj(A,1,7,9)"), 0)
    assert emitted(effects) == ["adj(A,1,7,9)"]
    assert asked(effects) == [("m0.0", Fetch("s", Token("m0.0", 1, 11, 6)))]


def in_parts(question: Open, texts: list[str], offset: int, epoch: int = 1) -> list[Opened]:
    token = Token("m0.0", epoch, offset, 6)
    count = len(texts)
    return [
        Opened(question.attempt, 5, frame(text), token, i, count) for i, text in enumerate(texts)
    ]


TEXTS = ["ins(A,1,7)", "ins(B,2,8)", "ins(C,3,9) stable(6)"]


def test_a_reset_in_parts_is_handed_out_once_the_last_is_there_whatever_the_network_does() -> None:
    machine = subscriber()
    (question,) = opening(machine).values()
    first, second, third = in_parts(question, TEXTS, 10)
    assert asked(machine.on(first, 0)) == [("m0.0", replace(question, part=1))]
    assert machine.on(first, 0) == []  # twice
    assert machine.on(third, 0) == []  # too early
    assert asked(machine.on(Tick(), SILENCE)) == [("m0.0", replace(question, part=1))]
    assert machine.tokens == {}
    assert asked(machine.on(second, SILENCE)) == [("m0.0", replace(question, part=2))]
    effects = machine.on(third, SILENCE)
    token = Token("m0.0", 1, 10, 6)
    assert emitted(effects) == ["ins(A,1,7) ins(B,2,8) ins(C,3,9) stable(6)"]
    assert asked(effects) == [("m0.0", Fetch("s", token))]
    assert machine.tokens == {"0": token}


class MixesTables(Cursor):
    """Takes any part that has the next number."""

    def gather(self, event: Opened) -> bool:
        held = self._parts
        if held:
            event = replace(event, token=held[0].token, since=held[0].since)
        return super().gather(event)


@pytest.mark.parametrize("cursor", [Cursor, MixesTables])
def test_a_reset_that_is_cut_off_leaves_nothing_and_another_begins_anew(
    monkeypatch: pytest.MonkeyPatch, cursor: type[Cursor]
) -> None:
    monkeypatch.setattr(Subscriber, "CURSOR", cursor)
    machine = subscriber()
    (question,) = opening(machine).values()
    first, second, _ = in_parts(question, TEXTS, 10)
    machine.on(first, 0)
    machine.on(second, 0)  # and its merger dies
    told = in_parts(question, ["ins(D,1,7)", "ins(E,2,8)", "ins(F,3,9) stable(6)"], 14, epoch=2)
    assert machine.tokens == {}
    got = [text for each in told for text in emitted(machine.on(each, 0))]
    is_right = got == ["ins(D,1,7) ins(E,2,8) ins(F,3,9) stable(6)"]
    assert is_right == (cursor is Cursor)
    assert (machine.tokens == {"0": Token("m0.0", 2, 14, 6)}) == (cursor is Cursor)


def test_who_gets_a_part_of_another_table_than_it_has_asks_from_its_begin() -> None:
    machine = subscriber()
    (question,) = opening(machine).values()
    machine.on(in_parts(question, TEXTS, 10)[0], 0)
    other = in_parts(question, TEXTS, 14, epoch=2)
    assert asked(machine.on(other[1], 0)) == [("m0.0", question)]  # for ever of no use otherwise
    got = [text for each in other for text in emitted(machine.on(each, 0))]
    assert got == ["ins(A,1,7) ins(B,2,8) ins(C,3,9) stable(6)"]
    assert machine.tokens == {"0": Token("m0.0", 2, 14, 6)}


def test_from_the_begin_it_reads_without_a_reset() -> None:
    machine = subscriber(start="earliest")
    assert asked(machine.on(Start(), 0)) == [("m0.0", Fetch("s", Token("m0.0", 0, 0, BEGIN)))]
    (emit, _) = machine.on(delivery(0, "ins(A,1,7)"), 0)
    assert isinstance(emit, Emit)
    assert not emit.reset


def test_with_a_token_of_its_merger_it_goes_on_with_the_very_next_row() -> None:
    token = Token("m0.0", 1, 10, 6)
    machine = subscriber(start={"0": token})
    assert asked(machine.on(Start(), 0)) == [("m0.0", Fetch("s", token))]
    assert machine.stable == 6


@pytest.mark.parametrize("merger", ["m0.1", ""])
def test_with_a_token_of_another_merger_it_begins_with_a_reset_at_its_stable(merger: str) -> None:
    machine = subscriber(start={"0": Token(merger, 1, 10, 6)})
    assert opening(machine)["m0.0"].since == 6


def test_what_begins_elsewhere_or_is_of_another_merger_is_not_heard() -> None:
    machine = subscriber(start={"0": Token("m0.0", 1, 10, 6)})
    machine.on(Start(), 0)
    for stranger in (
        delivery(9, "ins(A,8,9)"),
        delivery(11, "ins(A,8,9)"),
        delivery(10, "ins(A,8,9)", merger="m0.1"),
        delivery(10, "stable(6)"),
        delivery(10, ""),
    ):
        assert machine.on(stranger, 0) == []


def test_a_repeated_delivery_is_not_handed_out_again() -> None:
    machine = subscriber(start="earliest")
    machine.on(Start(), 0)
    for text in ("ins(A,1,7) stable(1)", "stable(3)"):
        event = delivery(machine.tokens["0"].offset, text)
        assert len(machine.on(event, 0)) == 2
        assert machine.on(event, 0) == []


def test_offsets_outlive_the_life_of_the_merger() -> None:
    machine = subscriber(start={"0": Token("m0.0", 1, 10, 6)})
    machine.on(Start(), 0)
    (emit, _) = machine.on(Delivery(10, frame("ins(A,8,9)"), Token("m0.0", 2, 11, 6)), 0)
    assert isinstance(emit, Emit)
    assert emit.tokens == {"0": Token("m0.0", 2, 11, 6)}


def test_a_stable_that_it_knows_is_not_handed_out_again() -> None:
    machine = subscriber(start={"0": Token("m0.0", 1, 10, 6)})
    machine.on(Start(), 0)
    assert emitted(machine.on(delivery(10, "ins(A,8,9) stable(4)"), 0)) == ["ins(A,8,9)"]
    assert machine.stable == 6


def test_after_silence_it_asks_the_same_again_ever_more_seldom_but_not_too_seldom() -> None:
    machine = subscriber()
    (question,) = opening(machine).values()
    times = [t for t in range(0, 5000, 50) if asked(machine.on(Tick(), t)) == [("m0.0", question)]]
    waits = [later - first for first, later in zip([0, *times], times, strict=False)]
    assert waits[:3] == [SILENCE, 2 * SILENCE, 4 * SILENCE]
    assert max(waits) == SLOWER_MAX * SILENCE
    machine.on(opened(question, 5, "stable(5)", 0), 5000)
    machine.on(delivery(0, "ins(A,8,9)"), 5000)
    assert asked(machine.on(Tick(), 5000 + SILENCE)) == [
        ("m0.0", Fetch("s", Token("m0.0", 1, 1, 5)))
    ]


def test_a_reset_that_an_earlier_life_asked_for_is_not_taken() -> None:
    earlier = opening(subscriber(start=3), now=100)["m0.0"]
    machine = subscriber(start=5)
    question = opening(machine, now=900)["m0.0"]
    assert question.attempt != earlier.attempt
    assert machine.on(opened(earlier, 3, "stable(4)", 1), 900) == []
    assert machine.on(opened(question, 3, "stable(4)", 1), 900) == []
    assert emitted(machine.on(opened(question, 5, "stable(6)", 1), 900)) == ["stable(6)"]
    assert machine.on(opened(question, 5, "stable(6)", 1), 900) == []


@pytest.mark.parametrize("why", ["trimmed", "future", "elsewhere"])
def test_who_is_declined_by_the_only_merger_is_told_once_and_asks_no_more(why: Any) -> None:
    token = Token("m0.0", 1, 10, 6)
    machine = subscriber(start={"0": token})
    machine.on(Start(), 0)
    assert machine.on(Declined("m0.0", token._replace(offset=9), why, "no"), 0) == []
    no = Declined("m0.0", token, why, "no")
    assert machine.on(no, 0) == [Give(why, "no")]
    assert machine.on(no, 0) == []
    assert machine.on(Tick(), 10_000) == []


def test_at_the_end_it_asks_no_more_and_nor_does_who_resumes_there() -> None:
    machine = subscriber(start="earliest")
    machine.on(Start(), 0)
    (emit,) = machine.on(delivery(0, "ins(A,1,inf) stable(inf)"), 0)
    assert isinstance(emit, Emit)
    assert machine.has_ended
    assert machine.on(Tick(), 10_000) == []
    for mergers in (ONE, {"0": ("m0.1",)}, BOTH):
        for deliver in ("changes", "final"):
            later = subscriber(mergers, deliver=deliver, start=emit.tokens)
            assert [*later.on(Start(), 0), *later.on(Tick(), 10_000)] == []
            assert later.has_ended


def test_who_begins_now_at_an_output_that_has_ended_gets_its_end() -> None:
    for mergers in (ONE, BOTH):
        machine = subscriber(mergers)
        question = opening(machine)["m0.0"]
        (emit,) = machine.on(opened(question, INF, "ins(A,1,inf) stable(inf)", 9), 0)
        assert isinstance(emit, Emit)
        assert emit.frame.stable == INF
        assert machine.has_ended
        machine.validate()


# -- two mergers ------------------------------------------------------------------------------


def merged(text: str = "ins(A,1,9) stable(6)", **how: Any) -> tuple[Subscriber, Open]:
    """A subscriber of two that has begun with the first; and what it asks the second."""
    machine = subscriber(BOTH, **how)
    questions = opening(machine)
    effects = machine.on(opened(questions["m0.0"], 5, text, 10), 0)
    again = [q for to, q in asked(effects) if to == "m0.1" and isinstance(q, Open)]
    return machine, again[0] if again else questions["m0.1"]


def test_the_first_to_answer_begins_and_the_other_joins_at_what_is_stable_then() -> None:
    machine, question = merged()
    assert question.since == 6
    effects = machine.on(
        opened(question, 6, "ins(A,1,9) ins(B,8,12) stable(8)", 7, merger="m0.1"), 0
    )
    assert emitted(effects) == ["ins(B,8,12) stable(8)"]
    assert asked(effects) == [("m0.1", Fetch("s", Token("m0.1", 1, 7, 8)))]


def test_what_both_say_is_handed_out_once_and_its_token_is_a_time() -> None:
    machine, question = merged()
    machine.on(opened(question, 6, "ins(A,1,9) stable(6)", 7, merger="m0.1"), 0)
    effects = machine.on(delivery(10, "ins(B,8,12) stable(8)"), 0)
    assert emitted(effects) == ["ins(B,8,12) stable(8)"]
    assert machine.tokens == {"0": Token("", 0, 0, 8)}
    effects = machine.on(delivery(7, "ins(B,8,12) stable(8)", merger="m0.1"), 0)
    assert emitted(effects) == []
    assert asked(effects) == [("m0.1", Fetch("s", Token("m0.1", 1, 8, 8)))]


def test_a_merger_that_is_behind_is_asked_the_same_until_it_has_come_there() -> None:
    machine, question = merged()
    machine.on(delivery(10, "stable(20)"), 0)
    assert ("m0.1", question) in asked(machine.on(Tick(), SILENCE))


def test_a_merger_whose_offset_is_gone_joins_anew() -> None:
    machine, question = merged()
    machine.on(opened(question, 6, "ins(A,1,9) stable(6)", 7, merger="m0.1"), 0)
    machine.on(delivery(10, "stable(8)"), 0)
    token = Token("m0.1", 1, 7, 6)
    ((to, again),) = asked(machine.on(Declined("m0.1", token, "trimmed", "no"), 0))
    assert isinstance(again, Open)
    assert (to, again.since) == ("m0.1", 8)
    machine.validate()


def test_a_merger_that_cannot_tell_from_here_is_asked_again_once_the_other_has_led_on() -> None:
    machine, question = merged()
    no = Declined("m0.1", question.attempt, "trimmed", "no")
    assert machine.on(no, 0) == []
    late = 100 * SILENCE
    assert [to for to, _ in asked(machine.on(Tick(), late))] == ["m0.0"]
    machine.on(delivery(10, "stable(8)"), late)
    ((to, again),) = asked(machine.on(Tick(), late + 1))
    assert isinstance(again, Open)
    assert (to, again.since) == ("m0.1", 8)


def test_it_gives_up_only_where_no_merger_can_tell_how_it_goes_on() -> None:
    machine, question = merged()
    machine.on(Declined("m0.1", question.attempt, "trimmed", "one"), 0)
    token = Token("m0.0", 1, 10, 6)
    ((_, again),) = asked(machine.on(Declined("m0.0", token, "trimmed", "two"), 0))
    assert isinstance(again, Open)
    assert machine.on(Declined("m0.0", again.attempt, "trimmed", "three"), 0) == [
        Give("trimmed", "three")
    ]
    assert machine.on(Tick(), 10_000) == []


def test_a_merger_that_contradicts_itself_is_left_out_and_asked_again_later() -> None:
    machine, question = merged()
    machine.on(opened(question, 6, "ins(A,1,9) stable(6)", 7, merger="m0.1"), 0)
    assert machine.on(delivery(7, "adj(B,7,8,9)", merger="m0.1"), 0) == []
    machine.validate()
    assert emitted(machine.on(delivery(10, "ins(B,8,12)"), 0)) == ["ins(B,8,12)"]
    assert asked(machine.on(Tick(), SLOWER_MAX * SILENCE - 1)) == [
        ("m0.0", Fetch("s", Token("m0.0", 1, 11, 6)))
    ]
    later = asked(machine.on(Tick(), SLOWER_MAX * SILENCE))
    assert [q.since for to, q in later if to == "m0.1" and isinstance(q, Open)] == [6]


def test_a_reset_that_is_none_does_not_begin_a_stream_while_another_may() -> None:
    machine = subscriber(BOTH)
    questions = opening(machine)
    assert machine.on(opened(questions["m0.0"], 5, "ins(A,1,4) stable(6)", 10), 0) == []
    effects = machine.on(opened(questions["m0.1"], 5, "stable(6)", 10, merger="m0.1"), 0)
    assert emitted(effects) == ["stable(6)"]
    machine.validate()


def test_of_one_merger_output_that_is_none_is_an_error() -> None:
    machine = subscriber()
    (question,) = opening(machine).values()
    (give,) = machine.on(opened(question, 5, "ins(A,1,4) stable(6)", 10), 0)
    assert isinstance(give, Give)
    assert give.why == "broken"
    strange = Frame.from_elements(StreamSchema({"n": "int8"}), [Insert((1,), 1, 2)])
    machine = subscriber(start="earliest")
    machine.on(Start(), 0)
    (give,) = machine.on(Delivery(0, strange, Token("m0.0", 1, 1, BEGIN)), 0)
    assert isinstance(give, Give)
    assert "subscribe anew" in give.reason


# -- shards -----------------------------------------------------------------------------------


def test_shards_begin_together_and_their_stable_is_the_smallest() -> None:
    machine = subscriber(SHARDS)
    questions = opening(machine)
    first = opened(questions["m0.0"], 5, "ins(A,1,9) stable(6)", 10)
    assert machine.on(first, 0) == []
    assert asked(machine.on(Tick(), SILENCE)) == [("m1.0", questions["m1.0"])]
    second = opened(questions["m1.0"], 7, "ins(B,2,9) stable(8)", 3, merger="m1.0")
    emit, *asks = machine.on(second, 0)
    assert isinstance(emit, Emit)
    assert format(emit.frame.elements()) == "ins(A,1,9) ins(B,2,9) stable(6)"
    assert (emit.reset, emit.since) == (True, 7)
    assert len(asks) == 2
    assert emitted(machine.on(delivery(10, "ins(A,7,9) stable(7)"), 0)) == ["ins(A,7,9) stable(7)"]
    assert emitted(machine.on(delivery(11, "ins(A,8,9) stable(9)"), 0)) == ["ins(A,8,9) stable(8)"]
    assert emitted(machine.on(delivery(12, "stable(10)"), 0)) == []
    effects = machine.on(delivery(3, "ins(B,9,11)", merger="m1.0"), 0)
    assert emitted(effects) == ["ins(B,9,11)"]
    assert machine.tokens == {"0": Token("m0.0", 1, 12, 10), "1": Token("m1.0", 1, 4, 8)}


def test_where_one_shard_needs_a_reset_all_begin_with_one_since_the_same_time() -> None:
    machine = subscriber(SHARDS, start={"0": Token("m0.0", 1, 9, 6), "1": Token("m1.1", 1, 3, 8)})
    assert {q.since for q in opening(machine).values()} == {6}


def test_of_final_events_each_shard_goes_on_at_its_own_time() -> None:
    tokens = {"0": Token("", 0, 0, 6), "1": Token("", 0, 0, 8)}
    machine = subscriber(SHARDS, start=tokens, deliver="final")
    assert {to: q.since for to, q in opening(machine).items()} == {"m0.0": 6, "m1.0": 8}


# -- what is asked for ------------------------------------------------------------------------


def test_what_nobody_can_mean_is_refused() -> None:
    wrong: list[Mergers] = [{}, {"0": ()}, {"0": ("m", "m")}, {"0": ("m",), "1": ("m",)}]
    for mergers in wrong:
        with pytest.raises(Misuse):
            subscriber(mergers)
    for start in ("then", 1.5, True, None, BEGIN - 1):
        with pytest.raises(Misuse):
            subscriber(start=start)
    with pytest.raises(Misuse, match="use changes or final"):
        subscriber(deliver="some")
    with pytest.raises(TokenError, match="of another job"):
        subscriber(start={"1": Token("", 0, 0, 6)})


def test_the_life_of_a_cursor_can_be_drawn() -> None:
    assert "opening  -- " in CURSOR.diagram()


def test_garbage_of_one_merger_is_seen_by_whoever_holds_it() -> None:
    machine, received = subscriber(start="earliest"), Received(DEFAULT_SCHEMA)
    machine.on(Start(), 0)
    (emit, _) = machine.on(delivery(0, "adj(A,1,7,9)"), 0)
    assert isinstance(emit, Emit)
    with pytest.raises(StreamViolation):
        received.take(emit)
