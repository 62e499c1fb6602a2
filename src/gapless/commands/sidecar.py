"""`gapless sidecar`: merges copies of streams that programs push, and serves the result.

Without a subcommand it runs a sidecar; `remove` asks a running one.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gapless.commands.option_groups import grouped
from gapless.commands.sidecar_client_options import TOKEN_VARIABLE
from gapless.commands.sidecar_options import SettingFlags
from gapless.commands.terminal import AsJson, ExitCode, print_json, print_line
from gapless.protocol.errors import Misuse

if TYPE_CHECKING:
    from gapless.sidecar.server.settings import Told

LISTEN = "127.0.0.1:7070"
CONFIG_VARIABLE = "GAPLESS_SIDECAR_CONFIG"
"""The environment variable for --config."""


sidecar = typer.Typer(invoke_without_command=True, rich_markup_mode=None)


@sidecar.callback()
@grouped
def serve(
    *,
    context: typer.Context,
    flags: SettingFlags,
    show_config: Annotated[
        bool, typer.Option("--show-config", help="Print each setting and its origin.")
    ] = False,
    conformance: Annotated[
        bool,
        typer.Option(
            "--conformance",
            help=("Store nothing: check a pushing client against the rules of docs/sidecar.md."),
        ),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Merge copies of streams, and serve each as one without gaps.

    Settings come from flags, then the environment (GAPLESS_SIDECAR_LISTEN, ...), then --config.
    SIGTERM makes everything durable and exits. The manual is docs/sidecar.md.
    """
    if context.invoked_subcommand is not None:
        return
    if conformance:
        _examine(flags.listen or LISTEN, as_json=as_json)
        return
    from gapless.sidecar.server.settings import load

    told = load(flags.given(), os.environ, flags.config or os.environ.get(CONFIG_VARIABLE))
    if show_config:
        _show(told, as_json=as_json)
        return
    _run(told, as_json=as_json)


@sidecar.command()
def remove(
    stream: Annotated[str, typer.Argument(metavar="STREAM", help="Its name.")],
    producer: Annotated[str, typer.Option(metavar="NAME", help="Remove only this producer.")] = "",
    at: Annotated[str, typer.Option("--sidecar", metavar="HOST:PORT", help="Which one.")] = LISTEN,
    ca: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="CA that signs its certificate; turns on TLS."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Remove a stream with all its data, or one of its producers.

    A removed producer is disconnected and its copy no longer counts; its name may start again with
    any incarnation. If the sidecar requires a token with the admin right, it is read from
    GAPLESS_TOKEN.
    """
    from gapless.client import Credentials
    from gapless.sidecar import gapless_pb2 as pb
    from gapless.sidecar.client.connection import Connection, addresses

    (address,) = addresses([at])
    connection = Connection(address, Credentials(token=os.environ.get(TOKEN_VARIABLE), ca=ca))
    try:
        request = pb.RemoveRequest(stream=stream, producer=producer)
        connection.unary("Remove", request, pb.RemoveReply.FromString)
    finally:
        connection.close()
    what = f"{producer} of {stream}" if producer else stream
    if as_json:
        print_json({"removed": what})
    else:
        print_line(f"{what} is removed")


def _examine(listen: str, *, as_json: bool) -> None:
    """Plays a sidecar for one client; exits with 1 if the client breaks a rule."""
    from gapless.sidecar.conformance import workload
    from gapless.sidecar.conformance.peer import Examination, Peer
    from gapless.sidecar.options import is_loopback

    if not is_loopback(listen):
        raise Misuse(f"{listen}: --conformance listens on this machine only")

    def passed(scenario: str) -> None:
        if not as_json:
            print_line(f"kept    {scenario}")
            sys.stdout.flush()

    async def examined() -> Examination:
        peer = Peer(passed)
        port = await peer.listen(listen)
        if not as_json:
            print_line(
                f"listening at {listen.rpartition(':')[0]}:{port}; push {workload.STREAM}, then "
                f"{workload.FENCED_STREAM}, as docs/sidecar.md says"
            )
            sys.stdout.flush()
        return await peer.examine()

    verdict = asyncio.run(examined())
    breach = verdict.breach
    if as_json:
        print_json(
            {
                "passed": verdict.passed,
                "rule": None if breach is None else breach.rule,
                "breach": None if breach is None else breach.sentence,
                "during": None if breach is None else verdict.during,
            }
        )
    elif breach is None:
        print_line("all rules are kept")
    else:
        print_line(f"broken  {verdict.during}: {breach}")
    if breach is not None:
        raise typer.Exit(ExitCode.PROBLEM)


def _show(told: Told, *, as_json: bool) -> None:
    from gapless.sidecar.server.settings import shown

    rows = shown(told)
    if as_json:
        print_json([{"name": name, "value": value, "from": origin} for name, value, origin in rows])
        return
    width = max(len(name) for name, _, _ in rows)
    for name, value, origin in rows:
        print_line(f"{name:{width}}  {value or '-'}  ({origin})")


def _run(told: Told, *, as_json: bool) -> None:
    from gapless.sidecar.server.process import serve

    logging.basicConfig(format="%(asctime)s %(name)s %(message)s")
    settings = told.settings
    host, http_host = (address.rpartition(":")[0] for address in (settings.listen, settings.http))

    def started(port: int, http_port: int | None) -> None:
        grpc_at = f"{host}:{port}"
        http_at = "" if http_port is None else f"{http_host}:{http_port}"
        if as_json:
            print_json({"listen": grpc_at, "http": http_at, "data": settings.data})
            sys.stdout.flush()
        else:
            beside = f", metrics at http://{http_at}/metrics" if http_at else ""
            print_line(f"listening at {grpc_at}{beside}, streams in {settings.data}")

    reason = asyncio.run(serve(settings, started))
    if as_json:
        print_json({"ended": reason})
    else:
        print_line(f"ended: {reason}")
