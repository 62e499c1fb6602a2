"""Messages as bytes, for calls between processes of one job.

    [Send("m0.1", Data(session, 7, frame)), ...]  <->  one bytes object

A frame travels as the envelope that files have (protocol/envelope.py): encoding one costs a tenth
of what pickling a record batch does, and its checksum is checked where it arrives. All around it is
pickled, as Ray would do itself; bytes, so that Ray copies them once and pins nothing: a received
frame lives in the receiver's own memory, however long that keeps it.

Only processes of one cluster talk like this. Who may submit calls to a cluster may run code on it
anyway (its token keeps others out), so pickle gives nobody more than Ray has given already.
"""

from __future__ import annotations

import io
import pickle
from typing import Any

from gapless.protocol.envelope import Incarnation, decode_frame, encode_frame
from gapless.protocol.errors import DecodeError
from gapless.protocol.frame import Frame
from gapless.protocol.ipc_guard import ROWS_MAX
from gapless.protocol.schema import StreamSchema

PIECE_BYTES = 32 << 20
"""A larger frame travels in pieces: half of what an envelope holds, as columns may be uneven."""
_NOBODY = Incarnation(0, 0)


class Wire:
    """Encodes and decodes what processes of a job tell each other, all frames of one schema."""

    def __init__(self, schema: StreamSchema) -> None:
        self._schema = schema

    def encode(self, said: Any) -> bytes:
        """Anything made of our messages."""
        out = io.BytesIO()
        _Pickler(out).dump(said)
        return out.getvalue()

    def decode(self, data: bytes) -> Any:
        """Its inverse. Raises `DecodeError` where a frame is damaged or of another schema."""
        return _Unpickler(io.BytesIO(data), self._schema).load()


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
