"""Diverging: what is done where replicas disagree on what none of them can take back.

    on_divergence   two or more odd, or none       one is odd, of three slots or more
    report          an alarm                       an alarm
    stop            an alarm, the job is stopped   an alarm, the job is stopped
    majority        an alarm                       an alarm, the odd one is suspected: replaced

Output that was given never changes. A life that disagrees with the output need not be wrong, for
the output follows the leader, and says what a wrong leader says. So the odd one is not the one that
disagrees: it is the one that is alone with its version while the others, two at least, have all
told another one (LMerge sees it while it has all of them: merge/divergence.py).

    r0.0 leads, says 7    r0.1 says 5, disagrees    r0.2 says 5, disagrees        r0.0 is odd
    r0.0 leads, says 7    r0.1 says 5, disagrees    r0.2 is slow, has no answer   nobody is

The odd one is replaced as any that is suspected, by a successor that has another one's state. One
that disagrees because of what it runs will do so again: each time the slot waits for longer, and in
the end it is given up.
"""

from __future__ import annotations

from typing import NamedTuple

from gapless.failover.job.settings import OnDivergence
from gapless.failover.messages import Life
from gapless.failover.statuses import MergerStatus

DIVERGES = "diverges"
"""The suspicion, in words."""
DIFFER = "replicas differ"
"""A part of every alarm of it."""
SLOTS_MIN = 3
"""Of one shard, for a majority: two lives of one slot have one plan, and maybe one state."""
FORGIVEN_MS = 3_600_000
"""A life that has run for so long before it was the odd one begins its slot's count anew: memory
that flips once a day is no plan that is wrong.
"""


class Consequence(NamedTuple):
    """What follows from a merger's status."""

    alarm: str
    odd: Life | None = None
    """Whom to replace."""
    is_end: bool = False
    """Whether the job is to be stopped."""


def judge(
    on_divergence: OnDivergence, before: MergerStatus | None, status: MergerStatus
) -> Consequence | None:
    """What follows from a merger's status, by the one `before`; None where nothing has come up.

    None before: nobody knows what was made of what it has seen so far.
    """
    if status.divergences <= (before.divergences if before is not None else 0):
        return None
    what = f"{status.life}: {DIFFER}, {status.divergences} times by now"
    if status.samples:
        what += f"; {status.samples[-1].text}"
    if on_divergence == "stop":
        return Consequence(f"{what}. The job is stopped, as it was made to", is_end=True)
    if on_divergence == "report":
        return Consequence(what)
    odd = odd_one(before, status)
    if odd is None:
        return Consequence(
            f"{what}. None is alone against two others that agree: nobody is replaced"
        )
    return Consequence(f"{what}. {odd} is the odd one", odd)


def odd_one(before: MergerStatus | None, status: MergerStatus) -> Life | None:
    """The life that a majority is against, if there is one and only one."""
    if len({input.life.slot for input in status.inputs}) < SLOTS_MIN:
        return None
    was = {} if before is None else {input.life: input.outvoted for input in before.inputs}
    odd = [input.life for input in status.inputs if input.outvoted > was.get(input.life, 0)]
    return odd[0] if len(odd) == 1 else None
