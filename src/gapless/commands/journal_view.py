"""What `gapless journal show` says of a journal: one document, and how people get to see it.

JOURNAL  rows of ts, src, len; time ts, key src, 4 partitions, lateness 5 s
rows     81,234,117 from 2024-05-01T00:00:00 to ...       watermark, segments, live part, writer
table    one line a partition
table    registered readers: how many rows each has still to read
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from rich.table import Table

from gapless.engine.durations import text as duration_text
from gapless.journal.commit import Commits, live_segment
from gapless.journal.epoch import claimed_by, read_live_end
from gapless.journal.head import Head
from gapless.journal.partition import partitions_of
from gapless.journal.parts import Ints, Parts
from gapless.journal.reader import Reader
from gapless.journal.readers import Registered, registered
from gapless.journal.rejects import FOLDER as REJECTS
from gapless.protocol.elements import BEGIN, INF

if TYPE_CHECKING:
    from gapless.journal.disk import Disk
    from gapless.journal.layout import Layout

_FRAME_ROWS = 1 << 16


# -- the document ---------------------------------------------------------------------------------


def described(disk: Disk, layout: Layout) -> dict[str, Any]:
    """What is in a journal, by its commits and its live part. Times are ISO texts where the time
    column is a timestamp, else counts of the unit.
    """
    commits = Commits(disk, layout)
    head, parts = commits.head, Parts.of(commits.facts)
    has_rows = commits.facts.column("rows").to_numpy() > 0
    spans = _Spans(layout.partitions)
    spans.add_parts(parts, commits.facts.column("least").to_numpy()[has_rows])
    live_rows, stable = _read_live(disk, layout, head, spans)
    segments = np.bincount(parts.partition, minlength=layout.partitions)
    ends = spans.rows + np.array(head.first)
    return {
        "journal": str(disk),
        "holds": "rows" if layout.has_rows else "frames",
        "columns": {field.name: str(field.type) for field in layout.schema.payload},
        "time": layout.time,
        "time_unit": layout.schema.time_unit,
        "key": list(layout.key),
        "partitions": layout.partitions,
        "lateness": layout.lateness,
        "rows": int(spans.rows.sum()),
        "trimmed_rows": sum(head.first),
        "first": _time(int(spans.least.min()), layout),
        "last": _time(int(spans.largest.max()), layout),
        "watermark": _time(stable, layout),
        "ended": stable == INF,
        "segments": len(parts.names),
        "bytes": int(parts.file_bytes.sum()),
        "live": {
            "segment": live_segment(head),
            "rows": live_rows,
            "bytes": _live_bytes(disk, head),
        },
        "batches": head.batches,
        "queries": dict(head.queries),
        "commits": {
            "last": head.number,
            "full": head.full,
            "at": _iso(head.at_ms, "ms") if head.number else None,
        },
        "epoch": head.epoch,
        "writer": claimed_by(disk, head.epoch) if head.epoch else None,
        "rejected": head.rejected,
        "reject_files": len(disk.list(REJECTS)),
        "bases": [
            {"commit": base.commit, "file": base.segment, "bytes": base.bytes}
            for base in head.bases
        ],
        "readers": [_reader(reader, ends.tolist()) for reader in registered(disk)],
        "by_partition": [
            _partition(p, head, spans, segments, layout) for p in range(layout.partitions)
        ],
    }


def _partition(p: int, head: Head, spans: _Spans, segments: Ints, layout: Layout) -> dict[str, Any]:
    return {
        "partition": p,
        "rows": int(spans.rows[p]),
        "trimmed_rows": head.first[p],
        "segments": int(segments[p]),
        "first": _time(int(spans.least[p]), layout),
        "last": _time(int(spans.largest[p]), layout),
    }


class _Spans:
    """By partition: rows, and the least and largest of their times."""

    def __init__(self, partitions: int) -> None:
        self.rows = np.zeros(partitions, np.int64)
        self.least = np.full(partitions, INF)
        self.largest = np.full(partitions, BEGIN)

    def add(self, places: Ints, times: Ints) -> None:
        """Rows one by one."""
        np.add.at(self.rows, places, 1)
        np.minimum.at(self.least, places, times)
        np.maximum.at(self.largest, places, times)

    def add_parts(self, parts: Parts, least: Ints) -> None:
        """Rows of segments."""
        np.add.at(self.rows, parts.partition, parts.rows)
        np.minimum.at(self.least, parts.partition, least)
        np.maximum.at(self.largest, parts.partition, parts.largest)


def _read_live(disk: Disk, layout: Layout, head: Head, spans: _Spans) -> tuple[int, int]:
    """Counts what lies behind the commits: how many rows, and what is promised behind them. It has
    a segment's bytes at most.
    """
    reader = Reader(disk, start=dict(enumerate(head.rows)), frame_rows=_FRAME_ROWS)
    rows = 0
    while (frame := reader.read()) is not None:
        keys = [frame.payload.column(name) for name in layout.key]
        places = partitions_of(keys, layout.partitions) if keys else np.zeros(len(frame), np.int64)
        spans.add(places, frame.vs)
        rows += len(frame)
    return rows, max(head.stable, reader.stable)


def _live_bytes(disk: Disk, head: Head) -> int:
    """Of the live segment, as far as it may be read: behind that may lie zeros."""
    shown = read_live_end(disk, head.epoch)
    return shown.end if shown is not None and shown.number == head.live else 0


def _reader(reader: Registered, ends: list[int]) -> dict[str, Any]:
    if reader.position is None:
        return {"name": reader.name, "position": None, "behind_rows": None, "at": None}
    there = [(ends[p], offset) for p, offset in reader.position.items() if p < len(ends)]
    return {
        "name": reader.name,
        "position": {str(p): offset for p, offset in reader.position.items()},
        "behind_rows": sum(max(0, end - offset) for end, offset in there),
        "at": _iso(reader.at_ms, "ms"),
    }


def _time(t: int, layout: Layout) -> str | int | None:
    if t in (BEGIN, INF):
        return None
    column = None if layout.time is None else layout.schema.payload.field(layout.time).type
    if column is None or not pa.types.is_timestamp(column):
        return t
    return _iso(t, layout.schema.time_unit)


def _iso(t: int, unit: str) -> str:
    return str(np.array(t, np.int64).view(f"datetime64[{unit}]"))


# -- for people -----------------------------------------------------------------------------------


def shown(document: dict[str, Any]) -> Iterator[str | Table]:
    """The same, as lines and tables."""
    d, live = document, document["live"]
    columns = ", ".join(f"{name} {kind}" for name, kind in d["columns"].items())
    late = duration_text(d["lateness"], d["time_unit"])
    key = f", key {', '.join(d['key'])}" if d["key"] else ""
    of = f"; time {d['time']}{key}, lateness {late}" if d["time"] else ""
    yield f"{d['journal']}: {d['holds']} of {columns}{of}"
    span = f" from {d['first']} to {d['last']}" if d["first"] is not None else ""
    trimmed = f" ({d['trimmed_rows']:,} more were trimmed)" if d["trimmed_rows"] else ""
    ended = "it has ended" if d["ended"] else f"watermark {_said(d['watermark'])}"
    yield f"{d['rows']:,} rows{span}{trimmed}; {ended}"
    plural = "" if d["segments"] == 1 else "s"
    yield (
        f"{d['segments']:,} segment{plural}, {d['bytes']:,} bytes; live: {live['rows']:,} rows, "
        f"{live['bytes']:,} bytes; {d['batches']:,} batches sealed, {d['rejected']:,} rows rejected"
    )
    commits = d["commits"]
    writer = f"; writer {d['epoch']}: {d['writer']}" if d["writer"] else ""
    yield f"commit {commits['last']:,} of {_said(commits['at'])}{writer}"
    for query, batch in d["queries"].items():
        yield f"query {query}: up to batch {batch}"
    for base in d["bases"]:
        yield f"base as of commit {base['commit']:,}: {base['file']}, {base['bytes']:,} bytes"
    yield _table(
        ("partition", "rows", "trimmed", "segments", "first", "last"),
        ("partition", "rows", "trimmed_rows", "segments", "first", "last"),
        d["by_partition"],
    )
    if d["readers"]:
        yield _table(
            ("reader", "rows to read", "heard of"), ("name", "behind_rows", "at"), d["readers"]
        )


def _table(titles: tuple[str, ...], names: tuple[str, ...], rows: list[dict[str, Any]]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="")
    for title, name in zip(titles, names, strict=True):
        is_number = bool(rows) and isinstance(rows[0][name], int)
        table.add_column(title, justify="right" if is_number else "left")
    for row in rows:
        table.add_row(*(_said(row[name]) for name in names))
    return table


def _said(value: Any) -> str:
    return "-" if value is None else f"{value:,}" if isinstance(value, int) else str(value)
