"""The address book, mailboxes, hands, names of plans, functions of users: each by itself."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import gapless as gl
from gapless.actors import door
from gapless.actors import mailboxes as boxes
from gapless.actors.book import Book, Entry
from gapless.actors.code import FOLDER, Functions
from gapless.actors.hands import Hands
from gapless.actors.mailboxes import LETTERS_MAX, MAILBOXES_MAX, Mailboxes
from gapless.actors.plans import named_plans
from gapless.failover.messages import Life
from gapless.protocol.envelope import Incarnation
from gapless.protocol.errors import JobError, Misuse

WAIT_S = 20.0

# -- the book -------------------------------------------------------------------------------------


def life(slot: str, term: int, counter: int) -> Life:
    return Life(slot, Incarnation(term, counter))


def book(*lives: Life) -> Book:
    return Book((1, 1), {each: Entry(str(each), "n1") for each in lives})


def test_a_message_to_a_slot_goes_to_its_newest_life_and_one_to_a_life_to_that() -> None:
    old, new = life("r0.1", 1, 9), life("r0.1", 2, 1)
    found = book(old, new, life("r0.2", 3, 1))
    assert found.find("r0.1") == (new, Entry(str(new), "n1"))
    assert found.find(str(old)) == (old, Entry(str(old), "n1"))
    assert found.newest("r0.1") == found.find("r0.1")


def test_who_is_not_in_the_book_is_nobody() -> None:
    found = book(life("r0.1", 1, 9))
    assert found.find("r0.10") is None
    assert found.find("r0.1/1.8") is None
    assert Book().find("m0.0") is None


@given(
    st.lists(
        st.tuples(st.sampled_from(["r0.0", "r0.1", "m0.0"]), st.integers(1, 5), st.integers(1, 5)),
        max_size=12,
    )
)
def test_the_newest_of_a_slot_is_the_largest_by_term_and_counter(
    given_lives: list[tuple[str, int, int]],
) -> None:
    lives = [life(*each) for each in given_lives]
    found = book(*lives)
    for slot in ("r0.0", "r0.1", "m0.0"):
        terms = [each.incarnation for each in lives if each.slot == slot]
        newest = found.newest(slot)
        assert (newest[0].incarnation if newest else None) == max(terms, default=None)


# -- mailboxes ------------------------------------------------------------------------------------


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


# -- hands ----------------------------------------------------------------------------------------


def test_hands_do_one_thing_after_the_other_and_stop_at_what_breaks() -> None:
    done: list[int] = []
    broke: list[Exception] = []
    told = threading.Event()

    def broken(error: Exception) -> None:
        broke.append(error)
        told.set()

    def breaks() -> None:
        raise OSError("no disk")

    hands = Hands("test", broken)
    for i in range(50):
        hands.do(lambda i=i: done.append(i))  # type: ignore[misc]  # its own i
    hands.do(breaks)
    hands.do(lambda: done.append(-1))
    assert told.wait(WAIT_S)
    assert [str(e) for e in broke] == ["no disk"]
    assert done == list(range(50))


def test_hands_end_once_all_is_done() -> None:
    done = threading.Event()
    hands = Hands("test", lambda _: None)
    hands.do(done.set)
    hands.end()
    assert done.wait(WAIT_S)


# -- plans ----------------------------------------------------------------------------------------


def query() -> gl.Query:
    return gl.source("flows", {"ts": "int64", "k": "int64"}, time="ts")


def test_plans_without_names_get_some_that_are_free() -> None:
    assert list(named_plans(query(), None)) == ["plan0"]
    assert list(named_plans(None, [query(), gl.Plan(query())])) == ["plan0", "plan1"]
    assert list(named_plans(query(), None, taken=["plan0", "plan1"])) == ["plan2"]
    assert list(named_plans(None, [query(), query()], taken=["plan1"])) == ["plan0", "plan2"]


def test_plans_with_names_keep_them() -> None:
    assert list(named_plans(query(), {"mine": query()})) == ["mine"]


@pytest.mark.parametrize(
    ("given_query", "plans", "problem"),
    [
        (None, None, "give a query, or plans"),
        (query(), [], "one is the least"),
        (query(), ["a text"], "a str is neither a query nor a plan"),
        (query(), {"p": 3}, "plan p: a int is neither"),
    ],
)
def test_what_is_no_plan_is_refused(given_query: Any, plans: Any, problem: str) -> None:
    with pytest.raises(Misuse, match=problem):
        named_plans(given_query, plans)


# -- functions of users ---------------------------------------------------------------------------


@pytest.fixture
def functions(tmp_path: Path) -> Iterator[Functions]:
    (tmp_path / FOLDER).mkdir()
    (tmp_path / FOLDER / "gl_users_code.py").write_text(
        "RATE = 3\ndef rate(x):\n    return x * RATE\nclass A:\n    def f(x):\n        return x\n"
    )
    (tmp_path / FOLDER / "gl_users_bad_code.py").write_text("raise ValueError('half written')\n")
    before = list(sys.path)
    yield Functions(tmp_path)
    sys.path[:] = before
    for name in ("gl_users_code", "gl_users_bad_code"):
        sys.modules.pop(name, None)


def test_a_function_is_found_in_the_jobs_directory_by_its_name(functions: Functions) -> None:
    assert functions["gl_users_code:rate"](2) == 6
    assert functions["gl_users_code:A.f"](2) == 2
    assert functions["math:sqrt"](4) == 2


def test_only_a_name_with_a_module_may_be_one(functions: Functions) -> None:
    assert "math:sqrt" in functions
    assert "sqrt" not in functions
    assert list(functions) == []


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("gl_users_absent:rate", "launch the job with code="),
        ("gl_users_code:absent", "AttributeError"),
        ("gl_users_bad_code:rate", "half written"),
        ("gl_users_code:RATE", "is a int, and no function"),
    ],
)
def test_a_function_that_cannot_be_had_is_an_error_that_says_what_to_do(
    functions: Functions, name: str, problem: str
) -> None:
    with pytest.raises(JobError, match=problem):
        functions[name]


class Calls:
    """What a process asks of an actor: which of its calls are done, in the place of Ray's word."""

    def __init__(self, *done: int) -> None:
        self.asked = 0
        self._done = done

    def ask(self) -> int:
        self.asked += 1
        return self.asked

    def wait(self, calls: list[int], timeout: float) -> tuple[list[int], list[int]]:
        assert timeout > 0
        done = [call for call in calls if call in self._done]
        return done, [call for call in calls if call not in done]


def test_a_question_that_the_dead_root_keeps_is_asked_of_the_next_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    calls = Calls(3)
    monkeypatch.setattr("gapless.actors.door.ray.wait", calls.wait)
    assert door._first_answer(calls.ask) == 3
    assert calls.asked == 3


def test_a_root_that_never_answers_is_asked_no_more_than_so_often(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    calls = Calls()
    monkeypatch.setattr("gapless.actors.door.ray.wait", calls.wait)
    assert door._first_answer(calls.ask) == door.LOOKS_MAX
    assert calls.asked == door.LOOKS_MAX
