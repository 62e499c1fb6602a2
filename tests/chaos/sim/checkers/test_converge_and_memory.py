from collections import deque
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest

from gapless.chaos.judge.history import Durable, Fact, Healed, History, Struck, TookIn, Verdict
from gapless.chaos.sim.checkers.all import every
from gapless.chaos.sim.checkers.converge import Converges
from gapless.chaos.sim.checkers.memory import MemoryReturns
from gapless.failover.job.desired import Desired
from gapless.failover.job.state import SlotState
from gapless.failover.messages import Life
from gapless.protocol.elements import BEGIN, INF
from tests.chaos.sim.checkers.small import (
    SmallWorld,
    catches,
    emitted,
    frame,
    hear,
    life,
    resumed,
    session,
)
from tests.chaos.sim.checkers.small import world as small_world

REPLICAS = [life("r0.0"), life("r0.1")]
MERGERS = [life("m0.0"), life("m0.1")]
FAULT: list[Fact] = [Struck("crash replica", "r0.0"), Healed("crash replica", "r0.0")]


def attached() -> list[Fact]:
    return [TookIn(m, session(r, m.slot), 0, BEGIN, frame("")) for r in REPLICAS for m in MERGERS]


def ended() -> list[Fact]:
    return [Durable(m, 1, 0, frame("stable(inf)")) for m in MERGERS]


@dataclass(slots=True)
class States:
    states: dict[str, str] = field(default_factory=dict)

    def state(self) -> Any:
        slots = [
            SlotState(x.slot, self.states.get(x.slot, "running"), x, "n1", "p", "late", None)
            for x in [*REPLICAS, *MERGERS]
        ]
        return SimpleNamespace(slots=slots)


def world(**more: Any) -> SmallWorld:
    machines: dict[Life, Any] = dict.fromkeys([*REPLICAS, *MERGERS], SimpleNamespace())
    defaults: dict[str, Any] = {
        "machines": machines,
        "desired": Desired(2, ("p",), 2),
        "supervisor": States(),
    }
    return small_world("", **{**defaults, **more})


def converge(small: SmallWorld, *facts: Fact) -> Verdict:
    checker = Converges()
    hear(checker, *facts)
    return checker.verdict(small)


def test_all_that_is_desired_running_and_ended_passes() -> None:
    program = emitted("stable(inf)")
    assert converge(world(), *FAULT, *attached(), *ended(), program) is Verdict.HOLDS


def test_without_a_fault_or_under_one_or_stopped_it_is_unknown() -> None:
    facts = [*attached(), *ended()]
    assert converge(world(), *facts) is Verdict.UNKNOWN
    assert converge(world(), FAULT[0], *facts) is Verdict.UNKNOWN
    stopped = world(desired=Desired(2, ("p",), 2, state="stopped"))
    assert converge(stopped, *FAULT, *facts) is Verdict.UNKNOWN


def test_what_is_not_back_is_caught() -> None:
    facts = [*FAULT, *attached(), *ended()]
    three = dict.fromkeys([*REPLICAS, *MERGERS])
    cases: list[tuple[SmallWorld, list[Fact], str]] = [
        (world(), facts[:-1], "the journal of m0.1 stands at begin"),
        (world(), [*facts, emitted("stable(7)")], "what s holds stands at 7"),
        (world(desired=Desired(3, ("p",), 2)), facts, "0 lives in r0.2"),
        (world(machines={**three, life("r0.0", 2): None}), facts, "2 lives in r0.0"),
        (world(machines={**three, life("r0.5"): None}), facts, "runs and is not desired"),
        (world(), [*FAULT, *attached()[1:], *ended()], "is not attached to m0.0"),
        (world(supervisor=States({"r0.1": "suspected"})), facts, "r0.1 is suspected: late"),
        (world(supervisor=None), facts, "no supervisor"),
    ]
    for small, told, problem in cases:
        with catches(problem):
            converge(small, *told)


# -- memory -----------------------------------------------------------------------------------


def replica(rows: int, window: int = 0, durable: int = INF) -> Any:
    link = SimpleNamespace(window=deque([0] * window), durable=durable)
    return SimpleNamespace(tail=[0] * rows, links={"m0.0": link})


def memory(machine: Any, text: str = "") -> Verdict:
    checker = MemoryReturns()
    hear(checker, (0, resumed()), (0, ended()[0]))
    small = small_world(text, machines={REPLICAS[0]: machine}, outputs={"m0.0": None})
    return checker.verdict(small)


def sizes(**named: int) -> Any:
    return SimpleNamespace(sizes=lambda: {k.replace("_", " "): n for k, n in named.items()})


def test_machines_that_let_go_of_all_pass() -> None:
    assert memory(replica(rows=3, window=1)) is Verdict.HOLDS
    assert memory(sizes(live_keys=0, waiting_questions=1, checkpoints=3)) is Verdict.HOLDS
    open_ended = " ".join(f"ins(A,{i},inf)" for i in range(1, 31))
    assert memory(replica(rows=90), text=open_ended) is Verdict.HOLDS


def test_what_has_not_ended_is_unknown() -> None:
    assert memory(replica(rows=999, durable=7)) is Verdict.HOLDS  # of its windows
    assert MemoryReturns().verdict(small_world("", outputs={"m0.0": None})) is Verdict.UNKNOWN


@pytest.mark.parametrize(
    ("machine", "problem"),
    [
        (replica(rows=40), "40 tail rows"),
        (replica(rows=0, window=9), "9 window frames"),
        (sizes(live_keys=1), "1 live keys"),
        (sizes(pending_rows=2), "2 pending rows"),
        (sizes(waiting_questions=2), "2 waiting questions"),
        (sizes(checkpoints=7), "7 checkpoints"),
    ],
)
def test_what_is_kept_is_caught(machine: Any, problem: str) -> None:
    with catches(problem):
        memory(machine)


def test_every_checker_has_a_name_of_its_own_and_says_its_promise() -> None:
    checkers = every(small_world("ins(A,1,5)"), slow=True)
    names = [checker.name for checker in checkers]
    assert len({*names}) == len(names) == 15
    assert all(checker.promise.endswith(".") for checker in checkers)
    nothing = small_world("")
    assert all(checker.verdict(nothing) is Verdict.UNKNOWN for checker in checkers)
    History(checkers)
