"""`gapless chaos list|run|soak`: what is listed, refused, played and told; no cluster starts."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from gapless.chaos.drill import scenario
from gapless.chaos.drill.drill_process import Wanted
from gapless.chaos.drill.faults.all import FAULTS
from gapless.chaos.drill.outcome import Outcome, Requirement, Strike
from gapless.chaos.drill.scenario import library, loaded
from gapless.commands import chaos_drills
from gapless.protocol.errors import JobError
from tests.gapless.command import Gapless

WHY = "no processes: as root, make some"
MINE = """
about = "Mine."
[[faults]]
fault = "kill merger"
at = 1.0
"""
Played = list[Wanted]


@pytest.fixture(autouse=True)
def here(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A directory of its own, and a machine that can have every fault."""
    monkeypatch.chdir(tmp_path)
    for kind in FAULTS.values():
        monkeypatch.setattr(kind, "why_not", lambda: None)
    return tmp_path


@pytest.fixture
def without_kill_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FAULTS["kill root"], "why_not", lambda: WHY)


def outcome_of(wanted: Wanted, *, lost: int = 0) -> Outcome:
    """What a drill might leave."""
    scenario = wanted.read()
    return Outcome(
        name=scenario.name,
        about=scenario.about,
        seed=scenario.seed,
        began="2026-01-01T00:00:00+00:00",
        seconds=12.3,
        config={},
        versions={},
        strikes=tuple(Strike(each.fault, "r0.1", 1_500, None, "") for each in scenario.faults),
        held=(Requirement("nothing lost", "0", f"{lost} of 9 rows", lost == 0),),
        figures={"longest_pause_ms": 421, "whole_again_s": 0.5},
    )


@pytest.fixture
def drills(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Played]:
    """Puts drills in place of which the named ones lose a row, or leave no verdict; what was played
    is noted.
    """

    def install(*, losing: Sequence[str] = (), dying: Sequence[str] = ()) -> Played:
        played: Played = []

        def run_apart(wanted: Wanted, say: Callable[[str], None]) -> Outcome:
            played.append(wanted)
            say("the job is whole")
            name = Path(wanted.folder).name
            if name in dying:
                raise JobError("the drill has left no verdict")
            return outcome_of(wanted, lost=int(name in losing))

        monkeypatch.setattr("gapless.chaos.drill.drill_process.run_apart", run_apart)
        return played

    return install


# -- list -----------------------------------------------------------------------------------------


def test_all_scenarios_are_listed_with_what_they_are_about(gapless: Gapless) -> None:
    outcome = gapless("chaos", "list")
    assert outcome.code == 0
    for name in library():
        (line,) = [line for line in outcome.out.splitlines() if line.startswith(f"{name} ")]
        assert loaded(name).about in line
    assert "not here" not in outcome.out
    document = gapless("chaos", "list", "--json").document
    assert [each["name"] for each in document] == list(library())
    (soak,) = [each for each in document if each["name"] == "soak"]
    assert soak["faults"] == ["at random"]


def test_all_faults_are_listed_with_their_settings(gapless: Gapless) -> None:
    document = gapless("chaos", "list", "--faults", "--json").document
    assert [each["name"] for each in document] == list(FAULTS)
    (lose,) = [each for each in document if each["name"] == "lose frames"]
    assert (lose["settings"], lose["lasts"], lose["here"]) == ({"share": 0.2}, 4.0, True)
    assert lose["target"] == "merger, m*"


def test_each_fault_is_told_with_its_target_its_length_and_its_settings(gapless: Gapless) -> None:
    lines = gapless("chaos", "list", "--faults").out.splitlines()
    width = max(map(len, FAULTS))
    for name, kind in FAULTS.items():
        at = lines.index(f"{name:<{width}} {kind.about}")
        told = [
            *([f"target: {kind.targets_in_words()}"] if kind.targets_in_words() else []),
            *([] if kind.lasts is None else [f"lasts {kind.lasts:g} s"]),
            *(f"{setting} = {value}" for setting, value in kind.settings.items()),
        ]
        if told:
            assert lines[at + 1].strip() == ", ".join(told)
    slow = lines[[line.startswith("slow disk") for line in lines].index(True) + 1]
    assert slow.strip() == "target: replica, merger, r*, m*, root, *, lasts 4 s, ms = 200.0"


@pytest.mark.usefixtures("without_kill_root")
def test_what_this_machine_cannot_have_is_listed_as_not_here(gapless: Gapless) -> None:
    faults = gapless("chaos", "list", "--faults", "--json").document
    assert {each["name"]: each["why_not"] for each in faults if not each["here"]} == {
        "kill root": WHY
    }
    scenarios = gapless("chaos", "list", "--json").document
    assert {each["name"]: each["why_not"] for each in scenarios if not each["here"]} == {
        "kill-root": WHY,
        "soak": WHY,
    }
    for arguments in (["chaos", "list"], ["chaos", "list", "--faults"]):
        assert f"(not here: {WHY})" in gapless(*arguments).out.replace("\n", "")


# -- what is refused ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["run"], "name scenarios (see `gapless chaos list`), or use --all"),
        (["run", "kill-root", "--all"], "name scenarios (see `gapless chaos list`), or use --all"),
        (["run", "kill-everyone"], "there is no scenario 'kill-everyone', and no such file"),
        (["run", "kill-root", "kill-everyone"], "there is no scenario 'kill-everyone'"),
        (["run", "kill-root", "kill-root"], "two scenarios are called kill-root"),
        (["run", "mine.toml", "below/mine.toml"], "two scenarios are called mine"),
        (["run", "bad.toml"], "kill merger: at = -1: from 0"),
        (["run", "kill-root", "--broken", "nothing"], "there is no broken build 'nothing'"),
        (["run", "kill-root", "--out", "full"], "it is not empty"),
        (["run", "kill-root", "--out", "mine.toml"], "it is not empty"),
        (["run", "kill-root", "--seed", "-1"], "--seed"),
        (["run", "kill-root", "--minutes", "3"], "--minutes"),
        (["soak", "--scenario", "kill-root"], "has no [random] faults, so it does not last"),
        (["soak", "--scenario", "kill-everyone"], "there is no scenario 'kill-everyone'"),
        (["soak", "--minutes", "0.5"], "--minutes"),
        (["soak", "--minutes", "nan"], "--minutes"),
        (["soak", "--minutes", "100000"], "--minutes"),
        (["soak", "kill-root"], "unexpected extra argument"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_starts(
    arguments: list[str],
    said: str,
    here: Path,
    gapless: Gapless,
    drills: Callable[..., Played],
) -> None:
    (here / "mine.toml").write_text(MINE)
    (here / "below").mkdir()
    (here / "below" / "mine.toml").write_text(MINE)
    (here / "bad.toml").write_text(MINE.replace("1.0", "-1"))
    (here / "full").mkdir()
    (here / "full" / "file").write_text("x")
    before = sorted(here.rglob("*"))
    played = drills()
    outcome = gapless("chaos", *arguments)
    assert outcome.code == 2
    assert said in outcome.err.replace("\n", " ")
    assert outcome.out == ""
    assert played == []
    assert sorted(here.rglob("*")) == before


@pytest.mark.usefixtures("without_kill_root")
def test_a_scenario_that_this_machine_cannot_play_is_refused_with_what_it_can(
    here: Path, gapless: Gapless, drills: Callable[..., Played]
) -> None:
    played = drills()
    outcome = gapless("chaos", "run", "kill-merger", "kill-root")
    assert outcome.code == 2
    assert f"this machine cannot have 'kill root': {WHY}. It can have: kill replica" in outcome.err
    assert (played, list(here.iterdir())) == ([], [])


# -- what is played -------------------------------------------------------------------------------


def test_named_scenarios_and_files_are_played_in_turn(
    here: Path, gapless: Gapless, drills: Callable[..., Played]
) -> None:
    (here / "mine.toml").write_text(MINE)
    (here / "kill-root").write_text("a file that is called like a scenario")
    played = drills()
    run = ["chaos", "run", "kill-root", "mine.toml", "--out", "there"]
    outcome = gapless(*run, "--seed", "5", "--broken", "skips-gaps")
    assert outcome.code == 0
    assert played == [
        Wanted("kill-root", str(here / "there" / "kill-root"), 5, "skips gaps"),
        Wanted(str(here / "mine.toml"), str(here / "there" / "mine"), 5, "skips gaps"),
    ]
    assert "  the job is whole" in outcome.err
    told = "1 faults, 12 s, longest pause 421 ms, whole again in 0.5 s"
    assert outcome.out.splitlines() == [
        f"{'clean':<10} {'kill-root':<26} {told}",
        f"{'clean':<10} {'mine':<26} {told}",
        "2 of 2 scenarios clean; 2 faults of 2 kinds; 0 not run",
        f"reports: {here / 'there' / 'index.html'}",
    ]
    assert (here / "there" / "index.html").is_file()


def test_without_a_folder_the_time_names_one(
    here: Path, gapless: Gapless, drills: Callable[..., Played]
) -> None:
    played = drills()
    assert gapless("chaos", "run", "kill-root").code == 0
    (folder,) = (here / "chaos-runs").iterdir()
    assert [wanted.folder for wanted in played] == [str(folder / "kill-root")]


def test_what_did_not_hold_is_told_and_exits_with_1(
    gapless: Gapless, drills: Callable[..., Played]
) -> None:
    drills(losing=["kill-merger"])
    outcome = gapless("chaos", "run", "kill-root", "kill-merger")
    assert outcome.code == 1
    assert "NOT CLEAN  kill-merger " in outcome.out
    assert "           NOT  nothing lost: 1 of 9 rows (wanted: 0)\n" in outcome.out
    assert "1 of 2 scenarios clean" in outcome.out


def test_a_drill_that_leaves_no_verdict_is_not_clean_and_keeps_no_other_from_being_played(
    here: Path, gapless: Gapless, drills: Callable[..., Played]
) -> None:
    played = drills(dying=["kill-root"])
    outcome = gapless("chaos", "run", "kill-root", "kill-merger", "--out", "there")
    assert outcome.code == 1
    assert len(played) == 2
    assert "NOT CLEAN  kill-root " in outcome.out
    assert "           the drill has left no verdict\n" in outcome.out
    index = json.loads((here / "there" / "index.json").read_text())
    assert [run["is_well"] for run in index["runs"]] == [False, True]


@pytest.mark.usefixtures("without_kill_root")
def test_all_is_all_that_this_machine_can_have_and_the_rest_is_listed_as_not_run(
    gapless: Gapless, drills: Callable[..., Played]
) -> None:
    played = drills()
    outcome = gapless("chaos", "run", "--all")
    assert outcome.code == 0
    here = [name for name in library() if name not in {"kill-root", "soak"}]
    assert [wanted.scenario for wanted in played] == here
    assert f"{'not run':<10} {'kill-root':<26} {WHY}" in outcome.out
    assert f"{len(here)} of {len(here)} scenarios clean" in outcome.out
    assert outcome.out.splitlines()[-2].endswith("; 2 not run")


def test_a_run_as_json(gapless: Gapless, drills: Callable[..., Played]) -> None:
    drills(losing=["kill-merger"])
    document = gapless("chaos", "run", "kill-root", "kill-merger", "--json").document
    assert document["is_well"] is False
    assert document["kinds"] == ["kill merger", "kill root"]
    assert document["not_run"] == {}
    assert [run["is_well"] for run in document["runs"]] == [True, False]
    assert document["runs"][1]["held"][0]["found"] == "1 of 9 rows"


def test_a_soak_lasts_as_long_as_is_said(
    here: Path, gapless: Gapless, drills: Callable[..., Played]
) -> None:
    played = drills()
    assert gapless("chaos", "soak", "--out", "there").code == 0
    assert gapless("chaos", "soak", "--minutes", "2", "--seed", "3", "--out", "too").code == 0
    assert [(wanted.scenario, wanted.minutes, wanted.seed) for wanted in played] == [
        ("soak", 30.0, None),
        ("soak", 2.0, 3),
    ]
    drawn = played[1].read().random
    assert drawn is not None
    assert (drawn.minutes, drawn.count) == (2.0, 0)
    assert replace(played[1].read(), random=None).seed == 3
    assert (here / "too" / "index.html").is_file()


def test_an_interrupt_ends_the_run_and_what_was_played_is_kept(
    here: Path, gapless: Gapless, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run_apart(wanted: Wanted, say: Callable[[str], None]) -> Outcome:
        say("the job is whole")
        if wanted.scenario == "kill-merger":
            raise KeyboardInterrupt
        return outcome_of(wanted)

    monkeypatch.setattr("gapless.chaos.drill.drill_process.run_apart", run_apart)
    outcome = gapless("chaos", "run", "kill-root", "kill-merger", "kill-node", "--out", "there")
    assert outcome.code == 2
    assert "interrupted: everything it started has been ended" in outcome.err
    index = json.loads((here / "there" / "index.json").read_text())
    assert [run["folder"] for run in index["runs"]] == ["kill-root"]


def test_a_soak_takes_the_minutes_that_a_scenario_may_say() -> None:
    ours = chaos_drills.MINUTES_MIN, chaos_drills.MINUTES_MAX
    assert ours == (scenario.MINUTES_MIN, scenario.MINUTES_MAX)
