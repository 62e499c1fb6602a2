"""Rows that a journal has judged: which sources may read them, and how they come in.

    the journal          flows, as declared           over it
    ts, src, len         ts, len;  lateness 5 s       is read
    time ts              ts, len;  lateness None      is read
    lateness 5 s         ts, len;  lateness 2 s       Misuse: the journal took rows up to 5 s late
                         ts, len;  ordered()          Misuse: a journal's rows are in no order
                         ts, src int64                SchemaError: src is int32 in the journal

Which rows are late was decided when they were written (docs/journal.md), and all who read them
share that verdict. To judge again by the order of reading would find rows late that are not: those
of several partitions come interleaved, those of one batch as they were appended, and what was
promised holds for batches alone. So the intake passes judged rows on.

What `lateness=` declares is then only what the query's author expects, and a smaller bound than the
journal's is a mistake. That a source is in order is more: plans are chosen by it (`properties.py`),
LMerge's case among them, and it is not true of any journal, not even of one partition. Nor does a
bound in time say anything about a bound in rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple, Protocol

import pyarrow as pa

from gapless.engine.durations import text
from gapless.engine.lateness import KLate, TimeLate, is_ordered, lateness_text
from gapless.engine.nodes import Source
from gapless.protocol.errors import Misuse, SchemaError
from gapless.protocol.frame import Frame
from gapless.protocol.schema import StreamSchema


class Recorded(Protocol):
    """What a journal says of its rows. A journal's layout is one."""

    @property
    def schema(self) -> StreamSchema:
        """Of all columns, and the unit of time."""

    @property
    def time(self) -> str | None:
        """The column that says when; None where it holds no rows of a source."""

    @property
    def lateness(self) -> int:
        """Below the largest time of the batches before by more than this, a row was not taken."""


class Judged(NamedTuple):
    """Rows that are in time, each living `[ts, ts + 1)`, and what their journal promises behind
    them. Only a journal's reader knows such; a user's own frames are refused, as nobody has judged
    them.
    """

    frame: Frame


def check_source(source: Source, journal: Recorded, what: str) -> None:
    """Raises `Misuse`, and `SchemaError` where it is a column, unless a source can read a journal.

    `what` names the journal in errors.
    """
    where = f"source {source.name} over {what}"
    if journal.time is None:
        raise Misuse(
            f"{where}: it holds the frames that a merger delivered, and no rows of a source; give "
            "a journal that `gapless prepare`, `gapless ingest` or a JournalWriter made"
        )
    if source.time != journal.time:
        raise Misuse(
            f"{where}: its time is {source.time!r}, the journal's is {journal.time!r}; declare "
            f"time={journal.time!r}, or prepare the journal anew with --time {source.time}"
        )
    for field in source.schema.payload:
        _check_column(where, field, journal)
    unit, recorded = source.schema.time_unit, journal.schema.time_unit
    if unit != recorded:
        raise Misuse(
            f"{where}: its times are in {unit}, the journal's in {recorded}; declare "
            f"time_unit={recorded!r}"
        )
    _check_lateness(where, source, journal)


def judged_rows(source: Source, frames: Iterable[Frame]) -> Iterator[Judged]:
    """A reader's frames as the input of a source that was checked; other columns are left out."""
    schema = source.schema
    for frame in frames:
        if frame.schema == schema:
            yield Judged(frame)
        else:
            columns = [frame.payload.column(name) for name in schema.names]
            yield Judged(frame.with_payload(schema, columns))


def _check_column(where: str, declared: pa.Field, journal: Recorded) -> None:
    there = journal.schema.payload
    if declared.name not in there.names:
        raise SchemaError(
            f"{where}: column {declared.name!r} is not in the journal, which has "
            f"{', '.join(there.names)}; declare one of those, or prepare the journal anew with it"
        )
    found = there.field(declared.name)
    if found.type != declared.type:
        raise SchemaError(
            f"{where}: column {declared.name!r} was declared as {declared.type}, the journal has "
            f"{found.type}; declare that, and change the type in the query"
        )
    if found.nullable and not declared.nullable and found.name != journal.time:
        raise SchemaError(
            f"{where}: column {declared.name!r} was declared as never null, in the journal it may "
            "be; declare it nullable, and say in the query what a null means"
        )


def _check_lateness(where: str, source: Source, journal: Recorded) -> None:
    unit = journal.schema.time_unit
    lateness = source.lateness
    declared, recorded = lateness_text(lateness, unit), text(journal.lateness, unit)
    leave_out = "leave lateness= out, and the journal's watermarks say how far it is"
    if is_ordered(lateness):
        raise Misuse(
            f"{where}: it was declared in order, and a journal's rows are in none (its lateness is "
            f"{recorded}): those of its partitions come interleaved, those of one batch as they "
            f"were appended; {leave_out}"
        )
    if isinstance(lateness, KLate):
        raise Misuse(
            f"{where}: it was declared to have rows that are {declared}; the journal's bound, "
            f"{recorded}, is in time and says nothing of rows; {leave_out}"
        )
    if isinstance(lateness, TimeLate) and lateness.bound < journal.lateness:
        raise Misuse(
            f"{where}: it was declared with {declared}, and the journal took rows that are up to "
            f"{recorded} late; declare lateness={recorded.replace(' ', '')!r} or more, or "
            f"{leave_out}"
        )
