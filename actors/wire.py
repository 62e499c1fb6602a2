"""Messages as bytes, for calls between processes of one job.

    [Send("m0.1", Data(session, 7, frame)), ...]  <->  crc of all that follows | pickle

A frame travels as the envelope that files have (protocol/envelope.py): encoding one costs a tenth
of what pickling a record batch does. All around it is pickled, as Ray would do itself; bytes, so
that Ray copies them once and pins nothing: a received frame lives in the receiver's own memory,
however long that keeps it.

Whatever was damaged on its way is told by the checksum in front, before a byte of it is unpickled.
It is dropped, as if it had been lost: all that matters is resent (`MessageDecoder`).

Only processes of one cluster talk like this. Anyone who may submit calls to a cluster may run code
on it anyway (its token keeps others out), so pickle gives nobody more than Ray has given already.
"""

from __future__ import annotations

import io
import pickle
import struct
import zlib
from collections.abc import Callable, Sequence
from typing import Any

from gapless.protocol.envelope import Incarnation, decode_frame, encode_frame
from gapless.protocol.errors import DecodeError, Truncated
from gapless.protocol.frame import Frame
from gapless.protocol.ipc_guard import ROWS_MAX
from gapless.protocol.schema import StreamSchema

SLICE_BYTES = 1 << 20
"""Of a message, in one argument of a call. What is larger than some megabytes (`cluster.HEALTH`)
goes by the object store, and there a raylet is asked: one that hangs would hold up the sender.
Slices go in the call itself, as many as are 64 MB together, and cost no more than the whole.
"""
PIECE_BYTES = 32 << 20
"""A larger frame travels in pieces: half of what an envelope holds, as columns may be uneven."""
ALARM_FACTOR = 10
"""Of what is dropped the first is told, the tenth, the hundredth: a dozen alarms in a process's
lifetime at most."""
_CRC = struct.Struct("<I")
_NOBODY = Incarnation(0, 0)


class Wire:
    """Encodes and decodes what processes of a job tell each other, all frames of one schema."""

    def __init__(self, schema: StreamSchema) -> None:
        self._schema = schema

    def encode(self, said: Any) -> bytes:
        """Anything made of our messages."""
        out = io.BytesIO()
        out.write(bytes(_CRC.size))
        _Pickler(out).dump(said)
        with out.getbuffer() as whole:
            _CRC.pack_into(whole, 0, zlib.crc32(whole[_CRC.size :]))
        return out.getvalue()

    def decode(self, data: bytes) -> Any:
        """Its inverse. Raises `DecodeError` where anything was damaged on its way, and where a
        frame is of another schema.
        """
        if len(data) <= _CRC.size:
            raise Truncated("message", f"has {len(data)} bytes", f"more than {_CRC.size}")
        crc, (wanted,) = zlib.crc32(memoryview(data)[_CRC.size :]), _CRC.unpack_from(data)
        if crc != wanted:
            raise DecodeError(
                "message", f"{len(data)} bytes have the crc {crc:#010x}", f"{wanted:#010x}"
            )
        said = io.BytesIO(data)  # shares the bytes: nothing is copied
        said.seek(_CRC.size)
        return _Unpickler(said, self._schema).load()


def slices(data: bytes) -> list[bytes]:
    """A message as the arguments of a call; most have one."""
    if len(data) <= SLICE_BYTES:
        return [data]
    return [data[at : at + SLICE_BYTES] for at in range(0, len(data), SLICE_BYTES)]


def joined(pieces: Sequence[bytes]) -> bytes:
    """Their inverse."""
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


class MessageDecoder:
    """Decodes what comes to one process, and drops what does not decode, with few alarms."""

    def __init__(self, wire: Wire, alarm: Callable[[str], None]) -> None:
        self._wire = wire
        self._alarm = alarm
        self._told_at = 1
        self.damaged = 0
        """What was dropped."""

    def take(self, data: bytes) -> list[Any]:
        """The messages in it; none where it was damaged. Whose they were cannot be known."""
        try:
            messages: list[Any] = self._wire.decode(data)
        except DecodeError as e:
            self.damaged += 1
            if self.damaged == self._told_at:
                self._told_at *= ALARM_FACTOR
                self._alarm(f"{self.damaged} damaged on the way to it and dropped so far: {e}")
            return []
        return messages


class _Pickler(pickle.Pickler):
    def __init__(self, out: io.BytesIO) -> None:
        super().__init__(out, protocol=5)

    def persistent_id(self, obj: Any) -> tuple[bytes, ...] | None:
        """Frames are not pickled."""
        if type(obj) is not Frame:
            return None
        return tuple(encode_frame(piece, _NOBODY, 0) for piece in _pieces(obj))


class _Unpickler(pickle.Unpickler):
    def __init__(self, data: io.BytesIO, schema: StreamSchema) -> None:
        super().__init__(data)
        self._schema = schema

    def persistent_load(self, pid: Any) -> Frame:
        """What stands for a frame."""
        if type(pid) is not tuple or not pid:
            raise DecodeError("message", f"has a {type(pid).__name__} for a frame", "envelopes")
        pieces = [decode_frame(piece, self._schema).frame for piece in pid]
        if len(pieces) == 1:
            return pieces[0]
        return Frame.concat([piece.with_stable(None) for piece in pieces]).with_stable(
            pieces[-1].stable
        )


def _pieces(frame: Frame) -> list[Frame]:
    """The frame, cut where an envelope would be too large; its stable with the last piece."""
    count = max(-(-frame.nbytes // PIECE_BYTES), -(-len(frame) // ROWS_MAX), 1)
    if count == 1:
        return [frame]
    rows = -(-len(frame) // count)
    starts = range(0, len(frame), rows)
    return [frame.slice(s, rows, frame.stable if s == starts[-1] else None) for s in starts]
