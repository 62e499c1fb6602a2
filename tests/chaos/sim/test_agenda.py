"""The agenda: what happens in which order, and what follows from what."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from gapless.chaos.judge.history import Broken
from gapless.chaos.sim import agenda as agendas
from gapless.chaos.sim.agenda import BY_TIME, CAUSES_MAX, Agenda
from gapless.failover.effects import Start, Tick


def run(agenda: Agenda, until: int = 1_000) -> None:
    agenda.at(until, agenda.stop)
    while not agenda.is_stopped:
        agenda.go_on()


def noting(agenda: Agenda, said: list[Any]) -> Callable[[Any], None]:
    return lambda what: said.append((agenda.now, what))


def test_entries_happen_by_time_and_of_one_time_in_the_order_they_were_put_in() -> None:
    agenda, said = Agenda(), list[Any]()
    for when, what in ((30, "a"), (10, "b"), (30, "c"), (20, "d")):
        agenda.at(when, noting(agenda, said), what)
    run(agenda)
    assert said == [(10, "b"), (20, "d"), (30, "a"), (30, "c")]


def test_a_chain_of_causes_leads_back_to_what_follows_from_nothing() -> None:
    agenda, chains = Agenda(), list[list[str]]()

    def third() -> None:
        agenda.begin_step("r0.1", Start())
        chains.append(agenda.causes())

    def second() -> None:
        agenda.begin_step("m0.0", Start())
        agenda.at(30, third)

    def first() -> None:
        agenda.begin_step("", "first")
        agenda.at(20, second)
        agenda.note("beside it")

    agenda.at(10, first)
    run(agenda)
    (chain,) = chains
    assert [line.split()[0] for line in chain] == ["10", "20", "30"]
    assert [step[3] for step in agenda.steps] == [BY_TIME, 0, 0, 2]
    assert len(agenda.trace()) == 1 + len(agenda.steps)


def test_that_time_passes_is_no_step_and_causes_nothing() -> None:
    agenda = Agenda()
    agenda.begin_step("m0.0", Start())
    agenda.begin_step("m0.0", Tick())
    agenda.begin_step("r0.0", Start())
    assert [step[3] for step in agenda.steps] == [BY_TIME, BY_TIME]


def test_of_a_long_chain_the_last_causes_are_told() -> None:
    agenda = Agenda()
    for number in range(CAUSES_MAX + 5):
        agenda.begin_step("", f"the {number}th")
    assert len(agenda.causes()) == CAUSES_MAX


def test_others_go_on_while_one_stands_still_and_their_causes_are_their_own() -> None:
    agenda, said = Agenda(), list[Any]()
    agenda.at(15, noting(agenda, said), "meanwhile")
    agenda.at(30, noting(agenda, said), "later")

    def stands_still() -> None:
        agenda.begin_step("m0.0", Start())
        agenda.go_on_until(20)
        noting(agenda, said)("goes on")
        agenda.note("what it was doing")

    agenda.at(10, stands_still)
    run(agenda)
    assert said == [(15, "meanwhile"), (20, "goes on"), (30, "later")]
    assert agenda.steps[-1][3] == 0


def test_what_fails_while_one_stands_still_is_raised_when_that_has_been_left() -> None:
    agenda, said = Agenda(), list[str]()

    def fails() -> None:
        raise Broken("prefix", "a row is missing")

    def stands_still() -> None:
        agenda.go_on_until(20)
        said.append("left")

    agenda.at(15, fails)
    agenda.at(10, stands_still)
    run(agenda)
    assert said == ["left"]
    with pytest.raises(Broken, match="a row is missing"):
        agenda.raise_failure()


def test_a_run_without_an_end_is_a_broken_promise(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agendas, "STEPS_MAX", 10)
    agenda = Agenda()

    def again() -> None:
        agenda.begin_step("", "again")
        agenda.at(agenda.now + 1, again)

    agenda.at(0, again)
    with pytest.raises(Broken, match="10 steps and no end"):
        run(agenda)
