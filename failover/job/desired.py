"""The desired state of a job: what should run. The supervisor makes it so; the job's directory
remembers it.

A change is asked for by a person or a program; `Desired.changed` says what is wanted then, or
raises `Misuse` and nothing has changed.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, get_args

from gapless.protocol.elements import BEGIN, INF
from gapless.protocol.errors import Misuse

REPLICAS_MAX = 64
"""Of a shard. Each is a whole copy of the query: more than a handful is a mistake."""
MERGERS_MAX = 2
"""Of a shard. Two leave no single point of failure."""
SHARDS_MAX = 1024
"""As many as a journal has partitions at most."""
PLANS_MAX = 1000
"""Of a job, in all its life. A plan is a few KB, and a cutover brings one."""

State = Literal["running", "draining", "stopped"]


@dataclass(frozen=True, slots=True)
class Scale:
    """Run so many replicas of each shard."""

    replicas: int


@dataclass(frozen=True, slots=True)
class Switch:
    """Cutover to plans that give the same table; with `at`, from that time on another table, of the
    same schema.
    """

    plans: tuple[str, ...]
    at: int = BEGIN
    """Where the new answer begins; BEGIN where the answer is the same."""

    def __post_init__(self) -> None:
        _check_plans(self.plans)
        if type(self.at) is not int or not BEGIN <= self.at < INF:
            raise Misuse(f"switch at {self.at!r}: it needs a finite time, or BEGIN")


@dataclass(frozen=True, slots=True)
class Stop:
    """End the job: at once or, with `drain`, once all input that is there now is answered."""

    drain: bool = False


Change = Scale | Switch | Stop


@dataclass(frozen=True, slots=True)
class Desired:
    """What should run."""

    replicas: int
    """Of each shard."""
    plans: tuple[str, ...]
    """By name. Replica i of a shard runs the one at i modulo their number."""
    mergers: int = 1
    """Of each shard."""
    shards: int = 1
    state: State = "running"

    def __post_init__(self) -> None:
        for what, value, most in (
            ("replicas", self.replicas, REPLICAS_MAX),
            ("mergers", self.mergers, MERGERS_MAX),
            ("shards", self.shards, SHARDS_MAX),
        ):
            if type(value) is not int or not 1 <= value <= most:
                raise Misuse(f"{what} {value!r}: 1 to {most}")
        _check_plans(self.plans)
        if self.state not in get_args(State):
            raise Misuse(f"state {self.state!r}: one of {', '.join(get_args(State))}")

    def plan_of(self, index: int) -> str:
        """The plan of a replica, by its index in its shard."""
        return self.plans[index % len(self.plans)]

    def changed(self, change: Change) -> Desired:
        """What is desired after a change. A `Switch` counts once it is done: see
        failover/supervisor/cutover.py.
        """
        if type(change) not in (Scale, Switch, Stop):
            raise Misuse(f"{change!r:.100} is not a change: Scale, Switch or Stop")
        if self.state == "draining" and change == Stop():
            return replace(self, state="stopped")  # people who wait in vain for the end of a drain
        if self.state != "running":
            raise Misuse(f"the job is {self.state}: nothing about it can be changed any more")
        match change:
            case Scale(replicas):
                return replace(self, replicas=replicas)
            case Switch(plans):
                return replace(self, plans=plans)
            case Stop(drain):
                return replace(self, state="draining" if drain else "stopped")


def _check_plans(plans: object) -> None:
    names = plans if isinstance(plans, tuple) else ()
    if not 1 <= len(names) <= PLANS_MAX or not all(isinstance(name, str) for name in names):
        raise Misuse(f"plans {plans!r:.100}: a tuple of names, 1 to {PLANS_MAX}")


def slot(role: Literal["r", "m"], shard: int, index: int) -> str:
    """The name of a slot: "r0.2" is replica 2 of shard 0, "m0.1" its merger 1."""
    return f"{role}{shard}.{index}"
