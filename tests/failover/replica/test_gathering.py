"""Output gathers while there is more of a source to be read at once, and no longer."""

from dataclasses import replace

import pytest

from gapless.failover.effects import Tick
from gapless.failover.replica import output_sender as sending
from gapless.failover.replica.effects import SourceRead
from gapless.failover.replica.intake import ReplicaIntake
from tests.failover.replica.test_machine import ack, gives, opened, reads, told


def with_more(elements: str, at: int = 0) -> SourceRead:
    return replace(gives(elements, at), more=True)


def test_frames_gather_while_there_is_more_and_go_with_the_first_that_is_the_last() -> None:
    machine = opened()
    assert told(machine.on(with_more("ins(A,1,2)"), 0)) == []
    assert told(machine.on(with_more("ins(A,2,3)"), 0)) == []
    assert told(machine.on(gives("ins(A,3,4)"), 0)) == [
        "1: ins((A,1),1,2)",
        "2: ins((A,1),2,3)",
        "3: ins((A,1),3,4)",
    ]


def test_what_gathers_does_not_go_with_an_ack_of_what_went_before() -> None:
    machine = opened()
    machine.on(gives("ins(A,1,2)"), 0)
    machine.on(with_more("ins(A,2,3)"), 0)
    assert told(machine.on(ack(1), 0)) == []
    assert told(machine.on(gives("ins(A,3,4)"), 0)) == ["2: ins((A,1),2,3)", "3: ins((A,1),3,4)"]


def test_nothing_gathers_for_longer_than_so_long() -> None:
    machine = opened()
    machine.on(with_more("ins(A,1,2)"), 0)
    assert told(machine.on(Tick(), sending.GATHER_MS - 1)) == []
    assert told(machine.on(Tick(), sending.GATHER_MS)) == ["1: ins((A,1),1,2)"]


def test_a_source_that_has_nothing_more_has_all_sent() -> None:
    machine = opened()
    machine.on(with_more("ins(A,1,2)"), 0)
    assert told(machine.on(SourceRead("flows", None, {0: 1}), 1)) == ["1: ins((A,1),1,2)"]


def test_while_output_gathers_the_source_is_read_on() -> None:
    machine = opened()
    assert reads(machine.on(with_more("ins(A,1,2)"), 0))


@pytest.mark.parametrize("bound", ["GATHER_FRAMES_MAX", "GATHER_ROWS_MAX"])
def test_so_many_frames_or_rows_gather_at_most(bound: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sending, bound, 3)
    machine = opened()
    said = [told(machine.on(with_more(f"ins(A,{i},{i + 1})", i), 0)) for i in range(1, 4)]
    assert [len(s) for s in said] == [0, 0, 3]


def test_where_nothing_more_may_be_read_all_goes_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = opened()
    monkeypatch.setattr(ReplicaIntake, "may_read", lambda self: False)
    assert told(machine.on(with_more("ins(A,1,2)"), 0)) == ["1: ins((A,1),1,2)"]
    machine.validate()


def test_after_a_second_in_which_nothing_happened_output_gathers_as_before() -> None:
    """No message more than without it but the one that was overdue."""
    machine = opened()
    machine.on(with_more("ins(A,1,2)"), 0)
    assert told(machine.on(with_more("ins(A,2,3)", 1), 1_000)) == [
        "1: ins((A,1),1,2)",
        "2: ins((A,1),2,3)",
    ]
    machine.on(ack(2), 1_000)
    assert told(machine.on(with_more("ins(A,3,4)", 2), 1_001)) == []
    assert told(machine.on(with_more("ins(A,4,5)", 3), 1_000 + sending.GATHER_MS)) == []
    assert told(machine.on(Tick(), 1_001 + sending.GATHER_MS)) == [
        "3: ins((A,1),3,4)",
        "4: ins((A,1),4,5)",
    ]
