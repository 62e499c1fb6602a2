"""A replica over a bad network: each of its mergers ends with exactly the plan's table."""

from __future__ import annotations

import pytest

from gapless.failover.replica import intake, tail
from gapless.failover.replica import output_sender as sending
from gapless.failover.replica.link import Link
from gapless.failover.replica.machine import Replica
from gapless.failover.replica.output_sender import OutputSender
from gapless.protocol.errors import GaplessError
from gapless.protocol.frame import Frame
from tests.failover.replicas import PLANS, Faults, World

SEEDS = 4
CALM_TICKS = 120
"""Long enough to say all again that got lost."""


def difference(
    seed: int, plan: str, replica: type[Replica] = Replica, calm: int = CALM_TICKS
) -> str:
    """How a run of a seed ends wrong; empty where it does not."""
    made = PLANS[plan]()
    world = World(seed, made, Faults(), replica)
    try:
        world.run(calm=calm)
    except GaplessError as e:
        return f"{type(e).__name__}: {e}"
    wanted = world.truth
    for receiver in world.receivers.values():
        if receiver.durable.stable != wanted.stable or receiver.durable != wanted:
            return f"{receiver.slot}: {receiver.durable.difference(wanted)}"
    return ""


@pytest.mark.parametrize("plan", PLANS)
def test_both_mergers_end_with_the_table_whatever_the_network_does(plan: str) -> None:
    for seed in range(SEEDS):
        wrong = difference(seed, plan)
        assert not wrong, f"seed {seed}: {wrong}"


@pytest.mark.parametrize("plan", PLANS)
def test_so_they_do_where_the_tail_is_folded_all_the_time(
    plan: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tail, "FOLD_ROWS_MIN", 4)
    monkeypatch.setattr(sending, "KEPT_FRAMES_MAX", 1)
    for seed in range(SEEDS):
        wrong = difference(seed, plan)
        assert not wrong, f"seed {seed}: {wrong}"


def test_and_where_there_is_hardly_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(intake, "TAIL_ROWS_MAX", 25)
    for seed in range(SEEDS):
        wrong = difference(seed, "counting", calm=5 * CALM_TICKS)  # it reads a little at a time
        assert not wrong, f"seed {seed}: {wrong}"


class TrimsByWhatWasSent(Replica):
    """Forgets what has arrived, durable or not."""

    class OUTPUT(OutputSender):
        def trim_to(self) -> int:
            return self.tail.stable


class TrimsByTheFastest(Replica):
    """Asks the wrong one of its mergers."""

    class OUTPUT(OutputSender):
        def trim_to(self) -> int:
            return max(link.durable for link in self.links)


class ForwardsByTheFastest(Replica):
    """Does not make what another merger still needs."""

    class OUTPUT(OutputSender):
        def forward_to(self) -> int:
            return max(link.feedback for link in self.links)


class ForgetsItsTail(Replica):
    """Attaches again without what the merger may lack."""

    class OUTPUT(OutputSender):
        def retell(self) -> list[Frame]:
            return [super().retell()[-1].slice(0, 0, self.tail.fold().stable)]


class NeverLosesItsPlace(Replica):
    """Sends on where frames in between are gone."""

    class OUTPUT(OutputSender):
        def _has_place(self, link: Link) -> bool:
            link.cursor = max(link.cursor, self.tail.first)
            return True


BROKEN = [
    TrimsByWhatWasSent,
    TrimsByTheFastest,
    ForwardsByTheFastest,
    ForgetsItsTail,
    NeverLosesItsPlace,
]


@pytest.mark.parametrize("broken", BROKEN)
def test_a_broken_replica_is_caught(broken: type[Replica], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tail, "FOLD_ROWS_MIN", 4)
    monkeypatch.setattr(sending, "KEPT_FRAMES_MAX", 1)
    assert any(difference(seed, "early", broken) for seed in range(20))
