"""The traffic of w1, in two shards: each reads its own partitions, and answers for its own sources.

Three partitions are dealt to two shards, so one has twice the other's. Shards tell half the frames
each: together they cost what one does.
"""

from __future__ import annotations

import random
from dataclasses import replace

from gapless.chaos.sim.workloads.w1 import PACE, W1, flows
from gapless.chaos.sim.workloads.workload import Batches
from gapless.journal.layout import Layout

PARTITIONS, SHARDS, GROUPS = 3, 2, 6
"""The hashes of six groups reach all partitions."""


def batches(rng: random.Random) -> Batches:
    """As w1's, of more groups."""
    return flows(rng, PACE, GROUPS)


SHARDED = replace(
    W1,
    name="shards",
    layouts={
        name: Layout(layout.schema, layout.time, layout.key, PARTITIONS, layout.lateness)
        for name, layout in W1.layouts.items()
    },
    batches=batches,
    shards=SHARDS,
)
