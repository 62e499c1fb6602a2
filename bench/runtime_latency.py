"""Latency: from a source row that can be read to its result at a subscriber, at 50,000 events/s.

    filter   append done ---- read, filtered, merged, synced, delivered ----> the row's result
    W1       append done of the batch that ends the wait for late rows ------> the window's results

The filter's results do not wait, so that is the runtime's own latency. A window's results wait
for its end and for the rows that may be late, five seconds of event time. That wait is set apart:
the clock starts when the journal promises that the window is complete. What of W1 comes then is
thousands of rows at once, so computing, merging and writing all of those is in its figure.

Clocks: the feeder stamps batches, the subscriber's thread stamps frames, both by the clock that all
processes of a machine share. The feeder runs late where the machine is busy; that is not counted,
as a row that is not there yet cannot be read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import numpy.typing as npt

from gapless.bench.harness import Context, Row
from gapless.bench.runtime_feed import Fed
from gapless.bench.runtime_kills import fine, windows
from gapless.bench.runtime_pauses import Account
from gapless.bench.runtime_run import running
from gapless.chaos.judge.recording import Arrived
from gapless.protocol.errors import BadData
from gapless.protocol.frame import Frame

SECONDS, QUICK_SECONDS = 30.0, 5.0
"""Long enough for 15,000 results of the filter."""
P50_MS, P99_MS = 15.0, 60.0

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


def measure_latency(context: Context, account: Account) -> Iterator[Row]:
    """The filter against its bars; W1 to know."""
    seconds = QUICK_SECONDS if context.quick else SECONDS
    for name, query, by in (("filter", fine(), by_row), ("W1", windows(), by_window)):
        with running(query) as run:
            begin = len(run.recording.arrivals)
            run.wait(seconds)
            end = len(run.recording.arrivals)
            fed = run.end()
            found = by(fed, run.recording.arrivals[begin:end])
            p50, p99 = np.percentile(found, [50, 99])
            is_judged = by is by_row
            what = "row readable to result" if is_judged else "window complete to its results"
            of = f"{name}, {len(found):,} results: {what}"
            bars = (P50_MS, P99_MS) if is_judged else (None, None)
            for text, value, bar in zip(("p50", "p99"), (p50, p99), bars, strict=True):
                yield Row(f"{of}, {text}", value, "ms", bar, None if bar is None else "<=")
            account.add(f"latency, {name}", run.judge())


def by_row(fed: Fed, arrivals: Sequence[Arrived]) -> Floats:
    """By results of the filter, milliseconds since their rows could be read."""
    return _since(arrivals, lambda frame: fed.readable_ns(frame.payload.column("id").to_numpy()))


def by_window(fed: Fed, arrivals: Sequence[Arrived]) -> Floats:
    """By results of W1, milliseconds since it could be known that their window is complete."""
    return _since(arrivals, lambda frame: fed.complete_ns(frame.vs))


def _since(arrivals: Sequence[Arrived], known_ns: Callable[[Frame], Ints]) -> Floats:
    parts = [
        each.at_s * 1e3 - known_ns(each.emit.frame.inserts) / 1e6
        for each in arrivals
        if len(each.emit.frame)
    ]
    if not parts:
        raise BadData("no result came while latency was measured")
    return np.concatenate(parts)
