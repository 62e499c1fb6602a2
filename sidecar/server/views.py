"""A view: what a subscriber sees of a stream: some columns, some rows, in one encoding.

It changes no time and no order, so promises stay what they are. Subscribers with the same view at
the same place get the same bytes, which are made once.
"""

from __future__ import annotations

from typing import NamedTuple

import pyarrow as pa

from gapless.protocol.errors import GaplessError
from gapless.protocol.expr import Expr
from gapless.protocol.frame import Frame
from gapless.protocol.schema import StreamSchema
from gapless.sidecar import gapless_pb2 as pb
from gapless.sidecar.server.filters import parse_filter
from gapless.sidecar.server.refusals import Refusal


class ViewKey(NamedTuple):
    """What tells views apart."""

    columns: tuple[str, ...]
    filter: str
    encoding: int


class FrameView:
    """What is left of each frame."""

    def __init__(self, schema: StreamSchema, key: ViewKey, columns_max: int) -> None:
        """Raises `Refusal` where a stream of this schema has no such view."""
        self.key = key
        self.encoding: pb.Encoding = pb.ENCODING_ARROW
        if key.encoding not in (pb.ENCODING_ARROW, pb.ENCODING_MSGPACK):
            raise Refusal("INVALID_ARGUMENT", f"encoding {key.encoding}: 0 is Arrow, 1 msgpack")
        if key.encoding == pb.ENCODING_MSGPACK:
            self.encoding = pb.ENCODING_MSGPACK
        self.schema = schema
        self._places: list[int] = []
        self._filter: Expr | None = None
        if key.columns:
            self._choose(key.columns, columns_max)
        if key.filter.strip():
            try:
                self._filter = parse_filter(key.filter, schema)
            except GaplessError as e:
                raise Refusal("INVALID_ARGUMENT", str(e)) from None

    def _choose(self, columns: tuple[str, ...], columns_max: int) -> None:
        names = self.schema.names
        wrong = [name for name in columns if name not in names]
        if wrong:
            raise Refusal(
                "INVALID_ARGUMENT",
                f"there is no column {wrong[0]!r:.70}; there are {', '.join(names)}",
            )
        if len(set(columns)) != len(columns) or len(columns) > columns_max:
            raise Refusal(
                "INVALID_ARGUMENT", f"each column is named once, and {columns_max} at most"
            )
        payload = self.schema.payload
        self._places = [3 + names.index(name) for name in columns]
        fields = [payload.field(name) for name in columns]
        self.schema = StreamSchema(pa.schema(fields), self.schema.time_unit)

    def of(self, frame: Frame) -> Frame:
        """What of a frame is seen. Its stable always is. Raises `GaplessError` where the filter
        cannot know about a row.
        """
        if self._filter is not None and len(frame):
            passes = (
                self._filter.evaluate(frame.payload).fill_null(False).to_numpy(zero_copy_only=False)
            )
            if not passes.all():
                frame = frame.take(passes, frame.stable)
        return frame.projected(self.schema, self._places) if self._places else frame
