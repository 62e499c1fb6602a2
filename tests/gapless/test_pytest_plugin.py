"""The pytest plugin, as users have it: pytest runs a file of theirs in a process of its own."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from importlib.metadata import entry_points
from pathlib import Path

import pytest

from gapless import pytest_plugin
from gapless.chaos.sim import simulation as simulating

QUERY = """
import pyarrow as pa
import gapless as gl

flows = gl.source("flows", {"ts": "timestamp[ms]", "len": "int64"}, time="ts", lateness="2s")
total = flows.window(range="4s", slide="1s").aggregate(bytes=gl.sum("len"))
seen = set()

def is_new(lengths):
    fresh = [length not in seen for length in lengths.to_pylist()]
    seen.update(lengths.to_pylist())
    return pa.array(fresh)

new = flows.where(gl.function(is_new, "len", returns="bool"))

def rows():
    ts = pa.array(range(0, 12_000, 200), pa.timestamp("ms"))
    return pa.table({"ts": ts, "len": [n % 5 for n in range(60)]})
"""
TESTS = """
import pytest
from query import new, rows, total

def test_clean(simulate):
    print("seeds:", simulate(total, rows(), seeds=7).seeds)

def test_bug(simulate):
    simulate(new, rows())

def test_on_ray(drill):
    drill(total, rows())

@pytest.mark.parametrize("fault", ["kil replica"])
def test_refused(drill, fault):
    drill(total, rows(), faults=[fault])
"""
OWN = """
import pytest

@pytest.fixture
def drill():
    return "mine"

def test_mine(drill):
    assert drill == "mine"
"""
LIGHT = """
import sys
import pytest

HEAVY = {"pyarrow", "numpy", "pandas", "ray", "grpc"}

def test_nothing_is_loaded():
    assert "gapless.pytest_plugin" in sys.modules
    assert not HEAVY & set(sys.modules)

def test_ray_is_not_loaded_for_the_simulator(simulate):
    assert "pyarrow" in sys.modules
    assert "ray" not in sys.modules
"""
Run = Callable[..., str]
SECONDS = 120
"""Within which a run has to end, on the busiest machine."""


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Runs pytest over files of a user's, and gives what it prints."""

    def run(*options: str, **files: str) -> str:
        for name, text in files.items():
            (tmp_path / f"{name}.py").write_text(text)
        (tmp_path / "pytest.ini").write_text("[pytest]\naddopts = --strict-markers\n")
        done = subprocess.run(
            [
                sys.executable,
                "-m",
                "pytest",
                "-p",
                "no:cacheprovider",
                "--strict-markers",
                *options,
            ],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )
        return done.stdout + done.stderr

    return run


def test_pytest_finds_it_by_itself() -> None:
    found = [each.value for each in entry_points(group="pytest11") if each.name == "gapless"]
    assert found == ["gapless.pytest_plugin"], "an older install: `make install` renews it"


def test_its_number_of_seeds_is_that_of_the_function() -> None:
    assert pytest_plugin.SEEDS == simulating.SEEDS


def test_it_loads_nothing_before_a_fixture_is_used(run: Run) -> None:
    assert "2 passed" in run("-q", test_light=LIGHT)


def told(out: str) -> list[str]:
    """The lines in which pytest says what was raised."""
    return [line.removeprefix("E").strip() for line in out.splitlines() if line.startswith("E  ")]


def test_a_failure_is_told_whole_and_its_command_plays_it_again(run: Run) -> None:
    deselect = "--deselect=test_it.py::test_on_ray"
    out = run("-q", "-rA", deselect, "--gapless-seeds=2", query=QUERY, test_it=TESTS)
    assert "2 failed, 1 passed, 1 deselected" in out
    assert "seeds: 2" in out  # the command line goes before the call
    *lines, refused = told(out)
    assert "Misuse: there is no fault 'kil replica'; there are: kill replica" in refused
    assert lines[0].startswith("gapless.chaos.failed.SimulationFailed: seed 0: the output of")
    assert "because:" in lines
    assert "where query:is_new(len): query:is_new(len) is a function of yours" in out
    again = re.fullmatch(r'or: pytest "(.*)" (--gapless-seed \d+ --gapless-faults \d+)', lines[-1])
    assert again is not None
    assert again[1] == "test_it.py::test_bug"
    replayed = run("-q", again[1], *again[2].split())
    assert told(replayed) == lines
    assert "simulation.py" not in replayed  # it is told where the user's test stands


def test_tests_on_ray_are_marked_and_those_with_a_fixture_of_their_own_are_not(run: Run) -> None:
    files = {"query": QUERY, "test_it": TESTS, "test_own": OWN}
    out = run("-q", "--collect-only", "-m", "gapless_ray", **files)
    assert re.findall(r"::(\w+)", out) == ["test_on_ray", "test_refused"]


@pytest.mark.parametrize(
    ("options", "ini", "why"),
    [
        (["--gapless-seeds=0"], "", "invalid whole number of 1 or more value: '0'"),
        (["--gapless-seed=-1"], "", "invalid whole number of 0 or more value: '-1'"),
        (["--gapless-faults=2"], "", "--gapless-faults needs --gapless-seed"),
        ([], "gapless_seeds = many", "gapless_seeds = many: a whole number of 1 or more"),
    ],
)
def test_options_that_mean_nothing_are_refused(
    run: Run, tmp_path: Path, options: list[str], ini: str, why: str
) -> None:
    (tmp_path / "own.ini").write_text(f"[pytest]\n{ini}\n")
    assert why in run("-q", "-c", "own.ini", *options)


def test_the_command_line_goes_before_the_ini_file() -> None:
    assert pytest_plugin.seeds_said(None, "") == pytest_plugin.SEEDS
    assert pytest_plugin.seeds_said(None, "4") == 4
    assert pytest_plugin.seeds_said(1, "4") == 1
    assert pytest_plugin.reports_said(None, []) is None
    assert pytest_plugin.reports_said(None, [Path("written")]) == Path("written")
    assert pytest_plugin.reports_said("said", [Path("written")]) == Path("said")


def test_each_test_has_a_folder_among_the_reports() -> None:
    nodes = ["tests/test_a.py::test_it[kill replica]", "tests/test_a.py::test_it[kill merger]"]
    folders = [pytest_plugin.folder_in(Path("reports"), node) for node in nodes]
    assert folders[0] == Path("reports/tests-test_a.py-test_it-kill-replica")
    assert len(set(folders)) == 2
