"""Between two calls to one sidecar there is a pause, which grows to a bound and begins anew."""

from __future__ import annotations

from gapless.sidecar.client.connection import RECONNECT_MS, RECONNECT_MS_MAX, RetryPause


def test_the_pause_is_doubled_up_to_its_bound_and_short_again_after_an_answer() -> None:
    pause, taken = RetryPause(), list[float]()
    for _ in range(6):
        pause.take(taken.append)
    assert taken[:2] == [RECONNECT_MS / 1000, 2 * RECONNECT_MS / 1000]
    assert taken[-2:] == [RECONNECT_MS_MAX / 1000] * 2
    assert sorted(taken) == taken
    pause.reset()
    assert pause.seconds == RECONNECT_MS / 1000
