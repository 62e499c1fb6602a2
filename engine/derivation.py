"""What follows from a query's nodes: their properties, checked on the way; its sources by name."""

from __future__ import annotations

from collections.abc import Mapping

from gapless.engine import nodes
from gapless.engine.checks import check
from gapless.engine.known import Properties
from gapless.engine.nodes import Node
from gapless.engine.properties import of_node
from gapless.protocol.errors import Misuse


def derived(root: Node, known: Mapping[Node, Properties]) -> dict[Node, Properties]:
    """Checks new nodes, and derives their properties."""
    found: dict[Node, Properties] = {}
    for node in nodes.walk(root):
        given = known.get(node)
        if given is None:
            below = [found[n] for n in node.inputs]
            check(node, below)
            given = of_node(node, below)
        found[node] = given
    return found


def sources_of(known: Mapping[Node, Properties]) -> dict[str, nodes.Source]:
    """By name; raises `Misuse` where two that differ share one."""
    found: dict[str, nodes.Source] = {}
    for node in known:
        if isinstance(node, nodes.Source):
            first = found.setdefault(node.name, node)
            if not first.alike(node):
                raise Misuse(f"two sources are called {node.name!r} and differ: {first} and {node}")
    return found
