"""A merger's output as it is read from its disk: by subscribers that are behind, and by the peer.

    read(token) -->  rows behind an offset, exactly
    table(since) ->  every event with ve >= since, as inserts
    peer(since) -->  the whole output from a base on, for the other merger

What is read is durable and lies before every cut. What was written last a reader in the writer's
process has in memory (recent_rows.py), and asks no disk for. An answer may be lost: the last one is
kept, so that a repeated question is not answered from a file.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any, Final

from gapless.failover.merger.recent_rows import Recent
from gapless.failover.merger.scan import BeyondEnd, Scan, from_base, last_events
from gapless.failover.messages import Token, Why
from gapless.journal.disk import Disk
from gapless.journal.layout import layout_of
from gapless.journal.reader import Reader
from gapless.protocol.elements import BEGIN
from gapless.protocol.errors import GaplessError, JournalError, SchemaError, Trimmed
from gapless.protocol.frame import Frame
from gapless.protocol.schema import StreamSchema

NO_GUARD: Final = nullcontext()
"""Of an output that one thread writes and reads."""

KEPT_BYTES_MAX = 1 << 18
"""Of a frame that is kept in case its answer is lost: a larger one is read again, and one that
reads slowly costs a place in a file.
"""


class OutputReader:
    """The output of one merger, for one subscriber or one peer. Where it raises it may be asked
    again; `why` says what the error means for the asker.
    """

    def __init__(
        self,
        disk: Disk,
        schema: StreamSchema,
        recent: Recent | None = None,
        guard: AbstractContextManager[Any] = NO_GUARD,
    ) -> None:
        """`recent` has the last rows in memory, where the output's writer is in this process;
        `guard` keeps it from changing while it is read.
        """
        self._disk = disk
        self._schema = schema
        self._recent = recent
        self._guard = guard
        self._reader: Reader | None = None
        self._last: tuple[int, Frame] | None = None  # behind which offset, and what was given
        self._peer: _Peer | None = None

    def read_recent(self, token: Token) -> tuple[bool, Frame | None]:
        """Whether what is behind a token was written so lately that no disk is asked for it; and
        that, as `read` gives it. For any thread.
        """
        if self._recent is not None:
            with self._guard:
                if self._recent.has(token.offset):
                    return True, self._recent.read(token.offset, token.stable)
        return False, None

    def read(self, token: Token) -> Frame | None:
        """The rows behind a token and what is promised after them; None where nothing is new.

        Raises `Trimmed` where those rows are gone, `BeyondEnd` where there never were any.
        """
        is_known, known = self.read_recent(token)
        if is_known:
            self._reader = self._last = None  # at the journal's end it is not needed again
            return known
        try:
            return self._read(token)
        except GaplessError:
            self._reader = self._last = None
            raise

    def _read(self, token: Token) -> Frame | None:
        offset, stable = token.offset, token.stable
        reader = self._reader
        if reader is None or reader.position[0] != offset:
            if self._last is not None and self._last[0] == offset:
                return _above(self._last[1], stable)  # the answer was lost
            reader = self._reader = self._opened_at(offset)
        elif reader.stable > stable:
            return Frame.empty(self._schema, reader.stable)  # so was one that only promised
        while (frame := reader.read()) is not None:
            frame = _above(frame, stable)
            if frame:
                self._last = (offset, frame) if frame.nbytes <= KEPT_BYTES_MAX else None
                return frame
        return None

    def table(self, since: int) -> tuple[Frame, int]:
        """Every event with `ve >= since` as inserts, the stable, and the rows that it stands for.

        Raises `Trimmed` where what is left of the journal cannot say it, `BeyondEnd` where the
        output is not stable up to `since`.
        """
        known = self.recent_table(since)
        return Scan(self._disk, self._schema, since).run() if known is None else known

    def last_events(self) -> Frame:
        """The events that end last: the answer of an output behind which nothing is alive."""
        return last_events(self._disk, self._schema)

    def scan(self, since: int | None) -> Scan:
        """The same, to be read slice by slice; without `since` of what is not settled."""
        return Scan(self._disk, self._schema, since)

    def open_table(self, since: int) -> Scan | tuple[Frame, int]:
        """The same: at once where memory has it, else as a scan."""
        known = self.recent_table(since)
        return Scan(self._disk, self._schema, since) if known is None else known

    def recent_table(self, since: int) -> tuple[Frame, int] | None:
        """The same where memory has it, at once; None where the journal is to be scanned."""
        if self._recent is None:
            return None
        with self._guard:
            return self._recent.table(since)

    def peer(self, since: int) -> tuple[Frame | None, int]:
        """The next frame of the output as a stream that joins; None where nothing is new, or where
        there is no such output. And since when it has every event: no later than `since`.

        `since` counts until it could be opened. Where it raises it goes on, asked again, behind
        what it has given.
        """
        if self._peer is None:
            if layout_of(self._disk) is None:
                return None, BEGIN
            self._peer = _Peer(self._disk, *from_base(self._disk, self._schema, since))
        return self._peer.next(), self._peer.join_at

    @staticmethod
    def why(error: GaplessError) -> Why:
        """What an error of a reader means for a subscriber. What is damaged is gone for it, too."""
        return "future" if isinstance(error, BeyondEnd) else "trimmed"

    def _opened_at(self, offset: int) -> Reader:
        try:
            reader = Reader(self._disk, start={0: offset})
        except JournalError as e:
            if isinstance(e, Trimmed) or offset <= Reader(self._disk, start="end").position[0]:
                raise
            raise BeyondEnd(str(e)) from None
        self._check(reader.schema)
        return reader

    def _check(self, schema: StreamSchema) -> None:
        if schema != self._schema:
            raise SchemaError(f"{self._disk} holds {schema}, wanted is {self._schema}")


class _Peer:
    """A peer's output, being read: its base, and what follows."""

    def __init__(self, disk: Disk, base: Frame | None, reader: Reader) -> None:
        self.join_at = BEGIN if base is None else _stable_of(base)
        """What is given has every event with `ve` from here on."""
        self._disk = disk
        self._base = base
        self._reader: Reader | None = reader
        self._position = reader.position
        self._given = self.join_at

    def next(self) -> Frame | None:
        """The next frame; its stables never go back."""
        frame, self._base = self._base, None
        while frame is None:
            read = self._read()
            if read is None:
                return None
            frame = _above(read, self._given) or None
        if frame.stable is not None:
            self._given = frame.stable
        return frame

    def _read(self) -> Frame | None:
        reader, self._reader = self._reader, None  # one that has failed does so for ever
        if reader is None:
            reader = Reader(self._disk, start=self._position)
        frame = reader.read()
        self._reader, self._position = reader, reader.position
        return frame


def _above(frame: Frame, stable: int) -> Frame:
    """The frame, without its stable where that is no news."""
    old = frame.stable is not None and frame.stable <= stable
    return frame.with_stable(None) if old else frame


def _stable_of(base: Frame) -> int:
    return BEGIN if base.stable is None else base.stable
