"""A gRPC server that no call can end, whatever it names.

`grpc.aio` reads the name of a method that nobody has registered as text, on the task that takes in
all calls. A name that is no UTF-8 ends that task, and with it the server: one call of anybody, long
before any token is looked at (tests/sidecar/test_thrown.py). So here all methods that there are,
are registered, for which no name is read, and every other call is answered by us, its name unread.

That leans on names inside grpcio. Where they are gone the server says so when it is made, and is as
safe as grpcio is; and a server that ends by itself ends the process (`Server.run`).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from typing import Any

import grpc
from grpc._cython import cygrpc
from grpc.aio import _server

STRANGERS_MAX = 100
"""Calls of unknown methods that are being answered; others wait."""

_INNER = ("_make_request_call_future", "_request_call")
_log = logging.getLogger("gapless.sidecar")


class _AnsweringServer(cygrpc.AioServer):  # type: ignore[misc]  # it comes without types
    """Answers what is not registered by itself."""

    def _make_request_call_future(self, method: bytes | None) -> Any:
        if method is not None:
            return super()._make_request_call_future(method)
        return asyncio.ensure_future(self._refuse_strangers())

    async def _refuse_strangers(self) -> None:
        """Until the server stops, which raises."""
        answered: set[asyncio.Task[None]] = set()
        while True:
            call = await self._request_call()
            answered.add(asyncio.ensure_future(_refuse(call)))
            if len(answered) >= STRANGERS_MAX:
                _, answered = await asyncio.wait(answered, return_when=asyncio.FIRST_COMPLETED)
            answered -= {task for task in answered if task.done()}


async def _refuse(call: Any) -> None:
    context = cygrpc._ServicerContext(  # noqa: SLF001  # grpc offers no other way to answer
        call, None, None, asyncio.get_running_loop()
    )
    try:
        await context.abort(grpc.StatusCode.UNIMPLEMENTED, "there is no such method")
    except cygrpc.AbortError:
        return  # which is how it says that it was told
    except Exception as e:  # noqa: BLE001  # the peer has gone, or its call was none
        _log.debug("a call of an unknown method: %s: %s", type(e).__name__, e)


def server(options: Sequence[tuple[str, Any]]) -> grpc.aio.Server:
    """The same as `grpc.aio.server`, that refuses unknown methods by itself."""
    missing = [name for name in _INNER if not hasattr(cygrpc.AioServer, name)]
    if missing:
        _log.warning(
            "grpcio %s has no %s: a call of a method whose name is no text may end the sidecar",
            grpc.__version__,
            missing[0],
        )
        return grpc.aio.server(options=options)
    made = _server.Server.__new__(_server.Server)
    loop = cygrpc.get_working_loop()
    made._loop = loop  # noqa: SLF001  # grpc offers no other way to refuse a method
    made._server = _AnsweringServer(loop, None, (), (), tuple(options), None)  # noqa: SLF001  # as above
    return made


def register(to: grpc.aio.Server, service: str, methods: Mapping[str, Any]) -> None:
    """Adds the methods of a service."""
    to.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, methods),))
    to.add_registered_method_handlers(service, methods)
