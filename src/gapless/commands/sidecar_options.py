"""The settings of a sidecar that `gapless sidecar` takes as flags."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from gapless.protocol.errors import Misuse


@dataclass(frozen=True, kw_only=True)
class SettingFlags:
    """A flag for each setting (sidecar/server/settings.py); one that is not given is None."""

    listen: Annotated[
        str | None, typer.Option(metavar="HOST:PORT", help="gRPC address. [127.0.0.1:7070]")
    ] = None
    http: Annotated[
        str | None,
        typer.Option(
            metavar="HOST:PORT", help='Address of metrics and health; "" for none. [127.0.0.1:7071]'
        ),
    ] = None
    config: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Settings, tokens and streams, as TOML.")
    ] = None
    data: Annotated[
        str | None, typer.Option(metavar="DIR", help="Data directory. [gapless-sidecar]")
    ] = None
    reflection: Annotated[bool | None, typer.Option(help="Serve gRPC reflection. [yes]")] = None
    insecure: Annotated[
        bool | None,
        typer.Option(
            "--insecure/--secure",
            help="Allow other machines without TLS, or without authentication.",
        ),
    ] = None
    tls_certificate: Annotated[str | None, typer.Option(metavar="FILE")] = None
    tls_key: Annotated[str | None, typer.Option(metavar="FILE")] = None
    tls_client_ca: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="Require client certificates signed by this CA."),
    ] = None
    retain_s: Annotated[
        int | None,
        typer.Option(metavar="SECONDS", help="How much stream time to keep of each output. [all]"),
    ] = None
    retain_bytes: Annotated[
        int | None, typer.Option(metavar="BYTES", help="How much to keep of each output. [all]")
    ] = None
    peer: Annotated[
        str | None,
        typer.Option(
            metavar="HOST:PORT", help="Another sidecar with the same streams, to catch up from."
        ),
    ] = None
    peer_ca: Annotated[str | None, typer.Option(metavar="FILE")] = None
    peer_token_file: Annotated[str | None, typer.Option(metavar="FILE")] = None
    peer_certificate: Annotated[
        str | None, typer.Option(metavar="FILE", help="Client certificate for the peer.")
    ] = None
    peer_key: Annotated[str | None, typer.Option(metavar="FILE")] = None
    drain_s: Annotated[
        int | None, typer.Option(metavar="SECONDS", help="Time to close streams at the end. [10]")
    ] = None
    limit: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=NUMBER", help="A limit, such as streams_max=10; all: --show-config."
        ),
    ] = None

    def given(self) -> dict[str, Any]:
        """The settings by name, and limits by theirs."""
        flags = {name: flag for name, flag in vars(self).items() if name not in ("config", "limit")}
        return flags | _limits(self.limit or [])


def _limits(given: list[str]) -> dict[str, str]:
    limits = {}
    for each in given:
        name, equals, number = each.partition("=")
        if not equals:
            raise Misuse(f"--limit {each!r}: NAME=NUMBER")
        limits[name.strip()] = number.strip()
    return limits
