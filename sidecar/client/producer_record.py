"""The flight record of a producer: what led to a breakdown of its machine, in a directory of its
program's choice.

    Producer(..., records="/var/log/app")
        the machine breaks down --> /var/log/app/records/1763563440123-talkers.a-0.7
                                    gapless chaos replay FILE
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from functools import partial
from importlib.metadata import version
from pathlib import Path
from uuid import uuid4

from gapless.failover.recorder.budget import Budget
from gapless.failover.recorder.flight_record import FlightRecord, Shell
from gapless.failover.recorder.recorder import LARGE
from gapless.journal.disk import LocalDisk
from gapless.sidecar.client.producer_machine import ProducerMachine, Push

ProducerRecord = FlightRecord[None]

_log = logging.getLogger("gapless.client")


def producer_record(stream: str, machine: ProducerMachine, folder: Path) -> ProducerRecord:
    """The record of a producer that begins. It is written by the thread that breaks down."""
    release = partial(version, "gapless")
    shell = Shell(LocalDisk(folder), uuid4().hex, release, _wall_ms, _at_once, _log.warning)
    return FlightRecord(
        f"{stream}.{machine.life}",
        machine,
        Budget(time.process_time_ns),  # of all threads of the program, which take turns
        shell,
        large={**LARGE, Push: "frame"},
    )


def _wall_ms() -> int:
    return time.time_ns() // 1_000_000


def _at_once(work: Callable[[], None]) -> None:
    work()
