"""One case of the section `weight` at one size, in a process of its own with caps.

    .venv/bin/python -m gapless.bench.weight_run "lull" 86400        what it measured, as JSON

A case that needs too much ends this process and not the machine: its data may not grow beyond
`DATA_BYTES_MAX`, its work not beyond `CPU_S_MAX`. What is measured is work: seconds of the
processor in the intake and the graph, so that others on the machine do not show; making the rows is
not counted. A first run at a small size does what is done once in a process.

    bytes        how far the process grew while it ran, beyond what it had before
    state_bytes  what the graph said of its state, at most: what `memory_limit` is held against
    push_s       the longest time from which a caller got nothing back
"""

from __future__ import annotations

import gc
import json
import resource
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from gapless.bench.weight_case import Case
from gapless.bench.weight_cases import CASES
from gapless.engine.intake import Intake
from gapless.engine.plan import Plan
from gapless.operators.aside import Aside
from gapless.operators.operator import Marks
from gapless.protocol.elements import INF
from gapless.protocol.errors import Bug
from gapless.protocol.frame import Frame

DATA_BYTES_MAX = 2 << 30
"""Ten times what the largest case holds by its definition: more is a cliff."""
CPU_S_MAX = 30
"""Ten times what the longest case takes: more is a cliff."""


@dataclass(frozen=True)
class Measured:
    """What one run took."""

    size: int
    rows: int
    """That went in."""
    answers: int
    """Rows that came out."""
    aside: int
    """Rows that could not be processed, or were late."""
    seconds: float
    push_s: float
    bytes: int
    state_bytes: int


class Run:
    """One graph that is fed and watched."""

    def __init__(self, case: Case, size: int) -> None:
        plan = Plan(case.query(size))
        self._case, self._size = case, size
        self._aside = Aside(plan.query.on_error_mode)
        self._graph = plan.compile(self._aside)
        self._intakes = {
            name: Intake(source, self._aside, self._graph.grids[name], case.frame_rows)
            for name, source in plan.query.sources.items()
        }
        self._answers = self._taken = self._state = 0
        self._seconds = self._push_s = 0.0

    def whole(self) -> Measured:
        """From the first row to the end, or to as many answers as the case asks for."""
        before = memory("VmRSS")
        for name, given in self._case.feed(self._size):
            if self._ended_with(name, given):
                break
        else:
            if self._graph.stable != INF:
                raise Bug(f"a run ends at stable {self._graph.stable}: its inputs were not whole")
        grown = memory("VmHWM") - before
        rows = sum(intake.rows for intake in self._intakes.values())
        return Measured(
            self._size,
            rows,
            self._answers,
            self._taken,
            self._seconds,
            self._push_s,
            max(0, grown),
            self._state,
        )

    def _ended_with(self, name: str, given: pa.RecordBatch | None) -> bool:
        """Takes one batch, or the end, of a source; whether there are answers enough."""
        started = time.process_time()
        for frame, marks in _frames(self._intakes[name], given):
            since = time.process_time()
            for out in self._graph.parts(name, frame, marks):
                since = self._looked(since)
                self._answers += len(out)
                if self._answers >= self._case.answers_max:
                    self._seconds += since - started
                    return True
            self._looked(since)
            self._taken += sum(each.rows.num_rows for each in self._aside.take())
        self._seconds += time.process_time() - started
        return False

    def _looked(self, since: float) -> float:
        """A moment at which the caller has the graph's answer, and what that moment was."""
        now = time.process_time()
        self._push_s = max(self._push_s, now - since)
        self._state = max(self._state, self._graph.nbytes)
        return now


def _frames(intake: Intake, given: pa.RecordBatch | None) -> Iterator[tuple[Frame, Marks]]:
    if given is None:
        yield intake.finish(), ()
    else:
        yield from intake.take(given)


def memory(line: str) -> int:
    """Bytes that the kernel says this process has (`VmRSS`), or had at most (`VmHWM`)."""
    for each in Path("/proc/self/status").read_text().splitlines():
        if each.startswith(f"{line}:"):
            return int(each.split()[1]) * 1024
    raise Bug(f"/proc/self/status has no {line}")


def measure(case: Case, size: int) -> dict[str, Any]:
    """What a run of a case took, or why it has none: `{"failed": ...}`."""
    try:
        Run(case, case.quick[0]).whole()
        gc.collect()
        gc.freeze()
        return asdict(Run(case, size).whole())
    except MemoryError as error:  # Arrow's own is one, too
        return {"failed": f"memory: {error!r}"}


def main(name: str, size: str, data_bytes_max: str = str(DATA_BYTES_MAX)) -> None:
    """Measures a case by its name, capped, and says what it found."""
    pa.set_cpu_count(1)
    resource.setrlimit(resource.RLIMIT_DATA, (int(data_bytes_max),) * 2)
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_S_MAX, CPU_S_MAX))
    sys.stdout.write(json.dumps(measure(CASES[name], int(size))))  # its parent reads it


if __name__ == "__main__":
    main(*sys.argv[1:])
