"""Flight records as the pumps of a job have them: in the job's directory, written by threads."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from functools import partial
from importlib.metadata import version
from typing import Any

from gapless.actors.wire import Wire
from gapless.failover.messages import Life
from gapless.failover.recorder.budget import Budget
from gapless.failover.recorder.flight_record import FlightRecord, Shell
from gapless.journal.disk import Disk
from gapless.protocol.documents import Document

JobFlightRecord = FlightRecord[threading.Thread]

_log = logging.getLogger("gapless.actors")


def flight_record(
    life: Life,
    machine: Any,
    disk: Disk,
    token: str,
    wire: Wire,
    plans: Callable[[], Mapping[str, Document]] = dict,
) -> JobFlightRecord:
    """Of one life, for its pump's thread. `disk` is the job's directory, `wire` decodes what the
    life hears, `plans` are those that the machine runs.
    """
    release = partial(version, "gapless")
    shell = Shell(disk, token, release, _wall_ms, _beside, _log.warning, wire.decode)
    return FlightRecord(str(life), machine, Budget(time.thread_time_ns), shell, plans)


def _beside(work: Callable[[], None]) -> threading.Thread:
    writer = threading.Thread(target=work, name="record", daemon=True)
    writer.start()
    return writer


def _wall_ms() -> int:
    return time.time_ns() // 1_000_000
