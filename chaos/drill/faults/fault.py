"""What a fault is: a class that says what it needs, breaks one thing, and makes it whole again.

    class KillReplica(Fault):               name = "kill replica"
        inject(stage) -> Hit                what it did, to whom

    [[faults]]                              in a scenario: one `Planned`
    fault = "kill replica"
    at = 2.0

A fault picks its target when it strikes, among what is there then: with a generator of its own, so
that a run with another fault left out picks the same. It holds the state that healing needs; the
same object is never injected twice.
"""

from __future__ import annotations

import random
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, Literal

from gapless.protocol.errors import Misuse

if TYPE_CHECKING:
    from gapless.chaos.drill.scenario import Scenario
    from gapless.chaos.drill.stage import Stage

Part = Literal["network", "inside", "persistence", "driver"]
"""What a stage has only where a fault asks for it: nodes in namespaces of their own, joined by our
switch; hooks inside the job's processes; a cluster directory that survives its process; a program
of its own that launches the job."""
Setting = float | int
Hits = Literal["replica", "merger", "node"]
LIMITS: Mapping[str, tuple[float, float]] = {
    "share": (0.01, 1.0),
    "ms": (1.0, 60_000.0),
    "apart_ms": (0.0, 10_000.0),
    "kb_per_s": (1.0, 1_000_000.0),
    "megabytes": (1, 4_096),
    "times": (1, 20),
}
"""By name, the least that a setting can be, and the most: no more than the means take (a test holds
that), so that no run finds out half-way.
"""


@dataclass(frozen=True, slots=True)
class Planned:
    """A fault of a scenario's timeline."""

    fault: str
    at: float
    """Seconds since the job was whole."""
    lasts: float | None = None
    """Until it is healed; the fault's own by default."""
    target: str | None = None
    """One of the fault's `targets`: a slot ("r0.1"), a node ("n2"); drawn where it is not said."""
    settings: Mapping[str, Setting] = field(default_factory=dict)
    """Those of the fault that are not its defaults."""


@dataclass(frozen=True, slots=True)
class Hit:
    """What a fault has done."""

    target: str
    what: str
    ended: frozenset[int] = frozenset()
    """Processes that it has ended: the job is not whole again while it counts on one of them."""


class Fault:
    """One thing that breaks. Subclasses say the class variables, and `inject`."""

    name: ClassVar[str]
    """As scenarios say it: two or three words, a verb first."""
    about: ClassVar[str]
    """One sentence, for `gapless chaos list --faults`."""
    lasts: ClassVar[float | None] = None
    """Seconds until it is healed, where the scenario does not say; None of one with no end."""
    settings: ClassVar[Mapping[str, Setting]] = {}
    """Its settings with their defaults: numbers, whole ones where the default is."""
    limits: ClassVar[Mapping[str, tuple[float, float]]] = LIMITS
    parts: ClassVar[frozenset[Part]] = frozenset()
    """What the stage must have."""
    hits: ClassVar[Hits | None] = None
    """Of what it hits one; None of one that hits all, or what there is one of."""
    nodes_min: ClassVar[int] = 1
    mergers_min: ClassVar[int] = 1
    replicas_min: ClassVar[int] = 1
    bears_random: ClassVar[bool] = True
    """Whether it can be drawn at random, in a long run with others; one that ends the cluster, or
    that needs a stage made for it, cannot."""

    def __init__(self, planned: Planned, rng: random.Random) -> None:
        self.planned = planned
        self.rng = rng

    def setting(self, name: str) -> Setting:
        """A setting: the scenario's, or the default."""
        return self.planned.settings.get(name, self.settings[name])

    def number(self, name: str) -> float:
        """A setting that is a number."""
        return float(self.setting(name))

    @property
    def heals_after(self) -> float | None:
        """Seconds from `inject` to `heal`; None where there is nothing to heal."""
        return self.lasts if self.planned.lasts is None else self.planned.lasts

    # -- what subclasses say ------------------------------------------------------------------

    @classmethod
    def why_not(cls) -> str | None:
        """Why this machine cannot have it, and what to do about that; None where it can."""
        return None

    @classmethod
    def refuses(cls, planned: Planned, scenario: Scenario) -> str | None:
        """Why a scenario cannot have it so; None where it can. Subclasses ask this one, too."""
        for what, least, there in (
            ("nodes", cls.nodes_min, scenario.nodes),
            ("mergers", cls.mergers_min, scenario.mergers),
            ("replicas", cls.replicas_min, scenario.replicas),
        ):
            if there < least:
                return f"needs {what} = {least} at least, and the scenario has {there}"
        if planned.lasts is not None and cls.lasts is None:
            return "has no end, so it takes no `lasts`"
        targets = cls.targets(scenario)
        if planned.target is not None and planned.target not in targets:
            known = f"there are: {', '.join(targets)}" if targets else "it takes none"
            return f"has no target {planned.target!r}; {known}"
        return None

    @classmethod
    def targets(cls, scenario: Scenario) -> tuple[str, ...]:
        """What a scenario may name as its `target`. Never the head, the first node: it has the
        cluster's directory and the observer.
        """
        if cls.hits is None:
            return ()
        if cls.hits == "node":
            return tuple(f"n{number}" for number in range(2, scenario.nodes + 1))
        count = scenario.replicas if cls.hits == "replica" else scenario.mergers
        return tuple(f"{cls.hits[0]}0.{number}" for number in range(count))

    @classmethod
    def targets_in_words(cls) -> str:
        """What a scenario may name as its `target`, for people; empty where it may name none."""
        return cls.hits or ""

    def setup(self, stage: Stage) -> None:
        """Before the job is launched: what has to be there by then (a small disk, say)."""

    @abstractmethod
    def inject(self, stage: Stage) -> Hit:
        """Breaks it. Raises `CannotStrike` where there is nothing to break now."""

    def heal(self, stage: Stage) -> None:
        """Makes it whole again. Called once, also where the run is cut short."""

    def struck(self, stage: Stage) -> str | None:
        """At the end: why it has had no effect, where it had none (no frame was there to lose)."""


class CannotStrike(Misuse):
    """There is nothing to break: nobody is in the slot, say. A timeline is then wrong; a random run
    draws another fault.
    """
