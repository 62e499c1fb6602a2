"""Windows against their bars: the figures of the thesis on windows, re-run.

    section       what                                                       module
    rates         sessions, windows that count rows, two_level, beside W1    windows_rates
    patterns      followed_by, recent and chronicle                          windows_patterns
    peers         OVER, sessions and HOP beside DuckDB; with --with-peers    windows_peers,
                  sessions and HOP beside Flink                              windows_flink
    overlap       6-10 whole: auto and wid, beside a buffer                  windows_overlap
    surges        8-7 and table 8-1: rates that a ring of rows survives      windows_surges
    disorder      6-11 and 6-12: latency against accuracy, beside slack      windows_disorder
    order         8-4, 8-5, 8-8 to 8-10: state without order and with it     windows_joins
    adaptive      6-19 and table 6-2: groups of few rows kept as rows        windows_adaptive
    merge         of the LMerge paper: figures 4 and 6 with the sub-query    merge_subquery
                  run, figure 9, table IV                                    merge_switches,
                                                                             merge_complexity

Ratios are taken within one run, and our side has one core. What the thesis compares with stands in
`slack.py` and `baselines_order.py`. More of its figures are in the engine bench: 6-10 by source and
6-15, 7-6 and 7-7, 8-8 by source and 8-11.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType

from gapless.bench.engine import one_core
from gapless.bench.harness import Context, Row, wanted
from gapless.bench.merge_complexity import complexity
from gapless.bench.merge_subquery import chattiness, ordering_first
from gapless.bench.merge_switches import switching
from gapless.bench.windows_adaptive import sliding, tumbling
from gapless.bench.windows_disorder import band_disorder, block_disorder
from gapless.bench.windows_flink import flink_peers
from gapless.bench.windows_joins import (
    delayed,
    ordered_output,
    rare_late,
    skewed_join,
    skewed_pairs,
)
from gapless.bench.windows_overlap import overlap
from gapless.bench.windows_patterns import patterns
from gapless.bench.windows_peers import duckdb_peers
from gapless.bench.windows_rates import rates
from gapless.bench.windows_scale import Scale
from gapless.bench.windows_surges import surges

SUMMARY = "Windows: the thesis's figures on disorder and order, and more of the LMerge paper's"

Figure = Callable[[Scale, Path | None], Iterator[Row]]
"""Measures, yields its rows, and draws where there is a directory to draw into."""

SECTIONS: Mapping[str, tuple[Figure, ...]] = MappingProxyType(
    {
        "rates": (rates,),
        "patterns": (patterns,),
        "peers": (duckdb_peers,),
        "overlap": (overlap,),
        "surges": (surges,),
        "disorder": (band_disorder, block_disorder),
        "order": (delayed, ordered_output, skewed_pairs, skewed_join, rare_late),
        "adaptive": (tumbling, sliding),
        "merge": (chattiness, ordering_first, switching, complexity),
    }
)
"""Parts of this bench that can be run by themselves."""


def run(context: Context) -> Iterator[Row]:
    """The figures of the sections that are wanted."""
    scale = Scale.of(context)
    for name in wanted(context, SECTIONS):
        with one_core():
            for figure in SECTIONS[name]:
                yield from figure(scale, context.plot_dir)
        if name == "peers" and context.with_peers:
            yield from flink_peers(scale, context)
