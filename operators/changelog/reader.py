"""What all readers of changelogs promise.

    reader.push(changes, watermark) -> Frame        inserts, adjusts, then maybe a stable

- What comes out is a legal stream. After each push its table is that of all changes so far.
- A batch is taken in whole or, with a `ChangeError`, not at all.
- A watermark t says that no later change has a time below t. It is the stable that comes out. One
  that is not beyond the last is no news.
- A change below the stable is late: the table there is settled. It is refused, or, with
  `late="move"`, counts from the stable on, the first time at which anything may still change. What
  is moved depends on how far the watermark was, so of two copies of a job that are merged both must
  have the same watermarks between the same changes, or none may be late.
- What is kept are the rows that live, and what the stable has not settled. Where that would outgrow
  `live_max`, `MemoryLimit` is raised and nothing has changed.

Two changelogs of one table give the same table here, so they can be merged, however they are told:
cut into batches otherwise, in another order (see each reader), with a before-image or without, with
updates that change nothing or without.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Literal

import numpy as np

from gapless.operators.state import State
from gapless.protocol.changelog import Changes
from gapless.protocol.elements import BEGIN, INF, check_stable, format_time
from gapless.protocol.errors import ChangeError, MemoryLimit, Misuse, SchemaError
from gapless.protocol.frame import Frame
from gapless.protocol.schema import StreamSchema

Late = Literal["refuse", "move"]

LIVE_MAX = 1 << 26
"""Events or entries that a reader keeps: some GB. A table that large is real, but far more often
watermarks have stopped, and nothing is settled any more."""


class ChangelogReader(ABC):
    """Takes changes, gives frames."""

    TIMED = False
    """Whether its changes have ends."""

    def __init__(
        self, schema: StreamSchema, *, late: Late = "refuse", live_max: int = LIVE_MAX
    ) -> None:
        if late not in ("refuse", "move"):
            raise Misuse(f"late={late!r}: refuse or move")
        if live_max < 1:
            raise Misuse(f"live_max {live_max}: one at least")
        self.schema = schema
        self.stable = BEGIN
        """What has been promised."""
        self._late = late
        self._live_max = live_max

    def push(self, changes: Changes, watermark: int | None = None) -> Frame:
        """What the changes change; then, as a stable, the watermark that holds behind them."""
        if changes.schema is not self.schema and changes.schema != self.schema:
            raise SchemaError(f"the reader takes {self.schema}, the changes are {changes.schema}")
        if (changes.ends is not None) is not self.TIMED:
            raise Misuse(
                "timed changes are for Revisions"
                if changes.ends is not None
                else "Revisions takes timed changes: name the column of ends"
            )
        news = watermark is not None and check_stable(watermark) > self.stable
        frame = Frame.empty(self.schema)
        if len(changes):
            if len(self) + len(changes) > self._live_max:
                raise MemoryLimit(
                    f"{len(self)} kept and {len(changes)} changes are more than live_max "
                    f"{self._live_max}: send watermarks, that what is settled may go, or raise it"
                )
            changes.check_pluses()
            frame = self._read(self._in_time(changes))
        if not news or watermark is None:
            return frame
        self.stable = watermark
        self._settle(watermark)
        return frame.with_stable(watermark)

    def _in_time(self, changes: Changes) -> Changes:
        """The changes at times at which something may still change."""
        late = changes.times < self.stable
        if not np.count_nonzero(late):
            return changes
        if self._late == "refuse" or self.stable == INF:
            i = int(late.argmax())
            raise self.late_error(changes, i, f"it is at {changes.times[i]}")
        return changes.at(np.maximum(changes.times, self.stable))

    def late_error(self, changes: Changes, i: int, what: str) -> ChangeError:
        """That change `i` came too late."""
        advice = 'send watermarks later, or say late="move"'
        if self.TIMED:
            advice = "send watermarks later"
        if self.stable == INF:
            advice = "the changelog had ended: begin another one"
        return ChangeError(
            changes.row(i), f"late: {what}, below the watermark {format_time(self.stable)}", advice
        )

    @abstractmethod
    def _read(self, changes: Changes) -> Frame:
        """Takes changes in that are not late; raises `ChangeError`, and nothing has changed."""

    @abstractmethod
    def _settle(self, t: int) -> None:
        """Forgets what no change at t or later can touch; INF: everything."""

    @abstractmethod
    def __len__(self) -> int:
        """What is kept, in rows."""

    @abstractmethod
    def snapshot(self) -> State:
        """All of its state, as named record batches; later pushes do not change them."""

    @abstractmethod
    def restore(self, state: State) -> None:
        """Takes back a snapshot of a reader made with the same arguments; called once, first.

        Raises `DecodeError` where it is not one; the reader is then not to be used.
        """

    @property
    @abstractmethod
    def nbytes(self) -> int:
        """Bytes of state."""

    @abstractmethod
    def validate(self) -> None:
        """Raises `Bug` where an invariant is broken."""
