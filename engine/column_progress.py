"""Columns of a source that progress besides its time: each is at most so far before it.

gl.source(.., time="ts", progress={"start": "60s"})     start >= ts - 60 s, else the row goes aside

So what a source promises of its time it promises of these, too, that much less.
"""

from __future__ import annotations

from collections.abc import Mapping

from gapless.engine.durations import Duration, text, ticks
from gapless.engine.fit import check_time
from gapless.engine.names import check_column
from gapless.protocol.documents import Document
from gapless.protocol.elements import INF
from gapless.protocol.errors import DecodeError, Misuse
from gapless.protocol.schema import StreamSchema

Bounds = tuple[tuple[str, int], ...]
"""Columns, in their order by name, and how far before the time they are at most."""


def bounds_of(given: Mapping[str, Duration] | None, unit: str, what: str) -> Bounds:
    """What a user wrote after `progress=`."""
    if given is None:
        return ()
    if not isinstance(given, Mapping):
        raise Misuse(f"{what} {given!r:.100}: say by how much, as in progress={{'start': '60s'}}")
    found = ((name, ticks(by, unit, f"{what} {name}")) for name, by in given.items())
    return tuple(sorted(found, key=lambda each: str(each[0])))


def check_bounds(bounds: Bounds, schema: StreamSchema, time: str, what: str) -> None:
    """Raises unless these are columns of times, each said once, and not the time itself."""
    for name, by in bounds:
        check_column(what, name, schema.names)
        if name == time:
            raise Misuse(f"{what} {name!r}: that is the source's time, which progresses: leave it")
        t = schema.payload.field(name).type
        check_time(f"{what} {name!r}", t, schema.time_unit)
        if type(by) is not int or not 0 <= by < INF:
            raise Misuse(f"{what} {name!r}: {by!r} is no length of time: it is not negative")
    if [*bounds] != sorted(dict(bounds).items()):
        raise Misuse(f"{what}: each column once, in their order by name")


def bounds_text(bounds: Bounds, time: str, unit: str) -> list[str]:
    """Each as plans print it."""
    return [f"{name} at most {text(by, unit)} before {time}" for name, by in bounds]


def bounds_to_document(bounds: Bounds) -> Document:
    """As plain data."""
    listed: Document = [[name, by] for name, by in bounds]
    return listed


def bounds_from_document(document: list[list[object]], what: str) -> Bounds:
    """The inverse, for documents from anybody: raises `DecodeError`."""
    found = []
    for pair in document:
        match pair:
            case [str(name), int(by)]:
                found.append((name, by))
            case _:
                raise DecodeError(what, "an entry of no known form", "[column, length of time]")
    return tuple(found)
