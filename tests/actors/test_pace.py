"""How many rows a replica reads at once."""

from gapless.actors.pace import ROWS_FIRST, ROWS_MIN, Pace
from gapless.actors.pump import TICK_MS
from gapless.journal.reader import FRAME_ROWS


def test_a_quick_plan_soon_gets_as_much_as_there_may_be() -> None:
    pace = Pace()
    for _ in range(8):
        pace.took(pace.rows, 0.1)
    assert pace.rows == FRAME_ROWS


def test_a_slow_plan_gets_what_it_does_between_two_ticks() -> None:
    pace = Pace()
    for _ in range(8):
        pace.took(pace.rows, pace.rows * 0.1)
    assert pace.rows * 0.1 <= TICK_MS
    assert pace.rows >= ROWS_FIRST / 8


def test_however_slow_it_is_it_gets_some_rows() -> None:
    pace = Pace()
    for _ in range(8):
        pace.took(pace.rows, pace.rows * 1000)
    assert pace.rows == ROWS_MIN


def test_a_small_frame_that_was_slow_for_another_reason_costs_nothing() -> None:
    pace = Pace()
    pace.took(ROWS_MIN, 10 * TICK_MS)
    assert pace.rows == ROWS_FIRST
