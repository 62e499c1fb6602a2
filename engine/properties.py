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
                                                                                   (or restarts)
    bucket             as input     if windows do not    as input                  yes
                                    overlap
    dedupe             yes          yes                  yes                       yes
    latest_by          no           no                   yes                       no
    latest rows        no           no                   of one row                no
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
    followed_by        yes          as the right input   if of the right input     as the right
                                    is; in chronicle                               input
                                    yes
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
from gapless.engine.combined_properties import of_difference, of_join, of_race, of_union
from gapless.engine.dedupe_node import deduped
from gapless.engine.disagreement import aggregate_may_differ, computed_may_differ, ranks_may_differ
from gapless.engine.extremes import lags_of
from gapless.engine.followed_by_node import followed
from gapless.engine.known import Hop, Properties, passed, per_instant
from gapless.engine.lateness import Watermarks, is_ordered
from gapless.engine.latest_rows_node import of_latest_rows
from gapless.engine.lifetime_rules import latest, windowed, with_lifetime
from gapless.engine.nodes import Node
from gapless.engine.ranked_nodes import cut_of
from gapless.engine.row_window_node import answered_held, counted
from gapless.engine.session_node import answered, in_session
from gapless.engine.window_times import with_bounds
from gapless.operators.windows import Cut
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
        progress={node.time: 1, **{name: by + 1 for name, by in node.progress}},
        no_nulls=True,
        group_marks=isinstance(node.lateness, Watermarks),
    )


def _where(node: nodes.Where, p: Properties) -> Properties:
    payload = node.input.schema.payload
    why = computed_may_differ(f"where {node.predicate}", node.predicate, payload)
    return passed(p, own_divergence=tuple(why))


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
    return passed(
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
        return per_instant(p, unique=node.group_by, own_divergence=differ)
    if not isinstance(p.hop.window, Cut):
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
        grain=gcd(slide, p.hop.window.origin),
        apart=True,
        own_divergence=differ,
    )


def _distinct_node(node: nodes.Distinct, p: Properties) -> Properties:
    unique = tuple(node.schema.names) if p.unique is None else p.unique
    return per_instant(p, unique=unique, endless=p.endless)


def _top_k(node: nodes.TopK, p: Properties) -> Properties:
    why = ranks_may_differ("top_k", node.by, node.schema.payload)
    unique = node.within if node.k == 1 else p.unique
    return per_instant(p, unique=unique, own_divergence=why)


def _top(node: nodes.Top, p: Properties) -> Properties:
    why = ranks_may_differ("top", node.by, node.input.schema.payload)
    return _of_windows(p, unique=(*node.within, node.rank), own_divergence=why)


def _heavy(node: nodes.Heavy, p: Properties) -> Properties:
    del node
    return _of_windows(p, unique=p.unique)


def _sketched_heavy(node: nodes.SketchedHeavy, p: Properties) -> Properties:
    window = cut_of(p.hop)
    grain = gcd(window.slide, window.origin)
    answers = Properties(longest=window.slide, lasts=window.slide, grain=grain)
    return _of_windows(answers, unique=node.columns)


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
        apart=True,
        **own,
    )


def _normalise(node: nodes.Normalise, p: Properties) -> Properties:
    del node
    return per_instant(p, unique=p.unique, endless=p.endless)


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
    nodes.LatestRows: of_latest_rows,
    nodes.Aggregate: _aggregate,
    nodes.Join: of_join,
    nodes.FollowedBy: followed,
    nodes.Union: of_union,
    nodes.Difference: of_difference,
    nodes.Distinct: _distinct_node,
    nodes.TopK: _top_k,
    nodes.Top: _top,
    nodes.Heavy: _heavy,
    nodes.SketchedHeavy: _sketched_heavy,
    nodes.Race: of_race,
    nodes.Normalise: _normalise,
}
