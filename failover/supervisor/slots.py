"""Slots: what the supervisor knows of each place in the job, and of the lives in it.

    slot r0.2     current    r0.2/1.7   suspected    attached, maybe: nobody knows
                  successor  r0.2/1.9   joining      beside it, until it qualifies
                  fence      r0.2/1.7                lives before this one are not let in any more

Everything here comes from messages: it was true when it was sent. So silence alone leads to nothing
that cannot be undone, except for what a fence or a journal's epoch makes safe.

A life is *running* once it reports that it has its state. A replica *qualifies* once every merger
that is alive reports that it may act: from then on it, too, can carry the output.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

from gapless.failover.backoff import Backoff
from gapless.failover.life_start import Origin
from gapless.failover.lifecycles import Lifecycle
from gapless.failover.messages import Life
from gapless.failover.statuses import MergerStatus, ReplicaStatus
from gapless.failover.supervisor.patience import Patience
from gapless.failover.timing import Timing
from gapless.protocol.elements import BEGIN
from gapless.protocol.errors import Bug

Role = Literal["r", "m"]
"""A replica or a merger."""

LifeState = Literal["starting", "joining", "running", "suspected", "over"]
LIFE: Lifecycle[LifeState] = Lifecycle(
    "a life, as the supervisor knows it",
    {
        "starting": {"report": "joining", "die": "over", "leave": "over"},
        "joining": {"join": "running", "die": "over", "leave": "over"},
        "running": {"suspect": "suspected", "die": "over", "leave": "over"},
        "suspected": {"recover": "running", "die": "over", "leave": "over"},
        "over": {},
    },
)
"""A merger joins with its first report: it has read its journal before it sends one."""

SlotState = Literal["empty", "filled", "failed"]
SLOT: Lifecycle[SlotState] = Lifecycle(
    "a slot",
    {
        "empty": {"fill": "filled", "give up": "failed"},
        "filled": {"succeed": "filled", "empty": "empty"},
        "failed": {"fill": "filled", "try again": "empty"},
    },
)


@dataclass(slots=True, eq=False)
class Known:
    """One life in a slot, as its messages describe it."""

    life: Life
    plan: str
    """Empty for a merger."""
    began_at: int
    """When it was started; of one that an earlier supervisor started, when it first reported."""
    node: str = ""
    """Empty where it is not known."""
    origins: tuple[Origin, ...] = ()
    """What it was ordered to start from, as long as it may still be reading it."""
    state: LifeState = LIFE.first
    heard_at: int = 0
    replica: ReplicaStatus | None = None
    merger: MergerStatus | None = None
    acting: frozenset[Life] = frozenset()
    """Of a merger: the inputs that may act."""
    suspicion: str = ""
    """Why it is suspected."""
    stable: int = BEGIN
    mark: int = BEGIN
    """Where the best of its shard was when this one last advanced: by now it should be there."""
    mark_at: int = 0
    parts_left: int = 0
    """Of a replica: how much of its tail it has still to send."""
    attached_at: int = 0
    """When a merger last reported it as one of its inputs."""
    busy: str = ""
    """With what, as it reports; empty where it is not."""
    busy_at: int = 0
    """Since when."""
    beats: Patience = field(default_factory=Patience)
    """How its heartbeats come."""
    steps: Patience = field(default_factory=Patience)
    """How it advances."""
    asked_to_drain_at: int | None = None
    qualified_ms: int = -1
    """From its start until it qualified first, or, of a merger, let a replica act first; -1 while
    it has not.
    """
    advanced_at: int = 0
    """When it was last found to have promised more than before."""

    def __post_init__(self) -> None:
        self.heard_at = self.mark_at = self.attached_at = self.began_at

    def goes(self, cause: str) -> None:
        """The next state of its life."""
        self.state = LIFE.after(self.state, cause)

    @property
    def reached(self) -> int:
        """How far it has promised, as far as is known."""
        return self.stable if self.merger is None else self.merger.durable_stable

    def stood_ms(self, now: int) -> int | None:
        """How long it has been of use where it is; None where it never was of use."""
        if self.qualified_ms < 0:
            return None
        return now - max(self.advanced_at, self.began_at + self.qualified_ms)

    @property
    def is_live(self) -> bool:
        """Whether it runs, as far as is known."""
        return self.state == "running"


@dataclass(slots=True)
class MergerProgress:
    """How a merger's slot keeps up with its peers."""

    moved_at: int
    """When its output was last durable further than before, or as far as any."""
    advanced_at: int = 0
    """When it was last durable further than before."""
    failures: int = 0
    """How often it was taken away because it did not move, since it was last awaited."""
    is_forgiven: bool = False
    """Whether a new life has had its time to move from its first report on, since the output moved
    last: once, as lives that die again and again would else be waited for all the time.
    """
    again_at: int = 0
    """When it is tried again."""


class Slot:
    """One place in the job."""

    __slots__ = (
        "backoff",
        "current",
        "fence",
        "heard_at",
        "index",
        "last_failure",
        "name",
        "oddities",
        "progress",
        "reason",
        "role",
        "shard",
        "state",
        "successor",
        "trials",
        "wanted_at",
    )

    def __init__(self, role: Role, shard: int, index: int, now: int, timing: Timing) -> None:
        self.name = f"{role}{shard}.{index}"
        self.role: Role = role
        self.shard = shard
        self.index = index
        self.state = SLOT.first
        self.current: Known | None = None
        self.successor: Known | None = None
        """Beside the current one, until it qualifies or is not needed any more."""
        self.fence: Life | None = None
        """Lives before it are not let in by mergers, and have to go."""
        self.backoff = Backoff(timing)
        self.trials = Backoff(timing)
        """The back-off of successors: one that fails is no failure of the current life."""
        self.oddities = Backoff(timing)
        """The back-off of lives that were replaced because they were odd: see divergence.py."""
        self.progress = MergerProgress(now)
        """Of a merger: see assignment.py."""
        self.heard_at = now
        """When any life of it last reported."""
        self.wanted_at = now
        """When it last became empty."""
        self.reason = ""
        """Why it is empty, or failed."""
        self.last_failure = ""
        """Why it was empty last; empty where it never was."""

    @property
    def shown(self) -> str:
        """Its state, in the words for people: that of its life where it has one."""
        return self.current.state if self.current is not None else self.state

    def lives(self) -> Iterator[Known]:
        """The current one, and the one beside it."""
        if self.current is not None:
            yield self.current
        if self.successor is not None:
            yield self.successor

    def find(self, life: Life) -> Known | None:
        """What is known of a life, if it is one of its lives."""
        for known in (self.current, self.successor):
            if known is not None and known.life == life:
                return known
        return None

    def fill(self, known: Known) -> None:
        """Gives it a current life."""
        self.state = SLOT.after(self.state, "fill")
        self.current = known
        self.reason = ""

    def succeed(self) -> Known:
        """The successor takes over; returns the one before."""
        if self.current is None or self.successor is None:
            raise Bug(f"{self.name} has no current life, or no successor")
        self.state = SLOT.after(self.state, "succeed")
        before, self.current, self.successor = self.current, self.successor, None
        self.backoff, self.trials = self.trials, self.backoff
        self.trials.reset()
        return before

    def take_over(self) -> None:
        """The successor is the current one, where there is none."""
        if self.successor is None:
            raise Bug(f"{self.name} has no successor to take it over")
        beside, self.successor = self.successor, None
        self.fill(beside)

    def empty(self, reason: str, now: int) -> None:
        """Its current life is over."""
        self.state = SLOT.after(self.state, "empty")
        self.current = None
        self.reason = self.last_failure = reason
        self.wanted_at = now

    def give_up(self, reason: str) -> None:
        """Starts nothing in it any more, until it is to be tried again."""
        self.state = SLOT.after(self.state, "give up")
        self.reason = reason

    def try_again(self) -> None:
        """Forgets what failed."""
        self.backoff.reset()
        self.trials.reset()
        self.oddities.reset()
        if self.state == "failed":
            self.state = SLOT.after(self.state, "try again")

    def validate(self) -> None:
        """Raises `Bug` where an invariant is broken."""
        self.backoff.validate()
        self.trials.validate()
        self.oddities.validate()
        if (self.current is not None) != (self.state == "filled"):
            raise Bug(f"{self.name} is {self.state} with {self.current}")
        lives = list(self.lives())
        if any(known.life.slot != self.name or known.state == "over" for known in lives):
            raise Bug(f"{self.name} holds {[str(known.life) for known in lives]}")
        if len({known.life for known in lives}) != len(lives):
            raise Bug(f"{self.name} holds one life twice")


@dataclass(slots=True, eq=False)
class Shard:
    """The slots of one shard, and which mergers its replicas are assigned."""

    number: int
    version: int
    """Of the assignment."""
    replicas: dict[str, Slot] = field(default_factory=dict)
    """By name, in the order of their indexes."""
    mergers: dict[str, Slot] = field(default_factory=dict)
    assigned: tuple[str, ...] = ()
    """The mergers that replicas send to."""
    awaited: tuple[str, ...] = ()
    """Those of them whose durable output the tails wait for: see assignment.py."""
    best: int = BEGIN
    """The farthest stable that any of its replicas has promised."""
    best_at: int = 0
    """When that was reported."""
    floors: dict[str, Life] = field(default_factory=dict)
    """Of slots that are no more: lives before these are not let in by mergers."""
    durables: dict[str, int] = field(default_factory=dict)
    """By merger's slot the durable stable that it last reported."""

    def slots(self) -> Iterator[Slot]:
        """Mergers first: replicas start from what is durable there."""
        yield from self.mergers.values()
        yield from self.replicas.values()

    def live_mergers(self) -> list[Known]:
        """The lives of assigned mergers that run, as far as is known."""
        lives = [self.mergers[name].current for name in self.assigned]
        return [known for known in lives if known is not None and known.is_live]

    def awaited_mergers(self) -> list[Known]:
        """The lives of awaited mergers that run: the output depends on them."""
        lives = [self.mergers[name].current for name in self.awaited]
        return [known for known in lives if known is not None and known.is_live]

    def running(self) -> list[Known]:
        """Its replicas that run and are not suspected."""
        lives = [slot.current for slot in self.replicas.values()]
        return [known for known in lives if known is not None and known.is_live]

    def awaits(self, plan: str) -> bool:
        """Whether a replica of this plan is on its way, or its slot waits for one."""
        lives = [known for slot in self.replicas.values() for known in slot.lives()]
        is_joining = any(k.plan == plan and k.state in ("starting", "joining") for k in lives)
        return is_joining or any(not list(slot.lives()) for slot in self.replicas.values())

    def has_newcomer(self, plan: str) -> bool:
        """Whether it awaits a replica of this plan, or one runs that was of no use yet: it sends
        its tail, or catches up.
        """
        lives = [known for slot in self.replicas.values() for known in slot.lives()]
        return self.awaits(plan) or any(k.plan == plan and k.qualified_ms < 0 for k in lives)

    def leader(self) -> Known | None:
        """The replica whose stable is the farthest."""
        return max(self.running(), key=lambda known: (known.stable, known.life), default=None)

    def durable(self) -> int | None:
        """Up to where the output is durable at every awaited merger; None where one has not said.

        A life that has ended leaves its answer: what is durable stays so.
        """
        stables = [self.durables.get(name) for name in self.awaited]
        known = [stable for stable in stables if stable is not None]
        return min(known) if len(known) == len(stables) else None

    def leads(self) -> list[tuple[Life, int]]:
        """How often each input of each live merger has advanced its output."""
        return [
            (input.life, input.led)
            for known in self.live_mergers()
            if known.merger is not None
            for input in known.merger.inputs
        ]

    def fences(self) -> tuple[Life, ...]:
        """By slot of a replica the lowest life that mergers may let in."""
        kept = [slot.fence for slot in self.replicas.values() if slot.fence is not None]
        return (*kept, *self.floors.values())
