"""Steps: what an effect does, cut where a shell may want another thread, or other work in between.

    Append      write -> sync            threads: both at once, on the thread that writes
    MakeBase    write -> base -> write   simulator: virtual time passes between any two
    ReadTable   scan -> scan -> ...      the scans of other subscribers take their turns in between
    ReadSource  source -> source -> ...  nothing is there yet: another look, or the answer `instead`

An interpreter says what a step does and what follows from it: an event, another step, or nothing.
The shell decides when and where it runs. It keeps the steps of one place in order, one at a time.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, Literal, TypeAlias, TypeVar

from gapless.failover.machines import Event

EventT = TypeVar("EventT", bound=Event)
"""The events of the machine whose effects are interpreted."""
Place = Literal[
    "write", "sync", "base", "read", "scan", "peer", "open", "source", "checkpoint", "work"
]
"""What a step does. Of a merger: appends to the journal, makes what was appended durable, makes a
base, reads for a subscriber, scans a table, reads a peer's output. Of a replica: opens sources or
skips rows of one, reads one, writes, reads or drops a checkpoint, does the machine's own work."""


@dataclass(frozen=True, slots=True)
class Step(Generic[EventT]):
    """A part of what an effect does."""

    place: Place
    do: Callable[[], Outcome[EventT]]
    """Called once. It raises what is a bug, and nothing else."""
    instead: EventT | None = None
    """The answer, where the shell does not want to wait until there is something to be done."""

    def run(self) -> Outcome[EventT]:
        """Does it on this thread, and the sync that follows an append: nothing is to be written
        between the two.
        """
        done = self.do()
        while isinstance(done, Step) and done.place == "sync":
            done = done.do()
        return done

    def finish(self) -> EventT | None:
        """Does it and all that follows, on this thread; never waits."""
        done = self.do()
        while isinstance(done, Step):
            if done.instead is not None:
                return done.instead
            done = done.do()
        return done


Outcome: TypeAlias = EventT | Step[EventT] | None
"""What follows from a step: the answer, the next step, or nothing."""
