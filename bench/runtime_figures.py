"""The paper's figures 7 to 9 (section VI-E): what several plans are for, besides surviving.

    fig. 7   four bursty inputs: each stalls and catches up, the output follows one that does not
    fig. 8   three inputs, congested in turn: the output goes on while one of them does
    fig. 9   two plans of one query, each dear where the other is cheap: the output follows the
             cheap one; with feedback the other leaves out what is settled, and is there in time

Figures 7 and 8 are LMerge over arrivals that are drawn from a seed, in the time of the streams: an
element is made every 0.2 ms, waits for what its input still has to send, and is sent. So they are
the same on every machine, and need no cluster.

Figure 9 is a job on Ray of two replicas, a plan each, and runs three times over one stream: as it
is; with replicas that are deaf to feedback; and with a plan that is cheap everywhere. The functions
compute for as long as they cost, no clock is asked.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from gapless.actors.launch import launch
from gapless.actors.setup import RAY_TIMING
from gapless.bench.harness import Context, Row
from gapless.bench.journal_files import folder
from gapless.bench.lmerge_workload import Table, Workload
from gapless.bench.plots import Chart, Points
from gapless.bench.runtime_throughput import cluster_of_one, take_up_to, wait_for_all
from gapless.bench.two_plans import (
    SELECTED,
    alternating,
    expected,
    large_is_dear,
    none_is_dear,
    small_is_dear,
)
from gapless.engine.functions import function
from gapless.engine.query import Query
from gapless.engine.source import source
from gapless.failover.replica.executor import Executor
from gapless.journal.disk import LocalDisk
from gapless.journal.layout import Layout
from gapless.journal.writer import Writer
from gapless.merge.lmerge import LMerge
from gapless.operators.aggregates import count, sum_
from gapless.protocol.elements import INF
from gapless.protocol.errors import Bug
from gapless.protocol.frame import Frame
from gapless.protocol.schema import StreamSchema

Times = npt.NDArray[np.float64]

# -- figures 7 and 8: arrivals --------------------------------------------------------------------

ELEMENTS_PER_S = 5_000
"""That the source of every input makes, evenly."""
SENT_MS = 0.04
"""What sending an element takes: an input that has fallen behind catches up at five times the
rate."""
STALL_SHARES = (0.003, 0.005)
"""Of the elements after which a bursty input stalls: drawn for each input between these."""
STALL_MS, STALL_DEVIATION_MS = 20.0, 5.0
FRAME_ROWS = 5
"""A frame for a millisecond: a merger hears of stalls as they are."""
CONGESTED_S = (((4.0, 8.0),), ((10.0, 14.0), (17.5, 18.5)), ((16.0, 20.0),))
"""Of each input, when; for a second two of the three are."""
CONGESTED_MS, CONGESTED_DEVIATION_MS = 0.5, 0.1
"""What sending an element takes then: 2,000 elements a second get through."""
BURST_BIN_S, CONGESTION_BIN_S = 0.02, 0.5
"""Over which elements are counted to a rate: as long as a stall; as figure 8 draws it."""
SMOOTH = 0.25
"""Of the variance of the best input's rate, the output's is at most this share."""


def left(sending_ms: Times) -> Times:
    """When each element of an input has been sent, in seconds: `sending_ms` is what it takes from
    when it is its turn. It is made at its time, and is sent once those before it are.
    """
    made = np.arange(len(sending_ms)) / ELEMENTS_PER_S
    total = np.cumsum(sending_ms) / 1e3
    idle = np.maximum.accumulate(made - np.r_[0.0, total[:-1]])
    times: Times = np.add(total, idle, dtype=np.float64)
    return times


def bursty_ms(n: int, rng: np.random.Generator) -> Times:
    """Figure 7's input: now and then it stalls behind an element."""
    stalls = rng.random(n) < rng.uniform(*STALL_SHARES)
    lengths = np.maximum(rng.normal(STALL_MS, STALL_DEVIATION_MS, n), 0.0)
    times: Times = np.add(SENT_MS, stalls * lengths, dtype=np.float64)
    return times


def congested_ms(n: int, periods: Sequence[tuple[float, float]], rng: np.random.Generator) -> Times:
    """Figure 8's input: for some time every element takes longer than the next one does to come."""
    made = np.arange(n) / ELEMENTS_PER_S
    times: Times = np.full(n, SENT_MS)
    for begin, end in periods:
        during = (made >= begin) & (made < end)
        slow = rng.normal(CONGESTED_MS, CONGESTED_DEVIATION_MS, n)
        times[during] = np.maximum(slow[during], SENT_MS)
    return times


@dataclass(frozen=True)
class Rates:
    """Elements a second by bins of time: what each input brought, and what the LMerge put out."""

    bin_s: float
    inputs: list[Times]
    output: Times

    @property
    def best(self) -> int:
        """The input whose rate varies least."""
        return int(np.argmin([rate.var() for rate in self.inputs]))

    @property
    def smoothed(self) -> float:
        """The variance of the output's rate over that of the best input's."""
        return float(self.output.var() / self.inputs[self.best].var())

    def points(self, rate: Times, begin_s: float, end_s: float) -> list[tuple[float, float]]:
        """For a chart of some of the time."""
        at = np.arange(len(rate)) * self.bin_s
        shown = (at >= begin_s) & (at < end_s)
        return list(zip(at[shown].tolist(), rate[shown].tolist(), strict=True))


def merged(sending_ms: Sequence[Times], bin_s: float, disorder: float = 0.2) -> Rates:
    """Merges inputs that send like this, frame by frame as they arrive."""
    n = len(sending_ms[0])
    workload = Workload(events=n, disorder=disorder, frame_rows=FRAME_ROWS, live=2_000)
    table = Table(workload)
    merge = LMerge(workload.schema, case="r3")
    bins = int(n / ELEMENTS_PER_S / bin_s)
    arrivals: list[tuple[float, int, Frame]] = []
    inputs: list[Times] = []
    for each in sending_ms:
        number = merge.attach()
        frames, times = table.stream(number), left(each)
        last = np.minimum(np.arange(1, len(frames) + 1) * FRAME_ROWS, n) - 1
        arrivals += zip(times[last].tolist(), [number] * len(frames), frames, strict=True)
        inputs.append(_rate(times[last], [len(frame) for frame in frames], bin_s, bins))
    arrivals.sort(key=lambda arrival: arrival[:2])
    put_out = [int(merge.push(number, frame).is_insert.sum()) for _, number, frame in arrivals]
    if merge.stable != INF or sum(put_out) != n:
        raise Bug(f"the merged stream ends at {merge.stable} with {sum(put_out)} of {n} events")
    output = _rate(np.array([at for at, _, _ in arrivals]), put_out, bin_s, bins)
    return Rates(bin_s, inputs, output)


def _rate(times: Times, rows: Sequence[int], bin_s: float, bins: int) -> Times:
    """Without what comes after the last bin, when the sources have ended."""
    counted, _ = np.histogram(times, bins, (0.0, bins * bin_s), weights=np.asarray(rows))
    rate: Times = counted / bin_s
    return rate


def measure_bursts(context: Context) -> Iterator[Row]:
    """Figure 7."""
    n = ELEMENTS_PER_S * (4 if context.quick else 30)
    rng = np.random.default_rng(7)
    found = merged([bursty_ms(n, rng) for _ in range(4)], BURST_BIN_S)
    name = "fig 7: variance of the rate, output / best of four bursty inputs"
    yield Row(name, found.smoothed, "x", SMOOTH, "<=")
    curves = {"one input": found.inputs[0], "output": found.output}
    series = {name: found.points(rate, 1.0, 3.0) for name, rate in curves.items()}
    _draw(context.plot_dir, "fig7", "Handling bursty streams", series)


def measure_congestion(context: Context) -> Iterator[Row]:
    """Figure 8."""
    n = ELEMENTS_PER_S * 25
    rng = np.random.default_rng(8)
    found = merged([congested_ms(n, each, rng) for each in CONGESTED_S], CONGESTION_BIN_S)
    name = "fig 8: variance of the rate, output / best of three congested inputs"
    yield Row(name, found.smoothed, "x", SMOOTH, "<=")
    yield Row("fig 8: lowest rate of the output", float(found.output.min()), "elements/s")
    yield Row("fig 8: lowest of the inputs", min(map(np.min, found.inputs)), "elements/s")
    curves = {f"input {i}": rate for i, rate in enumerate(found.inputs)}
    series = {
        name: found.points(rate, 0.0, 25.0)
        for name, rate in (curves | {"output": found.output}).items()
    }
    _draw(context.plot_dir, "fig8", "Masking network congestion", series)


def _draw(plot_dir: Path | None, name: str, title: str, series: Mapping[str, Points]) -> None:
    if plot_dir is not None:
        Chart(title, "seconds", "elements/s", series).save(plot_dir / f"{name}.svg")


# -- figure 9: two plans --------------------------------------------------------------------------

ANSWER_MS = 1_000
PATIENT = replace(
    RAY_TIMING,
    **dict.fromkeys(
        ("hang_ms", "hang_max_ms", "join_ms", "busy_ms", "lag_ms", "absent_ms"), 60_000
    ),
)
"""A replica that computes for a third of a second is not to be taken for one that hangs, also on a
machine that is busy with other things."""
APPEND_ROWS = 16_384
"""Of one append, and of a segment: rows that feedback calls settled are passed over by segment."""


def small_is_dear_deaf(x: pa.Array) -> pa.Array:
    """UDF0, in a replica that does not obey feedback."""
    _deafen()
    return small_is_dear(x)


def large_is_dear_deaf(x: pa.Array) -> pa.Array:
    """UDF1, in such a replica."""
    _deafen()
    return large_is_dear(x)


def _deafen() -> None:
    """From now on the plan of this process, a replica's, is told nothing of what is settled, and so
    asks for no source to be passed over. All else is as in any job.
    """
    setattr(Executor, "fast_forward", _hears_nothing)  # noqa: B010  # no method is assigned by name


def _hears_nothing(executor: Executor, t: int) -> dict[str, int]:
    del executor, t
    return {}


def selection(call: object) -> Query:
    """How many rows are selected each second, and their sum."""
    rows = source("rows", SELECTED, time="ts")
    chosen = rows.where(function(call, "x", returns="bool"))  # type: ignore[arg-type]  # one of the five above
    return chosen.window(range=ANSWER_MS, slide=ANSWER_MS).aggregate(n=count(), total=sum_("x"))


def switched_s(name: str, calls: Sequence[object], given: pa.RecordBatch, path: Path) -> float:
    """Seconds from the first append until a subscriber of a job with these plans has all."""
    journal = path / f"{name}-journal"
    out = Writer(
        LocalDisk(journal),
        Layout(StreamSchema(SELECTED), "ts", (), 1, 0),
        who="bench",
        token=f"bench-{name}",
        now_ms=lambda: time.time_ns() // 1_000_000,
        segment_bytes=1,
    )
    plans = {f"{name}-{i}": selection(call) for i, call in enumerate(calls)}
    with launch(
        next(iter(plans.values())),
        journal=journal,
        dir=path / f"{name}-job",
        replicas=2,
        plans=plans,
        assume_equivalent=True,  # the functions differ in what they take longer for
        checkpoint_s=3600,
        timing=PATIENT,
    ) as job:
        wait_for_all(job)
        subscription = job.subscribe(start="earliest")
        frames: list[Frame] = []
        start = time.perf_counter()
        for first in range(0, given.num_rows, APPEND_ROWS):
            out.append(given.slice(first, APPEND_ROWS))
        out.end()
        take_up_to(INF, subscription, frames)
        took = time.perf_counter() - start
        job.validate()
        subscription.close()
    answers = pa.Table.from_batches([frame.payload for frame in frames if len(frame)])
    got = tuple(int(answers.column(c).to_numpy().sum()) for c in ("n", "total"))
    if got != expected(given):
        raise Bug(f"{name}: {got} were selected, {expected(given)} are right")
    return took


def measure_switching(context: Context) -> Iterator[Row]:
    """Figure 9."""
    given = alternating(300_000 if context.quick else 8_000_000)
    runs = {
        "with feedback": (small_is_dear, large_is_dear),
        "without feedback": (small_is_dear_deaf, large_is_dear_deaf),
        "always the cheaper plan": (none_is_dear,),
    }
    found: dict[str, float] = {}
    with cluster_of_one(), folder("switching") as path:
        for name, calls in runs.items():
            found[name] = switched_s(name.replace(" ", "-"), calls, given, path)
            yield Row(f"fig 9: {name}", found[name], "s")
    ours = found["with feedback"]
    gain = found["without feedback"] / ours
    yield Row("fig 9: without feedback / with", gain, "x", 4.5, ">=")
    cost = ours / found["always the cheaper plan"]
    yield Row("fig 9: with feedback / always the cheaper plan", cost, "x", 1.4, "<=")


def main(arguments: Sequence[str]) -> None:
    """Measures all of this file, for a person: the functions have to be importable by name."""
    context = Context(quick="--quick" in arguments, plot_dir=Path.cwd())
    for measure in (measure_bursts, measure_congestion, measure_switching):
        for row in measure(context):
            print(f"{row.name:70} {row.value:14.4f} {row.unit}", flush=True)  # noqa: T201  # a bench by itself


if __name__ == "__main__":
    from gapless.bench import runtime_figures

    runtime_figures.main(sys.argv[1:])
