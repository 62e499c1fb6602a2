"""Runs of a merger over recorded pushes: how fast, with how much state, how late, how chatty.

    pushes = interleave(table.streams(3))
    rates(("r3", "r3-"), pushes, repeat=5)     # input elements per second, the best of five
    state("r3", pushes).mean_bytes
    latency_s("c+r1", pushes, table, elements_per_s=5_000)

Frames are made before the clock starts, a fresh merger for each run. An element is an insert or an
adjust; stables are not counted. A run that did not end in stable(INF) raises, for then an input was
detached or the streams were not whole, and its figures mean nothing.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Protocol

import numpy as np
import numpy.typing as npt

from gapless.bench.baselines import CleanseR1, R3Minus
from gapless.bench.lmerge_workload import Ints, Table
from gapless.merge.lmerge import LMerge
from gapless.merge.policy import Policy
from gapless.protocol.elements import INF
from gapless.protocol.errors import Bug
from gapless.protocol.frame import Frame
from gapless.protocol.schema import StreamSchema

Pushes = Sequence[tuple[int, Frame]]
Seconds = npt.NDArray[np.float64]


class Merger(Protocol):
    """What is measured: LMerge in any case, and the baselines."""

    def attach(self) -> int:
        """A new input; its number."""

    def push(self, number: int, frame: Frame, /) -> Frame:
        """Takes a frame of one input; returns what it adds to the output."""

    @property
    def stable(self) -> int:
        """The output's stable."""

    @property
    def nbytes(self) -> int:
        """Bytes of state."""


MERGERS: Mapping[str, Callable[[StreamSchema], Merger]] = MappingProxyType(
    {
        "r0": lambda schema: LMerge(schema, case="r0"),
        "r1": lambda schema: LMerge(schema, case="r1"),
        "r2": lambda schema: LMerge(schema, case="r2"),
        "r3": lambda schema: LMerge(schema, case="r3"),
        "r4": lambda schema: LMerge(schema, case="r4"),
        "r3 at once": lambda schema: LMerge(schema, case="r3", policy=Policy(adjust="at_once")),
        "r3-": R3Minus,
        "c+r1": CleanseR1,
    }
)
"""Everything that can be measured, by the name that rows and charts give it."""


def merger(name: str, pushes: Pushes) -> Merger:
    """A fresh merger for the inputs of `pushes`, attached in the order of their numbers."""
    made = MERGERS[name](pushes[0][1].schema)
    for expected in range(1 + max(number for number, _ in pushes)):
        if made.attach() != expected:
            raise Bug(f"{name}: inputs are numbered from 0 on")
    return made


def _ended(name: str, made: Merger) -> None:
    if made.stable != INF:
        raise Bug(f"{name}: the output ends at stable {made.stable}: an input was refused")


def elements(pushes: Pushes) -> int:
    """Rows of all frames."""
    return sum(len(frame) for _, frame in pushes)


# -- throughput -----------------------------------------------------------------------------------


def rate(name: str, pushes: Pushes) -> float:
    """Input elements per second of one run."""
    made = merger(name, pushes)
    push = made.push
    gc.collect()  # what earlier runs left is not this one's work
    start = time.perf_counter()
    for number, frame in pushes:
        push(number, frame)
    took = time.perf_counter() - start
    _ended(name, made)
    return elements(pushes) / took


def rates(names: Sequence[str], pushes: Pushes, repeat: int) -> dict[str, float]:
    """The best of `repeat` runs of each, in turn, so that a slow moment strikes all alike."""
    best = dict.fromkeys(names, 0.0)
    for _ in range(repeat):
        for name in names:
            best[name] = max(best[name], rate(name, pushes))
    return best


# -- state ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class State:
    """Bytes of state over a run, looked at after each push."""

    mean_bytes: float
    peak_bytes: float


def state(name: str, pushes: Pushes) -> State:
    """The state of one run, its start and end included."""
    made = merger(name, pushes)
    held = np.empty(len(pushes))
    for turn, (number, frame) in enumerate(pushes):
        made.push(number, frame)
        held[turn] = made.nbytes
    _ended(name, made)
    return State(float(held.mean()), float(held.max()))


# -- chattiness -----------------------------------------------------------------------------------


def adjusts_out(name: str, pushes: Pushes) -> int:
    """How many adjusts the output has."""
    made = merger(name, pushes)
    count = sum(_adjusts(made.push(number, frame)) for number, frame in pushes)
    _ended(name, made)
    return count


def adjusts_in(pushes: Pushes) -> float:
    """How many adjusts one input has, on average."""
    return sum(_adjusts(frame) for _, frame in pushes) / len({number for number, _ in pushes})


def _adjusts(frame: Frame) -> int:
    return len(frame) - int(frame.is_insert.sum())


# -- latency --------------------------------------------------------------------------------------


def latency_s(name: str, pushes: Pushes, table: Table, elements_per_s: float) -> float:
    """Seconds from an event's first arrival to its insert in the output, on average over events.

    The clock is the streams': each input delivers `elements_per_s`, and a frame arrives, with all
    its rows, when its last one has. An event is in the output when the push that puts it out is
    done: at the arrival of the frame pushed, plus the time that this push really took. So holding
    an event until later frames arrive costs the time that those take to come; work costs its own.
    Events are told apart by their starts: the workload must be a strict one.
    """
    made = merger(name, pushes)
    said = [0] * (1 + max(number for number, _ in pushes))
    came = np.full(len(table.vs), np.inf)
    left = np.full(len(table.vs), np.inf)
    gc.collect()
    for number, frame in pushes:
        said[number] += len(frame)
        now = said[number] / elements_per_s
        _note(came, table, frame, now)
        start = time.perf_counter()
        out = made.push(number, frame)
        _note(left, table, out, now + time.perf_counter() - start)
    _ended(name, made)
    if not np.isfinite(left).all():
        raise Bug(f"{name}: {int((~np.isfinite(left)).sum())} events never came out")
    return float((left - came).mean())


def _note(times: Seconds, table: Table, frame: Frame, now: float) -> None:
    """Sets the time of the events that `frame` inserts, where it is the first."""
    events: Ints = np.searchsorted(table.vs, frame.vs[frame.is_insert])
    times[events] = np.minimum(times[events], now)
