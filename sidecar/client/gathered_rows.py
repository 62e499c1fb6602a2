"""Rows that a program gives one by one, until they are pushed together as a frame.

    insert, adjust, insert ...  -->  | row | row | row |  --take-->  frames that messages hold

A row that cannot be sent takes no others with it: they were gathered together, and the stable
behind them promises that all of them were sent.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gapless.protocol.elements import BEGIN, Adjust, Element, Insert
from gapless.protocol.errors import GaplessError, Misuse
from gapless.protocol.frame import Frame
from gapless.protocol.schema import StreamSchema
from gapless.sidecar.frames import cut

GATHER_ROWS = 1_000
"""Rows that gather: as one frame they cost little more than one row does."""
ROW_BYTES_MAX = 12 << 20
"""Of one row: it travels in one message, of which a sidecar takes 16 MiB, in either encoding."""


class FrameCutter:
    """Cuts what is pushed into frames of which each fits a message."""

    def __init__(self, *, insert_only: bool, settled: Callable[[], int]) -> None:
        """Where a stream only inserts, events that end before `settled()` need not be sent."""
        self._insert_only = insert_only
        self._settled = settled

    def pieces(self, frame: Frame) -> list[Frame]:
        """The part of a frame that is sent, in pieces. Raises `Misuse` where a row is too large."""
        if self._insert_only and len(frame):
            settled = self._settled()
            if settled > BEGIN and int(frame.ve.min()) < settled:
                frame = frame.take(frame.ve >= settled, frame.stable)
        pieces = cut(frame)
        for piece in pieces:
            if len(piece) == 1 and piece.nbytes > ROW_BYTES_MAX:
                raise Misuse(f"a row of {piece.nbytes} bytes: {ROW_BYTES_MAX} are the most")
        return pieces


class GatheredRows:
    """Rows in the order in which the program gave them."""

    def __init__(self, schema: StreamSchema, cutter: FrameCutter) -> None:
        self._schema = schema
        self._cutter = cutter
        self._rows: list[Insert | Adjust] = []

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def is_full(self) -> bool:
        """Whether they are to be pushed now."""
        return len(self._rows) >= GATHER_ROWS

    @property
    def is_nearly_full(self) -> bool:
        """Whether they will be with one more row."""
        return len(self._rows) + 1 >= GATHER_ROWS

    def values(self, payload: dict[str, Any]) -> tuple[Any, ...]:
        """The payload of a row, in the order of the schema. Raises `Misuse`."""
        names = self._schema.names
        if set(payload) != set(names):
            raise Misuse(f"columns {sorted(payload)}: the stream has {', '.join(names)}")
        return tuple(payload[name] for name in names)

    def add(self, row: Insert | Adjust) -> None:
        """Gathers one more row."""
        self._rows.append(row)

    def take(self) -> list[Frame]:
        """Takes all rows out. Where some cannot be sent it raises the reason, drops these rows and
        keeps the others.
        """
        rows: list[Element] = list(self._rows)
        if not rows:
            return []
        try:
            pieces = self._cutter.pieces(Frame.from_elements(self._schema, rows))
        except GaplessError:
            self._rows = [row for row in self._rows if self._is_sound(row)]
            raise
        self._rows.clear()
        return pieces

    def _is_sound(self, row: Insert | Adjust) -> bool:
        try:
            self._cutter.pieces(Frame.from_elements(self._schema, [row]))
        except GaplessError:
            return False
        return True
