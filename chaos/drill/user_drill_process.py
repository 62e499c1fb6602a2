"""The process in which a user's drill plays: what it is handed, and what it does with that.

    drill(...)  --- given.pickle: scenario, plans, rows -->  python -m (this module) FOLDER
                --- code/: the functions' module  -------->  imported by its name, as in the job
                <-- lines that say how it goes -----------   the report's folder

As with any other drill (drill_process.py): when its pipe ends, it ends, and leaves nothing.
"""

from __future__ import annotations

import pickle
import shutil
import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from gapless.actors.code import FOLDER, Functions
from gapless.chaos.drill.drill import Drill, Say
from gapless.chaos.drill.drill_process import (
    INTERRUPTED,
    NOT_RUN,
    SPARE_S,
    end_with,
    forget_outcome,
    play,
    read_outcome,
    watch,
)
from gapless.chaos.drill.outcome import Outcome
from gapless.chaos.drill.scenario import Scenario
from gapless.chaos.drill.workloads import OF_A_USER, RealSource, RealWorkload
from gapless.engine.plan import Plan
from gapless.journal.layout import Layout
from gapless.protocol.documents import Document
from gapless.protocol.errors import JobError

GIVEN = "given.pickle"


@dataclass(frozen=True, slots=True)
class PackedSource:
    """One source, and its rows in the order in which they arrive."""

    layout: Layout
    rows: pa.RecordBatch
    share: float
    """Of the scenario's rate: a source with half the rows gets half of it, so all end together."""

    def _rows(self, first: int, count: int, _: int) -> pa.RecordBatch:
        return self.rows.slice(first, count)

    def source(self) -> RealSource:
        """As a drill wants it."""
        return RealSource(self.layout, self._rows, self.rows.num_rows, self.share)


@dataclass(frozen=True, slots=True)
class PackedDrill:
    """All that another process needs to play it."""

    scenario: Scenario
    plans: Mapping[str, Document]
    sources: Mapping[str, PackedSource]
    code: Path | None
    """Of the query's functions."""

    def workload(self, functions: Mapping[str, Callable[..., Any]]) -> RealWorkload:
        """What is played, with functions by the names that the plans call them by."""
        return RealWorkload(
            OF_A_USER,
            "a query and rows of a user",
            {name: Plan.from_document(plan, functions) for name, plan in self.plans.items()},
            {name: packed.source() for name, packed in self.sources.items()},
        )


def run_packed(packed: PackedDrill, report: Path, say: Say) -> Outcome:
    """Plays it in a process of its own; returns once nothing of it is left but the report.

    Raises `JobError` where that process could not even begin, or left no verdict, and what
    interrupts it.
    """
    said: list[str] = []

    def note(line: str) -> None:
        said[:] = [line]
        say(line)

    folder = Path(tempfile.mkdtemp(prefix="gapless-given-"))
    try:
        (folder / GIVEN).write_bytes(pickle.dumps((packed, report.resolve())))
        if packed.code is not None:
            _copy(packed.code, folder / FOLDER)
        forget_outcome(report)
        limit_s = packed.scenario.seconds_at_most + SPARE_S
        code = watch("gapless.chaos.drill.user_drill_process", str(folder), limit_s, note)
    finally:
        shutil.rmtree(folder, ignore_errors=True)  # that process may have done so
    if code in (NOT_RUN, INTERRUPTED):
        raise JobError(f"the drill cannot be played: {said[0] if said else 'it says nothing'}")
    return read_outcome(report, code)


def _copy(code: Path, folder: Path) -> None:
    folder.mkdir()
    if code.is_dir():
        shutil.copytree(code, folder / code.name, ignore=shutil.ignore_patterns("__pycache__"))
    else:
        shutil.copy2(code, folder / code.name)


# -- in the process itself -------------------------------------------------------------------------


def main(folder: Path) -> int:
    """Plays what lies in a folder."""
    given = (folder / GIVEN).read_bytes()
    packed, report = pickle.loads(given)  # noqa: S301  # the process that has started us wrote it
    try:
        return play(report, lambda say: _drill(packed, folder, say))
    finally:  # also where our starter is gone
        shutil.rmtree(folder, ignore_errors=True)


def _drill(packed: PackedDrill, folder: Path, say: Say) -> Drill:
    workload = packed.workload(Functions(folder))
    code = None if packed.code is None else folder / FOLDER / packed.code.name
    return Drill(packed.scenario, workload=workload, code=code, say=say)


if __name__ == "__main__":
    end_with(lambda: main(Path(sys.argv[1])))
