"""The flight record of one machine: what it was given last, written where it is asked for.

    before each event       note(event, now)
    a breakdown             write(reason)         before the life ends
    an alarm                alarm(what, now)      by another thread, and not for each of many
    a person                take(), encoded(...)

Each pump has one for its machine. What a record needs from outside (a clock, a disk, another
thread, the log) comes in as its `Shell`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Generic, TypeVar

from gapless.failover.recorder.budget import Budget
from gapless.failover.recorder.folder import write_record
from gapless.failover.recorder.image import NoImage
from gapless.failover.recorder.record import encode
from gapless.failover.recorder.recorder import LARGE, Recorder, Taken, Unpack, unpacked
from gapless.journal.disk import Disk
from gapless.protocol.documents import Document
from gapless.protocol.errors import GaplessError, RecordError

ALARMS_APART_MS = 60_000
"""One machine's record is written no more often than this for its alarms: they have one cause, most
often."""

Writer = TypeVar("Writer")
"""What writes beside: a thread, say."""


@dataclass(frozen=True, slots=True)
class Shell(Generic[Writer]):
    """What is around the machines of one process, as their flight records need it."""

    disk: Disk
    """The directory in which `records/` lies."""
    token: str
    """Tells this process apart from others that write there."""
    release: Callable[[], str]
    """Of Gapless."""
    wall_ms: Callable[[], int]
    """Milliseconds since 1970."""
    beside: Callable[[Callable[[], None]], Writer]
    """Has another thread do something."""
    log: Callable[[str], None]
    """Takes a warning."""
    unpack: Unpack = tuple
    """Decodes what machines hear, where it is held as it came."""


class FlightRecord(Generic[Writer]):
    """Of one machine, for the thread that turns it; `encoded` and what writes are for any."""

    def __init__(
        self,
        life: str,
        machine: Any,
        budget: Budget,
        shell: Shell[Writer],
        plans: Callable[[], Mapping[str, Document]] = dict,
        large: Mapping[type, str] = LARGE,
    ) -> None:
        """`life`: whose it is, for people. `plans`: those that the machine runs. `large`: by event
        its field that may be large.
        """
        self._life = life
        self._shell = shell
        self._plans = plans
        self._alarmed_ms: int | None = None
        recorder = self.recorder = Recorder(machine, budget, large)
        """A pump gives it the events itself."""
        self.note = recorder.note
        """Holds an event, before the machine is given it."""
        self.take = recorder.take
        """What is held now."""
        self.begin_anew = recorder.begin_anew
        """Drops all that is held, as the machine was changed in another way than by an event."""

    def write(self, reason: str) -> None:
        """Writes it. Where that fails the log says so, and nothing stops: the breakdown itself is
        reported in any case.
        """
        self._write(self.take(), reason)

    def write_beside(self, reason: str) -> Writer:
        """Has another thread write what is held now."""
        return self._shell.beside(partial(self._write, self.take(), reason))

    def alarm(self, what: str, now: int) -> Writer | None:
        """Has another thread write it, unless that was done for another alarm a moment ago."""
        if self._alarmed_ms is not None and now - self._alarmed_ms < ALARMS_APART_MS:
            return None
        self._alarmed_ms = now
        return self.write_beside(f"alarm: {what}")

    def encoded(self, taken: Taken, reason: str) -> bytes:
        """As bytes. Raises `RecordError` where that cannot be."""
        try:
            taken = replace(taken, events=list(unpacked(taken.events, self._shell.unpack)))
            return encode(taken, self._life, reason, self._shell.release(), self._plans())
        except NoImage as e:
            raise RecordError(f"what {self._life} was given has no form as bytes: {e}") from e

    def _write(self, taken: Taken, reason: str) -> None:
        shell = self._shell
        try:
            data = self.encoded(taken, reason)
            path = write_record(shell.disk, self._life, data, shell.token, shell.wall_ms())
        except (GaplessError, OSError) as e:
            shell.log(f"no flight record of {self._life}: {e}")
        else:
            shell.log(f"flight record of {self._life}: {path} in {shell.disk}")
