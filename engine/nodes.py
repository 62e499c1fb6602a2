"""What a query consists of: nodes, each a step described and none of it run.

    Source flows --> Window 10 s / 1 s --> Aggregate by src          a tree, root last

A node is immutable. It knows its `inputs` and the `schema` of its output, and its constructor
raises where the two do not fit: a column that is not there, a type that cannot be compared. What
depends on more than the neighbours (does this column progress, does that lifetime end?) is asked
in `properties.py`, by `checks.py`.

Nodes are the same when they are one object: a node that two others have as input is computed once
and its output read twice. A node made anew with the same content is another node, and computed
again; `Query.same_as` compares by content. So plans are graphs; `walk` visits each node once.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Literal

import pyarrow as pa

from gapless.engine.bucket_node import Bucket
from gapless.engine.column_progress import Bounds, check_bounds
from gapless.engine.dedupe_node import Dedupe
from gapless.engine.fit import (
    Computed,
    check_alike,
    check_columns,
    check_condition,
    check_names,
    check_time,
    computed_field,
)
from gapless.engine.followed_by_node import FollowedBy
from gapless.engine.lateness import Lateness
from gapless.engine.latest_rows_node import LatestRows
from gapless.engine.names import check_column
from gapless.engine.node_base import NodeBase
from gapless.engine.ranked_nodes import Heavy, SketchedHeavy, Top, check_rank_keys
from gapless.engine.row_window_node import RowWindow
from gapless.engine.session_node import Session
from gapless.engine.window_nodes import LatestBy, Lifetime, Window
from gapless.engine.window_times import time_type
from gapless.operators.aggregates.function import AggregateFunction
from gapless.operators.aggregates.window_bounds import typed
from gapless.operators.hopping_aggregate import answer_schema
from gapless.operators.join_columns import JoinColumns
from gapless.operators.rank_keys import RankKey
from gapless.operators.top_k import K_MAX
from gapless.protocol.elements import INF
from gapless.protocol.errors import ExpressionError, Misuse
from gapless.protocol.expr import Expr
from gapless.protocol.schema import StreamSchema

__all__ = [
    "INPUTS_MAX",
    "NODES_MAX",
    "Aggregate",
    "Bucket",
    "Dedupe",
    "Difference",
    "Distinct",
    "FollowedBy",
    "Heavy",
    "How",
    "Join",
    "LatestBy",
    "LatestRows",
    "Lifetime",
    "Node",
    "Normalise",
    "Race",
    "RowWindow",
    "Select",
    "Session",
    "SketchedHeavy",
    "Source",
    "Top",
    "TopK",
    "Union",
    "Where",
    "Window",
    "walk",
]

NODES_MAX = 1000
"""Nodes of one plan: more are made by loops, and everything that looks at plans visits all."""
INPUTS_MAX = 256
"""Inputs of one union or race."""

How = Literal["inner", "left", "right", "full"]


@dataclass(frozen=True, eq=False, slots=True)
class Source(NodeBase):
    """Rows from outside, known by name; a row lives `[ts, ts + 1)`."""

    name: str
    schema: StreamSchema
    time: str
    """The column of event times."""
    lateness: Lateness
    progress: Bounds = ()
    """Other columns that progress, each with how far before the time it is at most."""

    def __post_init__(self) -> None:
        if type(self.name) is not str or not self.name:
            raise Misuse(f"source: {self.name!r} is not a name")
        what = f"source {self.name}: time"
        check_column(what, self.time, self.schema.names)
        t = self.schema.payload.field(self.time).type
        check_time(f"{what} {self.time!r}", t, self.schema.time_unit)
        check_bounds(self.progress, self.schema, self.time, f"source {self.name}: progress")
        self._is(self.schema)

    def alike(self, other: Source) -> bool:
        """Whether both say the same."""
        return all(getattr(self, f.name) == getattr(other, f.name) for f in fields(self))


@dataclass(frozen=True, eq=False, slots=True)
class Where(NodeBase):
    """The events whose payload satisfies a condition."""

    input: Node
    predicate: Computed

    def __post_init__(self) -> None:
        check_condition("where", self.predicate, self.input.schema.payload)
        self._is(self.input.schema, self.input)


@dataclass(frozen=True, eq=False, slots=True)
class Select(NodeBase):
    """Exactly these columns, in this order, computed of those that are there."""

    input: Node
    columns: tuple[tuple[str, Computed], ...]

    def __post_init__(self) -> None:
        if not self.columns:
            raise Misuse("select: names at least one column")
        check_names("select", [name for name, _ in self.columns])
        payload = self.input.schema.payload
        fields = [computed_field(name, c, payload) for name, c in self.columns]
        self._is(StreamSchema(pa.schema(fields), self.input.schema.time_unit), self.input)


@dataclass(frozen=True, eq=False, slots=True)
class Aggregate(NodeBase):
    """Aggregates of the rows of each group; of each window if the input is windowed with a slide.

    `early` is None, or how far provisional answers look ahead: INF is any window.
    """

    input: Node
    group_by: tuple[str, ...]
    aggregates: tuple[tuple[str, AggregateFunction], ...]
    early: int | None

    def __post_init__(self) -> None:
        check_columns("group_by", self.group_by, self.input.schema.names)
        if not self.aggregates:
            raise Misuse("aggregate: names at least one aggregate, as in n=gl.count()")
        for name, function in self.aggregates:
            if not isinstance(function, AggregateFunction):
                raise Misuse(
                    f"aggregate {name}: {function!r} is not an aggregate function; write it as in "
                    "n=gl.count() or total=gl.sum('len')"
                )
            for column in function.columns:
                check_column(f"aggregate {name}", column, self.input.schema.names)
        check_names("aggregate", [*self.group_by, *(name for name, _ in self.aggregates)])
        if self.early is not None and not 0 <= self.early <= INF:
            raise Misuse(f"aggregate: early {self.early} is not negative")
        schema = self.input.schema
        aggregates = typed(self.aggregates, time_type(self.input), schema.time_unit)
        object.__setattr__(self, "aggregates", aggregates)
        self._is(answer_schema(schema, self.group_by, aggregates), self.input)


@dataclass(frozen=True, eq=False, slots=True)
class Join(NodeBase):
    """Pairs of rows that are alive together, equal in `on`, and for which `where` holds."""

    left: Node
    right: Node
    on: tuple[tuple[str, str], ...]
    where: Expr | None
    how: How

    def __post_init__(self) -> None:
        left, right = self.left.schema, self.right.schema
        for number, (side, schema) in enumerate((("left", left), ("right", right))):
            for pair in self.on:
                check_column(f"join on, {side} side", pair[number], schema.names)
        schema = JoinColumns(left, right, self.on, self.how).schema
        if self.where is not None:
            if not isinstance(self.where, Expr):
                raise ExpressionError(
                    f"join where: {self.where!r} is not an expression; a function goes into "
                    "where() above the join"
                )
            check_condition("join where", self.where, schema.payload)
        self._is(schema, self.left, self.right)


@dataclass(frozen=True, eq=False, slots=True)
class Union(NodeBase):
    """The events of all inputs."""

    inputs: tuple[Node, ...]

    def __post_init__(self) -> None:
        self._is(_common_schema("union", self.inputs), *self.inputs)


@dataclass(frozen=True, eq=False, slots=True)
class Difference(NodeBase):
    """Each payload as often as it is alive left more than right."""

    left: Node
    right: Node

    def __post_init__(self) -> None:
        inputs = self.left, self.right
        self._is(_common_schema("difference", inputs), *inputs)


@dataclass(frozen=True, eq=False, slots=True)
class Distinct(NodeBase):
    """Each payload once where it is alive at all."""

    input: Node

    def __post_init__(self) -> None:
        self._is(self.input.schema, self.input)


@dataclass(frozen=True, eq=False, slots=True)
class TopK(NodeBase):
    """Of the rows of each group the k that come first by the keys `by`."""

    input: Node
    k: int
    by: tuple[RankKey, ...]
    within: tuple[str, ...]

    def __post_init__(self) -> None:
        if type(self.k) is not int or not 1 <= self.k <= K_MAX:
            raise Misuse(f"top_k {self.k!r}: a number of rows, 1 to {K_MAX}")
        check_columns("top_k within", self.within, self.input.schema.names)
        check_rank_keys("top_k", self.by, self.input.schema.payload)
        self._is(self.input.schema, self.input)


@dataclass(frozen=True, eq=False, slots=True)
class Race(NodeBase):
    """Queries with one answer, whichever of them is first."""

    inputs: tuple[Node, ...]

    def __post_init__(self) -> None:
        self._is(_common_schema("race", self.inputs), *self.inputs)


@dataclass(frozen=True, eq=False, slots=True)
class Normalise(NodeBase):
    """One table for all tables that say the same at every instant."""

    input: Node

    def __post_init__(self) -> None:
        self._is(self.input.schema, self.input)


Node = (
    Source
    | Where
    | Select
    | Window
    | RowWindow
    | Session
    | Bucket
    | Dedupe
    | Lifetime
    | LatestBy
    | LatestRows
    | Aggregate
    | Join
    | FollowedBy
    | Union
    | Difference
    | Distinct
    | TopK
    | Top
    | Heavy
    | SketchedHeavy
    | Race
    | Normalise
)


def walk(root: Node) -> list[Node]:
    """All nodes of a plan, each once, inputs before those that read them, the root last."""
    found: dict[Node, None] = {}
    path = [(root, iter(root.inputs))]
    while path:
        node, left = path[-1]
        below = next((n for n in left if n not in found), None)
        if below is not None:
            path.append((below, iter(below.inputs)))
            continue
        found[node] = None
        path.pop()
        if len(found) > NODES_MAX:
            raise Misuse(f"a query of more than {NODES_MAX} steps")
    return list(found)


def _common_schema(what: str, inputs: tuple[Node, ...]) -> StreamSchema:
    if not 1 <= len(inputs) <= INPUTS_MAX:
        raise Misuse(f"{what}: {len(inputs)} inputs, 1 to {INPUTS_MAX} can be")
    for number, other in enumerate(inputs[1:], 2):
        check_alike(what, inputs[0].schema, other.schema, f"number {number}")
    return inputs[0].schema
