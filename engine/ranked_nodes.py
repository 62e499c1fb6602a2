"""The nodes that say something of all rows of one window together: `top`, `heavy`.

Top 3 by n                       of each window the three largest, with their ranks
Heavy share 0.05 of n            of each window what makes up 5 % of it
SketchedHeavy src, share 0.05    the same of rows, estimated: nothing that does is missing
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from gapless.engine.fit import check_columns, check_names, type_of
from gapless.engine.known import Hop, Properties
from gapless.engine.names import check_column
from gapless.engine.node_base import NodeBase
from gapless.operators.aggregates.counts import Count
from gapless.operators.count_min import SHARE_MIN_MILLIONTHS
from gapless.operators.hopping_aggregate import answer_schema
from gapless.operators.rank_keys import RankKey, check_ordered
from gapless.operators.top_k import K_MAX
from gapless.operators.window_choices import MILLION, millionths, ranked_schema
from gapless.operators.windows import Cut
from gapless.protocol.errors import Bug, Misuse, SchemaError

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


@dataclass(frozen=True, eq=False, slots=True)
class SketchedHeavy(NodeBase):
    """Of the rows of each window the values that have a share of them, by a count-min sketch."""

    input: Node
    columns: tuple[str, ...]
    share: float

    def __post_init__(self) -> None:
        names = self.input.schema.names
        check_columns("heavy", self.columns, names)
        if not self.columns:
            raise Misuse("heavy: name the columns whose values are counted")
        check_names("heavy", [*self.columns, "n"])
        if millionths(self.share) < SHARE_MIN_MILLIONTHS:
            raise Misuse(
                f"heavy share={self.share!r}, method='count_min': {SHARE_MIN_MILLIONTHS / MILLION} "
                "is the least, below it counters take more memory than they save: leave method= out"
            )
        object.__setattr__(self, "share", float(self.share))
        schema = answer_schema(self.input.schema, self.columns, [("n", Count())])
        self._is(schema, self.input)


def check_sketched(p: Properties) -> None:
    """Raises where no window with a slide is below."""
    if p.hop is not None and p.hop.problem is not None:
        raise Misuse(f"heavy: {p.hop.problem}")
    if p.hop is None or not isinstance(p.hop.window, Cut):
        raise Misuse(
            "heavy method='count_min': it estimates the rows of each window, and here are none: "
            "write window(range=, slide=) before it"
        )


def cut_of(hop: Hop | None) -> Cut:
    """The window of rows that `check_sketched` has let pass."""
    if hop is None or not isinstance(hop.window, Cut):
        raise Bug("heavy values are estimated of rows in a window")
    return hop.window
