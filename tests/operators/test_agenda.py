"""The agenda against a sorted list."""

import random

import numpy as np

from gapless.operators.agenda import GROWTH, RUNS_MIN, Agenda
from tests.effort import cases


def entries(found: tuple[np.ndarray, np.ndarray]) -> list[tuple[int, int]]:
    return sorted(zip(*(column.tolist() for column in found), strict=True))


def test_differential_what_is_due_is_what_a_sorted_list_says() -> None:
    for seed in range(cases(60)):
        rng = random.Random(seed)
        agenda, listed, now = Agenda(), [], 0
        step, first_id = rng.choice((1, 7)), rng.choice((0, 2**31 - 200))
        for n in range(rng.choice((3, 40))):
            times = [(now + rng.randint(-3, 40)) // step * step for _ in range(rng.randrange(20))]
            added = [(t, first_id + 100 * n + i) for i, t in enumerate(times)]
            listed += added
            agenda.add(*(np.array([e[k] for e in added], np.int64) for k in (0, 1)))
            low = now + rng.randint(-5, 40)
            high = low + rng.randint(0, 20)
            assert entries(agenda.between(low, high)) == sorted(
                e for e in listed if low <= e[0] < high
            )
            now += rng.randint(0, 6)
            assert entries(agenda.due(now)) == sorted(e for e in listed if e[0] < now)
            listed = [e for e in listed if e[0] >= now]
            assert len(agenda) == len(listed)


def test_there_are_few_runs_however_many_calls_and_little_memory_behind_them() -> None:
    agenda = Agenda()
    for n in range(3000):
        agenda.add(np.array([n, n + 1000]), np.array([2 * n, 2 * n + 1]))
        agenda.due(n - 500)
        assert len(agenda._runs) <= RUNS_MIN + np.log(3000) / np.log(GROWTH) + 1
        assert agenda.nbytes <= 16 * 3 * max(len(agenda), 1) + 16 * 8


def test_rows_that_end_with_a_window_cost_an_id_each() -> None:
    agenda, ends = Agenda(), np.arange(100_000) // 10_000
    for start in range(0, len(ends), 1_000):
        part = slice(start, start + 1_000)
        agenda.add(ends[part], np.arange(len(ends))[part])
    assert agenda.nbytes < 5 * len(ends)
    agenda.due(5)
    assert agenda.nbytes < 10 * len(agenda)
