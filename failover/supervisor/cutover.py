"""Cutover to another answer: up to time T the output is the old query's, from T on the new one's.

    old lives   o------------ held at T ---|  retired
    new lives        o--- held at T -------|--------->    run the old plan up to T, the new from T
                     joining     holding   commit          (engine/splice.py)

New lives run the spliced plan, which says before T what the old one says; so both may be merged as
long as nobody promises a stable beyond T. Up to T the two tables agree, and whatever either says of
later can be taken back. So:

1. joining: beside each old life a new one starts, held at T. All have to qualify at all mergers.
2. holding: the old lives are held at T, too, and mergers fence lives that are neither (zombies).
3. commit, once every old life says that it is held, every merger that it fences, and none of them
   has a stable beyond T: the new plans are desired from now on (`Desire`, the one durable step),
   the old lives are fenced and retired, the new ones lifted.
4. undoing, where somebody is beyond T already or it takes too long: the old lives are lifted, the
   new ones retired, and nothing has changed.

A supervisor that comes after a death in the middle looks at what is desired. Lives that run a
desired plan are lifted, all others are fenced and retired. That is right on both sides of the
commit: up to it nobody has promised anything beyond T that the old plan does not say, and from it
on nobody who runs the old plan can.

The supervisor makes one `Cutover` of a `Switch` with `at`, starts the new lives, and calls `look`
with what it knows until `is_over`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from gapless.failover.effects import Alarm, Send
from gapless.failover.job.desired import Desired
from gapless.failover.lifecycles import Lifecycle
from gapless.failover.messages import Fence, Hold, Life, Retire
from gapless.failover.supervisor.effects import Desire, SupervisorEffect
from gapless.failover.timing import Timing
from gapless.protocol.elements import BEGIN, INF, format_time
from gapless.protocol.errors import Bug, Misuse

CutoverState = Literal["joining", "holding", "lifting", "undoing", "done", "failed"]
CUTOVER: Lifecycle[CutoverState] = Lifecycle(
    "a cutover to another answer",
    {
        "joining": {"all qualify": "holding", "given up": "undoing"},
        "holding": {"all are held": "lifting", "given up": "undoing"},
        "lifting": {"all are lifted": "done"},
        "undoing": {"all are lifted": "failed"},
        "done": {},
        "failed": {},
    },
)


@dataclass(frozen=True, slots=True)
class ReplicaView:
    """What the supervisor knows of one living replica, by its last status."""

    life: Life
    stable: int
    """The last that it promised; BEGIN before its first status."""
    held_at: int
    hold: tuple[int, int] = (0, 0)
    """Term and version of the `Hold` that it obeys: another cutover may have held it before."""
    qualifies: bool = False
    """Whether it may act at every merger of its shard. Of old lives it does not matter."""


@dataclass(frozen=True, slots=True)
class SlotView:
    """A replica's slot: the old life and the new one beside it."""

    old: ReplicaView | None
    """None: dead, or silent for so long that it counts as dead. It is fenced then."""
    new: ReplicaView | None
    """None: not started, or dead."""


@dataclass(frozen=True, slots=True)
class MergerView:
    """A merger's slot, by the last status of its present life."""

    slot: str
    is_heard: bool
    """Whether its present life has reported, and lately."""
    stable: int = BEGIN
    fences: tuple[Life, ...] = ()
    """By slot of a replica the lowest life that may still attach."""


@dataclass(frozen=True, slots=True)
class ShardView:
    """One shard of the job."""

    replicas: tuple[SlotView, ...]
    mergers: tuple[MergerView, ...]
    """All that are desired, those that are away as well."""
    floors: tuple[Life, ...] = ()
    """Of slots that are no more (the job was scaled down): lives before these are to be fenced."""


class Cutover:
    """One changed query, from the command to its end. Pure; the supervisor calls."""

    def __init__(
        self,
        term: int,
        desired: Desired,
        at: int,
        shards: Sequence[ShardView],
        now: int,
        timing: Timing,
    ) -> None:
        """`desired`: what is to be desired from the commit on. Raises `Misuse` where somebody is
        beyond `at` already: nothing has changed then.
        """
        if not BEGIN < at < INF:
            raise Misuse(f"cutover at {format_time(at)}: it needs a finite time")
        beyond = _beyond(shards, at)
        if beyond is not None:
            raise Misuse(f"cutover at {at}: {beyond}; choose a later time")
        self.at = at
        self.desired = desired
        self.state = CUTOVER.first
        self._term = term
        self._timing = timing
        self._began_at = now
        self._held_since = term, now  # the first hold of the old lives
        self._told_at: int | None = None  # when holds and fences were last sent

    @property
    def is_over(self) -> bool:
        """Whether it is done or has failed."""
        return not CUTOVER.table[self.state]

    @property
    def is_committed(self) -> bool:
        """Whether the new lives are those of their slots: then the old ones are not restarted."""
        return self.state in ("lifting", "done")

    @property
    def held_at(self) -> int:
        """With which hold a new life starts now, that runs the spliced plan."""
        return INF if self.is_committed else self.at

    @property
    def old_held_at(self) -> int:
        """With which hold an old life is started again now."""
        return self.at if self.state == "holding" else INF

    def look(self, shards: Sequence[ShardView], now: int) -> list[SupervisorEffect]:
        """What follows from how things are: called with each tick, at least.

        After the call that commits, or gives up, the supervisor does with its slots what has been
        sent: after a commit each new life is its slot's current one, else it is over.
        """
        if self.state in ("joining", "holding"):
            problem = self._problem(shards, now)
            if problem is not None:
                return self._give_up(shards, problem, now)
        if self.state == "joining" and _all_qualify(shards):
            self._go("all qualify")
            self._held_since = self._term, now
        if self.state == "holding" and self._is_safe(shards):
            return self._commit(shards, now)
        if self.state == "joining" or self.is_over:
            return []
        if self.state == "holding":
            return self._hold_old(shards, now)
        return self._lift(_lives(shards, new=self.is_committed), now)

    def give_up(self, shards: Sequence[ShardView], reason: str, now: int) -> list[SupervisorEffect]:
        """Somebody wants it no more. Nothing happens where it is committed."""
        if self.state not in ("joining", "holding"):
            return []
        return self._give_up(shards, reason, now)

    # -- deciding -----------------------------------------------------------------------------

    def _problem(self, shards: Sequence[ShardView], now: int) -> str | None:
        """Why it cannot be done any more."""
        beyond = _beyond(shards, self.at)
        if beyond is not None:
            return beyond
        if now - self._began_at >= self._timing.cutover_ms:
            return f"it is not done after {self._timing.cutover_ms} ms: {self._awaited(shards)}"
        return None

    def _awaited(self, shards: Sequence[ShardView]) -> str:
        if not _all_qualify(shards):
            return "not every slot has a new life that qualifies at its mergers"
        if not self._old_are_held(shards):
            return "not every old life has said that it is held"
        return "not every merger has said that it fences the others"

    def _is_safe(self, shards: Sequence[ShardView]) -> bool:
        """Whether no life of the old plan can promise anything beyond T from now on."""
        return (
            self._old_are_held(shards)
            and _all_qualify(shards)
            and all(self._fences(merger, shard) for shard in shards for merger in shard.mergers)
        )

    def _old_are_held(self, shards: Sequence[ShardView]) -> bool:
        return all(self._is_held(old) for old in _lives(shards, new=False))

    def _is_held(self, old: ReplicaView) -> bool:
        """Whether it obeys a hold of this cutover: no earlier order can lift it any more."""
        return old.held_at == self.at and old.hold >= self._held_since

    def _fences(self, merger: MergerView, shard: ShardView) -> bool:
        """Whether a merger admits only lives that are held."""
        if not merger.is_heard:
            return False
        fences = {life.slot: life for life in merger.fences}
        floors = _floors(shard)
        return all(floor.slot in fences and fences[floor.slot] >= floor for floor in floors)

    # -- doing --------------------------------------------------------------------------------

    def _hold_old(self, shards: Sequence[ShardView], now: int) -> list[SupervisorEffect]:
        if not self._may_tell(now):
            return []
        effects: list[SupervisorEffect] = [
            Send(str(old.life), Hold(self._term, self.at, now))
            for old in _lives(shards, new=False)
            if not self._is_held(old)
        ]
        for shard in shards:
            effects += self._fence(shard, _floors(shard))
        return effects

    def _commit(self, shards: Sequence[ShardView], now: int) -> list[SupervisorEffect]:
        self._go("all are held")
        effects: list[SupervisorEffect] = [Desire(self.desired)]
        reason = f"the query was changed at {self.at}"
        for shard in shards:
            lives = [slot.new.life for slot in shard.replicas if slot.new is not None]
            effects += self._fence(shard, [*lives, *shard.floors])
        effects += [self._retire(old.life, reason) for old in _lives(shards, new=False)]
        return [*effects, *self._lift(_lives(shards, new=True), now)]

    def _give_up(
        self, shards: Sequence[ShardView], problem: str, now: int
    ) -> list[SupervisorEffect]:
        self._go("given up")
        what = f"the cutover at {self.at} is given up, the old query goes on: {problem}"
        effects: list[SupervisorEffect] = [Alarm(what)]
        effects += [self._retire(new.life, what) for new in _lives(shards, new=True)]
        return [*effects, *self._lift(_lives(shards, new=False), now)]

    def _lift(self, lives: Sequence[ReplicaView], now: int) -> list[SupervisorEffect]:
        """Lifts the hold, again and again, as orders get lost."""
        held = [replica.life for replica in lives if replica.held_at != INF]
        if not held:
            self._go("all are lifted")
            return []
        if not self._may_tell(now):
            return []
        return [Send(str(life), Hold(self._term, INF, now)) for life in held]

    def _fence(self, shard: ShardView, floors: Iterable[Life]) -> list[SupervisorEffect]:
        return [
            Send(merger.slot, Fence(self._term, floor))
            for merger in shard.mergers
            for floor in floors
            if floor not in merger.fences
        ]

    def _retire(self, life: Life, reason: str) -> SupervisorEffect:
        return Send(str(life), Retire(self._term, life, reason))

    def _may_tell(self, now: int) -> bool:
        """Whether it is time to repeat it."""
        if self._told_at is not None and now - self._told_at < self._timing.resend_ms:
            return False
        self._told_at = now
        return True

    def _go(self, cause: str) -> None:
        self.state = CUTOVER.after(self.state, cause)
        self._told_at = None

    def validate(self) -> None:
        """Raises `Bug` where its state is none."""
        if self.state not in CUTOVER.table:
            raise Bug(f"a cutover that is {self.state}")


def _lives(shards: Sequence[ShardView], *, new: bool) -> list[ReplicaView]:
    """All living replicas of one side."""
    slots = [slot for shard in shards for slot in shard.replicas]
    sides = [slot.new if new else slot.old for slot in slots]
    return [life for life in sides if life is not None]


def _floors(shard: ShardView) -> list[Life]:
    """By slot the lowest life that may attach: the old one where it is alive and held."""
    lives = [slot.old or slot.new for slot in shard.replicas]
    return [*(replica.life for replica in lives if replica is not None), *shard.floors]


def _all_qualify(shards: Sequence[ShardView]) -> bool:
    """Whether every slot has a new life that may act."""
    news = [slot.new for shard in shards for slot in shard.replicas]
    return all(new is not None and new.qualifies for new in news)


def _beyond(shards: Sequence[ShardView], at: int) -> str | None:
    """Which lives have promised a stable beyond `at`, in words; None where there are none."""
    for replica in [*_lives(shards, new=False), *_lives(shards, new=True)]:
        if replica.stable > at:
            return f"replica {replica.life} has promised {format_time(replica.stable)}"
    for merger in [merger for shard in shards for merger in shard.mergers]:
        if merger.stable > at:
            return f"the output of {merger.slot} is stable up to {format_time(merger.stable)}"
    return None
