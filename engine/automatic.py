"""`implementation="auto"`: which one answers each windowed aggregate, by what the query says."""

from __future__ import annotations

from typing import Literal

from gapless.engine import nodes
from gapless.engine.query import Query
from gapless.operators.hopping_aggregate import Implementation
from gapless.operators.implementation_costs import Chosen, Work, cheapest
from gapless.operators.windows import Cut

Auto = Literal["auto"]
AUTO: Auto = "auto"
Asked = Implementation | Auto
"""What a plan asks for: an implementation, or that the cheapest one be chosen."""


def automatic(query: Query, node: nodes.Node) -> Chosen | None:
    """The choice for an aggregate of a query; None where there is none to make, as of sessions."""
    if not isinstance(node, nodes.Aggregate) or isinstance(node.input, nodes.Session):
        return None
    hop = query.derived[node.input].hop
    if hop is None or not isinstance(hop.window, Cut):
        return None
    functions = [function for _, function in node.aggregates]
    return cheapest(Work.of(hop.window, node.input.schema.payload, node.group_by, functions))
