"""What the program of a subscriber holds, by what it was handed and by what it kept of it.

    handed   Emit 1   Emit 2   Emit 3        the program dies; it had kept the tokens of Emit 2
    holds    1, 2                            and begins again with them: Emit 3 never was

A program keeps what it holds and its tokens as one. So after it has begun again it holds what it
had been handed up to those tokens, and everything it is owed must come behind them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from gapless.chaos.judge.history import Emitted, Resumed
from gapless.protocol.elements import BEGIN


@dataclass(slots=True)
class Program:
    """One subscriber's program."""

    deliver: Literal["changes", "final"] = "changes"
    owed_since: int | None = BEGIN
    """It was to get everything that may still change from here on; None: from "now" on."""
    log: list[Emitted] = field(default_factory=list)
    """All that it was handed, and has kept."""
    resumes: int = 0
    """How often it has begun again."""

    def resume(self, fact: Resumed) -> bool:
        """It begins (again); whether it has lost something that it was handed."""
        self.deliver = fact.deliver
        self.owed_since = fact.since
        handed = len(self.log)
        if fact.tokens is None:
            self.log.clear()
        else:
            self.resumes += 1
            while self.log and self.log[-1].tokens != fact.tokens:
                self.log.pop()
        return len(self.log) < handed

    @property
    def stable(self) -> int:
        """The largest stable that it was handed."""
        stables = [f.frame.stable for f in self.log if f.frame.stable is not None]
        return max(stables, default=BEGIN)


class Programs(dict[str, Program]):
    """The programs of a run, by their names."""

    def __missing__(self, name: str) -> Program:
        program = self[name] = Program()
        return program
