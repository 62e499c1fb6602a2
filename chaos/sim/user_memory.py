"""What functions of users remember, apart for each process that a simulation starts.

In production each replica is a process: what a function keeps between calls begins anew there, and
no replica sees another's. In a simulation all of them are in one process, and share the function:

    seen: set = set()                               in production       in one process
    def is_new(src): ... seen.update(src) ...       r0.0  {1, 7}        {1, 7, 9}, everybody's
                                                    r0.1  {1, 7, 9}
                                                    r0.2  {}            it has just started

So the places where functions can keep something are found (`memory_places.py`), each process has
values of its own for them, and these are put in before the plan is run and taken out behind it.
Each process also has a clock of its own, and hashes texts its own way (`other_machine.py`).

A process begins with deep copies of what is there when the simulation begins. A value that cannot
be copied, a lock or a connection, stays shared.
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from gapless.chaos.sim.memory_places import Place, Search
from gapless.chaos.sim.other_machine import OF_MACHINE, OtherMachine
from gapless.engine.graph import Graph
from gapless.failover.replica.executor import Executor
from gapless.protocol.frame import Frame

_IMMUTABLE = frozenset({"gapless", "pyarrow"})
"""Packages whose values never change: they are as good as copies of themselves."""


class Memory:
    """Of one process: within `with` its values are in the places, behind it what was there."""

    def __init__(self, places: Sequence[Place], values: list[Any]) -> None:
        self._places = places
        self._values = values

    def __enter__(self) -> None:
        self._swap()

    def __exit__(self, *_: object) -> None:
        self._swap()

    def _swap(self) -> None:
        there = [place.get() for place in self._places]
        for place, value in zip(self._places, self._values, strict=True):
            place.set(value)
        self._values = there


class Memories:
    """The places of some functions, and a memory for each process that runs them."""

    def __init__(self, functions: Iterable[Callable[..., Any]]) -> None:
        search = Search(functions, OF_MACHINE)
        self._own = tuple(search.places)
        self._machine = tuple(search.machine)
        self._places = (*self._own, *(place for place, _ in self._machine))
        self._stay = {id(each): each for each in search.bound}
        self._processes = 0

    def fresh(self) -> Memory:
        """That of a process which has just started, on a machine of its own."""
        machine = OtherMachine(self._processes)
        self._processes += 1
        values = self._copied([place.get() for place in self._own])
        values += [machine.instead_of(own) for _, own in self._machine]
        return Memory(self._places, values)

    def executor(self, name: str, make: Callable[[], Graph]) -> Executor:
        """Runs a plan in one process."""
        return _Apart(self.fresh(), name, make) if self._places else Executor(name, make)

    def _copied(self, values: list[Any]) -> list[Any]:
        """All at once, so that what two places share they share in the copy as well."""
        stay = dict(self._stay)
        for value in values:
            if type(value).__module__.partition(".")[0] in _IMMUTABLE:
                stay[id(value)] = value
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.14 copies no iterators
            try:
                return copy.deepcopy(values, dict(stay))
            except Exception:  # noqa: BLE001  # whatever a user's value raises, it cannot be copied
                return [_copy_of(value, dict(stay)) for value in values]


def _copy_of(value: Any, stay: dict[int, Any]) -> Any:
    try:
        return copy.deepcopy(value, stay)
    except Exception:  # noqa: BLE001  # as above: it stays shared
        return value


class _Apart(Executor):
    """Runs a plan where its functions have a memory of their own."""

    def __init__(self, memory: Memory, name: str, make: Callable[[], Graph]) -> None:
        super().__init__(name, make)
        self._memory = memory

    def parts(self, source: str, frame: Frame) -> Iterator[Frame]:
        """As any executor, within its memory: taking a part in is another's work."""
        parts = super().parts(source, frame)
        while True:
            with self._memory:
                part = next(parts, None)
            if part is None:
                return
            yield part
