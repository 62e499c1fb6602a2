"""Plans with names, from what users give: a query, a plan, a list of either, or a mapping."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from gapless.engine.plan import Plan, plan_of
from gapless.engine.query import Query
from gapless.failover.job.whole_file import check_name
from gapless.protocol.errors import Misuse

Plans: TypeAlias = Mapping[str, Query | Plan] | Sequence[Query | Plan] | None


def named_plans(
    query: Query | Plan | None, plans: Plans, taken: Collection[str] = ()
) -> dict[str, Plan]:
    """By name, the plans that replicas run in turn: `plans` where they are given, else the query's.

    Those without a name get one that is not among `taken`.
    """
    if plans is None:
        if query is None:
            raise Misuse("give a query, or plans")
        plans = [query]
    given: Any = plans
    if not isinstance(given, Iterable) or isinstance(given, str | bytes):
        raise Misuse(
            f"plans: a {type(given).__name__} is neither a list of queries or plans nor "
            "a mapping from names to them"
        )
    if isinstance(plans, Mapping):
        named = dict(plans)
    else:
        plans = list(plans)
        free = (name for i in range(len(taken) + len(plans)) if (name := f"plan{i}") not in taken)
        named = dict(zip(free, plans, strict=False))
    if not named:
        raise Misuse("plans: one is the least")
    for name, plan in named.items():
        check_name("plan", name)
        if not isinstance(plan, Query | Plan):
            raise Misuse(f"plan {name}: a {type(plan).__name__} is neither a query nor a plan")
    return {name: plan_of(plan) for name, plan in named.items()}
