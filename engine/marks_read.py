"""Which steps of a plan look at marks: what progresses is said only below those.

window(on="seen")          reads a column that does not equal `_vs`
group_by("ts") at instants  ends groups by a column that progresses, long before stables would
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from gapless.engine import nodes
from gapless.engine.properties import Properties


def with_marks(root: nodes.Node, known: Mapping[nodes.Node, Properties]) -> frozenset[nodes.Node]:
    """The nodes that say by marks what progresses: some node above looks at them. Nodes of one
    source are one.
    """
    found = _below(root, lambda node: _uses_marks(node, known))
    sources = [node for node in known if isinstance(node, nodes.Source)]
    named = {source.name for source in sources if source in found}
    return found | {source for source in sources if source.name in named}


def reads_a_column(node: nodes.Node, known: Mapping[nodes.Node, Properties]) -> bool:
    """Whether it is a window over another column than one that equals `_vs`."""
    return (
        isinstance(node, nodes.Window | nodes.Session)
        and node.on is not None
        and node.on not in known[node.input].starts
    )


def _uses_marks(node: nodes.Node, known: Mapping[nodes.Node, Properties]) -> bool:
    return reads_a_column(node, known) or _closes_groups(node, known)


def _closes_groups(node: nodes.Node, known: Mapping[nodes.Node, Properties]) -> bool:
    """Whether it is an aggregate at each instant whose groups end by marks, long before stables
    say so: by a column that progresses, over events that are never adjusted.
    """
    if not isinstance(node, nodes.Aggregate):
        return False
    p = known[node.input]
    return p.hop is None and p.insert_only and not p.progress.keys().isdisjoint(node.group_by)


def _below(root: nodes.Node, chosen: Callable[[nodes.Node], bool]) -> frozenset[nodes.Node]:
    """The nodes of which some node above is a chosen one."""
    found: set[nodes.Node] = set()
    for node in reversed(nodes.walk(root)):
        if node in found or chosen(node):
            found.update(node.inputs)
    return frozenset(found)
