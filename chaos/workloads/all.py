"""Every workload, by name. A simulation takes them in turn: the seed says which."""

from __future__ import annotations

from collections.abc import Mapping

from gapless.chaos.workloads.early import EARLY_ANSWERS
from gapless.chaos.workloads.filter import FILTER
from gapless.chaos.workloads.join import JOIN
from gapless.chaos.workloads.shards import SHARDED
from gapless.chaos.workloads.two_plans import TWO_PLANS
from gapless.chaos.workloads.w1 import W1
from gapless.chaos.workloads.workload import Workload

WORKLOADS: Mapping[str, Workload] = {
    workload.name: workload for workload in (FILTER, W1, JOIN, EARLY_ANSWERS, TWO_PLANS, SHARDED)
}
