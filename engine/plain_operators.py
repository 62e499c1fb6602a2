"""The operators of nodes that become one operator each, whatever stands below and above them."""

from __future__ import annotations

from collections.abc import Mapping

from gapless.engine import nodes
from gapless.engine.known import Hop, Properties
from gapless.engine.race import Race
from gapless.engine.ranked_nodes import cut_of
from gapless.operators.aside import Aside
from gapless.operators.dedupe import Dedupe
from gapless.operators.difference import Difference
from gapless.operators.distinct import Distinct
from gapless.operators.latest import LatestBy
from gapless.operators.latest_rows import LatestRows
from gapless.operators.lifetimes import SetLifetimes
from gapless.operators.normalise import Normalise
from gapless.operators.operator import Operator
from gapless.operators.sketched_heavy import SketchedHeavy
from gapless.operators.top_k import TopK
from gapless.operators.window_choices import Heavy, Top
from gapless.operators.window_rows import WindowRows
from gapless.operators.windows import For, Until
from gapless.protocol.errors import Bug


def operator_of(node: nodes.Node, known: Mapping[nodes.Node, Properties], aside: Aside) -> Operator:
    """What does what this node says."""
    match node:
        case nodes.Lifetime():
            return SetLifetimes(node.input.schema, _lifetime(node), aside=aside)
        case nodes.Difference():
            return Difference(node.schema)
        case nodes.Distinct():
            return Distinct(node.schema)
        case nodes.TopK():
            return TopK(node.schema, node.k, node.by, node.within, aside)
        case nodes.Race():
            return Race(node.schema, [known[each].merge for each in node.inputs])
        case nodes.Normalise():
            return Normalise(node.schema)
        case nodes.Dedupe():
            return Dedupe(node.input.schema, node.key, node.within)
        case nodes.LatestBy():
            return LatestBy(node.input.schema, node.key)
        case nodes.LatestRows():
            return LatestRows(node.input.schema, node.range.count, node.partition_by)
        case nodes.Heavy() | nodes.SketchedHeavy():
            return _heavy(node, known[node.input].hop, aside)
        case nodes.Top():
            first = (node.k, node.by, node.within, node.rank)
            schema = node.input.schema
            return WindowRows(schema, Top(schema, *first, aside))
    raise Bug(f"no operator for {type(node).__name__}")


def _heavy(node: nodes.Heavy | nodes.SketchedHeavy, hop: Hop | None, aside: Aside) -> Operator:
    schema = node.input.schema
    if isinstance(node, nodes.Heavy):
        return WindowRows(schema, Heavy(schema, node.count, node.share))
    on = None if hop is None else hop.on
    return SketchedHeavy(schema, cut_of(hop), node.columns, node.share, on, aside)


def _lifetime(node: nodes.Lifetime) -> Until | For:
    if node.duration is not None:
        return For(node.duration)
    if node.end is None:
        raise Bug("a lifetime has an end or a duration")
    return Until(node.end)
