"""Steps: what an effect does, cut where a shell may want another thread, or other work in between.

    Append    write -> sync            threads: both at once, on the thread that writes
    MakeBase  write -> base -> write   simulator: virtual time passes between any two
    ReadTable scan -> scan -> ...      the scans of other subscribers take their turns in between

An interpreter says what a step does and what follows from it: an event, another step, or nothing.
The shell decides when and where it runs. It keeps the steps of one place in order, one at a time.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from gapless.failover.effects import MergerEvent

Place = Literal["write", "sync", "base", "read", "scan", "peer"]
"""What a step does: appends to the journal, makes what was appended durable, makes a base, reads
for a subscriber, scans a table, reads a peer's output."""


@dataclass(frozen=True, slots=True)
class Step:
    """A part of what an effect does."""

    place: Place
    do: Callable[[], Outcome]
    """Called once. It raises what is a bug, and nothing else."""

    def run(self) -> Outcome:
        """Does it on this thread, and the sync that follows an append: nothing is to be written
        between the two.
        """
        done = self.do()
        while isinstance(done, Step) and done.place == "sync":
            done = done.do()
        return done

    def finish(self) -> MergerEvent | None:
        """Does it and all that follows, on this thread."""
        done = self.do()
        while isinstance(done, Step):
            done = done.do()
        return done


Outcome = MergerEvent | Step | None
"""What follows from a step: the answer, the next step, or nothing."""
