import pyarrow as pa
import pytest

from gapless.chaos.judge.history import Delivered, Durable, Recovered, Verdict
from gapless.chaos.sim.checkers.cut import NothingPastACut
from gapless.chaos.sim.checkers.journals import Journals, read_journal
from gapless.chaos.sim.checkers.table import TableInTheEnd
from gapless.chaos.sim.checkers.wanted import Tables
from gapless.failover.messages import Token
from gapless.protocol.elements import BEGIN, INF
from tests.chaos.sim.checkers.small import (
    catches,
    durable,
    emitted,
    frame,
    hear,
    journal,
    life,
    resumed,
    world,
)

TABLE = "ins(A,1,5) ins(B,3,9)"
SAID = ("ins(A,1,4) stable(2)", "adj(A,1,4,5) ins(B,3,9) stable(6)", "stable(inf)")


def in_the_end(*facts: object, text: str = TABLE, said: tuple[str, ...] = SAID) -> Verdict:
    small = world(text, outputs={"m0.0": journal(*said)})
    checker = TableInTheEnd(Tables(small), Journals())
    hear(checker, *facts)  # type: ignore[arg-type]  # helpers give any fact
    return checker.verdict(small)


def test_programs_and_journals_that_hold_the_table_pass() -> None:
    program = [
        resumed(),
        emitted("ins(A,1,5) ins(B,3,8) stable(6)", 1),
        emitted("ins(B,3,7)", 2),
        resumed(1),
        emitted("ins(B,3,9) stable(inf)", 3, since=6),
    ]
    assert in_the_end(*program) is Verdict.HOLDS


def test_what_has_not_come_to_its_end_is_unknown() -> None:
    assert in_the_end(emitted("stable(6)")) is Verdict.UNKNOWN
    assert in_the_end(said=SAID[:2]) is Verdict.UNKNOWN
    small = world(TABLE)
    assert TableInTheEnd(Tables(small), Journals()).verdict(small) is Verdict.UNKNOWN


@pytest.mark.parametrize(
    "text",
    ["ins(A,1,5)", "ins(A,1,5) ins(B,3,9) ins(B,3,9)", "ins(A,1,5) ins(B,3,9) adj(C,1,4,1)"],
)
def test_a_program_that_holds_something_else_is_caught(text: str) -> None:
    with catches("the program of s"):
        in_the_end(emitted(f"{text} stable(inf)"))


def test_a_journal_that_leads_to_something_else_is_caught() -> None:
    with catches("the journal of m0.0 is not the table"):
        in_the_end(text="ins(A,1,5)")


def test_a_journal_that_cannot_be_read_is_caught() -> None:
    disk = journal(*SAID)
    name = next(n for n in disk.files("segments") if disk.size(n) > 100)
    disk.put(name, disk.read(name, 0, 80) + b"\xff" * 20)
    small = world(TABLE, outputs={"m0.0": disk})
    with catches("cannot be read"):
        TableInTheEnd(Tables(small), Journals()).verdict(small)


def test_a_journal_says_what_may_be_promised_at_each_of_its_offsets() -> None:
    read = read_journal(journal(*SAID))
    assert (read.end, read.stable) == (3, INF)
    assert read.promises() == [1, 3, 3, INF]
    assert (read_journal(journal()).end, read_journal(journal()).promises()) == (0, [BEGIN])


# -- cuts -------------------------------------------------------------------------------------

M1, M2 = life("m0.0", 1), life("m0.0", 2)


def delivered(after: int, text: str) -> Delivered:
    rows = len(frame(text))
    return Delivered(M1, "s", after, frame(text), Token("m0.0", 1, after + rows, BEGIN))


def cut(*facts: object, said: tuple[str, ...] = SAID) -> Verdict:
    small = world(TABLE, outputs={"m0.0": journal(*said)})
    checker = NothingPastACut(Journals())
    hear(checker, *facts)  # type: ignore[arg-type]  # helpers give any fact
    return checker.verdict(small)


def test_pieces_of_the_journal_pass() -> None:
    facts = [*durable(*SAID[:2]), delivered(0, "ins(A,1,4) adj(A,1,4,5)")]
    assert cut(*facts, delivered(2, "ins(B,3,9) stable(6)")) is Verdict.HOLDS


def test_nothing_delivered_is_unknown() -> None:
    assert cut(*durable(*SAID)) is Verdict.UNKNOWN


def test_rows_that_the_journal_lost_or_has_otherwise_are_caught() -> None:
    with catches("the journal has other rows there"):
        cut(*durable("ins(A,1,4) ins(X,2,9)"), delivered(0, "ins(A,1,4)"))
    with catches("in the end there are 1 rows"):
        cut(*durable(*SAID[:2]), said=SAID[:1])
    with catches("with stable 4: .* allows 3"):
        cut(*durable("ins(A,1,4) stable(4)"))
    with catches("allows 2"):
        cut(*durable("ins(A,1,4) stable(4)"), said=SAID[:1])


def test_delivering_what_is_not_durable_is_caught_at_once() -> None:
    checker = NothingPastACut(Journals())
    hear(checker, *durable("ins(A,1,4) stable(2)"), delivered(0, "ins(A,1,4)"))
    with catches("up to row 3, and 1 rows are durable"):
        hear(checker, delivered(1, "adj(A,1,4,5) ins(B,3,9)"))
    with catches("delivers to s stable 6, and 2 is durable"):
        hear(checker, delivered(1, "stable(6)"))


def test_a_new_life_that_finds_less_is_caught() -> None:
    facts = durable(*SAID[:2])
    hear(NothingPastACut(Journals()), *facts, Recovered(M2, 2, 3, frame("ins(B,3,9) stable(6)")))
    with catches("reads back 1 rows"):
        hear(NothingPastACut(Journals()), *facts, Recovered(M2, 2, 1, frame("stable(6)")))
    with catches("stable 2, of a journal"):
        hear(NothingPastACut(Journals()), *facts, Recovered(M2, 2, 3, frame("stable(2)")))


@pytest.mark.parametrize("facts", [durable(*SAID), durable(*SAID[1:], after=1)])
def test_a_journal_is_read_only_where_the_facts_leave_a_gap(facts: list[Durable]) -> None:
    journals = Journals(read_all=False)
    small = world(TABLE, outputs={} if facts[0].after == 0 else {"m0.0": journal(*SAID)})
    checker, table = NothingPastACut(journals), TableInTheEnd(Tables(small), journals)
    hear(checker, *facts, delivered(1, "adj(A,1,4,5)"))
    assert checker.verdict(small) is Verdict.HOLDS
    assert table.verdict(small) is (Verdict.HOLDS if small.outputs else Verdict.UNKNOWN)
    with catches("other rows there"):
        hear(checker, delivered(1, "ins(X,1,9)"))
        checker.verdict(small)


def test_arrows_own_equality_is_enough_for_what_is_the_same() -> None:
    """The quick way compares batches: two that were built otherwise and say the same are equal."""
    one = frame("ins(A,1,4) ins(B,3,9)").batch
    pieces = [frame("ins(A,1,4)").batch, frame("ins(X,1,2) ins(B,3,9)").batch.slice(1)]
    assert pa.concat_batches(pieces).equals(one)
