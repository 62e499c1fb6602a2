"""A workload: a query with everything that a simulation of it needs.

    batches(rng) ----> journals of the sources ----> replicas, each with one of `plans` ---> output
         |                                                                                    ||
         +------------ expected: plain Python over the rows --------------------------------- table

`expected` shares nothing with operators: it is what the output is judged by. A workload also says
what the output promises by its nature (which case of LMerge it needs, whether (payload, vs) is a
key, whether events are ever changed), and which other plans a running job may be switched to.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import pyarrow as pa

from gapless.engine.documents import functions_of
from gapless.engine.graph import Graph
from gapless.engine.plan import Plan
from gapless.failover.replica.executor import Executor
from gapless.journal.layout import Layout
from gapless.protocol.errors import Bug
from gapless.protocol.schema import StreamSchema
from gapless.protocol.tdb import Tdb

Batches = list[tuple[str, pa.RecordBatch]]
"""What is appended to the journals of sources, by name, in this order."""

SPARE, SWITCHED = "spare", "switched"
"""What the plans are called that do not run from the start."""


@dataclass(frozen=True, slots=True)
class Workload:
    """One query and its data. All plans read the sources of `layouts` and have one schema."""

    name: str
    plans: Mapping[str, Plan]
    """That race each other, by name: all have the same table."""
    layouts: Mapping[str, Layout]
    """Of the journals, by source."""
    batches: Callable[..., Batches]
    """Draws what is appended to the sources, from a `random.Random`. Every row is in time."""
    expected: Callable[[Batches], Tdb]
    """The whole table, once all sources have ended."""
    case: Literal["r3", "r4"] = "r3"
    insert_only: bool = True
    """Whether no event of the output is ever adjusted."""
    key: bool = True
    """Whether (payload, vs) is a key of the output."""
    shards: int = 1
    """Partitions are dealt to them in turn."""
    spare_plan: Plan | None = None
    """Another plan of the same table, for a cutover."""
    switched: Plan | None = None
    """A plan of another table, for a cutover to it at a time."""
    expected_at: Callable[[Batches, int], Tdb] | None = None
    """The table where `switched` counts from that time on: of the old one what begins before."""
    grid: int = 1
    """A cutover to another table is at a multiple of it: no event of either lives across one."""
    whole: bool = False
    """Whether every batch is written, also where there have been frames enough before."""
    executor: Callable[[str, Callable[[], Graph]], Executor] = Executor
    """What runs a plan in one process: made of the plan's name, and of what makes its graph."""

    def __post_init__(self) -> None:
        for plan in self.all_plans.values():
            if plan.query.schema != self.schema or plan.query.sources.keys() != self.layouts.keys():
                raise Bug(f"the plans of workload {self.name!r} have other schemas or sources")
        if (self.switched is None) != (self.expected_at is None):
            raise Bug(f"workload {self.name!r}: a changed query and its table come together")

    @property
    def schema(self) -> StreamSchema:
        """Of the output."""
        return next(iter(self.plans.values())).query.schema

    @property
    def starts_are_final(self) -> bool:
        """Whether an event can change no more once the output is past its start. Without a key
        LMerge may still take one for another (failover/subscriber/finals.py).
        """
        return self.insert_only and self.case == "r3"

    @property
    def all_plans(self) -> dict[str, Plan]:
        """By name; also those to switch to."""
        others = {SPARE: self.spare_plan, SWITCHED: self.switched}
        return {**self.plans, **{name: plan for name, plan in others.items() if plan is not None}}

    @property
    def functions(self) -> dict[str, Callable[..., Any]]:
        """Those of users that its plans call, by the names that documents call them by."""
        plans = self.all_plans.values()
        return {name: call for plan in plans for name, call in functions_of(plan.query).items()}

    @property
    def racing(self) -> tuple[str, ...]:
        """The names of the plans that run from the start."""
        return tuple(self.plans)

    @property
    def spare(self) -> str | None:
        """The name of the equivalent plan, if there is one."""
        return None if self.spare_plan is None else SPARE

    def partitions_of(self, shard: int) -> tuple[int, ...]:
        """The partitions of every source that a shard reads."""
        partitions = next(iter(self.layouts.values())).partitions
        return tuple(range(shard, partitions, self.shards))

    def next_switch(self, t: int) -> int:
        """The first time from t on at which another table may begin."""
        return -(-t // self.grid) * self.grid
