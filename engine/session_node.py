"""The node of a session window: rows of a partition whose neighbours are at most a gap apart.

    window(session="30s", partition_by="src")      the aggregate directly above it answers them

Which session a row is in depends on the rows around it, so a session window gives rows no lifetimes
and has no answer of its own: what chooses or computes rows goes below it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from gapless.engine.fit import check_columns, check_span
from gapless.engine.known import Properties
from gapless.engine.names import check_column
from gapless.engine.node_base import NodeBase
from gapless.protocol.elements import INF
from gapless.protocol.errors import Misuse

if TYPE_CHECKING:
    from gapless.engine.nodes import Node

GAP_MAX = INF // 4
"""Longer than any stream, and sums of it and a time are still times."""


@dataclass(frozen=True, eq=False, slots=True)
class Session(NodeBase):
    """Sessions of each partition that a pause longer than `gap` ends.

    `on` is another column to read than `_vs`.
    """

    input: Node
    gap: int
    partition_by: tuple[str, ...]
    on: str | None

    def __post_init__(self) -> None:
        check_span("window session", self.gap)
        if self.gap > GAP_MAX:
            raise Misuse(f"window session {self.gap}: {GAP_MAX} is the longest gap")
        check_columns("window partition_by", self.partition_by, self.input.schema.names)
        if self.on is not None:
            check_column("window on", self.on, self.input.schema.names)
        self._is(self.input.schema, self.input)


def in_session(node: Session, p: Properties) -> Properties:
    """What is known of the rows of a session window, for the aggregate that answers it."""
    return replace(p, hop=None, window=_text(node), progress={}, own_reach=INF, own_divergence=())


def answered(
    node: Session,
    group_by: Sequence[str],
    early: int | None,
    divergence: tuple[str, ...],
) -> Properties:
    """What is known of the answers: an event of one instant for each session and group.

    Two sessions of one partition never end together, so a partition that is among the groups tells
    answers apart; where there is but one partition, and no groups, one answer comes at a time.
    """
    final = early is None
    apart = set(node.partition_by) <= set(group_by)
    alone = final and not group_by and not node.partition_by
    return Properties(
        ordered=final,
        strictly_ordered=alone,
        insert_only=final,
        key=apart,
        deterministic_ties=alone,
        ve_of_vs=True,
        unique=tuple(group_by) if apart else None,
        longest=1,
        lasts=1,
        own_divergence=divergence,
    )


def _text(node: Session) -> str:
    by = "" if not node.partition_by else f", partition_by={list(node.partition_by)}"
    on = "" if node.on is None else f", on={node.on!r}"
    return f"window(session={node.gap!r}{by}{on})"
