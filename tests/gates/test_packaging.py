"""What is installed is pinned, and nothing in the repository depends on one machine."""

from __future__ import annotations

import re
import tomllib

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.gates.repository import ROOT, files

PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
PIN = re.compile(r"[A-Za-z0-9._-]+==[0-9][A-Za-z0-9.+]*")

OF_ONE_MACHINE = re.compile(
    r"/(?:root|work)/|/(?:home|Users)/\w|file://|--(?:extra-)?index.url|--find.links|/simple\b"
)
"""Paths of a person's machine, and places that only some networks have."""


def _lines() -> list[str]:
    text = (ROOT / "constraints.txt").read_text("utf-8")
    return [line for line in text.splitlines() if line and not line.startswith("#")]


def _pins() -> dict[str, str]:
    pairs = (line.split("==") for line in _lines())
    return {canonicalize_name(name): version for name, version in pairs}


def _requirements() -> list[str]:
    """All that pyproject.toml asks for: to build, to run, to develop, to fuzz."""
    groups = PYPROJECT["dependency-groups"].values()
    asked = [*PYPROJECT["build-system"]["requires"], *PYPROJECT["project"]["dependencies"]]
    return sorted({*asked, *(line for group in groups for line in group)})


def test_constraints_are_names_and_versions_in_order() -> None:
    lines = _lines()
    assert [line for line in lines if not PIN.fullmatch(line)] == []
    assert lines == sorted(lines, key=lambda line: canonicalize_name(line.split("==")[0]))


@pytest.mark.parametrize("asked", _requirements())
def test_what_we_ask_for_is_pinned_at_a_version_that_we_accept(asked: str) -> None:
    requirement = Requirement(asked)
    assert _pins()[canonicalize_name(requirement.name)] in requirement.specifier


@pytest.mark.parametrize("tool", ["pip", "setuptools"])
def test_what_installs_and_builds_is_pinned_too(tool: str) -> None:
    assert tool in _pins()


def test_nothing_names_a_machine_or_a_place_to_install_from() -> None:
    ours = files(
        "*.py",
        "*.pyi",
        "*.md",
        "*.toml",
        "*.txt",
        "*.sh",
        "*.hpp",
        "*.cpp",
        "*.yml",
        "*.yaml",
        "Makefile",
        "run",
    )
    found = [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()}"
        for path in ours
        if path.name != "test_packaging.py"  # holds the patterns themselves
        for number, line in enumerate(path.read_text("utf-8").splitlines(), 1)
        if OF_ONE_MACHINE.search(line)
    ]
    assert found == []


@pytest.mark.parametrize(
    "line",
    [f"cp /{'root'}/x .", "pip --index" + "-url x", "see /home/ada/notes", "file:///x", "a/simple"],
)
def test_a_machine_or_a_place_to_install_from_is_caught(line: str) -> None:
    assert OF_ONE_MACHINE.search(line)
