"""The address book: which process a message to a slot, or to a life, goes to."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gapless.actors.book import Book, Entry
from gapless.failover.messages import Life
from gapless.protocol.envelope import Incarnation


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
