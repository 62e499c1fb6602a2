"""What a merger says of its inputs: who differs, who is alone, who leads, by the lives' names."""

from __future__ import annotations

import pytest

from gapless.failover.effects import Tick
from gapless.failover.merger.machine import Merger
from gapless.failover.merger.tallies import Tallies
from gapless.failover.messages import Life, Session
from gapless.failover.statuses import SAMPLES_MAX, TEXT_CHARS_MAX, InputStatus, MergerStatus
from tests.failover.mergers import R0, R1, R2, attach, data, merger, sent, session

ALL = (R0, R1, R2)


def status_of(machine: Merger) -> MergerStatus:
    (status,) = sent(machine.on(Tick(), 10**6), MergerStatus)
    assert isinstance(status, MergerStatus)
    return status


def of(status: MergerStatus, who: Session) -> InputStatus:
    return next(i for i in status.inputs if i.life == who.life)


def differing(machine: Merger, odd: Session = R0) -> None:
    """Two say 5 and one says 7; the output follows the odd one."""
    for who in ALL:
        attach(machine, who, f"ins(A,1,{7 if who is odd else 5})")
    for who in ALL:
        data(machine, who, 1, "stable(9)")


def test_replicas_that_differ_are_named_with_both_versions() -> None:
    machine = merger()
    differing(machine)
    status = status_of(machine)
    assert (of(status, R0).outvoted, of(status, R0).diverged) == (2, 0)
    assert [(of(status, who).outvoted, of(status, who).diverged) for who in (R1, R2)] == [
        (0, 1)
    ] * 2
    assert [(d.life, d.odd, d.at) for d in status.samples] == [
        (R1.life, R0.life, 1),
        (R2.life, R0.life, 1),
    ]
    assert status.samples[0].text == (
        "r0.1/1.1 differs at 1, by row 0 of the output; r0.0/1.1 is alone with its version: "
        "A from 1: r0.1/1.1 says it ends at 5, the output has promised it ends at 7"
    )


def check_a_life_keeps_its_tally_when_it_attaches_anew() -> None:
    machine = merger()
    differing(machine)
    attach(machine, session("r0.0", attempt=2), "stable(9)")
    data(machine, session("r0.0", attempt=2), 1, "stable(12)")
    status = status_of(machine)
    assert of(status, R0) == InputStatus(R0.life, 12, True, 0, 2, 2)
    assert len(status.samples) == 2


def test_a_life_keeps_its_tally_when_it_attaches_anew() -> None:
    check_a_life_keeps_its_tally_when_it_attaches_anew()


def test_a_tally_that_forgets_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    of_session = Tallies.of

    def forgets(self: Tallies, link: object) -> object:
        link.before = type(link.before)()  # type: ignore[attr-defined]  # a deliberate fault
        return of_session(self, link)  # type: ignore[arg-type]  # as above

    monkeypatch.setattr(Tallies, "of", forgets)
    with pytest.raises(AssertionError):
        check_a_life_keeps_its_tally_when_it_attaches_anew()


def test_another_life_of_the_slot_begins_with_nothing() -> None:
    machine = merger()
    differing(machine)
    attach(machine, session("r0.0", counter=2), "stable(9)")
    status = status_of(machine)
    assert of(status, session("r0.0", counter=2)).outvoted == 0


def test_samples_and_their_texts_are_bounded() -> None:
    machine = merger()
    attach(machine, R0, "stable(0)")
    attach(machine, R1, "stable(0)")
    long = "x" * 2 * TEXT_CHARS_MAX
    data(machine, R1, 1, " ".join(f"ins({long}{i},1,5)" for i in range(3 * SAMPLES_MAX)))
    data(machine, R0, 1, "stable(9)")
    data(machine, R1, 2, "stable(9)")
    status = status_of(machine)
    assert status.divergences == 3 * SAMPLES_MAX
    assert len(status.samples) == SAMPLES_MAX
    assert all(len(d.text) == TEXT_CHARS_MAX and str(R1.life) in d.text for d in status.samples)


def test_who_leads_is_told() -> None:
    machine = merger()
    for who in (R0, R1):
        attach(machine, who, "stable(1)")
    data(machine, R1, 1, "stable(5)")
    data(machine, R0, 1, "stable(4)")
    led = {i.life: i.led for i in status_of(machine).inputs}
    assert led == {Life("r0.0", R0.life.incarnation): 1, R1.life: 1}
