"""Journals for Python programs: one that appends, and any number that read.

    with gl.JournalWriter("data/live", {"ts": "timestamp[ms]", "src": "int32"}, time="ts",
                          key="src", partitions=4, lateness="5s") as writer:
        writer.append({"ts": [...], "src": [...]})      one batch: all of it, or nothing

    with gl.JournalReader("data/live", partitions=[0, 3], since="2024-05-01") as reader:
        for frame in reader:                            to the end of what is there
            ...
        for frame in reader.follow():                   and on, as it grows
            ...

What journals promise is in docs/journal.md. The rules are in `gapless.journal`, which touches no
clock and knows no process; here it gets a directory, a name for the writer, and the time.
"""

from __future__ import annotations

import logging
import os
import socket
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import date, datetime
from pathlib import Path
from threading import Event, Lock
from time import time_ns
from types import TracebackType
from typing import Any, Literal, Protocol, Self, TypeAlias
from uuid import uuid4

import pyarrow as pa

from gapless.engine.answer import instant
from gapless.engine.durations import Duration, ticks
from gapless.io.journal_rows import RowsIn
from gapless.journal.disk import LocalDisk
from gapless.journal.layout import Layout, layout_of, opened
from gapless.journal.place import Position
from gapless.journal.reader import FRAME_ROWS, Reader, Start
from gapless.journal.rejects import Origin, Rejected
from gapless.journal.segment import SEGMENT_BYTES
from gapless.journal.writer import Writer
from gapless.journal.written import Durability, Written
from gapless.protocol.errors import GaplessError, JournalError, Misuse
from gapless.protocol.frame import Frame
from gapless.protocol.schema import StreamSchema

POLL_MS_MIN = 1
"""What a follower waits once nothing is new: a batch that comes at once is seen at once."""
POLL_MS_MAX = 10
"""Where that wait ends, doubled each time: half of the 20 ms within which a batch is to be seen, at
a hundred looks a second, each a few calls of the system."""

Schema: TypeAlias = StreamSchema | pa.Schema | Mapping[str, pa.DataType | str]

_log = logging.getLogger("gapless.journal")


# -- writing --------------------------------------------------------------------------------------


class JournalWriter(Writer):
    """Appends batches to a journal: opens it, or creates it if `schema` is given.

    It is the journal's only writer: the previous one gets `Fenced` at its next batch. Use it in a
    `with`. Not for several threads at once.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        schema: Schema | None = None,
        *,
        time: str | None = None,
        key: str | Sequence[str] = (),
        partitions: int = 1,
        lateness: Duration = 0,
        time_unit: str | None = None,
        durability: Durability | None = None,
        segment_bytes: int = SEGMENT_BYTES,
        on_alarm: Callable[[str], None] | None = None,
        accept_loss: bool = False,
        ahead: Duration | None = "a day",
    ) -> None:
        """An existing journal may be opened without `schema`; arguments that are given must match
        it.

        `time` is the column with each row's time (a timestamp, or an int64 in `time_unit`, ms by
        default); without it the journal holds frames. `key` are the columns that choose the
        partition. `durability` is what a batch survives once `append` returns: the "process" or the
        "machine". `on_alarm` is called when the disk fills up (by default it is logged).
        `accept_loss` opens a journal whose last segment is damaged, and cuts it there. `ahead`:
        rows further ahead of all others are rejected (docs/journal.md); "a day" does not apply to
        integers, None rejects none.
        """
        self._process = os.getpid()
        self._appending = Lock()
        keys = (key,) if isinstance(key, str) else tuple(key)
        with _on_disk(path) as disk:
            layout = _layout(disk, schema, time, keys, partitions, lateness, time_unit)
            self._rows_in = RowsIn(layout.schema.payload, f"journal {disk}")
            super().__init__(
                disk,
                layout,
                who=_who(),
                token=uuid4().hex,
                now_ms=lambda: time_ns() // 1_000_000,
                durability=durability,
                segment_bytes=segment_bytes,
                on_alarm=on_alarm or _log.warning,
                accept_loss=accept_loss,
                ahead=_ahead(ahead, layout),
            )

    def append(  # type: ignore[override]  # what promises has a method of its own
        self,
        rows: Any,
        *,
        synced: bool = True,
        origin: Origin | None = None,
        rejected: Sequence[Rejected] = (),
    ) -> Written:
        """Appends one batch: all of it or, if this raises, nothing. It is never divided.

        `rows` is a record batch, a table, a data frame, or a mapping from columns to values; for a
        journal of frames, a frame. Columns are found by name, other columns are ignored, and types
        of the same kind are cast. A row whose value does not fit, that has no time, or is late goes
        to the reject file with the reason; `origin(i)` gives the origin of row i there.

        With `synced=False` a machine-durable batch waits, unseen, for the next `sync`. `rejected`
        are rows of the batch that the caller rejects: reason, origin, row.
        """
        return self._alone(lambda: self._append(rows, synced, origin, rejected))

    def promise(self, t: int | str | date | datetime) -> bool:
        """Promises that no row below `t` comes any more: for lulls, in which no row moves the
        watermark. It is as durable as a batch, and counts as none; readers follow it, and earlier
        rows are late from now on. False, and nothing is done, if as much was promised before.
        """
        if not self.layout.has_rows:
            raise Misuse("promise: frames have their promises in them: append an empty one with it")
        time = instant(t, self.layout.schema.time_unit)
        self._check_usable()
        if time <= self.stable:
            return False
        none = self.layout.schema.empty_payload
        self._alone(lambda: Writer.append(self, none, promise=time))
        return True

    def _append(
        self, rows: Any, synced: bool, origin: Origin | None, rejected: Sequence[Rejected]
    ) -> Written:
        if isinstance(rows, Frame) or not self.layout.has_rows:
            return super().append(rows, synced=synced, origin=origin, rejected=rejected)
        taken = self._rows_in.take(rows, origin or f"batch {self.batches}".format)
        return super().append(
            taken.batch,
            synced=synced,
            origin=taken.origin,
            rejected=[*rejected, *taken.rejected],
        )

    def _alone(self, append: Callable[[], Written]) -> Written:
        """Unless another thread is appending; what is left half-way ends the writer."""
        self._check_usable()
        try:
            return self._locked(append)
        except GaplessError:
            raise
        except BaseException:  # a signal, say, half-way: what is there is not counted
            self._ended_by = "an append was interrupted: open the journal again"
            raise

    def _locked(self, append: Callable[[], Written]) -> Written:
        if not self._appending.acquire(blocking=False):
            raise Misuse(
                "another thread is appending: use a writer from one thread at a time, or take"
                " a lock"
            )
        try:
            return append()
        finally:
            self._appending.release()

    def _check_usable(self) -> None:
        super()._check_usable()
        if os.getpid() != self._process:  # what one writes the other does not count
            raise Misuse(
                "this writer belongs to the parent process: open another one after the fork"
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        if error is None:
            self.close()
        elif self._ended_by is None:  # what was appended is in; the next writer seals it
            self._ended_by = "it was left by an error"


def _ahead(ahead: Duration | None, layout: Layout) -> int | Literal["a day"] | None:
    if ahead is None:
        return None
    if ahead == "a day":
        return "a day"
    return ticks(ahead, layout.schema.time_unit, "ahead", least=1)


def layout_from(
    schema: Schema,
    time: str | None = None,
    key: Sequence[str] = (),
    partitions: int = 1,
    lateness: Duration = 0,
    time_unit: str | None = None,
) -> Layout:
    """What a journal is to be, as its maker says it; the unit of time is decided as in `source`."""
    if isinstance(schema, StreamSchema):
        if time_unit not in (None, schema.time_unit):
            raise Misuse(f"time_unit {time_unit!r}: the schema has {schema.time_unit!r}")
        typed = schema
    else:
        payload = StreamSchema(schema).payload
        if time_unit is None:
            time_unit = "ms"
            if time in payload.names and pa.types.is_timestamp(payload.field(time).type):
                time_unit = payload.field(time).type.unit
        typed = StreamSchema(payload, time_unit)
    late = ticks(lateness, typed.time_unit, "lateness")
    return Layout(typed, time, tuple(key), partitions, late)


def _layout(
    disk: LocalDisk,
    schema: Schema | None,
    time: str | None,
    key: tuple[str, ...],
    partitions: int,
    lateness: Duration,
    time_unit: str | None,
) -> Layout:
    """What was said of a journal; where nothing was, and it is there, what it has."""
    found = layout_of(disk)
    if found is not None:
        time, key = time or found.time, key or found.key
        partitions = found.partitions if partitions == 1 else partitions
        late = ticks(lateness, found.schema.time_unit, "lateness")
        lateness = late or found.lateness
    if schema is not None:
        said = layout_from(schema, time, key, partitions, lateness, time_unit)
    elif found is not None:
        said = Layout(found.schema, time, key, partitions, ticks(lateness, "ms", "lateness"))
    else:
        raise Misuse(f"{disk} is not a journal: give a schema to create one")
    if found is not None and said != found:
        raise Misuse(f"{disk} is there, and has {'; '.join(found.differences(said))}")
    return said


def _who() -> str:
    program = Path(sys.argv[0]).name if sys.argv and sys.argv[0] else "python"
    return f"{program}, process {os.getpid()} on {socket.gethostname()}"


@contextmanager
def _on_disk(path: str | os.PathLike[str]) -> Iterator[LocalDisk]:
    """A directory that cannot be used is the caller's to mend."""
    disk = LocalDisk(os.fspath(path))
    try:
        yield disk
    except OSError as e:
        raise Misuse(f"journal {disk} cannot be opened: {e}") from None


# -- reading --------------------------------------------------------------------------------------


class Stop(Protocol):
    """Ends a follower from outside: a `threading.Event`, or an object like it."""

    def is_set(self) -> bool:
        """Whether it is to end."""

    def wait(self, timeout: float) -> bool:
        """Waits so many seconds, or until it is to end."""


class JournalReader(Reader):
    """Reads frames of a journal from any position; any number of readers may run.

    Iterating gives the frames that exist now; `read` gives the next frame, or None if there is
    nothing new.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        partitions: Iterable[int] | None = None,
        columns: Sequence[str] | None = None,
        start: Start | Position = "earliest",
        since: int | str | date | datetime | None = None,
        frame_rows: int = FRAME_ROWS,
    ) -> None:
        """`start`: "earliest" (the first row that is still there), "end" (only what comes later),
        "base" (the last base of an output journal), or the `position` of a reader of the same
        partitions. `since` skips segments whose rows are all earlier: a count of the journal's
        time unit, a date, a datetime, or ISO text (UTC if it has no zone). A segment that also has
        later rows is read whole, so some earlier rows may still come.
        """
        self._closed = False
        with _on_disk(path) as disk:
            unit = opened(disk).schema.time_unit
            super().__init__(
                disk,
                partitions=partitions,
                columns=columns,
                start=start,
                since=None if since is None else instant(since, unit),
                frame_rows=frame_rows,
            )

    def read(self) -> Frame | None:
        """The next rows and the stable after them; None if there is nothing new.

        If it is interrupted, the position is unchanged: continue there with another reader.
        """
        if self._closed:
            raise Misuse("this reader was closed: open the journal anew, at its position")
        before = self.position
        try:
            return super().read()
        except GaplessError:
            raise
        except BaseException:  # a signal, say, half-way: nobody has been given those rows
            self._place.return_to(before)
            self._failed = JournalError(
                "a read was interrupted: open the journal anew, at this reader's position"
            )
            raise

    def __iter__(self) -> Iterator[Frame]:
        """Frames up to the present end; more may come later."""
        while (frame := self.read()) is not None:
            yield frame

    def follow(self, stop: Stop | None = None) -> Iterator[Frame]:
        """Frames up to the present end, and on as the journal grows.

        Ends when the journal has ended, or once `stop` is set. While nothing new comes it polls
        every 1 to 10 ms.
        """
        stop = Event() if stop is None else stop
        wait_ms = POLL_MS_MIN
        while not stop.is_set():
            frame = self.read()
            if frame is not None:
                wait_ms = POLL_MS_MIN
                yield frame
            elif self.ended:
                return
            else:
                stop.wait(wait_ms / 1000)
                wait_ms = min(2 * wait_ms, POLL_MS_MAX)

    def skip_before(self, t: int | str | date | datetime) -> None:
        """Rows before t are no longer needed: segments without later rows are skipped."""
        super().skip_before(instant(t, self.layout.schema.time_unit))

    def close(self) -> None:
        """Closes the files; frames that were returned stay valid."""
        self._closed = True
        self._lanes.clear()
        self._growing = self._held = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


__all__ = ["JournalReader", "JournalWriter", "Stop", "layout_from"]
