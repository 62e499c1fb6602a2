"""Which pieces of time make a session, and the answers of sessions, element by element."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gapless.operators.aggregates import calls
from gapless.operators.aggregates.function import AggregateFunction
from gapless.operators.aggregates.span import Span
from gapless.operators.aside import Aside
from gapless.operators.session_aggregate import SessionAggregate
from gapless.operators.sessions import sessions_of
from gapless.protocol.elements import BEGIN, INF
from gapless.protocol.errors import Misuse, RowError, SchemaError
from gapless.protocol.frame import Frame
from gapless.protocol.punctuation import Punctuation
from gapless.protocol.schema import StreamSchema
from gapless.protocol.tdb import Event, Tdb
from gapless.protocol.text import format, parse  # as the notation is called

SOURCE = StreamSchema({"src": "string", "len": "int64"})
COUNT: list[tuple[str, AggregateFunction]] = [("n", calls.count())]
PIECES = st.lists(st.tuples(st.integers(0, 2), st.integers(-30, 30), st.integers(0, 6)), max_size=9)


@settings(max_examples=80)
@given(PIECES, st.integers(0, 5))
def test_pieces_make_the_sessions_that_their_times_one_by_one_make(
    pieces: list[tuple[int, int, int]], gap: int
) -> None:
    partitions, earliest, lasts = (np.array([p[i] for p in pieces], np.int64) for i in range(3))
    found = sessions_of(partitions, earliest, earliest + lasts, gap)
    wanted: list[tuple[int, int, int]] = []
    for partition in sorted({p for p, _, _ in pieces}):
        mine = sorted((a, a + n) for p, a, n in pieces if p == partition)
        start, last = mine[0]
        for a, b in mine[1:]:
            if a - last > gap:
                wanted.append((partition, start, last + gap))
                start = a
            last = max(last, b) if start != a else b
        wanted.append((partition, start, last + gap))
    got = zip(found.partitions.tolist(), found.starts.tolist(), found.ends.tolist(), strict=True)
    assert list(got) == wanted
    for number, (partition, a, _) in zip(found.numbers.tolist(), pieces, strict=True):
        assert wanted[number][0] == partition
        assert wanted[number][1] <= a <= wanted[number][2]
    ends = [i + 1 == len(wanted) or wanted[i + 1][0] != w[0] for i, w in enumerate(wanted)]
    assert found.is_last.tolist() == ends


def made(gap: int = 5, **options: Any) -> SessionAggregate:
    given: dict[str, Any] = {"partition_by": ["src"], "group_by": ["src"], "aggregates": COUNT}
    return SessionAggregate(SOURCE, gap, **{**given, **options})


def told(operator: SessionAggregate, text: str) -> str:
    out = operator.push(0, Frame.from_elements(SOURCE, parse(text, SOURCE))).frame
    operator.validate()
    return format(out.elements())


def test_a_session_is_answered_once_the_stable_has_passed_its_end() -> None:
    operator = made()
    assert told(operator, "ins((A,1),2,3) ins((A,1),7,8) ins((B,1),1,2) stable(12)") == (
        "ins((B,1),6,7) stable(12)"
    )
    assert told(operator, "ins((A,1),12,13)") == ""  # exactly the gap after the last one
    assert told(operator, "stable(17)") == "stable(17)"
    assert told(operator, "stable(18)") == "ins((A,3),17,18) stable(18)"
    assert told(operator, "ins((A,1),18,19) stable(inf)") == "ins((A,1),23,24) stable(inf)"
    assert (operator.reach, operator.fast_forward(100)) == (INF, BEGIN)


def test_a_row_that_bridges_two_sessions_makes_them_one() -> None:
    operator = made(aggregates=[*COUNT, ("s", calls.sum_("len"))])
    told(operator, "ins((A,1),0,1) ins((A,2),10,11) stable(0)")
    assert told(operator, "ins((A,4),5,6) stable(16)") == "ins((A,3,7),15,16) stable(16)"


def test_all_rows_are_one_partition_where_none_is_named() -> None:
    operator = made(partition_by=[])
    assert told(operator, "ins((A,1),2,3) ins((B,1),6,7) stable(20)") == (
        "ins((A,1),11,12) ins((B,1),11,12) stable(20)"
    )
    assert operator.nbytes > 0


def test_groups_in_a_session_share_its_end_and_groups_of_two_partitions_do_not() -> None:
    operator = made(group_by=["len"])
    text = "ins((A,1),2,3) ins((A,2),6,7) ins((B,1),2,3) stable(8)"
    assert told(operator, text) == "ins((1,1),7,8) stable(8)"
    assert told(operator, "stable(12)") == "ins((1,1),11,12) ins((2,1),11,12) stable(12)"


def test_an_early_answer_is_revised_until_the_session_has_ended() -> None:
    operator = made(early=INF)
    assert told(operator, "ins((A,1),2,3) ins((A,1),20,21) stable(2)") == (
        "ins((A,1),7,8) ins((A,1),25,26) stable(2)"
    )
    assert told(operator, "ins((A,1),6,7) stable(3)") == (
        "adj((A,1),7,8,7) ins((A,2),11,12) stable(3)"
    )
    assert told(operator, "stable(13)") == "stable(13)"  # as it was told
    assert told(operator, "stable(inf)") == "stable(inf)"
    near = made(early=3)
    assert told(near, "ins((A,1),2,3) stable(2)") == "stable(2)"
    assert told(near, "stable(4)") == "ins((A,1),7,8) stable(4)"


def test_rows_that_count_nowhere_go_aside() -> None:
    aside = Aside("aside")
    operator = made(aside=aside)
    told(operator, "stable(10)")
    assert told(operator, f"ins((A,1),9,10) ins((A,1),{INF - 3},inf)") == ""
    reasons = [kept.reason.partition(":")[0] for kept in aside.take()]
    assert reasons == [f"these sessions take rows up to {INF - 7}", "late"]
    stops = made()
    told(stops, "stable(10)")
    with pytest.raises(RowError, match="late"):
        told(stops, "ins((A,1),9,10)")


def test_an_answer_that_cannot_be_given_goes_aside() -> None:
    aside = Aside("aside")
    operator = made(aggregates=[("s", calls.sum_("len"))], aside=aside)
    most = (1 << 63) - 1
    assert told(operator, f"ins((A,{most}),1,2) ins((A,1),2,3) stable(9)") == "stable(9)"
    [kept] = aside.take()
    assert kept.rows.to_pylist() == [{"_window": 7, "src": "A", "_start": 1}]


def test_a_session_of_another_column_ends_by_its_marks() -> None:
    operator = made(on="len")
    rows = Frame.from_elements(SOURCE, parse("ins((A,3),1,2) stable(90)", SOURCE))
    assert not operator.push(0, rows).frame
    out = operator.push(0, Frame.empty(SOURCE), (Punctuation.of({}, len=9),)).frame
    assert format(out.elements()) == "ins((A,1),8,9) stable(9)"


def test_what_makes_no_sense_is_refused() -> None:
    with pytest.raises(SchemaError, match="session 'dst'"):
        made(partition_by=["dst"])
    with pytest.raises(SchemaError, match="group_by 'dst'"):
        made(group_by=["dst"])
    with pytest.raises(Misuse, match="at least one aggregate"):
        made(aggregates=[])
    with pytest.raises(Misuse, match="Settle"):
        told(made(), "adj((A,1),7,8,9)")
    for call in (lambda: Span().result(SOURCE.payload), Span().to_document):
        with pytest.raises(Misuse):
            call()


def test_many_sessions_of_many_panes_come_in_parts_and_leave_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("gapless.operators.session_state.ANSWER_ROWS_MAX", 6)
    operator = made(2, group_by=["len"], aggregates=[("top", calls.max_("src"))])  # no repeats
    rows = [(f"{p}", t) for p in range(40) for t in range(60) if (t // 10 + p) % 3]
    text = " ".join(f"ins(({p},{t % 2}),{t},{t + 1})" for p, t in rows)
    empty = operator.nbytes
    frame = Frame.from_elements(SOURCE, parse(f"{text} stable(inf)", SOURCE))
    lengths, tdb = [], Tdb(operator.schema)
    for out in operator.parts(0, frame):
        lengths.append(len(out.frame))
        tdb.fold(out.frame)
    operator.validate()
    assert max(lengths) == 6
    ends = {e.vs for e in tdb.events}
    assert ends == {t + 2 for t in (9, 19, 29, 39, 49, 59)}
    assert Event((0, "1"), 21, 22) in tdb.events
    assert operator.nbytes < 2 * empty + 20_000
