"""Reading: one subscribe call after the other, to one sidecar, as one stream that does not break.

    start --> call --> deliveries, tokens      breaks: a new call, from the last token on

The sidecar decides everything: where a start is, what is final, what a token means. A token of
another journal, as when the sidecar has lost its disk, is answered with a reset.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, replace

import grpc

from gapless.failover.job.whole_file import check_name
from gapless.protocol.elements import BEGIN, INF
from gapless.protocol.errors import DecodeError, Misuse
from gapless.sidecar import gapless_pb2 as pb
from gapless.sidecar.assembly import Assembler, Delivered
from gapless.sidecar.client.connection import (
    AGAIN,
    CONNECT_S,
    Connection,
    ConnectionClosed,
    RetryPause,
    code_of,
    error_of,
)
from gapless.sidecar.definition import NAME_CHARS_MAX
from gapless.sidecar.server.refusals import Refusal


@dataclass(frozen=True, slots=True)
class Wish:
    """What a program wants to read."""

    stream: str
    deliver: str = "changes"
    start: str | int = "now"
    """"now", "earliest", a time, or a token."""
    columns: tuple[str, ...] = ()
    filter: str = ""
    name: str = ""

    def __post_init__(self) -> None:
        if self.deliver not in ("changes", "final"):
            raise Misuse(f"deliver {self.deliver!r}: changes or final")
        if type(self.start) not in (int, str) or not (type(self.start) is int or self.start):
            raise Misuse(f'start {self.start!r}: "now", "earliest", a time, or a token')
        if type(self.start) is int and not BEGIN <= self.start <= INF:
            raise Misuse(f"start {self.start}: a time is an int64")
        check_name("stream", self.stream, NAME_CHARS_MAX)

    def request(self) -> pb.SubscribeRequest:
        """As a message."""
        request = pb.SubscribeRequest(
            stream=self.stream,
            deliver=pb.DELIVER_FINAL if self.deliver == "final" else pb.DELIVER_CHANGES,
            columns=self.columns,
            filter=self.filter,
            subscriber=self.name,
        )
        if isinstance(self.start, int):
            request.time = self.start
        elif self.start in ("now", "earliest"):
            request.edge = pb.EDGE_BEGIN if self.start == "earliest" else pb.EDGE_NOW
        else:
            request.token = self.start
        return request


class SidecarSubscription:
    """One sidecar's answer to a wish. One thread calls it; `close` is for any."""

    def __init__(self, connection: Connection, wish: Wish, missing_s: float) -> None:
        """`missing_s`: how long a stream that nobody has pushed to yet is waited for."""
        self.wish = wish
        """What a next call would ask for."""
        self._connection = connection
        self._missing_s = missing_s
        self._closed = threading.Event()
        self._pause = RetryPause()
        self._call: grpc.Call | None = None
        self.is_over = False
        """Whether the stream itself has ended."""

    def run(self, take: Callable[[Delivered, Assembler], None]) -> None:
        """Gives each frame to `take`, until the stream ends or this is closed. Raises what ends
        it.
        """
        try:
            self._run(take)
        except ConnectionClosed:
            return

    def _run(self, take: Callable[[Delivered, Assembler], None]) -> None:
        missed_s = 0.0
        while not self._closed.is_set():
            if not self._connection.wait(CONNECT_S):
                continue
            try:
                self._read(take)
            except grpc.RpcError as e:
                code = code_of(e)
                if self._closed.is_set():
                    return
                is_missing = code == "NOT_FOUND" and missed_s < self._missing_s
                if code not in AGAIN and not is_missing:
                    raise error_of(e, self._connection.address) from None
                missed_s += self._pause.seconds if is_missing else 0.0
            else:
                if self.is_over:
                    return
            self._pause.take(self._closed.wait)

    def _read(self, take: Callable[[Delivered, Assembler], None]) -> None:
        assembler = Assembler()
        call = self._connection.unary_stream(
            "Subscribe", self.wish.request(), pb.Delivery.FromString
        )
        self._call = call
        try:
            for delivery in call:
                self._pause.reset()
                try:
                    delivered = assembler.take(delivery)
                except Refusal as e:
                    if e.code == "DATA_LOSS":
                        return  # it was damaged on its way: asked for again
                    raise DecodeError("delivery", e.sentence) from None
                if delivered is not None:
                    take(delivered, assembler)
                    self.wish = replace(self.wish, start=delivered.token or self.wish.start)
                if self._closed.is_set():
                    return
            self.is_over = True
        finally:
            call.cancel()

    def close(self) -> None:
        """Reads no more."""
        self._closed.set()
        call = self._call
        if call is not None:
            call.cancel()
        self._connection.close()
