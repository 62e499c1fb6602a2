"""What is known of the streams that joins, unions, differences and races put out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import gcd

from gapless.engine import nodes
from gapless.engine.disagreement import computed_may_differ
from gapless.engine.known import Hop, Properties, passed, per_instant
from gapless.merge.choose import choose
from gapless.operators.join_columns import JoinColumns
from gapless.protocol.elements import INF


def of_join(node: nodes.Join, left: Properties, right: Properties) -> Properties:
    """Of a join."""
    columns = JoinColumns(node.left.schema, node.right.schema, node.on, node.how)
    sides = left, right
    inner = node.how == "inner"
    payload = node.schema.payload
    where = () if node.where is None else computed_may_differ("join where", node.where, payload)
    # In a full join a row of nulls on the left may look like one of nulls on the right.
    apart = node.how != "full" and all(s.unique is not None for s in sides)
    whole = node.how != "full" and all(s.key and s.starts for s in sides)
    unique: list[str] = []
    for side, names in zip(sides, columns.names, strict=True):
        unique += [names[name] for name in side.unique or ()]
    return Properties(
        insert_only=inner and left.insert_only and right.insert_only,
        key=apart or whole,
        unique=tuple(dict.fromkeys(unique)) if apart else None,
        longest=_longest(node.how, left.longest, right.longest),
        grain=gcd(left.grain, right.grain),
        progress=_joined_progress(columns, sides),
        no_nulls=inner and left.no_nulls and right.no_nulls,
        group_marks=left.group_marks or right.group_marks,
        own_reach=0 if inner else min(INF, left.longest + right.longest),
        own_divergence=tuple(where),
    )


def _longest(how: str, left: int, right: int) -> int:
    own = {"left": left, "right": right, "full": max(left, right)}
    return own.get(how, min(left, right))


def _joined_progress(columns: JoinColumns, sides: tuple[Properties, Properties]) -> dict[str, int]:
    found: dict[str, int] = {}
    for number, side in enumerate(sides):
        for column, lag in side.progress.items():
            said = column not in columns.on[number] or not columns.keeps[1 - number]
            if said and lag < INF:
                name = columns.names[number][column]
                found[name] = max(found.get(name, 0), lag)
    return found


def of_union(node: nodes.Union, *below: Properties) -> Properties:
    """Of a union."""
    del node
    first, *others = below
    if not others:
        return passed(first)
    alike = all(p.lasts == first.lasts for p in others)
    return Properties(
        insert_only=all(p.insert_only for p in below),
        ve_of_vs=alike and first.lasts is not None,
        longest=max(p.longest for p in below),
        lasts=first.lasts if alike else None,
        grain=gcd(*(p.grain for p in below)),
        starts=frozenset.intersection(*(p.starts for p in below)),
        progress={
            name: max(p.progress[name] for p in below)
            for name in first.progress
            if all(name in p.progress for p in others)
        },
        no_nulls=all(p.no_nulls for p in below),
        hop=_common_hop([p.hop for p in below]),
        window=next((p.window for p in below if p.window), None),
        endless=next((p.endless for p in below if p.endless), None),
        group_marks=any(p.group_marks for p in below),
    )


def _common_hop(hops: Sequence[Hop | None]) -> Hop | None:
    first = hops[0]
    if first is None or any(hop is None or hop.window != first.window for hop in hops):
        return None
    problem = next((hop.problem for hop in hops if hop and hop.problem), None)
    if problem is None and any(hop and hop.on != first.on for hop in hops):
        problem = "the inputs of its union are windowed on different columns"
    return replace(first, problem=problem)


def of_difference(node: nodes.Difference, left: Properties, right: Properties) -> Properties:
    """Of a difference."""
    del node
    return per_instant(left, right, unique=left.unique, endless=left.endless)


def of_race(node: nodes.Race, *below: Properties) -> Properties:
    """Of a race."""
    del node
    first = below[0]
    case, _ = choose([p.merge for p in below])
    alike = all(p.lasts == first.lasts for p in below)
    in_order = case in ("r0", "r1", "r2")
    return Properties(
        ordered=in_order,
        strictly_ordered=case == "r0",
        insert_only=in_order,
        key=all(p.key for p in below),
        deterministic_ties=case == "r0",
        ve_of_vs=alike and first.lasts is not None,
        # LMerge puts out what an input may yet take back beside what another has in its place.
        unique=first.unique if all(p.insert_only for p in below) else None,
        longest=max(p.longest for p in below),
        lasts=first.lasts if alike else None,
        grain=gcd(*(p.grain for p in below)),
        starts=frozenset.intersection(*(p.starts for p in below)),
        window=next((p.window for p in below if p.window), None),
        endless=next((p.endless for p in below if p.endless), None),
    )
