"""What a merger has put out on its way to the journal: one append at a time.

                     gather, gather, gather
                               |
    idle -- append --> appending -- appended --> idle        what gathered meanwhile goes as one
                         |   ^                    | seal
                 refused |   | retry           sealing -- sealed --> idle
                         v   |
                        waiting                  the disk is full: nothing is lost, all waits

A base is the live table at an offset of the journal. Under load something is always on its way, so
the table is taken when an append begins, for then all that the LMerge has put out is in it; it is
sealed with once that append is durable, before the next. A large one is not taken: it is made of
what the journal has, beside the appends that follow (bases.py).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from gapless.failover.effects import Alarm
from gapless.failover.lifecycles import Lifecycle
from gapless.failover.merger.effects import Append, Appended, BaseMade, MakeBase, MergerEffect, Seal
from gapless.protocol.errors import Bug
from gapless.protocol.frame import Frame
from gapless.protocol.schema import StreamSchema

BASE_ROWS_MAX = 1 << 17
"""Live rows that are taken for a base, and written, while the output waits: some ten milliseconds.
A base of more is made beside."""

JournalState = Literal["idle", "appending", "waiting", "sealing"]
JOURNAL: Lifecycle[JournalState] = Lifecycle(
    "a merger's work at its journal",
    {
        "idle": {"append": "appending", "seal": "sealing"},
        "appending": {"appended": "idle", "refused": "waiting"},
        "waiting": {"retry": "appending"},
        "sealing": {"sealed": "idle"},
    },
)


class OutputWriter:
    """The rows that are merged and not durable yet."""

    def __init__(
        self,
        schema: StreamSchema,
        live: Callable[[], Frame],
        live_rows: Callable[[], int],
        retry_ms: int,
    ) -> None:
        """`live` gives the live table after all that was gathered, `live_rows` its size."""
        self._empty = Frame.empty(schema)
        self._live = live
        self._live_rows = live_rows
        self._retry_ms = retry_ms
        self._state = JOURNAL.first
        self._frames: list[Frame] = []
        self._stable: int | None = None  # behind those frames
        self._rows = 0
        self._under_way: Frame | None = None
        self._wants_base = False
        self._base: Frame | None = None  # the live table behind what is under way
        self._makes_base = False  # one is being made beside
        self._no_base_before = 0
        self._refused_at = 0
        self._alarmed = False

    @property
    def rows(self) -> int:
        """Merged and not durable."""
        return self._rows + (0 if self._under_way is None else len(self._under_way))

    @property
    def is_idle(self) -> bool:
        """Whether all that was gathered is durable, and nothing is being done."""
        return self._state == "idle" and not self._has_more and not self._makes_base

    @property
    def _has_more(self) -> bool:
        return bool(self._frames) or self._stable is not None

    def gather(self, frame: Frame) -> list[MergerEffect]:
        """Takes what the LMerge has put out; begins an append if none is under way."""
        if self._state == "idle" and not self._has_more and not self._wants_base:
            return self._append(frame)  # as it came
        self._add(frame)
        return self.go_on()

    def go_on(self) -> list[MergerEffect]:
        """Appends all that has gathered, if nothing else is under way."""
        if self._state != "idle" or not self._has_more:
            return []
        if self._wants_base and self._live_rows() <= BASE_ROWS_MAX:
            self._base = self._live()
        return self._append(self._gathered())

    def appended(self, event: Appended, now: int) -> list[MergerEffect]:
        """What was under way is durable."""
        self._state = JOURNAL.after(self._state, "appended")
        self._under_way = None
        self._alarmed = False
        self._wants_base |= event.wants_base and not self._makes_base
        if self._wants_base and self._live_rows() > BASE_ROWS_MAX:
            self._wants_base, self._base = False, None
            if now >= self._no_base_before:
                self._makes_base = True
                return [MakeBase(), *self.go_on()]
        base, self._base = self._base, None
        if base is None and self._wants_base and not self._has_more:
            base = self._live()
        if base is not None and base.stable is not None:
            return self.seal(base)
        return self.go_on()

    def base_made(self, event: BaseMade, now: int) -> list[MergerEffect]:
        """It is there; where it is not, another is made after a while."""
        self._makes_base = False
        if event.reason:
            self._no_base_before = now + self._retry_ms
        return []

    def refused(self, reason: str, now: int) -> list[MergerEffect]:
        """Nothing of what was under way is in the journal; it waits, with all that follows."""
        self._state = JOURNAL.after(self._state, "refused")
        self._refused_at = now
        self._base = None
        if self._alarmed:
            return []
        self._alarmed = True
        return [Alarm(f"the output waits: {reason}")]

    def tick(self, now: int) -> list[MergerEffect]:
        """Tries again what was refused, after a while."""
        if self._state != "waiting" or now - self._refused_at < self._retry_ms:
            return []
        self._state = JOURNAL.after(self._state, "retry")
        frame, self._under_way = self._under_way, None
        if frame is None:
            raise Bug("an append was refused, and there is none")
        later, stable = self._frames, self._stable
        self._frames, self._stable, self._rows = [], None, 0
        self._add(frame)
        for more in later:
            self._add(more)
        self._stable = frame.stable if stable is None else stable
        self._under_way = self._gathered()
        return [Append(self._under_way)]

    def seal(self, base: Frame | None) -> list[MergerEffect]:
        """Seals what is durable; `base` is the live table as of its end."""
        self._state = JOURNAL.after(self._state, "seal")
        if base is not None:
            self._wants_base = False
        return [Seal(base)]

    def sealed(self) -> list[MergerEffect]:
        """It is done."""
        self._state = JOURNAL.after(self._state, "sealed")
        return self.go_on()

    def _append(self, frame: Frame) -> list[MergerEffect]:
        self._state = JOURNAL.after(self._state, "append")
        self._under_way = frame
        return [Append(frame)]

    def _add(self, frame: Frame) -> None:
        if frame.stable is not None:
            self._stable = frame.stable
        if len(frame):
            self._frames.append(frame.with_stable(None))
            self._rows += len(frame)

    def _gathered(self) -> Frame:
        """All that has gathered as one frame; then nothing has."""
        frames, stable = self._frames, self._stable
        self._frames, self._stable, self._rows = [], None, 0
        if not frames:
            return self._empty.with_stable(stable)
        return (frames[0] if len(frames) == 1 else Frame.concat(frames)).with_stable(stable)

    def validate(self) -> None:
        """Raises `Bug` where an invariant is broken."""
        if self._rows != sum(map(len, self._frames)):
            raise Bug(f"{self._rows} rows are not those that have gathered")
        is_busy = self._state in ("appending", "waiting")
        if is_busy != (self._under_way is not None):
            raise Bug(f"{self._state}, and under way is {self._under_way}")
        if self._base is not None and self._state != "appending":
            raise Bug(f"a base waits for an append, and the journal is {self._state}")
        if self._state == "idle" and self._has_more:
            raise Bug("rows have gathered, and nothing is done with them")
