"""The record of a real run: all that was seen of it, each with its moment, as one Arrow table.

    at_ms  kind     who      state    stable  lag_ms  rows  rss   fds  text
      250  slot     r0.1     running   61200     180                   r0.1/1.4
      251  output   changes            61000            412
     2004  fault    r0.1                                               kill replica
     2900  whole

Moments count from when the job was whole first; what was seen before has negative ones. What a kind
does not know is null. Any thread may add to it.
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from typing import Literal

import pyarrow as pa

from gapless.protocol.errors import Misuse

Kind = Literal["slot", "process", "source", "output", "fault", "heal", "whole", "note"]
"""What a row is of:

slot      a replica or merger as the root knows it: state, stable, lag behind the sources; the life
process   one process of the job (or of the cluster): memory and open descriptors
source    how far the sources promise
output    a frame that a subscriber was handed: its rows, its stable
fault     something was broken; `who` it hit, `text` which fault
heal      and made whole again
whole     the job was seen whole again
note      anything else that a reader should know: an alarm of the job, say
"""

SCHEMA = pa.schema(
    {
        "at_ms": pa.int64(),
        "kind": pa.string(),
        "who": pa.string(),
        "state": pa.string(),
        "stable": pa.int64(),
        "lag_ms": pa.int64(),
        "rows": pa.int64(),
        "rss": pa.int64(),
        "fds": pa.int64(),
        "text": pa.string(),
    }
)
ROWS_MAX = 2_000_000
"""Some hundred MB: hours of a job. A longer run is recorded in parts."""


@dataclass(frozen=True, slots=True)
class Seen:
    """One row; the fields are the table's columns."""

    at_ms: int
    kind: Kind
    who: str = ""
    state: str | None = None
    stable: int | None = None
    lag_ms: int | None = None
    rows: int | None = None
    rss: int | None = None
    fds: int | None = None
    text: str | None = None


class Record:
    """Collects. For any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._seen: list[Seen] = []
        self._zero_s = time.monotonic()

    def begin(self) -> None:
        """Moments count from now on; what was seen so far gets negative ones."""
        with self._lock:
            now_s = time.monotonic()
            shift = round(1000 * (now_s - self._zero_s))
            self._zero_s = now_s
            for seen in self._seen:
                object.__setattr__(seen, "at_ms", seen.at_ms - shift)

    def at_ms(self, moment_s: float | None = None) -> int:
        """A moment of `time.monotonic`, now by default, as the record counts."""
        return round(1000 * ((time.monotonic() if moment_s is None else moment_s) - self._zero_s))

    def see(
        self,
        kind: Kind,
        who: str = "",
        *,
        at_ms: int | None = None,
        state: str | None = None,
        stable: int | None = None,
        lag_ms: int | None = None,
        rows: int | None = None,
        rss: int | None = None,
        fds: int | None = None,
        text: str | None = None,
    ) -> None:
        """Adds a row, of now by default. Raises `Misuse` where there are too many."""
        with self._lock:
            if len(self._seen) >= ROWS_MAX:
                raise Misuse(f"a record of more than {ROWS_MAX} rows: run for a shorter time")
            at = self.at_ms() if at_ms is None else at_ms
            said = None if text is None else _sayable(text)
            self._seen.append(
                Seen(at, kind, _sayable(who), state, stable, lag_ms, rows, rss, fds, said)
            )

    def seen(self, kind: Kind | None = None) -> list[Seen]:
        """The rows so far, of one kind or all, in the order of their moments."""
        with self._lock:
            found = [seen for seen in self._seen if kind is None or seen.kind == kind]
        return sorted(found, key=lambda seen: seen.at_ms)

    def table(self) -> pa.Table:
        """All rows, in the order of their moments."""
        rows = self.seen()
        columns = {name: [getattr(seen, name) for seen in rows] for name in SCHEMA.names}
        return pa.table(columns, schema=SCHEMA)


def _sayable(text: str) -> str:
    """Arrow holds no half characters, which names of files may have."""
    return text.encode(errors="replace").decode()
