"""Restoring: what a replica was given to begin with, judged and made into a running plan."""

from __future__ import annotations

from collections.abc import Callable

from gapless.engine.graph import Graph
from gapless.failover.replica.checkpoint import Checkpoint
from gapless.failover.replica.executor import Executor
from gapless.protocol.errors import BadData, SchemaError

Unfit = BadData | SchemaError
"""Why what was given is nothing to begin with."""


def check(found: Checkpoint, executor: Executor) -> None:
    """Raises `BadData` where a checkpoint cannot be of this plan."""
    others = any(part.schema != executor.schema for part in found.tail)
    if others or found.positions.keys() != executor.sources.keys():
        raise BadData(f"checkpoint of {found.plan}: of other columns or sources")
    if not all(part.insert_only for part in found.tail):
        raise BadData(f"checkpoint of {found.plan}: its tail is no table")


def restoring(found: Checkpoint, executor: Executor) -> Callable[[], Graph | Unfit]:
    """What makes the graph, on any thread; what is wrong with the state is returned, for beside the
    pump nobody would hear it raised.
    """
    state, given = found.state, found.given

    def restore() -> Graph | Unfit:
        try:
            return executor.restored(state, given)
        except (BadData, SchemaError) as e:
            return e

    return restore
