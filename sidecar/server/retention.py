"""What of an output may go: segments that are older, or more, than is wanted kept.

    segments   | 1:00 | 2:00 | base 3:00 | 4:00 |      retain 1 h, stable 4:10: up to 3:10
                 gone   gone   stays

Whole segments go, and none behind the last base, from which a restart and a new subscriber begin. A
subscriber that is behind what goes gets OUT_OF_RANGE. On the thread that writes the journal.
"""

from __future__ import annotations

from gapless.journal.commit import Commits
from gapless.journal.disk import LocalDisk
from gapless.journal.layout import opened
from gapless.journal.retention import Retention, plan, trim
from gapless.protocol.elements import BEGIN, INF
from gapless.protocol.errors import GaplessError
from gapless.protocol.schema import StreamSchema
from gapless.sidecar.server.setup import Setup

TRIM_S = 10.0
"""Between two looks whether something may go: what is kept longer is ten seconds of output."""
_TICKS_PER_S = {"s": 1, "ms": 1000, "us": 1_000_000, "ns": 1_000_000_000}


class OutputTrimmer:
    """Trims the output of one stream."""

    def __init__(self, disk: LocalDisk, setup: Setup, schema: StreamSchema) -> None:
        self._disk = disk
        self._setup = setup
        self._ticks_per_s = _TICKS_PER_S[schema.time_unit]
        self._looked_at: float | None = None

    def is_due(self, now_s: float) -> bool:
        """Whether it is time to look; says so once."""
        if not self._setup.retention.is_wanted:
            return False
        if self._looked_at is None:
            self._looked_at = now_s
        if now_s - self._looked_at < TRIM_S:
            return False
        self._looked_at = now_s
        return True

    def trim(self) -> str | None:
        """Takes away what may go now; says what went wrong. The output does not suffer."""
        try:
            commits = Commits(self._disk, opened(self._disk))
            if not commits.head.bases:
                return None  # nothing may go yet, whatever is wanted
            rules = self._rules(commits.head.stable)
            if plan(commits, rules).rows:
                trim(commits, rules, token=self._setup.token, now_ms=self._setup.wall_ms())
        except (GaplessError, OSError) as e:
            return str(e)
        return None

    def _rules(self, stable: int) -> Retention:
        wanted, before = self._setup.retention, None
        if wanted.seconds is not None and BEGIN < stable < INF:
            before = max(BEGIN, stable - wanted.seconds * self._ticks_per_s)
        return Retention(before=before, keep_bytes=wanted.bytes)
