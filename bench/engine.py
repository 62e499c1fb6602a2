"""The engine against its bars: throughput, latency, state, and the shapes of the paper's figures.

    section       what                                                       module
    throughput    W1 to W3, filter and map, latency and state of W1          engine_throughput
    figures       6-10 and 6-15; 7-6, 7-7, 8-8 and 8-11                      engine_windows, _order
    weight        large, sparse, skewed and dirty inputs, size by size       engine_weight
    peers         other engines beside ours, from files; if asked for        engine_peers

Our side has one core: the process keeps to it, with Arrow's threads. The workloads are in
`netflow.py`, the baselines in `baselines_windows.py` and `baselines_order.py`. What "ahead",
"flat" and "growing" are in numbers is said where they are measured.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import MappingProxyType

import pyarrow as pa

from gapless.bench.engine_order import joins, unions
from gapless.bench.engine_peers import peers
from gapless.bench.engine_scale import Scale
from gapless.bench.engine_throughput import throughput
from gapless.bench.engine_weight import weight
from gapless.bench.engine_windows import against_a_buffer, with_panes
from gapless.bench.harness import Context, Row, wanted

SUMMARY = "The engine: W1 to W3, latency, state, weight, the shapes of the papers' figures, peers"


def run(context: Context) -> Iterator[Row]:
    """The sections that are wanted."""
    for name in wanted(context, SECTIONS):
        yield from SECTIONS[name](context)


def _throughput(context: Context) -> Iterator[Row]:
    with one_core():
        yield from throughput(Scale.of(context))


def _figures(context: Context) -> Iterator[Row]:
    with one_core():
        for figure in (against_a_buffer, with_panes, joins, unions):
            yield from figure(Scale.of(context), context.plot_dir)


def _peers(context: Context) -> Iterator[Row]:
    """On all cores."""
    yield from peers(Scale.of(context), context)


SECTIONS: Mapping[str, Callable[[Context], Iterator[Row]]] = MappingProxyType(
    {"throughput": _throughput, "figures": _figures, "weight": weight, "peers": _peers}
)
"""Parts of this bench that can be run by themselves."""


@contextmanager
def one_core() -> Iterator[None]:
    """While inside, this thread and those it starts have one core, and Arrow one thread."""
    cores, threads = os.sched_getaffinity(0), pa.cpu_count()
    os.sched_setaffinity(0, [max(cores)])
    pa.set_cpu_count(1)
    try:
        yield
    finally:
        os.sched_setaffinity(0, cores)
        pa.set_cpu_count(threads)
