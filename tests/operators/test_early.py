"""Early answers, after every stable: those of all rows so far, though few windows are looked at."""

import random

import pytest

from gapless.operators.aggregates.calls import count, sum_
from gapless.operators.ahead import Ahead
from gapless.operators.hopping_aggregate import HoppingAggregate, Implementation
from gapless.operators.windows import Hopping
from gapless.protocol.frame import Frame
from gapless.protocol.schema import StreamSchema
from gapless.protocol.tdb import Tdb
from gapless.protocol.text import parse
from tests.effort import cases

SOURCE = StreamSchema({"src": "string", "len": "int32"})
IMPLEMENTATIONS: list[Implementation] = ["paned", "wid"]


def made(window: Hopping, implementation: Implementation, early: int) -> HoppingAggregate:
    aggregates = [("n", count()), ("sum", sum_("len"))]
    return HoppingAggregate(SOURCE, window, ["src"], aggregates, implementation, early=early)


def pushes(rng: random.Random) -> list[Frame]:
    """Few rows at a time, behind a stable that advances, stands still, or is not said."""
    frames, stable = [], 0
    for _ in range(20):
        rows = [
            f"ins(({rng.choice('ab')},{rng.randint(0, 3)}),{t},{t + 1})"
            for t in (stable + rng.randint(0, 25) for _ in range(rng.randint(0, 2)))
        ]
        stable += rng.choice([0, 1, 4, 9])
        said = rng.random() < 0.8
        rows = [row for row in rows if int(row.split(",")[2]) >= stable] if said else rows
        text = " ".join([*rows, *([f"stable({stable})"] if said else [])])
        frames.append(Frame.from_elements(SOURCE, parse(text, SOURCE)))
    return frames


def differs(seed: int, implementation: Implementation) -> bool:
    """Whether answers, at some stable, are others than one gives that sees all rows at once."""
    rng = random.Random(seed)
    window, early = Hopping(rng.randint(1, 12), rng.randint(1, 12)), rng.choice([3, 8, 20])
    operator = made(window, implementation, early)
    answers, so_far = Tdb(operator.schema), Frame.empty(SOURCE)
    for frame in pushes(rng):
        so_far = Frame.concat([so_far, frame.with_stable(None)])
        answers.fold(operator.push(0, frame).frame)
        operator.validate()
        if frame.stable is None:
            continue
        at_once = Tdb(operator.schema)
        at_once.fold(
            made(window, implementation, early).push(0, so_far.with_stable(frame.stable)).frame
        )
        if answers.events != at_once.events:
            return True
        if rng.random() < 0.2:
            again = made(window, implementation, early)
            again.restore(operator.snapshot())
            operator = again
    return False


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
def test_at_every_stable_they_are_the_answers_of_all_rows_so_far(
    implementation: Implementation,
) -> None:
    for seed in range(cases(40)):
        assert not differs(seed, implementation), f"seed {seed}"


def test_one_that_overlooks_the_windows_of_new_rows_is_caught(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Ahead, "touch", lambda *_: None)
    assert any(differs(seed, "wid") for seed in range(40))
    assert any(differs(seed, "paned") for seed in range(40))
