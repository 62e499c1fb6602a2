"""Files as inputs: what `execute` is given as a path is opened here and read batch by batch.

    "flows.parquet"   "flows.arrow"   "flows.csv"   "flows.jsonl"   ["day1.parquet", "day2.parquet"]
    "flows/"          a folder of such files
    "data/netflow"    a journal of rows, which is a folder with a file `layout`

A list is read in its order, a folder in the order of its files' names. Only the columns that the
source declares are read, and no more of a file is in memory than a few batches, however large it
is. A CSV file has a header. Lines of CSV and JSON mean what they mean wherever they are read
(protocol/lines/), and one that is no row is a bad row of the query.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from os import PathLike
from pathlib import Path
from typing import Any, TypeAlias

import pyarrow as pa

from gapless.engine.intake import Unread
from gapless.engine.judged import Judged, check_source, judged_rows
from gapless.engine.nodes import Source
from gapless.io.line_files import rows_of
from gapless.journal import layout
from gapless.journal.disk import LocalDisk
from gapless.journal.reader import Reader
from gapless.protocol.errors import BadData, Misuse, SchemaError
from gapless.protocol.frame import Frame
from gapless.protocol.lines.line_format import UTF8

Paths: TypeAlias = str | PathLike[str] | Sequence[str | PathLike[str]]

Rows: TypeAlias = pa.RecordBatch | Unread
Read: TypeAlias = Callable[[Path, Source, str], Iterator[Rows]]
"""Reads a file for a source; lines are in an encoding."""

READ_ROWS = 1 << 16
"""Rows that are decoded at once: four frames; a batch of Parquet costs a fraction of a millisecond
to begin with."""
DATASET_BATCHES_AHEAD = 4
"""Batches of a dataset that Arrow reads while the last is worked on: with its default, 16, memory
is for the most part what nobody has asked for yet."""

_ARROW_FILE = b"ARROW1"  # how a file begins that has its batches' places at its end


def is_file_input(given: Any) -> bool:
    """Whether an input is to be opened here: a path, a list of paths, a dataset."""
    if isinstance(given, list | tuple):
        return bool(given) and all(isinstance(each, str | PathLike) for each in given)
    return isinstance(given, str | PathLike) or _is_dataset(given)


def is_journal(given: Any) -> bool:
    """Whether an input is the path of a journal."""
    try:
        return isinstance(given, str | PathLike) and (Path(given) / layout.NAME).is_file()
    except OSError:  # a name that no file can have
        return False


def journal_rows(path: str | PathLike[str], source: Source, frame_rows: int) -> Iterator[Judged]:
    """The rows of a journal for this source, all partitions side by side, to the end of what is
    there when it is reached.

    Raises `Misuse` at once where the source cannot read it.
    """
    disk = LocalDisk(Path(path))
    check_source(source, layout.opened(disk), f"journal {str(path)!r}")
    reader = Reader(disk, columns=source.schema.names, frame_rows=frame_rows)
    return judged_rows(source, _frames_of(reader))


def _frames_of(reader: Reader) -> Iterator[Frame]:
    while (frame := reader.read()) is not None:
        yield frame


def batches_of(given: Any, source: Source, encoding: str = UTF8) -> Iterator[Rows]:
    """The batches of files or a dataset, for this source; `encoding` is that of lines.

    Raises `Misuse` at once where a path is none; `BadData`, later, where a file does not read.
    """
    if _is_dataset(given):
        return _of_dataset(given, source)
    if isinstance(given, str | PathLike):
        paths = _in_folder(Path(given)) if Path(given).is_dir() else [Path(given)]
    else:
        paths = [Path(each) for each in given]
    opened = []
    for path in paths:
        if not path.is_file():
            raise Misuse(f"source {source.name}: {_no_file(path)}")
        opened.append((path, _reader(path)))
    return _of_files(opened, source, encoding)


def _no_file(path: Path) -> str:
    if is_journal(path):
        return f"{str(path)!r} is a journal, not a file: pass its path alone"
    return f"there is no file {str(path)!r}"


def _of_files(opened: list[tuple[Path, Read]], source: Source, encoding: str) -> Iterator[Rows]:
    for path, read in opened:
        try:
            yield from read(path, source, encoding)
        except SchemaError as e:
            raise SchemaError(f"source {source.name}, file {str(path)!r}: {e}") from None
        except (pa.ArrowException, OSError) as e:
            raise BadData(f"source {source.name}, file {str(path)!r}: {e}") from None


def _in_folder(folder: Path) -> list[Path]:
    """The files of a folder that can be read, except for hidden ones."""
    files = (path for path in sorted(folder.iterdir()) if path.suffix.lower() in _READERS)
    paths = [path for path in files if not path.name.startswith((".", "_"))]
    if not paths:
        raise Misuse(f"folder {str(folder)!r} has no files that end in {', '.join(_READERS)}")
    return paths


def _reader(path: Path) -> Read:
    read = _READERS.get(path.suffix.lower())
    if read is None:
        raise Misuse(
            f"file {str(path)!r}: its name ends in none of {', '.join(_READERS)}; open it yourself "
            "and give its batches"
        )
    return read


def _parquet(path: Path, source: Source, _: str) -> Iterator[pa.RecordBatch]:
    from pyarrow import parquet

    # Buffered beforehand, a file's columns would be in memory as a whole.
    with parquet.ParquetFile(path, pre_buffer=False) as file:
        there = set(file.schema_arrow.names)
        wanted = [name for name in source.schema.names if name in there]
        yield from file.iter_batches(batch_size=READ_ROWS, columns=wanted, use_threads=True)


def _arrow(path: Path, source: Source, _: str) -> Iterator[pa.RecordBatch]:  # noqa: ARG001  # one form
    with pa.OSFile(str(path)) as opened:  # not mapped: a file that gets shorter would end us
        is_file = opened.read(len(_ARROW_FILE)) == _ARROW_FILE
        opened.seek(0)
        if is_file:
            with pa.ipc.open_file(opened) as file:
                for i in range(file.num_record_batches):
                    yield file.get_batch(i)
        else:
            with pa.ipc.open_stream(opened) as stream:
                yield from stream


def _csv(path: Path, source: Source, encoding: str) -> Iterator[Rows]:
    return rows_of(path, "csv", source.schema.payload, encoding)


def _json(path: Path, source: Source, encoding: str) -> Iterator[Rows]:
    return rows_of(path, "jsonl", source.schema.payload, encoding)


_READERS: dict[str, Read] = {
    ".parquet": _parquet,
    ".arrow": _arrow,
    ".ipc": _arrow,
    ".feather": _arrow,
    ".csv": _csv,
    ".jsonl": _json,
    ".ndjson": _json,
}


def _is_dataset(given: Any) -> bool:
    """Without importing `pyarrow.dataset`, which nobody has if nobody imported it."""
    return any(
        c.__module__ == "pyarrow._dataset" and c.__name__ == "Dataset" for c in type(given).mro()
    )


def _of_dataset(given: Any, source: Source) -> Iterator[pa.RecordBatch]:
    there = set(given.schema.names)
    scanner = given.scanner(
        columns=[name for name in source.schema.names if name in there],
        batch_size=READ_ROWS,
        batch_readahead=DATASET_BATCHES_AHEAD,
        fragment_readahead=1,
    )
    try:
        yield from scanner.to_batches()
    except (pa.ArrowException, OSError) as e:
        raise BadData(f"source {source.name}: {e}") from None
