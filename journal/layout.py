"""What a journal is: said once, when it is made, in a file that never changes.

    layout        rows of {ts, src, len}, time ts, key (src), 8 partitions, lateness 5 s
    commits/      0000000016, 0000000017: what was added when; newest: the last of them (commit.py)
    epochs/       00000003: who has been the writer (epoch.py)
    live/         00000003: how far that writer's unsealed segment may be read
    segments/     00000003-00000041: records (segment.py)
    bases/        live tables of an output journal (base.py)
    rejects/      rows that were not taken, as lines of JSON
    readers/      positions that retention respects (readers.py)

A journal of *rows* holds what a source gave: each row's lifetime is [time, time + 1), so times are
not stored beside it. A journal of *frames* holds what a merger delivered: elements with their own
times, adjusts among them.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import pyarrow as pa

from gapless.journal.disk import Disk
from gapless.journal.partition import PARTITIONS_MAX, check_key
from gapless.protocol import plain
from gapless.protocol.documents import Document, Fields
from gapless.protocol.elements import INF
from gapless.protocol.envelope import Incarnation, decode_document, encode_document
from gapless.protocol.errors import DecodeError, JournalError, Misuse, SchemaError
from gapless.protocol.schema import FIELDS_MAX, StreamSchema

NAME = "layout"
FORMAT = 1
"""Of all files of a journal; one that is larger was made by a later release."""
LAYOUTS_KEPT = 256
"""Layouts whose bytes are known by heart: of more journals than one process has to do with."""
NOBODY = Incarnation(0, 0)
"""The writer of what has no writer of its own."""


@dataclass(frozen=True, slots=True)
class Layout:
    """Schema, partitions and promises of one journal."""

    schema: StreamSchema
    time: str | None = None
    """The column that says when; None for a journal of frames, which have their own times."""
    key: tuple[str, ...] = ()
    """The columns by which rows are partitioned."""
    partitions: int = 1
    lateness: int = 0
    """Of rows: below the largest time of the batches before by more than this, a row is late. In
    the schema's unit of time."""

    def __post_init__(self) -> None:
        if type(self.partitions) is not int or not 1 <= self.partitions <= PARTITIONS_MAX:
            raise Misuse(f"partitions {self.partitions!r}: 1 to {PARTITIONS_MAX}")
        if type(self.lateness) is not int or not 0 <= self.lateness < INF:
            raise Misuse(f"lateness {self.lateness!r}: it is not negative")
        if self.time is None and (self.key or self.lateness):
            raise Misuse("a journal of frames has no key and no lateness: those are of rows")
        if self.time is not None:
            _check_time(self.time, self.schema)
        if self.partitions > 1 and not self.key:
            raise Misuse(f"{self.partitions} partitions need key=: the columns that decide")
        if self.key:
            check_key(self.schema.payload, self.key)

    @property
    def has_rows(self) -> bool:
        """Whether it holds rows of a source, and not frames."""
        return self.time is not None

    def differences(self, other: Layout) -> list[str]:
        """What two layouts do not share, in words."""
        return [
            f"{name} {mine}, not {theirs}"
            for name in ("schema", "time", "key", "partitions", "lateness")
            if (mine := getattr(self, name)) != (theirs := getattr(other, name))
        ]


def layout_of(disk: Disk) -> Layout | None:
    """The layout of the journal on a disk; None where there is no journal."""
    if not disk.exists(NAME):
        return None
    try:
        return _decoded(identity(disk))
    except (DecodeError, SchemaError, Misuse) as e:
        raise JournalError(
            f"{disk}: file {NAME}: {e}; take it from a copy of the journal"
        ) from None


@lru_cache(LAYOUTS_KEPT)
def _decoded(data: bytes) -> Layout:
    return _from_document(decode_document(data).document)


def identity(disk: Disk) -> bytes:
    """What no two journals share, also of those made alike in one place one after the other:
    the bytes of the layout, which have the token of its maker.
    """
    return disk.read(NAME, 0, disk.size(NAME))


def opened(disk: Disk) -> Layout:
    """The layout of a journal that must be there."""
    try:
        layout = layout_of(disk)
    except OSError as e:  # it is a file, its name is too long, it may not be read
        raise Misuse(f"{disk} is not a journal that can be read: {e}") from None
    if layout is None:
        _refuse_without(disk)
        raise Misuse(
            f"{disk} is not a journal: it has no file {NAME!r}; `gapless prepare` makes one"
        )
    return layout


def establish(disk: Disk, layout: Layout, token: str) -> None:
    """Makes the journal where there is none; where there is one it must have this layout.

    `token` tells this process from all others that may try at the same time.
    """
    found = layout_of(disk)
    if found is None:
        _refuse_without(disk)
        draft = f"{NAME}.{token}"
        disk.append(draft, encode_document(_to_document(layout, token), NOBODY, 0))
        disk.sync(draft)
        try:
            disk.link(draft, NAME)
        except FileExistsError:
            found = layout_of(disk)
        disk.unlink(draft)
        disk.sync(NAME)
    if found is not None and found != layout:
        raise Misuse(f"{disk} is there, and has {'; '.join(found.differences(layout))}")


def _refuse_without(disk: Disk) -> None:
    """Raises where there was a journal: another layout would make other rows of its bytes."""
    if disk.list("commits") and not disk.exists(NAME):
        raise JournalError(
            f"{disk}: file {NAME} is missing, and there are commits: take it from a copy "
            "of the journal"
        )


def _check_time(time: str, schema: StreamSchema) -> None:
    if time not in schema.names:
        raise Misuse(f"time {time!r} is none of the columns {', '.join(schema.names)}")
    t = schema.payload.field(time).type
    if t != pa.int64() and not (pa.types.is_timestamp(t) and t.unit == schema.time_unit):
        raise Misuse(f"time {time!r} is {t}: it is to be int64 or timestamp[{schema.time_unit}]")


def _to_document(layout: Layout, token: str) -> Document:
    return {
        "made": token,
        "format": FORMAT,
        "columns": [
            [field.name, plain.type_to_plain(field.type), field.nullable]
            for field in layout.schema.payload
        ],
        "time_unit": layout.schema.time_unit,
        "time": layout.time or "",
        "key": list(layout.key),
        "partitions": layout.partitions,
        "lateness": layout.lateness,
    }


def _from_document(document: Document) -> Layout:
    fields = Fields(document, "layout")
    written = fields.take("format", int)
    if written != FORMAT:
        raise DecodeError("layout.format", f"{written}: a later release made it", FORMAT)
    columns = []
    for column in fields.take_list("columns", list, FIELDS_MAX):
        if len(column) != 3 or type(column[0]) is not str or type(column[2]) is not bool:
            raise DecodeError("layout.columns", repr(column), "[name, type, nullable]")
        columns.append(pa.field(column[0], plain.type_from_plain(column[1]), column[2]))
    fields.take("made", str)  # no part of what it says: see `identity`
    schema = StreamSchema(pa.schema(columns), fields.take("time_unit", str))
    layout = Layout(
        schema,
        fields.take("time", str) or None,
        tuple(fields.take_list("key", str, FIELDS_MAX)),
        fields.take_int("partitions", 1, PARTITIONS_MAX),
        fields.take_int("lateness", 0, INF - 1),
    )
    fields.done()
    return layout
