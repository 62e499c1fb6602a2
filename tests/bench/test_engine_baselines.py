"""The engine's baselines give the tables of what they are compared with: only costs may differ."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa
import pytest

from gapless.bench.baselines_order import InOrder, InputBuffered, OrderedUnion, SortedOutput
from gapless.operators.join import Join
from gapless.operators.join_marks import JoinProgress
from gapless.operators.meld import Meld
from gapless.operators.operator import Chain, Operator, Out
from gapless.protocol.elements import BEGIN, INF
from gapless.protocol.errors import Misuse
from gapless.protocol.frame import Frame
from gapless.protocol.punctuation import Punctuation
from gapless.protocol.schema import StreamSchema
from gapless.protocol.tdb import Tdb

SIDE = StreamSchema({"key": "int32", "ts": "int64"})
LENGTH = 6
"""Of the lifetimes of joined rows."""

Push = tuple[int, Frame]


def side(seed: int, late: int = 4, rows: int = 60) -> list[Frame]:
    """Frames of one input, rows late by less than `late`, with as much stability as can be."""
    rng = random.Random(seed)
    frames, largest = [], 0
    for _ in range(rows // 6):
        on_time = [largest + rng.randrange(3) for _ in range(6)]
        times = np.array([max(0, t - rng.randrange(late)) for t in on_time], np.int64)
        largest = max(largest, *times.tolist())
        keys = np.array([rng.randrange(3) for _ in times], np.int32)
        stable = max(0, largest - 2 * late)
        columns = [pa.array(values) for values in (keys, times)]
        frames.append(Frame.from_columns(SIDE, times, times + LENGTH, columns, stable=stable))
    return [*frames, Frame.empty(SIDE, INF)]


def interleaved(seed: int, inputs: int, skew: int = 0) -> list[Push]:
    """Pushes of several inputs in a drawn order; input 0 may be `skew` frames ahead."""
    rng = random.Random(seed)
    left = {i: side(seed + i) for i in range(inputs)}
    pushes = [(0, left[0].pop(0)) for _ in range(min(skew, len(left[0])))]
    while any(left.values()):
        i = rng.choice([i for i, frames in left.items() if frames])
        pushes.append((i, left[i].pop(0)))
    return pushes


def told(operator: Operator, pushes: Sequence[Push]) -> list[Out]:
    """What comes out, with the marks on `ts` that a graph adds."""
    outs = []
    for source, frame in pushes:
        stable = frame.stable
        marks = () if stable is None else (Punctuation((("ts", stable),)),)
        outs.append(operator.push(source, frame, marks if stable != BEGIN else ()))
        operator.validate()
    return outs


def table(schema: StreamSchema, outs: Sequence[Out]) -> Tdb:
    """The table of the output; folding it checks that the output is legal."""
    output = Tdb(schema)
    for out in outs:
        output.fold(out.frame)
    return output


def joined() -> Join:
    return Join(
        SIDE,
        SIDE,
        [("key", "key")],
        progressing=(JoinProgress(0, "ts", LENGTH), JoinProgress(1, "ts", LENGTH)),
        final_ends=(True, True),
        longest=(LENGTH, LENGTH),
    )


def opob() -> Operator:
    return SortedJoin(joined())


def opib() -> Operator:
    return InputBuffered(SIDE, joined(), "ts")


class SortedJoin(Chain):
    """The join, its output in order."""

    def __init__(self, join: Join) -> None:
        super().__init__(join, SortedOutput(join.schema, "ts"))
        self.inputs = 2

    def push(self, source: int, frame: Frame, marks: tuple[Punctuation, ...] = ()) -> Out:
        out = self._steps[0].push(source, frame, marks)
        return self._steps[1].push(0, out.frame, out.marks)


def left_times(out: Out) -> list[int]:
    times: list[int] = out.frame.payload.column("ts").to_pylist()
    return times


# -- rows in their order --------------------------------------------------------------------------


def test_rows_are_given_up_once_in_order_and_no_sooner() -> None:
    held = InOrder()
    for frame in side(1)[:-1]:
        held.put(frame.vs, frame.batch)
    rows, given = len(held), []
    for t in (3, 3, 20, 10_000):
        times, batch = held.before(t)
        assert (batch is None) == (len(times) == 0)
        if batch is not None:
            assert batch.column("ts").to_pylist() == times.tolist()
        assert (times < t).all()
        given += times.tolist()
        assert len(held) == rows - len(given)
    assert given == sorted(given)
    assert len(given) == rows
    assert held.nbytes == 0


@pytest.mark.parametrize("seed", range(20))
def test_an_ordered_union_is_the_union_in_order(seed: int) -> None:
    pushes = interleaved(seed, inputs=3, skew=seed % 5)
    wanted = told(Meld(SIDE, 3), pushes)
    got = told(OrderedUnion(SIDE, 3), pushes)
    assert table(SIDE, got) == table(SIDE, wanted)
    starts = [vs for out in got for vs in out.frame.vs.tolist()]
    assert starts == sorted(starts)


def test_an_ordered_union_holds_what_comes_while_one_input_is_behind() -> None:
    ahead, even = OrderedUnion(SIDE, 2), OrderedUnion(SIDE, 2)
    for frame in side(1, rows=600)[:-1]:
        ahead.push(0, frame)
        even.push(0, frame)
        even.push(1, frame)
    assert ahead.nbytes > 2 * even.nbytes > 0


# -- joins ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [opob, opib])
@pytest.mark.parametrize("seed", range(20))
def test_a_join_in_order_is_the_join(seed: int, make: Callable[[], Operator]) -> None:
    pushes = interleaved(seed, inputs=2, skew=seed % 3)
    wanted = table(joined().schema, told(joined(), pushes))
    got = told(make(), pushes)
    assert len(wanted) > 0
    assert table(joined().schema, got) == wanted


@pytest.mark.parametrize("seed", range(20))
def test_sorted_output_is_in_order_and_input_buffering_is_push_by_push(seed: int) -> None:
    pushes = interleaved(seed, inputs=2)
    times = [t for out in told(opob(), pushes) for t in left_times(out)]
    assert times == sorted(times)
    last = BEGIN
    for out in told(opib(), pushes):
        if len(out.frame):
            assert min(left_times(out)) >= last
            last = max(left_times(out))


@pytest.mark.parametrize("make", [opob, opib])
def test_the_marks_of_a_join_in_order_are_true(make: Callable[[], Operator]) -> None:
    for seed in range(20):
        bound = BEGIN
        for out in told(make(), interleaved(seed, inputs=2)):
            assert all(t >= bound for t in left_times(out))
            bound = max([bound, *(t for m in out.marks if (t := m.as_stable("ts")) is not None)])
        assert bound > BEGIN


def test_left_rows_of_different_lengths_are_refused() -> None:
    uneven = Frame.from_columns(
        SIDE,
        np.array([1, 2], np.int64),
        np.array([5, 9], np.int64),
        [pa.array([1, 1], pa.int32()), pa.array([1, 2], pa.int64())],
    )
    with pytest.raises(Misuse, match="different lengths"):
        opib().push(0, uneven)
