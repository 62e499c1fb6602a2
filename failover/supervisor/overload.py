"""Strain: whether it is the machines that are slow, and not the lives on them.

    own ticks come late           the supervisor itself is starved, so statuses reach it late
    nearly all lives are late     they have nothing in common but the machines
    one given up reports again    the last suspicions were wrong

Any of these is a sign, and holds for a while. As long as one holds nobody is suspected for being
slow, unless it has been silent for `hang_max_ms`: replacing what is slow makes all slower. What is
dead is reported by its shell, and is replaced as usual.
"""

from __future__ import annotations

from collections.abc import Iterable

from gapless.failover.supervisor.patience import Patience
from gapless.failover.supervisor.slots import Known
from gapless.failover.timing import Timing

LATE_HEARTBEATS = 4
"""A life is late after so many: well before it would be suspected."""
TOGETHER_MIN = 2
"""Lives, of which nearly all are late: of one alone nothing follows."""
TOGETHER_OF_FOUR = 3
"""Of four lives, so many count as nearly all: a node that hangs holds fewer of a job's lives."""
LATE_TICKS = 3
"""Own ticks are late if they come at so many times their interval."""
CALM_HANGS = 2
"""How long a sign holds, in `hang_ms`: by then a late life has spoken, or is late again."""
ALARM_HANGS = 4
"""How long the strain lasts before an alarm is raised: a hiccup needs none."""
ALARMS_APART_MS = 60_000
"""Between two alarms about it: it may last for hours."""


class Strain:
    """How the machines of a job seem to one supervisor."""

    def __init__(self, timing: Timing) -> None:
        self._timing = timing
        self._ticks = Patience()
        self._usual_ms = 0  # between two ticks, at best
        self._until = 0
        self._since: int | None = None
        self._told_at: int | None = None
        self._late = self._lives = 0

    def tick(self, slept_ms: int, lives: Iterable[Known], now: int) -> None:
        """Looks for signs. `slept_ms`: since the tick before."""
        if slept_ms > 0:
            self._ticks.heard(slept_ms)
            self._usual_ms = min(self._usual_ms or slept_ms, slept_ms)
        late_ms = LATE_HEARTBEATS * self._timing.heartbeat_ms
        silences = [now - known.heard_at for known in lives if known.state != "starting"]
        self._lives = len(silences)
        self._late = sum(silence >= late_ms for silence in silences)
        together = self._late >= TOGETHER_MIN and 4 * self._late >= TOGETHER_OF_FOUR * self._lives
        if together or self._ticks_late():
            self.sign(now)
        elif now >= self._until:
            self._since = None

    def sign(self, now: int) -> None:
        """One more sign."""
        self._until = max(self._until, now + CALM_HANGS * self._timing.hang_ms)
        if self._since is None:
            self._since = now

    def lasts(self, now: int) -> bool:
        """Whether the machines are strained."""
        return now < self._until

    def alarm(self, now: int, lost: int, taken: int, needless: int, *, rationed: bool) -> str:
        """The text of the alarm; empty where there is none. `lost`: lives that are over,
        `taken`: those of them that were replaced on suspicion, `needless`: how often one that was
        suspected reported again; `rationed`: whether a life waits for its replacement.
        """
        since = self._since
        lasts = since is not None and now - since >= ALARM_HANGS * self._timing.hang_ms
        if not lasts and not rationed:
            return ""
        if self._told_at is not None and now - self._told_at < ALARMS_APART_MS:
            return ""
        self._told_at = now
        figures = (
            f"{lost} lives are over so far, {taken} of them were replaced for being slow or "
            f"silent, {needless} that were suspected spoke again; {self._late} of {self._lives} "
            f"lives are late now, own ticks come every {self._ticks.mean_ms} ms"
        )
        if rationed or taken:
            return f"replicas keep restarting: overloaded? {figures}. No more are replaced for now"
        return f"the machines are overloaded: {figures}. Nobody is replaced for being slow"

    def _ticks_late(self) -> bool:
        usual_ms = max(self._timing.heartbeat_ms, LATE_TICKS * self._usual_ms)
        return self._ticks.mean_ms >= usual_ms
