"""A line: the calls of a producer to one sidecar, one after the other, on a thread of their own.

    connect --> Push: attach, its tail, frames -->  sidecar
       ^              <-- Attached, Ack, ... Detached
       '--- the call has ended: after a while the next one

It gives the machine `Reached` as a call begins, `Credit` and `Ack` with each answer, and `Lost` as
the call ends. An error that a retry cannot mend ends the producer.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from itertools import chain
from queue import SimpleQueue
from typing import Any

import grpc

from gapless.failover.messages import Ack, Attach, Data, Session
from gapless.protocol.errors import BadData, GaplessError, StreamViolation
from gapless.sidecar import gapless_pb2 as pb
from gapless.sidecar.client.connection import (
    AGAIN,
    CONNECT_S,
    Connection,
    ConnectionClosed,
    RetryPause,
    code_of,
    error_of,
)
from gapless.sidecar.client.producer_machine import Credit, LetGo, Lost, Reached
from gapless.sidecar.client.producer_pump import ProducerPump
from gapless.sidecar.client.push_requests import PushRequests

_END = None


class PushLine:
    """The way to one sidecar."""

    def __init__(self, pump: ProducerPump, requests: PushRequests, connection: Connection) -> None:
        self.connection = connection
        self.is_over = False
        """Whether the sidecar knows that nothing more follows, or cannot be told."""
        self._pump = pump
        self._requests = requests
        self._queue: SimpleQueue[Iterator[pb.PushRequest] | None] = SimpleQueue()
        self._session: Session | None = None
        self._epoch = 0
        self._pause = RetryPause()
        self._thread = threading.Thread(
            target=self._run, name=f"push {connection.address}", daemon=True
        )

    def start(self) -> None:
        """Begins to connect."""
        self._thread.start()

    def send(self, message: Attach | Data) -> None:
        """Sends over the present call."""
        if isinstance(message, Attach):
            self._session = message.session
        self._queue.put(self._requests.of(message))

    def leave(self) -> None:
        """Detaches: the call ends once all that was sent is durable."""
        self._queue.put(iter((pb.PushRequest(detach=pb.Detach(reason="closed")),)))
        self._queue.put(_END)

    def join(self, timeout_s: float) -> None:
        """Waits for its end."""
        self._thread.join(timeout_s)

    # -- on its own thread --------------------------------------------------------------------

    def _run(self) -> None:
        pump = self._pump
        try:
            self._call_again_and_again()
        except ConnectionClosed:
            return
        except GaplessError as e:
            pump.fail(e)
        except Exception as e:  # noqa: BLE001  # the program hears of it, and does not wait for ever
            pump.break_down(e)
        finally:
            self.is_over = True
            if pump.closing.is_set():
                self.connection.close()
            pump.on_heard()

    def _call_again_and_again(self) -> None:
        pump = self._pump
        while not pump.closing.is_set():
            if not self.connection.wait(CONNECT_S):
                continue
            if pump.closing.is_set():
                return
            self._call()
            if pump.error is not None:
                return  # nothing that is asked again would be answered otherwise
            self._pause.take(pump.closing.wait)

    def _call(self) -> None:
        """One call, until it ends."""
        pump, address = self._pump, self.connection.address
        queue = self._queue = SimpleQueue()
        call = self.connection.stream_stream(
            "Push",
            chain.from_iterable(iter(queue.get, _END)),
            pb.PushRequest.SerializeToString,
            pb.PushReply.FromString,
        )
        pump.happens(Reached(address))
        why: pb.Detached | None = None
        try:
            for reply in call:
                if reply.WhichOneof("message") == "detached":
                    why = reply.detached
                else:
                    self._hear(reply)
        except grpc.RpcError as e:
            self._look_at_the_end(e, why)
        finally:
            call.cancel()
            queue.put(_END)
            pump.hears(Lost(address))

    def _hear(self, reply: pb.PushReply) -> None:
        pump, address, session = self._pump, self.connection.address, self._session
        if session is None:
            raise BadData(f"{address} answers, and nothing was said to it: is it a sidecar?")
        if reply.WhichOneof("message") == "attached":
            said = reply.attached
            self._epoch = said.epoch
            self._pause.reset()
            pump.is_well(address)
            ack = Ack(session, said.epoch, 0, said.durable_stable, said.feedback)
            credit = Credit(address, said.credits)
        else:
            told = reply.ack
            credit = Credit(address, told.credits)
            ack = Ack(
                session,
                self._epoch,
                told.sequence,
                told.durable_stable,
                told.feedback,
                told.throttled,
            )
        pump.hears(credit, ack)

    def _look_at_the_end(self, error: Any, why: pb.Detached | None) -> None:
        """Decides what the end of a call means. `why`: the reason that the sidecar gave, if any."""
        pump, address = self._pump, self.connection.address
        if pump.closing.is_set():
            return
        code = code_of(error)
        if why is not None and why.why == pb.Detached.WHY_ABSENT:
            pump.happens(LetGo())
        elif why is not None and why.why == pb.Detached.WHY_BAD_CONTENT and code != "DATA_LOSS":
            pump.fail(StreamViolation(address, why.reason))
        elif code not in AGAIN:
            pump.fail(error_of(error, address))
        else:
            pump.has_trouble(address, f"{code}: {error.details()}")
