"""The output of a merger: merged, on its way to the journal, durable; and how it ends.

    LMerge --put_out--> output_writer.py --Append--> journal --Appended--> durable_stable

Nothing is told before it is durable: neither rows to subscribers, nor to replicas that what they
have said is not needed any more. So what has merged and what is durable are told apart here.

    open -- drain --> draining -- sealed --> drained         each: -- exit --> over
                         ^------- more ---------'
"""

from __future__ import annotations

from typing import Literal

from gapless.failover.lifecycles import Lifecycle
from gapless.failover.merger.effects import Appended, BaseMade, MergerEffect
from gapless.failover.merger.output_writer import OutputWriter
from gapless.failover.timing import Timing
from gapless.merge.lmerge import LMerge
from gapless.protocol.errors import Bug
from gapless.protocol.frame import Frame

PENDING_ROWS_MAX = 1 << 18
"""Rows merged and not durable: seconds of a disk's work. Beyond it nothing is taken in."""

MergerState = Literal["open", "draining", "drained", "over"]
MERGER: Lifecycle[MergerState] = Lifecycle(
    "a merger",
    {
        "open": {"drain": "draining", "exit": "over"},
        "draining": {"sealed": "drained", "exit": "over"},
        "drained": {"more": "draining", "exit": "over"},
        "over": {},
    },
)


class DurableOutput:
    """Of one life of a merger."""

    def __init__(self, merge: LMerge, offset: int, timing: Timing) -> None:
        """`offset` rows are durable, and what `merge` was resumed with is what they say."""
        self._merge = merge
        self._writer = OutputWriter(merge.schema, merge.live, merge.__len__, timing.disk_retry_ms)
        self._drain_ms = timing.drain_ms
        self.state = MERGER.first
        self.offset = offset
        """Rows that are durable."""
        self.written_stable = merge.stable
        """The stable behind them."""
        self.took_in_at = 0
        """When something was merged last."""
        self._is_closing = False  # the seal that is under way is the last

    @property
    def durable_stable(self) -> int:
        """The output is durable up to this time, as far as anybody may know."""
        return self.written_stable

    @property
    def pending_rows(self) -> int:
        """Rows merged and not durable."""
        return self._writer.rows

    @property
    def is_full(self) -> bool:
        """Whether so much waits for the disk that nothing more is taken in."""
        return self._writer.rows >= PENDING_ROWS_MAX

    def put_out(self, frame: Frame) -> list[MergerEffect]:
        """What the LMerge puts out goes to the journal first, before any subscriber sees it."""
        if self.state == "drained":
            self._goes("more")
        return self._writer.gather(frame)

    # -- answers of the journal ---------------------------------------------------------------

    def appended(self, event: Appended, now: int) -> list[MergerEffect]:
        """What was under way is durable."""
        self.offset = event.offset
        self.written_stable = max(self.written_stable, event.stable)
        return self._writer.appended(event, now)

    def refused(self, reason: str, now: int) -> list[MergerEffect]:
        """Nothing of what was under way is in the journal: it waits."""
        return self._writer.refused(reason, now)

    def base_made(self, event: BaseMade, now: int) -> list[MergerEffect]:
        """A base that was made beside is there, or is not."""
        return self._writer.base_made(event, now)

    def sealed(self) -> tuple[bool, list[MergerEffect]]:
        """Whether the output is drained with that, and what follows."""
        effects = self._writer.sealed()
        was_last, self._is_closing = self._is_closing and not effects, False
        if was_last:
            self._goes("sealed")
        return was_last, effects

    # -- time, and the end --------------------------------------------------------------------

    def tick(self, now: int) -> list[MergerEffect]:
        """Tries again what the disk has refused."""
        return self._writer.tick(now)

    def drain(self) -> None:
        """It is to be closed once nothing comes any more."""
        if self.state == "open":
            self._goes("drain")

    def close_when_silent(self, now: int) -> list[MergerEffect]:
        """Seals for good once nothing comes any more and all of it is durable."""
        is_silent = now - self.took_in_at >= self._drain_ms
        if self.state != "draining" or not is_silent or not self._writer.is_idle:
            return []
        self._is_closing = True
        live = self._merge.live()
        return self._writer.seal(None if live.stable is None else live)

    def exit(self) -> None:
        """The life is over."""
        self._goes("exit")

    def _goes(self, cause: str) -> None:
        self.state = MERGER.after(self.state, cause)

    def validate(self) -> None:
        """Raises `Bug` where an invariant is broken."""
        self._writer.validate()
        if self.written_stable > self._merge.stable:
            raise Bug(f"durable to {self.written_stable}, merged to {self._merge.stable}")
