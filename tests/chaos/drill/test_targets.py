"""Whom a fault hits: the scenario's target, or one that is there and is drawn."""

from __future__ import annotations

import os
import random
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

from gapless.chaos.drill.faults.all import FAULTS
from gapless.chaos.drill.faults.fault import CannotStrike, Fault, Planned
from gapless.chaos.drill.targets import Role, Targets
from gapless.failover.messages import Life
from gapless.protocol.envelope import Incarnation

if TYPE_CHECKING:
    from gapless.chaos.drill.stage import Stage

ROOT_PID = 7


def life(slot: str, number: int) -> Life:
    return Life(slot, Incarnation(1, number))


HOSTS = {
    life("r0.0", 1): SimpleNamespace(pid=11, node="a"),
    life("r0.1", 1): SimpleNamespace(pid=12, node="b"),
    life("r0.1", 2): SimpleNamespace(pid=13, node="b"),
    life("m0.0", 1): SimpleNamespace(pid=0, node="b"),
}


def targets(hosts: dict[Life, Any] = HOSTS, standby: int | None = None) -> Targets:
    view = SimpleNamespace(
        hosts=hosts,
        root=SimpleNamespace(pid=ROOT_PID),
        standby=None if standby is None else SimpleNamespace(pid=standby),
    )
    nodes = SimpleNamespace(names=["n1", "n2", "n3"], head="n1", ids={"n2": "b", "n3": "c"})
    return Targets(cast("Stage", SimpleNamespace(view=lambda: view, nodes=nodes)))


def fault(name: str, target: str | None = None) -> Fault:
    return FAULTS[name](Planned(name, 0.0, target=target), random.Random(0))


def test_a_slots_process_is_that_of_its_newest_life() -> None:
    assert targets().pid_of("r0.1") == 13
    assert targets().life_of("r0.1")[0] == life("r0.1", 2)
    assert targets().slots("r") == ["r0.0", "r0.1"]
    assert targets().lives_on("n2") == {"m0.0": 0, "r0.1": 13}


def test_what_the_scenario_names_is_hit_and_else_one_that_is_there() -> None:
    assert targets().pick(fault("kill replica", "r0.0"), "r") == "r0.0"
    drawn = {targets().pick(FAULTS["kill replica"](Planned("kill replica", 0.0), r), "r")
             for r in map(random.Random, range(20))}  # fmt: skip
    assert drawn == {"r0.0", "r0.1"}


@pytest.mark.parametrize(
    ("role", "named", "told"),
    [
        ("r", "r0.0", ("r0.0", f"{life('r0.0', 1)}, process 11", 11)),
        ("m", "m0.0", ("m0.0", f"{life('m0.0', 1)}, process 0", 0)),
        ("root", None, ("root", f"process {ROOT_PID}", ROOT_PID)),
    ],
)
def test_one_process_of_each_role_is_found(
    role: Role, named: str | None, told: tuple[str, str, int]
) -> None:
    assert targets().one_of(fault("kill replica", named), role) == told


def test_the_head_is_never_drawn() -> None:
    drawn = {targets().pick_node(FAULTS["kill node"](Planned("kill node", 0.0), r))
             for r in map(random.Random, range(20))}  # fmt: skip
    assert drawn == {"n2", "n3"}


def test_where_nobody_is_nothing_can_strike() -> None:
    nobody = targets({})
    with pytest.raises(CannotStrike, match=r"nobody is in slot r0\.0"):
        nobody.life_of("r0.0")
    with pytest.raises(CannotStrike, match="nobody is there to be hit"):
        nobody.pick(fault("kill merger"), "m")
    with pytest.raises(CannotStrike, match=r"the process of m0\.0 is not known now"):
        targets().pid_of("m0.0")


def test_processes_that_have_just_died_are_left_out() -> None:
    me = os.getpid()
    gone = 2**22 + 1  # above what a Linux gives
    hosts = {
        life("r0.0", 1): SimpleNamespace(pid=me, node="a"),
        life("r0.1", 1): SimpleNamespace(pid=gone, node="a"),
    }
    found = targets(hosts, standby=me).processes()
    assert found["r0.0"].pid == found["standby"].pid == me
    assert "r0.1" not in found
