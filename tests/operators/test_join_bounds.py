"""What one frame of a join causes comes in bounded parts, however its rows lie in memory."""

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from gapless.operators import join_pairs, join_side, join_unmatched
from gapless.operators import memory as memory_module
from gapless.operators.join import Join
from gapless.operators.memory import Memory
from gapless.protocol.elements import INF
from gapless.protocol.errors import (
    MemoryLimit,
)
from gapless.protocol.frame import Frame
from gapless.protocol.schema import StreamSchema
from gapless.protocol.tdb import Tdb
from tests.effort import cases
from tests.operators import laws
from tests.operators.join_cases import (
    HOWS,
    LEFT,
    ON,
    RIGHT,
    Case,
    check_each_push,
)
from tests.operators.join_oracle import Oracle

WIDE = StreamSchema({"key": "string", "b": "int64", "text": "string"})


def of_one_key(schema: StreamSchema, rows: int, lives: int = 50, text: str = "") -> Frame:
    """Rows that are alive together for most of their lives."""
    vs = np.arange(rows)
    columns = [pa.array(["x"] * rows), pa.array(vs), pa.array([text] * rows)]
    names = schema.names
    payload = pa.RecordBatch.from_arrays(columns[: len(names)], schema=schema.payload)
    return Frame.from_columns(schema, vs, vs + lives, payload)


def largest_parts(join: Join, *pushes: tuple[int, Frame]) -> tuple[int, int, int]:
    """Of all parts that come: the most rows and the most bytes of one, and the rows of all."""
    parts = [out.frame for source, frame in pushes for out in join.parts(source, frame)]
    return (
        max(map(len, parts)),
        max(part.nbytes for part in parts),
        sum(map(len, parts)),
    )


@pytest.mark.parametrize("how", HOWS)
def test_what_one_frame_causes_comes_in_parts_of_bounded_rows(
    how: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(join_pairs, "ANSWER_ROWS_MAX", 64)
    monkeypatch.setattr(join_side, "PAIRS_AT_ONCE_MAX", 100)
    join = Join(LEFT, RIGHT, ON, how=how)
    stored, comes = of_one_key(LEFT, 100, 500), of_one_key(RIGHT, 100, 500)
    most, _, rows = largest_parts(join, (0, stored), (1, comes))
    assert rows == 10_000
    assert most <= 64
    most, _, rows = largest_parts(join, (0, Frame.empty(LEFT, INF)), (1, Frame.empty(RIGHT, INF)))
    assert most <= 64


def test_wide_rows_come_in_parts_of_bounded_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory_module, "PART_BYTES_MAX", 50_000)
    pushes = (0, of_one_key(LEFT, 30)), (1, of_one_key(WIDE, 30, text="a text of some length" * 99))
    for given in (pushes, pushes[::-1]):
        rows_most, bytes_most, rows = largest_parts(Join(LEFT, WIDE, ON), *given)
        assert rows == 900
        assert rows_most < 50
        assert bytes_most < 1.5 * 50_000
    rows_most, _, _ = largest_parts(
        Join(LEFT, RIGHT, ON), (0, pushes[0][1]), (1, of_one_key(RIGHT, 30))
    )
    assert rows_most == 900


def test_no_more_pairs_are_laid_out_than_there_is_room_for() -> None:
    left, right = of_one_key(LEFT, 400, 1000), of_one_key(RIGHT, 400, 1000)
    unbounded = largest_parts(Join(LEFT, RIGHT, ON), (0, left), (1, right))
    join = Join(LEFT, RIGHT, ON)
    join.memory = Memory(500_000, [("join", join)])
    assert largest_parts(join, (0, left), (1, right))[2] == unbounded[2] == 160_000
    join = Join(LEFT, RIGHT, ON)
    join.memory = Memory(500_000, [("join", join)])
    most, _, _ = largest_parts(join, (0, left), (1, right))
    assert most < unbounded[0] / 4
    join = Join(LEFT, RIGHT, ON)
    join.memory = Memory(1000, [("join", join)])
    join.push(0, left)
    with pytest.raises(MemoryLimit, match="for pairs of rows that join"):
        next(join.parts(1, right))


def test_a_join_whose_output_is_read_part_by_part_gives_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(join_pairs, "ANSWER_ROWS_MAX", 2)
    monkeypatch.setattr(join_unmatched, "ANSWER_ROWS_MAX", 1)
    monkeypatch.setattr(join_side, "PAIRS_AT_ONCE_MAX", 3)
    for seed in range(cases(40)):
        case = Case(seed)
        check_each_push(case, case.told)


def test_a_payload_that_is_nan_equals_itself() -> None:
    left, right = StreamSchema({"x": "float64"}), StreamSchema({"y": "float64"})
    join = Join(left, right, [("x", "y")])
    zeros = pa.array([float("nan"), -0.0])
    times = np.array([0, 0]), np.array([9, 9])
    join.push(0, Frame.from_columns(left, *times, [zeros]))
    joined = join.push(1, Frame.from_columns(right, *times, [pa.array([0.0, float("nan")])]))
    assert len(joined.frame) == 2


def test_inputs_may_have_columns_of_any_type() -> None:
    types = {
        "k": pa.dictionary(pa.int32(), pa.string()),
        "s": pa.struct([("x", pa.string_view()), ("y", pa.decimal128(9, 2))]),
        "v": pa.string_view(),
        "b": pa.bool_(),
    }
    schema = StreamSchema(pa.schema(list(types.items())))
    values = [[None, "x", "x"], [None, {"x": "long" * 9, "y": None}, None], ["v"] * 3, [True] * 3]
    keys = pa.array(values[0], pa.string()).dictionary_encode()
    others = zip(values[1:], list(types.values())[1:], strict=True)
    columns = [keys, *(pa.array(v, t) for v, t in others)]
    vs, ve = np.array([0, 0, 5]), np.array([9, 9, 9])
    join = Join(schema, schema, [("k", "k")], how="full")
    out = Tdb(join.schema)
    for source in (0, 1):
        frame = Frame.from_columns(schema, vs, ve, columns, stable=INF)
        laws.follow(join, out, source, frame)
    assert join.schema.names == ["k", "s", "v", "b", "s_right", "v_right", "b_right"]
    assert len(out) == 4 + 2  # pairs of x, and the rows without a key
    nulls = pa.array([None, "x"], pa.string())
    hidden = pa.DictionaryArray.from_arrays(pa.array([0, 1], pa.int32()), nulls)
    frame = Frame.from_columns(
        schema, vs[:2], ve[:2], [hidden, *(c.slice(0, 2) for c in columns[1:])]
    )
    join = Join(schema, schema, [("k", "k")])
    join.push(0, frame)
    assert len(join.push(1, frame).frame) == 1  # a null inside the dictionary is a null


def dictionary(values: list[object], indices: list[int | None], t: pa.DataType) -> pa.Array:
    made = pa.array(values, pa.string() if pa.types.is_string_view(t) else t).cast(t)
    return pa.DictionaryArray.from_arrays(pa.array(indices, pa.int32()), made)


LAYOUTS = {
    "dictionary of views": dictionary(["x", "y"], [0, 1, None, 0], pa.string_view()),
    "dictionary of views with a null": dictionary(["x", None], [0, 1, None, 0], pa.string_view()),
    "dictionary with a null": dictionary(["x", None], [0, 1, None, 0], pa.string()),
    "dictionary of floats": dictionary([float("nan"), None], [0, 1, None, 0], pa.float64()),
    "views": pa.array(["x", "y", None, "x"], pa.string_view()),
    "struct of dictionaries": pa.StructArray.from_arrays(
        [dictionary(["x", "y"], [0, 1, None, 0], pa.string())],
        fields=[pa.field("d", pa.dictionary(pa.int32(), pa.string()))],
        mask=pa.array([False, False, True, False]),
    ),
    "struct of structs of dictionaries of views": pa.StructArray.from_arrays(
        [
            pa.StructArray.from_arrays(
                [dictionary(["x", None], [0, 1, None, 0], pa.string_view())], names=["d"]
            )
        ],
        names=["s"],
    ),
}


@pytest.mark.parametrize("how", HOWS)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_oracle_keys_and_payloads_may_lie_in_memory_in_any_way(layout: str, how: Any) -> None:
    values = LAYOUTS[layout]
    left = StreamSchema(pa.schema({"k": values.type, "p": values.type}))
    right = StreamSchema(pa.schema({"k": values.type, "q": values.type}))
    vs, ve = np.arange(4), np.array([9, 9, 9, 9])
    join = Join(left, right, [("k", "k")], how=how)
    inputs, out = (Tdb(left), Tdb(right)), Tdb(join.schema)
    given = [values, values]
    for source, schema in enumerate((left, right)):
        frame = Frame.from_columns(schema, vs, ve, given, stable=INF)
        inputs[source].fold(frame)
        laws.follow(join, out, source, frame)
    assert out.counts() == Oracle(((0, 0),), how).table(*inputs)
