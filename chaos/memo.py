"""What has been decoded once in a run is not decoded again.

Six readers read the same records, and as often as they begin anew. To decode is a function of bytes
alone, so the simulator remembers what came of them: the code that reads journals is production's,
and a bit that is flipped makes other bytes. A run with this memory and one without are the same,
step by step (tests/chaos hold that); it takes a third less time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow as pa

from gapless.journal import base, commit, cursor, head, segment, tally
from gapless.journal.head import Head
from gapless.journal.layout import Layout
from gapless.journal.segment import Record
from gapless.protocol.frame import Frame

_READING = (base, cursor, tally)
"""The modules that read records."""


@contextmanager
def decoding_once() -> Iterator[None]:
    """Remembers within; forgets all of it behind."""
    records: dict[Any, Frame] = {}
    commits: dict[Any, tuple[Head, pa.RecordBatch]] = {}

    def read(name: str, data: memoryview | pa.Buffer, record: Record, layout: Layout) -> Frame:
        key = bytes(data), layout.time
        frame = records.get(key)
        if frame is None:
            frame = records[key] = segment.read(name, data, record, layout)
        return frame

    def decode(data: bytes, layout: Layout) -> tuple[Head, pa.RecordBatch]:
        found = commits.get(data)
        if found is None:
            found = commits[data] = head.decode(data, layout)
        return found

    _use(read, decode)
    try:
        yield
    finally:
        _use(segment.read, head.decode)


def _use(read: Callable[..., Any], decode: Callable[..., Any]) -> None:
    """From now on journals are read by these."""
    for module in _READING:
        vars(module)["read"] = read
    vars(commit)["decode"] = decode
