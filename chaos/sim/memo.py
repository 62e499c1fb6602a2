"""What has been decoded once in a run is not decoded again.

Six readers read the same records, and as often as they begin anew. To decode is a function of bytes
alone, so the simulator remembers what came of them: the code that reads journals is production's,
and a bit that is flipped makes other bytes. A run with this memory and one without are the same,
step by step (tests/chaos hold that); decision 0025 has what it saves.

Plans are remembered from run to run: they never change, and all runs of a workload have the same.
Not those that call functions of users: a document only names these, and another may have the name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pyarrow as pa

from gapless.engine import splice
from gapless.engine.splice import Runnable
from gapless.failover.job import directory as job
from gapless.journal import base, commit, cursor, head, segment, tally
from gapless.journal.head import Head
from gapless.journal.layout import Layout
from gapless.journal.segment import Record
from gapless.protocol.documents import Document, pack
from gapless.protocol.frame import Frame

PLANS_KEPT = 256
"""Those of the workloads, and of cutovers at many times; then all are forgotten."""
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

    _use(read, decode, _plan)
    try:
        yield
    finally:
        _use(segment.read, head.decode, splice.runnable_from_document)


_plans: dict[bytes, Runnable] = {}


def _plan(document: Document, functions: Mapping[str, Any] | None = None) -> Runnable:
    if functions:
        return splice.runnable_from_document(document, functions)
    key = pack(document)
    plan = _plans.get(key)
    if plan is None:
        if len(_plans) >= PLANS_KEPT:
            _plans.clear()
        plan = _plans[key] = splice.runnable_from_document(document)
    return plan


def _use(
    read: Callable[..., Any], decode: Callable[..., Any], plan: Callable[..., Runnable]
) -> None:
    """From now on journals and jobs are read by these."""
    vars(job)["runnable_from_document"] = plan
    for module in _READING:
        vars(module)["read"] = read
    vars(commit)["decode"] = decode
