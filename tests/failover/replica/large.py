"""A replica to which all that is large is so from a few rows on."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import patch

from gapless.engine.plan import Plan
from gapless.failover import fold as fold_module
from gapless.failover import parts
from gapless.failover.effects import Start
from gapless.failover.messages import Ack, Life
from gapless.failover.replica import draft, initial_state, snapshots
from gapless.failover.replica.effects import Done, ReadSource, ReplicaEffect, SourceRead, Work
from gapless.failover.replica.executor import Executor
from gapless.failover.replica.machine import Replica
from gapless.failover.timing import Timing
from gapless.protocol.elements import BEGIN
from gapless.protocol.envelope import Incarnation
from gapless.protocol.frame import Frame
from gapless.protocol.text import parse
from tests.failover.replicas import LIFE, MERGERS, flows, started_with

T = Timing()

FIRST, SECOND = MERGERS

LATEST = Plan(flows().latest_by("src"))

SOURCE = LATEST.query.sources["flows"].schema

PEER = Life("r0.1", Incarnation(3, 2))


@contextmanager
def small(rows: int = 4) -> Iterator[None]:
    """All that is large is so from a few rows on."""
    with (
        patch.object(parts, "ROWS_MAX", rows),
        patch.object(fold_module, "SHARE_ROWS", rows),
        patch.object(initial_state, "STATE_BYTES_MAX", 0),
        patch.object(draft, "STATE_BYTES_MAX", 0),
        patch.object(snapshots, "MESSAGE_BYTES_MAX", 0),
    ):
        yield


def started(*, mergers: tuple[str, ...] = (FIRST,)) -> Replica:
    machine = Replica(LIFE, started_with(mergers=mergers), Executor("plan", LATEST), T)
    machine.on(Start(), 0)
    return machine


def keys(first: int, count: int, at: int) -> SourceRead:
    """A read of rows of new keys: each of them lives for ever."""
    rows = [f"ins(({at},k{i},1),{at},{at + 1})" for i in range(first, first + count)]
    elements = parse(" ".join([*rows, f"stable({at})"]), SOURCE)
    return SourceRead("flows", Frame.from_elements(SOURCE, elements), {0: at})


def ack(machine: Replica, sequence: int, durable: int = BEGIN, merger: str = FIRST) -> Ack:
    session = machine.output.links[merger].session
    assert session is not None
    return Ack(session, 1, sequence, durable, durable)


def reads(effects: list[ReplicaEffect]) -> bool:
    return any(isinstance(effect, ReadSource) for effect in effects)


def waits(machine: Replica) -> bool:
    """Whether it waits for a state; a call, as the type checker believes a property for good."""
    return machine.is_joining


def works(effects: list[ReplicaEffect]) -> list[Work]:
    return [effect for effect in effects if isinstance(effect, Work)]


def filled() -> Replica:
    machine = started()
    machine.on(ack(machine, 0), 0)
    for i in range(1, 4):
        machine.on(keys(5 * i, 5, i), i)
        machine.on(ack(machine, i, i - 1), i)
    return machine


def done(machine: Replica, effects: list[ReplicaEffect], now: int) -> list[ReplicaEffect]:
    """Does all that is to be done beside a machine, and what comes of that; all other effects."""
    told: list[ReplicaEffect] = []
    while effects:
        effect = effects.pop(0)
        if isinstance(effect, Work):
            effects += machine.on(Done(effect.number, effect.do()), now)
        else:
            told.append(effect)
    return told
