"""What functions keep is apart for each simulated process, wherever they keep it."""

from __future__ import annotations

import datetime as dt
import threading
import time
import types
from itertools import pairwise

import pytest

from gapless.chaos.sim.memory_places import MISSING, Search
from gapless.chaos.sim.other_machine import APART_S, OF_MACHINE, OtherMachine
from gapless.chaos.sim.user_memory import Memories
from tests.chaos import users


@pytest.mark.parametrize("way", users.COUNTING)
def test_each_process_counts_for_itself_and_leaves_nothing_behind(way: str) -> None:
    count = users.COUNTING[way]()
    memories = Memories([count])
    one, other = memories.fresh(), memories.fresh()
    with one:
        first = count()
        assert count() == first + 1
    with other:
        assert count() == first
    with one:
        assert count() == first + 2
    with memories.fresh():
        assert count() == first
    assert count() == first


def test_without_memories_they_would_count_for_all() -> None:
    count = users.closure()
    assert [count(), count()] == [1, 2]


def test_results_that_are_cached_are_found_anew() -> None:
    memories = Memories([users.by_cache])
    with memories.fresh():
        assert users.by_cache() == 1


def test_what_two_places_share_they_share_in_each_process() -> None:
    kept: list[int] = []

    def writes(value: int) -> None:
        kept.append(value)

    def reads() -> list[int]:
        return kept

    memories = Memories([writes, reads])
    with memories.fresh():
        writes(1)
        assert reads() == [1]
    assert kept == []


def test_a_name_that_is_bound_in_one_process_is_not_there_in_the_next() -> None:
    module = types.ModuleType("made_here")
    exec("def begin():\n    global begun\n    begun = True", vars(module))  # noqa: S102  # our own text
    memories = Memories([module.begin])
    with memories.fresh():
        module.begin()
        assert module.begun
    assert not hasattr(module, "begun")


def test_what_cannot_be_copied_stays_shared_and_all_else_is_apart() -> None:
    lock, kept = threading.Lock(), [0]

    def count() -> int:
        with lock:
            kept[0] += 1
            return kept[0]

    memories = Memories([count])
    for _ in range(2):
        with memories.fresh():
            assert count() == 1


def test_a_process_that_fails_takes_its_memory_out_again() -> None:
    count = users.closure()
    memories = Memories([count])

    def fails() -> None:
        with memories.fresh():
            count()
            raise ValueError("in between")

    with pytest.raises(ValueError, match="in between"):
        fails()
    assert count() == 1


def test_code_of_others_is_not_looked_into() -> None:
    def nothing() -> None:
        pass

    def sums(values: list[int]) -> int:
        return len(str(threading.current_thread())) + sum(values)

    own = Search([nothing], OF_MACHINE).places
    assert len(Search([sums], OF_MACHINE).places) == len(own)


def test_a_function_that_keeps_nothing_has_no_places() -> None:
    search = Search([users.kilobytes], OF_MACHINE)
    assert not any(place.get() is MISSING for place in search.places)
    assert search.machine == []


# -- other machines -------------------------------------------------------------------------------


def test_the_first_machine_is_this_one() -> None:
    memories = Memories([users.age, users.hour, users.bucket])
    text = users.rows().column("src")
    with memories.fresh():
        assert abs(users.age(text)[0].as_py() - time.time() // 3_600) <= 1


def test_clocks_of_two_machines_are_hours_apart() -> None:
    rows = users.rows().column("len")
    memories = Memories([users.age])
    seen = []
    for _ in range(3):
        with memories.fresh():
            seen.append(users.age(rows)[0].as_py())
    assert sorted({b - a for a, b in pairwise(seen)}) <= [11, 12]
    assert len(set(seen)) == 3


def test_texts_are_hashed_in_another_way_on_each_machine_and_numbers_are_not() -> None:
    one, other = (OtherMachine(number).instead_of(hash) for number in (1, 2))
    assert one("a") == one("a") != other("a")
    assert one(("a", 1)) != other(("a", 1))
    assert one(7) == other(7) == hash(7)


def test_a_day_of_another_machine_is_an_ordinary_day() -> None:
    machine = OtherMachine(3)
    moment, day = machine.instead_of(dt.datetime), machine.instead_of(dt.date)
    ahead = dt.timedelta(seconds=3 * APART_S)
    apart = moment.now(dt.UTC) - dt.datetime.now(dt.UTC) - ahead
    assert abs(apart) < dt.timedelta(minutes=1)
    assert type(moment(2024, 5, 1)) is dt.datetime
    assert type(day(2024, 5, 1)) is dt.date
    assert isinstance(dt.datetime(2024, 5, 1, tzinfo=dt.UTC), moment)
    assert isinstance(dt.date(2024, 5, 1), day)
    assert issubclass(dt.datetime, moment)
    assert moment.fromisoformat("2024-05-01") == dt.datetime(2024, 5, 1)  # noqa: DTZ001  # as said
    assert moment.utcnow().tzinfo is None
    assert day.today() in {moment.today().date(), moment.now().date()}


def test_all_clocks_of_a_machine_say_one_time() -> None:
    machine = OtherMachine(2)
    clock = machine.instead_of(time)
    seconds = machine.instead_of(time.time)()
    assert abs(clock.time() - seconds) < 60
    assert abs(clock.time_ns() / 1e9 - seconds) < 60
    assert abs(time.mktime(clock.localtime()) - seconds) < 60
    assert clock.gmtime(0).tm_year == 1970
    assert clock.localtime(0) == time.localtime(0)
    assert clock.monotonic is time.monotonic
