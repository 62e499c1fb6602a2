"""A plan that is cut off again and again: told in other frames, stopped, taken up, skipped ahead.

    told       [3:a 5:b 5:c]<4  [8:d]<8          frames of the intake
    recut      [3:a] [5:b 5:c] [8:d]<8           split anywhere, promises kept back
    cut        [3:a] | restored | [5:b 5:c] | skipped to 6 | [8:d]<8

None of it may show in the table, at ends of `t` or later where it was skipped to `t`. And in all of
it every bound on what is laid out at once is small, so that outputs come in many parts.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import random
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from gapless import engine, operators
from gapless.engine.graph import Graph
from gapless.engine.intake import Intake
from gapless.engine.plan import Plan
from gapless.operators.aside import Aside
from gapless.operators.operator import Chain, Operator
from gapless.protocol.elements import BEGIN, INF
from gapless.protocol.tdb import Tdb
from tests.engine.oracles.cases import Case
from tests.engine.oracles.random_streams import Told
from tests.engine.oracles.running import Push, given_of, stored

ROWS_AT_ONCE = ("ANSWER_ROWS_MAX", "PAIRS_AT_ONCE_MAX", "ENTRIES_MAX")
"""Bounds on what is laid out at once, wherever operators have them."""
OF_NO_PLAN = frozenset(("Cleanse", "Clip"))
"""Operators that stand behind a plan and not in it."""


# -- bounds ---------------------------------------------------------------------------------------


@contextmanager
def small_bounds(rng: random.Random) -> Iterator[None]:
    """While inside, no more than a few rows are laid out at once; some bounds stay as they are."""
    old = [
        (module, name, getattr(module, name))
        for module in _modules()
        for name in ROWS_AT_ONCE
        if hasattr(module, name)
    ]
    drawn = {name: rng.choice((1, 2, 5, 30, None)) for name in ROWS_AT_ONCE}
    try:
        for module, name, value in old:
            setattr(module, name, drawn[name] or value)
        yield
    finally:
        for module, name, value in old:
            setattr(module, name, value)


def _modules() -> list[object]:
    """All of operators and engine."""
    found: list[object] = []
    for package in (operators, engine):
        names = (m.name for m in pkgutil.walk_packages(package.__path__, f"{package.__name__}."))
        found += [importlib.import_module(name) for name in names]
    return found


def of_plans() -> set[str]:
    """The operators that plans are made of."""
    _modules()
    left, found = [Operator], set()
    while left:
        kind = left.pop()
        left += kind.__subclasses__()
        ours = kind.__module__.startswith(("gapless.operators.", "gapless.engine."))
        if ours and not inspect.isabstract(kind) and kind is not Chain:
            found.add(kind.__name__)
    return found - OF_NO_PLAN


# -- cuts -----------------------------------------------------------------------------------------


def pushes_of(case: Case, rng: random.Random, told: Told) -> list[Push]:
    """What goes into a graph: frames of other sizes, promises in other places, nothing else."""
    plan = Plan(case.query)
    grids = plan.compile(Aside("aside")).grids
    rows = rng.choice((1, 3, 1_000))
    intakes = {
        name: Intake(source, Aside("aside"), rng.choice((1, grids[name])), rows)
        for name, source in case.query.sources.items()
    }
    pushes: list[Push] = []
    for item in told:
        for frame, marks in intakes[item.source].take(given_of(intakes[item.source].source, item)):
            at = rng.randint(0, len(frame))
            stable = None if rng.random() < 0.3 else frame.stable
            if at:
                pushes.append((item.source, frame.slice(0, at), ()))
            pushes.append((item.source, frame.slice(at, None, stable), marks))
    return [*pushes, *((name, intake.finish(), ()) for name, intake in intakes.items())]


class Cut:
    """One run that is cut off now and then."""

    def __init__(self, case: Case, rng: random.Random) -> None:
        self._plan = case.plan()
        self._rng = rng
        self._times = sorted({row[0] for rows in case.rows.values() for row in rows}) or [0]
        self._needed: dict[str, int] = {}
        self.graph = self._new()
        self.tdb = Tdb(self.graph.schema)
        self.skipped_to = BEGIN
        self.restored: Counter[str] = Counter()
        """Operators, by how often one with something to remember was taken up."""

    def _new(self) -> Graph:
        return self._plan.compile(Aside("aside"))

    def push(self, push: Push) -> None:
        """What comes in next, in parts or as one, and maybe a cut before it."""
        draw = self._rng.random()
        if draw < 0.3:
            self._restore()
        elif draw < 0.4:
            self._skip()
        name, frame, marks = push
        needed = self._needed.get(name, BEGIN)
        left = frame if needed == BEGIN else frame.take(frame.ve >= needed, frame.stable)
        if self._rng.random() < 0.5:
            self.tdb.fold(self.graph.push(name, left, marks))
        else:
            for part in self.graph.parts(name, left, marks):
                self.tdb.fold(part)
        self.graph.validate()

    def _restore(self) -> None:
        for step in self.graph.steps:
            for operator in _within(step.operator):
                held = sum(batch.num_rows for batch in operator.snapshot().values())
                self.restored[type(operator).__name__] += held > 0
        state = stored(self.graph.snapshot())
        self.graph = self._new()
        self.graph.restore(state)
        self.graph.validate()

    def _skip(self) -> None:
        stable = self.tdb.stable
        at = self._rng.choice((*self._times, stable)) - self._rng.choice((0, 1, 5))
        if BEGIN < at < INF:
            self.skipped_to = max(self.skipped_to, at)
            self._needed = self.graph.fast_forward(self.skipped_to)


def _within(operator: Operator) -> Iterator[Operator]:
    """An operator and those that it is made of."""
    yield operator
    for part in vars(operator).values():
        for each in part if isinstance(part, tuple | list) else (part,):
            if isinstance(each, Operator):
                yield from _within(each)


def check_cuts(seed: int) -> Counter[str]:
    """No cut shows in the table; which operators were taken up with something to remember."""
    case = Case.draw(seed)
    rng = random.Random(f"cuts {seed}")
    with small_bounds(rng):
        cut = Cut(case, rng)
        for push in pushes_of(case, rng, case.told()):
            cut.push(push)
    assert cut.tdb.stable == INF, f"seed {seed}: {case.outline()}"
    unlike = case.difference(cut.tdb.events, since=cut.skipped_to)
    assert not unlike, unlike
    return cut.restored
