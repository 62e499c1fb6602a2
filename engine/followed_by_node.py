"""The node of `followed_by`: rows, each with the one that it follows.

cases.followed_by(products, on="belt")                    each product with the last case before it
cases.followed_by(products, on="belt", pick="chronicle")  with the earliest case that is free
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gapless.engine.disagreement import computed_may_differ
from gapless.engine.fit import check_condition, check_span
from gapless.engine.known import Properties
from gapless.engine.names import check_column
from gapless.engine.node_base import NodeBase
from gapless.operators.followed_by import Pick, check_pick
from gapless.operators.join_columns import JoinColumns
from gapless.protocol.elements import INF
from gapless.protocol.errors import ExpressionError, Misuse
from gapless.protocol.expr import Expr

if TYPE_CHECKING:
    from gapless.engine.nodes import Node


@dataclass(frozen=True, eq=False, slots=True)
class FollowedBy(NodeBase):
    """Rows of the right, each with the row of the left that it follows."""

    left: Node
    right: Node
    on: tuple[tuple[str, str], ...]
    where: Expr | None
    within: int | None
    pick: Pick

    def __post_init__(self) -> None:
        left, right = self.left.schema, self.right.schema
        for number, (side, schema) in enumerate((("left", left), ("right", right))):
            for pair in self.on:
                check_column(f"followed_by on, {side} side", pair[number], schema.names)
        check_pick(self.pick)
        if self.within is not None:
            check_span("followed_by within", self.within)
        schema = JoinColumns(left, right, self.on, "inner", "followed_by").schema
        if self.where is not None:
            if not isinstance(self.where, Expr):
                raise ExpressionError(
                    f"followed_by where: {self.where!r} is not an expression, as in "
                    "where=gl.col('len') > 0"
                )
            check_condition("followed_by where", self.where, schema.payload)
        self._is(schema, self.left, self.right)


def check_followed_by(left: Properties) -> None:
    """Raises where rows that are to be followed are in a window."""
    if left.window is not None:
        raise Misuse(
            f"followed_by: its left input is in a window, {left.window}, whose lifetimes would be "
            "lost: leave it out, and say within= how long a row may be followed"
        )


def followed(node: FollowedBy, left: Properties, right: Properties) -> Properties:
    """What is known of pairs: each lives as its row of the right does."""
    del left
    names = JoinColumns(node.left.schema, node.right.schema, node.on, "inner").names[1]
    where: Iterable[str] = ()
    if node.where is not None:
        where = computed_may_differ("followed_by where", node.where, node.schema.payload)
    chronicle = node.pick == "chronicle"
    own_reach = INF
    if node.within is not None and not chronicle:
        own_reach = min(INF, node.within + right.longest)
    return Properties(
        ordered=right.ordered or chronicle or not right.insert_only,
        strictly_ordered=right.strictly_ordered,
        insert_only=True,
        key=right.key,
        ve_of_vs=right.ve_of_vs,
        unique=None if right.unique is None else tuple(names[name] for name in right.unique),
        longest=right.longest,
        lasts=right.lasts,
        grain=right.grain,
        starts=frozenset(names[name] for name in right.starts),
        endless=right.endless,
        own_reach=own_reach,
        own_divergence=tuple(where),
    )
