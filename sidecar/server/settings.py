"""Settings of a sidecar: from flags, the environment or a file, in that order.

    gapless sidecar --listen 0.0.0.0:7070          the flag counts
    GAPLESS_SIDECAR_LISTEN=0.0.0.0:7070            else the environment
    listen = "0.0.0.0:7070"                        else the TOML file of --config
                                                   else the default

Every setting has the same name in all three. Tokens and streams are in the file alone. What is
said and means nothing is an error, not a default. `--show-config` prints each value and where it
is from.

A sidecar that listens beyond this machine, without TLS or without anything that says who calls, has
to say that it is meant: `insecure = true`.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import pyarrow as pa

from gapless.protocol.errors import Misuse
from gapless.protocol.schema import StreamSchema
from gapless.protocol.schema_file import parse_type
from gapless.sidecar.definition import Definition
from gapless.sidecar.options import is_loopback
from gapless.sidecar.server.access import Grant, parse_grant
from gapless.sidecar.server.limits import Limits
from gapless.sidecar.server.setup import StreamRetention

PREFIX = "GAPLESS_SIDECAR_"
"""How the environment's names begin."""
FILE_BYTES_MAX = 4 << 20
"""Of a settings file: a thousand tokens and as many streams."""
_NUMBERS = (
    ("retain_s", 0, 100 * 366 * 86_400),
    ("retain_bytes", 0, 1 << 60),
    ("drain_s", 1, 3_600),
)
"""The settings that are numbers, with the least and the most of each; limits check themselves."""
_TRUE, _FALSE = ("1", "true", "yes", "on"), ("0", "false", "no", "off")


@dataclass(frozen=True)
class SidecarSettings:
    """All of them."""

    listen: str = "127.0.0.1:7070"
    """HOST:PORT of gRPC."""
    http: str = "127.0.0.1:7071"
    """HOST:PORT of /metrics, /healthz and /readyz; empty for none."""
    data: str = "gapless-sidecar"
    """The directory with all streams."""
    reflection: bool = True
    """Whether anybody may ask what calls there are."""
    insecure: bool = False
    """Listen beyond this machine without TLS, or without knowing who calls."""
    tls_certificate: str = ""
    """File with the certificate, and those above it."""
    tls_key: str = ""
    """File with its key."""
    tls_client_ca: str = ""
    """File with the certificates of those who sign clients': callers without one are refused."""
    retain_s: int = 0
    """Seconds of stream time that are kept of each output; 0 for all, a century at most."""
    retain_bytes: int = 0
    """Bytes that are kept of each output; 0 for all."""
    peer: str = ""
    """HOST:PORT of a sidecar with the same streams, from which this one catches up."""
    peer_ca: str = ""
    """File with the certificates of those who sign the peer's: TLS."""
    peer_token_file: str = ""
    """File with the token that the peer is shown; it may subscribe."""
    peer_certificate: str = ""
    """File with the certificate that the peer is shown, where it asks for one (mutual TLS)."""
    peer_key: str = ""
    """File with its key."""
    drain_s: int = 10
    """How long streams may take to close when the sidecar is stopped."""
    limits: Limits = field(default_factory=Limits)
    tokens: tuple[Grant, ...] = ()
    streams: tuple[Definition, ...] = ()

    def __post_init__(self) -> None:
        for name in ("listen", "http", "peer"):
            address = getattr(self, name)
            if (address or name == "listen") and not _is_address(address):
                raise Misuse(f"{name} = {address!r}: HOST:PORT, as 127.0.0.1:7070")
        if bool(self.tls_certificate) != bool(self.tls_key):
            raise Misuse("tls_certificate and tls_key come together")
        if bool(self.peer_certificate) != bool(self.peer_key):
            raise Misuse("peer_certificate and peer_key come together")
        if self.tls_client_ca and not self.tls_certificate:
            raise Misuse("tls_client_ca needs tls_certificate: clients show theirs over TLS only")
        if not self.data:
            raise Misuse("data: the directory with all streams has a name")
        for name, least, most in _NUMBERS:
            value = getattr(self, name)
            if type(value) is not int or not least <= value <= most:
                raise Misuse(f"{name} = {value!r}: a whole number, {least} to {most}")
        self._check_exposed()

    def _check_exposed(self) -> None:
        if self.insecure or is_loopback(self.listen):
            return
        if not self.tls_certificate:
            raise Misuse(
                f"{self.listen} can be reached from other machines, and nothing is encrypted: give "
                "tls_certificate and tls_key, or say insecure = true (--insecure)"
            )
        if not self.tokens and not self.tls_client_ca:
            raise Misuse(
                f"{self.listen} can be reached from other machines, and anybody may push and read: "
                "give tokens or tls_client_ca, or say insecure = true (--insecure)"
            )

    @property
    def retention(self) -> StreamRetention:
        """How much is kept."""
        return StreamRetention(self.retain_s or None, self.retain_bytes or None)


@dataclass(frozen=True)
class Told:
    """Settings, and where each is from."""

    settings: SidecarSettings
    origins: Mapping[str, str]


def load(
    flags: Mapping[str, Any], environment: Mapping[str, str], config: str | Path | None
) -> Told:
    """The settings. `flags`: by name, None where a flag was not given. Raises `Misuse`."""
    document = {} if config is None else _document(Path(config))
    tokens = _tables(document.pop("token", []), "token")
    streams = _tables(document.pop("stream", []), "stream")
    table = document.pop("limits", {})
    if not isinstance(table, dict):
        raise Misuse("limits: a table, [limits]")
    in_file = {**document, **table}
    plain = {f.name: f.type for f in fields(SidecarSettings) if f.name not in _STRUCTURED}
    limits = {f.name: f.type for f in fields(Limits)}
    known = {**plain, **limits}
    _check_known(in_file, known, "the settings file")
    in_environment = {
        name[len(PREFIX) :].lower(): value
        for name, value in environment.items()
        if name.startswith(PREFIX) and name != f"{PREFIX}CONFIG"
    }
    _check_known(in_environment, known, "the environment")
    _check_known(flags, known, "the flags")
    values: dict[str, Any] = {}
    origins: dict[str, str] = {}
    for name, kind in known.items():
        given = flags.get(name)
        if given is not None:
            values[name], origins[name] = _value(name, given, kind), "flag"
        elif name in in_environment:
            values[name] = _value(name, in_environment[name], kind)
            origins[name] = f"{PREFIX}{name.upper()}"
        elif name in in_file:
            values[name], origins[name] = _of_type(name, in_file[name], kind), str(config)
        else:
            origins[name] = "default"
    settings = SidecarSettings(
        **{name: value for name, value in values.items() if name in plain},
        limits=Limits(**{name: value for name, value in values.items() if name in limits}),
        tokens=tuple(map(parse_grant, tokens)),
        streams=tuple(map(_stream, streams)),
    )
    return Told(settings, origins)


def shown(told: Told) -> list[tuple[str, str, str]]:
    """Name, value and origin of each setting, for people. Of tokens the names only."""
    settings = told.settings
    rows = []
    for name, origin in told.origins.items():
        home: object = settings if hasattr(settings, name) else settings.limits
        rows.append((name, _written(getattr(home, name)), origin))
    rows += [("token", grant.name, "file") for grant in settings.tokens]
    rows += [("stream", definition.name, "file") for definition in settings.streams]
    return rows


_STRUCTURED = frozenset({"limits", "tokens", "streams"})


def _is_address(address: object) -> bool:
    if not isinstance(address, str):
        return False
    host, _, port = address.rpartition(":")
    return bool(host) and port.isdecimal() and int(port) < 1 << 16


def _document(path: Path) -> dict[str, Any]:
    try:
        data = path.read_bytes()
    except OSError as e:
        raise Misuse(f"the settings file does not read: {e}") from None
    if len(data) > FILE_BYTES_MAX:
        raise Misuse(f"{path}: {len(data)} bytes of settings, {FILE_BYTES_MAX} are the most")
    try:
        return tomllib.loads(data.decode())
    except (ValueError, RecursionError) as e:
        raise Misuse(f"{path} is not TOML: {e}") from None


def _tables(listed: object, name: str) -> list[dict[str, Any]]:
    if not isinstance(listed, list) or not all(isinstance(each, dict) for each in listed):
        raise Misuse(f"{name}: tables, each begins with [[{name}]]")
    return listed


def _check_known(given: Mapping[str, Any], known: Mapping[str, Any], where: str) -> None:
    unknown = sorted(set(given) - set(known))
    if unknown:
        raise Misuse(
            f"{where} says {unknown[0]!r}, which is not a setting: {', '.join(sorted(known))}"
        )


def _value(name: str, given: Any, kind: Any) -> Any:
    """A value that came as text; flags may have made something of it already."""
    if not isinstance(given, str) or kind == "str":
        return _of_type(name, given, kind)
    if kind == "bool":
        if given.lower() not in (*_TRUE, *_FALSE):
            raise Misuse(f"{name} = {given!r}: true or false")
        return given.lower() in _TRUE
    try:
        return int(given)
    except ValueError:
        raise Misuse(f"{name} = {given!r}: a whole number") from None


def _of_type(name: str, given: Any, kind: Any) -> Any:
    if type(given).__name__ != kind:
        words = {"str": "a text", "int": "a whole number", "bool": "true or false"}
        raise Misuse(f"{name} = {given!r}: {words.get(kind, kind)}")
    return given


def _written(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _stream(table: Mapping[str, Any]) -> Definition:
    """A stream that is there from the start. Raises `Misuse`."""
    unknown = sorted(set(table) - {"name", "columns", "time_unit", "key", "insert_only"})
    if unknown:
        raise Misuse(f"stream: {unknown[0]!r} is not a setting of a stream")
    name, columns = table.get("name"), table.get("columns")
    if not isinstance(name, str) or not isinstance(columns, dict):
        raise Misuse('stream: name = "...", and columns = { src = "string", n = "int64" }')
    unit, key = table.get("time_unit", "ms"), table.get("key", False)
    insert_only = table.get("insert_only", False)
    if not isinstance(key, bool) or not isinstance(insert_only, bool):
        raise Misuse(f"stream {name}: key and insert_only are true or false")
    listed = [pa.field(column, parse_type(column, str(t))) for column, t in columns.items()]
    return Definition(name, StreamSchema(pa.schema(listed), unit), key, insert_only)
