"""Mailboxes: answers wait for their subscribers, and never too many of them."""

from __future__ import annotations

import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gapless.actors import mailboxes as boxes
from gapless.actors.mailboxes import LETTERS_MAX, MAILBOXES_MAX, Mailboxes

WAIT_S = 20.0


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """A question waits for as long as its test: none passes because time ran out."""
    monkeypatch.setattr(boxes, "ASK_MS", int(WAIT_S * 1000))


def letter(number: int) -> bytes:
    return b"%d" % number


def test_what_is_there_is_fetched_at_once_and_once() -> None:
    mail = Mailboxes()
    mail.open("s")
    mail.put("s", letter(1))
    mail.put("s", letter(2))
    assert mail.fetch("s") == [letter(1), letter(2)]
    mail.end()
    assert mail.fetch("s") == []


def test_an_answer_that_comes_too_late_for_its_call_answers_the_question_when_it_is_repeated() -> (
    None
):
    mail = Mailboxes()
    assert mail.asks("s", b"behind 1")
    mail.put("s", letter(2))  # its call has ended just before
    assert not mail.asks("s", b"behind 1"), "put again, it would be answered twice"
    assert mail.fetch("s") == [letter(2)]
    assert mail.asks("s", b"behind 2")
    assert mail.asks("s", b"behind 2"), "nothing is there yet: it may have been lost"
    mail.put("s", letter(3))
    mail.put("s", letter(3))
    assert mail.fetch("s") == [letter(3), letter(3)]


def test_an_answer_to_an_older_question_does_not_stand_before_the_one_that_is_asked_for() -> None:
    mail = Mailboxes()
    assert mail.asks("s", b"behind 1")
    mail.put("s", letter(2))
    assert mail.asks("s", b"behind 4")
    mail.put("s", letter(5))
    assert mail.fetch("s") == [letter(5)]


def test_a_message_to_nobodys_mailbox_is_not_kept() -> None:
    mail = Mailboxes()
    assert not mail.has("r0.1")
    mail.put("r0.1", letter(1))
    assert mail.fetch("r0.1") == []


def test_who_waits_is_woken_by_a_letter_and_by_the_end() -> None:
    mail = Mailboxes()
    mail.open("s")
    got: list[list[bytes]] = []
    waits = threading.Thread(target=lambda: got.append(mail.fetch("s")))
    waits.start()
    mail.put("s", letter(1))
    waits.join(WAIT_S)
    assert got == [[letter(1)]]
    waits = threading.Thread(target=lambda: got.append(mail.fetch("s")))
    waits.start()
    mail.end()
    waits.join(WAIT_S)
    assert got[1:] == [[]]


def test_a_question_that_is_not_answered_ends_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(boxes, "ASK_MS", 1)
    mail = Mailboxes()
    mail.open("s")
    assert mail.fetch("s") == []


def test_a_letter_that_a_full_mailbox_has_no_room_for_takes_the_place_of_the_oldest() -> None:
    mail = Mailboxes()
    mail.open("s")
    for i in range(LETTERS_MAX + 3):
        mail.put("s", letter(i))
    assert mail.fetch("s") == [letter(i) for i in range(3, LETTERS_MAX + 3)]


def test_of_too_many_subscribers_the_one_that_has_not_asked_for_longest_goes() -> None:
    mail = Mailboxes()
    for i in range(MAILBOXES_MAX):
        mail.open(f"s{i}")
    mail.open("s0")  # it asks again
    mail.open("new")
    assert mail.has("s0")
    assert mail.has("new")
    assert not mail.has("s1")


def test_letters_that_nobody_fetches_are_bounded_and_those_of_the_longest_silent_go_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(boxes, "BYTES_MAX", 100)
    mail = Mailboxes()
    for name in "abc":
        mail.open(name)
        mail.put(name, bytes(30))
    mail.open("a")  # it asks again
    mail.put("c", bytes(30))
    mail.end()
    assert mail._bytes == 90
    assert [sum(map(len, mail._boxes[name])) for name in "abc"] == [30, 0, 60]
    mail.put("c", bytes(500))  # one that is too large for all still goes to the asker
    assert [sum(map(len, mail._boxes[name])) for name in "abc"] == [0, 0, 560]


@given(st.lists(st.tuples(st.sampled_from("abcd"), st.integers(0, 40)), max_size=40))
def test_what_waits_in_mailboxes_is_counted_right(steps: list[tuple[str, int]]) -> None:
    mail = Mailboxes()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(boxes, "BYTES_MAX", 100)
        patch.setattr(boxes, "MAILBOXES_MAX", 3)
        patch.setattr(boxes, "LETTERS_MAX", 2)
        for name, size in steps:
            mail.open(name)
            if size % 3:
                mail.put(name, bytes(size))
            elif mail._boxes[name]:
                mail.fetch(name)
            held = [len(letter) for box in mail._boxes.values() for letter in box]
            assert mail._bytes == sum(held)
            assert sum(held) <= 100
