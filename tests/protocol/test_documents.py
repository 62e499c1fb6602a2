from __future__ import annotations

import math
import tracemalloc
from collections.abc import Callable
from typing import Any

import msgpack
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gapless.protocol.documents import BYTES_MAX, DEPTH_MAX, Document, Fields, pack, unpack
from gapless.protocol.errors import DecodeError, Misuse
from tests.protocol.strategies import documents


def nested(levels: int) -> Document:
    document: Document = 7
    for _ in range(levels):
        document = [document]
    return document


# -- there and back -------------------------------------------------------------------------------


def exact(value: Any) -> Any:
    """Equality that tells 1 from True and 1.0."""
    if isinstance(value, list):
        return [exact(v) for v in value]
    if isinstance(value, dict):
        return {k: exact(v) for k, v in value.items()}
    return type(value), value


@given(documents())
@example(nested(DEPTH_MAX))
@example(2**64 - 1)
@example(-(2**63))
def test_a_document_comes_back_as_it_went(document: Document) -> None:
    assert exact(unpack(pack(document))) == exact(document)
    assert exact(unpack(memoryview(pack(document)))) == exact(document)


def test_nan_comes_back() -> None:
    back = unpack(pack(math.nan))
    assert isinstance(back, float)
    assert math.isnan(back)


@pytest.mark.parametrize(
    "document",
    [
        (1, 2),
        {1: 2},
        {b"a": 2},
        {"a": {1, 2}},
        [object()],
        2**64,
        -(2**63) - 1,
        "\ud800",
        nested(DEPTH_MAX + 1),
        b"x" * BYTES_MAX,
        msgpack.Timestamp(1),
    ],
    ids=lambda d: repr(d)[:20],
)
def test_what_is_not_plain_or_too_large_is_the_callers_mistake(document: Any) -> None:
    with pytest.raises(Misuse, match="document"):
        pack(document)


def test_a_list_inside_itself_is_a_mistake_and_no_endless_loop() -> None:
    endless: list[Any] = []
    endless.append(endless)
    with pytest.raises(Misuse, match=str(DEPTH_MAX)):
        pack(endless)


# -- bytes from anybody ---------------------------------------------------------------------------


@given(documents())
def test_cut_short_or_followed_by_more_it_is_no_document(document: Document) -> None:
    data = pack(document)
    for end in range(len(data)):
        with pytest.raises(DecodeError):
            unpack(data[:end])
    with pytest.raises(DecodeError, match="after its end"):
        unpack(data + b"\x00")


@st.composite
def damaged(draw: st.DrawFn) -> bytes:
    data = bytearray(pack(draw(documents())))
    data[draw(st.integers(0, len(data) - 1))] = draw(st.integers(0, 255))
    return bytes(data)


@given(st.binary(max_size=60) | damaged())
def test_any_bytes_are_a_document_or_one_error(data: bytes) -> None:
    try:
        document = unpack(data)
    except DecodeError:
        return
    assert exact(unpack(pack(document))) == exact(document) or "nan" in repr(document)


HOSTILE = {
    "nothing": (b"", "0 bytes"),
    "a type that msgpack never uses": (b"\xc1", "not msgpack"),
    "invalid UTF-8": (b"\xa2\xff\xfe", "utf-8"),
    "a string longer than the data": (b"\xdb\xff\xff\xff\xff", "not msgpack"),
    "an array longer than the data": (b"\xdd\xff\xff\xff\xff", "not msgpack"),
    "a map longer than the data": (b"\xdf\xff\xff\xff\xff", "not msgpack"),
    "a map with a number for key": (msgpack.packb({1: 2}), "map key"),
    "a map with bytes for key": (msgpack.packb({b"a": 2}), "key of type bytes"),
    "a map with a key twice": (b"\x82\xa1a\x01\xa1a\x02", "twice"),
    "a timestamp": (msgpack.packb(msgpack.Timestamp(1)), "max_ext_len"),
    "an extension": (msgpack.packb(msgpack.ExtType(5, b"x")), "max_ext_len"),
    "an empty extension": (b"\xc7\x00\x05", "ExtType"),
    "an empty timestamp": (b"\xc7\x00\xff", "not msgpack"),
    "too many levels": (b"\x91" * (DEPTH_MAX + 1) + b"\x01", str(DEPTH_MAX)),
    "more levels than any stack has": (b"\x91" * 500_000 + b"\x01", "not msgpack"),
    "too many bytes": (bytes(BYTES_MAX + 1), str(BYTES_MAX)),
}


@pytest.mark.parametrize(("data", "said"), HOSTILE.values(), ids=HOSTILE)
def test_hostile_bytes_are_an_error_that_says_what(data: bytes, said: str) -> None:
    with pytest.raises(DecodeError, match=said):
        unpack(data)


def test_a_claim_of_many_items_costs_nothing_until_they_are_there() -> None:
    claims = b"\xdd\x00\x0f\x00\x00" * 900
    data = claims + b"\xc0" * (BYTES_MAX - len(claims))
    tracemalloc.start()
    try:
        with pytest.raises(DecodeError):
            unpack(data)
        assert tracemalloc.get_traced_memory()[1] < 4 * BYTES_MAX
    finally:
        tracemalloc.stop()


def test_the_bound_on_bytes_is_the_callers_to_set() -> None:
    data = pack("x" * 100)
    assert unpack(data, max_bytes=len(data)) == "x" * 100
    with pytest.raises(DecodeError) as caught:
        unpack(data, max_bytes=len(data) - 1)
    assert caught.value.field == "document"
    assert str(len(data) - 1) in str(caught.value.bound)


# -- fields ---------------------------------------------------------------------------------------

JOB: Document = {"name": "talkers", "replicas": 3, "paths": ["a", "b"], "policy": {"lag": 1.5}}


def test_fields_come_out_one_by_one() -> None:
    job = Fields(JOB, "job record")
    assert job.take("name", str) == "talkers"
    assert job.take_int("replicas", low=1, high=64) == 3
    assert job.take_list("paths", str, max_length=8) == ["a", "b"]
    policy = job.take_fields("policy")
    assert policy.take("lag", float) == 1.5
    policy.done()
    job.done()
    assert job.take("owner", str, default=None) is None
    assert job.take_int("limit", low=1, high=5, default=0) == 0
    assert isinstance(JOB, dict)
    assert len(JOB) == 4


WRONG: dict[str, tuple[Callable[[Fields], object], str]] = {
    "missing": (lambda f: f.take("owner", str), r"job record\.owner: is missing"),
    "wrong type": (lambda f: f.take("name", int), r"job record\.name: is a str .*an? int"),
    "no whole number": (lambda f: f.take_int("name", 1, 2), r"job record\.name: is a str"),
    "too small": (lambda f: f.take_int("replicas", 4, 64), r"replicas: is 3 \(expected: 4 to 64\)"),
    "too large": (lambda f: f.take_int("replicas", 1, 2), r"replicas: is 3 \(expected: 1 to 2\)"),
    "too long": (lambda f: f.take_list("paths", str, 1), r"paths: 2 items \(expected: <= 1\)"),
    "wrong items": (lambda f: f.take_list("paths", int, 8), r"paths\[0\]: is a str"),
    "no dict": (lambda f: f.take_fields("name"), r"name: is a str"),
    "nested": (lambda f: f.take_fields("policy").take("low", int), r"job record\.policy\.low"),
    "unknown": (lambda f: f.done(), "unknown fields: name, paths, policy, replicas"),
}


@pytest.mark.parametrize(("take", "said"), WRONG.values(), ids=WRONG)
def test_a_wrong_field_is_named_with_its_bound(take: Callable[[Fields], object], said: str) -> None:
    with pytest.raises(DecodeError, match=said):
        take(Fields(JOB, "job record"))


def test_a_bool_is_no_int_and_an_int_no_float() -> None:
    fields = Fields({"a": True, "b": 1}, "x")
    with pytest.raises(DecodeError, match="is a bool"):
        fields.take_int("a", 0, 5)
    with pytest.raises(DecodeError, match="is a int"):
        fields.take("b", float)


@pytest.mark.parametrize("document", [None, 7, "x", [1]], ids=repr)
def test_only_a_dict_has_fields(document: Document) -> None:
    with pytest.raises(DecodeError, match="commit: is a"):
        Fields(document, "commit")
