"""The paper's tables and examples, by name. Its O1, O2 and O3 are in test_compatible.py."""

from dataclasses import dataclass

import pytest

from gapless.merge.choose import CaseName
from gapless.merge.compatible import check_compatible, compatible
from gapless.merge.policy import Policy
from gapless.protocol.elements import INF
from gapless.protocol.frame import frames_of
from gapless.protocol.tdb import Event, Tdb
from gapless.protocol.text import DEFAULT_SCHEMA, format, parse
from tests.merge.helpers import MERGERS, say


def table(text: str) -> Tdb:
    tdb = Tdb(DEFAULT_SCHEMA)
    for frame in frames_of(DEFAULT_SCHEMA, parse(text)):
        tdb.fold(frame)
    return tdb


# -- Example 1, Tables I and II: DHCP leases --------------------------------------------------

PHY1 = "ins(B,8,inf) ins(A,6,12) adj(B,8,inf,10) stable(11) stable(inf)"
PHY2 = "ins(A,6,7) ins(B,8,15) adj(A,6,7,12) adj(B,8,15,10) stable(inf)"

TABLE_II = [
    (2, "ins(A,6,7)"),
    (2, "ins(B,8,15)"),
    (1, "ins(B,8,inf)"),
    (2, "adj(A,6,7,12)"),
    (1, "ins(A,6,12)"),
    (1, "adj(B,8,inf,10)"),
    (2, "adj(B,8,15,10)"),
    (1, "stable(11)"),
    (1, "stable(inf)"),
    (2, "stable(inf)"),
]
"""Its rows from top to bottom: which stream says what. (Table I has the first seven.)"""


def test_table_i_both_streams_report_the_same_leases() -> None:
    leases = [Event(("A",), 6, 12), Event(("B",), 8, 10)]
    assert table(PHY1).events == table(PHY2).events == leases


@pytest.mark.parametrize("merger", MERGERS)
@pytest.mark.parametrize("case", ["r3", "r4"])
def test_table_ii_merges_to_the_leases(merger: str, case: CaseName) -> None:
    merge = MERGERS[merger](DEFAULT_SCHEMA, case, Policy())
    numbers = {1: merge.attach(), 2: merge.attach()}
    out = [say(merge, numbers[stream], text) for stream, text in TABLE_II]
    assert out == [
        "ins(A,6,7)",
        "ins(B,8,15)",
        "",
        "",
        "",
        "",
        "",
        "adj(A,6,7,12) adj(B,8,15,10) stable(11)",
        "stable(inf)",
        "",
    ]


def test_punctuation_may_not_be_passed_on_as_it_comes() -> None:
    """The first challenge of section II: both reasons that it gives against stable(11)."""
    phy1 = table("ins(B,8,inf) ins(A,6,12) adj(B,8,inf,10) stable(11)")
    breaches = compatible([phy1], table("ins(A,6,7) ins(B,8,15) stable(11)"))
    assert [b for b in breaches if "<A, [6,7)>" in b.why], "A would be frozen as [6,7)"
    assert [b for b in breaches if "<B, [8,15)>" in b.why], "B could not be taken down to 10"


# -- Example 2: open and close ----------------------------------------------------------------


@dataclass(frozen=True)
class Open:
    payload: str
    vs: int


@dataclass(frozen=True)
class Close:
    payload: str
    ve: int


def reconstitute(stream: list[Open | Close]) -> Tdb:
    """The table of a stream of open and close: one event of a payload is active at a time."""
    lives: dict[str, list[int]] = {}
    for element in stream:
        match element:
            case Open(payload, vs):
                lives[payload] = [vs, INF]
            case Close(payload, ve):
                lives[payload][1] = ve
    return Tdb(DEFAULT_SCHEMA, [Event((payload,), vs, ve) for payload, (vs, ve) in lives.items()])


Words = list[Open | Close]

S: Words = [Open("A", 1), Open("B", 2), Open("C", 3), Close("A", 4), Close("B", 5)]
U: Words = [Open("A", 1), Close("A", 4), Open("B", 2), Close("B", 5), Open("C", 3)]
W: Words = [Open("B", 2), Close("B", 6), Open("A", 1), Open("C", 3), Close("A", 4), Close("B", 5)]


def test_example_2_three_prefixes_of_open_and_close_are_equivalent() -> None:
    expected = table("ins(A,1,4) ins(B,2,5) ins(C,3,inf)")
    assert reconstitute(S) == reconstitute(U) == reconstitute(W) == expected


# -- Example 3: insert and adjust -------------------------------------------------------------


def test_example_3_adjusts_add_up_to_one_insert() -> None:
    assert table("ins(A,6,20) adj(A,6,20,30) adj(A,6,30,25)") == table("ins(A,6,25)")
    assert table("ins(A,6,20) adj(A,6,20,6)") == table("")


# -- Example 4, Table III: chattiness ---------------------------------------------------------

TABLE_III = [
    (1, "ins(A,6,10)"),
    (2, "ins(A,6,12)"),
    (2, "ins(B,7,14)"),
    (1, "adj(A,6,10,15)"),
    (2, "adj(A,6,12,15)"),
    (2, "stable(16)"),
]

OUTPUTS = {
    "Out1": (
        Policy(adjust="at_once"),
        ["ins(A,6,10)", "adj(A,6,10,12)", "ins(B,7,14)", "adj(A,6,12,15)", "", "stable(16)"],
    ),
    "Out2": (
        Policy(insert="fully_frozen"),
        ["", "", "", "", "", "ins(A,6,15) ins(B,7,14) stable(16)"],
    ),
    "Out3": (
        Policy(),
        ["ins(A,6,10)", "", "ins(B,7,14)", "", "", "adj(A,6,10,15) stable(16)"],
    ),
}


@pytest.mark.parametrize("merger", MERGERS)
@pytest.mark.parametrize("name", OUTPUTS)
def test_table_iii_each_output_is_a_policy(merger: str, name: str) -> None:
    policy, expected = OUTPUTS[name]
    merge = MERGERS[merger](DEFAULT_SCHEMA, "r3", policy)
    numbers = {1: merge.attach(), 2: merge.attach()}
    assert [say(merge, numbers[stream], text) for stream, text in TABLE_III] == expected


def test_table_iii_the_three_outputs_are_one_table() -> None:
    tables = [table(" ".join(out)) for _, out in OUTPUTS.values()]
    assert tables[0] == tables[1] == tables[2]
    in1 = table("ins(A,6,10) adj(A,6,10,15)")
    in2 = table("ins(A,6,12) ins(B,7,14) adj(A,6,12,15) stable(16)")
    for output in tables:
        check_compatible([in1, in2], output)


# -- Example 5: what is compatible depends on the streams -------------------------------------


def can_still_say(output: list[Open | Close], stream: list[Open | Close]) -> bool:
    """Whether an output can be continued to the table of `stream`, with one close for an open."""
    missing = [e for e in stream if e not in output]
    closed = {e.payload for e in output if isinstance(e, Close)}
    if any(isinstance(e, Close) and e.payload in closed for e in missing):
        return False
    return reconstitute([*output, *missing]) == reconstitute(stream)


def test_example_5_with_one_close_for_an_open_compatible_means_contained() -> None:
    prefix = U[:4]
    for size in range(len(prefix)):
        assert can_still_say(prefix[:size], prefix), "O in I: F is what is missing"
    assert not can_still_say([*prefix, Open("D", 7)], prefix), "nothing takes an open back"
    assert not can_still_say([Open("A", 1), Close("A", 4)], [Open("A", 1), Close("A", 5)])


def test_example_5_of_several_inputs_the_union_counts() -> None:
    i1, i2 = S[:3], U[:2]
    output: Words = [Open("A", 1), Close("A", 4), Open("B", 2)]
    assert {*output} <= {*i1, *i2}
    assert not {*output} <= {*i1}
    assert can_still_say(output, S)


def test_the_notation_of_the_tests_is_that_of_the_paper() -> None:
    assert format(parse(PHY1)) == PHY1
