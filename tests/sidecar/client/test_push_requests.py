"""What a producer's machine sends is said in messages: a tail piece by piece, as it is sent."""

from __future__ import annotations

import pytest

from gapless.failover.messages import Attach, Data, Life, Session
from gapless.protocol.elements import BEGIN
from gapless.protocol.envelope import Incarnation
from gapless.protocol.errors import Misuse
from gapless.protocol.frame import Frame
from gapless.sidecar import frames
from gapless.sidecar import gapless_pb2 as pb
from gapless.sidecar.client import push_requests
from gapless.sidecar.client.push_requests import PushRequests, encoding_of
from gapless.sidecar.frames import from_wire
from tests.sidecar.helpers import SCHEMA, frame_of

SESSION = Session(Life("a", Incarnation(0, 7)), "x", 1)
REQUESTS = PushRequests("talkers", SCHEMA, pb.Properties(key=True), pb.ENCODING_ARROW)


def test_an_attach_says_who_pushes_and_its_tail_follows_in_frames(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(push_requests, "cut", lambda frame: frames.cut(frame, rows_max=2))
    tail = frame_of("ins((A,1),1,9) ins((B,2),2,9) ins((C,3),3,9) stable(5)")
    first, *rest = REQUESTS.of(Attach(SESSION, 4, tail))
    attach = first.attach
    assert (attach.stream, attach.producer, attach.incarnation) == ("talkers", "a", 7)
    assert (attach.join_at, attach.tail_frames, attach.properties.key) == (4, 2, True)
    pieces = [from_wire(request.frame, SCHEMA) for request in rest]
    assert [request.frame.sequence for request in rest] == [0, 0]
    assert [len(piece) for piece in pieces] == [2, 1]
    assert [piece.stable for piece in pieces] == [None, 5]


def test_who_tells_all_says_no_time_and_of_an_empty_tail_nothing_follows() -> None:
    (only,) = REQUESTS.of(Attach(SESSION, BEGIN, Frame.empty(SCHEMA)))
    assert not only.attach.HasField("join_at")
    assert only.attach.tail_frames == 0


def test_a_frame_goes_with_its_number_in_the_encoding_that_was_chosen() -> None:
    msgpack = PushRequests("talkers", SCHEMA, pb.Properties(), encoding_of("msgpack"))
    frame = frame_of("ins((A,1),1,9) stable(5)")
    for requests, encoding in ((REQUESTS, pb.ENCODING_ARROW), (msgpack, pb.ENCODING_MSGPACK)):
        (only,) = requests.of(Data(SESSION, 3, frame))
        assert (only.frame.sequence, only.frame.encoding) == (3, encoding)
        assert from_wire(only.frame, SCHEMA) == frame


def test_an_encoding_that_nobody_knows_is_refused_with_those_that_there_are() -> None:
    with pytest.raises(Misuse, match="encoding 'json': arrow, msgpack"):
        encoding_of("json")
