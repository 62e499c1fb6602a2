"""Which worker of a run takes which file next, so that no core is idle and none is left at the end.

    waits      spark_sources/  actors/test_deaths.py ...   at most all workers but one
    computes   chaos/sim/test_seeds.py  engine/ ...        at least one, as long as there are any
    gRPC       sidecar/ ...                                only when nothing else is left

Tests that start Spark or Ray wait more than they compute: were all workers at those at once, as
they are what takes longest and so begins, two cores would have a third of their time to spare. And
a process must not fork after gRPC, as starting Spark or Ray does: its threads hang.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from xdist.remote import Producer
    from xdist.scheduler import Scheduling
    from xdist.workermanage import WorkerController

OF_ONE_WORKER = ("tests/spark_sources/",)
"""Folders whose files share what is dear to start: one worker has all of them."""
OF_GRPC = ("tests/sidecar/", "tests/bench/test_sidecar_bench.py")
"""Tests after which a process must not fork."""
LONG = (
    "tests/chaos/sim/test_seeds.py",
    "tests/chaos/sim/test_more_seeds.py",
    "tests/chaos/sim/test_simulator.py",
)
"""Files that compute longest: they begin, so that none is left alone at the end."""
SHOWN = 10
"""Files whose time is said at the end."""
_WAITS = re.compile(r"pytest\.mark\.(ray|spark)\b")


def scope_of(nodeid: str) -> str:
    """The folder or file whose tests one worker has all of."""
    folders = (folder for folder in OF_ONE_WORKER if nodeid.startswith(folder))
    return next(folders, nodeid.split("::", 1)[0])


def rank_of(nodeid: str, marks: Iterable[str]) -> int:
    """When a test's turn is: each worker keeps to it, so none starts Spark or Ray after gRPC."""
    if nodeid.startswith(OF_GRPC):
        return 4
    if "spark" in marks:
        return 0
    if "ray" in marks:
        return 1
    return 2 if nodeid.startswith(LONG) else 3


def waits(scope: str, root: Path) -> bool:
    """Whether a scope has tests that start Spark or Ray, as its marks say; those of gRPC come last
    in any case.
    """
    if scope.startswith(OF_GRPC):
        return False
    return scope in OF_ONE_WORKER or bool(_WAITS.search((root / scope).read_text()))


def next_scope(
    queue: Sequence[str], waiting: Callable[[str], bool], others_wait: int, workers: int
) -> str:
    """The scope that a worker takes: the first one, unless all would wait then and one computes."""
    first = queue[0]
    if waiting(first) and workers > 1 and others_wait >= workers - 1:
        computing = (s for s in queue if not waiting(s) and not s.startswith(OF_GRPC))
        return next(computing, first)
    return first


def scheduling(config: pytest.Config, log: Producer) -> Scheduling:
    """Each file is one worker's, and some folders are: a module's fixtures are made once."""
    from xdist.scheduler import LoadScopeScheduling

    class ByRoom(LoadScopeScheduling):  # type: ignore[misc]  # xdist has no types
        def _split_scope(self, nodeid: str) -> str:
            return scope_of(nodeid)

        def _assign_work_unit(self, node: WorkerController) -> None:
            """Gives a worker its next scope; those before are over, or about to be."""
            others = [work for other, work in self.assigned_work.items() if other is not node]
            others_wait = sum(bool(work) and self._waits(next(reversed(work))) for work in others)
            scope = next_scope(list(self.workqueue), self._waits, others_wait, self.numnodes)
            self.workqueue.move_to_end(scope, last=False)
            super()._assign_work_unit(node)

        def _waits(self, scope: str) -> bool:
            return waits(scope, self.config.rootpath)

    return ByRoom(config, log)


def longest_files(reports: Iterable[pytest.TestReport]) -> list[tuple[str, float]]:
    """The files that take longest, with their seconds, set-up and all."""
    seconds: dict[str, float] = {}
    for report in reports:
        file = report.nodeid.split("::", 1)[0]
        seconds[file] = seconds.get(file, 0.0) + report.duration
    return sorted(seconds.items(), key=lambda of: -of[1])[:SHOWN]
