"""Frames on the wire: whatever a frame holds comes back, and whatever bytes come are refused."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any

import msgpack
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gapless.protocol.elements import BEGIN, INF, Adjust, Insert, Stable
from gapless.protocol.errors import DecodeError
from gapless.protocol.frame import Frame
from gapless.protocol.schema import StreamSchema
from gapless.sidecar import gapless_pb2 as pb
from gapless.sidecar import msgpack_frames
from gapless.sidecar.frames import cut, from_wire, to_wire
from gapless.sidecar.server.refusals import Refusal
from tests.sidecar.helpers import SCHEMA, frame_of

WIDE = StreamSchema(
    pa.schema(
        [
            pa.field("flag", pa.bool_()),
            pa.field("at", pa.timestamp("us", tz="UTC")),
            pa.field("price", pa.decimal128(9, 2)),
            pa.field("raw", pa.binary()),
            pa.field("where", pa.struct([("lat", pa.float64()), ("lon", pa.float64())])),
            pa.field("tag", pa.dictionary(pa.int32(), pa.string())),
            pa.field("small", pa.float16()),
            pa.field("pause", pa.month_day_nano_interval()),
            pa.field("tags", pa.list_(pa.string())),
            pa.field("deep", pa.list_(pa.list_(pa.struct([("d", pa.decimal128(9, 2))])))),
        ]
    )
)
LATER = (1, 2, 3)
ENCODINGS = [pb.ENCODING_ARROW, pb.ENCODING_MSGPACK]

times = st.integers(BEGIN + 1, INF - 1)


@st.composite
def rows(draw: st.DrawFn) -> Insert | Adjust:
    start = draw(st.integers(-(10**12), 10**12))
    payload = (draw(st.none() | st.text()), draw(st.none() | st.integers(-(2**63), 2**63 - 1)))
    ends = st.integers(start + 1, start + 10**6) | st.just(INF)
    if draw(st.booleans()):
        return Insert(payload, start, draw(ends))
    return Adjust(payload, start, draw(ends), draw(ends | st.just(start)))


@pytest.mark.parametrize("encoding", ENCODINGS)
@given(rows=st.lists(rows(), max_size=20), stable=st.none() | times | st.just(INF))
def test_every_frame_comes_back(
    encoding: pb.Encoding, rows: list[Insert | Adjust], stable: int | None
) -> None:
    frame = Frame.from_elements(SCHEMA, rows).with_stable(stable)
    sent = pb.Frame.FromString(to_wire(frame, encoding, 7).SerializeToString())
    assert sent.sequence == 7
    assert from_wire(sent, SCHEMA) == frame


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_every_type_comes_back(encoding: pb.Encoding) -> None:
    payload: list[tuple[Any, ...]] = [
        (
            True,
            1_718_000_000_000_000,
            Decimal("-1.50"),
            b"\0\xff",
            (1.5, None),
            "a",
            0.5,
            (1, 2, 3),
            ("a", None),
            ((), None, ((Decimal("1.50"),), None)),
        ),
        (None,) * len(WIDE.names),
    ]
    frame = Frame.from_elements(WIDE, [Insert(p, 6, 20) for p in payload])
    assert from_wire(to_wire(frame, encoding), WIDE) == frame


def test_large_frames_are_cut_and_the_stable_stays_behind_all() -> None:
    frame = frame_of("ins((A,1),1,9) ins((B,2),2,9) ins((C,3),3,9) stable(4)")
    pieces = cut(frame, 2)
    assert [len(piece) for piece in pieces] == [2, 1]
    assert [piece.stable for piece in pieces] == [None, 4]
    assert [e for piece in pieces for e in piece.elements()] == frame.elements()


def test_what_a_msgpack_producer_writes_by_hand_is_understood() -> None:
    body = msgpack.packb(
        {
            "vs": [6, 6, 7],
            "ve": [20, None, 9],
            "was": [None, None, 12],
            "columns": {"src": ["A", "B", "A"], "n": [7, 8, 7]},
        }
    )
    assert msgpack_frames.decode(body, SCHEMA) == frame_of(
        "ins((A,7),6,20) ins((B,8),6,inf) adj((A,7),7,12,9)"
    )


WHOLE: dict[str, Any] = {"vs": [6], "ve": [20], "columns": {"src": ["A"], "n": [7]}}

BAD: dict[str, tuple[dict[Any, Any], str]] = {
    "a start that is nil": ({"vs": [None]}, "vs"),
    "no starts": ({"vs": None}, "vs"),
    "times that are text": ({"ve": ["x"]}, "ve"),
    "fewer ends than starts": ({"ve": []}, "ve"),
    "an end before the start": ({"ve": [5]}, "rows"),
    "a time too large": ({"vs": [2**64 - 1]}, "vs"),
    "a key that nobody knows": ({"rows": []}, "msgpack frame"),
    "keys of two kinds that nobody knows": ({"rows": [], b"x": []}, "msgpack frame"),
    "columns of two kinds that nobody knows": ({"columns": {"x": [], b"y": []}}, "columns"),
    "no columns": ({"columns": []}, "columns"),
    "a column too few": ({"columns": {"src": ["A"]}}, "column 'n'"),
    "a column too many": ({"columns": {"src": ["A"], "n": [7], "x": [1]}}, "columns"),
    "a value too few": ({"columns": {"src": [], "n": [7]}}, "column 'src'"),
    "a number where text is": ({"columns": {"src": [5], "n": [7]}}, "column 'src'"),
    "true where a number is": ({"columns": {"src": ["A"], "n": [True]}}, "column 'n'"),
    "half a number": ({"columns": {"src": ["A"], "n": [7.5]}}, "column 'n'"),
}


def test_a_number_that_a_float_cannot_hold_is_wrong_and_not_infinite() -> None:
    schema = StreamSchema({"x": "float"})
    for value, fits in ((1.5, True), (math.inf, True), (1e39, False)):
        body = msgpack.packb({"vs": [1], "ve": [2], "columns": {"x": [value]}})
        if fits:
            assert msgpack_frames.decode(body, schema).payload["x"].to_pylist() == [value]
        else:
            with pytest.raises(DecodeError, match="column 'x': does not fit float"):
                msgpack_frames.decode(body, schema)


@pytest.mark.parametrize("what", BAD)
def test_a_msgpack_frame_that_is_wrong_says_where(what: str) -> None:
    change, where = BAD[what]
    with pytest.raises(DecodeError) as caught:
        msgpack_frames.decode(msgpack.packb(WHOLE | change), SCHEMA)
    assert caught.value.field == where


@pytest.mark.parametrize("pause", [[1, 2], [1, 2, True], [1, 2, 2**63], [2**31, 0, 0], "1 day", 5])
def test_an_interval_that_is_none_is_refused(pause: Any) -> None:
    schema = StreamSchema({"pause": pa.month_day_nano_interval()})
    body = msgpack.packb({"vs": [6], "ve": [20], "columns": {"pause": [pause]}})
    with pytest.raises(DecodeError):
        msgpack_frames.decode(body, schema)


@pytest.mark.parametrize("tags", [["ab"], [["a", 5]], [[b"a"]], [{"a": 1}], [["a", ["b"]]], [5]])
def test_a_list_that_is_none_is_refused(tags: Any) -> None:
    schema = StreamSchema({"tags": "list<string>"})
    body = msgpack.packb({"vs": [6], "ve": [20], "columns": {"tags": tags}})
    with pytest.raises(DecodeError, match="column 'tags'"):
        msgpack_frames.decode(body, schema)


def outcome(message: pb.Frame) -> str:
    try:
        from_wire(message, SCHEMA)
    except Refusal as e:
        return e.code
    return "a frame"


@pytest.mark.parametrize("encoding", ENCODINGS)
@given(
    place=st.integers(0, 10_000),
    byte=st.integers(0, 255),
    end=st.integers(0, 10_000),
)
def test_bytes_that_were_changed_on_purpose_are_refused_or_are_a_frame(
    encoding: pb.Encoding, place: int, byte: int, end: int
) -> None:
    whole = to_wire(frame_of("ins((A,7),6,20) adj((B,8),6,9,12) stable(10)"), encoding)
    body = bytearray(whole.body)
    body[place % len(body)] = byte
    message = pb.Frame(encoding=encoding, body=bytes(body[: 1 + end % len(body)]))
    assert outcome(message) in ("a frame", "INVALID_ARGUMENT")


@pytest.mark.parametrize("encoding", ENCODINGS)
@given(body=st.binary(min_size=1, max_size=200))
def test_any_bytes_are_refused_or_are_a_frame(encoding: pb.Encoding, body: bytes) -> None:
    assert outcome(pb.Frame(encoding=encoding, body=body)) in ("a frame", "INVALID_ARGUMENT")


def test_a_checksum_that_does_not_fit_is_data_loss() -> None:
    message = to_wire(frame_of("ins((A,7),6,20)"))
    message.crc32 ^= 1
    with pytest.raises(Refusal) as caught:
        from_wire(message, SCHEMA)
    assert caught.value.code == "DATA_LOSS"


def test_rows_are_bounded_before_they_are_built() -> None:
    body = msgpack.packb(WHOLE | {"vs": list(range(100))})
    with pytest.raises(DecodeError):
        msgpack_frames.decode(body, SCHEMA, rows_max=10)
    frame = Frame.from_columns(
        StreamSchema({"n": "int64"}),
        np.arange(100, dtype=np.int64),
        np.arange(100, dtype=np.int64) + 1,
        [pa.array(range(100))],
    )
    with pytest.raises(Refusal):
        from_wire(to_wire(frame), frame.schema, rows_max=10)


def test_a_frame_of_large_rows_is_cut_by_their_bytes() -> None:
    schema = StreamSchema({"text": "string"})
    rows = [Insert((f"{t:0>1000}",), t, t + 5) for t in range(40)]
    frame = Frame.from_elements(schema, [*rows, Stable(40)])
    pieces = cut(frame, 100, bytes_max=5_000)
    assert max(piece.nbytes for piece in pieces) <= 5_000
    assert Frame.concat([p.with_stable(None) for p in pieces]).with_stable(40) == frame
    assert [piece.stable for piece in pieces] == [None] * (len(pieces) - 1) + [40]
    assert len(cut(frame, 100, bytes_max=10)) == 40  # a row is not cut
