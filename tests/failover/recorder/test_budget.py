"""What flight recorders take of a thread's time and memory is bounded, however many share it."""

from __future__ import annotations

import pytest

from gapless.failover.recorder import budget as budgets
from gapless.failover.recorder.budget import BYTES_MAX, SHARE_FACTOR, Budget


@pytest.mark.parametrize("recorders", [1, 7])
def test_images_take_no_more_than_their_share_of_the_time(recorders: int) -> None:
    worked = spent = made = 0

    def image() -> bytes:
        nonlocal worked, spent, made
        worked, spent, made = worked + 30, spent + 30, made + 1
        return b""

    budget = Budget(lambda: worked)
    for _ in range(40_000 // recorders):
        for _ in range(recorders):
            if budget.has_time:
                budget.spend(image)
        worked += recorders
    assert made > 10
    assert spent <= worked / SHARE_FACTOR + 30


def test_an_image_that_fails_has_cost_its_time_too() -> None:
    worked = 0

    def fails() -> bytes:
        nonlocal worked
        worked += 30
        raise ValueError("too large")

    budget = Budget(lambda: worked)
    with pytest.raises(ValueError, match="too large"):
        budget.spend(fails)
    assert not budget.has_time
    worked += 30 * SHARE_FACTOR
    assert budget.has_time


def test_what_all_may_keep_is_divided_and_none_has_more_than_one_alone() -> None:
    count = 1
    budget = Budget(lambda: 0, recorders=lambda: count, bytes_max=4 * BYTES_MAX)
    assert budget.bytes_each == BYTES_MAX
    count = 8
    assert budget.bytes_each == BYTES_MAX // 2
    count = 0
    assert budget.bytes_each == budgets.BYTES_MAX
