"""A cursor takes only what follows where it stands, and asks until it is answered."""

from __future__ import annotations

import pytest

from gapless.failover.effects import Send
from gapless.failover.messages import Declined, Delivery, Fetch, Open, Opened, Token
from gapless.failover.subscriber.cursor import SLOWER_MAX, Cursor
from gapless.failover.timing import Timing
from gapless.protocol.elements import BEGIN
from gapless.protocol.errors import Bug, SchemaError, StreamViolation
from gapless.protocol.frame import Frame
from gapless.protocol.schema import StreamSchema
from gapless.protocol.text import format, parse

SCHEMA = StreamSchema({"lease": "string"})
TIMING = Timing(fetch_ms=100)
MERGER = "m0.0"


def frame(text: str, schema: StreamSchema = SCHEMA) -> Frame:
    return Frame.from_elements(schema, parse(text, schema))


def token(offset: int, stable: int, merger: str = MERGER, epoch: int = 1) -> Token:
    return Token(merger, epoch, offset, stable)


def opened(
    text: str, since: int = 0, attempt: int = 1, offset: int = 5, part: int = 0, parts: int = 1
) -> Opened:
    return Opened(attempt, since, frame(text), token(offset, 3), part, parts)


def delivery(after: int, text: str, stable: int = 9, merger: str = MERGER) -> Delivery:
    rows = frame(text)
    return Delivery(after, rows, token(after + len(rows), stable, merger))


def cursor() -> Cursor:
    return Cursor("s1", MERGER, "0", SCHEMA, TIMING)


def reading(at: int = 5) -> Cursor:
    """One that has read up to offset `at`, and stable 3."""
    made = cursor()
    made.open(0, 1, 0)
    made.begin(opened("ins(A,1,9) stable(3)", offset=at))
    made.fetch(0)
    made.validate()
    return made


# -- asking ---------------------------------------------------------------------------------------


def test_it_opens_with_its_attempt_and_fetches_from_its_token() -> None:
    one = cursor()
    assert one.open(7, 2, 0) == Send(MERGER, Open("s1", 2, 7, 0))
    one.begin(opened("stable(7)", since=7, attempt=2, offset=4))
    assert one.token == token(4, 7)
    assert one.fetch(0) == Send(MERGER, Fetch("s1", token(4, 7)))


def test_a_silent_merger_is_asked_again_after_waits_that_double_up_to_a_bound() -> None:
    one = cursor()
    question = one.open(None, 1, 0)
    asked = [now for now in range(1, 2_000) if one.tick(now) == question]
    gaps = [b - a for a, b in zip([0, *asked], asked, strict=False)]
    assert gaps[:3] == [100, 200, 400]
    assert set(gaps[2:]) == {SLOWER_MAX * 100}


def test_an_answer_makes_the_waits_short_again() -> None:
    one = reading()
    assert one.tick(100) is not None
    assert one.tick(299) is None
    one.take(delivery(5, "ins(B,4,9)"))
    one.fetch_on(300)
    assert one.tick(399) is None
    assert one.tick(400) == Send(MERGER, Fetch("s1", token(6, 3)))


def test_one_that_asks_nothing_is_silent_however_long() -> None:
    idle, ended = cursor(), reading()
    ended.end()
    ended.end()
    assert idle.tick(10_000) is ended.tick(10_000) is None


def test_one_that_opens_later_asks_after_the_longest_wait() -> None:
    one = cursor()
    one.open_later(None, 3, now=50)
    longest = SLOWER_MAX * TIMING.fetch_ms
    assert one.tick(50 + longest - 1) is None
    assert one.tick(50 + longest) == Send(MERGER, Open("s1", 3, None, 0))


# -- deliveries -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("event", "accepted"),
    [
        (delivery(5, "ins(B,4,9)"), True),
        (delivery(5, "stable(4)"), True),
        (delivery(5, "stable(3)"), False),
        (delivery(5, ""), False),
        (delivery(4, "ins(B,4,9)"), False),
        (delivery(6, "ins(B,4,9)"), False),
        (delivery(5, "ins(B,4,9)", merger="m0.1"), False),
    ],
)
def test_it_accepts_only_what_follows_and_is_new(event: Delivery, accepted: bool) -> None:
    assert reading().accepts(event) is accepted


def test_a_cursor_that_has_not_begun_to_read_accepts_nothing() -> None:
    one = cursor()
    one.open(0, 1, 0)
    assert not one.accepts(delivery(0, "ins(B,4,9)"))


def test_a_stable_that_is_not_new_is_not_passed_on_and_does_not_move_the_token_back() -> None:
    one = reading()
    taken = one.take(delivery(5, "ins(B,4,9) stable(2)"))
    assert format(taken.elements()) == "ins(B,4,9)"
    assert one.token == token(6, 3)
    taken = one.take(delivery(6, "stable(8)"))
    assert format(taken.elements()) == "stable(8)"
    assert one.token == token(6, 8)


def test_the_epoch_follows_the_life_of_the_journals_writer() -> None:
    one = reading()
    rows = frame("ins(B,4,9)")
    one.take(Delivery(5, rows, Token(MERGER, 7, 6, 3)))
    assert one.token.epoch == 7


# -- resets ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("event", "opens"),
    [
        (opened("stable(3)"), True),
        (opened("stable(3)", attempt=2), False),
        (opened("stable(3)", since=1), False),
    ],
)
def test_a_reset_counts_for_the_question_that_was_asked(event: Opened, opens: bool) -> None:
    one = cursor()
    one.open(0, 1, 0)
    assert one.opens(event) is opens


def test_one_that_asked_from_the_mergers_own_stable_takes_any_time() -> None:
    one = cursor()
    one.open(None, 1, 0)
    assert one.opens(opened("stable(8)", since=8))


def test_parts_are_whole_once_the_last_is_there_and_each_is_asked_for_behind_the_one_before() -> (
    None
):
    one = cursor()
    one.open(0, 1, 0)
    first = opened("ins(A,1,9)", part=0, parts=2)
    assert one.gather(first)
    assert one.whole() is None
    assert one.ask_on(10) == Send(MERGER, Open("s1", 1, 0, 1))
    assert not one.gather(first), "it has come twice"
    assert one.gather(opened("ins(B,2,9) stable(3)", part=1, parts=2))
    whole = one.whole()
    assert whole is not None
    assert format(whole.frame.elements()) == "ins(A,1,9) ins(B,2,9) stable(3)"
    assert (whole.part, whole.parts) == (0, 1)
    assert one.whole() is None


def test_a_part_of_another_table_drops_the_parts_of_the_first() -> None:
    one = cursor()
    one.open(0, 1, 0)
    one.gather(opened("ins(A,1,9)", part=0, parts=2))
    assert one.gather(opened("ins(B,2,9) stable(3)", part=1, parts=2, offset=6))
    assert one.whole() is None
    assert one.ask_on(0) == Send(MERGER, Open("s1", 1, 0, 0)), "all is asked for anew"
    one.gather(opened("ins(B,2,9) stable(3)", offset=6))
    whole = one.whole()
    assert whole is not None
    assert len(whole.frame) == 1


@pytest.mark.parametrize(
    "text", ["ins(A,1,4) stable(5)", "adj(A,1,9,8) stable(5)", "stable(4)", ""]
)
def test_a_reset_that_is_none_is_a_violation(text: str) -> None:
    one = cursor()
    one.open(5, 1, 0)
    with pytest.raises(StreamViolation, match=MERGER):
        one.begin(opened(text, since=5))


def test_a_reset_of_another_schema_is_refused() -> None:
    other = StreamSchema({"n": "int32"})
    one = cursor()
    one.open(0, 1, 0)
    with pytest.raises(SchemaError, match="subscribe anew"):
        one.begin(Opened(1, 0, frame("ins(1,1,9) stable(3)", other), token(5, 3)))


# -- declined -------------------------------------------------------------------------------------


def test_only_an_answer_to_the_present_question_declines_it() -> None:
    one = cursor()
    one.open(0, 2, 0)
    assert one.declines(Declined(MERGER, 2, "trimmed", "gone"))
    assert not one.declines(Declined(MERGER, 1, "trimmed", "gone"))
    two = reading()
    assert two.declines(Declined(MERGER, two.token, "trimmed", "gone"))
    assert not two.declines(Declined(MERGER, token(4, 3), "trimmed", "gone"))
    two.decline()
    assert two.tick(10_000) is None
    assert not two.declines(Declined(MERGER, two.token, "trimmed", "gone"))


def test_a_token_of_no_place_is_a_bug() -> None:
    one = cursor()
    one.validate()
    one.token = Token("m0.1", 1, 0, BEGIN)
    with pytest.raises(Bug):
        one.validate()
