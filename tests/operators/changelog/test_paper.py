"""Examples 2 and 5 of the LMerge paper: streams of open and close elements."""

from __future__ import annotations

import itertools

import pytest

from gapless.operators.changelog import ChangelogReader, OpenClose, Retractions
from gapless.protocol.changelog import Changes
from gapless.protocol.elements import INF
from gapless.protocol.errors import ChangeError
from gapless.protocol.schema import StreamSchema
from gapless.protocol.tdb import Event, Tdb
from tests.operators.changelog.logs import changes

SCHEMA = StreamSchema({"p": "string"})
TABLE = Tdb(SCHEMA, [Event(("A",), 1, 4), Event(("B",), 2, 5), Event(("C",), 3, INF)])

Said = tuple[str, str, int]
S: list[Said] = [
    ("open", "A", 1), ("open", "B", 2), ("open", "C", 3), ("close", "A", 4), ("close", "B", 5),
]  # fmt: skip
U: list[Said] = [
    ("open", "A", 1), ("close", "A", 4), ("open", "B", 2), ("close", "B", 5), ("open", "C", 3),
]  # fmt: skip
W: list[Said] = [
    ("open", "B", 2), ("close", "B", 6), ("open", "A", 1), ("open", "C", 3), ("close", "A", 4),
    ("close", "B", 5),
]  # fmt: skip


def as_changes(said: list[Said]) -> Changes:
    kinds = {"open": "+I", "close": "-D"}
    return changes([(kinds[kind], time, (p,)) for kind, p, time in said], SCHEMA)


def table(reader: ChangelogReader, said: list[Said], at_once: bool = False) -> Tdb:
    """What the reader makes of a stream, element by element or all at once."""
    out = Tdb(SCHEMA)
    for part in [said] if at_once else [[one] for one in said]:
        out.fold(reader.push(as_changes(part)))
    return out


# -- Example 2 ------------------------------------------------------------------------------------


@pytest.mark.parametrize("at_once", [True, False])
def test_the_prefixes_s_u_and_w_are_equivalent(at_once: bool) -> None:
    for said in (S, U, W):
        assert table(OpenClose(SCHEMA), said, at_once) == TABLE
    for said in (S, U):
        assert table(Retractions(SCHEMA), said, at_once) == TABLE


def test_a_close_that_revises_is_one_too_many_where_closes_are_counted() -> None:
    with pytest.raises(ChangeError, match=r"row 0: takes away at 5 a row"):
        table(Retractions(SCHEMA), W)


def test_a_close_may_also_be_revised_to_a_later_time() -> None:
    reader, out = OpenClose(SCHEMA), Tdb(SCHEMA)
    for said in ([*W], [("close", "B", 9)]):
        out.fold(reader.push(as_changes(said)))
    assert Event(("B",), 2, 9) in out
    assert len(out) == len(TABLE)


# -- Example 5: each open has at most one close ----------------------------------------------------
# "Output O is compatible with input I if O is a subset of I", and only then.

ALPHABET: list[Said] = [
    ("open", "A", 1), ("close", "A", 4), ("close", "A", 5), ("open", "B", 2), ("close", "B", 6),
]  # fmt: skip


def legal(said: list[Said]) -> Tdb | None:
    """The table of a stream with at most one close for each open; None where it has more."""
    try:
        return table(Retractions(SCHEMA), sorted(said, key=lambda e: e[2]))
    except ChangeError:
        return None


STREAMS = [
    list(chosen)
    for n in range(len(ALPHABET) + 1)
    for chosen in itertools.combinations(ALPHABET, n)
    if legal(list(chosen)) is not None
]


def can_become(output: list[Said], wanted: Tdb) -> bool:
    """Whether some extension of the output tells the wanted table."""
    extensions = (
        [e for e in longer if e not in output]
        for longer in STREAMS
        if all(e in longer for e in output)
    )
    return any(legal(output + more) == wanted for more in extensions)


def test_an_output_is_compatible_exactly_when_the_input_has_all_of_it() -> None:
    compatible = 0
    for given in STREAMS:
        for output in STREAMS:
            # whatever the input is extended by, the output must be able to follow
            follows = all(
                can_become(output, legal(longer))  # type: ignore[arg-type]  # streams are legal
                for longer in STREAMS
                if all(e in longer for e in given)
            )
            assert follows == all(e in given for e in output), (given, output)
            compatible += follows
    assert compatible > len(STREAMS)


def test_a_second_close_cannot_be_said() -> None:
    assert legal([("open", "A", 1), ("close", "A", 4), ("close", "A", 5)]) is None
