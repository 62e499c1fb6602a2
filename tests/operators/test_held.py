"""What a landmark window's aggregate puts out, element by element, and what it refuses."""

from __future__ import annotations

from typing import Any

import pytest

from gapless.operators.aggregates import calls
from gapless.operators.aggregates.function import AggregateFunction
from gapless.operators.aside import Aside
from gapless.operators.held import HeldAggregate
from gapless.operators.windows import Landmark
from gapless.protocol.elements import BEGIN, INF
from gapless.protocol.errors import Misuse, RowError, SchemaError
from gapless.protocol.frame import Frame
from gapless.protocol.punctuation import Punctuation
from gapless.protocol.schema import StreamSchema
from gapless.protocol.tdb import Tdb
from gapless.protocol.text import format, parse  # as the notation is called

SOURCE = StreamSchema({"src": "string", "len": "int64"})
COUNT: list[tuple[str, AggregateFunction]] = [("n", calls.count())]


def made(slide: int | None = 5, **options: Any) -> HeldAggregate:
    given: dict[str, Any] = {"group_by": ["src"], "aggregates": COUNT, **options}
    return HeldAggregate(SOURCE, Landmark(slide), **given)


def told(operator: HeldAggregate, text: str) -> str:
    frame = Frame.from_elements(SOURCE, parse(text, SOURCE))
    out = format(operator.push(0, frame).frame.elements())
    operator.validate()
    return out


def test_each_answer_ends_the_one_before_it() -> None:
    operator = made()
    assert told(operator, "ins((A,3),1,2) stable(4)") == "stable(5)"
    assert told(operator, "ins((B,1),4,5) stable(6)") == (
        "ins((A,1),5,inf) ins((B,1),5,inf) stable(10)"
    )
    assert told(operator, "ins((A,4),17,18) stable(16)") == "stable(20)"
    assert told(operator, "stable(inf)") == ("adj((A,1),5,inf,20) ins((A,2),20,inf) stable(inf)")
    assert operator.reach == INF
    assert operator.fast_forward(100) == BEGIN


def test_an_early_answer_ends_what_is_held_until_it_turns_out_otherwise() -> None:
    operator = made(early=10)
    assert told(operator, "ins((A,3),1,2) stable(0)") == "ins((A,1),5,inf) stable(5)"
    assert told(operator, "ins((A,3),7,8)") == ""
    assert told(operator, "stable(1)") == ("adj((A,1),5,inf,5) ins((A,1),5,10) ins((A,2),10,inf)")


def test_an_answer_that_cannot_be_given_goes_aside_once_and_leaves_a_hole() -> None:
    aside = Aside("aside")
    operator = made(aggregates=[("s", calls.sum_("len"))], aside=aside)
    most = (1 << 63) - 1
    assert told(operator, f"ins((A,{most}),1,2) stable(5)") == (f"ins((A,{most}),5,inf) stable(10)")
    assert told(operator, "ins((A,1),6,7) stable(10)") == (f"adj((A,{most}),5,inf,10) stable(15)")
    assert told(operator, "ins((A,-1),11,12) stable(inf)") == (
        f"ins((A,{most}),15,inf) stable(inf)"
    )
    assert aside.count == 1


def test_rows_that_count_nowhere_go_aside() -> None:
    aside = Aside("aside")
    operator = made(aside=aside)
    told(operator, "stable(10)")
    assert told(operator, f"ins((A,1),9,10) ins((A,1),{INF - 3},inf)") == ""
    assert [kept.reason.partition(":")[0] for kept in aside.take()] == [
        f"these windows take rows up to {Landmark(5).latest}",
        "late",
    ]
    stops = made()
    told(stops, "stable(10)")
    with pytest.raises(RowError, match="late"):
        told(stops, "ins((A,1),9,10)")


def test_a_window_of_another_column_is_complete_by_its_marks() -> None:
    operator = made(on="len")
    rows = Frame.from_elements(SOURCE, parse("ins((A,3),1,2) stable(90)", SOURCE))
    assert not operator.push(0, rows).frame
    marks = (Punctuation.of({}, len=5),)
    out = operator.push(0, Frame.empty(SOURCE), marks).frame
    assert format(out.elements()) == "ins((A,1),5,inf) stable(10)"


def test_what_makes_no_sense_is_refused() -> None:
    with pytest.raises(Misuse, match="slide="):
        made(None)
    with pytest.raises(SchemaError, match="group_by 'dst'"):
        made(group_by=["dst"])
    with pytest.raises(SchemaError, match="on='dst'"):
        made(on="dst")
    with pytest.raises(Misuse, match="at least one aggregate"):
        made(aggregates=[])
    with pytest.raises(Misuse, match="Settle"):
        told(made(), "adj((A,1),7,8,9)")


def test_early_answers_of_more_windows_than_anybody_reads_are_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("gapless.operators.held.EARLY_WINDOWS_MAX", 9)
    operator = made(1, early=INF)
    rows = " ".join(f"ins((A,1),{t},{t + 1})" for t in range(10))
    with pytest.raises(Misuse, match="10 windows are open, 9 are answered"):
        told(operator, f"{rows} stable(0)")


def test_panes_that_a_stable_completes_are_answered_in_parts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("gapless.operators.held.ANSWER_ROWS_MAX", 6)
    rows = " ".join(f"ins(({'ab'[t % 2]},{t}),{t},{t + 1})" for t in range(40))
    frame = Frame.from_elements(SOURCE, parse(f"{rows} stable(39)", SOURCE))
    whole, parts = Tdb(made().schema), Tdb(made().schema)
    whole.fold(made().push(0, frame).frame)
    lengths = []
    for out in made().parts(0, frame):
        parts.fold(out.frame)  # which raises where a part has promised too much
        lengths.append(len(out.frame))
    assert parts == whole
    assert len(lengths) > 3
    assert max(lengths) < 6 + 4
