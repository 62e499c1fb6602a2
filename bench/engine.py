"""The engine against its bars: throughput, latency, state, and the shapes of the paper's figures.

    engine_throughput.py   W1 to W3, filter and map, latency and state of W1
    engine_windows.py      figures 6-10 and 6-15: window-ids, buffers and panes
    engine_order.py        figures 7-6, 7-7, 8-8 and 8-11: the price of keeping order
    engine_peers.py        other engines beside ours, from files to files; if asked for

Our side has one core: the process keeps to it, with Arrow's threads. The workloads are in
`netflow.py`, the baselines in `baselines_windows.py` and `baselines_order.py`. What "ahead",
"flat" and "growing" are in numbers is said where they are measured.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow as pa

from gapless.bench.engine_order import joins, unions
from gapless.bench.engine_peers import peers
from gapless.bench.engine_scale import Scale
from gapless.bench.engine_throughput import throughput
from gapless.bench.engine_windows import against_a_buffer, with_panes
from gapless.bench.harness import Context, Row

SUMMARY = "The engine: W1 to W3, latency, state, the shapes of the papers' figures, and its peers"


def run(context: Context) -> Iterator[Row]:
    """Throughput, then figure by figure, then the peers on all cores."""
    scale = Scale.of(context)
    with one_core():
        yield from throughput(scale)
        for figure in (against_a_buffer, with_panes, joins, unions):
            yield from figure(scale, context.plot_dir)
    if context.with_peers:
        yield from peers(scale, context)


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
