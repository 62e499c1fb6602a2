"""While one replica and one path live, output goes on within its bound.

    replicas said      g1    g2   g3        to whichever merger of the shard, first at these times
    sources ended                     INF
    the journal has          g1    g2  g3        INF     each at most BOUND_MS later

Judged are *stretches*: a merger and a replica with an untouched path between them (paths.py), from
when that replica has told this merger as much as any replica has told any merger of the shard, and
holds all that this merger's output needs. What is assumed, and nothing else: what one replica could
say at some time every other that is alive and in step can say BOUND_MS later; sources that have
ended let the output end; supervisor, subscribers, other mergers and other replicas may do what they
like. A replica under a `Hold` or a `Drain` counts no more.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Mapping
from typing import Any

from gapless.chaos.judge.history import Broken, Durable, Recovered, TookIn, Verdict, Written
from gapless.chaos.sim.checkers.paths import Paths, Stretch
from gapless.chaos.sim.checkers.world import World, shard_of
from gapless.failover.messages import Life, Session
from gapless.protocol.elements import BEGIN, INF, format_time

BOUND_MS = 1_500
"""A tick, a read, a message, an append take less than 300 ms in the simulator. The rest is for ten
successive resends: where a tenth of all messages is lost, one run in ten million needs more."""
LIMITED_BOUND_MS = 6 * BOUND_MS
"""Where a bound is one row or a few, each of them is read, sent, acked and appended by itself: what
is there comes out slowly, row after row. Whether it comes at all is for `silence` and `converge`.
"""


class Steps:
    """A value that only grows, by the times at which it did."""

    __slots__ = ("times", "values")

    def __init__(self) -> None:
        self.times: list[int] = []
        self.values: list[int] = []

    def grow(self, now: int, value: int) -> None:
        """It is at least `value` from now on."""
        if not self.values or value > self.values[-1]:
            self.times.append(now)
            self.values.append(value)

    def at(self, now: int) -> int:
        """What it was at a time."""
        i = bisect_right(self.times, now)
        return self.values[i - 1] if i else BEGIN


class Progress:
    """See the module."""

    name = "progress"
    promise = (
        "While one replica, one merger and the way between them live, the output goes on: what a "
        "replica could say is durable within the bound."
    )

    def __init__(self, shards: int, sources: int, bound_ms: int = BOUND_MS) -> None:
        self._bound_ms = bound_ms
        self._paths = Paths()
        self._said = [Steps() for _ in range(shards)]  # by any replica to any merger
        self._could = [Steps() for _ in range(shards)]  # that, and the end once sources have ended
        self._durable: dict[str, Steps] = {}
        self._told: dict[tuple[Life, Life], int] = {}  # by one replica to one merger
        self._in_step: dict[tuple[Life, Life], list[int]] = {}
        self._join_at: dict[tuple[Life, Session], int] = {}
        self._sources_left = sources
        self._ended: set[str] = set()

    def hears(self) -> Mapping[type, Callable[[int, Any], None]]:
        """What is said, what becomes durable of it, and what may keep it from that."""
        return {
            **self._paths.hears(),
            TookIn: self._on_took_in,
            Durable: lambda now, fact: self._on_stable(now, fact.merger.slot, fact.frame.stable),
            Recovered: lambda now, fact: self._on_stable(now, fact.merger.slot, fact.live.stable),
            Written: self._on_written,
        }

    def _on_stable(self, now: int, slot: str, stable: int | None) -> None:
        if stable is not None:
            self._durable_of(slot).grow(now, stable)

    def _durable_of(self, slot: str) -> Steps:
        steps = self._durable.get(slot)
        if steps is None:
            steps = self._durable[slot] = Steps()
        return steps

    def _on_written(self, now: int, fact: Written) -> None:
        """Once all sources have ended there is an end to be said."""
        if fact.stable == INF and fact.source not in self._ended:
            self._ended.add(fact.source)
            if len(self._ended) == self._sources_left:
                for could in self._could:
                    could.grow(now, INF)

    def _on_took_in(self, now: int, fact: TookIn) -> None:
        merger, session = fact.merger, fact.session
        if fact.sequence == 0:
            self._join_at[merger, session] = fact.join_at
        self._paths.on_took_in(now, fact)
        path = (session.life, merger)
        told = self._told.get(path, BEGIN)
        shard = shard_of(merger.slot)
        said = self._said[shard]
        if fact.frame.stable is not None and fact.frame.stable > told:
            told = self._told[path] = fact.frame.stable
            said.grow(now, told)
            self._could[shard].grow(now, told)
        joined = self._join_at.get((merger, session), INF)
        if told >= said.at(now) and joined <= self._durable_of(merger.slot).at(now):
            self._in_step.setdefault(path, []).append(now)

    # -- in the end ---------------------------------------------------------------------------

    def verdict(self, world: World) -> Verdict:
        """Unknown where no path was quiet and in step for as long as the bound, or until all that
        could be said meanwhile was durable.
        """
        judged = False
        for stretch in self._paths.stretches(world.now):
            begin = self._in_step_from(stretch)
            if begin is None:
                continue
            if begin + self._bound_ms <= stretch.end:
                judged = True
                self._judge(stretch, begin)
            else:
                judged |= self._went_on(stretch, begin)
        return Verdict.HOLDS if judged else Verdict.UNKNOWN

    def _in_step_from(self, stretch: Stretch) -> int | None:
        times = self._in_step.get((stretch.replica, stretch.merger), [])
        i = bisect_left(times, stretch.begin)
        return times[i] if i < len(times) and times[i] <= stretch.end else None

    def _went_on(self, stretch: Stretch, begin: int) -> bool:
        """Whether more could be said in a short stretch, and all of it is durable at its end."""
        could = self._could[shard_of(stretch.merger.slot)]
        durable = self._durable_of(stretch.merger.slot).at(stretch.end)
        return durable >= could.at(stretch.end) > could.at(begin)

    def _judge(self, stretch: Stretch, begin: int) -> None:
        """What could be said at some time of the stretch is durable `bound_ms` later."""
        could = self._could[shard_of(stretch.merger.slot)]
        durable = self._durable_of(stretch.merger.slot)
        last = stretch.end - self._bound_ms
        inside = could.times[bisect_right(could.times, begin) : bisect_right(could.times, last)]
        for when in (begin, *inside):
            wanted, got = could.at(when), durable.at(when + self._bound_ms)
            if got < wanted:
                raise Broken(
                    self.name,
                    f"{stretch.replica} and {stretch.merger} were untouched from {stretch.begin} "
                    f"to {stretch.end} ms; at {when} ms stable {format_time(wanted)} could be "
                    f"said, and {self._bound_ms} ms later {format_time(got)} was durable",
                )
