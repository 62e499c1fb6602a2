"""A reader's place: rows before it are passed over, and what is missing around it is an error."""

from __future__ import annotations

import pytest

from gapless.journal.commit import Commits
from gapless.journal.cursor import Piece
from gapless.journal.disk import Disk
from gapless.journal.layout import opened
from gapless.journal.place import Place
from gapless.journal.reader import Reader
from gapless.journal.segment import no_rows
from gapless.protocol.errors import JournalError, Misuse
from tests.journal.journals import batch, drain, layout, memory, writer


def place_in_two_partitions() -> tuple[Place, Commits]:
    disk = memory()
    out = writer(disk, shape=layout(2))
    out.append(batch([(100 + i, key, i) for i, key in enumerate("abcddd" * 4)]))
    out.close()
    commits = Commits(disk, opened(disk))
    return Place(disk, commits, [0, 1]), commits


def piece_of(offset: int, rows: int, passed: int = 0) -> Piece:
    disk = memory()
    out = writer(disk, shape=layout(1))
    out.append(batch([(100 + i, "a", i) for i in range(rows)]))
    frame = Reader(disk).read()
    assert frame is not None
    return Piece(0, offset, frame, None, passed)


@pytest.mark.parametrize(
    ("at", "offset", "rows", "passed", "left"),
    [
        (0, 0, 4, 0, [0, 1, 2, 3]),
        (2, 0, 4, 0, [2, 3]),
        (4, 0, 4, 0, []),
        (9, 0, 4, 0, []),
        (2, 5, 4, 3, [0, 1, 2, 3]),
    ],
)
def test_rows_before_a_place_are_not_read_again(
    at: int, offset: int, rows: int, passed: int, left: list[int]
) -> None:
    place, _ = place_in_two_partitions()
    place.offsets[0] = at
    piece = place.unread(piece_of(offset, rows, passed))
    assert piece.frame.payload.column("n").to_pylist() == left


def test_rows_that_are_missing_before_a_piece_are_an_error() -> None:
    place, _ = place_in_two_partitions()
    place.offsets[0] = 3
    with pytest.raises(JournalError, match="partition 0 continues at row 5 after row 2"):
        place.unread(piece_of(5, 4, passed=1))
    nothing = Piece(0, 5, no_rows(layout(2).schema), 7)
    assert place.unread(nothing) is nothing


def test_behind_a_commit_are_all_rows_that_it_and_those_before_it_have() -> None:
    place, commits = place_in_two_partitions()
    place.move_behind(0)
    assert place.position == {0: 0, 1: 0}
    place.move_behind(commits.head.number)
    assert place.position == dict(enumerate(commits.head.rows))
    assert sum(place.position.values()) == 24


def test_a_position_is_of_the_partitions_that_are_read() -> None:
    place, commits = place_in_two_partitions()
    with pytest.raises(Misuse, match=r"a position of partitions \[0\], read are \[0, 1\]"):
        place.is_ahead({0: 0})
    rows = commits.head.rows
    assert not place.is_ahead(dict(enumerate(rows)))
    assert place.is_ahead({0: rows[0], 1: rows[1] + 1})


def test_a_position_beyond_the_end_says_that_rows_were_lost(disk: Disk) -> None:
    out = writer(disk, shape=layout(1))
    out.append(batch([(100, "a", 1)]))
    assert drain(Reader(disk, start={0: 1})) == []
    with pytest.raises(JournalError, match="has 1 rows, the position is 2"):
        Reader(disk, start={0: 2})
    with pytest.raises(Misuse, match="a position of partitions"):
        Reader(disk, start={1: 2})
