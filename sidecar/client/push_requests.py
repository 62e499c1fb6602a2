"""What a producer's machine sends, as the messages of a push call.

    Attach(session, tail, ...)   -->   attach, frame, frame, ...     the tail, cut into messages
    Data(session, 7, frame)      -->   frame 7

The messages of a tail are made one by one as they are sent: memory may not have room for it twice.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from gapless.failover.messages import Attach, Data
from gapless.protocol.elements import BEGIN
from gapless.protocol.errors import Misuse
from gapless.protocol.frame import Frame
from gapless.protocol.schema import StreamSchema
from gapless.sidecar import gapless_pb2 as pb
from gapless.sidecar.definition import schema_to_wire
from gapless.sidecar.frames import cut, to_wire
from gapless.sidecar.lives import incarnation_of

ENCODINGS: Mapping[str, pb.Encoding] = {
    "arrow": pb.ENCODING_ARROW,
    "msgpack": pb.ENCODING_MSGPACK,
}
"""By the names that programs use."""


def encoding_of(name: str) -> pb.Encoding:
    """The encoding of this name. Raises `Misuse`."""
    if name not in ENCODINGS:
        raise Misuse(f"encoding {name!r}: {', '.join(ENCODINGS)}")
    return ENCODINGS[name]


class PushRequests:
    """Those of one producer."""

    def __init__(
        self, stream: str, schema: StreamSchema, properties: pb.Properties, encoding: pb.Encoding
    ) -> None:
        self._stream = stream
        self._schema = schema
        self._properties = properties
        self._encoding = encoding

    def of(self, message: Attach | Data) -> Iterator[pb.PushRequest]:
        """The messages that say it."""
        if isinstance(message, Attach):
            return self._attach(message)
        return iter((self._frame(message.frame, message.sequence),))

    def _attach(self, message: Attach) -> Iterator[pb.PushRequest]:
        """The attach and its tail, of which each frame is encoded when it is sent."""
        life = message.session.life
        tail = [piece for piece in cut(message.tail) if piece]
        attach = pb.Attach(
            stream=self._stream,
            producer=life.slot,
            incarnation=incarnation_of(life),
            schema=schema_to_wire(self._schema),
            properties=self._properties,
            join_at=None if message.join_at == BEGIN else message.join_at,
            tail_frames=len(tail),
        )
        yield pb.PushRequest(attach=attach)
        for piece in tail:
            yield self._frame(piece, 0)

    def _frame(self, frame: Frame, sequence: int) -> pb.PushRequest:
        return pb.PushRequest(frame=to_wire(frame, self._encoding, sequence))
