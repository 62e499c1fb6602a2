"""Public test tools: test a query of yours under failures, in the simulator and on Ray.

    from gapless.testing import drill, simulate

    simulate(talkers, rows)         seeded schedules of faults, virtual time, a second or two
    drill(talkers, rows)            a Ray cluster on this machine, real faults, half a minute

Both take a query and some rows, run it as a whole job (replicas, mergers, subscribers), inject
faults, and compare the output with the answer: that of one run without faults, or `expected`. If
they differ, they raise `SimulationFailed` or `DrillFailed` with the faults needed, the causes, and
the command that replays it. In pytest they are fixtures (pytest_plugin.py). docs/testing.md is a
tutorial.

Two replicas or plans of a query must describe the same table. If you have their streams as frames,
rehearse: the streams are merged in many orders, all but one crash somewhere, and every step is
checked.

    for seed in range(100):
        rehearse([frames_of_plan_a, frames_of_plan_b], seed)

A `TrialFailed` says what went wrong after which step; the same seed replays it. If you have a table
but no streams, `tell` makes them: late, disordered, revised, with duplicates, each legal by
construction. Feed them to an operator of your own, too.

    table = random_tdb(random.Random(1), schema, payloads)
    streams = [tell(table, random_telling(random.Random(seed)), seed) for seed in range(3)]

The tools, from small to large:

    Tdb                  the table that a stream describes; strict: it refuses an illegal stream
    compatible           the conditions under which an output can still follow its inputs
    Teller, Trial        inputs that obey feedback; a merger, its output, and the checks
    rehearse             one trial of your streams
    run_seed             one trial of drawn streams, with crashes, late joins and feedback
    simulate             jobs of your query, and faults, in the simulator
    drill                a job of your query, and faults, on a real cluster
    replay               a flight record of a job's life: what went wrong once, as a test

Names are loaded when they are first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

_HOMES = {
    "Breach": "gapless.merge.compatible",
    "DrillFailed": "gapless.chaos.failed",
    "Event": "gapless.protocol.tdb",
    "Incompatible": "gapless.merge.compatible",
    "Merging": "gapless.chaos.trials",
    "Outcome": "gapless.chaos.drill.outcome",
    "ReplayFailed": "gapless.chaos.failed",
    "Scenario": "gapless.chaos.drill.scenario",
    "Simulated": "gapless.chaos.sim.simulation",
    "SimulationFailed": "gapless.chaos.failed",
    "Tdb": "gapless.protocol.tdb",
    "Teller": "gapless.chaos.tellers",
    "Telling": "gapless.protocol.variants",
    "Trial": "gapless.chaos.trials",
    "TrialFailed": "gapless.chaos.trials",
    "WrongAnswer": "gapless.chaos.failed",
    "check_compatible": "gapless.merge.compatible",
    "compatible": "gapless.merge.compatible",
    "drill": "gapless.chaos.drill.user_drill",
    "random_tdb": "gapless.protocol.variants",
    "random_telling": "gapless.protocol.variants",
    "rehearse": "gapless.chaos.trials",
    "replay": "gapless.chaos.replayed",
    "run_seed": "gapless.chaos.trials",
    "simulate": "gapless.chaos.sim.simulation",
    "tell": "gapless.protocol.variants",
}
"""Every public name, and the module that it comes from."""

if TYPE_CHECKING:
    from gapless.chaos.drill.outcome import Outcome
    from gapless.chaos.drill.scenario import Scenario
    from gapless.chaos.drill.user_drill import drill
    from gapless.chaos.failed import DrillFailed, ReplayFailed, SimulationFailed, WrongAnswer
    from gapless.chaos.replayed import replay
    from gapless.chaos.sim.simulation import Simulated, simulate
    from gapless.chaos.tellers import Teller
    from gapless.chaos.trials import (
        Merging,
        Trial,
        TrialFailed,
        rehearse,
        run_seed,
    )
    from gapless.merge.compatible import Breach, Incompatible, check_compatible, compatible
    from gapless.protocol.tdb import Event, Tdb
    from gapless.protocol.variants import Telling, random_tdb, random_telling, tell

__all__ = [
    "Breach",
    "DrillFailed",
    "Event",
    "Incompatible",
    "Merging",
    "Outcome",
    "ReplayFailed",
    "Scenario",
    "Simulated",
    "SimulationFailed",
    "Tdb",
    "Teller",
    "Telling",
    "Trial",
    "TrialFailed",
    "WrongAnswer",
    "check_compatible",
    "compatible",
    "drill",
    "random_tdb",
    "random_telling",
    "rehearse",
    "replay",
    "run_seed",
    "simulate",
    "tell",
]


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"gapless.testing has no public name {name!r}")
    value = getattr(import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOMES])
