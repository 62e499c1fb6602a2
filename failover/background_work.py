"""Work beside a machine: what takes longer than its pump may be silent, and which part wants the
result.

    do(what, work, then)  -->  Work(7)      the shell has another thread do it
    Done(7, result)       -->  then(result, now) --> effects

A machine goes on meanwhile, so what the work looks at must not change: frames never do, a plan that
is being looked at is left alone.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gapless.failover.replica.effects import Done, ReplicaEffect, Work

Then = Callable[[Any, int], list[ReplicaEffect]]
"""Takes the result, and the time at which it came; what follows from it."""


class BackgroundWork:
    """What one machine has done beside it. There is as much of it as its askers have under way:
    one fold, one snapshot, one base at a time.
    """

    def __init__(self) -> None:
        self._count = 0
        self._then: dict[int, Then] = {}
        self._asked: list[ReplicaEffect] = []

    @property
    def under_way(self) -> int:
        """How much of it has been asked for, and not come back."""
        return len(self._then)

    def do(self, what: str, work: Callable[[], Any], then: Then) -> None:
        """Has something done. It begins once what follows from the present event is done, too."""
        self._count += 1
        self._then[self._count] = then
        self._asked.append(Work(self._count, what, work))

    def asked(self) -> list[ReplicaEffect]:
        """What was asked for since the last call: comes behind what follows from the event."""
        asked, self._asked = self._asked, []
        return asked

    def done(self, event: Done, now: int) -> list[ReplicaEffect]:
        """Hands a result to the part that wants it."""
        then = self._then.pop(event.number, None)
        return [] if then is None else then(event.result, now)
