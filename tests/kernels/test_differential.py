"""The native kernel against its twin: the same calls, the same answers, down to each id."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gapless.kernels import twin_key_table
from tests.kernels.conftest import Kernel
from tests.kernels.raw_columns import raw_batch, schemas

FLOATS = pa.schema([("a", pa.float64()), ("b", pa.float16())])
STRUCTS = pa.schema([("s", pa.struct([("x", pa.int8()), ("y", pa.string())]))])
LISTS = pa.schema(
    [
        ("floats", pa.list_(pa.float64())),
        ("deep", pa.struct([("l", pa.list_(pa.list_(STRUCTS.field(0).type)))])),
        ("bits", pa.list_(pa.bool_())),
    ]
)


def compare(fast: Any, slow: Any, schema: pa.Schema, seed: int, turns: int = 8) -> None:
    """Makes the same random calls to both and asserts that nothing tells them apart."""
    rng = np.random.default_rng(seed)
    live = np.array([], np.int64)
    for _ in range(turns):
        batch = raw_batch(rng, schema, int(rng.choice([0, 1, 20, 300])))
        assert np.array_equal(fast.find(batch), slow.find(batch))
        since = int(rng.choice([-(2**63), 0, 10]))
        times = rng.integers(-5, 15, batch.num_rows)
        ids, first = fast.intern_since(batch, times, since)
        slow_ids, slow_first = slow.intern_since(batch, times, since)
        assert np.array_equal(ids, slow_ids)
        assert np.array_equal(first, slow_first)
        assert (times[ids < 0] < since).all()
        (ids, first), (slow_ids, slow_first) = fast.intern(batch), slow.intern(batch)
        assert np.array_equal(ids, slow_ids)
        assert np.array_equal(first, slow_first)
        live = np.union1d(live, ids)
        gone = live[rng.random(len(live)) < rng.choice([0.0, 0.3, 1.0])]
        fast.release(rng.permutation(gone))
        slow.release(rng.permutation(gone))
        live = np.setdiff1d(live, gone)
        assert (len(fast), fast.capacity) == (len(slow), slow.capacity)
        picked = rng.choice(live, 10) if len(live) else live
        assert_same_rows(fast.rows(picked), slow.rows(picked))
        fast.validate()
        slow.validate()


def assert_same_rows(x: pa.RecordBatch, y: pa.RecordBatch) -> None:
    """Equal bit by bit: comparing as Arrow does would let NaN differ from NaN."""
    assert x.schema == y.schema
    assert x.num_rows == y.num_rows
    table = twin_key_table.KeyTable(x.schema)
    assert np.array_equal(table.intern(x)[0], table.find(y))


@given(schema=schemas(), seed=st.integers(0, 2**32 - 1))
@example(schema=FLOATS, seed=0)
@example(schema=STRUCTS, seed=0)
@example(schema=LISTS, seed=0)
@example(schema=LISTS, seed=1)
def test_differential_key_table(native: Kernel, twin: Kernel, schema: pa.Schema, seed: int) -> None:
    compare(native.KeyTable(schema), twin.KeyTable(schema), schema, seed)


class _FirstFreeLast(twin_key_table.KeyTable):
    """A planted fault: recycles the id that was freed last and not the lowest."""

    def _lowest_free(self) -> int:
        free = [id for id in self._free if id < len(self._rows) and self._rows[id] is None]
        return max(free, default=len(self._rows))


class _SeesNoNulls(twin_key_table.KeyTable):
    """A planted fault: takes a null for zero."""

    def intern(self, batch: pa.RecordBatch) -> Any:
        columns = [c.fill_null(pa.scalar(0).cast(c.type)) for c in batch.columns]
        return super().intern(pa.RecordBatch.from_arrays(columns, schema=batch.schema))


class _NullListsAreEmpty(twin_key_table.KeyTable):
    """A planted fault: a null list is one without elements."""

    def intern(self, batch: pa.RecordBatch) -> Any:
        columns = [c.fill_null([]) if pa.types.is_list(c.type) else c for c in batch.columns]
        return super().intern(pa.RecordBatch.from_arrays(columns, schema=batch.schema))


class _ListsAreBags(twin_key_table.KeyTable):
    """A planted fault: lists with the same elements are equal, in whatever order."""

    def intern(self, batch: pa.RecordBatch) -> Any:
        lists = [sorted(row or [], key=repr) for row in batch.column(0).to_pylist()]
        column = pa.array(
            lists, batch.column(0).type, mask=~batch.column(0).is_valid().to_numpy(False)
        )
        return super().intern(batch.set_column(0, batch.schema.field(0), column))


class _NeverSeenTwice(twin_key_table.KeyTable):
    """A planted fault: says of every row that it is new."""

    def intern(self, batch: pa.RecordBatch) -> Any:
        ids, first_seen = super().intern(batch)
        return ids, np.ones_like(first_seen)


@pytest.mark.parametrize("broken", [_FirstFreeLast, _SeesNoNulls, _NeverSeenTwice])
def test_a_planted_fault_is_found(native: Kernel, broken: Any) -> None:
    schema = pa.schema([("a", pa.float32()), ("b", pa.int16())])
    with pytest.raises((AssertionError, ValueError)):
        compare(native.KeyTable(schema), broken(schema), schema, seed=0, turns=100)


@pytest.mark.parametrize("broken", [_NullListsAreEmpty, _ListsAreBags])
def test_a_planted_fault_of_lists_is_found(native: Kernel, broken: Any) -> None:
    schema = pa.schema([("a", pa.list_(pa.int16()))])
    with pytest.raises((AssertionError, ValueError)):
        compare(native.KeyTable(schema), broken(schema), schema, seed=0, turns=100)


@given(seed=st.integers(0, 2**32 - 1))
def test_differential_chains(native: Kernel, twin: Kernel, seed: int) -> None:
    rng = np.random.default_rng(seed)
    fast, slow = native.Chains(), twin.Chains()
    stored = np.array([], np.int64)
    for _ in range(6):
        rows = np.setdiff1d(rng.integers(0, 2000, 400), stored)
        ids = rng.integers(0, int(rng.choice([3, 500, 50_000])), len(rows))
        fast.add(ids, rows)
        slow.add(ids, rows)
        stored = np.union1d(stored, rows)
        gone = rng.permutation(stored[rng.random(len(stored)) < 0.4])
        fast.remove(gone)
        slow.remove(gone)
        stored = np.setdiff1d(stored, gone)
        probe = rng.integers(-2, 600, 50)
        for x, y in zip(fast.probe(probe), slow.probe(probe), strict=True):
            assert np.array_equal(x, y)
        fast.validate()
        slow.validate()


def test_a_table_that_lost_count_does_not_validate(twin: Kernel) -> None:
    table = twin.KeyTable(pa.schema([("a", pa.int64())]))
    table.intern(pa.record_batch([[1, 2, 3]], ["a"]))
    table._rows[1] = None
    with pytest.raises(RuntimeError, match="rows and ids disagree"):
        table.validate()


def test_chains_that_lost_a_row_do_not_validate(twin: Kernel) -> None:
    chains = twin.Chains()
    chains.add([1, 1], [2, 3])
    del chains._chains[1][3]
    with pytest.raises(RuntimeError, match="rows and ids disagree"):
        chains.validate()
