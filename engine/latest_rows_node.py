"""The node of a window of the last rows, at every instant.

window(range=rows(1), partition_by="src")     of each src the last row: what latest_by("src") keeps
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from gapless.engine.fit import check_columns
from gapless.engine.known import Properties
from gapless.engine.node_base import NodeBase
from gapless.engine.row_counts import Rows
from gapless.operators.row_windows import Context
from gapless.protocol.elements import INF

if TYPE_CHECKING:
    from gapless.engine.nodes import Node


@dataclass(frozen=True, eq=False, slots=True)
class LatestRows(NodeBase):
    """Each row lives until `range` more rows of its partition have come."""

    input: Node
    range: Rows
    partition_by: tuple[str, ...]

    def __post_init__(self) -> None:
        check_columns("window partition_by", self.partition_by, self.input.schema.names)
        self._is(self.input.schema, self.input)

    @property
    def context(self) -> Context:
        """What the windows of a row follow from: how many come behind it."""
        return "FCA"

    def __str__(self) -> str:
        """As its author wrote it."""
        by = f", partition_by={list(self.partition_by)}" if self.partition_by else ""
        return f"window(range=rows({self.range.count}){by})"


def of_latest_rows(node: LatestRows, p: Properties) -> Properties:
    """What is known of rows that live until others have come."""
    alone = node.range.count == 1
    return Properties(
        key=alone,
        unique=node.partition_by if alone else None,
        grain=p.grain,
        starts=p.starts,
        own_reach=INF,
    )
