"""Windowed aggregates, implementation TwoLevel: a fixed number of slots below, panes above.

    rows -> slots           the lower level: a sub-aggregate a slot (`slots.py`)
    slots -> panes          those that leave, on collision or when it is time
    panes -> windows        the upper level is `paned.py`

As Gigascope does it (window-queries, 8.3.3). When a window is complete, all its sub-aggregates
would leave at once: a surge. Out of order they need not. What is old may stay in its slot, up to
`late` windows long, and the promise waits for it:

    lazy    old ones leave by collision alone; after `late` windows all that are left do
    slow    and one of them for every `every` rows that come

What is old is told by its pane, so nothing has to be marked when a window ends; figure 8-6 never
marks new entries as old.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pyarrow as pa

from gapless.kernels.keys import Ids, Mask
from gapless.operators.ahead import Ahead
from gapless.operators.answers import AnswerLook, AnswerPart, Answers, Grouping, Windowed
from gapless.operators.grouped_tables import read_cells, write_cells
from gapless.operators.paned import Paned
from gapless.operators.panes import pairs_of_windows
from gapless.operators.slots import Leaving, Slots
from gapless.operators.state import FACTS, State, as_part, facts, part, read_facts
from gapless.operators.windows import Cut
from gapless.protocol.columns import take_rows
from gapless.protocol.documents import Document, Fields
from gapless.protocol.elements import BEGIN, INF
from gapless.protocol.errors import Misuse
from gapless.protocol.frame import Times

SLOTS = 1 << 16
"""A few megabytes; more groups than that collide."""
SLOTS_MAX = 1 << 26
NUMBERS_MAX = 1 << 40

Flush = Literal["lazy", "slow"]


@dataclass(frozen=True, slots=True)
class TwoLevelOptions:
    """How many slots there are, and when what is old leaves them."""

    slots: int = SLOTS
    flush: Flush = "lazy"
    every: int = 160
    late: int = 2

    def __post_init__(self) -> None:
        _check("slots", self.slots, 1, SLOTS_MAX, "how many sub-aggregates the lower level keeps")
        _check("every", self.every, 1, NUMBERS_MAX, "after so many rows an old one leaves")
        _check("late", self.late, 0, NUMBERS_MAX, "windows that an answer may wait")
        if self.flush not in ("lazy", "slow"):
            raise Misuse(f"two_level: flush={self.flush!r}: use 'lazy' or 'slow'")

    def to_document(self) -> Document:
        """The options as plain data."""
        numbers: dict[str, Document] = {"every": self.every, "late": self.late}
        return {"slots": self.slots, "flush": self.flush, **numbers}

    @staticmethod
    def from_document(document: Document) -> TwoLevelOptions:
        """The inverse, for documents from anybody: raises `DecodeError`."""
        fields = Fields(document, "two_level")
        flush: Flush = "slow" if fields.take("flush", str) == "slow" else "lazy"
        slots = fields.take_int("slots", 1, SLOTS_MAX)
        every = fields.take_int("every", 1, NUMBERS_MAX)
        late = fields.take_int("late", 0, NUMBERS_MAX)
        fields.done()
        return TwoLevelOptions(slots, flush, every, late)

    def __str__(self) -> str:
        every = f", every={self.every}" if self.flush == "slow" else ""
        return f"two_level(slots={self.slots}, flush={self.flush!r}{every}, late={self.late})"


def two_level(
    slots: int = SLOTS, flush: Flush = "lazy", every: int = 160, late: int = 2
) -> TwoLevelOptions:
    """An implementation of windowed aggregates: `slots` sub-aggregates take rows in, and what is
    old leaves them up to `late` windows late: by collision ("lazy"), or also one for `every` rows
    ("slow").
    """
    return TwoLevelOptions(slots, flush, every, late)


def _check(name: str, given: object, least: int, most: int, what: str) -> None:
    if type(given) is not int or not least <= given <= most:
        raise Misuse(f"two_level: {name}={given!r}: {what}, {least} to {most}")


class TwoLevel(Windowed):
    """Slots below `Paned`."""

    def __init__(
        self,
        window: Cut,
        grouping: Grouping,
        options: TwoLevelOptions,
        ahead: Ahead | None = None,
    ) -> None:
        """`ahead`: keeps track of new rows, where answers are looked at before they are final."""
        self._options = options
        self._panes = pairs_of_windows(window)
        self._step = self._panes.step
        self._above = Paned(window, grouping, ahead)
        self._slots = Slots(grouping, options.slots)
        self._old = BEGIN  # panes below are in complete windows alone
        self._due = 0  # rows since the last one that left in time
        self._next = BEGIN  # windows below have been answered or are not wanted

    def add(self, times: Times, rows: pa.RecordBatch, within: tuple[int, int]) -> None:
        """Counts the rows in their slots."""
        panes = self._panes.of(times)
        if self._panes.span < self._step:
            between = self._panes.between(panes)
            if np.count_nonzero(between):
                kept = (~between).nonzero()[0]
                panes, times, rows = panes[kept], times[kept], take_rows(rows, kept)
        for out in self._slots.add(panes, times, rows) if len(times) else ():
            if isinstance(out, Leaving):
                self._above.take_in(out.panes, out.groups, out.partials)
            else:
                ends = int(out.times.min()), int(out.times.max())
                self._above.add(out.times, out.rows, ends)
        if self._options.flush == "slow":
            self._due += len(times)
            leaving, self._due = divmod(self._due, self._options.every)
            if leaving:
                self._leave(self._slots.some_below(self._old, leaving))

    def _leave(self, slots: Ids) -> None:
        left = self._slots.leave(slots)
        if left is not None:
            self._above.take_in(left.panes, left.groups, left.partials)

    def promised(self, complete: int) -> int:
        """What is in a slot is not in the answers yet: its windows wait."""
        if complete <= self._next:
            return complete
        if complete == INF:
            self._leave(self._slots.below(INF))
            return INF
        self._old = max(self._old, complete * self._step)
        self._leave(self._slots.below((complete - self._options.late) * self._step))
        oldest = self._slots.oldest
        return min(complete, oldest // self._step) if oldest < INF else complete

    def answer(self, complete: int) -> Iterator[AnswerPart]:
        """The upper level's, which has all that it needs."""
        self._next = max(self._next, complete)
        yield from self._above.answer(complete)

    def look(self, limit: int) -> Iterator[AnswerLook]:
        """The upper level's, of all rows."""
        self._leave(self._slots.below(INF))
        yield from self._above.look(limit)

    def of_groups(self, limit: int, chosen: Callable[[pa.RecordBatch], Mask]) -> Iterator[Answers]:
        """The upper level's, of all rows."""
        self._leave(self._slots.below(INF))
        yield from self._above.of_groups(limit, chosen)

    def has_open(self, limit: int) -> bool:
        """Whether a pane in a slot, or above, is in one."""
        panes = self._slots.panes[self._slots.panes < INF]
        first, end = self._panes.windows(panes)
        there = np.maximum(first, self._next) < np.minimum(end, limit)
        return bool(there.any()) or self._above.has_open(limit)

    def skip_to(self, window: int) -> None:
        """Forgets the panes that no window from this one on has."""
        self._next = max(self._next, window)
        self._slots.forget(self._slots.below(self._panes.first(self._next)))
        self._above.skip_to(window)

    def snapshot(self) -> State:
        """The slots, and the upper level's."""
        panes, groups, partials = self._slots.held()
        return {
            FACTS: facts(old=self._old, due=self._due),
            **write_cells("slots", panes, groups, partials, self._slots.groups),
            **as_part(self._above.snapshot(), "above"),
        }

    def restore(self, state: State) -> None:
        """Takes both back; what has no slot here goes above."""
        self._old, self._due = read_facts(state, "old", "due")
        self._above.restore(part(state, "above"))
        slots = self._slots
        panes, groups, partials = read_cells("slots", state, slots.states, slots.groups)
        columns = slots.groups.columns(groups)
        for at in slots.hold(panes, groups, partials):
            above = [column.slice(at, 1) for column in columns]
            self._above.take_in(panes[at : at + 1], above, [p.slice(at, 1) for p in partials])

    @property
    def nbytes(self) -> int:
        """Bytes of both levels."""
        return self._slots.nbytes + self._above.nbytes

    def validate(self) -> None:
        """Raises `Bug` where an invariant is broken."""
        self._slots.validate()
        self._above.validate()
