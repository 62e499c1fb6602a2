"""What a ring survives, from times alone; and the lower level's ways lose no packet."""

from __future__ import annotations

import numpy as np
import pytest

from gapless.bench.windows_surges import (
    FRAME_ROWS,
    RING_ROWS,
    WAYS,
    LowerLevel,
    Way,
    largest_rate,
    push_seconds,
    pushes,
    survives,
)


def by_loop(took: list[float], rate: float) -> bool:
    """Push after push: its rows come, it begins once the one before has ended."""
    end = 0.0
    for k, seconds in enumerate(took):
        end = max(end, (k + 1) * FRAME_ROWS / rate) + seconds
        if rate * end - k * FRAME_ROWS > RING_ROWS:
            return False
    return True


def test_differential_a_ring_survives_what_a_loop_says() -> None:
    rng = np.random.default_rng(3)
    for _ in range(40):
        took = rng.exponential(0.001, 50)
        took[rng.integers(0, 50)] += rng.choice([0.0, 0.01, 0.05])
        rates = rng.uniform(1e5, 2e7, 10)
        assert [survives(took, rate) for rate in rates] == [by_loop([*took], r) for r in rates]


def test_one_surge_decides_the_rate_and_not_the_mean() -> None:
    even, surge = np.full(100, 0.001), np.full(100, 0.0008)
    surge[50] += 0.02
    assert surge.mean() == pytest.approx(even.mean())
    assert largest_rate(surge) < 0.5 * largest_rate(even)
    assert survives(surge, largest_rate(surge))
    assert not survives(surge, 1.01 * largest_rate(surge))


@pytest.mark.parametrize("way", WAYS)
def test_what_is_old_leaves_by_each_way_and_no_packet_is_lost(way: Way) -> None:
    lower, given = LowerLevel(200, way), pushes(150, 40_000, 3)
    assert len(push_seconds(lower, given)) == len(given)
    lower.slots.validate()


def test_in_order_all_that_is_old_leaves_at_once_where_two_new_ones_collide() -> None:
    given = pushes(150, 2 * FRAME_ROWS, 2)
    lower = LowerLevel(200, "IOP")
    for push in given[:3]:
        lower.push(*push)
    assert lower.slots.oldest == 1
