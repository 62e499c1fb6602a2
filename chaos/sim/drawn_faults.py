"""Faults of a simulation: what breaks, when, how long; all drawn before the run begins.

    faults = draw(Random("faults 7"), 1300)      five to nine of them, and operations of people
    simulation strikes each at its time, or when its *moment* comes: a join, a takeover, ...

A fault picks its target when it strikes, among what is there then, with a generator of its own: so
a run with the first three faults only is the run up to the fourth, and a failing run can be shrunk
to its shortest failing prefix. What a fault does to processes, links and disks is in
`chaos/sim/strikes.py`.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Literal

Moment = Literal["join", "takeover", "cutover", "resume"]
"""Something that is under way: a replica gets its state, a merger reads its journal back, another
plan comes in, everything starts again."""

FAULTS_MIN, FAULTS_MAX = 5, 9
LASTS_MS = (40, 500)
"""How long a fault lasts: less and more than what machines wait for before they act."""
BEGINS_AT_MS = 60
AT_A_MOMENT = 0.3
"""The share of faults that wait for something to be under way."""
OPERATIONS_SHARE = 0.6
"""The share of runs in which people change the job meanwhile."""

KINDS: dict[str, int] = {
    "crash replica": 6,
    "crash merger": 5,
    "crash supervisor": 2,
    "crash subscriber": 3,
    "crash all but one": 2,
    "crash everything": 2,
    "crash node": 3,
    "freeze replica": 2,
    "freeze merger": 3,
    "freeze supervisor": 1,
    "freeze subscriber": 1,
    "slow replica": 2,
    "slow merger": 1,
    "zombie replica": 2,
    "zombie merger": 3,
    "zombie supervisor": 2,
    "isolate replica": 2,
    "isolate merger": 2,
    "isolate supervisor": 1,
    "one way": 3,
    "clog": 3,
    "lossy": 2,
    "disk full": 2,
    "flip checkpoint": 1,
    "flip output": 1,
    "flip source": 1,
}
"""Every kind of fault, by how often it is drawn."""

OPERATIONS: dict[str, int] = {
    "scale up": 1,
    "scale down": 1,
    "switch": 1,
    "switch at": 3,
    "drop merger": 1,
    "drop mergers": 1,
}
"""What people do meanwhile, by how often. Half of the workloads have no other query to switch to.
The last two: slots of mergers stay empty for a long while, one or all."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault of a plan."""

    number: int
    kind: str
    at: int
    """When it strikes; where it waits for a moment, from when on it waits."""
    lasts_ms: int
    moment: Moment | None = None

    def __str__(self) -> str:
        when = (
            f"at {self.at}"
            if self.moment is None
            else f"at the next {self.moment} from {self.at} on"
        )
        return f"{self.kind} {when} for {self.lasts_ms} ms"


def draw(rng: random.Random, until: int) -> list[Fault]:
    """The faults of one run, in the order of their times."""
    kinds = list(KINDS)
    chosen = rng.choices(kinds, list(KINDS.values()), k=rng.randint(FAULTS_MIN, FAULTS_MAX))
    if rng.random() < OPERATIONS_SHARE:
        chosen += rng.choices(list(OPERATIONS), list(OPERATIONS.values()))
    times = sorted(rng.randrange(BEGINS_AT_MS, until) for _ in chosen)
    rng.shuffle(chosen)
    moments: tuple[Moment, ...] = ("join", "takeover", "cutover", "resume")
    return [
        Fault(
            i,
            kind,
            at,
            rng.randint(*LASTS_MS),
            rng.choice(moments) if kind not in OPERATIONS and rng.random() < AT_A_MOMENT else None,
        )
        for i, (kind, at) in enumerate(zip(chosen, times, strict=True))
    ]
