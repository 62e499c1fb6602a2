"""Oracle: windows that are long beside their slide, and what their answers take."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from gapless.operators import paned, together
from tests.effort import cases
from tests.engine.oracles.cases import seeds
from tests.engine.oracles.long_windows import check_long_windows

ANSWERS_LEAST = 500_000
"""Of all cases: fewer would say little of what grows with them."""


def test_long_windows_are_answered_right_and_take_what_their_answers_take() -> None:
    assert sum(map(check_long_windows, seeds(14, start=100))) > cases(ANSWERS_LEAST)


def test_windows_that_are_put_together_from_all_their_panes_are_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    slide = paned.Paned._slide

    def anew(self: paned.Paned, *given: Any) -> Iterator[Any]:
        for answers, below in slide(self, *given):
            take(range(self._span * len(answers.windows)))
            yield answers, below

    monkeypatch.setattr(paned.Paned, "_slide", anew)
    monkeypatch.setattr(together.Together, "suits", lambda *_: False)
    with pytest.raises(AssertionError, match="touched"):
        sum(map(check_long_windows, range(40)))


def take(ids: range) -> None:
    """Touches so many sub-aggregates: it is called as an accumulator's is."""
    del ids
