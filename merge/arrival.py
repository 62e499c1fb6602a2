"""What a policy lets go out as it arrives, before any stable settles it.

    input    0    1          policy insert="leading": only what the input that has promised most
    stable   7   11          inserts; a frame of input 0 is counted, and nothing of it goes out

A `Favour` is asked for each frame that has rows. Most policies give the same one to all.
"""

from __future__ import annotations

from gapless.merge.case import Case, Favour
from gapless.merge.membership import Input, Membership
from gapless.merge.policy import Policy, Quorum
from gapless.protocol.frame import Frame


class Arrival:
    """A policy, over the inputs that are attached."""

    def __init__(self, policy: Policy, members: Membership) -> None:
        self._policy = policy
        self._members = members
        self._is_alike = policy.adjust != "leading" and (
            policy.insert == "first" or isinstance(policy.insert, Quorum)
        )
        self._follows_all = Favour(insert=True, adjust=policy.adjust == "at_once")

    def highest(self, entry: Input, frame: Frame) -> int:
        """The largest start that an input has inserted once it has sent a frame, where that
        matters.
        """
        if self._policy.insert != "highest_insert":
            return entry.highest
        starts = frame.vs[frame.is_insert]
        return max(entry.highest, int(starts.max())) if len(starts) else entry.highest

    def favour(self, entry: Input, highest: int, case: Case) -> Favour:
        """What the policy allows the rows of a frame of `entry`, which make `highest` its own."""
        if self._is_alike:
            return self._follows_all
        policy, others = self._policy, self._members.attached
        match policy.insert:
            case "first" | Quorum():
                insert = True
            case "leading":
                insert = self._leads(entry)
            case "highest_insert":
                insert = all(highest >= o.highest for o in others.values() if o is not entry)
            case "most_unfrozen":
                mine = case.unfrozen(entry.number)
                insert = all(mine >= case.unfrozen(n) for n in others)
            case _:
                insert = False
        adjust = policy.adjust == "at_once" or (policy.adjust == "leading" and self._leads(entry))
        return Favour(insert, adjust)

    def _leads(self, entry: Input) -> bool:
        return all(entry.stable >= other.stable for other in self._members.attached.values())
