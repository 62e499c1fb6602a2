"""Every workload, by name. A simulation takes them in turn: the seed says which."""

from __future__ import annotations

from collections.abc import Mapping

from gapless.chaos.sim.workloads.early import EARLY_ANSWERS
from gapless.chaos.sim.workloads.filter import FILTER
from gapless.chaos.sim.workloads.join import JOIN
from gapless.chaos.sim.workloads.shards import SHARDED
from gapless.chaos.sim.workloads.two_plans import TWO_PLANS
from gapless.chaos.sim.workloads.w1 import W1
from gapless.chaos.sim.workloads.workload import Workload

WORKLOADS: Mapping[str, Workload] = {
    workload.name: workload for workload in (FILTER, W1, JOIN, EARLY_ANSWERS, TWO_PLANS, SHARDED)
}
