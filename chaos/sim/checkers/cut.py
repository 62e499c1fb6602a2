"""Nothing past a cut is ever delivered: what was said once is in the journal for ever.

    journal   [ epoch 1 .......)[ epoch 2 ..........        what it holds in the end
    Durable      [1]  [2]            [3]                    each lies where it was put
    Delivered   [   a   ]  [b]     [   c   ]                each is a piece of it

A merger's journal is cut where a new life takes it over. Whatever an old one had in its hands
beyond that is gone, and others may stand there. So of every frame that a merger called durable,
and of every one that it delivered, the journal must have exactly these rows at these offsets in
the end, and must have promised that stable there. While the run goes on, nothing is delivered
beyond what is durable, and no new life finds less than there was.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from gapless.chaos.judge.history import Broken, Delivered, Durable, Recovered, Verdict
from gapless.chaos.sim.checkers.journals import Journal, Journals
from gapless.chaos.sim.checkers.rows import rows_of
from gapless.chaos.sim.checkers.world import World
from gapless.protocol.elements import BEGIN, format_time
from gapless.protocol.errors import JournalError
from gapless.protocol.frame import Frame

Piece = tuple[int, int, Frame, str]
"""When, behind which offset, what, and who said so."""


class NothingPastACut:
    """See the module."""

    name = "cut"
    promise = (
        "What a merger has delivered, or called durable, stays at its place in the journal; "
        "nothing past a cut is ever delivered."
    )

    def __init__(self, journals: Journals) -> None:
        self._journals = journals
        self._pieces: dict[str, list[Piece]] = defaultdict(list)
        self._offsets: dict[str, int] = {}
        self._stables: dict[str, int] = {}
        self._was_delivered = False

    def hears(self) -> Mapping[type, Callable[[int, Any], None]]:
        """What enters and leaves a journal."""
        return {
            Durable: self._on_durable,
            Recovered: self._on_recovered,
            Delivered: self._on_delivered,
        }

    # -- as it happens ------------------------------------------------------------------------

    def _on_durable(self, now: int, fact: Durable) -> None:
        slot, frame = fact.merger.slot, fact.frame
        self._journals.hear(fact)
        self._pieces[slot].append((now, fact.after, frame, "made durable"))
        self._reaches(slot, fact.after + len(frame), frame.stable)

    def _on_recovered(self, _: int, fact: Recovered) -> None:
        slot, stable = fact.merger.slot, fact.live.stable
        before = self._offsets.get(slot, 0), self._stables.get(slot, BEGIN)
        after = fact.offset, BEGIN if stable is None else stable
        if after[0] < before[0] or after[1] < before[1]:
            raise Broken(
                self.name,
                f"{fact.merger} reads back {after[0]} rows, stable {format_time(after[1])}, of a "
                f"journal that had {before[0]}, stable {format_time(before[1])}",
            )
        self._reaches(slot, fact.offset, stable)

    def _reaches(self, slot: str, offset: int, stable: int | None) -> None:
        self._offsets[slot] = max(self._offsets.get(slot, 0), offset)
        if stable is not None:
            self._stables[slot] = max(self._stables.get(slot, BEGIN), stable)

    def _on_delivered(self, now: int, fact: Delivered) -> None:
        slot, frame = fact.merger.slot, fact.frame
        offset, stable = self._offsets.get(slot, 0), self._stables.get(slot, BEGIN)
        what = f"{fact.merger} delivers to {fact.subscriber}"
        if fact.after + len(frame) > offset:
            end = fact.after + len(frame)
            raise Broken(self.name, f"{what} up to row {end}, and {offset} rows are durable")
        if frame.stable is not None and frame.stable > stable:
            raise Broken(
                self.name,
                f"{what} stable {format_time(frame.stable)}, and {format_time(stable)} is durable",
            )
        self._was_delivered = True
        self._pieces[slot].append((now, fact.after, frame, "delivered"))

    # -- in the end ---------------------------------------------------------------------------

    def verdict(self, world: World) -> Verdict:
        """Unknown where nothing was delivered."""
        for slot, pieces in self._pieces.items():
            try:
                journal = self._journals.of(world, slot)
            except JournalError as e:
                raise Broken(self.name, f"the journal of {slot} cannot be read: {e}") from None
            self._compare(slot, journal, pieces)
        return Verdict.HOLDS if self._was_delivered else Verdict.UNKNOWN

    def _compare(self, slot: str, journal: Journal, pieces: Sequence[Piece]) -> None:
        with_rows: list[Piece] = []
        promises = journal.promises()
        for piece in pieces:
            _, after, frame, _ = piece
            end = after + len(frame)
            if end > journal.end:
                raise Broken(
                    self.name, f"{_told(slot, piece)}: in the end there are {journal.end} rows"
                )
            promised = promises[max(end - journal.first, 0)]
            if frame.stable is not None and frame.stable > promised:
                raise Broken(
                    self.name,
                    f"{_told(slot, piece)}, with stable {format_time(frame.stable)}: what the "
                    f"journal has behind them in the end allows {format_time(promised)}",
                )
            if len(frame) and after >= journal.first:
                with_rows.append(piece)
        whole = journal.frame
        if whole is None or not with_rows:
            return
        first = journal.first
        said = pa.concat_batches([frame.batch for _, _, frame, _ in with_rows])
        slices = [whole.batch.slice(after - first, len(frame)) for _, after, frame, _ in with_rows]
        if not said.equals(pa.concat_batches(slices)):
            self._find(slot, whole, first, with_rows)

    def _find(self, slot: str, whole: Frame, first: int, pieces: Sequence[Piece]) -> None:
        """Which piece it is; by the canonical values, in which a NaN is one."""
        for piece in pieces:
            _, after, frame, _ = piece
            there = rows_of(whole.slice(after - first, len(frame)))
            if rows_of(frame) != there:
                raise Broken(
                    self.name,
                    f"{_told(slot, piece)}: in the end the journal has other rows there: "
                    f"{rows_of(frame)}, not {there}",
                )


def _told(slot: str, piece: Piece) -> str:
    when, after, frame, how = piece
    return f"rows {after} to {after + len(frame)} of {slot} were {how} at {when} ms"
