"""Which rows of a batch a journal takes, by its watermark: the verdict for all its readers.

    watermark 12:00:05        ts 12:00:07   taken
                              ts 12:00:05   taken
                              ts 12:00:01   late: below the watermark
                              ts null       no time
                              ts 2262-04-11 ahead: a day beyond all others (plausible.py)

Of what is late the batch that a row comes with does not count; of what is ahead it does.
"""

from __future__ import annotations

from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from gapless.journal.layout import Layout
from gapless.journal.plausible import TIME_MAX, Plausible, reach_text
from gapless.journal.segment import span
from gapless.protocol.columns import take, take_rows
from gapless.protocol.elements import BEGIN, INF
from gapless.protocol.frame import Mask
from gapless.protocol.nulls import null_rows

_LATE, _AHEAD = "late:", "ahead:"


class Parted(NamedTuple):
    """The rows of a batch, parted."""

    kept: pa.RecordBatch
    rejected: pa.RecordBatch
    reasons: list[str]
    """One a rejected row."""
    mask: Mask | None
    """True for each kept row; None where all are."""
    span: tuple[int, int] | None
    """The least and the largest time, where all rows are kept."""

    @property
    def late(self) -> int:
        """Those of the rejected that came too late."""
        return sum(reason.startswith(_LATE) for reason in self.reasons)


def parted(
    batch: pa.RecordBatch, layout: Layout, watermark: int, plausible: Plausible | None = None
) -> Parted:
    """The rows that are taken, and those that are not. Without `plausible` none is ahead."""
    bad: list[tuple[pa.Array, str]] = []
    for i, field in layout.schema.required_fields:
        column = batch.column(i)
        if column.null_count or pa.types.is_nested(field.type):
            bad.append((null_rows(field, column), f"{field.name} is null"))
    time = batch.column(layout.time)
    if time.null_count:
        bad.append((time.is_null(), f"{layout.time} is null: no time"))
        time = pc.fill_null(time.view(pa.int64()), INF).view(time.type)
    ticks = time.view(pa.int64()).to_numpy()
    least, largest = span(ticks)
    if least == BEGIN:
        bad.append((pa.array(ticks == BEGIN), f"{layout.time} is before all times"))
    if least < watermark:
        said = f"{_LATE} below the watermark {_text(watermark, time.type)}"
        bad.append((pa.array(ticks < watermark), said))
    if largest > TIME_MAX:
        bad.append((pa.array(ticks > TIME_MAX), f"{layout.time} is beyond all times"))
    if plausible is not None and plausible.reach is not None:
        sound = ticks if not bad else ticks[(ticks > BEGIN) & (ticks <= TIME_MAX)]
        top = plausible.top(sound, watermark)
        if top < TIME_MAX:
            bad.append((pa.array(ticks > top), ahead_of(top, plausible.reach, time.type)))
    bad = [(mask, why) for mask, why in bad if pc.any(mask).as_py()]
    return (
        _split(batch, bad) if bad else Parted(batch, batch.slice(0, 0), [], None, (least, largest))
    )


def ahead_of(top: int, reach: int, kind: pa.DataType) -> str:
    """Why a row is rejected that is ahead of the newest time that is believed."""
    far, newest = reach_text(reach, kind), _text(top, kind)
    return f"{_AHEAD} more than {far} beyond all others (see --ahead), the newest is {newest}"


def watermark_after(largest: int, layout: Layout, watermark: int) -> int:
    """The largest time so far less the lateness; never less than before."""
    return max(watermark, largest - layout.lateness if largest > BEGIN + layout.lateness else BEGIN)


def _split(batch: pa.RecordBatch, bad: list[tuple[pa.Array, str]]) -> Parted:
    why = pa.nulls(batch.num_rows, pa.string())
    for mask, reason in bad:  # the first reason counts
        why = pc.if_else(pc.and_(why.is_null(), pc.fill_null(mask, False)), reason, why)
    rejected = why.is_valid().to_numpy(zero_copy_only=False)
    reasons = take(why, pa.array(rejected)).to_pylist()
    kept = take_rows(batch, ~rejected)
    return Parted(kept, take_rows(batch, rejected), reasons, ~rejected, None)


def _text(t: int, kind: pa.DataType) -> str:
    if t == BEGIN:
        return "begin"
    if not pa.types.is_timestamp(kind):
        return str(t)
    try:
        return str(pa.scalar(t, pa.int64()).cast(kind))
    except (OverflowError, ValueError):  # Python's calendar has no such year
        return f"{t} {kind.unit}"
