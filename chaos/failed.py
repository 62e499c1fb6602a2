"""What `simulate` raises: an answer that does not survive, told so that a person can mend it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gapless.protocol.errors import BadData

if TYPE_CHECKING:
    from gapless.chaos.simulator import SimResult


class SimulationFailed(BadData):
    """A query's output, under faults, is not its answer. The message has all that is known.

    `result` is the run with the fewest first faults that fails, `seed` its seed, `replay` the call
    that runs it again.
    """

    def __init__(self, problem: str, result: SimResult | None = None, replay: str = "") -> None:
        super().__init__(problem)
        self.result = result
        self.seed = None if result is None else result.seed
        self.replay = replay


class WrongAnswer(SimulationFailed):
    """No fault was needed: the query, run once, gives another table than another plan of it, or
    than what was expected.
    """
