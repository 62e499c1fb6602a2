"""What is merged and what is durable are told apart, and an output ends once nothing comes."""

from __future__ import annotations

import pytest

from gapless.failover.merger import durable_output
from gapless.failover.merger.durable_output import DurableOutput
from gapless.failover.merger.effects import Append, Appended, Seal
from gapless.merge.lmerge import LMerge
from gapless.protocol.elements import BEGIN
from gapless.protocol.errors import Bug
from gapless.protocol.text import DEFAULT_SCHEMA
from tests.failover.mergers import TIMING, frame, only


def merged(said: str = "") -> tuple[LMerge, DurableOutput]:
    """An LMerge that was told something, and its output, of which nothing is written."""
    merge = LMerge(DEFAULT_SCHEMA, "r3")
    output = DurableOutput(merge, 0, TIMING)
    if said:
        output.put_out(merge.push(merge.attach(BEGIN), frame(said)))
    return merge, output


def test_what_is_merged_is_durable_once_the_journal_says_so() -> None:
    merge, output = merged("ins(A,1,9) stable(5)")
    assert (merge.stable, output.durable_stable, output.offset) == (5, BEGIN, 0)
    output.appended(Appended(1, 5), 0)
    assert (output.durable_stable, output.offset) == (5, 1)
    output.validate()


def test_a_late_answer_takes_nothing_back() -> None:
    _, output = merged("ins(A,1,9) stable(5)")
    output.appended(Appended(1, 5), 0)
    output.put_out(frame("ins(A,6,9)"))
    output.appended(Appended(2, 4), 0)
    assert output.durable_stable == 5


def test_more_that_is_durable_than_merged_is_a_bug() -> None:
    _, output = merged("ins(A,1,9) stable(5)")
    output.appended(Appended(1, 6), 0)
    with pytest.raises(Bug, match="durable to 6, merged to 5"):
        output.validate()


def test_it_is_full_at_so_many_rows_that_wait_for_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(durable_output, "PENDING_ROWS_MAX", 2)
    _, output = merged("ins(A,1,9)")
    assert (output.pending_rows, output.is_full) == (1, False)
    output.put_out(frame("ins(B,1,9)"))
    assert output.is_full
    output.appended(Appended(1, BEGIN), 0)
    assert not output.is_full


def test_it_closes_once_it_was_silent_for_long_enough_and_all_is_durable() -> None:
    _, output = merged("ins(A,1,9) stable(5)")
    output.drain()
    output.took_in_at = 10
    late = 10 + TIMING.drain_ms
    assert output.close_when_silent(late) == [], "a row is on its way to the journal"
    output.appended(Appended(1, 5), late)
    assert output.close_when_silent(late - 1) == []
    only(output.close_when_silent(late), Seal)
    assert output.sealed() == (True, [])
    states: list[str] = [output.state]
    only(output.put_out(frame("ins(C,7,9)")), Append)
    states.append(output.state)
    assert states == ["drained", "draining"], "what comes late is written, and it closes again"


def test_one_that_is_open_never_closes() -> None:
    _, output = merged()
    assert output.close_when_silent(1 << 40) == []
