"""`gapless sidecar`: merges copies of streams that programs push, and serves the result.

Without a subcommand it runs a sidecar; `remove` asks a running one.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gapless.commands.push import TOKEN_VARIABLE
from gapless.commands.terminal import AsJson, ExitCode, print_json, print_line
from gapless.protocol.errors import Misuse

if TYPE_CHECKING:
    from gapless.sidecar.server.settings import Told

LISTEN = "127.0.0.1:7070"
CONFIG_VARIABLE = "GAPLESS_SIDECAR_CONFIG"
"""The environment variable for --config."""


sidecar = typer.Typer(invoke_without_command=True, rich_markup_mode=None)


@sidecar.callback()
def serve(  # each setting is a flag, and the two that have a type of their own
    context: typer.Context,
    listen: Annotated[
        str | None, typer.Option(metavar="HOST:PORT", help="gRPC address. [127.0.0.1:7070]")
    ] = None,
    http: Annotated[
        str | None,
        typer.Option(
            metavar="HOST:PORT", help='Address of metrics and health; "" for none. [127.0.0.1:7071]'
        ),
    ] = None,
    config: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Settings, tokens and streams, as TOML.")
    ] = None,
    data: Annotated[
        str | None, typer.Option(metavar="DIR", help="Data directory. [gapless-sidecar]")
    ] = None,
    reflection: Annotated[bool | None, typer.Option(help="Serve gRPC reflection. [yes]")] = None,
    insecure: Annotated[
        bool | None,
        typer.Option(
            "--insecure/--secure",
            help="Allow other machines without TLS, or without authentication.",
        ),
    ] = None,
    tls_certificate: Annotated[str | None, typer.Option(metavar="FILE")] = None,
    tls_key: Annotated[str | None, typer.Option(metavar="FILE")] = None,
    tls_client_ca: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="Require client certificates signed by this CA."),
    ] = None,
    retain_s: Annotated[
        int | None,
        typer.Option(metavar="SECONDS", help="How much stream time to keep of each output. [all]"),
    ] = None,
    retain_bytes: Annotated[
        int | None, typer.Option(metavar="BYTES", help="How much to keep of each output. [all]")
    ] = None,
    peer: Annotated[
        str | None,
        typer.Option(
            metavar="HOST:PORT", help="Another sidecar with the same streams, to catch up from."
        ),
    ] = None,
    peer_ca: Annotated[str | None, typer.Option(metavar="FILE")] = None,
    peer_token_file: Annotated[str | None, typer.Option(metavar="FILE")] = None,
    peer_certificate: Annotated[
        str | None, typer.Option(metavar="FILE", help="Client certificate for the peer.")
    ] = None,
    peer_key: Annotated[str | None, typer.Option(metavar="FILE")] = None,
    drain_s: Annotated[
        int | None, typer.Option(metavar="SECONDS", help="Time to close streams at the end. [10]")
    ] = None,
    limit: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=NUMBER", help="A limit, such as streams_max=10; all: --show-config."
        ),
    ] = None,
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
        _examine(listen or LISTEN, as_json=as_json)
        return
    flags: dict[str, Any] = {
        "listen": listen,
        "http": http,
        "data": data,
        "reflection": reflection,
        "insecure": insecure,
        "tls_certificate": tls_certificate,
        "tls_key": tls_key,
        "tls_client_ca": tls_client_ca,
        "retain_s": retain_s,
        "retain_bytes": retain_bytes,
        "peer": peer,
        "peer_ca": peer_ca,
        "peer_token_file": peer_token_file,
        "peer_certificate": peer_certificate,
        "peer_key": peer_key,
        "drain_s": drain_s,
        **_limits(limit or []),
    }
    from gapless.sidecar.server.settings import load

    told = load(flags, os.environ, config or os.environ.get(CONFIG_VARIABLE))
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
    from gapless.sidecar.conformance.peer import Peer, Verdict
    from gapless.sidecar.options import is_loopback

    if not is_loopback(listen):
        raise Misuse(f"{listen}: --conformance listens on this machine only")

    def passed(scenario: str) -> None:
        if not as_json:
            print_line(f"kept    {scenario}")
            sys.stdout.flush()

    async def examined() -> Verdict:
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


def _limits(given: list[str]) -> dict[str, str]:
    limits = {}
    for each in given:
        name, equals, number = each.partition("=")
        if not equals:
            raise Misuse(f"--limit {each!r}: NAME=NUMBER")
        limits[name.strip()] = number.strip()
    return limits


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
