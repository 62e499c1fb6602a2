"""Batches of events into files, as they come: Parquet, CSV, JSON lines, Arrow.

    flows.parquet                        one file; the end of its name says what is in it
    flows/  out-00000.parquet ...        a folder of several: the rows are split in order of arrival
    -                                    standard output, as JSON lines or CSV

However the rows come, a file is the same: they are gathered into groups of one size, and a group is
all that memory holds. All files have their names only when all are whole: until then each has
`.part` at the end, and those are removed where anything goes wrong.
"""

from __future__ import annotations

import sys
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import IO, Self

import pyarrow as pa

from gapless.io.event_formats import ENCODERS, Counted
from gapless.io.parquet_sink import GROUP_ROWS
from gapless.protocol.errors import Misuse

STDOUT = "-"
FORMATS = {
    ".parquet": "parquet",
    ".csv": "csv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".arrow": "arrow",
    ".ipc": "arrow",
    ".feather": "arrow",
}
"""How a file's name ends, and what is then in it."""
TEXT_FORMATS = ("jsonl", "csv")
"""What can be put out as a stream; the first, if nobody says."""
FILES_MAX = 10_000
"""Of a folder: their numbers have five digits, and many tools list a folder at once."""


@dataclass(frozen=True)
class WrittenFile:
    """A file that is whole."""

    path: str
    rows: int
    bytes: int


# -- where rows go --------------------------------------------------------------------------------


class Destination:
    """The files of one run: refuses what cannot be at once, and lets all appear together.

    A context. `write` is called once for each of its streams; `files` then says what there is, once
    the context was left without an error.
    """

    def __init__(
        self,
        out: str,
        streams: Sequence[str] = ("out",),
        *,
        format_: str | None = None,
        files: int = 1,
        overwrite: bool = False,
    ) -> None:
        """`streams` are how files are called in a folder: `flows.parquet`, or, with several files
        each, `flows-00000.parquet` and so on. `format_` is for folders (Parquet by default) and
        for standard output.
        """
        if not 1 <= files <= FILES_MAX:
            raise Misuse(f"files {files}: give 1 to {FILES_MAX}")
        if not out:
            raise Misuse("the output has no name: give a file, a folder, or - for standard output")
        if out == STDOUT and sys.stdout is None:
            raise Misuse("standard output is closed: name a file or a folder for the rows")
        self.files: list[WrittenFile] = []
        self._path = Path(out)
        self._overwrite = overwrite
        self.is_stdout = out == STDOUT
        known = FORMATS.get(self._path.suffix.lower())
        self.is_folder = not self.is_stdout and (_is_dir(self._path) or known is None)
        self.format = _format(out, known, format_, self.is_stdout, self.is_folder)
        if not self.is_folder and len(streams) > 1:
            raise Misuse(
                f"{', '.join(streams)} are files of a folder, and {out!r} is none: "
                "name a folder, or ask for one of them"
            )
        if not self.is_folder and files > 1:
            raise Misuse(f"{files} files are in a folder, and {out!r} is none: name a folder")
        self._parts: list[tuple[Path, Path]] = []  # where a file is now, and where it will be
        self._stale: set[Path] = set()
        self._folder_made = False
        if not self.is_stdout:
            self._look()
            self._paths = {stream: self._claim(stream, files) for stream in streams}

    def write(
        self, stream: str, batches: Iterable[pa.RecordBatch], schema: pa.Schema, rows: int
    ) -> Iterator[int]:
        """Writes a stream of so many rows, or fewer if no more come. Yields, group by group, how
        many there were in it.
        """
        rest = _Rows(batches)
        if self.is_stdout:
            with _writing(STDOUT):
                file = yield from self._fill(STDOUT, sys.stdout.buffer, rest, schema, rows)
                sys.stdout.buffer.flush()
            self.files.append(file)
            return
        self._make_folder()
        paths, start = self._paths[stream], 0
        for number, path in enumerate(paths, 1):
            end = rows * number // len(paths)
            part = path.with_name(f"{path.name}.part")
            with _writing(path), part.open("wb") as out:
                self._parts.append((part, path))
                file = yield from self._fill(str(path), out, rest, schema, end - start)
            self.files.append(file)
            start = end

    def _fill(
        self, path: str, out: IO[bytes], rest: _Rows, schema: pa.Schema, rows_max: int
    ) -> Generator[int, None, WrittenFile]:
        """Writes one file, of so many rows or as many as there are."""
        counted, rows = Counted(out), 0
        encoder = ENCODERS[self.format](counted, schema)
        try:
            while group := rest.take(min(GROUP_ROWS, rows_max - rows)):
                batch = pa.concat_batches(group)
                encoder.write(batch)
                rows += len(batch)
                yield len(batch)
            encoder.close()
        except BaseException:
            counted.forget()
            encoder.close()  # else Arrow does it later, in a file that is closed
            raise
        return WrittenFile(path, rows, counted.bytes)

    def _look(self) -> None:
        """Finds out early what cannot be."""
        path = self._path
        if not path.parent.is_dir():
            raise Misuse(f"there is no folder {str(path.parent)!r}: make it")
        if path.exists() and not (path.is_dir() if self.is_folder else path.is_file()):
            wanted = "folder" if self.is_folder else "file"
            raise Misuse(f"{str(path)!r} exists and is not a {wanted}; choose another place")

    def _claim(self, stream: str, files: int) -> list[Path]:
        """The files of a stream. What another run has left of it in the folder will go."""
        if not self.is_folder:
            paths, there = [self._path], {p for p in (self._path,) if p.exists()}
        else:
            tails = [f"-{number:05d}" for number in range(files)] if files > 1 else [""]
            paths = [self._path / f"{stream}{tail}.{self.format}" for tail in tails]
            folder = self._path.iterdir() if self._path.is_dir() else ()
            there = {path for path in folder if _is_of(path, stream)}
        if there and not self._overwrite:
            raise Misuse(f"{str(min(there))!r} exists: use --overwrite, or choose another place")
        self._stale |= there - set(paths)
        return paths

    def _make_folder(self) -> None:
        if self.is_folder and not self._path.exists():
            with _writing(self._path):
                self._path.mkdir()
            self._folder_made = True

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        try:
            if error is None:
                self._finish()
        finally:
            for part, _path in self._parts:
                part.unlink(missing_ok=True)
            if self._folder_made and not any(self._path.iterdir()):
                self._path.rmdir()

    def _finish(self) -> None:
        for part, path in self._parts:
            with _writing(path):
                part.replace(path)
        for path in self._stale:
            path.unlink(missing_ok=True)


def _is_dir(path: Path) -> bool:
    try:
        return path.is_dir()
    except OSError as e:  # a name that is too long
        raise Misuse(f"{str(path)[:50]!r} cannot be looked at: {e.strerror}") from None


def _format(out: str, known: str | None, asked: str | None, stdout: bool, folder: bool) -> str:
    formats = sorted(set(FORMATS.values()))
    if asked is not None and asked not in formats:
        raise Misuse(f"format {asked!r}: it is one of {', '.join(formats)}")
    if stdout:
        if asked is not None and asked not in TEXT_FORMATS:
            raise Misuse(f"standard output takes {' or '.join(TEXT_FORMATS)}, not {asked}")
        return asked or TEXT_FORMATS[0]
    if folder:
        if Path(out).suffix and not Path(out).is_dir():
            raise Misuse(
                f"{out!r} ends in none of {', '.join(FORMATS)}; a folder's name has no extension"
            )
        return asked or "parquet"
    if asked is not None and asked != known:
        raise Misuse(f"{out!r} has the name of a {known}, and --format says {asked}")
    return str(known)


def _is_of(path: Path, name: str) -> bool:
    """Whether a file of a folder is of the stream of this name, from this run or another."""
    stem, _, number = path.stem.rpartition("-")
    is_numbered = stem == name and number.isdecimal()
    return path.suffix in FORMATS and (path.stem == name or is_numbered)


@contextmanager
def _writing(path: str | Path) -> Iterator[None]:
    """A file that cannot be written is the caller's to mend; a stopped reader has enough."""
    try:
        yield
    except BrokenPipeError:
        raise
    except (pa.ArrowException, OSError) as e:
        raise Misuse(f"{str(path)!r} cannot be written, and nothing is left of it: {e}") from None


# -- rows, in groups ------------------------------------------------------------------------------


class _Rows:
    """Batches to take rows from."""

    def __init__(self, batches: Iterable[pa.RecordBatch]) -> None:
        self._batches = iter(batches)
        self._head: pa.RecordBatch | None = None

    def take(self, rows: int) -> list[pa.RecordBatch]:
        """The next so many rows, or as many as there are."""
        taken: list[pa.RecordBatch] = []
        while rows:
            head = self._head if self._head is not None else next(self._batches, None)
            if head is None:
                break
            self._head = head.slice(rows) if len(head) > rows else None
            taken.append(head.slice(0, rows))
            rows -= len(taken[-1])
        return taken
