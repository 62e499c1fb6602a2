"""The peer: a server that plays a sidecar, and drives a client from scenario to scenario.

    conformance          it withholds credits, cuts off, says DATA_LOSS, drains, restarts, has let
                         the client go; at last it takes all to the end
    conformance-fenced   it says that a later incarnation has attached: the client ends

Each scenario is one call, which ends as it says; the client comes again, or has broken rule 10. The
first breach ends the examination.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import grpc

from gapless.protocol.elements import BEGIN
from gapless.protocol.errors import Misuse
from gapless.sidecar import gapless_pb2 as pb
from gapless.sidecar.client.connection import PORT_MAX
from gapless.sidecar.conformance import workload
from gapless.sidecar.conformance.judge import CREDITS, CallJudge, Examined
from gapless.sidecar.conformance.rules import RuleBreach
from gapless.sidecar.options import channel_options
from gapless.sidecar.server.limits import Limits

QUIET_S = 0.3
"""How long nothing comes where a client has no credit left."""
AGAIN_S = 30.0
"""How long a client takes at most to reconnect, or to send its next message."""
FENCED_S = 2.0
"""How long a client is watched that is to come no more."""
METHOD = "gapless.v1.Sidecar"
Why = pb.Detached


@dataclass(frozen=True)
class Scenario:
    """One call."""

    name: str
    step: int
    """Once this step of the workload was pushed the call ends; 0: once all was."""
    code: str = "OK"
    why: pb.Detached.Why | None = None
    restarts: bool = False
    """Whether the server goes, and comes back."""


SCENARIOS = (
    Scenario("credits are withheld, then the call breaks", 12, "UNAVAILABLE"),
    Scenario("a checksum does not fit", 20, "DATA_LOSS", Why.WHY_DAMAGED),
    Scenario("the sidecar drains", 28, "UNAVAILABLE", Why.WHY_DRAINING),
    Scenario("the sidecar restarts", 36, "UNAVAILABLE", restarts=True),
    Scenario("the client was away for too long", 44, "FAILED_PRECONDITION", Why.WHY_ABSENT),
    Scenario("all is said, and the client leaves", 0, "OK", Why.WHY_LEFT),
)
FENCED = Scenario("a later incarnation has attached", 3, "FAILED_PRECONDITION", Why.WHY_FENCED)


@dataclass
class Examination:
    """What came of it."""

    passed: list[str] = field(default_factory=list)
    """Names of scenarios."""
    breach: RuleBreach | None = None
    during: str = ""
    """The scenario of the breach."""


class Peer:
    """Examines one client."""

    def __init__(
        self,
        told: Callable[[str], None] = lambda _: None,
        *,
        quiet_s: float = QUIET_S,
        again_s: float = AGAIN_S,
        fenced_s: float = FENCED_S,
    ) -> None:
        """`told` hears of each scenario that is passed."""
        self.verdict = Examination()
        self._told = told
        self._quiet_s, self._again_s, self._fenced_s = quiet_s, again_s, fenced_s
        self._clients = {workload.STREAM: Examined(), workload.FENCED_STREAM: Examined()}
        self._coming: asyncio.Queue[_Call] = asyncio.Queue()
        self._server: grpc.aio.Server | None = None
        self._port = 0
        self._host = ""

    async def listen(self, address: str) -> int:
        """Begins to answer; the port. Raises `Misuse`."""
        self._host, _, port = address.rpartition(":")
        if not (self._host and port.isascii() and port.isdecimal() and int(port) <= PORT_MAX):
            raise Misuse(f"{address!r}: HOST:PORT, as 127.0.0.1:7070")
        self._port = int(port)
        await self._start()
        return self._port

    async def _start(self) -> None:
        options = [*channel_options(Limits().frame_bytes_max), ("grpc.so_reuseport", 0)]
        server = grpc.aio.server(options=options)
        handler = grpc.stream_stream_rpc_method_handler(
            self._push, pb.PushRequest.FromString, pb.PushReply.SerializeToString
        )
        server.add_generic_rpc_handlers(
            (grpc.method_handlers_generic_handler(METHOD, {"Push": handler}),)
        )
        try:
            self._port = server.add_insecure_port(f"{self._host}:{self._port}")
        except RuntimeError:
            raise Misuse(f"cannot listen on {self._host}:{self._port}") from None
        await server.start()
        self._server = server

    async def _push(self, requests: Any, context: Any) -> None:
        call = _Call(context)
        reader = asyncio.create_task(call.read(requests))
        self._coming.put_nowait(call)
        try:
            await call.over.wait()
        except asyncio.CancelledError:
            call.messages.put_nowait(_GONE)
            raise
        finally:
            reader.cancel()
        if call.code != "OK":
            await context.abort(getattr(grpc.StatusCode, call.code), call.reason)

    # -- the examination ----------------------------------------------------------------------

    async def examine(self) -> Examination:
        """Waits for the client, and examines it."""
        verdict, wait_s = self.verdict, None
        client = self._clients[workload.STREAM]
        try:
            for scenario in (*SCENARIOS, FENCED):
                verdict.during = scenario.name
                if scenario is FENCED:
                    client = self._clients[workload.FENCED_STREAM]
                await self._scenario(scenario, client, wait_s)
                wait_s = self._again_s
                verdict.passed.append(scenario.name)
                self._told(scenario.name)
            await self._comes_no_more()
        except RuleBreach as e:
            verdict.breach = e
        finally:
            if self._server is not None:
                await self._server.stop(None)
        return verdict

    async def _scenario(self, scenario: Scenario, client: Examined, wait_s: float | None) -> None:
        try:
            call = await asyncio.wait_for(self._coming.get(), wait_s)
        except TimeoutError:
            if scenario is FENCED:
                raise RuleBreach(
                    0, f"it does not push to {workload.FENCED_STREAM} after {workload.STREAM}"
                ) from None
            raise RuleBreach(10, f"it did not attach again within {wait_s:g} s") from None
        judge = CallJudge(client)
        try:
            await self._attach(call, judge, client)
            await self._frames(call, judge, client, scenario)
        except RuleBreach as e:
            said = pb.Detached(why=Why.WHY_BAD_CONTENT, reason=str(e), sequence=judge.frames)
            await call.end("INVALID_ARGUMENT", str(e), said)
            raise
        client.absent = scenario.why == Why.WHY_ABSENT
        if scenario.restarts and self._server is not None:
            await self._server.stop(None)
            self._coming = asyncio.Queue()  # who came meanwhile has to come again
            await self._start()
            return
        detached: pb.Detached | None = None
        if scenario.why is not None:
            detached = pb.Detached(why=scenario.why, reason=scenario.name)
        await call.end(scenario.code, scenario.name, detached)

    async def _attach(self, call: _Call, judge: CallJudge, client: Examined) -> None:
        while not judge.is_attached:
            try:
                request = await self._next(call, self._again_s)
            except TimeoutError:
                request = None
            if request is None:
                what = f"the call ended, or {self._again_s:g} s passed, before all of it had come"
                raise RuleBreach(6 if judge.is_begun else 1, f"the attach and its tail: {what}")
            judge.take(request)
        attached = pb.Attached(
            sidecar="conformance",
            epoch=1,
            durable_stable=client.durable,
            feedback=BEGIN,
            credits=CREDITS,
            frame_bytes_max=Limits().frame_bytes_max,
        )
        await call.write(pb.PushReply(attached=attached))

    async def _frames(
        self, call: _Call, judge: CallJudge, client: Examined, scenario: Scenario
    ) -> None:
        """Takes what the scenario wants, and withholds credit now and then."""
        while True:
            is_last = 0 < scenario.step <= max(client.ends, default=0) and judge.frames > 0
            waits = not is_last and not judge.under_way
            try:
                request = await self._next(call, self._again_s if waits else self._quiet_s)
            except TimeoutError:
                if is_last:
                    return
                if waits:
                    what = f"nothing came for {self._again_s:g} s, and all is acknowledged"
                    raise RuleBreach(0, f"{what}, after {judge.frames} frames") from None
                await self._ack(call, judge, client)
                continue
            if request is None:
                if not judge.has_ended:
                    raise RuleBreach(9, "the call ended without a detach")
                return
            judge.take(request)
            if not scenario.step and not judge.has_ended:
                await self._ack(call, judge, client)
            if judge.has_ended:
                await self._silence(call, judge)
                return

    async def _silence(self, call: _Call, judge: CallJudge) -> None:
        """After a detach nothing more is sent, and the call stays open."""
        try:
            request = await self._next(call, self._quiet_s)
        except TimeoutError:
            return
        if request is not None:
            judge.take(request)

    async def _ack(self, call: _Call, judge: CallJudge, client: Examined) -> None:
        judge.acked = judge.frames
        client.durable = max(client.durable, max(client.ends, default=0) + workload.LEAD)
        ack = pb.Ack(
            sequence=judge.acked, durable_stable=client.durable, feedback=BEGIN, credits=CREDITS
        )
        await call.write(pb.PushReply(ack=ack))

    async def _next(self, call: _Call, wait_s: float) -> pb.PushRequest | None:
        message = await asyncio.wait_for(call.messages.get(), wait_s)
        if message is _GONE:
            raise RuleBreach(9, "it broke the call off, and was not told that it had ended")
        return message

    async def _comes_no_more(self) -> None:
        try:
            await asyncio.wait_for(self._coming.get(), self._fenced_s)
        except TimeoutError:
            return
        raise RuleBreach(10, "it was told WHY_FENCED, and attached again")


_GONE: Any = object()


class _Call:
    """One call of the client, message by message."""

    def __init__(self, context: Any) -> None:
        self.messages: asyncio.Queue[pb.PushRequest | None] = asyncio.Queue()
        self.over = asyncio.Event()
        self.code = "OK"
        self.reason = ""
        self._context = context

    async def read(self, requests: Any) -> None:
        """Reads all that comes, credit or not."""
        async for request in requests:
            self.messages.put_nowait(request)
        self.messages.put_nowait(None)

    async def write(self, reply: pb.PushReply) -> None:
        """Says something, if anybody is there."""
        try:
            if not self._context.done():
                await self._context.write(reply)
        except grpc.aio.BaseError:
            return  # it has gone; what comes of it next says so

    async def end(self, code: str, reason: str, detached: pb.Detached | None) -> None:
        """Ends the call."""
        if detached is not None:
            await self.write(pb.PushReply(detached=detached))
        self.code, self.reason = code, reason
        self.over.set()
