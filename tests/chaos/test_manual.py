"""docs/chaos.md has each fault, key and option; examples/chaos/scenario.toml is a scenario."""

from __future__ import annotations

import re
from dataclasses import MISSING, fields
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from gapless.chaos.drill.faults.all import FAULTS
from gapless.chaos.drill.faults.fault import Fault, Planned
from gapless.chaos.drill.scenario import (
    MERGERS_MAX,
    NODES_MAX,
    RATE_MAX,
    REPLICAS_MAX,
    Holds,
    Random,
    Scenario,
    parsed,
)
from gapless.chaos.drill.workloads import REAL_WORKLOADS
from tests.chaos.planted.test_builds_on_ray import PAIRS

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "docs" / "chaos.md").read_text("utf-8")
EXAMPLE = (ROOT / "examples" / "chaos" / "scenario.toml").read_text("utf-8")
OPTIONAL = {"`about`", "`faults`", "`random`"}
"""What a scenario may leave out without a default taking its place."""


def items(before: str) -> list[str]:
    """Of the first list behind some words, each item as one line."""
    found = TEXT.partition(before)[2].partition("\n- ")[2].partition("\n\n")[0]
    return [" ".join(item.split()) for item in found.split("\n- ")]


def needed(kind: type[Fault]) -> str:
    """What a fault needs, as the manual says it."""
    least = {"nodes": kind.nodes_min, "mergers": kind.mergers_min, "replicas": kind.replicas_min}
    found = [f"{count} {what}" for what, count in least.items() if count > 1]
    tried = vars(import_module(kind.__module__)).get("why_not")
    means = "" if tried is None else tried.__module__.rpartition(".")[2]
    found += ["root: network namespaces"] if "network" in kind.parts else []
    found += ["root: control groups"] if means == "cgroups" else []
    found += ["root: mounts"] if means == "small_disk" else []
    found += ["a GCS that persists (Ray 2.60)"] if "persistence" in kind.parts else []
    return ", ".join(found)


def test_the_list_of_faults_has_each_once_beside_what_it_needs() -> None:
    rows = [item.partition(": `") for item in items("What each needs:\n")]
    said = [(name, need) for need, _, names in rows for name in f"`{names}".split(", ")]
    known = [(f"`{name}`", needed(kind) or "nothing") for name, kind in FAULTS.items()]
    assert sorted(said) == sorted(known)
    needs = [need for need, *_ in rows]
    assert len(needs) == len(set(needs))


@pytest.fixture
def example(monkeypatch: pytest.MonkeyPatch) -> Scenario:
    for kind in FAULTS.values():
        monkeypatch.setattr(kind, "why_not", lambda: None)
    return parsed("example", EXAMPLE)


def test_the_example_is_a_scenario_with_every_key(example: Scenario) -> None:
    example.check()
    said = set(re.findall(r"^(\w+) =", EXAMPLE, re.MULTILINE))
    keys = {
        field.name
        for kind in (Scenario, Random, Holds, Planned)
        for field in fields(kind)
        if field.name not in {"name", "faults", "random", "holds", "settings", "minutes"}
    }
    assert keys - said == set()
    assert "minutes = " in EXAMPLE


def test_bounds_and_names_of_the_example_are_those_of_the_code() -> None:
    for bound in (f"1 to {RATE_MAX}", f"1 to {REPLICAS_MAX}", f"1 to {NODES_MAX};"):
        assert bound in EXAMPLE
    assert f"mergers = 2                  # 1 or {MERGERS_MAX}" in EXAMPLE
    *first, last = REAL_WORKLOADS
    assert f"{', '.join(first)} or {last}: a query" in EXAMPLE


def test_defaults_are_those_of_the_code() -> None:
    (said,) = re.findall(r"^Defaults: (.*?)\n\n", TEXT, re.DOTALL | re.MULTILINE)
    known: dict[str, Any] = {
        f"{prefix}{field.name}": field.default
        for prefix, kind in (("", Scenario), ("random.", Random), ("holds.", Holds))
        for field in fields(kind)
        if field.default is not MISSING
    }
    given = dict(re.findall(r"`([\w.]+)=([^`]+)`", said))
    assert len(given) > 10
    for name, default in given.items():
        value = known[name]
        text = f'"{value}"' if isinstance(value, str) else str(value).lower()
        assert default == text.replace("(", "[").replace(")", "]"), name
    told = {f"`{name.split('=')[0]}`" for name in re.findall(r"`([^`]+)`", said)}
    assert {f"`{name}`" for name in known if "." not in name} - OPTIONAL <= told


def test_the_broken_builds_that_are_caught_are_those_that_are_played() -> None:
    played = [f"{pair.build}: `{pair.scenario}`, {pair.by}" for pair in PAIRS]
    assert items("## Broken builds\n") == played


def test_every_option_of_the_commands_is_there() -> None:
    import typer.main

    from gapless.commands.chaos import chaos

    group: Any = typer.main.get_command(chaos)
    options = {
        command: {
            name
            for parameter in group.commands[command].params
            for name in parameter.opts
            if name.startswith("--") and name != "--help"
        }
        for command in ("list", "run", "soak", "replay")
    }
    rows = [item.partition(": ") for item in items("`--help` explains their options:\n")]
    said = {command.strip("`"): set(re.findall(r"`(--\w+)`", names)) for command, _, names in rows}
    assert said == options
