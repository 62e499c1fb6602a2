"""The runtime on Ray against its bars: what a job does when something dies, and how fast it is.

    section     minutes   what                                                    module
    kills          7      replica, merger, stopped replica, root                  runtime_kills
    row            6      one slot's again and again, every two seconds           runtime_kills
    merger         2      the only merger                                         runtime_kills
    windows        4      replicas of W1, one and all at once                     runtime_kills
    nodes          4      a node of three                                         runtime_kills
    latency        2      row to result                                           runtime_latency
    throughput     2      events/s of W1, CPU of merging                          runtime_throughput
    pace           3      plans with a cost for each call                         runtime_pace
    spares         2      what the boot of a process costs                        runtime_spares
    takeover       1      what a merger reads before it merges                    runtime_takeover
    figures        3      bursts, congestion, two plans: figures 7 to 9           runtime_figures
    jumpstart      4      a day of state back, from a peer and by replay          runtime_jumpstart
    large          5      ten million live rows, a replica killed                 runtime_large
    peers          2      Flink with its worker killed, with --with-peers         peers/recovery

`gapless bench runtime --only kills --kills 5` looks at some of it; bars are for 20 strikes of each
kind, as by default. Whatever came to subscribers and was written meanwhile is compared with the
answer recomputed, row by row, and comes last: over all faults none lost, none twice, none wrong.

    runtime_feed.py     the process that feeds, and its stamps
    runtime_run.py      a job that is fed and watched
    runtime_pauses.py   what a pause is, and its bar

All of it is on one machine, with its cores for the feeder, Ray, three replicas, mergers and the
subscriber: what a figure says of a cluster is at best a bound from above.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from gapless.bench.harness import Context, Row, wanted
from gapless.bench.runtime_figures import (
    measure_bursts,
    measure_congestion,
    measure_switching,
)
from gapless.bench.runtime_jumpstart import measure_jumpstart
from gapless.bench.runtime_kills import (
    measure_kills,
    measure_merger,
    measure_nodes,
    measure_row,
    measure_windows,
)
from gapless.bench.runtime_large import measure_large
from gapless.bench.runtime_latency import measure_latency
from gapless.bench.runtime_pace import measure_pace
from gapless.bench.runtime_pauses import Account
from gapless.bench.runtime_run import RATE
from gapless.bench.runtime_spares import measure_spares
from gapless.bench.runtime_takeover import measure_takeover
from gapless.bench.runtime_throughput import measure_throughput

SUMMARY = "The runtime on Ray: pauses when things die, latency, throughput, the paper's figures"

PEER_SECONDS, PEER_KILL_S = 30.0, 10.0
"""Of Flink's stream, and when its worker is killed."""

Measure = Callable[[Context, Account], Iterator[Row]]
"""One section: rows, and what its judges found to the account."""


@dataclass(frozen=True)
class Section:
    """A part of this bench that can be run by itself."""

    about: str
    minutes: int
    """That it takes on two cores, with 20 strikes of each kind."""
    measure: Measure


def judging_itself(*parts: Callable[[Context], Iterator[Row]]) -> Measure:
    """A section of parts that compare their own answers, and have nothing for the account."""

    def measure(context: Context, account: Account) -> Iterator[Row]:  # noqa: ARG001  # see above
        for part in parts:
            yield from part(context)

    return measure


def measure_peers(context: Context) -> Iterator[Row]:
    """W1 on Flink, tuned and as it comes, whose worker is killed."""
    from gapless.bench.peers.environments import Environments, work_dir
    from gapless.bench.peers.flink_cluster import Conf
    from gapless.bench.peers.recovery import flink_recovery, lines

    environments = Environments(work_dir(), context.say)
    confs: tuple[Conf, ...] = ("tuned", "default")
    for conf in confs:
        recovery = flink_recovery(
            environments,
            rate=RATE,
            seconds=PEER_SECONDS,
            kill_at_s=PEER_KILL_S,
            conf=conf,
            say=context.say,
        )
        yield from lines([recovery])


SECTIONS: Mapping[str, Section] = MappingProxyType(
    {
        "kills": Section("a replica, a merger, a stopped replica, the root", 7, measure_kills),
        "row": Section("one slot's, struck again and again", 6, measure_row),
        "merger": Section("the only merger", 2, measure_merger),
        "windows": Section("replicas of W1, one and all at once", 4, measure_windows),
        "nodes": Section("a node of three, with all that runs there", 4, measure_nodes),
        "latency": Section("from a row to its result", 2, measure_latency),
        "throughput": Section("events/s, CPU of merging", 2, judging_itself(measure_throughput)),
        "pace": Section("plans with a cost for each call", 3, judging_itself(measure_pace)),
        "spares": Section("the boot of a process", 2, measure_spares),
        "takeover": Section("a merger's output", 1, judging_itself(measure_takeover)),
        "figures": Section(
            "bursts, congestion, two plans",
            3,
            judging_itself(measure_bursts, measure_congestion, measure_switching),
        ),
        "jumpstart": Section("a day of state back", 4, judging_itself(measure_jumpstart)),
        "large": Section("many live rows, a replica killed", 5, judging_itself(measure_large)),
        "peers": Section("Flink, its worker killed", 2, judging_itself(measure_peers)),
    }
)


def run(context: Context) -> Iterator[Row]:
    """The sections that are wanted, then the account of all of them."""
    yield from measured(context, SECTIONS)


def measured(context: Context, sections: Mapping[str, Section]) -> Iterator[Row]:
    """Runs sections of these."""
    account = Account()
    chosen = wanted(context, sections)
    minutes = sum(sections[name].minutes for name in chosen)
    context.say(f"{', '.join(chosen)}: {minutes} minutes with 20 strikes of each kind")
    for name in chosen:
        context.say(f"{name}: {sections[name].about}")
        yield from sections[name].measure(context, account)
    for wrong in account.wrong:
        context.say(wrong)
    yield from account.rows()
