"""Every checker, one a promise, ready to hear of one run.

    history = History(every(world))         facts go in while the world runs
    {c.name: c.verdict(world) for c in history.checkers}

Each raises `Broken` as soon as it sees its promise broken, most of them at the very fact. Those
that look at the world when all is over come last.
"""

from __future__ import annotations

from gapless.chaos.judge.history import Checker
from gapless.chaos.sim.checkers.checkpoint import CheckpointsAreThere
from gapless.chaos.sim.checkers.converge import Converges
from gapless.chaos.sim.checkers.cut import NothingPastACut
from gapless.chaos.sim.checkers.drain import DrainsWhole
from gapless.chaos.sim.checkers.feedback import FeedbackSkipsNothing
from gapless.chaos.sim.checkers.final import Final
from gapless.chaos.sim.checkers.incarnation import OneIncarnationActs
from gapless.chaos.sim.checkers.inputs import CompatibleWithInputs
from gapless.chaos.sim.checkers.journals import Journals
from gapless.chaos.sim.checkers.memory import MemoryReturns
from gapless.chaos.sim.checkers.prefix import Prefix
from gapless.chaos.sim.checkers.progress import BOUND_MS, LIMITED_BOUND_MS, Progress
from gapless.chaos.sim.checkers.redundancy import NobodyGoesTooSoon
from gapless.chaos.sim.checkers.silence import NoSilentStall
from gapless.chaos.sim.checkers.stable import StableNeverGoesBack
from gapless.chaos.sim.checkers.table import TableInTheEnd
from gapless.chaos.sim.checkers.wanted import Tables
from gapless.chaos.sim.checkers.world import World

READ_ONE_IN = 8
"""Of so many seeds one has its output journals read back in any case."""


def every(world: World, *, slow: bool = False, is_limited: bool = False) -> list[Checker]:
    """New checkers for one run; `world.workload` and `world.expected` are there already.

    `slow` adds the one that compares every durable prefix with all that was taken in.
    `is_limited`: bounds of the product are set to a few rows, frames or bytes.
    """
    work = world.workload
    tables = Tables(world)
    journals = Journals(read_all=slow or world.seed % READ_ONE_IN == 0)
    checkers: list[Checker] = [
        OneIncarnationActs(),
        NobodyGoesTooSoon(world),
        StableNeverGoesBack(),
        FeedbackSkipsNothing(),
        DrainsWhole(),
        CheckpointsAreThere(),
        Prefix(tables, key=work.key),
        Final(tables, insert_only=work.starts_are_final, one_shard=work.shards == 1),
        NothingPastACut(journals),
        TableInTheEnd(tables, journals),
        NoSilentStall(work.shards),
        Progress(
            work.shards, len(work.layouts), bound_ms=LIMITED_BOUND_MS if is_limited else BOUND_MS
        ),
        Converges(),
        MemoryReturns(),
    ]
    if slow:
        checkers.append(CompatibleWithInputs(world.expected.schema, key=work.key))
    return checkers
