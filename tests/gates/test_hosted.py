"""Hosted checks call targets of the Makefile and nothing else, so that a person runs the same.

A step either uses an action, which prepares the machine or keeps a file, or runs one `make`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
import yaml

from tests.gates.repository import ROOT

WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
MAKEFILE = (ROOT / "Makefile").read_text("utf-8")
COMMAND = re.compile(r"make(?: --no-print-directory)? ([a-z-]+)((?: [A-Z]+=[\w.-]+)*)")
OURS = re.compile(r"actions/[a-z-]+@v\d+")
"""Actions of the host itself: no third party's code runs with the repository's rights."""


def targets(makefile: str) -> set[str]:
    """What `make` alone lists."""
    return set(re.findall(r"^([a-z-]+):.*## ", makefile, re.MULTILINE))


def commands(workflow: Mapping[str, Any]) -> Iterator[str]:
    """Every command that a workflow runs, with each row of its matrix filled in."""
    for job in workflow["jobs"].values():
        rows = job.get("strategy", {}).get("matrix", {}).get("include", [{}])
        for step in job["steps"]:
            for row in rows if "run" in step else ():
                command: str = step["run"]
                for name, value in row.items():
                    command = command.replace("${{ matrix." + name + " }}", value)
                yield command


def unknown(commands: Iterator[str], makefile: str) -> list[str]:
    """Commands that are no `make`, or a target or variable of no Makefile."""
    return [
        command
        for command in commands
        if not (call := COMMAND.fullmatch(command))
        or call[1] not in targets(makefile)
        or any(f"$({name})" not in makefile for name in re.findall(r"([A-Z]+)=", call[2]))
    ]


def load(path: Any) -> Any:
    return yaml.safe_load(path.read_text("utf-8"))


def test_there_are_workflows_for_each_change_for_wheels_and_for_the_night() -> None:
    assert [path.stem for path in WORKFLOWS] == ["check", "nightly", "wheels"]


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_a_workflow_runs_targets_of_the_makefile_only(path: Any) -> None:
    assert list(commands(load(path)))
    assert unknown(commands(load(path)), MAKEFILE) == []


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_a_workflow_uses_actions_of_its_host_only_and_may_only_read(path: Any) -> None:
    workflow = load(path)
    used = [
        step["uses"] for job in workflow["jobs"].values() for step in job["steps"] if "uses" in step
    ]
    assert [action for action in used if not OURS.fullmatch(action)] == []
    assert workflow["permissions"] == {"contents": "read"}
    assert all("timeout-minutes" in job for job in workflow["jobs"].values())


@pytest.mark.parametrize(
    "command", ["pytest", "make tset", "make fuzz SECOND=1", "make test && rm -rf build", "make"]
)
def test_what_no_person_runs_is_caught(command: str) -> None:
    workflow = {"jobs": {"one": {"steps": [{"run": "make test"}, {"run": command}]}}}
    assert unknown(commands(workflow), MAKEFILE) == [command]


def recipe(target: str) -> str:
    """What a target stands on, and the lines that make it."""
    found = re.search(rf"^{target}:([^#\n]*).*\n((?:\t.*\n)+)", MAKEFILE, re.MULTILINE)
    assert found is not None
    return f"{found[1]}\n{found[2]}"


def test_check_runs_every_target_that_a_change_must_pass() -> None:
    beside = "beside-the-wheel"
    lines = recipe("check")
    assert lines.split().count(beside) == 1
    lines += recipe(beside)
    for target in ("lint", "layering", "types", "sanitize", "wheel-smoke", "test"):
        assert lines.split().count(target) == 1
    assert 'MARKS="not cluster" PROFILE=gate' in lines, "the slow tests, and all cases"


def test_every_supported_python_is_checked_and_gets_a_wheel() -> None:
    supported = ["3.11", "3.12", "3.13"]
    assert load(WORKFLOWS[0])["jobs"]["check"]["strategy"]["matrix"]["python"] == supported
    config = (ROOT / "pyproject.toml").read_text("utf-8")
    for version in supported:
        assert f"cp{version.replace('.', '')}-manylinux" in config
        assert f'"Programming Language :: Python :: {version}"' in config


def test_the_night_plays_twenty_thousand_seeds_and_breaks_real_clusters() -> None:
    called = list(commands(load(WORKFLOWS[1])))
    for command in ("make seeds SEEDS=20000", "make test-cluster"):
        assert command in called
    assert {"fuzz", "soak"} <= {COMMAND.fullmatch(command)[1] for command in called}  # type: ignore[index]  # the test above holds that each matches


def test_hooks_before_a_commit_are_targets_of_the_makefile() -> None:
    hooks = [
        hook
        for repository in load(ROOT / ".pre-commit-config.yaml")["repos"]
        for hook in repository["hooks"]
    ]
    assert {hook["id"] for hook in hooks} == {"lint", "layering", "types"}
    assert unknown(iter(hook["entry"] for hook in hooks), MAKEFILE) == []


def test_the_issue_forms_ask_for_what_shows_the_problem() -> None:
    folder = ROOT / ".github" / "ISSUE_TEMPLATE"
    asked = [part["attributes"].get("label", "") for part in load(folder / "bug.yml")["body"]]
    assert any("gapless doctor" in label for label in asked)
    assert (ROOT / ".github" / "pull_request_template.md").read_text("utf-8").count("- [ ]") == 4
