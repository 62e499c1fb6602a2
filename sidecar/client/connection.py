"""Connecting: a client's channels, what it shows of itself, and what a status code means to it."""

from __future__ import annotations

import ssl
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc

from gapless.protocol.errors import (
    BadData,
    Fenced,
    GaplessError,
    JobError,
    Misuse,
    Trimmed,
)
from gapless.sidecar.options import channel_options, is_loopback
from gapless.sidecar.server.access import SECRET_CHARS_MAX
from gapless.sidecar.server.limits import Limits

SIDECARS_MAX = 8
"""That one client uses: two are enough to lose one."""
PORT_MAX = 65_535
RECONNECT_MS = 50
"""Before a connection is tried again, doubled up to the next: a restart takes a second or two."""
RECONNECT_MS_MAX = 250
CONNECT_S = 1.0
"""How long a connection is waited for before somebody looks whether all this is to end."""
ANSWER_S = 10.0
"""How long a question with one answer may take: the deadline of each such call."""

HEALTH = "/grpc.health.v1.Health/Check"
SERVICE = "/gapless.v1.Sidecar/"
AGAIN = frozenset(
    ("UNAVAILABLE", "RESOURCE_EXHAUSTED", "DATA_LOSS", "DEADLINE_EXCEEDED", "CANCELLED", "ABORTED")
)
"""Codes after which the same may be tried again. CANCELLED is what a server that is gone leaves."""


class ConnectionClosed(Exception):
    """The connection was closed here: its users are to end."""


class Denied(GaplessError):
    """The sidecar does not know the caller, or does not let it do what it wants."""


@dataclass(frozen=True)
class Credentials:
    """What a client shows. A token alone, without TLS, is sent only to this machine."""

    token: str | None = None
    ca: str | Path | None = None
    """A file with the certificates of those who sign sidecars': turns TLS on."""
    certificate: str | Path | None = None
    key: str | Path | None = None

    def __post_init__(self) -> None:
        token = self.token
        if token is not None and not (token.isascii() and token.isprintable() and token.strip()):
            raise Misuse("the token: printable ASCII characters, as a header may have them")
        if token is not None and len(token) > SECRET_CHARS_MAX:
            raise Misuse(
                f"the token: {len(token)} characters, {SECRET_CHARS_MAX} are the most; is it the "
                "name of a file that was meant?"
            )

    @property
    def metadata(self) -> tuple[tuple[str, str], ...]:
        """The metadata with which each call identifies its caller."""
        return () if self.token is None else (("authorization", f"Bearer {self.token}"),)


NOBODY = Credentials()


def addresses(given: str | Sequence[str]) -> tuple[str, ...]:
    """The addresses of sidecars: a text with commas, or several."""
    listed = given.split(",") if isinstance(given, str) else list(given)
    named = tuple(dict.fromkeys(address.strip() for address in listed if address.strip()))
    if not 1 <= len(named) <= SIDECARS_MAX:
        raise Misuse(f"{len(named)} sidecars: 1 to {SIDECARS_MAX}, as HOST:PORT,HOST:PORT")
    wrong = [address for address in named if not _is_address(address)]
    if wrong:
        raise Misuse(f"{wrong[0]!r:.100}: the address of a sidecar is HOST:PORT")
    return named


def _is_address(address: str) -> bool:
    """Whether a server could answer there. Elsewhere the answer is waited for, without end."""
    host, _, port = address.rpartition(":")
    return bool(host) and port.isascii() and port.isdecimal() and 1 <= int(port[:6]) <= PORT_MAX


class Connection:
    """A channel to one sidecar. It connects by itself, and again when it is lost."""

    def __init__(self, address: str, shown: Credentials) -> None:
        self.address = address
        self._metadata = shown.metadata
        options = client_options(address, shown)
        if shown.ca is None:
            self.channel = grpc.insecure_channel(address, options)
        else:
            self.channel = grpc.secure_channel(address, tls_credentials(shown), options)

    def stream_stream(self, method: str, requests: Any, serialize: Any, parse: Any) -> Any:
        """A call with many messages both ways. Raises `ConnectionClosed`, as all here."""
        return self._begin(
            lambda: self.channel.stream_stream(SERVICE + method, serialize, parse),
            requests,
            None,
        )

    def unary_stream(
        self, method: str, request: Any, parse: Any, timeout_s: float | None = None
    ) -> Any:
        """A call with many answers."""
        return self._begin(
            lambda: self.channel.unary_stream(SERVICE + method, _bytes, parse), request, timeout_s
        )

    def unary(self, method: str, request: Any, parse: Any, timeout_s: float = ANSWER_S) -> Any:
        """A call with one answer. Raises what `error_of` says."""
        try:
            return self._begin(
                lambda: self.channel.unary_unary(SERVICE + method, _bytes, parse),
                request,
                timeout_s,
            )
        except grpc.RpcError as e:
            raise error_of(e, self.address) from None

    def _begin(self, make: Callable[[], Any], request: Any, timeout_s: float | None) -> Any:
        try:
            return make()(request, metadata=self._metadata, timeout=timeout_s)
        except ValueError as e:  # so gRPC says that the channel was closed
            raise ConnectionClosed(str(e)) from None

    def wait(self, timeout_s: float) -> bool:
        """Whether somebody answers there, within a time: how well he is makes no difference."""
        try:
            self.channel.unary_unary(HEALTH)(b"", timeout=timeout_s, wait_for_ready=True)
        except grpc.RpcError as e:
            return code_of(e) not in ("DEADLINE_EXCEEDED", "UNAVAILABLE", "CANCELLED")
        except ValueError as e:
            raise ConnectionClosed(str(e)) from None
        return True

    def close(self) -> None:
        """Ends all calls."""
        self.channel.close()


class RetryPause:
    """Between two calls to one sidecar: doubled with each that ends, and short again once the
    sidecar has answered.
    """

    def __init__(self) -> None:
        self._ms = RECONNECT_MS

    @property
    def seconds(self) -> float:
        """How long the next one takes."""
        return self._ms / 1000

    def take(self, wait: Callable[[float], object]) -> None:
        """Waits for so long, or until `wait` returns."""
        wait(self.seconds)
        self._ms = min(2 * self._ms, RECONNECT_MS_MAX)

    def reset(self) -> None:
        """The sidecar has answered."""
        self._ms = RECONNECT_MS


def _bytes(message: Any) -> bytes:
    data: bytes = message.SerializeToString()
    return data


def client_options(address: str, shown: Credentials) -> list[tuple[str, int]]:
    """Of a channel to an address. Raises `Misuse` where what is shown may not be sent there."""
    _check_plain(address, shown)
    return [
        *channel_options(Limits().frame_bytes_max),
        ("grpc.max_receive_message_length", -1),
        ("grpc.initial_reconnect_backoff_ms", RECONNECT_MS),
        ("grpc.min_reconnect_backoff_ms", RECONNECT_MS),
        ("grpc.max_reconnect_backoff_ms", RECONNECT_MS_MAX),
        ("grpc.use_local_subchannel_pool", 1),
    ]


def _check_plain(address: str, shown: Credentials) -> None:
    if shown.ca is not None:
        return
    if shown.token is not None and not is_loopback(address):
        raise Misuse(f"the token would be sent to {address} in the clear: give ca=, for TLS")
    if shown.certificate is not None:
        raise Misuse("a client certificate needs TLS: give ca=, too")


def tls_credentials(shown: Credentials) -> Any:
    """What TLS needs of that. Raises `Misuse`."""

    def read(path: str | Path | None) -> bytes | None:
        return None if path is None else Path(path).read_bytes()

    try:
        ssl.create_default_context(cafile=shown.ca)  # gRPC would wait for ever, without an error
        if shown.certificate is not None:
            ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_cert_chain(
                shown.certificate, shown.key, password=""
            )
        return grpc.ssl_channel_credentials(
            read(shown.ca), read(shown.key), read(shown.certificate)
        )
    except ssl.SSLError as e:
        raise Misuse(f"TLS: {shown.ca} holds no certificates, or the pair is none: {e}") from None
    except OSError as e:
        raise Misuse(f"TLS: {e}") from None


def code_of(error: Any) -> str:
    """The status code of a call that has failed."""
    name: str = error.code().name
    return name


def error_of(error: Any, address: str) -> GaplessError:
    """What the status of a call means to a program."""
    code, said = code_of(error), f"{address}: {error.details()}"
    if code == "OUT_OF_RANGE":
        return Trimmed(said)
    if code in ("UNAUTHENTICATED", "PERMISSION_DENIED"):
        return Denied(said)
    if code == "FAILED_PRECONDITION":
        return Fenced(said)
    if code in ("INVALID_ARGUMENT", "NOT_FOUND"):
        return Misuse(said)
    if code == "DATA_LOSS":
        return BadData(said)
    return JobError(f"{code}: {said}")
