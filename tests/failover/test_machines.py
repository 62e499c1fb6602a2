"""The seam of the machines: closed unions of events, and a `Bug` for what is in none of them."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import pytest

from gapless.failover import machines
from gapless.failover.effects import Start
from gapless.failover.job.desired import Desired
from gapless.failover.merger.effects import Sealed
from gapless.failover.messages import SnapshotRequest
from gapless.failover.replica.effects import Done
from gapless.failover.replica.executor import Executor
from gapless.failover.replica.machine import Replica
from gapless.failover.subscriber.machine import Subscriber
from gapless.failover.supervisor.effects import Died
from gapless.failover.supervisor.machine import Supervisor
from gapless.protocol.errors import Bug
from gapless.protocol.text import DEFAULT_SCHEMA
from tests.failover import mergers
from tests.failover.replicas import LIFE, PLANS, started_with

STRANGE = {
    "a replica": (Died(LIFE, "gone"), Sealed()),
    "a merger": (Done(1, None), SnapshotRequest(LIFE, "plan")),
    "a subscriber": (Died(LIFE, "gone"), Sealed()),
    "a supervisor": (Sealed(), Done(1, None)),
}
"""Events of other machines."""
MODULES = sorted(Path(machines.__file__).resolve().parent.glob("*/machine.py"))


def machine(kind: str) -> Any:
    if kind == "a replica":
        return Replica(LIFE, started_with(), Executor("plan", PLANS["passing"]()))
    if kind == "a merger":
        return mergers.merger()
    if kind == "a subscriber":
        return Subscriber("s", {"0": ("m0.0",)}, DEFAULT_SCHEMA)
    return Supervisor(1, Desired(1, ("plan",)), (), ("n1",))


@pytest.mark.parametrize("kind", STRANGE)
def test_an_event_of_another_machine_is_a_bug(kind: str) -> None:
    one = machine(kind)
    one.on(Start(), 0)
    for event in STRANGE[kind]:
        with pytest.raises(Bug, match=f"{kind} was given {type(event).__name__}"):
            one.on(event, 1)
    one.validate()


def matched(module: Path) -> list[ast.Match]:
    """The matches over an event or an order, whose classes are a closed union."""
    nodes = (
        node for node in ast.walk(ast.parse(module.read_text())) if isinstance(node, ast.Match)
    )
    return [
        node
        for node in nodes
        if isinstance(node.subject, ast.Name) and node.subject.id in ("event", "order")
    ]


@pytest.mark.parametrize("module", MODULES, ids=lambda path: path.parent.name)
def test_a_match_over_events_ends_with_what_the_type_checker_rejects_if_it_can_be_reached(
    module: Path,
) -> None:
    found = matched(module)
    assert found
    for node in found:
        last = node.cases[-1]
        assert isinstance(last.pattern, ast.MatchAs)
        assert last.pattern.pattern is None
        assert ast.unparse(last.body[0]).startswith("raise unhandled(")
