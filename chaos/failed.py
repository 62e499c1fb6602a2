"""What `simulate`, `drill` and `replay` raise, told so that a person can mend what is wrong."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from gapless.engine.comparison import same_query
from gapless.protocol.errors import BadData

if TYPE_CHECKING:
    from gapless.chaos.drill.outcome import Outcome
    from gapless.chaos.sim.simulator import SimResult
    from gapless.engine.plan import Plan


class SimulationFailed(BadData):
    """A query's output, under simulated faults, is not its answer. The message has all that is
    known.

    `result` is the run with the fewest first faults that fails, `seed` its seed, `faults` how many
    of the seed's faults struck, `replay` the call that runs it again.
    """

    def __init__(self, problem: str, result: SimResult, replay: str) -> None:
        super().__init__(problem)
        self.result = result
        self.seed = result.seed
        self.faults = len(result.told_faults)
        self.replay = replay


class DrillFailed(BadData):
    """A query's output, under faults of a real cluster, is not its answer; or something else that
    had to hold did not.

    `outcome` says what held and what did not, `report` is the page with the timeline.
    """

    def __init__(self, problem: str, outcome: Outcome, report: Path) -> None:
        super().__init__(problem)
        self.outcome = outcome
        self.report = report


class ReplayFailed(BadData):
    """A machine, given again what a flight record holds, raises an error. The message has the chain
    of its causes.
    """


class WrongAnswer(BadData):
    """No fault was needed: the query, run once, gives another table than another plan of it, or
    than what was expected.
    """


def told_suspects(plans: Mapping[str, Plan]) -> Iterator[str]:
    """What plans themselves say that they may answer in two ways, a line each; none where nothing
    is known.
    """
    found = [each for plan in plans.values() for each in plan.query.properties.may_diverge]
    first = next(iter(plans.values()))
    if not all(same_query(first.query, plan.query) for plan in plans.values()):
        found.append(f"plans {', '.join(plans)}: that they have one table is your word")
    if found:
        yield "what of the query may differ from replica to replica:"
        yield from (f"  {each}" for each in dict.fromkeys(found))
