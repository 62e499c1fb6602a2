"""The door to a root: a question that changes nothing is repeated, and not for ever."""

from __future__ import annotations

import pytest

from gapless.actors import door


class Calls:
    """What a process asks of an actor: which of its calls are done, in the place of Ray's word."""

    def __init__(self, *done: int) -> None:
        self.asked = 0
        self._done = done

    def ask(self) -> int:
        self.asked += 1
        return self.asked

    def wait(self, calls: list[int], timeout: float) -> tuple[list[int], list[int]]:
        assert timeout > 0
        done = [call for call in calls if call in self._done]
        return done, [call for call in calls if call not in done]


def test_a_question_that_the_dead_root_keeps_is_asked_of_the_next_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    calls = Calls(3)
    monkeypatch.setattr("gapless.actors.door.ray.wait", calls.wait)
    assert door._first_answer(calls.ask) == 3
    assert calls.asked == 3


def test_a_root_that_never_answers_is_asked_no_more_than_so_often(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    calls = Calls()
    monkeypatch.setattr("gapless.actors.door.ray.wait", calls.wait)
    assert door._first_answer(calls.ask) == door.LOOKS_MAX
    assert calls.asked == door.LOOKS_MAX
