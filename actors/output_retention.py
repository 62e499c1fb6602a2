"""What of an output may go: the segments that are older, or more, than the job's maker wants kept.

    segments   | 1:00 | 2:00 | base 3:00 | 4:00 |      retain="1h", stable 4:10: up to 3:10
                 gone   gone   stays                   up to the last base at most, by segments

The output's journal has a base every so many bytes, and what lies before the last one may go: a
merger that restarts, or a new subscriber, begins there. The merger's peer may need more. It
comes back with what its own output had when it died, and catches up from ours, from a base that is
no later than that (failover/merger/backfill.py). So that base stays, held by a registered reader
of the
output's journal, for as long as the peer moves on; one that has not for ABSENT_MS is let go, and
that is said: its disk is then lost for longer than anybody keeps output.

Replicas need nothing of it, as their tails are their own. A subscriber that is behind what goes,
or comes with an old token, gets `Trimmed`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from gapless.failover.job.settings import Settings
from gapless.journal.base import read_base
from gapless.journal.commit import Commits
from gapless.journal.disk import Disk
from gapless.journal.epoch import LiveEnd, read_live_end
from gapless.journal.head import Base
from gapless.journal.layout import layout_of, opened
from gapless.journal.readers import FOLDER, register, unregister
from gapless.journal.retention import Plan, Retention, plan, trim
from gapless.journal.segment import SEGMENT_BYTES
from gapless.protocol.elements import BEGIN, INF
from gapless.protocol.errors import GaplessError

TRIM_MS = 10_000
"""Between two looks whether something may go: what is kept longer is ten seconds of output."""
ABSENT_MS = 3_600_000
"""How long the base that a peer needs is kept, while the peer does not move: time to mend a node,
and no reason to fill up the disk of the one that is left."""
PIECES = 4
"""Of `retain_bytes`, how many segments there are: a part of one more than is wanted is kept."""
PIECE_BYTES_MIN = 1 << 20
"""Of such a segment: smaller ones cost more files than they save bytes."""
_At = tuple[int, LiveEnd | None]
"""Of a journal that is written: its last commit, and the end of its live segment."""
_TICKS_PER_S = {"s": 1, "ms": 1000, "us": 1_000_000, "ns": 1_000_000_000}


def segment_bytes(settings: Settings) -> int:
    """How large a segment of an output is; whole ones go, so a small output has small ones."""
    if settings.retain_bytes is None:
        return SEGMENT_BYTES
    return min(SEGMENT_BYTES, max(PIECE_BYTES_MIN, settings.retain_bytes // PIECES))


def base_bytes(settings: Settings) -> int:
    """How much there is from one base to the next."""
    if settings.retain_bytes is None:
        return settings.base_bytes
    return min(settings.base_bytes, segment_bytes(settings))


class OutputRetention:
    """Trims the output of one merger. On the thread that writes it, with a disk of its own."""

    def __init__(
        self,
        disk: Disk,
        settings: Settings,
        peers: Mapping[str, Disk],
        token: str,
        now_ms: Callable[[], int],
        on_alarm: Callable[[str], None],
    ) -> None:
        """`peers`: by slot, where the outputs of the other mergers of the shard lie. `token`: no
        other trim's, and not the writer's. `now_ms`: since 1970.
        """
        self._disk = disk
        self._settings = settings
        self._peers = dict(peers)
        self._token = token
        self._now_ms = now_ms
        self._on_alarm = on_alarm
        self._moved: dict[str, tuple[_At, int]] = {}  # by peer: where it is, and since when
        self._let_go: set[str] = set()

    @property
    def is_wanted(self) -> bool:
        """Whether anything may ever go."""
        return self._settings.retain_bytes is not None or self._settings.retain_ms is not None

    def trim(self) -> Plan | None:
        """Takes away what may go now. Raises `GaplessError` and `OSError`, and it can be tried
        again; the output does not suffer.
        """
        layout = opened(self._disk)
        commits = Commits(self._disk, layout)
        if not commits.head.bases:
            return None  # nothing may go yet, whatever is wanted
        retention = self._retention(commits)
        if not plan(commits, retention, [_reader(slot) for slot in self._peers]).rows:
            return None
        for slot, disk in self._peers.items():
            self._hold_for(slot, disk, commits)
        return trim(commits, retention, token=self._token, now_ms=self._now_ms())

    def _retention(self, commits: Commits) -> Retention:
        stable, before = commits.head.stable, None
        if self._settings.retain_ms is not None and BEGIN < stable < INF:
            unit = commits.layout.schema.time_unit
            before = max(BEGIN, stable - self._settings.retain_ms * _TICKS_PER_S[unit] // 1000)
        return Retention(before=before, keep_bytes=self._settings.retain_bytes)

    # -- the peers ----------------------------------------------------------------------------

    def _hold_for(self, slot: str, disk: Disk, commits: Commits) -> None:
        """Keeps what a peer would catch up from, were it to die now."""
        now, (stable, at) = self._now_ms(), _seen(disk)
        was, since = self._moved.get(slot, (None, now))
        if at != was:
            since = now
            self._let_go.discard(slot)
        self._moved[slot] = at, since
        name = _reader(slot)
        if now - since < ABSENT_MS or stable == INF:
            first = _begin_for(commits, stable)
            register(self._disk, name, {0: first}, now)
            self._disk.close(f"{FOLDER}/{name}")
            return
        if self._disk.exists(f"{FOLDER}/{name}"):
            unregister(self._disk, name)
        if slot not in self._let_go:
            self._let_go.add(slot)
            self._on_alarm(
                f"merger {slot} has put out nothing for {ABSENT_MS // 60_000} minutes: output that "
                "it would need to catch up is kept for it no more; once that is gone, the job goes "
                "on with this one alone until it is launched anew"
            )


def _reader(slot: str) -> str:
    """What holds rows for a peer."""
    return f"backfill.{slot}"


def _seen(disk: Disk) -> tuple[int, _At]:
    """How far an output is durable at least, and where its writer is; BEGIN where there is none, or
    none that reads. What is not sealed is not counted: at most it keeps more.
    """
    try:
        layout = layout_of(disk)
        if layout is None:
            return BEGIN, (0, None)
        head = Commits(disk, layout).head
        return head.stable, (head.number, read_live_end(disk, head.epoch))
    except GaplessError:
        return BEGIN, (0, None)


def _begin_for(commits: Commits, stable: int) -> int:
    """The row from which an output at `stable` catches up: that of the newest base which is no
    later; all that is there where no base is.
    """
    for base in reversed(commits.head.bases):
        live = read_base(commits.disk, commits.layout, base)
        if (BEGIN if live.stable is None else live.stable) <= stable:
            return _row_before(commits, base)
    return commits.head.first[0]


def _row_before(commits: Commits, base: Base) -> int:
    """A row before the ones that follow a base, of which one has to be left: how many rows an older
    base stands for is known by those before it.
    """
    facts = commits.facts
    before = (facts.column("commit").to_numpy() <= base.commit) & (
        facts.column("rows").to_numpy() > 0
    )
    first = facts.column("first").to_numpy()[before]
    return max(commits.head.first[0], int(np.max(first, initial=0)))
