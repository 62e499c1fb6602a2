"""A changed query: the old plan's answer up to a time, the new plan's from then on, as one stream.

    sources --+--> old plan --> Clip(before=T) --+
              |                                  +--> Meld --> output
              +--> new plan --> Clip(from_=T) ---+

Both graphs stand side by side as one. So whatever can be done with a graph can be done with this:
snapshot and restore, reach (the larger of both), fast-forward (once nothing before T is wanted, the
old plan's sources are of no more use), another splice at a later time.

A `Splice` is data like the plans that it is made of: it travels as a document, and `compile` makes
a graph with each call. For as long as an event that crosses T may be asked for, replicas of the
changed query run the splice and not the new plan alone: that one would say of such an event what
the query before the change did not say.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import gcd
from typing import Any

from gapless.engine.graph import Graph
from gapless.engine.plan import Plan
from gapless.engine.steps import Step
from gapless.operators.aside import Aside
from gapless.operators.clip import Clip
from gapless.operators.meld import Meld
from gapless.operators.operator import Operator
from gapless.protocol.documents import Document, Fields
from gapless.protocol.elements import BEGIN, INF
from gapless.protocol.errors import DecodeError, Misuse
from gapless.protocol.schema import StreamSchema

SPLICES_MAX = 8
"""Changes of one query whose answers all run: each costs what its plan costs. By then those before
have long ended, and a new job is due.
"""


class Splice:
    """`old` up to time `at`, `new` from then on. Immutable."""

    __slots__ = ("at", "new", "old")

    def __init__(self, old: Runnable, new: Plan, at: int) -> None:
        if type(at) is not int or not BEGIN < at < INF:
            raise Misuse(f"splice at {at!r}: it needs a finite time")
        self.old = old
        self.new = new
        self.at = at
        if self.depth > SPLICES_MAX:
            raise Misuse(f"a query that was changed more than {SPLICES_MAX} times: start a new job")

    @property
    def depth(self) -> int:
        """How many changes there were."""
        return 1 + (self.old.depth if isinstance(self.old, Splice) else 0)

    @property
    def insert_only(self) -> bool:
        """Whether no event that it puts out is ever adjusted."""
        return all(plan.insert_only for plan in plans_of(self))

    @property
    def schema(self) -> StreamSchema:
        """Of the output."""
        return self.new.query.schema

    def compile(
        self,
        aside: Aside | None = None,
        clock: Callable[[], int] | None = None,
        memory_limit: int | None = None,
    ) -> Graph:
        """A new graph. `aside` gets the rows that cannot be processed by plans that say so."""
        old = self.old.compile(aside_of(self.old, aside))
        new = self.new.compile(aside_of(self.new, aside))
        return side_by_side(old, new, self.at, clock, memory_limit)

    def to_document(self) -> Document:
        """The splice as plain data."""
        return {"old": self.old.to_document(), "new": self.new.to_document(), "at": self.at}

    def __repr__(self) -> str:
        return f"Splice of {self.old!r} and, from {self.at} on, {self.new!r}"


Runnable = Plan | Splice
"""What a replica runs."""


def plans_of(plan: Runnable) -> tuple[Plan, ...]:
    """All plans that it runs, in the order of their times."""
    return (*plans_of(plan.old), plan.new) if isinstance(plan, Splice) else (plan,)


def aside_of(plan: Runnable, aside: Aside | None) -> Aside | None:
    """Where a plan puts rows that it cannot process: None, by itself, where they stop it."""
    if isinstance(plan, Splice) or plan.query.on_error_mode == "aside":
        return aside
    return None


def spliced(old: Runnable, new: Plan, at: int) -> Graph:
    """The graph that says what `old` says before `at`, and what `new` says from then on."""
    return Splice(old, new, at).compile()


def runnable_from_document(
    document: Document, functions: Mapping[str, Callable[..., Any]] | None = None
) -> Runnable:
    """A plan or a splice, for documents from anybody: raises `DecodeError`."""
    changes = []
    while isinstance(document, dict) and "at" in document:
        fields = Fields(document, "splice")
        at = fields.take_int("at", BEGIN + 1, INF - 1)
        changes.append((Plan.from_document(fields.take("new", dict), functions), at))
        document = fields.take("old", dict)
        fields.done()
        if len(changes) > SPLICES_MAX:
            raise DecodeError("splice", f"{len(changes)} changes", f"{SPLICES_MAX} at most")
    found: Runnable = Plan.from_document(document, functions)
    for new, at in reversed(changes):
        try:
            found = Splice(found, new, at)
        except Misuse as e:
            raise DecodeError("splice", str(e)) from None
    return found


# -- the graph ------------------------------------------------------------------------------------


def side_by_side(
    old: Graph,
    new: Graph,
    at: int,
    clock: Callable[[], int] | None = None,
    memory_limit: int | None = None,
) -> Graph:
    """One graph of two that nothing was pushed to; they are not to be used any more."""
    if old.schema != new.schema:
        raise Misuse(f"splice: the old plan gives {old.schema}, the new one {new.schema}")
    shared = [name for name in old.sources if name in new.sources]
    for name in shared:
        if old.sources[name] != new.sources[name]:
            raise Misuse(
                f"splice: source {name!r} is {old.sources[name]} in the old plan, "
                f"{new.sources[name]} in the new one"
            )
    before, after = Clip(old.schema, before=at), Clip(new.schema, from_=at)
    left = _clipped(old, before, f"before {at}", 0)
    right = _clipped(new, after, f"from {at} on", len(left))
    ends = len(left) - 1, len(left) + len(right) - 1
    meld = Step(Meld(old.schema, 2), ends, "splice")
    return Graph(
        {**old.sources, **new.sources},
        [*left, *right, meld],
        clock=clock,
        memory_limit=memory_limit,
        time_columns=_time_columns(old, new),
        grids={
            **old.grids,
            **new.grids,
            **{name: gcd(old.grids[name], new.grids[name]) for name in shared},
        },
    )


def _clipped(graph: Graph, clip: Operator, title: str, first: int) -> Sequence[Step]:
    """The steps of a graph, numbered from `first`, and the clip behind them."""
    moved = [
        Step(step.operator, tuple(_moved(origin, first) for origin in step.inputs), step.title)
        for step in graph.steps
    ]
    end = first + len(moved) - 1 if moved else next(iter(graph.sources))
    return [*moved, Step(clip, (end,), title)]


def _moved(origin: str | int, first: int) -> str | int:
    return origin + first if isinstance(origin, int) else origin


def _time_columns(old: Graph, new: Graph) -> Mapping[str, str]:
    for name, column in old.time_columns.items():
        if new.time_columns.get(name, column) != column:
            raise Misuse(f"splice: source {name!r} has its time in two columns")
    return {**old.time_columns, **new.time_columns}
