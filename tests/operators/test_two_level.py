"""Two levels: slots that collide, what is old leaves late, and no table shows it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from gapless.operators.aggregates import calls
from gapless.operators.answers import Grouping
from gapless.operators.aside import Aside
from gapless.operators.hopping_aggregate import HoppingAggregate
from gapless.operators.slots import KNOWN_SHARE, Leaving, Slots
from gapless.operators.two_level import TwoLevel, TwoLevelOptions
from gapless.operators.windows import Cut, Hopping
from gapless.protocol.documents import Document
from gapless.protocol.elements import INF
from gapless.protocol.errors import DecodeError, GaplessError, Misuse
from gapless.protocol.frame import frames_of
from gapless.protocol.text import format, parse
from tests.effort import cases
from tests.operators.laws import (
    holds_that_a_restored_one_goes_on_the_same,
    holds_that_a_start_at_reach_gives_all_that_is_wanted,
    holds_that_fast_forward_spares_only_what_ends_before,
)
from tests.operators.test_hopping_aggregate import (
    AGGREGATES,
    SOURCE,
    drawn,
    made,
    run,
    scanned,
    stream,
)

OPTIONS = [
    TwoLevelOptions(slots=1),
    TwoLevelOptions(slots=2, late=0),
    TwoLevelOptions(slots=5, flush="slow", every=3, late=1),
    TwoLevelOptions(slots=64, late=4),
    TwoLevelOptions(slots=7, flush="slow", every=1, late=1_000),
]


def check(options: TwoLevelOptions, seed: int, early: int | None = None) -> None:
    rng, window, rows = drawn(seed)
    operator = made(window, options, AGGREGATES, early=early)
    answers = run(operator, stream(rng, rows))
    wanted = scanned(window, rows)
    assert answers == wanted, f"seed {seed}: {window}\n{answers.difference(wanted)}"
    assert answers.stable == INF


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("early", [None, 7])
def test_any_order_and_cut_gives_the_answers_of_a_scan_whatever_the_slots(
    options: TwoLevelOptions, early: int | None
) -> None:
    for seed in range(cases(40)):
        check(options, seed, early)


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_it_restarts_skips_and_starts_in_the_middle_as_every_implementation_does(
    options: TwoLevelOptions,
) -> None:
    for seed in range(cases(25)):
        rng, window, rows = drawn(seed)
        told = [(0, frame) for frame in stream(rng, rows)]

        def make(window: Cut = window) -> HoppingAggregate:
            return made(window, options, AGGREGATES)

        holds_that_a_restored_one_goes_on_the_same(make, told, rng.randint(0, len(told)))
        wanted = scanned(window, rows)
        holds_that_fast_forward_spares_only_what_ends_before(make, told, wanted, rng)
        t = rng.randint(-10, 50)
        holds_that_a_start_at_reach_gives_all_that_is_wanted(make, told, wanted, t)


# -- when what is old leaves ----------------------------------------------------------------------


def pushed(operator: HoppingAggregate, text: str) -> str:
    frames = frames_of(SOURCE, parse(text, SOURCE))
    return " ".join(format(operator.push(0, f).frame.elements()) for f in frames).strip()


def tumbling(options: TwoLevelOptions) -> HoppingAggregate:
    return made(Hopping(5, 5), options)


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_one_that_is_finished_restarts_finished(options: TwoLevelOptions) -> None:
    old = made(Hopping(5, 2), options, AGGREGATES)
    assert pushed(old, "ins((A,1),1,2) stable(inf)").endswith("stable(inf)")
    new = made(Hopping(5, 2), options, AGGREGATES)
    new.restore(old.snapshot())
    new.validate()
    assert pushed(new, "stable(inf)") == ""


def test_a_lazy_one_promises_no_more_than_its_slots_allow_and_is_no_later_than_it_says() -> None:
    operator = tumbling(TwoLevelOptions(slots=1 << 10, late=2))
    assert pushed(operator, "ins((A,1),1,2) stable(6)") == "stable(5)"
    assert pushed(operator, "ins((A,1),6,7) stable(12)") == ""
    assert pushed(operator, "stable(15)") == "ins((A,1),5,10) stable(10)"
    assert pushed(operator, "stable(20)") == "ins((A,1),10,15) stable(25)"
    assert pushed(operator, "stable(inf)") == "stable(inf)"


def test_a_collision_lets_an_old_one_leave_before_it_must() -> None:
    operator = tumbling(TwoLevelOptions(slots=1, late=1_000))
    assert pushed(operator, "ins((A,1),1,2) stable(6)") == "stable(5)"
    assert pushed(operator, "ins((B,1),7,8) stable(7)") == "ins((A,1),5,10) stable(10)"


def test_a_slow_one_lets_an_old_one_leave_for_every_few_rows() -> None:
    operator = tumbling(TwoLevelOptions(slots=1 << 10, flush="slow", every=2, late=1_000))
    assert pushed(operator, "ins((A,1),1,2) ins((B,1),1,2) stable(6)") == "stable(5)"
    assert pushed(operator, "ins((C,1),6,7) ins((C,1),6,7) stable(7)") == ""
    said = pushed(operator, "ins((C,1),6,7) ins((C,1),6,7) stable(8)")
    assert "ins((A,1),5,10)" in said
    assert "ins((B,1),5,10)" in said
    assert said.endswith("stable(10)")


def test_no_number_of_groups_makes_the_lower_level_larger() -> None:
    rows = pa.schema([("src", pa.string())])
    slots = Slots(Grouping(rows, ["src"], [calls.count()], Aside()), 16)
    rng = np.random.default_rng(1)
    held = []
    for i in range(8):
        n = 2_000
        src = pa.array([f"{x}" for x in rng.integers(0, 10**9, n)])
        batch = pa.RecordBatch.from_arrays([src], schema=rows)
        times = np.full(n, i)
        outs = [out for out in slots.add(times, times, batch) if isinstance(out, Leaving)]
        assert sum(len(out.panes) for out in outs) <= 16
        slots.validate()
        held.append(slots.nbytes)
    assert len(slots.groups) <= 16 * KNOWN_SHARE
    assert max(held) <= 1.2 * held[1]


# -- options --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"slots": 0}, "slots=0: how many sub-aggregates the lower level keeps, 1 to"),
        ({"slots": 1.5}, "slots=1.5: how many"),
        ({"flush": "eager"}, "flush='eager': use 'lazy' or 'slow'"),
        ({"every": 0}, "every=0: after so many rows an old one leaves, 1 to"),
        ({"late": -1}, "late=-1: windows that an answer may wait, 0 to"),
        ({"late": True}, "late=True: windows that an answer may wait, 0 to"),
    ],
)
def test_an_option_that_means_nothing_is_refused(options: Any, sentence: str) -> None:
    with pytest.raises(Misuse, match=sentence):
        TwoLevelOptions(**options)


def test_options_print_and_travel() -> None:
    for options in (TwoLevelOptions(), *OPTIONS):
        assert TwoLevelOptions.from_document(options.to_document()) == options
        assert str(options).startswith(f"two_level(slots={options.slots}, flush=")
    wrongs: list[Document] = [None, {}, {"slots": 0, "flush": "lazy", "every": 1, "late": 0}]
    for wrong in wrongs:
        with pytest.raises(DecodeError):
            TwoLevelOptions.from_document(wrong)


# -- the checks can fail --------------------------------------------------------------------------


def test_a_promise_that_forgets_the_slots_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    right = TwoLevel.promised

    def too_early(self: TwoLevel, complete: int) -> int:
        right(self, complete)
        return complete

    monkeypatch.setattr(TwoLevel, "promised", too_early)
    assert noticed(TwoLevelOptions(slots=64))


def test_an_old_one_that_stays_for_ever_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(TwoLevel, "_leave", lambda self, slots: None)
    assert noticed(TwoLevelOptions(slots=64))


def noticed(options: TwoLevelOptions) -> bool:
    for seed in range(30):
        try:
            check(options, seed)
        except (AssertionError, GaplessError):
            return True
    return False
