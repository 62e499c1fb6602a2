"""Which paths from a replica to a merger are untouched, and since when.

    replica's life --- network --- merger's life          a path; it is quiet from when the merger
                                                          takes in something of that replica, to
    a fault that touches an end or the link, an end's     the first thing that touches it
    death, a later life of an end's slot, a fence

What a fault touches is told by its kind and target. What is not known here touches all paths: then
less is judged, and nothing is judged wrongly.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from gapless.chaos.judge.history import Ended, Healed, Obeyed, Started, Struck, TookIn
from gapless.failover.messages import Life

HARMLESS = ("crash", "flip checkpoint")
"""Faults that touch a path by nothing but the deaths that they bring; those are facts of their own.
"""
OF_AN_END = ("freeze", "slow", "works", "zombie", "isolate", "one")
"""Faults whose target is one life, or all that it says ("a->*") or hears ("*->a")."""
OF_A_LINK = ("clog",)
"""Faults whose target is one link, "a->b"."""


@dataclass(frozen=True, slots=True)
class Stretch:
    """A path was quiet from one time to another."""

    replica: Life
    merger: Life
    begin: int
    end: int


class Paths:
    """Hears facts, and knows the quiet stretches of all paths."""

    def __init__(self) -> None:
        self._quiet: dict[tuple[Life, Life], int] = {}
        self._over: list[Stretch] = []
        self._newest: dict[str, Life] = {}
        self._gone: set[Life] = set()
        self._trouble: Counter[tuple[str, str]] = Counter()

    def hears(self) -> Mapping[type, Callable[[int, Any], None]]:
        """Whatever begins or ends a path."""
        return {
            TookIn: self.on_took_in,
            Started: self.on_started,
            Ended: lambda now, fact: self._leaves(now, fact.life),
            Struck: self.on_struck,
            Healed: self.on_healed,
            Obeyed: self.on_obeyed,
        }

    def stretches(self, now: int) -> list[Stretch]:
        """All of them so far; those that go on end now."""
        open_ones = [Stretch(r, m, begin, now) for (r, m), begin in self._quiet.items()]
        return self._over + open_ones

    def on_took_in(self, now: int, fact: TookIn) -> None:
        """A path that is in no trouble is quiet from here on."""
        path = (fact.session.life, fact.merger)
        if path in self._quiet or self._gone.intersection(path):
            return
        if not any(_touches(kind, target, *path) for kind, target in self._trouble):
            self._quiet[path] = now

    def on_started(self, now: int, fact: Started) -> None:
        """Messages to a slot go to its newest life from now on."""
        before = self._newest.get(fact.life.slot)
        if before is not None:
            self._leaves(now, before)
        self._newest[fact.life.slot] = fact.life

    def on_obeyed(self, now: int, fact: Obeyed) -> None:
        """A replica that is held or drained says no more of its own; a fenced one is not heard."""
        if fact.order in ("Hold", "Drain"):
            self._leaves(now, fact.life)
        elif fact.order == "Fence" and fact.about is not None:
            for path in list(self._quiet):
                replica, merger = path
                if merger == fact.life and replica.slot == fact.about.slot:
                    self._end(now, path)

    def on_struck(self, now: int, fact: Struck) -> None:
        """Trouble begins."""
        if fact.fault.startswith(HARMLESS):
            return
        self._trouble[fact.fault, fact.target] += 1
        for path in list(self._quiet):
            if _touches(fact.fault, fact.target, *path):
                self._end(now, path)

    def on_healed(self, _: int, fact: Healed) -> None:
        """Trouble ends; a path is quiet again once something has come through."""
        trouble = fact.fault, fact.target
        if self._trouble[trouble] > 1:
            self._trouble[trouble] -= 1
        else:
            self._trouble.pop(trouble, None)

    def _leaves(self, now: int, life: Life) -> None:
        self._gone.add(life)
        for path in list(self._quiet):
            if life in path:
                self._end(now, path)

    def _end(self, now: int, path: tuple[Life, Life]) -> None:
        self._over.append(Stretch(*path, self._quiet.pop(path), now))


def _touches(kind: str, target: str, replica: Life, merger: Life) -> bool:
    """Whether a fault touches the path between two lives."""
    ends = {replica.slot, merger.slot, str(replica), str(merger)}
    what = kind.partition(" ")[0]
    if what in OF_AN_END:
        return bool(ends.intersection(target.split("->")))
    if what in OF_A_LINK:
        return set(target.split("->")) <= ends
    return True
