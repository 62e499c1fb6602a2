"""What is known of the stream that each node puts out, whatever comes in.

A property that is claimed is true for every stream that the plan's operators put out, in any order
of arrival and any cut into frames. What is not known is not claimed.

    node               insert only  in order             (vs, payload) a key       ends by starts
    -----------------  -----------  -------------------  ------------------------  -----------------
    source             yes          if lateness is 0     no                        yes
    where              as input     as input             as input                  as input
    select             as input     as input             if its columns tell rows  as input
                                                         apart as the input's did
    window, lifetime   as input     as input; no if on=  as input; with a slide    no if end=, or if
                                                         or on= only with the      range is no
                                                         start in the payload      multiple of slide
    bucket             as input     if windows do not    as input                  yes
                                    overlap
    dedupe             yes          yes                  yes                       yes
    latest_by          no           no                   yes                       no
    hopping aggregate  no if early  no if early or       yes                       yes
                                    groups close early;
                                    strictly if one
                                    group is all
    landmark, counted  no           no                   yes                       no
      rows: aggregate
    session aggregate  no if early  no if early          if partitions are told    yes
                                                         apart by their groups
    free aggregate,    no           no                   if no two events that     no
      distinct, top_k,                                   live together share a
      difference,                                        payload
      normalise
    join               if inner     no                   if both sides' columns    no
                       and both                          tell their events apart
                       are
    union              if all are   only of one input    only of one input         if all last
                                                                                   equally long
    race               as the case of LMerge that its inputs lead to, and what all of them are

Nothing has ties in a fixed order unless starts rise strictly, and nothing is lossless: feedback may
skip.

Groups close early where a source says "no more rows of this group" (a mark). Only sources with
`watermarks()` say more than stables; all others are taken to say nothing of single groups.

For joins (docs/engine.md, "Joins"): `progress` has the columns of which marks come, each with its
lag; `grain` is what starts, ends and stables are multiples of. For windows: `starts` are columns
that equal `_vs`; `hop` is the window that an aggregate above would answer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from math import gcd
from typing import Any

from gapless.engine import nodes
from gapless.engine.bucket_node import bucketed
from gapless.engine.dedupe_node import deduped
from gapless.engine.disagreement import aggregate_may_differ, computed_may_differ
from gapless.engine.extremes import lags_of
from gapless.engine.known import Hop, Properties
from gapless.engine.lateness import Watermarks, is_ordered
from gapless.engine.lifetime_rules import latest, windowed, with_lifetime
from gapless.engine.nodes import Node
from gapless.engine.row_window_node import answered_held, counted
from gapless.engine.session_node import answered, in_session
from gapless.engine.window_times import with_bounds
from gapless.merge.choose import choose
from gapless.operators.join_columns import JoinColumns
from gapless.operators.windows import Hopping
from gapless.protocol.elements import INF
from gapless.protocol.expr import Column

__all__ = ["Hop", "Known", "Properties", "derive", "of_node", "properties_of"]

Known = Mapping[Node, Properties]


def properties_of(root: Node) -> Properties:
    """Of what a plan puts out."""
    return derive(root)[root]


def derive(root: Node, known: Known | None = None) -> dict[Node, Properties]:
    """Of every node of a plan; what is in `known` is not derived again."""
    found: dict[Node, Properties] = {}
    for node in nodes.walk(root):
        given = None if known is None else known.get(node)
        found[node] = given or of_node(node, [found[below] for below in node.inputs])
    return found


def of_node(node: Node, below: Sequence[Properties]) -> Properties:
    """Of one node, from what is known of its inputs."""
    found = _RULES[type(node)](node, *below)
    return replace(
        found,
        reach=_reach(node, found.own_reach, below),
        may_diverge=_distinct([*(s for p in below for s in p.may_diverge), *found.own_divergence]),
    )


def _reach(node: Node, own: int, below: Sequence[Properties]) -> dict[str, int]:
    if isinstance(node, nodes.Source):
        return {node.name: own}
    found: dict[str, int] = {}
    for p in below:
        for name, needed in p.reach.items():
            found[name] = max(found.get(name, 0), min(INF, needed + own))
    return found


def _distinct(sentences: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(sentences))


# -- one input ------------------------------------------------------------------------------------


def _source(node: nodes.Source) -> Properties:
    return Properties(
        ordered=is_ordered(node.lateness),
        insert_only=True,
        ve_of_vs=True,
        longest=1,
        lasts=1,
        starts=frozenset((node.time,)),
        progress={node.time: 1},
        no_nulls=True,
        group_marks=isinstance(node.lateness, Watermarks),
    )


def _where(node: nodes.Where, p: Properties) -> Properties:
    payload = node.input.schema.payload
    why = computed_may_differ(f"where {node.predicate}", node.predicate, payload)
    return _step(p, own_divergence=tuple(why))


def _select(node: nodes.Select, p: Properties) -> Properties:
    payload = node.input.schema.payload
    renamed: dict[str, str] = {}
    why: list[str] = []
    for name, computed in node.columns:
        if isinstance(computed, Column):
            renamed.setdefault(computed.name, name)
        why += computed_may_differ(f"select {name}", computed, payload)
    unique = p.unique
    if unique is not None:
        kept = all(name in renamed for name in unique)
        unique = tuple(renamed[name] for name in unique) if kept else None
    whole = all(name in renamed for name in payload.names)
    return _step(
        p,
        key=unique is not None or (p.key and whole),
        unique=unique,
        starts=frozenset(
            name for name, c in node.columns if isinstance(c, Column) and c.name in p.starts
        ),
        progress={
            **{renamed[old]: lag for old, lag in p.progress.items() if old in renamed},
            **lags_of(node, p),
        },
        hop=_renamed_hop(p.hop, renamed),
        own_divergence=_distinct(why),
    )


def _renamed_hop(hop: Hop | None, renamed: Mapping[str, str]) -> Hop | None:
    if hop is None or hop.on is None:
        return hop
    if hop.on in renamed:
        return replace(hop, on=renamed[hop.on])
    return replace(hop, problem=f"its window reads {hop.on!r}, which a select above it drops")


def _aggregate(node: nodes.Aggregate, p: Properties) -> Properties:
    return with_bounds(node, _answers(node, p), p)


def _answers(node: nodes.Aggregate, p: Properties) -> Properties:
    payload = node.input.schema.payload
    named = (aggregate_may_differ(name, f, payload) for name, f in node.aggregates)
    differ = tuple(sentence for why in named for sentence in why)
    if isinstance(node.input, nodes.Session):
        return answered(node.input, node.group_by, node.early, differ)
    if p.hop is None:
        return _per_instant(p, unique=node.group_by, own_divergence=differ)
    if not isinstance(p.hop.window, Hopping):
        return answered_held(p.hop.window, node.group_by, differ)
    slide = p.hop.window.slide
    final = node.early is None
    # Groups close early where marks name their columns, by their values or as what progresses.
    early = p.group_marks or not p.progress.keys().isdisjoint(node.group_by)
    return Properties(
        ordered=final and not (node.group_by and early),
        strictly_ordered=final and not node.group_by,
        insert_only=final,
        key=True,
        deterministic_ties=final and not node.group_by,
        ve_of_vs=True,
        unique=node.group_by,
        longest=slide,
        lasts=slide,
        grain=slide,
        own_divergence=differ,
    )


def _distinct_node(node: nodes.Distinct, p: Properties) -> Properties:
    unique = tuple(node.schema.names) if p.unique is None else p.unique
    return _per_instant(p, unique=unique, endless=p.endless)


def _top_k(node: nodes.TopK, p: Properties) -> Properties:
    why = tuple(computed_may_differ(f"top_k by={node.by}", node.by, node.schema.payload))
    unique = node.within if node.k == 1 else p.unique
    return _per_instant(p, unique=unique, own_divergence=why)


def _top(node: nodes.Top, p: Properties) -> Properties:
    why = tuple(computed_may_differ(f"top by={node.by}", node.by, node.input.schema.payload))
    return _of_windows(p, unique=(*node.within, node.rank), own_divergence=why)


def _heavy(node: nodes.Heavy, p: Properties) -> Properties:
    del node
    return _of_windows(p, unique=p.unique)


def _of_windows(p: Properties, **own: Any) -> Properties:
    """What says of whole windows what is final, in an order that its content decides."""
    return Properties(
        ordered=True,
        insert_only=True,
        key=own["unique"] is not None,
        deterministic_ties=True,
        ve_of_vs=True,
        lossless=True,
        longest=p.longest,
        lasts=p.lasts,
        grain=p.grain,
        **own,
    )


def _normalise(node: nodes.Normalise, p: Properties) -> Properties:
    del node
    return _per_instant(p, unique=p.unique, endless=p.endless)


def _per_instant(p: Properties, *others: Properties, **own: Any) -> Properties:
    """What says what holds at each instant, in normal form."""
    return Properties(
        key=own["unique"] is not None,
        grain=gcd(p.grain, *(o.grain for o in others)),
        group_marks=p.group_marks or any(o.group_marks for o in others),
        own_reach=INF,
        **own,
    )


def _step(p: Properties, **changed: Any) -> Properties:
    """What passes events as they are."""
    return replace(p, own_reach=0, **{"own_divergence": (), **changed})


# -- several inputs -------------------------------------------------------------------------------


def _join(node: nodes.Join, left: Properties, right: Properties) -> Properties:
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


def _union(node: nodes.Union, *below: Properties) -> Properties:
    del node
    first, *others = below
    if not others:
        return _step(first)
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


def _difference(node: nodes.Difference, left: Properties, right: Properties) -> Properties:
    del node
    return _per_instant(left, right, unique=left.unique, endless=left.endless)


def _race(node: nodes.Race, *below: Properties) -> Properties:
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


_RULES: Mapping[type, Callable[..., Properties]] = {
    nodes.Source: _source,
    nodes.Where: _where,
    nodes.Select: _select,
    nodes.Window: windowed,
    nodes.Session: in_session,
    nodes.Bucket: bucketed,
    nodes.Dedupe: deduped,
    nodes.RowWindow: counted,
    nodes.Lifetime: with_lifetime,
    nodes.LatestBy: latest,
    nodes.Aggregate: _aggregate,
    nodes.Join: _join,
    nodes.Union: _union,
    nodes.Difference: _difference,
    nodes.Distinct: _distinct_node,
    nodes.TopK: _top_k,
    nodes.Top: _top,
    nodes.Heavy: _heavy,
    nodes.Race: _race,
    nodes.Normalise: _normalise,
}
