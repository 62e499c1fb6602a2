"""What is to be prepared, from what into what: all that can be known, and refused, without Spark.

    planned("flows.parquet", "data/netflow", time="ts", key="src", lateness="5s", partitions=8)
    -> Job: 1 file of Parquet, 5,000,000 rows of {ts, src, len}; a journal of 8 partitions by src,
       which is not there yet; no rules; sorted by ts

A `Job` names itself: the same files, unchanged, with the same options are the same job, so that a
journal knows whether it has it already.
"""

from __future__ import annotations

import hashlib
import json
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Any, Literal, NamedTuple

import pyarrow as pa

from gapless.journal.commit import Commits
from gapless.journal.disk import LocalDisk
from gapless.journal.head import Head
from gapless.journal.layout import Layout, layout_of
from gapless.journal.plausible import reach_of
from gapless.protocol.errors import Misuse, SchemaError
from gapless.protocol.lines.formats import check_encoding
from gapless.protocol.lines.line_format import UTF8
from gapless.protocol.schema import StreamSchema
from gapless.spark_sources import options
from gapless.spark_sources.parquet_files import footers, unreadable
from gapless.spark_sources.rules import Rule, check, parse
from gapless.spark_sources.schema_file import read_schema, text_of
from gapless.spark_sources.schema_guess import suggestion
from gapless.spark_sources.source_files import (
    SourceFiles,
    csv_header,
    header_names,
    listed,
)
from gapless.spark_sources.spark_types import columns_text

CHECKPOINT = "spark-checkpoint"
"""Where Spark keeps what of a followed directory is done, if nobody says otherwise."""
DIGEST_CHARS = 32
Lateness = int | str | timedelta
Inputs = str | Path | Sequence[str | Path]


@dataclass(frozen=True, slots=True)
class Job:
    """One preparation, checked as far as it can be without Spark."""

    files: SourceFiles
    out: str
    layout: Layout
    given: pa.Schema
    """The journal's columns as the files have them."""
    rules: tuple[Rule, ...]
    keep_order: bool
    follow: bool
    ends: bool
    durability: Literal["process", "machine"]
    encoding: str
    """Of lines."""
    reach: int | None
    """How far ahead of all others a row may be, in ticks; None: as far as it likes."""
    query: str
    """The same for the same job."""
    is_new: bool
    """Whether the journal is still to be made."""

    def commits(self) -> Commits | None:
        """The journal's commits as they are now; None where it is not made yet."""
        disk = LocalDisk(self.out)
        return None if layout_of(disk) is None else Commits(disk, self.layout)

    def head(self) -> Head:
        """What the journal holds now."""
        commits = self.commits()
        return self.empty if commits is None else commits.head

    @property
    def empty(self) -> Head:
        """What a journal holds that is not made yet."""
        zeros = (0,) * self.layout.partitions
        return Head(rows=zeros, first=zeros)

    def write_options(self) -> dict[str, str]:
        """What the data source is to know of any write of this job."""
        layout = self.layout
        return {
            "path": self.out,
            "time": layout.time or "",
            "key": ",".join(layout.key),
            "partitions": str(layout.partitions),
            "lateness": str(layout.lateness),
            "columns": columns_text(layout.schema.payload),
            "time_unit": layout.schema.time_unit,
            "durability": self.durability,
            "ahead": options.NO_BOUND if self.reach is None else str(self.reach),
        }


def planned(
    input: Inputs,
    out: str | Path,
    *,
    time: str | None = None,
    key: str | Sequence[str] | None = None,
    lateness: Lateness | None = None,
    partitions: int | None = None,
    schema: str | Path | pa.Schema | None = None,
    rules: str | Path | None = None,
    format: str | None = None,  # noqa: A002  # what users call it
    time_unit: str | None = None,
    keep_order: bool = False,
    follow: bool = False,
    end: bool = False,
    durability: str = "process",
    ahead: Lateness | None = None,
    encoding: str = UTF8,
) -> Job:
    """The job that these words mean. Raises `Misuse` or `BadData` where they mean none.

    `schema` and `rules` are files, or a schema itself; `key` may name several columns, also with
    commas; `lateness` is a text like "5s", or ticks of the journal's unit. Of a journal that is
    there whatever is not said is the journal's. `ahead` is how far beyond all others a row may be
    (journal/plausible.py): a day, if nothing is said and the time is a timestamp; "none": all are
    taken. `encoding` is that of lines.
    """
    if durability not in ("process", "machine"):
        raise Misuse(f'durability {durability!r}: "process" or "machine"')
    encoding = check_encoding(encoding)
    journal = _journal_path(out)
    found = layout_of(LocalDisk(journal))
    inputs = [input] if isinstance(input, str | Path) else list(input)
    files = listed(inputs, format, follow=follow)
    wanted = read_schema(schema) if isinstance(schema, str | Path) else schema
    if wanted is None and found is not None and files.format != "parquet":
        wanted = found.schema.payload
    files, given = _columns(files, wanted, encoding, follow=follow)
    asked = _Asked(time, key, lateness, partitions, time_unit)
    layout = _layout_of(out, found, given if wanted is None else wanted, asked)
    read_rules = () if rules is None else parse(text_of(rules, "--rules"))
    check(read_rules, layout.schema.payload.names)
    job = Job(
        files=files,
        out=journal,
        layout=layout,
        given=given,
        rules=read_rules,
        keep_order=keep_order,
        follow=follow,
        ends=end,
        durability="machine" if durability == "machine" else "process",
        encoding=encoding,
        reach=_reach(ahead, layout),
        query="",
        is_new=_is_new(journal, layout),
    )
    return replace(job, query=f"prepare-{_digest(job)}")


def _digest(job: Job) -> str:
    layout = job.layout
    parts: list[Any] = [
        job.files.fingerprint,
        job.files.format,
        layout.schema.fingerprint.hex(),
        layout.time,
        layout.key,
        layout.partitions,
        layout.lateness,
        [(rule.kind, rule.on, rule.reason, repr(rule.value)) for rule in job.rules],
        job.keep_order,
    ]
    if job.reach != reach_of(layout):  # a job that says nothing of it is what it was before
        parts.append(["ahead", job.reach])
    if job.encoding != UTF8:
        parts.append(["encoding", job.encoding])
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:DIGEST_CHARS]


# -- the journal ----------------------------------------------------------------------------------


def _journal_path(out: str | Path) -> str:
    LocalDisk(out)  # which says what is wrong with s3://
    path = Path(out).absolute()
    in_the_way = next((each for each in (path, *path.parents) if each.exists()), path)
    if in_the_way.exists() and not in_the_way.is_dir():
        raise Misuse(f"{str(in_the_way)!r} is a file: a journal is a directory")
    return str(path)


def _is_new(journal: str, layout: Layout) -> bool:
    disk = LocalDisk(journal)
    found = layout_of(disk)
    if found is None:
        folder = Path(journal)
        others = [p.name for p in folder.iterdir()] if folder.exists() else []
        others = [name for name in others if name != CHECKPOINT and not name.startswith("layout.")]
        if others:
            raise Misuse(
                f"{journal} is not a journal, and not empty (it has {min(others)!r}): name a "
                "new or an empty directory"
            )
        _try_out(folder)
        return True
    if found != layout:
        raise Misuse(
            f"{journal} is there, and has {'; '.join(found.differences(layout))}: prepare with its "
            "settings, or into another directory"
        )
    if Commits(disk, layout).head.ended:
        raise Misuse(f"{journal} has ended: nothing can be added to it")
    return False


def _try_out(folder: Path) -> None:
    """Raises `Misuse` where no journal can be made: files that can be linked are all that it needs.
    Tried before Spark starts, in the directory or the nearest one above that is there.
    """
    there = next(place for place in (folder, *folder.parents) if place.exists())
    try:
        with tempfile.TemporaryDirectory(prefix=".gapless-", dir=there) as trial:
            (Path(trial) / "a").touch()
            (Path(trial) / "b").hardlink_to(Path(trial) / "a")
    except OSError as e:
        raise Misuse(
            f"no journal can be made at {folder}: {there} takes no files, or no hard links "
            f"({e.strerror}); name another directory"
        ) from None


class _Asked(NamedTuple):
    """What was said of the journal's form; None: nothing."""

    time: str | None
    key: str | Sequence[str] | None
    lateness: Lateness | None
    partitions: int | None
    time_unit: str | None


def _layout_of(out: str | Path, found: Layout | None, payload: pa.Schema, asked: _Asked) -> Layout:
    """The form of the journal: what was said, and where nothing was what the journal has."""
    if found is not None and found.has_rows:
        counts = found.schema.payload.field(found.time).type == pa.int64()
        asked = _Asked(
            asked.time or found.time,
            found.key if asked.key is None else asked.key,
            found.lateness if asked.lateness is None else asked.lateness,
            found.partitions if asked.partitions is None else asked.partitions,
            asked.time_unit or (found.schema.time_unit if counts else None),
        )
    elif asked.time is None:
        raise Misuse(f"{out} is not a journal yet: --time says which column has the time of a row")
    time, key, partitions = asked.time or "", asked.key or (), asked.partitions
    names = [name.strip() for name in (key.split(",") if isinstance(key, str) else key)]
    if time not in payload.names:
        raise Misuse(f"--time {time!r} is none of the columns {', '.join(payload.names)}")
    t = payload.field(time).type
    unit = str(t.unit) if pa.types.is_timestamp(t) else asked.time_unit or "ms"
    if asked.time_unit not in (None, unit):
        raise Misuse(f"--time-unit {asked.time_unit} is for integers; {time!r} is {t}")
    return Layout(
        StreamSchema(payload, unit),
        time,
        tuple(filter(None, names)),
        1 if partitions is None else partitions,
        _ticks(asked.lateness or 0, unit),
    )


def _reach(ahead: Lateness | None, layout: Layout) -> int | None:
    if isinstance(ahead, timedelta):
        ahead = _ticks(ahead, layout.schema.time_unit)
    return options.reach_from(ahead, layout)


def _ticks(lateness: Lateness, unit: str) -> int:
    if isinstance(lateness, timedelta):
        micros = lateness // timedelta(microseconds=1)
        return options.ticks(f"{micros}us", unit) if micros >= 0 else micros
    return options.ticks(lateness, unit) if isinstance(lateness, str) else lateness


# -- columns --------------------------------------------------------------------------------------


def _columns(
    files: SourceFiles, wanted: pa.Schema | None, encoding: str, *, follow: bool
) -> tuple[SourceFiles, pa.Schema]:
    """What the files say of their columns, and the journal's columns as the files have them."""
    if files.format == "parquet":
        return _parquet_columns(files, wanted, follow=follow)
    if wanted is None:
        raise Misuse(_how_a_schema_looks(files))
    if files.format == "csv":
        header = csv_header(files.paths, encoding)
        if header is None:
            raise Misuse(
                "no CSV file has a header yet, which says the order of the columns: put one there, "
                "then begin"
            )
        there = header_names(header)
        _check_there(wanted, there)
        said = pa.schema([(name, pa.string()) for name in there])
        files = replace(files, columns=said, header=header)
    return files, pa.schema([(name, pa.string()) for name in wanted.names])


def _parquet_columns(
    files: SourceFiles, wanted: pa.Schema | None, *, follow: bool
) -> tuple[SourceFiles, pa.Schema]:
    if not files.paths:
        if wanted is None:
            raise Misuse("there is no file yet that says the columns: give them with --schema")
        return replace(files, columns=wanted), wanted
    found = footers(files.paths, None if wanted is None else wanted.names)
    if wanted is not None:
        _check_there(wanted, found.columns.names)
    given = pa.schema([found.columns.field(name) for name in (wanted or found.columns).names])
    try:
        StreamSchema(given)
        if bad := next((f for f in given if unreadable(f.type)), None):
            raise SchemaError(f"column {bad.name!r} is {bad.type}, which Spark does not read")
    except SchemaError as e:
        raise SchemaError(
            f"{e}; name the columns that are to be in the journal with --schema"
        ) from None
    files = replace(files, columns=found.columns)
    if not follow:  # of the files that will come nothing is known
        files = replace(files, rows=found.rows, never_null=found.never_null)
    return files, given


def _check_there(wanted: pa.Schema, there: Sequence[str]) -> None:
    if missing := [name for name in wanted.names if name not in there]:
        raise Misuse(
            f"column {missing[0]!r} of the schema is not in the files, which have "
            f"{', '.join(there)}"
        )


def _how_a_schema_looks(files: SourceFiles) -> str:
    suggested = suggestion(files.paths[0], files.format) if files.paths else ""
    looks = suggested or 'ts = "timestamp[ms]"\nsrc = "int32"\n'
    name = "its first rows look like this" if suggested else "such a file looks like this"
    return (
        f"{files.format} does not say its types: name them in a file, --schema FILE.toml; "
        f"{name}:\n\n{looks}"
    )
