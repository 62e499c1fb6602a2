"""Nodes and what is known of them, in words: one line for each step of an explained plan.

aggregate by src: packets=count(), bytes=sum(len)
window range 10 s, slide 1 s
inserts only, in order of start, (vs, group) a key
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from gapless.engine import nodes
from gapless.engine.column_progress import bounds_text
from gapless.engine.durations import text
from gapless.engine.known import Properties
from gapless.engine.lateness import lateness_text
from gapless.engine.nodes import Node
from gapless.operators.rank_keys import RankKey
from gapless.protocol.elements import INF
from gapless.protocol.expr import Column

COLUMNS_SHOWN_MAX = 12
"""Columns of a source that its line names."""


def node_text(node: Node) -> str:
    """What a step does."""
    return _TEXTS[type(node)](node)


def properties_text(node: Node, p: Properties) -> str:
    """What is known of the stream that a step puts out."""
    known = ["inserts only" if p.insert_only else "revises"]
    if p.strictly_ordered:
        known.append("starts rise strictly")
    elif p.ordered:
        known.append("in order of start")
    if p.key:
        grouped = isinstance(node, nodes.Aggregate) and node.group_by
        known.append(f"(vs, {'group' if grouped else 'payload'}) a key")
    if p.ve_of_vs:
        known.append("ends follow from starts")
    return ", ".join(known)


def _source(node: nodes.Source) -> str:
    names = node.schema.names
    shown = ", ".join(names[:COLUMNS_SHOWN_MAX])
    more = f", and {len(names) - COLUMNS_SHOWN_MAX} more" if len(names) > COLUMNS_SHOWN_MAX else ""
    late = lateness_text(node.lateness, node.schema.time_unit)
    bounds = bounds_text(node.progress, node.time, node.schema.time_unit)
    return f"source {node.name} ({shown}{more}) time {node.time}, {', '.join((late, *bounds))}"


def _where(node: nodes.Where) -> str:
    return f"where {node.predicate}"


def _select(node: nodes.Select) -> str:
    parts = []
    for name, computed in node.columns:
        same = isinstance(computed, Column) and computed.name == name
        parts.append(name if same else f"{name}={computed}")
    return f"select {', '.join(parts)}"


def _window(node: nodes.Window) -> str:
    unit = node.schema.time_unit
    covers = "all" if node.range is None else text(node.range, unit)
    slide = "" if node.slide is None else f", slide {text(node.slide, unit)}"
    on = "" if node.on is None else f", on {node.on}"
    anew = "" if node.restart is None else f", restart {text(node.restart, unit)}"
    anew += f", origin {text(node.origin, unit)}" if node.origin else ""
    return f"window range {covers}{slide}{anew}{on}"


def _session(node: nodes.Session) -> str:
    by = f" by {', '.join(node.partition_by)}" if node.partition_by else ""
    on = "" if node.on is None else f", on {node.on}"
    return f"window session {text(node.gap, node.schema.time_unit)}{by}{on}"


def _bucket(node: nodes.Bucket) -> str:
    listed = ", ".join(f"{name}={bound}" for name, bound in node.bounds)
    return f"bucket{f': {listed}' if listed else ''}"


def _dedupe(node: nodes.Dedupe) -> str:
    key = ", ".join(node.key)
    if node.within == INF:
        return f"dedupe {key}, each remembered for ever"
    return f"dedupe {key} within {text(node.within, node.schema.time_unit)}"


def _row_window(node: nodes.RowWindow) -> str:
    unit = node.schema.time_unit
    spans = (INF if node.range is None else node.range, node.slide)
    covers, slide = (text(s, unit) if isinstance(s, int) else str(s) for s in spans)
    by = f" by {', '.join(node.partition_by)}" if node.partition_by else ""
    return f"window range {covers}, slide {slide}{by}"


def _lifetime(node: nodes.Lifetime) -> str:
    if node.duration is None:
        return f"lifetime until {node.end}"
    return f"lifetime {text(node.duration, node.schema.time_unit)}"


def _latest_rows(node: nodes.LatestRows) -> str:
    by = f" by {', '.join(node.partition_by)}" if node.partition_by else ""
    return f"window range {node.range}{by}"


def _latest_by(node: nodes.LatestBy) -> str:
    return f"latest by {', '.join(node.key)}"


def _aggregate(node: nodes.Aggregate) -> str:
    by = f" by {', '.join(node.group_by)}" if node.group_by else ""
    listed = ", ".join(f"{name}={function}" for name, function in node.aggregates)
    early = ""
    if node.early is not None:
        unit = node.schema.time_unit
        early = ", early" if node.early == INF else f", early {text(node.early, unit)}"
    return f"aggregate{by}: {listed}{early}"


def _join(node: nodes.Join) -> str:
    how = "" if node.how == "inner" else f"{node.how} "
    on = ", ".join(a if a == b else f"{a} = {b}" for a, b in node.on)
    where = "" if node.where is None else f" where {node.where}"
    return f"{how}join{f' on {on}' if on else ''}{where}"


def _followed_by(node: nodes.FollowedBy) -> str:
    on = ", ".join(a if a == b else f"{a} = {b}" for a, b in node.on)
    within = "" if node.within is None else f" within {text(node.within, node.schema.time_unit)}"
    where = "" if node.where is None else f" where {node.where}"
    return f"followed by{f' on {on}' if on else ''}{within}{where}, {node.pick}"


def _top_k(node: nodes.TopK) -> str:
    within = f" within {', '.join(node.within)}" if node.within else ""
    return f"top {node.k} by {_ranked_by(node.by)}{within}"


def _top(node: nodes.Top) -> str:
    within = f" within {', '.join(node.within)}" if node.within else ""
    return f"top {node.k} of each window by {_ranked_by(node.by)}{within}: {node.rank}"


def _sketched_heavy(node: nodes.SketchedHeavy) -> str:
    columns = ", ".join(node.columns)
    return f"heavy {columns}: {node.share} of each window, or more, by count_min"


def _ranked_by(keys: Sequence[RankKey]) -> str:
    return "; then by ".join(map(str, keys))


_TEXTS: Mapping[type, Callable[..., str]] = {
    nodes.Source: _source,
    nodes.Where: _where,
    nodes.Select: _select,
    nodes.Window: _window,
    nodes.Session: _session,
    nodes.Dedupe: _dedupe,
    nodes.Bucket: _bucket,
    nodes.RowWindow: _row_window,
    nodes.Lifetime: _lifetime,
    nodes.LatestBy: _latest_by,
    nodes.LatestRows: _latest_rows,
    nodes.Aggregate: _aggregate,
    nodes.Join: _join,
    nodes.FollowedBy: _followed_by,
    nodes.Union: lambda node: f"union of {len(node.inputs)}",
    nodes.Difference: lambda _: "difference",
    nodes.Distinct: lambda _: "distinct",
    nodes.TopK: _top_k,
    nodes.Top: _top,
    nodes.Heavy: lambda node: f"heavy: {node.count} is {node.share} of each window, or more",
    nodes.SketchedHeavy: _sketched_heavy,
    nodes.Race: lambda node: f"race of {len(node.inputs)}",
    nodes.Normalise: lambda _: "normalise",
}
