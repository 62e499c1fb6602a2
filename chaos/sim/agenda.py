"""What happens next in a simulated run, and which step follows from which.

    at(30, deliver, m)         an entry: at 30 ms, the 7th that was put in, caused by step 12
    go_on()                    the earliest entry; of one time the one that was put in first
    begin_step("r0.1", m)      step 13, which follows from 12; what is put in now follows from 13
    causes()                   step 4, 12, 13: the chain that led to what happens now

Time is virtual: it is that of the entry that happens. Nothing here is drawn, so the same entries
always make the same run.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from typing import Any

from gapless.chaos.judge.history import Broken
from gapless.chaos.sim.story import HEADER, told_step
from gapless.failover.effects import Tick

STEPS_MAX = 100_000
"""Many times what a good run takes: of the seeds 0 to 299 the longest takes 2,131."""
CAUSES_MAX = 40
"""Of a chain of causes, the last ones."""

Step = tuple[int, str, Any, int]
"""When, in which process, which event (or a note), and the step that it follows from."""
BY_TIME = -1
"""The cause of what follows from nothing but time."""


class Agenda:
    """The entries that are still to happen, and the steps that have."""

    def __init__(self) -> None:
        self.now = 0
        """Virtual milliseconds."""
        self.steps: list[Step] = []
        self.scheduled = 0
        """How many entries there were."""
        self.is_stopped = False
        """Whether nothing happens any more."""
        self._entries: list[tuple[int, int, int, Callable[..., None], tuple[Any, ...]]] = []
        self._cause = BY_TIME
        self._failure: Exception | None = None  # while a process stood in the middle of something

    # -- entries ------------------------------------------------------------------------------

    def at(self, when: int, call: Callable[..., None], *args: Any) -> None:
        """Lets something happen at a time, as a consequence of what happens now."""
        self.scheduled += 1
        heapq.heappush(self._entries, (when, self.scheduled, self._cause, call, args))

    def go_on(self) -> None:
        """What is next. Raises `Broken` in a run that does not come to its end."""
        if len(self.steps) > STEPS_MAX:
            raise Broken("progress", f"{STEPS_MAX} steps and no end")
        self.now, _, self._cause, call, args = heapq.heappop(self._entries)
        call(*args)

    def go_on_until(self, when: int) -> None:
        """All but the process that has stopped goes on, to some time. What fails meanwhile has
        nothing to do with what that process was doing, and does not go through its code.
        """
        cause = self._cause
        try:
            while not self.is_stopped and self._entries[0][0] < when:
                self.go_on()
        except Exception as e:  # noqa: BLE001  # it is raised when the process has been left
            self._failure = e
            self.stop()
        self.now, self._cause = (self.now if self.is_stopped else when), cause

    def stop(self) -> None:
        """Nothing happens any more."""
        self.is_stopped = True

    def raise_failure(self) -> None:
        """Raises what has failed while a process stood in the middle of something."""
        if self._failure is not None:
            raise self._failure

    # -- steps --------------------------------------------------------------------------------

    def begin_step(self, name: str, event: Any) -> None:
        """An event reaches a process; all that happens until the next one follows from it."""
        if type(event) is Tick:  # that time passes is no step, and has no cause
            self._cause = BY_TIME
            return
        self.steps.append((self.now, name, event, self._cause))
        self._cause = len(self.steps) - 1

    def by_time(self) -> None:
        """What happens now follows from nothing but time."""
        self._cause = BY_TIME

    def note(self, what: Any) -> None:
        """Something for the trace that is not an event."""
        self.steps.append((self.now, "", what, self._cause))

    def causes(self) -> list[str]:
        """The steps that led to what happens now, the first of them first; to the last one, where
        that follows from time alone.
        """
        chain: list[int] = []
        step = len(self.steps) - 1 if self._cause == BY_TIME else self._cause
        while step != BY_TIME and len(chain) < CAUSES_MAX:
            chain.append(step)
            step = self.steps[step][3]
        return [told_step(*self.steps[i][:3]) for i in reversed(chain)]

    def trace(self) -> list[str]:
        """Everything that happened except for the passing of time, a line each."""
        return [HEADER, *(told_step(*step[:3]) for step in self.steps)]
