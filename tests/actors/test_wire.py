"""Messages survive their way as bytes, and what is damaged on the way is no message."""

from __future__ import annotations

import io
import zlib
from dataclasses import fields, is_dataclass
from typing import Any, get_args

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gapless.actors import wire
from gapless.actors.shell import Alarmed
from gapless.actors.wire import MessageDecoder, Wire
from gapless.failover import messages as say
from gapless.failover import statuses
from gapless.failover.replica.checkpoint import Checkpoint
from gapless.failover.statuses import InputStatus
from gapless.protocol.elements import BEGIN, INF
from gapless.protocol.envelope import Incarnation
from gapless.protocol.errors import DecodeError
from gapless.protocol.frame import Frame
from gapless.protocol.schema import StreamSchema
from tests.protocol.strategies import frames, schemas

SCHEMA = StreamSchema({"p": "string", "n": "int64"})
WIRE = Wire(SCHEMA)


def numbered(rows: int, stable: int | None = None) -> Frame:
    vs = np.arange(rows)
    columns = [pa.array([f"p{i % 7}" for i in range(rows)]), pa.array(vs)]
    return Frame.from_columns(SCHEMA, vs, vs + 5, columns, stable=stable)


LIFE = say.Life("r0.1", Incarnation(2, 7))
SESSION = say.Session(LIFE, "m0.0", 3)
TOKEN = say.Token("m0.0", 4, 3, 90)
FRAME = numbered(3, 2)
STATE = {"rows": pa.record_batch({"id": pa.array([1, 2])})}
CHECKPOINT = Checkpoint("paned", {"flows": {0: 812}}, {"flows": 40}, 10, 40, (FRAME,), STATE)

EVERY: list[Any] = [
    say.Attach(SESSION, BEGIN, FRAME),
    say.Data(SESSION, 1, FRAME),
    say.Ack(SESSION, 4, 1, 90, 80, throttled=True),
    say.Refused(SESSION, 4, "fenced", fenced=True),
    say.SnapshotRequest(LIFE, "paned"),
    say.SnapshotReply(LIFE, None, "it is joining"),
    say.SnapshotReply(LIFE, CHECKPOINT),
    say.Fetch("s-1", TOKEN),
    say.Delivery(0, FRAME, TOKEN),
    say.Open("s-1", 2, None),
    say.Opened(2, 90, FRAME, TOKEN),
    say.Declined("m0.0", TOKEN, "trimmed", "gone"),
    say.Assign(2, 1, ("m0.0", "m0.1")),
    say.Fence(2, LIFE),
    say.Retire(2, LIFE, "scaled down"),
    say.TakeCheckpoint(2, "c-1"),
    say.Drain(2),
    say.Hold(2, INF, 4),
    statuses.ReplicaStatus(LIFE, "paned", 10, 40, 1, 3, False, False, INF),
    statuses.MergerStatus(LIFE, 4, 90, 80, (InputStatus(LIFE, 90, True),), None, 0, False),
    statuses.CheckpointTaken(LIFE, "c-1", "paned", 10),
    Alarmed(LIFE, "the disk is full"),
]
"""One of each kind of message that there is."""


def test_every_kind_of_message_is_tried() -> None:
    def flat(kinds: Any) -> set[type]:
        return {k for kind in get_args(kinds) for k in (flat(kind) or {kind})}

    assert {type(each) for each in EVERY} >= flat(say.Message)


@pytest.mark.parametrize("message", EVERY)
def test_a_message_arrives_as_it_was_said(message: Any) -> None:
    assert WIRE.decode(WIRE.encode([message])) == [message]


@given(st.data())
def test_any_frames_arrive_as_they_were_sent(data: st.DataObject) -> None:
    schema = data.draw(schemas())
    sent = [say.Data(SESSION, i + 1, data.draw(frames(schema))) for i in range(3)]
    link = Wire(schema)
    got = link.decode(link.encode(sent))
    assert [m.sequence for m in got] == [1, 2, 3]
    assert [m.frame for m in got] == [m.frame for m in sent]


def test_a_received_frame_has_memory_of_its_own() -> None:
    data = WIRE.encode([say.Data(SESSION, 1, FRAME)])
    (got,) = WIRE.decode(data)
    before = got.frame.elements()
    del data
    assert got.frame.elements() == before == FRAME.elements()


@pytest.mark.parametrize("stable", [None, 7])
def test_a_frame_beyond_the_size_of_a_piece_arrives_whole(
    monkeypatch: pytest.MonkeyPatch, stable: int | None
) -> None:
    frame = numbered(1_000, stable)
    one = len(WIRE.encode(frame))
    monkeypatch.setattr(wire, "PIECE_BYTES", frame.nbytes // 7)
    many = WIRE.encode(frame)
    assert len(many) > one  # each piece has a header
    assert len(wire._pieces(frame)) >= 7
    assert sum(map(len, wire._pieces(frame))) == len(frame)
    assert [p.stable for p in wire._pieces(frame)][:-1] == [None] * (len(wire._pieces(frame)) - 1)
    assert WIRE.decode(many) == frame


def test_an_empty_frame_beyond_the_rows_of_an_envelope_is_none() -> None:
    assert len(wire._pieces(Frame.empty(SCHEMA, 5))) == 1


@given(st.sampled_from(EVERY), st.integers(0, 1_000_000))
def test_any_bit_that_changed_on_the_way_is_noticed(message: Any, at: int) -> None:
    data = bytearray(WIRE.encode([message]))
    at %= 8 * len(data)
    data[at // 8] ^= 1 << at % 8
    with pytest.raises(DecodeError, match="message"):
        WIRE.decode(bytes(data))


@given(st.sampled_from(EVERY), st.integers(0, 1_000_000))
@example(EVERY[0], 0)
@example(EVERY[0], 3)
@example(EVERY[0], 4)
def test_any_end_that_was_cut_off_on_the_way_is_noticed(message: Any, left: int) -> None:
    data = WIRE.encode([message])
    with pytest.raises(DecodeError, match="message"):
        WIRE.decode(data[: left % len(data)])


@given(st.binary(max_size=200))
@example(bytes(4))  # the checksum of nothing is 0
@example(bytes(5))
def test_bytes_of_anybody_are_no_message_and_are_never_unpickled(data: bytes) -> None:
    with pytest.raises(DecodeError):
        WIRE.decode(data)


def test_what_is_damaged_is_dropped_and_few_of_many_are_told() -> None:
    told: list[str] = []
    intake = MessageDecoder(WIRE, told.append)
    good = WIRE.encode([EVERY[0]])
    assert intake.take(good) == [EVERY[0]]
    for _ in range(250):
        assert intake.take(good[:-1]) == []
        assert intake.take(good) == [EVERY[0]]
    assert intake.damaged == 250
    assert [line.split()[0] for line in told] == ["1", "10", "100"]


def test_a_frame_of_another_schema_is_refused() -> None:
    other = StreamSchema({"q": "string"})
    with pytest.raises(DecodeError):
        Wire(other).decode(WIRE.encode(FRAME))


def test_what_stands_for_a_frame_is_envelopes_and_nothing_else() -> None:
    class Liar(wire._Pickler):
        def persistent_id(self, obj: Any) -> Any:
            return "a frame, believe me" if type(obj) is Frame else None

    out = io.BytesIO()
    Liar(out).dump(FRAME)
    body = out.getvalue()
    with pytest.raises(DecodeError, match="for a frame"):
        WIRE.decode(zlib.crc32(body).to_bytes(4, "little") + body)


def test_messages_are_of_plain_parts_that_can_be_compared() -> None:
    for message in EVERY:
        assert is_dataclass(message)
        assert fields(message)
