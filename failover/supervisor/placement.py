"""Placing: on which node a new life starts. A pure function, so that the simulator runs it, too.

    nodes  n1: r0.0 m0.0    n2: r0.1    n3: r1.0 r1.1      a new life of r0.2 goes to n3:
           has an r of 0      has one     has none of shard 0

Lives of one shard and one role replace each other, so one node's death must not take two of them
where another node is free. After that, nodes share the load.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple


class Placed(NamedTuple):
    """One life, and where it runs."""

    role: str
    shard: int
    node: str
    """Empty where it is unknown: such a life counts against no node."""


def place(role: str, shard: int, nodes: Sequence[str], lives: Iterable[Placed]) -> str | None:
    """The node for a life of `role` in `shard`: the one with the fewest of its kind, then with the
    fewest at all, then the first by name. None where there is no node.
    """
    alike = dict.fromkeys(nodes, 0)
    all_of = dict.fromkeys(nodes, 0)
    for life in lives:
        if life.node in all_of:
            all_of[life.node] += 1
            if life.role == role and life.shard == shard:
                alike[life.node] += 1
    return min(nodes, key=lambda node: (alike[node], all_of[node], node), default=None)
