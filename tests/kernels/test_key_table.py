"""What a key table promises, held by the native one and by its twin alike."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gapless.protocol.values import payload_tuples
from tests.kernels.conftest import Kernel
from tests.kernels.raw_columns import (
    FIXED_TYPES,
    FLOATS,
    INDEX_TYPES,
    LEAF_TYPES,
    key_types,
    raw_batch,
    raw_column,
    schemas,
)

TWO = pa.schema([("a", pa.int64()), ("b", pa.int64())])
Batches = Callable[[int, int], pa.RecordBatch]
SEEDS = st.integers(0, 2**32 - 1)


def two(a: list[int | None], b: list[int | None] | None = None) -> pa.RecordBatch:
    return pa.record_batch([pa.array(a, pa.int64()), pa.array(b or a, pa.int64())], schema=TWO)


def one(values: list[object] | pa.Array, t: pa.DataType | None = None) -> pa.RecordBatch:
    return pa.record_batch([pa.array(values, t) if t else values], names=["a"])


def numbers(count: int, start: int = 0) -> pa.RecordBatch:
    a = np.arange(start, start + count)
    return pa.record_batch([a, a * 7], schema=TWO)


# -- ids ------------------------------------------------------------------------------------------


def test_equal_rows_get_one_id_and_are_first_seen_once(kernel: Kernel) -> None:
    table = kernel.KeyTable(TWO)
    ids, first_seen = table.intern(two([5, 6, 5, 5, 6]))
    assert ids.tolist() == [0, 1, 0, 0, 1]
    assert first_seen.tolist() == [True, True, False, False, False]
    ids, first_seen = table.intern(two([6, 7]))
    assert ids.tolist() == [1, 2]
    assert first_seen.tolist() == [False, True]
    assert (ids.dtype, first_seen.dtype) == (np.int64, np.bool_)
    assert len(table) == 3
    table.validate()


def test_a_table_knows_its_schema(kernel: Kernel) -> None:
    assert kernel.KeyTable(TWO).schema == TWO


def test_new_rows_get_the_lowest_free_ids(kernel: Kernel) -> None:
    table = kernel.KeyTable(TWO)
    table.intern(numbers(6))
    table.release([4, 1, 2])
    ids, _ = table.intern(numbers(5, start=100))
    assert ids.tolist() == [1, 2, 4, 6, 7]
    table.validate()


def test_capacity_is_one_above_the_largest_live_id(kernel: Kernel) -> None:
    table = kernel.KeyTable(TWO)
    assert table.capacity == 0
    table.intern(numbers(200))
    assert table.capacity == 200
    table.release([150, 199])
    assert table.capacity == 199
    table.release(np.setdiff1d(np.arange(199), [3, 150]))
    assert table.capacity == 4
    table.release([3])
    assert table.capacity == 0
    assert table.intern(two([1]))[0].tolist() == [0]
    table.validate()


def test_find_adds_nothing_and_gives_minus_one_where_absent(kernel: Kernel) -> None:
    table = kernel.KeyTable(TWO)
    table.intern(two([1, None, 3]))
    assert table.find(two([3, 4, None, 1])).tolist() == [2, -1, 1, 0]
    assert len(table) == 3


def test_rows_before_a_time_find_an_id_and_make_none(kernel: Kernel) -> None:
    table = kernel.KeyTable(TWO)
    table.intern(two([1]))
    ids, first_seen = table.intern_since(two([1, 2, 2, 3, 2]), np.array([4, 4, 5, 6, 4]), 5)
    assert ids.tolist() == [0, -1, 1, 2, 1]
    assert first_seen.tolist() == [False, False, True, True, False]
    assert len(table) == 3
    table.validate()


@pytest.mark.parametrize(
    ("times", "error"),
    [(np.zeros(3), TypeError), (np.zeros(3, np.int32), TypeError), (np.arange(2), ValueError)],
)
def test_times_are_int64_and_one_a_row(
    kernel: Kernel, times: object, error: type[Exception]
) -> None:
    table = kernel.KeyTable(TWO)
    with pytest.raises(error):
        table.intern_since(two([1, 2, 3]), times, 0)
    assert len(table) == 0


def test_a_released_row_is_absent_and_new_when_it_comes_again(kernel: Kernel) -> None:
    table = kernel.KeyTable(TWO)
    table.intern(two([1, 2]))
    table.release([0])
    assert table.find(two([1, 2])).tolist() == [-1, 1]
    assert table.intern(two([1]))[1].tolist() == [True]


def test_no_rows_are_no_rows(kernel: Kernel) -> None:
    table = kernel.KeyTable(TWO)
    ids, first_seen = table.intern(two([]))
    assert (len(ids), len(first_seen), len(table)) == (0, 0, 0)
    assert len(table.find(two([]))) == 0
    table.release([])
    assert table.rows([]).equals(two([]))
    table.validate()


@pytest.mark.parametrize("bad", [[7], [-1], [0, 3], [2**40], [0, 1, 0]])
def test_releasing_what_is_not_live_is_an_error_that_changes_nothing(
    kernel: Kernel, bad: list[int]
) -> None:
    table = kernel.KeyTable(TWO)
    table.intern(two([10, 11, 12]))
    with pytest.raises(ValueError, match=r"release: id -?[0-9]+ (is not live|comes twice)"):
        table.release(bad)
    assert table.find(two([10, 11, 12])).tolist() == [0, 1, 2]
    table.validate()


def test_rows_of_an_id_that_is_not_live_are_an_error(kernel: Kernel) -> None:
    table = kernel.KeyTable(TWO)
    table.intern(two([10, 11]))
    table.release([0])
    for bad in (0, 2, -1):
        with pytest.raises(ValueError, match=f"rows: id {bad} is not live"):
            table.rows([1, bad])


@pytest.mark.parametrize("ids", [[0.0], ["0"], [[0]], np.array([2**63], np.uint64)])
def test_ids_are_integers_in_one_dimension(kernel: Kernel, ids: object) -> None:
    table = kernel.KeyTable(TWO)
    table.intern(two([10]))
    with pytest.raises(TypeError, match="ids: "):
        table.release(ids)
    with pytest.raises(TypeError, match="ids: "):
        table.rows(ids)
    assert len(table) == 1


@pytest.mark.parametrize("ids", [np.arange(6)[::2], np.arange(3, dtype=np.uint8), range(3)])
def test_ids_may_come_in_any_integer_form(kernel: Kernel, ids: object) -> None:
    table = kernel.KeyTable(TWO)
    table.intern(numbers(6))
    table.release(ids)
    assert len(table) == 3


# -- what is equal --------------------------------------------------------------------------------


@given(t=key_types(fields_min=1), seed=SEEDS)
def test_oracle_rows_share_an_id_exactly_when_their_values_are_equal(
    kernel: Kernel, t: pa.DataType, seed: int
) -> None:
    schema = pa.schema([("a", t)])
    rng = np.random.default_rng(seed)
    batches = [raw_batch(rng, schema, rows) for rows in (40, 3)]
    table = kernel.KeyTable(schema)
    ids = np.concatenate([table.intern(batch)[0] for batch in batches]).tolist()
    values = [row for batch in batches for row in payload_tuples(batch)]
    table.validate()
    assert len(set(ids)) == len(set(values)) == len(set(zip(ids, values, strict=True)))


@given(schema=schemas(fields_min=1), seed=SEEDS)
def test_rows_come_back_as_they_went_in(kernel: Kernel, schema: pa.Schema, seed: int) -> None:
    rng = np.random.default_rng(seed)
    table = kernel.KeyTable(schema)
    batch = raw_batch(rng, schema, 30)
    ids, _ = table.intern(batch)
    back = table.rows(ids)
    back.validate(full=True)
    assert back.schema == schema
    assert back.num_rows == 30
    assert payload_tuples(back) == payload_tuples(batch)
    assert table.find(back).tolist() == ids.tolist()
    assert table.find(batch).tolist() == ids.tolist()


@pytest.mark.parametrize("bits", [16, 32, 64])
def test_nan_equals_nan_and_zero_equals_minus_zero(kernel: Kernel, bits: int) -> None:
    dtype, patterns = FLOATS[bits]
    t = {16: pa.float16(), 32: pa.float32(), 64: pa.float64()}[bits]
    column = pa.array(np.array(patterns[:7], dtype)).view(t)
    ids, _ = kernel.KeyTable(pa.schema([("a", t)])).intern(one(column))
    assert ids.tolist() == [0, 0, 1, 1, 1, 2, 3]


@pytest.mark.parametrize("t", [*LEAF_TYPES, pa.struct([("x", pa.int8()), ("y", pa.string())])])
def test_null_is_a_value_of_its_own(kernel: Kernel, t: pa.DataType) -> None:
    some = raw_column(np.random.default_rng(0), t, 20)
    value = some[some.is_valid().to_pylist().index(True) :][:1]
    table = kernel.KeyTable(pa.schema([("a", t)]))
    for column, id in ((pa.nulls(2, t), 0), (value, 1), (pa.nulls(1, t), 0), (value, 1)):
        assert set(table.intern(one(column))[0].tolist()) == {id}
    assert table.rows([0, 1]).column(0).is_null().to_pylist() == [True, False]


def test_the_first_null_may_come_when_the_table_is_full_of_rows(kernel: Kernel) -> None:
    table = kernel.KeyTable(pa.schema([("a", pa.int64()), ("b", pa.string())]))

    def batch(a: list[int | None], b: list[str | None]) -> pa.RecordBatch:
        return pa.record_batch([pa.array(a, pa.int64()), pa.array(b, pa.string())], ["a", "b"])

    full = batch(list(range(1000)), [f"text {i}" for i in range(1000)])
    ids, _ = table.intern(full)
    table.release(np.arange(0, 1000, 3))
    assert table.find(batch([None, 1], ["text 1", None])).tolist() == [-1, -1]
    table.validate()
    assert table.intern(batch([None, 1], ["text 1", None]))[0].tolist() == [0, 3]
    table.validate()
    assert table.find(full).tolist() == [-1 if i % 3 == 0 else i for i in ids.tolist()]


def test_a_null_struct_differs_from_a_struct_of_nulls_at_every_level(kernel: Kernel) -> None:
    t = pa.struct([("x", pa.struct([("y", pa.int32())]))])
    values = [None, {"x": None}, {"x": {"y": None}}, {"x": {"y": 0}}]
    table = kernel.KeyTable(pa.schema([("a", t)]))
    ids, _ = table.intern(one(values + values, t))
    assert ids.tolist() == [0, 1, 2, 3] * 2
    assert table.rows([3, 2, 1, 0]).column(0).to_pylist() == values[::-1]


def test_a_struct_hides_what_lies_under_its_nulls(kernel: Kernel) -> None:
    children = [pa.array([1, 2, 3]), pa.array(["a", None, "c"])]
    mask = pa.array([True, True, False])
    column = pa.StructArray.from_arrays(children, names=["x", "y"], mask=mask)
    ids, _ = kernel.KeyTable(pa.schema([("a", column.type)])).intern(one(column))
    assert ids.tolist() == [0, 0, 1]


def test_values_that_only_differ_in_where_one_ends_and_the_next_begins(kernel: Kernel) -> None:
    batch = pa.record_batch([["ab", "a", "", "abc"], ["c", "bc", "abc", ""]], ["a", "b"])
    ids, _ = kernel.KeyTable(batch.schema).intern(batch)
    assert ids.tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize("index_type", INDEX_TYPES, ids=str)
def test_two_dictionaries_of_the_same_values_are_the_same(
    kernel: Kernel, index_type: pa.DataType
) -> None:
    t = pa.dictionary(index_type, pa.string())
    table = kernel.KeyTable(pa.schema([("a", t)]))

    def batch(indices: list[int | None], values: list[str | None]) -> pa.RecordBatch:
        column = pa.DictionaryArray.from_arrays(pa.array(indices, index_type), pa.array(values))
        return one(column)

    ids, _ = table.intern(batch([0, 1, 0, None, 2], ["x", "y", None]))
    assert ids.tolist() == [0, 1, 0, 2, 2], "a null index and a null value are the same null"
    ids, _ = table.intern(batch([1, 2, 3, 0, 4], ["z", "y", "y", "x", None]))
    assert ids.tolist() == [1, 1, 0, 3, 2]
    back = table.rows([3, 0, 2]).column(0)
    assert back.type == t
    assert back.to_pylist() == ["z", "x", None]


def test_rows_that_a_dictionary_cannot_hold_are_a_clear_error(kernel: Kernel) -> None:
    t = pa.dictionary(pa.int8(), pa.int32())
    table = kernel.KeyTable(pa.schema([("a", t)]))
    for start in (0, 100):
        values = pa.array(range(start, start + 100), pa.int32())
        table.intern(one(values.dictionary_encode().cast(t)))
    with pytest.raises(ValueError, match=r"column 'a': 200 different values .* fewer rows"):
        table.rows(np.arange(200))
    assert table.rows(np.arange(100)).column(0).to_pylist() == list(range(100))


@pytest.mark.parametrize("bad", [3, -1, 100])
@pytest.mark.parametrize("rows_before", [0, 5000])
def test_a_dictionary_index_outside_is_an_error_that_changes_nothing(
    kernel: Kernel, bad: int, rows_before: int
) -> None:
    t = pa.dictionary(pa.int8(), pa.string())
    schema = pa.schema([("n", pa.int64()), ("d", t)])
    table = kernel.KeyTable(schema)

    def batch(start: int, indices: list[int]) -> pa.RecordBatch:
        d = pa.DictionaryArray.from_arrays(
            pa.array(indices, pa.int8()), pa.array(["x", "y", "z"]), safe=False
        )
        n = pa.array(range(start, start + len(indices)))
        return pa.record_batch([n, d], schema=schema)

    table.intern(batch(0, [0, 1]))
    nbytes = table.nbytes
    with pytest.raises(ValueError, match=rf"column 'd': dictionary index {bad} of a dict.* of 3"):
        table.intern(batch(0, [0] * rows_before + [bad, 2]))
    assert (len(table), table.capacity) == (2, 2)
    assert table.find(batch(0, [0, 1])).tolist() == [0, 1]
    assert table.nbytes < nbytes + 1024  # an arena keeps a few dead bytes
    table.validate()


@pytest.mark.parametrize("t", FIXED_TYPES, ids=str)
def test_a_slice_of_a_batch_is_its_rows(kernel: Kernel, t: pa.DataType) -> None:
    rng = np.random.default_rng(7)
    batch = raw_batch(rng, pa.schema([("a", t), ("b", pa.bool_()), ("c", pa.string())]), 50)
    table = kernel.KeyTable(batch.schema)
    ids, _ = table.intern(batch)
    for offset in (0, 1, 7, 8, 13, 49, 50):
        assert table.find(batch.slice(offset)).tolist() == ids[offset:].tolist()


def test_a_key_without_columns_is_one_key(kernel: Kernel) -> None:
    batch = raw_batch(np.random.default_rng(0), pa.schema([]), 3)
    table = kernel.KeyTable(pa.schema([]))
    assert table.intern(batch)[0].tolist() == [0, 0, 0]
    assert table.rows([0, 0]).num_rows == 2


def test_text_need_not_be_valid(kernel: Kernel) -> None:
    column = pa.array([b"\xff", b"\xfe", b"\xff"]).view(pa.string())
    assert kernel.KeyTable(pa.schema([("a", pa.string())])).intern(one(column))[0].tolist() == [
        0, 1, 0,
    ]  # fmt: skip


# -- schemas --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "t",
    [
        pa.null(),
        pa.large_list(pa.int64()),
        pa.map_(pa.string(), pa.int8()),
        pa.run_end_encoded(pa.int32(), pa.int64()),
        pa.dense_union([pa.field("u", pa.int8())]),
        pa.dictionary(pa.int8(), pa.struct([("x", pa.int8())])),
        pa.dictionary(pa.int8(), pa.dictionary(pa.int8(), pa.string())),
        pa.dictionary(pa.int8(), pa.list_(pa.int8())),
        pa.uuid(),
    ],
    ids=str,
)
def test_other_types_are_refused_by_name(kernel: Kernel, t: pa.DataType) -> None:
    with pytest.raises(TypeError, match=r"column 'bad': type .* is not supported"):
        kernel.KeyTable(pa.schema([("good", pa.int64()), ("bad", t)]))
    with pytest.raises(TypeError, match=r"column 's.bad': type .* is not supported"):
        kernel.KeyTable(pa.schema([("s", pa.struct([("bad", t)]))]))


@pytest.mark.parametrize(
    "t", [pa.string_view(), pa.struct([("x", pa.dictionary(pa.int8(), pa.string()))])], ids=str
)
def test_in_a_list_values_are_plain(kernel: Kernel, t: pa.DataType) -> None:
    with pytest.raises(TypeError, match=r"column 'bad\.item.*': .* is not supported in a list"):
        kernel.KeyTable(pa.schema([("bad", pa.list_(t))]))


@pytest.mark.parametrize("nest", [lambda t: pa.struct([("x", t)]), pa.list_])
def test_types_without_end_are_refused(
    kernel: Kernel, nest: Callable[[pa.DataType], pa.DataType]
) -> None:
    t = pa.int8()
    for _ in range(40):
        t = nest(t)
    with pytest.raises(TypeError, match="nest deeper than 32 levels"):
        kernel.KeyTable(pa.schema([("a", t)]))


@pytest.mark.parametrize("bad", [None, {"a": "int64"}, TWO.field(0)])
def test_a_schema_is_an_arrow_schema(kernel: Kernel, bad: object) -> None:
    with pytest.raises(TypeError, match=r"a pyarrow\.Schema is needed"):
        kernel.KeyTable(bad)


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        (pa.schema([("a", pa.int64())]), "column 1: .* 'b' .* no such column"),
        (TWO.append(pa.field("c", pa.int8())), "column 2: the table has no 'c'"),
        (pa.schema([("a", pa.int64()), ("b", pa.int32())]), "column 1: .* int64, .* int32"),
        (pa.schema([("a", pa.int64()), ("x", pa.int64())]), "column 1: .* 'b' .* 'x'"),
        (pa.schema([("b", pa.int64()), ("a", pa.int64())]), "column 0: .* 'a' .* 'b'"),
    ],
)
def test_a_batch_of_another_schema_is_refused(
    kernel: Kernel, schema: pa.Schema, message: str
) -> None:
    table = kernel.KeyTable(TWO)
    batch = raw_batch(np.random.default_rng(0), schema, 2)
    with pytest.raises(TypeError, match=message):
        table.intern(batch)
    with pytest.raises(TypeError, match=message):
        table.find(batch)
    assert len(table) == 0


@pytest.mark.parametrize("bad", [pa.table({"a": [1], "b": [1]}), [1], None])
def test_a_batch_is_a_record_batch(kernel: Kernel, bad: object) -> None:
    table = kernel.KeyTable(TWO)
    with pytest.raises(TypeError, match=r"a pyarrow\.RecordBatch is needed"):
        table.intern(bad)


def test_metadata_and_nullability_make_no_other_schema(kernel: Kernel) -> None:
    inner = pa.field("x", pa.int64(), nullable=False, metadata={"m": "1"})
    strict = pa.schema([pa.field("a", pa.struct([inner]), nullable=False)], metadata={"n": "2"})
    loose = pa.schema([("a", pa.struct([("x", pa.int64())]))])
    table = kernel.KeyTable(strict)
    batch = pa.record_batch([pa.array([{"x": 1}, {"x": None}, None], loose.field(0).type)], loose)
    assert table.intern(batch)[0].tolist() == [0, 1, 2]
    assert table.find(batch).tolist() == [0, 1, 2]


def _numbers_behind_a_zero(start: int, stop: int) -> pa.RecordBatch:
    return pa.record_batch([np.zeros(stop - start, np.int64), np.arange(start, stop)], schema=TWO)


def _texts(start: int, stop: int) -> pa.RecordBatch:
    return one([f"the same first bytes, and then {i}" for i in range(start, stop)])


@pytest.mark.parametrize("keys", [_numbers_behind_a_zero, _texts])
def test_keys_whose_hashes_collide_stay_apart(native: Kernel, keys: Batches) -> None:
    # Some 20 of the absent keys share all 32 bits of a hash with one that is there.
    table = native.KeyTable(keys(0, 1).schema)
    table.intern(keys(0, 300_000))
    assert len(table) == 300_000
    assert (table.find(keys(300_000, 600_000)) == -1).all()


# -- size -----------------------------------------------------------------------------------------


def test_many_keys_come_and_go_without_a_mistake(kernel: Kernel) -> None:
    table = kernel.KeyTable(TWO)
    live: dict[int, int] = {}
    rng = np.random.default_rng(1)
    for _ in range(60):
        keys = rng.integers(0, 3000, 1000)
        ids, first_seen = table.intern(pa.record_batch([keys, keys * 7], schema=TWO))
        for key, id, first in zip(keys.tolist(), ids.tolist(), first_seen.tolist(), strict=True):
            assert first == (key not in live)
            assert live.setdefault(key, id) == id
        gone = rng.permutation(list(live))[: len(live) // 2].tolist()
        table.release([live.pop(key) for key in gone])
        assert len(table) == len(live)
        table.validate()


@pytest.mark.parametrize("survivors", ["lowest", "highest", "scattered"])
def test_memory_comes_back_after_a_peak(kernel: Kernel, survivors: str) -> None:
    peak = 1_000_000 if kernel.name == "native" else 50_000
    table = kernel.KeyTable(TWO)
    for start in range(0, peak, 50_000):
        table.intern(numbers(50_000, start))
    most = table.nbytes
    assert most > peak * 30
    kept = {
        "lowest": np.arange(10),
        "highest": np.arange(peak - 10, peak),
        "scattered": np.arange(0, peak, peak // 10),
    }[survivors]
    table.release(np.setdiff1d(np.arange(peak), kept))
    assert len(table) == 10
    # A page for each survivor, and a pointer for each page of the directory that the largest needs.
    assert table.nbytes < (most / 100 if kernel.name == "native" else most / 5)
    assert table.rows(kept).column(0).to_pylist() == kept.tolist()
    table.validate()
    table.release(kept)
    assert table.nbytes < 4096


def test_text_that_comes_and_goes_leaves_no_memory_behind(kernel: Kernel) -> None:
    table = kernel.KeyTable(pa.schema([("a", pa.string())]))

    def texts(start: int) -> pa.RecordBatch:
        return one([f"a text of some length, number {i}" for i in range(start, start + 1000)])

    live, _ = table.intern(texts(0))
    settled = table.nbytes
    rng = np.random.default_rng(5)
    for turn in range(1, 30):
        # Half of the rows of each page go, and others come in their place.
        gone = rng.choice(live, 1000, replace=False) if len(live) > 1000 else live[::2]
        table.release(gone)
        ids, _ = table.intern(texts(turn * 1000))
        live = np.union1d(np.setdiff1d(live, gone), ids)
        assert len(table) == len(live) == 1500
        assert table.nbytes < settled * 4
    table.validate()


def test_a_live_key_of_two_int64_takes_at_most_64_bytes(native: Kernel) -> None:
    table = native.KeyTable(TWO)
    for start in range(0, 200_000, 10_000):
        table.intern(numbers(10_000, start))
        if start >= 10_000:
            assert table.nbytes / len(table) <= 64


def test_wide_keys_and_long_frames(kernel: Kernel) -> None:
    schema = pa.schema([(f"c{i}", pa.int32()) for i in range(100)])
    rng = np.random.default_rng(3)
    columns = [rng.integers(0, 2, 10_000).astype(np.int32) * (i == 50) for i in range(100)]
    columns[99] = np.arange(10_000, dtype=np.int32) % 5000
    batch = pa.record_batch(columns, schema=schema)
    table = kernel.KeyTable(schema)
    ids, first_seen = table.intern(batch)
    pairs = set(zip(columns[50].tolist(), columns[99].tolist(), strict=True))
    assert len(table) == len(set(ids.tolist())) == int(first_seen.sum()) == len(pairs)
    assert table.rows(ids).equals(batch)
