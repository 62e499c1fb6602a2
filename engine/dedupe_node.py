"""The node of `dedupe`: the first row of a key in each stretch of time.

dedupe("id", within="1h")      a row is dropped if one of its id was kept in the hour before
dedupe("id")                   a row is dropped if one of its id was kept before: within is INF
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from gapless.engine.fit import check_columns, check_span
from gapless.engine.known import Properties
from gapless.engine.node_base import NodeBase
from gapless.protocol.elements import INF
from gapless.protocol.errors import Misuse

if TYPE_CHECKING:
    from gapless.engine.nodes import Node


@dataclass(frozen=True, eq=False, slots=True)
class Dedupe(NodeBase):
    """Rows that are the first of their key for `within`."""

    input: Node
    key: tuple[str, ...]
    within: int

    def __post_init__(self) -> None:
        check_columns("dedupe", self.key, self.input.schema.names)
        if not self.key:
            raise Misuse("dedupe: name the columns of which the first row is kept")
        if self.within != INF:
            check_span("dedupe within", self.within)
        self._is(self.input.schema, self.input)


def check_dedupe(p: Properties) -> None:
    """Raises where rows are in windows already."""
    if p.window is not None:
        raise Misuse(
            f"dedupe: its input is in a window already, {p.window}, whose lifetimes would be lost: "
            "put dedupe below the window"
        )


def deduped(node: Dedupe, p: Properties) -> Properties:
    """What is known of rows that are kept: they come in order, never two of a key at once."""
    return Properties(
        ordered=True,
        insert_only=True,
        key=True,
        ve_of_vs=True,
        unique=node.key,
        longest=1,
        lasts=1,
        starts=p.starts,
        own_reach=INF,
    )
