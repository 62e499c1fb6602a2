"""Time is a fault: what is slow, who stops in the middle of what, and what the world does then."""

from __future__ import annotations

from collections import Counter

import pytest

from gapless.chaos.judge.history import Ended, Struck
from gapless.chaos.sim import work_time as toil
from gapless.chaos.sim.memo import decoding_once
from gapless.chaos.sim.merger_process import MergerProcess
from gapless.chaos.sim.simulator import Simulation
from gapless.chaos.sim.work_time import QUICK, Slow

SEEDS = 40


def ran(seed: int, slow: Slow) -> Simulation:
    simulation = Simulation(seed, slow=slow)
    with decoding_once():
        simulation.run()
    return simulation


def test_many_runs_are_slow_in_each_way_and_most_are_quick() -> None:
    ways = [toil.drawn(seed) for seed in range(1_000)]
    assert 600 < sum(slow == QUICK for slow in ways) < 750
    assert sum(slow.work for slow in ways) > 150
    assert sum(slow.pauses for slow in ways) > 150
    assert sum(slow.disks_ms > 0 for slow in ways) > 150
    assert toil.drawn(3) == toil.drawn(3)


@pytest.mark.parametrize("slow", [Slow(work=True), Slow(disks_ms=900), Slow(pauses=True)])
def test_what_is_slow_is_told_and_the_run_is_clean_and_the_same_again(slow: Slow) -> None:
    simulation = ran(5, slow)
    struck = Counter(f.fault for _, f in simulation.history.facts if type(f) is Struck)
    assert struck["works long"] > 0
    assert simulation.toil is not None
    assert simulation.toil.open == 0
    assert simulation.trace() == ran(5, slow).trace()


def test_processes_stop_between_effects_and_inside_of_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(toil, "PAUSE_ONE_IN", 10)
    inside = between = 0
    for seed in range(6):
        simulation = ran(seed, Slow(pauses=True))
        assert simulation.toil is not None
        stops = sum("in the middle of it (" in str(step[2]) for step in simulation.steps)
        inside, between = inside + stops, between + simulation.toil.stops - stops
    assert inside > 10
    assert between > 10


def test_one_that_is_ended_in_the_middle_of_an_effect_finishes_nothing() -> None:
    simulation = Simulation(0, slow=Slow(pauses=True))
    assert simulation.toil is not None
    wrote: list[str] = []

    def write(process: MergerProcess) -> None:
        simulation.disk.append("a", b"1")
        simulation.at(simulation.now + 1, simulation.cluster.end, process, "crashes")
        simulation.toil._stop(process)  # type: ignore[union-attr]  # as before a write
        wrote.append("b")

    def begin() -> None:
        mergers = [p for p in simulation.cluster.processes.values() if p.life.slot == "m0.0"]
        mergers[0]._in_effect(write, mergers[0])

    simulation.at(300, begin)
    with decoding_once():
        simulation.run()
    assert not wrote
    assert any(
        isinstance(fact, Ended) and fact.how == "crashes" for _, fact in simulation.history.facts
    )


def test_what_breaks_while_somebody_stands_still_does_not_go_through_its_code() -> None:
    simulation = Simulation(0, slow=Slow(pauses=True))

    def breaks() -> None:
        raise ZeroDivisionError

    def catches(process: MergerProcess) -> None:
        simulation.at(simulation.now + 1, breaks)
        try:
            simulation.toil._stop(process)  # type: ignore[union-attr]  # as before a write
        except Exception as e:  # noqa: BLE001  # as code of journals may
            pytest.fail(f"it has caught {e!r}")

    def begin() -> None:
        process = next(p for p in simulation.cluster.processes.values() if p.life.slot == "m0.0")
        process._in_effect(catches, process)

    simulation.at(300, begin)
    with pytest.raises(ZeroDivisionError), decoding_once():
        simulation.run()


def test_nothing_is_slow_once_all_faults_are_over() -> None:
    simulation = Simulation(0, slow=Slow(True, 900, True))
    assert simulation.toil is not None
    process = object()
    assert simulation.strikes.is_over
    assert simulation.toil.disk_ms(process, 7) == 7  # type: ignore[arg-type]  # nobody is asked
