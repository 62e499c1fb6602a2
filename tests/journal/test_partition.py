"""Partitions of keys: the fast way against one in plain Python, over all types and layouts."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gapless.journal import partition, xxh64
from gapless.journal.partition import (
    KEY_COLUMNS_MAX,
    PARTITIONS_MAX,
    check_key,
    key_hashes,
    partitions_of,
    split,
)
from gapless.protocol.errors import Misuse, SchemaError
from tests.journal import key_oracle
from tests.journal.key_oracle import hashes_row_by_row
from tests.protocol.strategies import arrays, payload_types

ISHMAEL = b"Call me Ishmael. Some years ago--never mind how long precisely-"
PRIME = 0x9E3779B1


def sanity_bytes(count: int) -> bytes:
    """The bytes over which xxHash's own sanity check gives its vectors."""
    generator, made = PRIME, []
    for _ in range(count):
        made.append(generator >> 56)
        generator = generator * 0x9E3779B185EBCA8D % 2**64
    return bytes(made)


PUBLISHED = [
    (b"", 0, 0xEF46DB3751D8E999),
    (b"a", 0, 0xD24EC4F1A98C6E5B),
    (b"as", 0, 0x1C330FB2D66BE179),
    (b"asd", 0, 0x631C37CE72A97393),
    (b"asdf", 0, 0x415872F599CEA71E),
    (b"abc", 0, 0x44BC2CF5AD770999),
    (ISHMAEL, 0, 0x02A2E85470D6FD96),
    (b"", PRIME, 0xAC75FDA2929B17EF),
    (sanity_bytes(1), 0, 0xE934A84ADB052768),
    (sanity_bytes(1), PRIME, 0x5014607643A9B4C3),
    (sanity_bytes(4), 0, 0x9136A0DCA57457EE),
    (sanity_bytes(14), 0, 0x8282DCC4994E35C8),
    (sanity_bytes(14), PRIME, 0xC3BD6BF63DEB6DF0),
    (sanity_bytes(222), 0, 0xB641AE8CB691C174),
    (sanity_bytes(222), PRIME, 0x20CB8AB7AE10C14A),
]


def folded(rows: Sequence[bytes], seeds: Sequence[int]) -> list[int]:
    lengths = np.array([len(row) for row in rows], np.int64)
    starts = np.cumsum(lengths) - lengths
    hashes = np.array(seeds, np.uint64)
    xxh64.fold_bytes(np.frombuffer(b"".join(rows), np.uint8), starts, lengths, hashes)
    return list(hashes.tolist())


# -- XXH64 ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("data", "seed", "expected"), PUBLISHED)
def test_both_ways_give_the_published_hashes(data: bytes, seed: int, expected: int) -> None:
    assert key_oracle.xxh64(data, seed) == expected
    assert folded([data], [seed]) == [expected]


def test_rows_do_not_touch_each_other() -> None:
    data, seeds, expected = zip(*PUBLISHED, strict=True)
    assert folded(data, seeds) == list(expected)


@given(st.lists(st.tuples(st.binary(max_size=140), st.integers(0, 2**64 - 1)), max_size=12))
def test_any_bytes_and_seeds_hash_as_the_specification_says(rows: list[tuple[bytes, int]]) -> None:
    data, seeds = [row[0] for row in rows], [row[1] for row in rows]
    assert folded(data, seeds) == [key_oracle.xxh64(*row) for row in rows]


@pytest.mark.parametrize("block_rows", [1, 7, 1000])
def test_every_length_hashes_right_wherever_blocks_end(
    block_rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(xxh64, "BLOCK_ROWS", block_rows)
    rng = random.Random(block_rows)
    lengths = [*range(200), 1000, 4097]
    rng.shuffle(lengths)
    rows = [rng.randbytes(length) for length in lengths]
    seeds = [rng.getrandbits(64) for _ in rows]
    expected = [key_oracle.xxh64(row, seed) for row, seed in zip(rows, seeds, strict=True)]
    assert folded(rows, seeds) == expected

    words = np.array([rng.getrandbits(64) for _ in seeds], np.uint64)
    hashes = np.array(seeds, np.uint64)
    xxh64.fold_words(words, hashes)
    pairs = zip(words.tolist(), seeds, strict=True)
    assert hashes.tolist() == [key_oracle.xxh64(w.to_bytes(8, "little"), s) for w, s in pairs]


# -- keys -----------------------------------------------------------------------------------------


def is_key(t: pa.DataType) -> bool:
    try:
        check_key(pa.schema([("k", t)]), ["k"])
    except SchemaError:
        return False
    return True


@st.composite
def keys(draw: st.DrawFn) -> list[pa.Array]:
    types = draw(st.lists(payload_types().filter(is_key), min_size=1, max_size=3))
    length = draw(st.integers(0, 8))
    return [draw(arrays(t, length)) for t in types]


@given(keys())
def test_keys_of_all_types_hash_as_row_by_row(columns: list[pa.Array]) -> None:
    assert key_hashes(columns).tolist() == hashes_row_by_row(columns)


def test_the_worked_example_is_right() -> None:
    key = [pa.array([10], pa.int32()), pa.array(["é"])]
    assert key_hashes(key[:1]).view(np.uint64).tolist() == [0x1971B627858ABB6D]
    assert key_hashes(key).tolist() == [-449631109554655292]
    assert partitions_of(key, 8).tolist() == [4]


def sample(rows: int) -> list[pa.Array]:
    rng = np.random.default_rng(5)
    numbers = rng.integers(-(2**63), 2**63 - 1, rows)
    absent = rng.random(rows) < 0.1
    return [
        pa.array((numbers >> 40).astype(np.int32), mask=absent),
        pa.array([str(x)[: x % 20] for x in numbers.tolist()], mask=np.roll(absent, 1)),
        pa.array(numbers).cast(pa.decimal128(19)),
    ]


def test_the_cut_into_batches_changes_no_partition() -> None:
    columns = sample(5_000)
    whole = partitions_of(columns, 12)
    assert whole.tolist() == [h % 12 for h in hashes_row_by_row(columns)]
    ends = [0, 1, 1, 40, 3_000, 5_000]
    pieces = [
        partitions_of([c.slice(a, b - a) for c in columns], 12) for a, b in itertools.pairwise(ends)
    ]
    assert np.array_equal(np.concatenate(pieces), whole)
    assert set(whole.tolist()) == set(range(12))


def test_the_layout_of_a_column_changes_no_hash() -> None:
    numbers, texts, _ = sample(500)
    expected = key_hashes([texts, numbers])
    layouts: list[Callable[[pa.Array], pa.Array]] = [
        lambda a: a.cast(pa.large_string()),
        lambda a: a.cast(pa.string_view()),
        lambda a: a.cast(pa.binary_view()),
        lambda a: a.dictionary_encode(),
        lambda a: pa.concat_arrays([texts, a]).dictionary_encode().slice(500),
        lambda a: pa.concat_arrays([texts, a]).slice(500),
    ]
    for layout in layouts:
        assert np.array_equal(key_hashes([layout(texts), numbers]), expected)
        assert np.array_equal(key_hashes([numbers, layout(texts)]), key_hashes([numbers, texts]))
    for wider in (pa.int64(), pa.duration("ms"), pa.timestamp("ns", "Europe/Paris")):
        ticks = numbers.cast(pa.int64()).cast(wider)
        assert np.array_equal(key_hashes([texts, ticks]), expected)
    struct = pa.StructArray.from_arrays([texts, numbers], ["a", "b"])
    assert np.array_equal(key_hashes([struct]), expected)


def test_equal_floats_have_equal_hashes() -> None:
    nans = np.array([0x7FF8 << 48, 0xFFF8 << 48, (0x7FF0 << 48) + 1, (0x7FFF << 48) + 7], np.uint64)
    assert len(set(key_hashes([pa.array(nans.view(np.float64))]).tolist())) == 1
    for t in (np.float16, np.float32, np.float64):
        zeros, ones = pa.array(np.array([0.0, -0.0], t)), pa.array(np.array([1.0, np.nan], t))
        assert key_hashes([zeros]).tolist() == key_hashes([pa.array([0.0, 0.0])]).tolist()
        assert key_hashes([ones]).tolist() == key_hashes([pa.array([1.0, np.nan])]).tolist()


def test_a_null_leaves_the_hash_as_it_is() -> None:
    texts = pa.array(["a", None, "c"])
    for t in (pa.int8(), pa.string(), pa.decimal128(30), pa.binary(4), pa.float32(), pa.bool_()):
        nulls = pa.nulls(3, t)
        assert key_hashes([nulls]).tolist() == [42, 42, 42]
        assert np.array_equal(key_hashes([nulls, texts, nulls]), key_hashes([texts]))
    assert key_hashes([texts]).tolist()[1] == 42


def test_a_uint64_is_hashed_by_its_bits() -> None:
    big = pa.array([2**63, 2**64 - 1], pa.uint64())
    wrapped = pa.array([-(2**63), -1], pa.int64())
    assert np.array_equal(key_hashes([big]), key_hashes([wrapped]))


def test_one_partition_takes_all_rows_and_hashes_none() -> None:
    unhashable = pa.array([[1], [2]])
    assert partitions_of([unhashable], 1).tolist() == [0, 0]
    with pytest.raises(SchemaError, match="not of list"):
        partitions_of([unhashable], 2)


# -- a key that cannot be -------------------------------------------------------------------------


@pytest.mark.parametrize("count", [0, -1, PARTITIONS_MAX + 1])
def test_a_count_out_of_bounds_is_refused(count: int) -> None:
    with pytest.raises(Misuse, match="1 to 1024 partitions"):
        partitions_of([pa.array([1])], count)


@pytest.mark.parametrize(
    ("key", "problem"),
    [
        ([], "1 to 16 columns, not 0"),
        (["a"] * (KEY_COLUMNS_MAX + 1), "1 to 16 columns, not 17"),
        (["a", "x"], "'x' is not there; the columns: .'a'"),
        (["a", "a"], "'a' is named twice"),
        (["d"], "'d' is there 2 times"),
        (["b"], "'b': a key is of bool"),
        (["s"], "'s.deep': a key is of bool"),
        (["i"], "'i': a key is of bool"),
        (["n"], "'n': a key is of bool"),
    ],
)
def test_a_key_that_cannot_be_is_refused(key: list[str], problem: str) -> None:
    schema = pa.schema(
        [
            ("a", pa.int32()),
            ("b", pa.list_(pa.int32())),
            ("s", pa.struct([("ok", pa.int8()), ("deep", pa.map_(pa.int8(), pa.int8()))])),
            ("i", pa.month_day_nano_interval()),
            ("n", pa.null()),
            ("d", pa.int8()),
            ("d", pa.int8()),
        ]
    )
    with pytest.raises(Misuse, match=problem):
        check_key(schema, key)


def test_columns_of_several_lengths_are_refused() -> None:
    with pytest.raises(Misuse, match=r"got lengths \[1, 2\]"):
        key_hashes([pa.array([1]), pa.array([1, 2])])
    with pytest.raises(Misuse, match="not 0"):
        key_hashes([])


# -- split ----------------------------------------------------------------------------------------


@given(st.lists(st.integers(0, 6), max_size=40), st.sampled_from([pa.string(), pa.string_view()]))
def test_split_keeps_every_row_in_its_partition_and_in_order(
    partitions: list[int], t: pa.DataType
) -> None:
    rows = [str(i) for i in range(len(partitions))]
    batch = pa.record_batch({"row": pa.array(rows, t)})
    pieces = [
        (p, piece.column(0).to_pylist())
        for p, piece in split(batch, np.array(partitions, np.int64), 7)
    ]
    assert pieces == [
        (p, [row for row, q in zip(rows, partitions, strict=True) if q == p])
        for p in sorted(set(partitions))
    ]


def test_split_hands_a_batch_of_one_partition_on_as_it_is() -> None:
    batch = pa.record_batch({"row": [1, 2, 3]})
    [(partition_of_all, same)] = split(batch, np.full(3, 5), 8)
    assert partition_of_all == 5
    assert same is batch


@pytest.mark.parametrize(
    ("partitions", "problem"),
    [([0, 1], "2 partitions for a batch of 3"), ([0, 8, 1], "0 to 8"), ([0, -1, 1], "-1 to 1")],
)
def test_split_refuses_partitions_that_do_not_fit(partitions: list[int], problem: str) -> None:
    batch = pa.record_batch({"row": [1, 2, 3]})
    with pytest.raises(Misuse, match=problem):
        list(split(batch, np.array(partitions, np.int64), 8))


# -- the oracle would see it ----------------------------------------------------------------------


def narrow_words(words: npt.NDArray[Any], hashes: npt.NDArray[np.uint64]) -> None:
    intact_words(words.view(f"u{words.itemsize}"), hashes)


def plain_double_bits(values: npt.NDArray[Any]) -> npt.NDArray[np.uint64]:
    return values.astype(np.float64).view(np.uint64)


intact_words = xxh64.fold_words

BREAKAGES: dict[str, tuple[object, str, object]] = {
    "another seed": (partition, "_SEED", 0),
    "no sign": (partition, "fold_words", narrow_words),
    "floats as they are": (partition, "_double_bits", plain_double_bits),
    "long decimals at once": (partition, "LONG_DIGITS_MAX", 19),
    "nulls hashed": (partition, "_null_rows", lambda array: np.empty(0, np.int64)),
    "no tail": (xxh64, "_mix_tail", lambda h, tail, left: None),
    "no avalanche": (xxh64, "_finish", lambda h, spare: None),
    "a lane off": (xxh64, "_LANES", xxh64._LANES + np.uint64(1)),
}


@pytest.mark.parametrize("breakage", BREAKAGES)
def test_the_oracle_sees_what_is_broken(breakage: str, monkeypatch: pytest.MonkeyPatch) -> None:
    columns = [
        *sample(100),
        pa.array([-0.0, 1.0] * 50),
        pa.array(["longer than one stripe of 32 bytes"] * 100),
    ]
    expected = hashes_row_by_row(columns)
    assert key_hashes(columns).tolist() == expected
    monkeypatch.setattr(*BREAKAGES[breakage])
    assert key_hashes(columns).tolist() != expected
