"""A query, its rows and one way of telling them, from a seed: what every oracle test draws.

    GAPLESS_ORACLE_SEEDS=20 .venv/bin/pytest tests/engine/test_oracle_rows.py     20 times as many

A failure names its seed; `Case.draw(seed)` makes the same case again.
"""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from functools import cached_property

from gapless.engine import nodes
from gapless.engine.automatic import Asked
from gapless.engine.plan import Plan
from gapless.engine.query import Query
from gapless.operators.two_level import TwoLevelOptions
from gapless.protocol.elements import BEGIN
from gapless.protocol.tdb import Event
from tests.effort import cases
from tests.engine.oracles.random_queries import Taste, random_query
from tests.engine.oracles.random_streams import (
    Row,
    Told,
    World,
    arrange,
    interleave,
    random_rows,
    tell,
)
from tests.engine.oracles.row_oracle import RowOracle, TooLarge

ROWS = (0, 3, 12, *[30] * 9)
"""Of one source: sometimes none, mostly enough for several windows."""
ORIGINS = (0, 0, 0, -37, 1_000)
"""Where times begin: also below zero, where rounding down is another thing than towards zero."""


IMPLEMENTATIONS: tuple[Asked, ...] = (
    "paned",
    "wid",
    TwoLevelOptions(slots=3, flush="slow", every=4, late=1),
    "adaptive",
    "auto",
    TwoLevelOptions(slots=8),
)
"""What answers windows: slots are few, so that they collide."""

GROUPS = ("k", "x")
"""Columns of which a source may say that some value comes no more."""


def seeds(count: int, start: int = 0) -> range:
    """So many seeds, fewer in a quick run, or as many times that as the environment says."""
    times = int(os.environ.get("GAPLESS_ORACLE_SEEDS", "1"))
    return range(start, start + cases(count) * times)


@dataclass(frozen=True)
class Case:
    """One query over one input."""

    seed: int
    query: Query
    rows: Mapping[str, list[Row]]

    @staticmethod
    def draw(seed: int, taste: Taste | None = None) -> Case:
        """The case of a seed."""
        rng = random.Random(f"case {seed}")
        query = random_query(rng, taste)
        odd = taste is None or taste.odd
        rows = {
            name: random_rows(rng, s.schema, s.time, rng.choice(ROWS), _world(rng, odd))
            for name, s in query.sources.items()
        }
        while True:
            case = Case(seed, query, rows)
            try:
                case.oracle.table(query.root)
            except TooLarge:  # joins of joins: fewer rows will do
                rows = {name: those[: len(those) // 2] for name, those in rows.items()}
            else:
                return case

    def told(self, telling: int = 0) -> Told:
        """One way of telling its rows, none of them late: other numbers, other ways."""
        rng = random.Random(f"case {self.seed}, telling {telling}")
        streams = []
        for name, source in self.query.sources.items():
            time = source.schema.names.index(source.time)
            arrived = arrange(rng, self.rows[name], time, source.lateness)
            groups = {n: source.schema.names.index(n) for n in GROUPS}
            streams.append(tell(rng, name, arrived, time, source.lateness, groups))
        return interleave(rng, streams)

    def plan(self, number: int = 0) -> Plan:
        """One of its plans."""
        return Plan(self.query, IMPLEMENTATIONS[(self.seed + number) % len(IMPLEMENTATIONS)])

    @cached_property
    def oracle(self) -> RowOracle:
        """What the definitions say of its rows."""
        return RowOracle(self.rows)

    def difference(self, got: Iterable[Event], since: int = BEGIN) -> str:
        """How a table is unlike what the definitions say of ends at a time or later, with what
        reproduces it; nothing where they agree.
        """
        wanted = self.oracle.table(self.query.root)
        a = Counter(e for e in got if e.ve >= since)
        b = Counter(e for e in wanted if e.ve >= since)
        if a == b:
            return ""
        lines = [f"seed {self.seed}: {self.outline()}", f"too much: {text(a - b)}"]
        return "\n".join([*lines, f"missing:  {text(b - a)}"])

    def outline(self) -> str:
        """The query's nodes, one a line, each with the numbers of its inputs and its own fields."""
        numbers: dict[nodes.Node, int] = {}
        lines = [""]
        for node in nodes.walk(self.query.root):
            numbers[node] = len(numbers)
            own = (f.name for f in fields(node) if f.repr and f.name not in _INPUTS)
            said = ", ".join(f"{name}={getattr(node, name)}" for name in own)
            below = [numbers[n] for n in node.inputs]
            lines.append(f"  {numbers[node]} {type(node).__name__} of {below}: {said}")
        return "\n".join(lines)


_INPUTS = ("input", "inputs", "left", "right", "schema")


def _world(rng: random.Random, odd: bool) -> World:
    return World.draw(rng) if odd else World(rng.choice(ORIGINS))


def text(events: Counter[Event]) -> str:
    """Some of the events."""
    return ", ".join(f"{e} x{n}" for e, n in list(events.items())[:10]) or "nothing"
