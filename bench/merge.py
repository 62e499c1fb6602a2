"""LMerge against its bars: throughput of each case, and the shapes of the paper's figures 2 to 6.

The workload is the paper's (section VI-B, `lmerge_workload.py`): 200,000 elements an input, about
10,000 live, 20 % disorder where the case takes any, StableFreq 1 %, MaxGap 20 s, 3 inputs. Inputs
take turns, a frame each; one thread; the best of five runs. What is compared is `merge_runs.py`'s
business, the figures are `merge_figures.py`'s.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from gapless.bench.harness import Context, Row
from gapless.bench.lmerge_workload import Table, Workload, interleave
from gapless.bench.merge_figures import FIGURES
from gapless.bench.merge_runs import Pushes, rates
from gapless.bench.merge_scale import Scale

SUMMARY = "LMerge: each case's throughput, and the shapes of the paper's figures 2 to 6"

INPUTS = 3


def run(context: Context) -> Iterator[Row]:
    """Throughput first, then figure by figure."""
    scale = Scale.of(context)
    yield from throughput(scale)
    for figure in FIGURES:
        yield from figure(scale, context.plot_dir)


def throughput(scale: Scale) -> Iterator[Row]:
    """Input elements per second, with nothing varied."""
    ordered = Workload(events=scale.events, live=scale.live, disorder=0.0)
    disordered = replace(ordered, disorder=0.2)
    unit = "elements/s"
    pushes = _pushes(replace(ordered, strict=True))
    found = rates(("r0", "r1", "r2"), pushes, scale.repeat)
    for name, bar in (("r0", 50e6), ("r1", 25e6), ("r2", 20e6)):
        yield Row(f"{name}, in order", found[name], unit, bar, ">=")
    found = rates(("r3", "r4"), _pushes(disordered), scale.repeat)
    for name, bar in (("r3", 20e6), ("r4", 6e6)):
        yield Row(name, found[name], unit, bar, ">=")
    for label, workload, bar in (
        ("r3, 100-row frames", replace(disordered, frame_rows=100), 4e6),
        ("r3, 1,000-byte string", replace(disordered, payload="wide"), 1.5e6),
    ):
        found = rates(("r3",), _pushes(workload), scale.repeat)
        yield Row(label, found["r3"], unit, bar, ">=")


def _pushes(workload: Workload) -> Pushes:
    return interleave(Table(workload).streams(INPUTS))
