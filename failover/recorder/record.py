"""A flight record as bytes: a document that says what it is, and an image of all that is held.

    {format, release, life, machine, reason, plans, events, image, bytes, crc} | image.py

Its plans are documents, as in a job's directory: a replica is replayed with them, far from its job.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from gapless.engine.splice import aside_of, runnable_from_document
from gapless.failover.machines import Event
from gapless.failover.recorder.image import read, written
from gapless.failover.recorder.recorder import Taken
from gapless.failover.replica.effects import Done
from gapless.failover.replica.executor import Executor
from gapless.operators.aside import Aside
from gapless.protocol.documents import Document, Fields
from gapless.protocol.envelope import Incarnation, decode_document, encode_document, peek_header
from gapless.protocol.errors import DecodeError, RecordError, Truncated

FORMAT = 1
RECORD_BYTES_MAX = 256 << 20
"""Of a file that is read: ten times what a recorder holds."""
REASON_CHARS_MAX = 2000
"""Of why it was written: a message, and never a dump."""
_WHAT = "flight record"
_NOBODY = Incarnation(0, 0)

Functions = Mapping[str, Callable[..., Any]]
"""Those of users, by the names that plans have for them."""


@dataclass(frozen=True, slots=True)
class Record:
    """A flight record that has been read."""

    life: str
    machine: str
    reason: str
    """Why it was written."""
    release: str
    """Of Gapless, that wrote it."""
    why_no_image: str
    """Empty where it can be replayed."""
    events: list[tuple[Event, int]]
    image: bytes | None
    plans: Mapping[str, Document]

    def start(self, functions: Functions | None = None) -> Any:
        """The machine as it was before the first event. Raises `RecordError`."""
        if self.image is None:
            raise RecordError(
                f"this record of {self.life} holds events alone, and cannot be replayed: "
                f"{self.why_no_image}; `--events` shows them"
            )
        try:
            return read(self.image, lambda name, aside: self._executor(name, aside, functions))
        except DecodeError as e:
            raise RecordError(f"{e}; it was written by release {self.release}") from e

    def _executor(self, name: str, aside: Aside, functions: Functions | None) -> Executor:
        if name not in self.plans:
            raise DecodeError(f"{_WHAT}.plans", f"lacks {name!r:.100}", "the plan of its machine")
        plan = runnable_from_document(self.plans[name], functions)
        return Executor(name, partial(plan.compile, aside_of(plan, aside)), aside)


def encode(
    taken: Taken, life: str, reason: str, release: str, plans: Mapping[str, Document]
) -> bytes:
    """A record. Raises `NoImage` where an event has no form as bytes."""
    events = [(_plain(event), now) for event, now in taken.events]
    body = written((taken.image, events))
    head: dict[str, Document] = {
        "format": FORMAT,
        "what": _WHAT,
        "release": release,
        "life": life,
        "machine": taken.machine,
        "reason": reason[:REASON_CHARS_MAX],
        "why_no_image": taken.why_none[:REASON_CHARS_MAX],
        "plans": dict(plans),
        "bytes": len(body),
        "crc": zlib.crc32(body),
    }
    return encode_document(head, _NOBODY, 0) + body


def decode(data: bytes) -> Record:
    """Its inverse; raises `RecordError` for bytes that are no whole record of this format."""
    try:
        return _decoded(data)
    except DecodeError as e:
        raise RecordError(
            f"no whole flight record: {e}; take it from where it was written (`records/` in the "
            "directory of the job, or of the sidecar), or have another one of a job written: "
            "gapless status JOB --record DIR"
        ) from e


def _decoded(data: bytes) -> Record:
    if len(data) > RECORD_BYTES_MAX:
        raise DecodeError(_WHAT, f"has {len(data)} bytes", f"{RECORD_BYTES_MAX} at most")
    size = peek_header(data).envelope_bytes
    fields = Fields(decode_document(data[:size]).document, _WHAT)
    written_as = fields.take("format", int)
    if written_as != FORMAT:
        raise DecodeError(f"{_WHAT}.format", f"{written_as}", f"{FORMAT}, of this release")
    if (what := fields.take("what", str)) != _WHAT:
        raise DecodeError(_WHAT, f"says that it is {what!r:.40}", _WHAT)
    body = memoryview(data)[size:]
    if len(body) != (claimed := fields.take("bytes", int)):
        raise Truncated(_WHAT, f"has {len(body)} bytes behind its head", f"{claimed}")
    if zlib.crc32(body) != fields.take("crc", int):
        raise DecodeError(_WHAT, "is damaged", "the checksum that its head says")
    image, events = read(bytes(body), _no_executor)
    record = Record(
        fields.take("life", str),
        fields.take("machine", str),
        fields.take("reason", str),
        fields.take("release", str),
        fields.take("why_no_image", str),
        events,
        image,
        fields.take("plans", dict),
    )
    fields.done()
    return record


def _plain(event: Event) -> Event:
    """The result of work beside the machine is made again when it is replayed."""
    return replace(event, result=None) if isinstance(event, Done) else event


def _no_executor(name: str, _: Aside) -> Executor:
    raise DecodeError(_WHAT, f"has an executor of {name!r:.100} among its events", "data alone")
