"""The nodes that say something of all rows of one window together: `top`, `heavy`.

Top 3 by n                       of each window the three largest, with their ranks
Heavy share 0.05 of n            of each window what makes up 5 % of it
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from gapless.engine.fit import check_columns, type_of
from gapless.engine.names import check_column
from gapless.engine.node_base import NodeBase
from gapless.operators.top_k import K_MAX
from gapless.operators.window_choices import millionths, ranked_schema
from gapless.protocol.errors import ExpressionError, Misuse, SchemaError
from gapless.protocol.expr import Expr

if TYPE_CHECKING:
    from gapless.engine.nodes import Node


@dataclass(frozen=True, eq=False, slots=True)
class Top(NodeBase):
    """Of the rows of each window and group the k that come first by `by`, in rank order."""

    input: Node
    k: int
    by: Expr
    largest: bool
    within: tuple[str, ...]
    rank: str

    def __post_init__(self) -> None:
        if type(self.k) is not int or not 1 <= self.k <= K_MAX:
            raise Misuse(f"top {self.k!r}: a number of rows, 1 to {K_MAX}")
        names = self.input.schema.names
        check_columns("top within", self.within, names)
        if self.rank in names:
            raise SchemaError(
                f"top: there is a column {self.rank!r} already: give that of the ranks another "
                "name, as in rank='place'"
            )
        t = type_of("top by", self.by, self.input.schema.payload)
        if pa.types.is_null(t) or pa.types.is_nested(t) or pa.types.is_interval(t):
            raise ExpressionError(f"top by {self.by}: is {t}, whose values have no order")
        self._is(ranked_schema(self.input.schema, self.rank), self.input)


@dataclass(frozen=True, eq=False, slots=True)
class Heavy(NodeBase):
    """Of the answers of each window those whose count is a share of all, or more."""

    input: Node
    count: str
    share: float

    def __post_init__(self) -> None:
        check_column("heavy", self.count, self.input.schema.names)
        if self.input.schema.payload.field(self.count).type != pa.int64():
            raise SchemaError(f"heavy: column {self.count!r} is no count, which is an int64")
        millionths(self.share)
        object.__setattr__(self, "share", float(self.share))
        self._is(self.input.schema, self.input)
