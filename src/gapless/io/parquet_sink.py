"""Final events into a Parquet file, written beside the engine by a thread of its own.

    engine ---- frames ----> gathered into row groups ---- a short queue ----> encoder, file

The queue is bounded, so a slow disk slows the engine and does not fill the memory. The file has its
name only when it is whole: until then it is called after it, with `.part` at the end, and that is
removed where anything goes wrong.
"""

from __future__ import annotations

import threading
from pathlib import Path
from queue import Queue
from types import TracebackType
from typing import Any, Self

import pyarrow as pa
from pyarrow import parquet

from gapless.protocol.errors import Misuse
from gapless.protocol.frame import Frame
from gapless.protocol.schema import VE, VS, StreamSchema

GROUP_ROWS = 1 << 17
"""Rows of a row group: a reader decodes one at once, and statistics pay from about here on."""
GROUPS_WAITING_MAX = 2
"""Row groups that wait for the encoder: one more and the engine waits."""


class ParquetSink:
    """Writes frames of final events; a context: the file is there once it was left without error.

    The columns are `_vs` and `_ve`, in the stream's unit of time, which the file's metadata names,
    and the payload.
    """

    def __init__(self, path: str | Path, schema: StreamSchema, **options: Any) -> None:
        """`options` are those of `pyarrow.parquet.ParquetWriter`."""
        self.rows = 0
        """Events given so far."""
        self._path = _destination(path)
        self._part = self._path.with_name(f"{self._path.name}.part")
        arrow = schema.arrow
        self._schema = pa.schema(
            [arrow.field(VS), arrow.field(VE), *schema.payload], arrow.metadata
        )
        try:
            self._writer = parquet.ParquetWriter(self._part, self._schema, **options)
        except (pa.ArrowException, OSError, TypeError, ValueError) as e:
            if self._part.is_file():  # options are looked at when the file is open
                self._part.unlink()
            raise Misuse(f"to_parquet {str(self._path)!r}: {e}") from None
        self._gathered: list[pa.RecordBatch] = []
        self._gathered_rows = 0
        self._waiting: Queue[list[pa.RecordBatch] | None] = Queue(GROUPS_WAITING_MAX)
        self._error: Exception | None = None
        self._thread = threading.Thread(target=self._write, name="parquet sink", daemon=True)
        self._thread.start()

    def write(self, frame: Frame) -> None:
        """The rows of a frame, all of them inserts whose ends are final."""
        if not len(frame):
            return
        columns = frame.batch.columns
        del columns[2]  # `_was`: nothing is adjusted
        self._gathered.append(pa.RecordBatch.from_arrays(columns, schema=self._schema))
        self._gathered_rows += len(frame)
        self.rows += len(frame)
        if self._gathered_rows >= GROUP_ROWS:
            self._hand_over()

    def _hand_over(self) -> None:
        if self._error is not None:
            raise self._error
        self._waiting.put(self._gathered)
        self._gathered, self._gathered_rows = [], 0

    def _write(self) -> None:
        """The thread: encodes until it is told to end. After an error it only empties the queue."""
        while (group := self._waiting.get()) is not None:
            if self._error is None:
                try:
                    table = pa.Table.from_batches(group, schema=self._schema)
                    self._writer.write_table(table, row_group_size=GROUP_ROWS)
                except Exception as e:  # noqa: BLE001  # whatever it is, the engine's thread raises it
                    self._error = e

    def _end(self) -> None:
        self._waiting.put(None)
        self._thread.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        if error is None and self._gathered:
            self._waiting.put(self._gathered)
        self._end()
        try:
            self._writer.close()
            if error is None and self._error is not None:
                raise self._error
            if error is None:
                self._part.replace(self._path)
        finally:
            self._part.unlink(missing_ok=True)


def _destination(path: str | Path) -> Path:
    """The path, if a file can have it: whatever else is there, a device or a folder, is not a
    file's to replace.
    """
    try:
        wanted = Path(path)
        part = wanted.with_name(f"{wanted.name}.part")
        taken = [p for p in (wanted, part) if p.exists() and not p.is_file()]
        has_folder = wanted.parent.is_dir()
    except (OSError, TypeError, ValueError) as e:
        raise Misuse(f"to_parquet {path!r}: no file can have this name: {e}") from None
    if taken:
        raise Misuse(f"to_parquet: {str(taken[0])!r} exists and is not a file: name another path")
    if not has_folder:
        raise Misuse(f"to_parquet {str(wanted)!r}: there is no folder {str(wanted.parent)!r}")
    return wanted
