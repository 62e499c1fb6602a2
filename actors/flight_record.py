"""The flight record of one life: what its pump was given last, written where it is asked for.

The pump tells `note`; a breakdown writes the record before the life ends, an alarm has another
thread write it.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from importlib.metadata import version
from typing import Any

from gapless.failover.messages import Life
from gapless.failover.recorder.folder import write_record
from gapless.failover.recorder.image import NoImage
from gapless.failover.recorder.record import encode
from gapless.failover.recorder.recorder import Recorder, Taken
from gapless.journal.disk import Disk
from gapless.protocol.documents import Document
from gapless.protocol.errors import GaplessError, RecordError

ALARMS_APART_MS = 60_000
"""One life writes no more often than this for its alarms: they have one cause, most often."""

_log = logging.getLogger("gapless.actors")


class FlightRecord:
    """Of one life, for its pump's thread; `encoded` and what writes are for any."""

    def __init__(
        self,
        life: Life,
        machine: Any,
        disk: Disk,
        token: str,
        plans: Callable[[], Mapping[str, Document]] = dict,
    ) -> None:
        """`disk` is the job's directory, `plans` are those that the machine runs."""
        self._life = life
        self._recorder = Recorder(machine, time.thread_time_ns)
        self._disk = disk
        self._token = token
        self._plans = plans
        self._alarmed_ms: int | None = None
        self.note = self._recorder.note
        self.take = self._recorder.take

    def write(self, reason: str) -> None:
        """Writes it to the job's directory. Where that fails the log says so, and nothing stops:
        the breakdown itself is reported in any case.
        """
        self._write(self.take(), reason)

    def alarm(self, what: str, now: int) -> threading.Thread | None:
        """Has a thread write it, unless that was done for another alarm a moment ago."""
        if self._alarmed_ms is not None and now - self._alarmed_ms < ALARMS_APART_MS:
            return None
        self._alarmed_ms = now
        writer = threading.Thread(
            target=self._write, args=(self.take(), f"alarm: {what}"), name="record", daemon=True
        )
        writer.start()
        return writer

    def encoded(self, taken: Taken, reason: str) -> bytes:
        """As bytes. Raises `RecordError` where that cannot be."""
        try:
            return encode(taken, str(self._life), reason, version("gapless"), self._plans())
        except NoImage as e:
            raise RecordError(f"what {self._life} was given has no form as bytes: {e}") from e

    def _write(self, taken: Taken, reason: str) -> None:
        try:
            path = write_record(
                self._disk, self._life, self.encoded(taken, reason), self._token, _wall_ms()
            )
        except (GaplessError, OSError) as e:
            _log.warning("no flight record of %s: %s", self._life, e)
        else:
            _log.warning("flight record of %s: %s in %s", self._life, path, self._disk)


def _wall_ms() -> int:
    return time.time_ns() // 1_000_000
