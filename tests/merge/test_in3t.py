"""The index of case R4 against counters: what it holds, what it compares, what it forgets."""

from __future__ import annotations

from collections import Counter
from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gapless.merge.in3t import In3t, Units
from gapless.protocol.elements import BEGIN, INF, Insert
from gapless.protocol.errors import Bug
from gapless.protocol.frame import Frame
from gapless.protocol.text import DEFAULT_SCHEMA

Event = tuple[str, int, int]
"""Payload, start and end."""
EVENTS = st.lists(
    st.tuples(st.sampled_from("AB"), st.integers(0, 5), st.integers(1, 5)).map(
        lambda e: (e[0], e[1], e[1] + e[2])
    ),
    max_size=12,
)
NONE: list[Event] = []


def table(events: list[Event]) -> Frame:
    return Frame.from_elements(
        DEFAULT_SCHEMA, [Insert((payload,), vs, ve) for payload, vs, ve in events]
    )


def events_of(frame: Frame) -> Counter[Event]:
    return Counter(
        (str(e.payload[0]), e.vs, e.ve) for e in frame.elements() if isinstance(e, Insert)
    )


def index_of(out: list[Event], *inputs: list[Event]) -> In3t:
    index = In3t(DEFAULT_SCHEMA)
    index.adopt(index.out, table(out))
    for number, events in enumerate(inputs):
        index.attach(number)
        index.adopt(index.inputs[number], table(events))
    return index


def _within(events: Counter[Event], since: int, t: int) -> Counter[Event]:
    return Counter({e: n for e, n in events.items() if e[1] < t and e[2] >= since})


def told(index: In3t, units: Units) -> Counter[Event]:
    """Units as events."""
    ends = index.end.values[units.pairs]
    if not len(units):
        return Counter()
    return events_of(index.rows(units.keys, ends, np.full(len(ends), BEGIN)))


@given(EVENTS, EVENTS, EVENTS)
def test_each_table_comes_back_as_it_was_taken_in(
    out: list[Event], first: list[Event], second: list[Event]
) -> None:
    index = index_of(out, first, second)
    index.validate()
    assert events_of(index.table(index.out)) == Counter(out)
    assert events_of(index.table(index.inputs[0])) == Counter(first)
    assert events_of(index.table(index.inputs[1])) == Counter(second)
    assert len(index) == len({(p, vs) for p, vs, _ in out + first + second})


@given(EVENTS, EVENTS, st.integers(0, 6), st.integers(0, 12))
def test_differences_are_those_of_the_two_tables_within_the_times(
    out: list[Event], mine: list[Event], since: int, t: int
) -> None:
    index = index_of(out, mine)
    deficits, surplus = index.differences(0, since, t)
    within = partial(_within, since=since, t=t)
    assert told(index, deficits) == within(Counter(mine) - Counter(out))
    assert told(index, surplus) == within(Counter(out) - Counter(mine))
    ends = index.end.values[deficits.pairs]
    assert deficits.keys.tolist() == sorted(deficits.keys.tolist())
    assert all(
        ends[i] <= ends[i + 1]
        for i in range(len(ends) - 1)
        if deficits.keys[i] == deficits.keys[i + 1]
    )


@given(EVENTS, EVENTS, st.integers(0, 12) | st.just(INF))
def test_a_key_is_forgotten_once_none_of_its_events_in_the_output_is_open(
    out: list[Event], mine: list[Event], t: int
) -> None:
    index = index_of(out, mine)
    index.forget(t)
    index.validate()
    open_keys = {(p, vs) for p, vs, ve in out if ve >= t and t < INF}

    def kept(events: list[Event]) -> Counter[Event]:
        return Counter(e for e in events if e[1] >= t or (e[0], e[1]) in open_keys)

    assert events_of(index.table(index.out)) == kept(out)
    assert events_of(index.table(index.inputs[0])) == kept(mine)


def test_what_was_interned_for_a_frame_that_is_refused_leaves_nothing() -> None:
    index = index_of([("A", 1, 5)], NONE)
    rows = index.keys.rows_of(table([("A", 1, 7), ("B", 2, 9)]), BEGIN)
    _, new = index.pair(rows.ids, rows.ve, rows.vs)
    assert len(new) == 2
    index.undo(rows, new)
    index.validate()
    assert len(index) == 1
    assert events_of(index.table(index.out)) == Counter([("A", 1, 5)])


def test_units_are_ranked_within_their_key() -> None:
    units = Units(np.array([0, 0, 3, 3, 3, 4]), np.array([9, 9, 1, 2, 2, 5]))
    assert units.ranks().tolist() == [0, 1, 0, 1, 2, 0]


def test_counts_that_do_not_add_up_are_found() -> None:
    index = index_of([("A", 1, 5)], [("A", 1, 5)])
    index.out.keys.values[0] += 1
    with pytest.raises(Bug, match="output: events of a key do not add up"):
        index.validate()
    index = index_of([("A", 1, 5)], [("A", 1, 5)])
    index.inputs[0].pairs.values[index.key.values != -1] = -1
    with pytest.raises(Bug, match="input 0: a negative count"):
        index.validate()
