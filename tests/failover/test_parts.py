"""Frames of any size travel in small parts: all rows, in order, the stable behind them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gapless.failover import parts
from gapless.failover.parts import cut, grouped, joined
from gapless.protocol.frame import Frame
from gapless.protocol.schema import StreamSchema
from gapless.protocol.text import format, parse

SCHEMA = StreamSchema({"n": "int64"})
WIDE = StreamSchema({"text": "string"})


def rows(count: int, first: int = 0, stable: int | None = None) -> Frame:
    """So many rows, told apart by their numbers."""
    text = " ".join(f"ins({n},1,5)" for n in range(first, first + count))
    end = "" if stable is None else f" stable({stable})"
    return Frame.from_elements(SCHEMA, parse(text + end, SCHEMA))


def text_of(frame: Frame) -> str:
    return format(frame.elements())


@given(st.integers(0, 40), st.integers(1, 12), st.sampled_from([None, 1]))
def test_parts_are_small_and_together_are_the_frame(
    count: int, rows_max: int, stable: int | None
) -> None:
    frame = rows(count, stable=stable)
    found = cut(frame, rows_max=rows_max)
    assert all(len(part) <= rows_max for part in found)
    assert len(found) == max(1, -(-count // rows_max))
    assert [part.stable for part in found] == [None] * (len(found) - 1) + [stable]
    assert text_of(joined(found).with_stable(stable)) == text_of(frame)


def test_a_frame_that_is_small_enough_is_not_copied() -> None:
    frame = rows(5, stable=1)
    assert cut(frame, rows_max=5) == [frame]
    assert cut(frame, rows_max=5)[0] is frame


def test_wide_rows_make_more_parts() -> None:
    elements = parse(" ".join(f"ins({'x' * 200}{n},1,5)" for n in range(10)), WIDE)
    frame = Frame.from_elements(WIDE, elements)
    found = cut(frame, bytes_max=frame.nbytes // 3)
    assert [len(part) for part in found] == [3, 3, 3, 1]


def test_a_single_row_is_one_part_however_wide_it_is() -> None:
    frame = Frame.from_elements(WIDE, parse(f"ins({'x' * 200},1,5)", WIDE))
    assert cut(frame, bytes_max=10) == [frame]


def test_a_slice_of_a_large_frame_counts_as_large_as_itself() -> None:
    """Its buffers are those of the whole."""
    few = rows(2_000).slice(0, 2)
    assert few.batch.get_total_buffer_size() > 1_000
    assert len(cut(few, bytes_max=1_000)) == 1


# -- small frames together ------------------------------------------------------------------------


@pytest.fixture
def four(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parts, "ROWS_MAX", 4)


@pytest.mark.usefixtures("four")
@pytest.mark.parametrize(
    ("sizes", "groups"),
    [
        ([], []),
        ([0, 0], []),
        ([1, 0, 2], [[1, 2]]),
        ([3, 1, 1], [[3, 1], [1]]),
        ([2, 3, 1], [[2], [3, 1]]),
        ([9, 1], [[9], [1]]),
        ([4, 4], [[4], [4]]),
    ],
)
def test_small_frames_stand_together_up_to_the_rows_of_a_part(
    sizes: list[int], groups: list[list[int]]
) -> None:
    assert [[len(frame) for frame in group] for group in grouped(map(rows, sizes))] == groups


@pytest.mark.usefixtures("four")
def test_the_rows_of_a_group_stay_in_order_and_promise_nothing() -> None:
    (group,) = grouped([rows(2, 0, stable=1), rows(1, 7, stable=1)])
    assert text_of(joined(group)) == "ins(0,1,5) ins(1,1,5) ins(7,1,5)"
