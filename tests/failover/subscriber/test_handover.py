"""What waits for a program: nothing is taken by looking, and nothing is lost or said twice."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gapless.failover.subscriber.handover import Handover

STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("put"), st.integers(0, 9)),
        st.tuples(st.sampled_from(["look", "take", "end"]), st.just(0)),
    ),
    max_size=40,
)


@given(STEPS)
def test_whatever_is_looked_at_how_often_each_thing_is_taken_once_and_in_order(
    steps: list[tuple[str, int]],
) -> None:
    handover: Handover[int] = Handover(count_max=3, bytes_max=12)
    put: list[int] = []
    taken: list[int] = []
    last = 0
    is_over = False
    for step, size in steps:
        if step == "put":
            handover.put(len(put), size)
            put += [] if is_over else [size]
        elif step == "end":
            handover.end()
            is_over = True
        else:
            found = handover.head(last)
            assert (found is None) == (len(taken) == len(put))
            if found is not None and step == "take":
                last = found.number
                taken.append(found.what)
        handover.validate()
        waits = put[len(taken) :]
        assert handover.has_room(last) == (len(waits) < 3 and sum(waits) < 12)
    assert taken == list(range(len(taken)))
    while (found := handover.head(last)) is not None:
        last = found.number
        taken.append(found.what)
    assert taken == list(range(len(put)))
    assert handover.has_ended == is_over


def test_the_first_end_counts_and_comes_behind_what_waits() -> None:
    handover: Handover[str] = Handover()
    handover.put("a", 1)
    handover.end(ValueError("first"))
    handover.end(ValueError("second"))
    handover.put("late", 1)
    assert (handover.has_ended, handover.head(1), handover.has_ended) == (False, None, True)
    with pytest.raises(ValueError, match="first"):
        raise handover.error or AssertionError


def test_what_the_program_has_takes_no_room_from_what_waits() -> None:
    handover: Handover[str] = Handover(count_max=8, bytes_max=10)
    handover.put("large", 100)
    assert not handover.has_room(0)
    found = handover.head(0)
    assert found is not None
    assert not handover.has_room(0)
    assert handover.has_room(found.number)
    assert (
        handover.head(0) is found
    )  # kept until more is asked for: an interrupted caller looks again
    assert handover.head(found.number) is None
    assert handover.head(0) is None
