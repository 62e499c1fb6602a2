"""The baselines merge as right as what they are compared with: only their costs may differ."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gapless.bench.baselines import CleanseR1, R3Minus
from gapless.bench.lmerge_workload import Table, Workload, interleave
from gapless.merge.lmerge import LMerge
from gapless.protocol.elements import BEGIN, INF
from gapless.protocol.frame import Frame
from gapless.protocol.schema import StreamSchema
from gapless.protocol.tdb import Tdb
from gapless.protocol.text import DEFAULT_SCHEMA
from gapless.protocol.variants import random_tdb, random_telling, tell

PAYLOADS: list[tuple[object, ...]] = [("A",), ("B",), ("C",)]
Pushes = Sequence[tuple[int, Frame]]
Baseline = R3Minus | CleanseR1

REVISED = Workload(
    events=600, live=60, disorder=0.5, revisions=0.5625, stable_freq=0.05, frame_rows=40
)


def told(seed: int, inputs: int) -> tuple[Tdb, Pushes]:
    """A table, and its streams' frames in a drawn order."""
    rng = random.Random(seed)
    tdb = random_tdb(rng, DEFAULT_SCHEMA, PAYLOADS)
    left = {i: tell(tdb, random_telling(rng), seed + i) for i in range(inputs)}
    pushes = []
    while any(left.values()):
        i = rng.choice([i for i, frames in left.items() if frames])
        pushes.append((i, left[i].pop(0)))
    return tdb, pushes


def merged(baseline: Baseline, pushes: Pushes) -> Tdb:
    """The table of the output; folding it checks that the output is legal."""
    for _ in {number for number, _ in pushes}:
        baseline.attach()
    output = Tdb(pushes[0][1].schema)
    for number, frame in pushes:
        output.fold(baseline.push(number, frame))
    return output


def first_difference(baseline: R3Minus, pushes: Pushes) -> int | None:
    """The first push to which r3 and a baseline say different things, in whatever order."""
    merge = LMerge(pushes[0][1].schema, case="r3")
    for _ in {number for number, _ in pushes}:
        merge.attach()
        baseline.attach()
    for i, (number, frame) in enumerate(pushes):
        expected, got = merge.push(number, frame), baseline.push(number, frame)
        if Counter(got.elements()) != Counter(expected.elements()):
            return i
    assert len(merge) == len(baseline)
    return None


@given(seed=st.integers(0, 10_000), inputs=st.integers(1, 4))
def test_r3_minus_says_what_r3_says_push_for_push(seed: int, inputs: int) -> None:
    _, pushes = told(seed, inputs)
    assert first_difference(R3Minus(DEFAULT_SCHEMA), pushes) is None


def test_r3_minus_says_what_r3_says_on_the_measured_workload() -> None:
    pushes = interleave(Table(REVISED).streams(3), (0, 2, 5))
    assert first_difference(R3Minus(REVISED.schema), pushes) is None


class NeverPutsRight(R3Minus):
    def _freeze(self, number: int, t: int) -> list[Frame]:
        super()._freeze(number, t)
        return []


class NeverForgets(R3Minus):
    def _freeze(self, number: int, t: int) -> list[Frame]:
        del number, t
        return []


@pytest.mark.parametrize("broken", [NeverPutsRight, NeverForgets])
def test_the_comparison_catches_a_broken_baseline(
    broken: Callable[[StreamSchema], R3Minus],
) -> None:
    pushes = interleave(Table(REVISED).streams(3), (0, 2, 5))
    assert first_difference(broken(REVISED.schema), pushes) is not None


@given(seed=st.integers(0, 10_000), inputs=st.integers(1, 4))
def test_the_output_of_each_baseline_is_the_table(seed: int, inputs: int) -> None:
    tdb, pushes = told(seed, inputs)
    for baseline in (R3Minus(DEFAULT_SCHEMA), CleanseR1(DEFAULT_SCHEMA)):
        output = merged(baseline, pushes)
        assert output == tdb, output.difference(tdb)
        assert output.stable == baseline.stable == INF


@given(seed=st.integers(0, 10_000))
def test_ordering_first_puts_out_inserts_alone_in_order(seed: int) -> None:
    _, pushes = told(seed, 3)
    baseline = CleanseR1(DEFAULT_SCHEMA)
    for _ in range(3):
        baseline.attach()
    last = BEGIN
    for number, frame in pushes:
        out = baseline.push(number, frame)
        assert out.is_insert.all()
        for vs in out.vs.tolist():
            assert vs >= last
            last = vs


@pytest.mark.parametrize("make", [R3Minus, CleanseR1])
def test_what_a_baseline_holds_grows_with_its_inputs(
    make: Callable[[StreamSchema], Baseline],
) -> None:
    workload = Workload(events=2_000, live=400, payload="wide", frame_rows=100)
    streams = Table(workload).streams(6)
    sizes = []
    for n in (2, 6):
        baseline = make(workload.schema)
        for _ in range(n):
            baseline.attach()
        for number, frame in interleave([frames[:10] for frames in streams[:n]]):
            baseline.push(number, frame)
        assert len(baseline) > 0
        sizes.append(baseline.nbytes)
    assert sizes[1] > 1.5 * sizes[0]
