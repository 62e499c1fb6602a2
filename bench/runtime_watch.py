"""What a subscriber of a job sees, when, and whether it is right.

     results  |  |  |  |        |  |  |          pauses around a kill: those that end after it and
                       X kill                    begin before the window ends; the longest counts
                      └────────┘ pause
                      └──── window ────┘

`Watch` is a thread that takes a subscription's frames and notes when. It computes nothing then: all
is compared afterwards, with the same query over the same journal in one process. Queries here only
insert, each result once, so a row that should not be there is one of two things:

    lost            it was to come, and did not
    duplicated      it is right, and came once more
    contradicting   it is not right: another count of the same window, say, or one taken back
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from gapless.actors.subscribing import Subscription
from gapless.bench.harness import Row
from gapless.protocol.elements import BEGIN
from gapless.protocol.errors import BadData, GaplessError, Misuse
from gapless.protocol.frame import Frame

Floats = npt.NDArray[np.float64]

TAKE_S = 0.1
"""How long the thread waits for a frame until it looks whether it is to end."""
END_S = 60.0
"""How long a subscription may take to end once its job has been drained."""
PAUSE_FACTOR, PAUSE_MORE_S = 1.2, 0.010
"""A kill may make the longest pause longer by so much, whichever is more: below it is noise."""


# -- pauses ---------------------------------------------------------------------------------------


def pause_bar_s(undisturbed_s: float) -> float:
    """How long the output may pause at a kill, by the longest pause of the undisturbed run."""
    return max(PAUSE_FACTOR * undisturbed_s, undisturbed_s + PAUSE_MORE_S)


def longest_pause_s(arrivals_s: Floats, begin_s: float, end_s: float) -> float:
    """The longest time without a result, of those that end after `begin_s` and begin before
    `end_s`. A window that ends in silence counts at least as long as that was; one that begins
    before the first result raises `BadData`, as nobody knows how long it was silent before.
    """
    first, last = np.searchsorted(arrivals_s, [begin_s, end_s], side="right")
    if first == 0:
        raise BadData("no result has come before the window: wait for the first, then measure")
    seen = arrivals_s[first - 1 : last + 1]
    if last == len(arrivals_s):
        seen = np.append(seen, max(end_s, float(seen[-1])))
    return float(np.diff(seen).max())


# -- what came ------------------------------------------------------------------------------------


class Watch:
    """Takes the frames of a subscription, in a thread, until that ends."""

    def __init__(self, subscription: Subscription) -> None:
        self._subscription = subscription
        self._frames: list[Frame] = []
        self._came_s: list[float] = []
        self._results_s: list[float] = []
        self._stable = BEGIN
        self._failed: GaplessError | None = None
        self._thread = threading.Thread(target=self._run, name="watch", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            for frame in self._subscription:
                now = time.monotonic()
                self._frames.append(frame)
                self._came_s.append(now)
                if len(frame):
                    self._results_s.append(now)
        except GaplessError as e:
            self._failed = e

    def check(self) -> None:
        """Raises what has ended the subscription, if an error has."""
        if self._failed is not None:
            raise self._failed

    @property
    def results_s(self) -> Floats:
        """When frames with results came, so far."""
        self.check()
        return np.array(self._results_s)

    @property
    def frames(self) -> list[Frame]:
        """All that came, so far."""
        return list(self._frames)

    @property
    def came_s(self) -> Floats:
        """When each of `frames` came."""
        return np.array(self._came_s)

    def ends(self) -> None:
        """Waits until the subscription has ended, as its job has."""
        self._thread.join(END_S)
        self.check()
        if self._thread.is_alive():
            raise Misuse(f"the subscription goes on {END_S:g} s after its job was drained")

    def close(self) -> None:
        """Subscribes no more."""
        self._subscription.close()
        self._thread.join(END_S)


# -- whether it is right --------------------------------------------------------------------------


@dataclass(frozen=True)
class Judged:
    """Results that are not as they should be, in rows."""

    results: int = 0
    """That should have come."""
    lost: int = 0
    duplicated: int = 0
    contradicting: int = 0

    def __add__(self, other: Judged) -> Judged:
        return Judged(
            self.results + other.results,
            self.lost + other.lost,
            self.duplicated + other.duplicated,
            self.contradicting + other.contradicting,
        )

    def rows(self, over: str) -> list[Row]:
        """In the form of a bench."""
        return [
            Row(f"{over}: results compared", self.results, "rows"),
            Row(f"{over}: lost", self.lost, "rows", 0, "<="),
            Row(f"{over}: duplicated", self.duplicated, "rows", 0, "<="),
            Row(f"{over}: contradicting", self.contradicting, "rows", 0, "<="),
        ]


def judge(expected: Iterable[Frame], came: Sequence[Frame]) -> Judged:
    """Compares what came with what should have, up to the last stable that came: both are
    streams of inserts, `expected` of a run that is over.
    """
    stables = [frame.stable for frame in came if frame.stable is not None]
    if not stables:
        raise BadData("no stable has come: nothing of the output is known to be complete")
    until = stables[-1]
    taken_back = sum(len(frame.adjusts) for frame in came)
    right, got = _counted(expected, until, "right"), _counted(came, until, "got")
    columns = right.column_names[:-1]
    both = right.join(got, columns, join_type="full outer")
    n, m = (pc.fill_null(both.column(name), 0).to_numpy() for name in ("right", "got"))
    over = np.maximum(m - n, 0)
    return Judged(
        results=int(n.sum()),
        lost=int(np.maximum(n - m, 0).sum()),
        duplicated=int(over[n > 0].sum()),
        contradicting=int(over[n == 0].sum()) + taken_back,
    )


def _counted(frames: Iterable[Frame], until: int, name: str) -> pa.Table:
    """The different rows that start before `until`, and how often each is there."""
    inserts = [frame.inserts for frame in frames]
    parts = [_rows(frame) for frame in inserts if len(frame)]
    if not parts:
        raise BadData(f"no results to compare among those that are {name}: a longer run has some")
    table = pa.Table.from_batches(parts)
    table = table.filter(pc.less(table.column("_vs"), until))
    counted = table.group_by(table.column_names).aggregate([([], "count_all")])
    return counted.select([*table.column_names, "count_all"]).rename_columns(
        [*table.column_names, name]
    )


def _rows(frame: Frame) -> pa.RecordBatch:
    payload = frame.payload
    return pa.RecordBatch.from_arrays(
        [pa.array(frame.vs), pa.array(frame.ve), *payload.columns],
        ["_vs", "_ve", *payload.schema.names],
    )
