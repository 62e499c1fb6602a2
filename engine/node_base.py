"""What every node of a query has: its inputs, the schema of its output, how deep it lies."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Any

from gapless.protocol.errors import Misuse
from gapless.protocol.schema import StreamSchema

if TYPE_CHECKING:
    from gapless.engine.nodes import Node

DEPTH_MAX = 200
"""Nodes on one path: plans may be walked by recursion."""


class NodeBase:
    """What all nodes have, set by `_is`, each constructor's last step."""

    __slots__ = ("depth", "inputs", "schema")

    schema: StreamSchema
    """Of the output."""
    inputs: tuple[Node, ...]
    """The nodes whose output it reads, in order."""
    depth: int
    """Nodes on the longest path from here down."""

    def _is(self, schema: StreamSchema, *inputs: Node) -> None:
        depth = 1 + max((node.depth for node in inputs), default=0)
        if depth > DEPTH_MAX:
            raise Misuse(f"a query with more than {DEPTH_MAX} steps one above the other")
        for name, value in (("schema", schema), ("inputs", inputs), ("depth", depth)):
            object.__setattr__(self, name, value)

    def __reduce__(self) -> tuple[Any, ...]:
        given = tuple(getattr(self, f.name) for f in fields(self))  # type: ignore[arg-type]  # each is a dataclass
        return type(self), given
