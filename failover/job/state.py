"""The job's state, as people and checkers see it: what the supervisor knows, made to be shown.

job     its term, how far its end or a cutover is, which mergers are assigned and awaited
slot    its life, the state of that, how far it is, why it is suspected or empty
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from gapless.failover.messages import Life
from gapless.failover.statuses import NOT_YET, DivergenceReport, Rejoin
from gapless.failover.supervisor.slots import Shard, Slot
from gapless.protocol.elements import BEGIN, INF


@dataclass(frozen=True, slots=True)
class SlotState:
    """A slot, as people and checkers see it."""

    slot: str
    state: str
    """Of its current life where it has one, else "empty" or "failed"."""
    life: Life | None
    node: str
    plan: str
    reason: str
    """Why it is suspected, empty or failed."""
    successor: Life | None
    stable: int = BEGIN
    lag: int = 0
    """How far it is behind the best of its shard, in event time; 0 where that is not known."""
    lead_share: float = 0.0
    """Of the times that the mergers' outputs were advanced, the share that it was by this one."""
    jumped_ms: int = 0
    """Stream time that it has skipped, as others had settled it."""
    origin: str = ""
    """What it began with."""
    rejoin: Rejoin = NOT_YET
    """How soon it was back, as it says itself."""
    aside_rows: int = 0
    """Rows that its plan could not process, and set aside, in this life."""
    qualified_ms: int = -1
    """How soon, since it was started, it could carry the output; -1 while it cannot."""
    failures: int = 0
    """Of its lives, consecutively: see failover/backoff.py."""
    last_failure: str = ""
    """Why its last life ended; empty where none has."""
    heard_ms: int = -1
    """How long ago it was heard last; -1 where it has no life."""
    durable_stable: int = BEGIN
    """Of a merger, as all below."""
    epoch: int = 0
    divergences: int = 0
    waiting_for: str = ""
    """Why its output cannot advance; empty where it can."""
    inputs: int = 0


def shown(slot: Slot, shard: Shard, now: int) -> SlotState:
    """What people see of a slot."""
    life, beside = slot.current, slot.successor
    state = SlotState(
        slot=slot.name,
        state=slot.shown,
        life=life.life if life else None,
        node=life.node if life else "",
        plan=life.plan if life else "",
        reason=life.suspicion if life else slot.reason,
        successor=beside.life if beside else None,
        failures=slot.backoff.failures,
        last_failure=slot.last_failure,
    )
    if life is None:
        return state
    state = replace(state, heard_ms=max(0, now - life.heard_at), qualified_ms=life.qualified_ms)
    if life.replica is not None:
        said, total = life.replica, sum(led for _, led in shard.leads())
        mine = sum(led for who, led in shard.leads() if who == life.life)
        is_known = BEGIN < life.stable <= shard.best < INF
        return replace(
            state,
            stable=life.stable,
            lag=shard.best - life.stable if is_known else 0,
            lead_share=mine / total if total else 0.0,
            jumped_ms=said.jumped_ms,
            origin=said.origin,
            rejoin=said.rejoin,
            aside_rows=said.aside_rows,
        )
    if life.merger is not None:
        status = life.merger
        reason = state.reason
        if slot.name not in shard.awaited:
            reason = "no replica waits for it until it has caught up"
        return replace(
            state,
            reason=reason,
            stable=status.stable,
            durable_stable=status.durable_stable,
            epoch=status.epoch,
            divergences=status.divergences,
            waiting_for=status.waiting_for or "",
            inputs=len(status.inputs),
        )
    return state


@dataclass(frozen=True, slots=True)
class JobState:
    """The job, as people and checkers see it."""

    term: int
    is_adopting: bool
    """Whether the supervisor still listens for lives of one before it, and starts nothing."""
    ending: str
    """How far its end is: see failover/supervisor/shutdown.py."""
    cutover: str
    """How far a cutover is (failover/supervisor/cutover.py); empty where there is none."""
    assigned: tuple[tuple[str, ...], ...]
    """By shard, the mergers that replicas send to."""
    slots: tuple[SlotState, ...]
    ended_because: str = ""
    """Why it ends, or has ended; empty while it runs."""
    samples: tuple[DivergenceReport, ...] = ()
    """The newest divergences that each merger has reported."""
    best: tuple[int, ...] = ()
    """By shard, the farthest stable that any replica has promised."""
    awaited: tuple[tuple[str, ...], ...] = ()
    """By shard, those of the assigned mergers that the replicas wait for."""
