"""The queries of a simulated job: their plans, and the tables that their outputs have to be.

    plans        "p0", "p1"         of the workload's query, in turn for the replicas
                 "spare"            another plan of it, for a cutover
                 "switched-60"      the old query up to 60, another one from there on

A table is recomputed from scratch of all batches, by the workload.
"""

from __future__ import annotations

from gapless.chaos.sim.workloads.workload import SPARE, Batches, Workload
from gapless.engine.splice import Runnable, Splice
from gapless.failover.job.directory import Job
from gapless.protocol.elements import INF
from gapless.protocol.tdb import Tdb


class Queries:
    """Plans by name, and what each has to answer."""

    def __init__(self, workload: Workload) -> None:
        self.plans: dict[str, Runnable] = dict(workload.all_plans)
        self._workload = workload
        self._changed_from: dict[str, int] = {}  # by plan, from when on it has another table
        self._expected: dict[int, tuple[Batches, Tdb]] = {}  # by that time

    def add_spare(self, job: Job) -> None:
        """Stores the plan of a cutover, where the workload has one."""
        work = self._workload
        if work.spare_plan is not None:
            job.add_plan(SPARE, work.spare_plan, work.functions)

    def changed_plan(self, job: Job, present: str, at: int) -> str:
        """The name of the plan that is the changed query's from a time on; stored in the job."""
        work = self._workload
        name = f"switched-{at}"
        if name not in self.plans and work.switched is not None:
            self.plans[name] = Splice(self.plans[present], work.switched, at)
            job.add_plan(name, self.plans[name], work.functions)
            self._changed_from[name] = at
        return name

    def expected(self, plan: str, batches: Batches) -> Tdb:
        """The table of a plan over some batches."""
        at = self._changed_from.get(plan, INF)
        known = self._expected.get(at)
        if known is None or known[0] is not batches:
            work = self._workload
            if at == INF or work.expected_at is None:
                table = work.expected(batches)
            else:
                table = work.expected_at(batches, at)
            known = self._expected[at] = batches, table
        return known[1]
