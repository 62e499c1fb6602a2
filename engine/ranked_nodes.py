"""The nodes that say something of all rows of one window together: `top`, `heavy`.

Top 3 by n                       of each window the three largest, with their ranks
Heavy share 0.05 of n            of each window what makes up 5 % of it
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from gapless.engine.fit import check_columns, type_of
from gapless.engine.names import check_column
from gapless.engine.node_base import NodeBase
from gapless.operators.rank_keys import RankKey, check_ordered
from gapless.operators.top_k import K_MAX
from gapless.operators.window_choices import millionths, ranked_schema
from gapless.protocol.errors import Misuse, SchemaError

if TYPE_CHECKING:
    from gapless.engine.nodes import Node


def check_rank_keys(what: str, keys: Sequence[RankKey], payload: pa.Schema) -> None:
    """Raises where rows cannot be ranked by one of these."""
    for key in keys:
        check_ordered(what, key.by, type_of(f"{what} by", key.by, payload))


@dataclass(frozen=True, eq=False, slots=True)
class Top(NodeBase):
    """Of the rows of each window and group the k that come first by these keys, in rank order."""

    input: Node
    k: int
    by: tuple[RankKey, ...]
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
        check_rank_keys("top", self.by, self.input.schema.payload)
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
