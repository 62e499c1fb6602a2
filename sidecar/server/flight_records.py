"""Flight records of a sidecar: the merger of each stream has one; all lie in the data directory.

    stream "talkers" breaks down, or raises an alarm
                       --> DATA/records/1763563440123-talkers-3.1      gapless chaos replay FILE

One loop turns all mergers, so their recorders share its time and a bound of memory. A thread of
its own writes: the loop does not wait for a disk, and appends do not wait for a record.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from importlib.metadata import version
from pathlib import Path

from gapless.failover.merger.machine import Merger
from gapless.failover.messages import Life
from gapless.failover.recorder.budget import Budget
from gapless.failover.recorder.flight_record import FlightRecord, Shell
from gapless.journal.disk import LocalDisk

RECORDED_BYTES_MAX = 256 << 20
"""Of frames that the recorders of all streams keep in memory: each has an equal part of it."""

StreamRecord = FlightRecord[Future[None]]

_log = logging.getLogger("gapless.sidecar")


class FlightRecords:
    """Those of all streams. Used on the loop's thread."""

    def __init__(
        self, data: Path, token: str, wall_ms: Callable[[], int], streams: Callable[[], int]
    ) -> None:
        """`streams`: how many there are now."""
        self._writer = ThreadPoolExecutor(1, "records")
        self._budget = Budget(time.thread_time_ns, recorders=streams, bytes_max=RECORDED_BYTES_MAX)
        release = partial(version, "gapless")
        disk = LocalDisk(data)
        self._shell = Shell(disk, token, release, wall_ms, self._writer.submit, _log.warning)

    def of(self, stream: str, machine: Merger) -> StreamRecord:
        """The record of one life of a stream's merger, which begins."""
        life = Life(stream, machine.life.incarnation)
        return FlightRecord(str(life), machine, self._budget, self._shell)

    def close(self) -> None:
        """Waits until what was asked for is written. All streams have ended."""
        self._writer.shutdown(wait=True)
