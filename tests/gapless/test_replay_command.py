"""`gapless chaos replay`: a record is told, replayed and judged, and what is no record refused."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from gapless.chaos.sim.simulator import Simulation
from gapless.failover.merger.machine import Merger
from gapless.failover.recorder.record import encode
from gapless.failover.recorder.recorder import Taken
from gapless.protocol.errors import Bug
from gapless.testing import ReplayFailed, replay
from tests.chaos.sim.flight_records import recorded
from tests.gapless.command import Gapless

SEED = 0


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The record of a merger of a simulated job."""
    with pytest.MonkeyPatch.context() as patch, recorded(patch) as lives:
        simulation = Simulation(SEED)
        simulation.run()
    taken = [(life.process.name, life.taken(simulation)) for life in lives.values()]
    name, longest = max(
        ((name, each) for name, each in taken if each.machine == "Merger"),
        key=lambda named: len(named[1].events),
    )
    path = tmp_path_factory.mktemp("records") / "merger"
    path.write_bytes(encode(longest, name, "alarm: the disk is full", "0.1.0", {}))
    return path


def breaks_at(monkeypatch: pytest.MonkeyPatch, count: int) -> None:
    """Has each merger break an invariant at its so manieth append."""
    on_appended = Merger._on_appended
    calls = 0

    def broken(self: Merger, event: object, now: int) -> object:
        nonlocal calls
        calls += 1
        if calls == count:
            raise Bug("durable rows out of order")
        return on_appended(self, event, now)  # type: ignore[arg-type]  # as it is called

    monkeypatch.setattr(Merger, "_on_appended", broken)


def test_a_record_of_a_life_that_was_well_is_replayed_to_its_end(
    gapless: Gapless, file: Path
) -> None:
    outcome = gapless("chaos", "replay", file)
    assert outcome.code == 0
    first, *_, last = outcome.out.splitlines()
    assert "a Merger" in first
    assert "because of alarm: the disk is full" in first
    assert last.endswith("does not fail")
    assert "because:" in outcome.out
    assert len(replay(file)) > 100


def test_an_error_of_the_machine_is_told_with_the_chain_that_led_to_it(
    gapless: Gapless, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    breaks_at(monkeypatch, 4)
    outcome = gapless("chaos", "replay", file, "--json")
    assert outcome.code == 1
    document = outcome.document
    assert document["error"] == "Bug: durable rows out of order"
    assert document["replayed"] < document["events"]
    causes = "\n".join(document["causes"])
    assert "<- Data" in causes
    assert causes.index("-> Append frame") < causes.index("<- Appended to row")
    assert causes.endswith("raises Bug: durable rows out of order")
    breaks_at(monkeypatch, 4)
    with pytest.raises(ReplayFailed, match="durable rows out of order"):
        replay(file)


def test_the_events_are_shown_alone(gapless: Gapless, file: Path) -> None:
    outcome = gapless("chaos", "replay", file, "--events")
    assert outcome.code == 0
    assert " -> " not in outcome.out
    assert "<- starts" in outcome.out


def test_all_steps_are_shown_where_that_is_asked_for(gapless: Gapless, file: Path) -> None:
    assert "<- starts" not in gapless("chaos", "replay", file).out
    assert "<- starts" in gapless("chaos", "replay", file, "--last", 0).out


def test_what_is_no_whole_record_is_refused_with_what_to_do(
    gapless: Gapless, file: Path, tmp_path: Path
) -> None:
    damaged = tmp_path / "damaged"
    shutil.copy(file, damaged)
    damaged.write_bytes(damaged.read_bytes()[:-1])
    outcome = gapless("chaos", "replay", damaged)
    assert outcome.code == 2
    assert "no whole flight record" in outcome.err
    assert "gapless status JOB --record DIR" in outcome.err
    absent = gapless("chaos", "replay", tmp_path / "absent")
    assert absent.code == 2
    assert "records lie in records/ of a job's directory" in absent.err


def test_a_record_without_an_image_is_refused_and_its_events_are_shown(
    gapless: Gapless, tmp_path: Path
) -> None:
    path = tmp_path / "record"
    path.write_bytes(encode(Taken("Merger", None, "it is large", []), "m0.0/1.1", "?", "0", {}))
    outcome = gapless("chaos", "replay", path)
    assert outcome.code == 2
    assert "it is large" in outcome.err
    assert gapless("chaos", "replay", path, "--events").code == 0
