"""Sources for SQL of what lies somewhere: a journal or a file says its columns and its time itself.

    data/netflow      a journal: its columns, its time, its own verdict on late rows
    flows.parquet     Parquet or Arrow: its columns; the time is the one timestamp among them

A text file (CSV, JSON lines) has no types, and a file with several timestamps no one time: CREATE
TABLE says them.
"""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from gapless.engine.query import Query
from gapless.engine.source import source
from gapless.io.input_files import is_journal
from gapless.journal.disk import LocalDisk
from gapless.journal.layout import opened
from gapless.protocol.errors import BadData, Misuse

_ARROW = (".arrow", ".ipc", ".feather")
_AS_IN = "CREATE TABLE {name} (ts TIMESTAMP(3), ..., WATERMARK FOR ts)"


def source_of(name: str, path: str) -> Query:
    """The source that a journal or a file is, under this name."""
    if is_journal(path):
        layout = opened(LocalDisk(Path(path)))
        if layout.time is None:
            raise Misuse(
                f"{path} is a journal of frames, an output: give its rows as a file, with the "
                "columns _vs and _ve left out"
            )
        payload, unit = layout.schema.payload, layout.schema.time_unit
        return source(name, payload, time=layout.time, time_unit=unit)
    payload = _schema(name, Path(path))
    return source(name, payload, time=_time(name, path, payload))


def _schema(name: str, path: Path) -> pa.Schema:
    if path.is_dir():
        files = sorted(each for each in path.iterdir() if each.suffix in (".parquet", *_ARROW))
        if not files:
            raise Misuse(f"source {name}: folder {path} has no Parquet or Arrow files")
        path = files[0]
    if not path.is_file():
        raise Misuse(f"source {name}: there is no file or journal {str(path)!r}")
    suffix = path.suffix.lower()
    try:
        if suffix == ".parquet":
            from pyarrow import parquet

            return parquet.read_schema(path).remove_metadata()
        if suffix in _ARROW:
            with pa.OSFile(str(path)) as file:
                is_file = file.read(6) == b"ARROW1"
                file.seek(0)
                opens = pa.ipc.open_file if is_file else pa.ipc.open_stream
                with opens(file) as reader:
                    return reader.schema.remove_metadata()
    except (pa.ArrowException, OSError) as e:
        raise BadData(f"source {name}, file {str(path)!r}: {e}") from None
    raise Misuse(
        f"source {name}: nothing says the types of {path}: write {_AS_IN.format(name=name)}"
    )


def _time(name: str, path: str, payload: pa.Schema) -> str:
    stamps = [field.name for field in payload if pa.types.is_timestamp(field.type)]
    if len(stamps) == 1:
        return str(stamps[0])
    found = ", ".join(stamps) or "none"
    raise Misuse(
        f"source {name}: {path} has to have one timestamp, and has {found}: say which is the time "
        f"with {_AS_IN.format(name=name)}"
    )
