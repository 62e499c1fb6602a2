"""A flight record of a simulated life does again what that life did, event by event."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gapless.chaos.sim.simulator import Simulation
from gapless.failover.machines import Effect
from gapless.failover.messages import Data
from gapless.failover.recorder import recorder as recorders
from gapless.failover.recorder.record import Record
from gapless.failover.recorder.replay import Step, replayed
from gapless.failover.replica.effects import Done, Work
from tests.chaos.sim.flight_records import Recorded, recorded

SEEDS = (0, 2, 3)
FEW = 60
"""Events from one image to the next, in some runs: their records begin in the middle of a life."""


def run(
    seed: int, patch: pytest.MonkeyPatch, image_every: int = recorders.IMAGE_EVERY
) -> tuple[Simulation, list[Recorded]]:
    patch.setattr(recorders, "IMAGE_EVERY", image_every)
    patch.setattr(recorders, "EVENTS_MAX", 2 * image_every)
    patch.setattr(recorders, "BLOCK_EVENTS", image_every // 32)
    with recorded(patch) as lives:
        simulation = Simulation(seed)
        simulation.run()
    return simulation, list(lives.values())


def same(mine: list[Effect], theirs: list[Effect]) -> bool:
    """The same effects; of work beside the machine what it is for, as it is a function."""
    told = [
        [replace(e, do=dict) if isinstance(e, Work) else e for e in es] for es in (mine, theirs)
    ]
    return told[0] == told[1]


def first_other(record: Record, life: Recorded, simulation: Simulation) -> int | None:
    """The first event after which the replayed machine does something else; None: no such."""
    theirs = life.effects[-len(life.recorder.take().events) :]
    steps: list[Step] = []
    for step in replayed(record, simulation.workload.functions):
        steps.append(step)
        if step.error is not None or not same(step.effects, theirs[step.number]):
            return step.number
    return None


@pytest.mark.parametrize("image_every", [recorders.IMAGE_EVERY, FEW])
@pytest.mark.parametrize("seed", SEEDS)
def test_every_life_that_is_replayed_does_what_it_did_after_every_event(
    seed: int, image_every: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    simulation, lives = run(seed, monkeypatch, image_every)
    kinds, later = set(), 0
    for life in lives:
        record = life.record(simulation)
        assert record.image is not None, record.why_no_image
        assert first_other(record, life, simulation) is None
        kinds.add(record.machine)
        later += len(record.events) < len(life.effects)
    assert kinds == {"Replica", "Merger", "Supervisor"}
    assert later == 0 if image_every > FEW else later > 0, "some begin in the middle of a life"


def test_a_record_that_lacks_an_event_or_has_another_time_does_something_else(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    simulation, lives = run(0, monkeypatch)
    merger = max(
        (life for life in lives if life.recorder.take().machine == "Merger"),
        key=lambda life: len(life.effects),
    )
    record = merger.record(simulation)
    at = next(i for i, (event, _) in enumerate(record.events) if isinstance(event, Data))
    lacks = replace(record, events=[*record.events[:at], *record.events[at + 1 :]])
    assert first_other(lacks, merger, simulation) is not None
    late = replace(record, events=[(event, now * 3) for event, now in record.events])
    assert first_other(late, merger, simulation) is not None


def test_work_beside_a_machine_is_done_again_where_its_result_came(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("gapless.failover.replica.draft.STATE_BYTES_MAX", 0)
    monkeypatch.setattr("gapless.failover.replica.initial_state.STATE_BYTES_MAX", 0)
    done = 0
    for seed in SEEDS:
        simulation, lives = run(seed, monkeypatch)
        for life in lives:
            record = life.record(simulation)
            results = [event for event, _ in record.events if isinstance(event, Done)]
            assert all(event.result is None for event in results)
            done += len(results)
            assert first_other(record, life, simulation) is None
    assert done > 0
