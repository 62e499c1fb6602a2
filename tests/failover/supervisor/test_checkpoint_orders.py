"""Orders for checkpoints: who takes one, when, and which are kept."""

from __future__ import annotations

from itertools import pairwise

import pytest

from gapless.failover.effects import Send, Start, Tick
from gapless.failover.job.desired import Desired
from gapless.failover.messages import TakeCheckpoint
from gapless.failover.replica.snapshots import MESSAGE_BYTES_MAX
from gapless.failover.statuses import CheckpointTaken, InputStatus, MergerStatus, ReplicaStatus
from gapless.failover.supervisor import checkpoint_policy
from gapless.failover.supervisor.checkpoint_policy import (
    BYTES_A_SECOND,
    SPARED_MAX,
    CheckpointInfo,
)
from gapless.failover.supervisor.effects import Died, Spawn
from gapless.failover.supervisor.machine import Supervisor
from gapless.protocol.elements import INF
from tests.failover.supervised import whole
from tests.failover.supervised_lives import TIMING


def test_checkpoints_are_taken_by_who_does_not_lead_and_few_are_kept() -> None:
    world = whole()
    world.run(4_000)
    assert 2 <= len(world.kept) <= 3
    assert max(info.join_at for info in world.kept) > world.now - 3 * TIMING.checkpoint_ms


def asked_for_checkpoints(others: int, until: int) -> list[int]:
    """When who leads is asked for one, after all others have died and while they come back."""
    supervisor = Supervisor(1, Desired(1 + others, ("p",)), (), ("n1",), TIMING)
    merger, leader, *rest = [e.life for e in supervisor.on(Start(), 0) if isinstance(e, Spawn)]
    asked = []
    for now in range(1, until, TIMING.heartbeat_ms):
        status = ReplicaStatus(leader, "p", 0, 100 + now, 2**20, 0, False, False, INF)
        inputs = (InputStatus(leader, 100, True),)
        told = MergerStatus(merger, 1, 90 + now, 80 + now, inputs, None, 0, False)
        effects = [*supervisor.on(status, now), *supervisor.on(told, now)]
        for life in rest if now == 1 else ():
            effects += supervisor.on(Died(life, "crashed"), now)
        effects += supervisor.on(Tick(), now)
        sends = [e for e in effects if isinstance(e, Send) and e.to == str(leader)]
        asked += [now for e in sends if isinstance(e.message, TakeCheckpoint)]
    return asked


def test_who_leads_takes_no_checkpoint_while_another_is_on_its_way_but_not_for_ever() -> None:
    wait = TIMING.checkpoint_ms
    [first, *_] = asked_for_checkpoints(0, 3 * wait)
    assert first < 2 * wait
    [late, *_] = asked_for_checkpoints(1, (SPARED_MAX + 4) * wait)
    assert SPARED_MAX * wait <= late - wait <= (SPARED_MAX + 1) * wait


def who_is_asked(nbytes: int, until: int, *, dies: bool, returns: bool = False) -> list[int]:
    """When one of three replicas is asked for a checkpoint, the newest of which is that large.
    One of them dies; what `returns` in its place runs, and no merger lets it act yet.
    """
    known = (CheckpointInfo("0-p-0-1", 0, "p", 50, nbytes),)
    supervisor = Supervisor(1, Desired(3, ("p",)), known, ("n1",), TIMING)
    merger, *lives = [e.life for e in supervisor.on(Start(), 0) if isinstance(e, Spawn)]
    asked, late = [], None
    for now in range(1, until, TIMING.heartbeat_ms):
        inputs = tuple(InputStatus(life, 100, life != late) for life in lives)
        effects = supervisor.on(
            MergerStatus(merger, 1, 90 + now, 80 + now, inputs, None, 0, False), now
        )
        for i, life in enumerate(lives[:2] if dies and now > 1 and late is None else lives):
            status = ReplicaStatus(life, "p", 0, 100 + now + i, 2**20, 0, False, False, INF)
            effects += supervisor.on(status, now)
        if dies and now == 1 + TIMING.heartbeat_ms:
            effects += supervisor.on(Died(lives[2], "crashed"), now)
        effects += supervisor.on(Tick(), now)
        spawned = [e.life for e in effects if isinstance(e, Spawn)]
        if returns and spawned and late is None:
            [late] = lives[2:] = spawned
        for send in effects:
            if isinstance(send, Send) and isinstance(send.message, TakeCheckpoint):
                asked.append(now)
                taken = CheckpointTaken(lives[0], send.message.name, "p", 60, "", nbytes)
                supervisor.on(taken, now)
    return asked


def test_the_larger_a_checkpoint_the_less_often_one_is_taken() -> None:
    wait = TIMING.checkpoint_ms
    as_large = BYTES_A_SECOND * wait // 1000
    often = who_is_asked(as_large, 12 * wait, dies=False)
    rare = who_is_asked(3 * as_large, 12 * wait, dies=False)
    assert {(b - a) // wait for a, b in pairwise(often)} == {1}
    assert {(b - a) // wait for a, b in pairwise(rare)} == {3}


def test_nobody_takes_a_large_checkpoint_while_another_is_on_its_way_but_not_for_ever(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(checkpoint_policy, "BYTES_A_SECOND", INF)  # else its size makes it rare
    wait = TIMING.checkpoint_ms
    until = (SPARED_MAX + 4) * wait
    small, *_ = who_is_asked(MESSAGE_BYTES_MAX, until, dies=True)
    large, *_ = who_is_asked(MESSAGE_BYTES_MAX + 1, until, dies=True)
    catching_up, *_ = who_is_asked(MESSAGE_BYTES_MAX + 1, until, dies=True, returns=True)
    assert small < 2 * wait
    for late in (large, catching_up):
        assert SPARED_MAX * wait <= late - wait <= (SPARED_MAX + 1) * wait
