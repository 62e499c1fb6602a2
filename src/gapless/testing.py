"""Public test tools: put a query of yours through failures, in the simulator and on Ray.

    from gapless.testing import drill, simulate

    simulate(talkers, rows)         seeded schedules of faults, virtual time, a second or some
    drill(talkers, rows)            a Ray cluster on this machine, real faults, half a minute

Both take a query and some rows, run a whole job of it (replicas, mergers, subscribers), break what
can break, and hold the output against the answer: what one run of the query without any fault
gives, or what you say with `expected`. Where it is another one they raise `SimulationFailed` or
`DrillFailed`, with the faults that it takes, what led to it, and how to play it again. As fixtures
of pytest they come by themselves (pytest_plugin.py). docs/testing.md is a tutorial.

Two replicas of a query, or two plans for it, are supposed to say the same table. Where there are
streams already, as frames, rehearse: they are merged in many orders, each crashes somewhere but
one, and every step is checked.

    for seed in range(100):
        rehearse([frames_of_plan_a, frames_of_plan_b], seed)

A `TrialFailed` says what went wrong, after which step; the same seed plays it again. Where you have
the table and no streams yet, `tell` makes as many as you like: late, disordered, revised, with
duplicates, each legal by construction. Where you have an operator of your own, feed it those.

    table = random_tdb(random.Random(1), schema, payloads)
    streams = [tell(table, random_telling(random.Random(seed)), seed) for seed in range(3)]

What it takes to be right, from the small to the large:

    Tdb                  the table that a stream describes; strict: it refuses an illegal stream
    compatible           the conditions under which an output can still follow its inputs
    Teller, Trial        inputs that obey feedback; a merger, what comes out, and the checks
    rehearse             one trial of your streams
    run_seed             one trial of drawn streams, with crashes, late joins and feedback
    simulate             jobs of your query, and faults, in the simulator
    drill                a job of your query, and faults, on a real cluster

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
    "run_seed": "gapless.chaos.trials",
    "simulate": "gapless.chaos.sim.simulation",
    "tell": "gapless.protocol.variants",
}
"""Every public name, and the module that it comes from."""

if TYPE_CHECKING:
    from gapless.chaos.drill.outcome import Outcome
    from gapless.chaos.drill.scenario import Scenario
    from gapless.chaos.drill.user_drill import drill
    from gapless.chaos.failed import DrillFailed, SimulationFailed, WrongAnswer
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
