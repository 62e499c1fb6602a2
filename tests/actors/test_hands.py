"""Hands do one thing after the other, and nothing after one that breaks."""

from __future__ import annotations

import threading

from gapless.actors.hands import Hands

WAIT_S = 20.0


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
