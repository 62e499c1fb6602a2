"""Some jobs are drained while their sources go on: they come to an end, and leave nothing out."""

from __future__ import annotations

import pytest

from gapless.chaos.judge.history import Drained, Verdict, Written
from gapless.chaos.sim.memo import decoding_once
from gapless.chaos.sim.midway_drain import SHARE, MidwayDrain
from gapless.chaos.sim.simulator import Simulation
from gapless.protocol.elements import INF

SEEDS = range(600)


def drained() -> list[int]:
    return [seed for seed in SEEDS if MidwayDrain.is_drawn(seed)]


def test_a_small_share_of_the_runs_is_drained_midway() -> None:
    assert 0.5 * SHARE < len(drained()) / len(SEEDS) < 1.5 * SHARE


def test_a_job_that_is_drained_ends_though_its_sources_go_on() -> None:
    ended, said = [], 0
    for seed in drained()[:8]:
        simulation = Simulation(seed)
        with decoding_once():
            verdicts = simulation.run()
        assert simulation.desired.state == "stopped"
        assert not simulation.cluster.left
        assert verdicts["drain"] is not Verdict.BROKEN
        facts = [fact for _, fact in simulation.history.facts]
        ended.append(any(isinstance(f, Written) and f.stable == INF for f in facts))
        said += sum(isinstance(f, Drained) for f in facts)
    assert not all(ended)
    assert said >= 8


def test_a_drain_that_does_not_come_to_its_end_is_a_failure(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("gapless.chaos.sim.midway_drain.PATIENCE_MS", -5_000)
    simulation = Simulation(drained()[0])
    assert isinstance(simulation.drain, MidwayDrain)
    monkeypatch.setattr(type(simulation.strikes), "is_over", property(lambda _: True))
    with pytest.raises(Exception, match="drain: the job is"), decoding_once():
        simulation.run()
