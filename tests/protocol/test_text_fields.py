"""What a field of text means: against Python's own reading of it, and the same among any others."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gapless.protocol.errors import SchemaError
from gapless.protocol.text_fields import read
from gapless.protocol.values import to_values
from tests.protocol.text_twin import NO, TEXTS, meaning, texts

TYPES = [
    pa.int8(), pa.int64(), pa.uint8(), pa.uint64(), pa.float64(), pa.float32(), pa.float16(),
    pa.decimal128(5, 2), pa.decimal128(38, 38), pa.decimal256(76, 3), pa.bool_(),
    pa.date32(), pa.date64(),
    pa.timestamp("s"), pa.timestamp("ms"), pa.timestamp("us", "UTC"), pa.timestamp("ns"),
    pa.time32("s"), pa.time32("ms"), pa.time64("us"), pa.duration("ms"), pa.binary(3),
    pa.string(), pa.large_string(), pa.string_view(), pa.binary_view(),
    pa.dictionary(pa.int32(), pa.string()), pa.dictionary(pa.int8(), pa.int16()),
]  # fmt: skip


def values(given: list[str | None], t: pa.DataType) -> tuple[list[Any], list[bool]]:
    made, misfits = read(pa.array(given, pa.string()), t)
    assert made.type == t
    made.validate(full=True)
    return to_values(made), [False] * len(given) if misfits is None else misfits.tolist()


@given(st.lists(texts, max_size=8), st.sampled_from(TYPES))
def test_differential_a_text_means_the_same_alone_and_among_others(
    given: list[str | None], t: pa.DataType
) -> None:
    alone = [values([text], t) for text in given]
    assert values(given, t) == ([v for (v,), _ in alone], [bad for _, (bad,) in alone])


@pytest.mark.parametrize("t", TYPES, ids=str)
def test_differential_each_of_the_odd_ones_means_the_same_alone_and_among_all(
    t: pa.DataType,
) -> None:
    alone = [values([text], t) for text in TEXTS]
    assert values(list(TEXTS), t) == ([v for (v,), _ in alone], [bad for _, (bad,) in alone])


# -- what the twin says ---------------------------------------------------------------------------


@given(texts.filter(lambda text: text is not None), st.sampled_from(TYPES))
@example("9999-12-31", pa.timestamp("us", "UTC"))
def test_differential_a_text_means_what_the_twin_says(text: str, t: pa.DataType) -> None:
    (value,), (bad,) = values([text], t)
    wanted = meaning(text, t)
    assert bad == (wanted is NO), (text, t, value)
    assert bad or value == wanted or (value is wanted)


@pytest.mark.parametrize("t", TYPES, ids=str)
def test_differential_the_odd_ones_mean_what_the_twin_says(t: pa.DataType) -> None:
    got, bad = values(list(TEXTS), t)
    wanted = [meaning(text, t) for text in TEXTS]
    told = [NO if wrong else value for value, wrong in zip(got, bad, strict=True)]
    assert dict(zip(TEXTS, told, strict=True)) == dict(zip(TEXTS, wanted, strict=True))


def test_null_is_null_and_what_has_no_text_is_refused() -> None:
    assert all(values([None], t) == ([None], [False]) for t in TYPES)
    for t in (pa.struct([("x", pa.int8())]), pa.month_day_nano_interval()):
        with pytest.raises(SchemaError, match=r"no text means .* take Parquet or Arrow"):
            read(pa.array(["1"]), t)
