"""What happens when things die, at 50,000 events/s: strikes of each kind, and what each one costs.

    fine      1 row in 100 passes a filter: a result every 10 ms, so that short pauses show
    windows   W1: an answer every 200 ms, for the feed's event time runs five times as fast as ours

    section   query     mergers  strikes
    kills     fine      2        a replica, one of two mergers, a stopped replica, the root
    row       fine      2        the same replica, merger, stopped replica and root again and again
    merger    fine      1        the only merger
    windows   W1        1        a replica, all replicas at once
    nodes     W1        2        a whole node of three: its raylet and all its workers

Before the first strike each job runs undisturbed; the bar of the pauses comes of the longest one
then. Strikes of a kind follow each other as soon as the job is whole again and has new spares;
those in succession, at one slot, every two seconds. The victim gets SIGKILL, or SIGSTOP, from
here, without any word to the job before.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from gapless.actors.views import JobView
from gapless.bench.harness import Context, Row
from gapless.bench.netflow import RANGE_MS, SLIDE_MS
from gapless.bench.runtime_feed import feed_source
from gapless.bench.runtime_pauses import Account, Bars, Outcome, pause_bar_s, rows_of
from gapless.bench.runtime_run import REPLICAS, Run, Target, is_whole, running, signals
from gapless.engine.query import Query
from gapless.failover.messages import Life
from gapless.operators.aggregates import count, sum_
from gapless.protocol.errors import JobError
from gapless.protocol.expr import col

UNDISTURBED_S = 80.0
"""A run without strikes, as long as 20 strikes are looked at: four seconds each, until all is back
and spares are there. In half of that a machine shows fewer of its own pauses than in the strikes.
"""
QUICK_UNDISTURBED_S, QUICK_KILLS = 5.0, 2
MERGER_PAUSE_S = 0.15
"""One of two mergers: readers of both hear the other one."""
ONLY_MERGER_S, ALL_S = 1.5, 5.0
"""The bars of the pause at the death of the only merger, and of all replicas at once."""
WHOLE_S, STOPPED_S, ROOT_S, NODE_S = 1.5, 2.0, 2.5, 3.0
"""The bars of being whole again after a death, of a stopped replica's replacement, of a root's
adopting, and of being whole again after a node's loss.
"""
EVERY_S = 2.0
"""Between two successive strikes, where the job is whole again by then; else as soon as it is."""
FULL = "full redundancy"
ONE_IN = 100

Strike = Callable[[Run, int], Outcome]
"""Strikes for the i-th time."""


def fine() -> Query:
    """A result of each hundredth row, as soon as it is read."""
    return feed_source().where(col("id") % ONE_IN == 0)


def windows() -> Query:
    """W1 over the feed."""
    grouped = feed_source().window(range=RANGE_MS, slide=SLIDE_MS).group_by("src")
    return grouped.aggregate(n=count(), bytes=sum_("len"))


# -- strikes --------------------------------------------------------------------------------------


def in_slots(view: JobView, slots: Sequence[str]) -> frozenset[Life]:
    """The lives in these slots. Raises `JobError` where one is empty."""
    lives = {state.slot: state.life for state in view.state.slots}
    found = frozenset(life for slot in slots if (life := lives.get(slot)) is not None)
    if len(found) != len(slots):
        raise JobError(f"of {', '.join(slots)} only {len(found)} run: strike when all are back")
    return found


def replica(run: Run, i: int) -> Outcome:
    """Kills one replica, each in turn, so the one that leads as well."""
    return _signalled(run, f"r0.{i % REPLICAS}", signal.SIGKILL)


def merger(run: Run, i: int) -> Outcome:
    """Kills a merger, each in turn."""
    return _signalled(run, f"m0.{i % run.job.status().desired.mergers}", signal.SIGKILL)


def stopped(run: Run, i: int) -> Outcome:
    """Stops a replica: its connections stand, and it says nothing. Back is when another one is in
    its place, and it can carry the output.
    """
    return _signalled(run, f"r0.{i % REPLICAS}", signal.SIGSTOP)


def _signalled(run: Run, slot: str, sign: signal.Signals) -> Outcome:
    view = run.job.status()
    return run.strike(signals(view, in_slots(view, [slot]), sign))


def in_a_row(strike: Strike) -> Strike:
    """The same one again and again, every `EVERY_S`."""

    def again(run: Run, i: int) -> Outcome:  # noqa: ARG001  # always the first
        with run.every(EVERY_S):
            return strike(run, 0)

    return again


def everyone(run: Run, i: int) -> Outcome:  # noqa: ARG001  # every strike is the same
    """Kills all replicas at once."""
    view = run.job.status()
    slots = [f"r0.{index}" for index in range(REPLICAS)]
    return run.strike(signals(view, in_slots(view, slots), signal.SIGKILL))


def root(run: Run, i: int) -> Outcome:  # noqa: ARG001  # every strike is the same
    """Kills the root. Back is when another one has found and adopted all lives."""
    view = run.job.status()
    target = signals(view, frozenset(), signal.SIGKILL, view.root.pid)

    def is_adopted(now: JobView) -> bool:
        is_new = now.state.term > view.state.term and not now.state.is_adopting
        return is_new and is_whole(now)

    return run.strike(target, is_adopted)


def node(run: Run, i: int) -> Outcome:  # noqa: ARG001  # which one depends on who runs where
    """Kills a node that runs replicas, the one with the fewest; then another one joins. The node
    with the cluster's directory stays: without that Ray starts nothing.
    """
    view = run.job.status()
    by_name = {
        run.nodes.name_of(host.node): host.node
        for life, host in view.hosts.items()
        if life.slot.startswith("r")
    }
    replicas = [host.node for life, host in view.hosts.items() if life.slot.startswith("r")]
    there = [name for name in by_name if name not in ("", run.nodes.head)]
    if not there:
        raise JobError("all replicas run on the head node, which is not to be killed")
    name = min(there, key=lambda each: (replicas.count(by_name[each]), each))
    gone = frozenset(life for life, host in view.hosts.items() if host.node == by_name[name])
    outcome = run.strike(Target(gone, lambda: run.nodes.kill(name)))
    run.nodes.add()
    run.settle()
    return outcome


# -- sections -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Drill:
    """Strikes of one kind."""

    what: str
    strike: Strike
    bars: Callable[[float], Bars]
    """Of the longest undisturbed pause."""


def _as_replica(back_s: float, back: str = FULL) -> Callable[[float], Bars]:
    return lambda undisturbed_s: Bars(pause_bar_s(undisturbed_s), back_s, back)


def _fixed(pause_s: float, back_s: float | None) -> Callable[[float], Bars]:
    return lambda _: Bars(pause_s, back_s, FULL)


KILLS = (
    Drill("replica killed", replica, _as_replica(WHOLE_S)),
    Drill("one of two mergers killed", merger, _fixed(MERGER_PAUSE_S, WHOLE_S)),
    Drill("replica stopped", stopped, _as_replica(STOPPED_S, "replaced")),
    Drill("root killed", root, _as_replica(ROOT_S, "adopted again")),
)
ROW = tuple(
    Drill(f"{drill.what} every {EVERY_S:g} s", in_a_row(drill.strike), drill.bars)
    for drill in KILLS
)
MERGER = (Drill("the only merger killed", merger, _fixed(ONLY_MERGER_S, WHOLE_S)),)
WINDOWS = (
    Drill("replica killed", replica, _as_replica(WHOLE_S)),
    Drill("all replicas killed at once", everyone, _fixed(ALL_S, None)),
)
NODES = (Drill("node killed, 1 of 3", node, _as_replica(NODE_S)),)


def measure_kills(context: Context, account: Account) -> Iterator[Row]:
    """Strikes at a job of fine results, with two mergers."""
    yield from _measure("filter", fine(), KILLS, context, account, mergers=2)


def measure_row(context: Context, account: Account) -> Iterator[Row]:
    """Strikes at one slot of such a job, again and again."""
    yield from _measure("filter, one slot", fine(), ROW, context, account, mergers=2)


def measure_merger(context: Context, account: Account) -> Iterator[Row]:
    """The same job with one merger, which is killed."""
    yield from _measure("filter", fine(), MERGER, context, account, mergers=1)


def measure_windows(context: Context, account: Account) -> Iterator[Row]:
    """Strikes at W1, whose replicas have windows to get back."""
    yield from _measure("W1", windows(), WINDOWS, context, account, mergers=1)


def measure_nodes(context: Context, account: Account) -> Iterator[Row]:
    """W1 on three nodes, which are killed one after the other."""
    yield from _measure("W1 on 3 nodes", windows(), NODES, context, account, mergers=2, nodes=3)


def _measure(
    on: str,
    query: Query,
    drills: Sequence[Drill],
    context: Context,
    account: Account,
    *,
    mergers: int,
    nodes: int = 1,
) -> Iterator[Row]:
    kills = min(context.kills, QUICK_KILLS) if context.quick else context.kills
    on = f"{on}, {mergers} merger{'s' if mergers > 1 else ''}"
    with running(query, mergers=mergers, nodes=nodes) as run:
        quiet_s = run.quiet(QUICK_UNDISTURBED_S if context.quick else UNDISTURBED_S)
        yield Row(f"{on}: longest pause undisturbed", 1000 * quiet_s, "ms")
        for drill in drills:
            context.say(f"{on}: {drill.what}, {kills} times")
            outcomes = [drill.strike(run, i) for i in range(kills)]
            yield from rows_of(f"{on}: {drill.what}", outcomes, drill.bars(quiet_s))
        fed = run.end()
        yield Row(f"{on}: events fed", fed.rate(), "events/s")
        yield Row(f"{on}: the feeder's own longest delay", fed.longest_delay_ms(), "ms")
        context.say(f"{on}: comparing all results")
        account.add(on, run.judge())
