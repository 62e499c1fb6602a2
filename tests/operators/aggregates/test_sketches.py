"""Sketches and the hash under them: how far off they are, and that every machine has the same."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gapless.kernels import KERNEL
from gapless.operators.aggregates import count_distinct
from gapless.operators.aggregates.hashing import BYTES_AT_ONCE_MAX, hash_column, splitmix64
from gapless.operators.aggregates.hll import SPARSE_SHARE, Registers, _leading_zeros
from gapless.operators.aggregates.plain import plain_type, plain_values, restored
from gapless.operators.aggregates.quantile import ACCURACY_MAX, ACCURACY_MIN, Buckets
from gapless.protocol.values import from_values, to_values
from tests.protocol.strategies import arrays, payload_types

# -- the hash -------------------------------------------------------------------------------------

MASK = 2**64 - 1


def slow_splitmix64(x: int) -> int:
    x = (x + 0x9E3779B97F4A7C15) & MASK
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & MASK
    return x ^ (x >> 31)


def slow_bytes(data: bytes) -> int:
    h = sum((b + 1) * pow(0x9FB21C651E98DF25, i, 2**64) for i, b in enumerate(data)) & MASK
    return slow_splitmix64(h ^ (len(data) * 0x9E3779B97F4A7C15 & MASK))


@given(st.lists(st.binary(max_size=30), min_size=1, max_size=9), st.integers(0, 8))
def test_oracle_bytes(data: list[bytes], skipped: int) -> None:
    column = pa.array(data)[min(skipped, len(data)) :]
    assert hash_column(column).tolist() == [slow_bytes(b) for b in data[skipped:]]


@given(st.lists(st.integers(-(2**63), 2**63 - 1)))
def test_oracle_integers(xs: list[int]) -> None:
    wanted = [slow_splitmix64(x & MASK) for x in xs]
    assert hash_column(pa.array(xs, pa.int64())).tolist() == wanted
    assert splitmix64(np.array(xs, np.int64).view(np.uint64)).tolist() == wanted


def test_the_hash_is_the_same_for_ever() -> None:
    """These numbers are in sketches that lie in files: never change them."""
    cases: list[tuple[pa.Array, int]] = [
        (pa.array([0]), 0xE220A8397B1DCDAF),
        (pa.array([-1], pa.int8()), slow_splitmix64(MASK)),
        (pa.array([1.5]), slow_splitmix64(0x3FF8000000000000)),
        (pa.array([""]), slow_splitmix64(0)),
        (pa.array(["gapless"]), slow_bytes(b"gapless")),
        (pa.array([True]), slow_splitmix64(1)),
    ]
    assert [int(hash_column(column)[0]) for column, _ in cases] == [h for _, h in cases]


def test_strings_hash_alike_in_every_layout() -> None:
    texts = ["", "a", "ab", "é", "long enough for a view's second buffer", "a"]
    plain = hash_column(pa.array(texts))
    for t in (
        pa.large_string(), pa.string_view(), pa.binary(), pa.large_binary(), pa.binary_view(),
        pa.dictionary(pa.int32(), pa.string()), pa.dictionary(pa.int64(), pa.large_string()),
    ):  # fmt: skip
        values = [x.encode() for x in texts] if "binary" in str(t) else texts
        assert hash_column(from_values(values, t)).tolist() == plain.tolist()
    assert len(set(plain.tolist())) == len(set(texts))


def test_numbers_that_are_equal_hash_alike() -> None:
    assert len(set(hash_column(pa.array([0.0, -0.0])).tolist())) == 1
    nans = np.array([0x7FF8000000000000, 0xFFF8000000000001, 0x7FF0000000000001], np.uint64)
    assert len(set(hash_column(pa.array(nans.view(np.float64))).tolist())) == 1
    halves = pa.array(np.array([1.5, -2.0], np.float16))
    assert hash_column(halves).tolist() == hash_column(pa.array([1.5, -2.0])).tolist()


@given(payload_types().flatmap(lambda t: arrays(t, length=6)), st.permutations(range(6)))
def test_values_hash_alike_exactly_when_they_are_equal(column: pa.Array, places: list[int]) -> None:
    hashes, values = hash_column(column), to_values(column)
    again = hash_column(from_values([values[i] for i in places], column.type))
    assert again.tolist() == [int(hashes[i]) for i in places]
    different = {i for i in range(6) if values.index(values[i]) == i}
    assert len({int(hashes[i]) for i in different}) == len(different)


def test_a_column_of_more_bytes_than_are_multiplied_at_once_hashes_the_same() -> None:
    rng = np.random.default_rng(4)
    texts = [rng.bytes(int(n)) for n in rng.integers(0, BYTES_AT_ONCE_MAX // 3, 12)]
    texts.insert(5, rng.bytes(BYTES_AT_ONCE_MAX + 9))
    whole = hash_column(pa.array(texts))
    assert whole.tolist() == [int(hash_column(pa.array([x]))[0]) for x in texts]


@given(payload_types().flatmap(lambda t: arrays(t, length=4)))
def test_a_column_of_any_type_is_made_plain_and_gets_its_type_again(column: pa.Array) -> None:
    plain = plain_values(column)
    assert plain.type == plain_type(column.type)
    again = restored(plain, column.type)
    assert again.type == column.type
    assert to_values(again) == to_values(plain) == to_values(column)
    joined = pa.concat_arrays([plain, plain]).take(pa.array([5, 0])).filter(pa.array([True, False]))
    assert to_values(joined) == to_values(column)[1:2]


# -- distinct counts ------------------------------------------------------------------------------


def estimate(precision: int, values: Any) -> int:
    registers = Registers(precision)
    registers.add(np.zeros(len(values), np.int64), pa.array(values))
    registers.validate()
    return int(registers.estimates(np.array([0]))[0])


def test_leading_zeros_are_counted_in_integers() -> None:
    words = [0, 1, 2**32 - 1, 2**32, 2**63, MASK, 2**53 + 1, 2**54 - 1]
    wanted = [64 - w.bit_length() for w in words]
    assert _leading_zeros(np.array(words, np.uint64)).tolist() == wanted


@pytest.mark.parametrize("precision", [6, 9, 12])
@pytest.mark.parametrize("n", [1, 10, 100, 3000, 40_000])
def test_an_estimate_is_off_by_the_standard_error(precision: int, n: int) -> None:
    """Root mean square over groups of different values: fixed ones, so the figure is fixed."""
    groups = 400 if n <= 100 else 60 if n <= 3000 else 20
    registers = Registers(precision)
    registers.fit(groups)
    ids = np.repeat(np.arange(groups), n)
    registers.add(ids, pa.array(np.arange(groups * n) * 7919))
    off = registers.estimates(np.arange(groups)) / n - 1
    standard = 1.04 / np.sqrt(2**precision)
    assert np.sqrt(np.mean(off**2)) < (1 + 3 / np.sqrt(2 * groups)) * standard
    assert abs(np.mean(off)) < 3 * standard / np.sqrt(groups) + 0.3 / n


def test_an_estimate_of_strings_is_as_good_as_one_of_numbers() -> None:
    assert (
        abs(estimate(12, [f"10.0.{i >> 8}.{i & 255}" for i in range(20_000)]) / 20_000 - 1) < 0.04
    )


def test_repeats_do_not_count() -> None:
    assert estimate(10, np.tile(np.arange(5), 1000)) == 5


@pytest.mark.skipif(KERNEL == "twin", reason="Python's objects take more bytes than the kernel's")
def test_a_few_values_take_a_few_bytes_and_many_take_a_byte_a_register() -> None:
    few, many = Registers(14), Registers(14)
    for registers in (few, many):
        registers.fit(1000)
    before = few.nbytes
    few.add(np.arange(1000), pa.array(np.arange(1000)))
    assert few.nbytes - before < 150 * 1000
    values = np.arange(30 * 5000)
    many.add(values % 30, pa.array(values))
    many.validate()
    assert many.nbytes - before < 1.3 * 30 * 2**14 + 20_000


def test_sparse_and_dense_registers_say_the_same() -> None:
    """Merging what two halves have taken gives what one has, on either side of the change."""
    change = (1 << 10) // SPARSE_SHARE
    for n in (1, change - 1, change, change + 1, 3 * change, 5000):
        values = np.arange(n) * 31
        whole, half, other = (Registers(10) for _ in range(3))
        at = np.zeros(n, np.int64)
        whole.add(at, pa.array(values))
        half.add(at[: n // 2], pa.array(values[: n // 2]))
        other.add(at[n // 2 :] + 3, pa.array(values[n // 2 :]))
        half.merge(np.array([0]), other.take(np.array([3])))
        one = np.array([0])
        assert half.take(one)[0].to_pylist() == whole.take(one)[0].to_pylist()
        assert half.estimates(one).tolist() == whole.estimates(one).tolist()


def test_a_row_of_registers_that_goes_leaves_the_others_as_they_are() -> None:
    rng = np.random.default_rng(2)
    registers = Registers(6)
    registers.fit(40)
    ids = np.repeat(np.arange(40), 200)
    registers.add(ids, pa.array(rng.integers(0, 2**60, len(ids))))
    alive = list(range(40))
    while alive:
        before = registers.take(np.array(alive))[0].to_pylist()
        gone = rng.choice(alive, int(rng.integers(1, len(alive) + 1)), replace=False)
        registers.clear(gone)
        registers.validate()
        before = [r for i, r in zip(alive, before, strict=True) if i not in gone]
        alive = [i for i in alive if i not in gone]
        assert registers.take(np.array(alive, np.int64))[0].to_pylist() == before


def test_the_exact_count_is_what_the_sketch_estimates() -> None:
    schema = pa.schema([("x", pa.string())])
    batch = pa.record_batch({"x": [f"v{i % 500}" for i in range(3000)]})
    said = []
    for function in (count_distinct("x"), count_distinct("x", "hll", 14)):
        state = function.accumulator(schema)
        state.add(np.zeros(3000, np.int64), batch, np.zeros(3000, np.int64))
        said.append(state.results(np.array([0]))[0].as_py())
    assert said[0] == 500
    assert abs(said[1] - 500) < 15


# -- quantiles ------------------------------------------------------------------------------------


def numbers() -> np.ndarray[Any, np.dtype[np.float64]]:
    """From all over the floats: every magnitude, both signs, powers of two and their neighbours."""
    rng = np.random.default_rng(3)
    powers = np.ldexp(1.0, np.arange(-1022, 1024))
    near = np.concatenate([powers, np.nextafter(powers, 0), np.nextafter(powers, np.inf)])
    spread = np.ldexp(rng.uniform(1, 2, 50_000), rng.integers(-1022, 1024, 50_000))
    sizes = np.concatenate([near, spread, [np.finfo(np.float64).max]])
    sizes = sizes[(sizes >= np.finfo(np.float64).tiny) & np.isfinite(sizes)]
    return np.concatenate([sizes, -sizes])


@pytest.mark.parametrize("accuracy", [ACCURACY_MIN, 0.0007, 0.01, 0.1, ACCURACY_MAX])
def test_a_bucket_stands_for_everything_in_it(accuracy: float) -> None:
    buckets, xs = Buckets(accuracy), numbers()
    middles = buckets.middles(buckets.of(xs))
    assert (np.abs(middles - xs) <= accuracy * np.abs(xs)).all()
    assert (np.abs(middles / xs - 1) > accuracy / 10).any()  # no more buckets than it takes


@pytest.mark.parametrize("accuracy", [0.0007, 0.01, 0.5])
def test_buckets_ascend_as_numbers_do(accuracy: float) -> None:
    special = [-np.inf, -5e-324, -0.0, 0.0, 5e-324, np.inf]
    xs = np.sort(np.concatenate([numbers(), special]))
    of = Buckets(accuracy).of(np.append(xs, np.nan))
    assert (np.diff(of.astype(np.int64)) >= 0).all()
    assert of[-1] > of[-2]


def test_what_is_no_number_and_zero_stand_for_themselves() -> None:
    buckets = Buckets(0.01)
    xs = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 5e-324, -5e-324])
    middles = buckets.middles(buckets.of(xs))
    assert repr(middles.tolist()) == "[0.0, 0.0, inf, -inf, nan, 5e-324, -5e-324]"


def test_buckets_are_the_same_for_ever() -> None:
    """These numbers are in sketches that lie in files: never change them."""
    xs = np.array([1.0, 1.01, 1.5, 1.999, 2.0, -3.0, 1e-300, 1e300])
    assert Buckets(0.01).of(xs).tolist() == BUCKETS


BUCKETS = [38665, 38665, 38686, 38700, 38701, -38722, 2788, 74541]
