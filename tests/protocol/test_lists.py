"""Lists of every layout that Arrow has become one, and nulls in them are seen where none may be."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gapless.protocol.errors import FrameError
from gapless.protocol.lists import is_list, normal, normal_type
from gapless.protocol.nulls import check_nulls, null_rows
from gapless.protocol.values import from_values, to_values
from tests.protocol.strategies import arrays, payload_types

LEAVES = [
    pa.int8(),
    pa.string(),
    pa.large_binary(),
    pa.string_view(),
    pa.dictionary(pa.int8(), pa.string()),
]


def any_lists(inside: st.SearchStrategy[pa.DataType]) -> st.SearchStrategy[pa.DataType]:
    layouts = [pa.list_, pa.large_list, pa.list_view, pa.large_list_view, lambda f: pa.list_(f, 2)]
    field = st.builds(pa.field, st.sampled_from(["item", "element", "l"]), inside)
    return st.builds(lambda layout, field: layout(field), st.sampled_from(layouts), field)


LEAF = st.sampled_from(LEAVES)
STRUCTS = any_lists(LEAF).map(lambda t: pa.struct([("x", t), ("y", pa.int16())]))
LISTS = any_lists(LEAF) | any_lists(STRUCTS) | any_lists(any_lists(LEAF)) | STRUCTS


def plain_values(t: pa.DataType) -> st.SearchStrategy[Any]:
    """Values as Arrow takes and gives them."""
    if pa.types.is_dictionary(t):
        return plain_values(t.value_type)
    if pa.types.is_struct(t):
        fields = {field.name: plain_values(field.type) for field in t}
        return st.none() | st.fixed_dictionaries(fields)
    if is_list(t):
        fixed = t.list_size if pa.types.is_fixed_size_list(t) else None
        item = plain_values(t.value_type)
        return st.none() | st.lists(item, min_size=fixed or 0, max_size=fixed or 3)
    if pa.types.is_integer(t):
        return st.none() | st.integers(0, 3)
    texts = st.sampled_from(["", "a", "longer than any inline form"])
    is_text = pa.types.is_string(t) or pa.types.is_string_view(t)
    return st.none() | (texts if is_text else texts.map(str.encode))


@given(data=st.data(), t=LISTS, start=st.integers(0, 3), length=st.integers(0, 5))
def test_oracle_a_list_of_any_layout_keeps_its_values_in_the_one_layout(
    data: st.DataObject, t: pa.DataType, start: int, length: int
) -> None:
    rows = data.draw(st.lists(plain_values(t), min_size=5, max_size=8))
    made = normal(pa.array(rows, t).slice(start, length))
    made.validate(full=True)
    assert made.type == normal_type(t)
    assert made.to_pylist() == rows[start : start + length]
    assert normal_type(made.type).equals(made.type, check_metadata=True)


def test_views_of_lists_may_lie_in_any_order_and_share_elements() -> None:
    ends = pa.array([2, 0, 1], pa.int32()), pa.array([1, 2, 2], pa.int32())
    views = pa.ListViewArray.from_arrays(*ends, pa.array([10, 11, 12]))
    assert normal(views).to_pylist() == [[12], [10, 11], [11, 12]]
    assert normal(views.slice(1)).to_pylist() == [[10, 11], [11, 12]]


def test_a_null_list_an_empty_one_and_one_of_a_null_are_three() -> None:
    rows = [None, (), (None,), ((),), ((None,),)]
    t = pa.list_(pa.list_(pa.float64()))
    assert to_values(from_values(rows, t)) == rows
    assert len(set(rows)) == 5


@pytest.mark.parametrize("bad", ["ab", b"cd", 5, {"a": 1}, ["a", 5]])
def test_what_is_no_list_of_the_type_makes_no_column(bad: Any) -> None:
    with pytest.raises(FrameError, match="column 'value' of type list<item: string>"):
        from_values([("a",), bad], pa.list_(pa.string()))


@given(payload_types().flatmap(lambda t: st.tuples(arrays(t), st.booleans())))
def test_oracle_rows_have_a_null_where_none_may_be_exactly_when_they_fail_alone(
    drawn: tuple[pa.Array, bool],
) -> None:
    array, nullable = drawn
    field = pa.field("x", array.type, nullable)

    def fails(row: int) -> bool:
        try:
            check_nulls(field, array.slice(row, 1))
        except FrameError:
            return True
        return False

    assert null_rows(field, array).to_pylist() == [fails(row) for row in range(len(array))]


def test_nulls_in_lists_are_found_in_their_rows() -> None:
    item = pa.field("item", pa.struct([pa.field("x", pa.int8(), nullable=False)]))
    field = pa.field("l", pa.list_(pa.field("item", pa.list_(item), nullable=False)))
    rows = [None, (), ((),), (((1,),),), (None,), ((None,),), ((), ((None,),))]
    array = from_values(rows, field.type)
    assert null_rows(field, array).to_pylist() == [False] * 4 + [True, False, True]
    with pytest.raises(FrameError, match=r"column l\.item: nulls"):
        check_nulls(field, array)
