"""The files that are prepared: which they are, and what is in them.

    flows/          a.parquet  b.parquet  _SUCCESS       -> a.parquet, b.parquet: Parquet
    "flows/*.csv"   2024.csv   2025.csv.gz               -> CSV, of the columns in their headers

Files count in the order of their names: that is the order of arrival, where it matters. What is
wrong with them is said before anything is started: no such file, no Parquet, other columns than the
first. Nothing here needs Spark.
"""

from __future__ import annotations

import csv
import glob
import hashlib
import json
from codecs import BOM_UTF8
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import pyarrow as pa

from gapless.protocol.errors import BadData, Misuse
from gapless.protocol.lines.line_format import UTF8

Format = Literal["parquet", "csv", "jsonl"]
SUFFIXES: dict[str, Format] = {
    ".parquet": "parquet",
    ".csv": "csv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "jsonl",
}
COMPRESSED = (".gz", ".bz2")
"""Ends that text files may have beside their own: Spark reads such a file as one piece."""
HEADER_BYTES_MAX = 1 << 20
"""Of the first line of a CSV file: 4,096 columns with long names are a fifth of it."""
SAMPLE_BYTES = 1 << 20
"""Of a text file: what a suggestion of its columns is made from."""
_ACCEPTED = ", ".join(SUFFIXES)


@dataclass(frozen=True, slots=True)
class SourceFiles:
    """Files of one format."""

    format: Format
    given: tuple[str, ...]
    """As the caller wrote them, made absolute: a directory or a pattern is what one follows."""
    paths: tuple[str, ...]
    """In the order of their names. Of a directory that is followed there may be none yet."""
    size_bytes: int = 0
    fingerprint: str = ""
    """Of names, sizes and times of change: the same where nothing has changed."""
    columns: pa.Schema | None = None
    """Of Parquet, as the files say; of CSV strings, as the headers say; None: JSON does not say."""
    header: str | None = None
    """Of CSV: the first line."""
    rows: int | None = None
    """Of Parquet: how many rows the files say they have."""
    never_null: frozenset[str] = field(default_factory=frozenset)
    """Columns of Parquet of which the files say that they have no null."""


def listed(given: Sequence[str | Path], format_: str | None, *, follow: bool) -> SourceFiles:
    """The files that a caller names: files, patterns, directories (without what lies in theirs).

    Raises `Misuse` where there are none (unless a place is followed), or of several formats.
    """
    if format_ is not None and format_ not in SUFFIXES.values():
        raise Misuse(f"format {format_!r}: one of {', '.join(dict.fromkeys(SUFFIXES.values()))}")
    if not given:
        raise Misuse("no input: name files, a pattern or a directory")
    texts = [str(each) for each in given]
    for text in texts:
        if "://" in text:
            raise Misuse(
                f"{text}: name files of a mounted file system; rows from elsewhere: read them with "
                'Spark and write them with df.write.format("gapless")'
            )
    if follow and len(texts) != 1:
        raise Misuse(f"--follow watches one directory or pattern, not {len(texts)}")
    paths = sorted({path.absolute() for text in texts for path in _expanded(text, format_, follow)})
    found = format_ or _format_of(paths, texts)
    return SourceFiles(
        format=_known(found),
        given=tuple(str(Path(text).absolute()) for text in texts),
        paths=tuple(map(str, paths)),
        size_bytes=sum(path.stat().st_size for path in paths),
        fingerprint=_fingerprint(paths),
    )


def _expanded(text: str, format_: str | None, follow: bool) -> Iterable[Path]:
    path = Path(text)
    if path.is_dir():
        files = [each for each in path.iterdir() if each.is_file() and not _is_hidden(each)]
        known = [each for each in files if _suffix(each) is not None]
        fitting = [each for each in known if format_ in (None, _suffix(each))]
        chosen = fitting or (files if format_ else [])
        if not chosen and not follow:
            inside = "it has directories: name the files in them with a pattern, like 'DIR/*/*'; "
            has_more = any(each.is_dir() and not _is_hidden(each) for each in path.iterdir())
            raise Misuse(
                f"{text!r} has no files that end in {_ACCEPTED}; {inside if has_more else ''}"
                "--format says what other files are"
            )
        return chosen
    if path.is_file() and not follow:
        return [path]
    if glob.has_magic(text):
        found = [Path(each) for each in glob.glob(text)]  # noqa: PTH207  # Path.glob wants a root
        chosen = [each for each in found if each.is_file() and not _is_hidden(each)]
        if not chosen and not follow:
            raise Misuse(f"no file is called {text!r}")
        return chosen
    if follow:
        raise Misuse(f"--follow watches a directory or a pattern, and {text!r} is none")
    raise Misuse(f"there is no file {text!r}")


def _is_hidden(path: Path) -> bool:
    return path.name.startswith((".", "_"))


def _suffix(path: Path) -> Format | None:
    suffixes = [each.lower() for each in path.suffixes[-2:]]
    if suffixes and suffixes[-1] in COMPRESSED:
        suffixes.pop()
    found = SUFFIXES.get(suffixes[-1]) if suffixes else None
    return None if found == "parquet" and path.suffix.lower() in COMPRESSED else found


def _format_of(paths: Sequence[Path], texts: Sequence[str]) -> Format:
    """What the names' ends say; of a pattern without files, its own."""
    by_format: dict[Format, Path] = {}
    for path in paths or [Path(text) for text in texts]:
        found = _suffix(path)
        if found is None:
            raise Misuse(
                f"{str(path)!r}: its name ends in none of {_ACCEPTED}; --format says what it is"
            )
        by_format.setdefault(found, path)
    if len(by_format) > 1:
        (one, first), (other, second), *_ = by_format.items()
        raise Misuse(
            f"{str(first)!r} is {one} and {str(second)!r} {other}: prepare one format after the "
            "other, or choose one with --format"
        )
    return next(iter(by_format))


def _known(format_: str) -> Format:
    return next(each for each in SUFFIXES.values() if each == format_)


def _fingerprint(paths: Sequence[Path]) -> str:
    stats = [(str(path), path.stat().st_size, path.stat().st_mtime_ns) for path in paths]
    return hashlib.sha256(json.dumps(stats).encode()).hexdigest()


# -- what is in text files ------------------------------------------------------------------------


def first_line(path: str, encoding: str = UTF8) -> str:
    """The first line of a text file; "" where there is none."""
    data = start_of(path, HEADER_BYTES_MAX).removeprefix(BOM_UTF8)  # as Spark does
    end = data.find(b"\n")
    if end < 0 and len(data) >= HEADER_BYTES_MAX:
        raise BadData(f"{path!r}: its first line has more than {HEADER_BYTES_MAX} bytes")
    line = data if end < 0 else data[:end]
    try:
        return line.removesuffix(b"\r").decode(encoding)
    except UnicodeDecodeError:
        raise BadData(
            f"{path!r}: its first line is no {encoding.upper()} text: say --encoding"
        ) from None


def start_of(path: str, size: int) -> bytes:
    """The first bytes of a file, decompressed. Raises `BadData`."""
    try:
        with pa.input_stream(path, compression="detect") as stream:
            data: bytes = stream.read(size)
            return data
    except (OSError, pa.ArrowException) as e:
        raise BadData(f"{path!r} does not read: {e}") from None


def header_names(line: str) -> list[str]:
    """The columns that a CSV header names."""
    names: list[str] = next(csv.reader([line]), [])
    return names


def csv_header(paths: Sequence[str], encoding: str = UTF8) -> str | None:
    """The header that all files share; None where no file has a line yet."""
    header: str | None = None
    for path in paths:
        line = first_line(path, encoding)
        if not line:
            continue
        if header is not None and line != header:
            raise Misuse(
                f"{path!r} begins with {line[:200]!r}, files before it with {header[:200]!r}: "
                "prepare files of one header together, the others apart"
            )
        header = line
    if header is not None:
        names = header_names(header)
        if len(set(names)) < len(names) or not all(names):
            raise Misuse(f"the header {header[:200]!r} has a name twice, or none: give each one")
    return header
