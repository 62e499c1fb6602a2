"""Who may do what: tokens by stream, certificates on both ends, and their renewal."""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path

import pytest

from gapless.client import Consumer, Credentials, Denied, Producer
from gapless.protocol.errors import Misuse
from gapless.sidecar import gapless_pb2 as pb
from gapless.sidecar.client.connection import Connection
from gapless.sidecar.server.access import Access, Grant, check, parse_grant
from gapless.sidecar.server.refusals import Refusal
from gapless.sidecar.server.tls import Certificates
from tests.sidecar.helpers import (
    PATIENCE_S,
    SCHEMA,
    Caller,
    Running,
    attach,
    error_of,
    frame_of,
    sidecar,
)

TLS = Path(__file__).parents[1] / "tls"


def grant(name: str, **rights: object) -> Grant:
    """One whose secret is its name."""
    return parse_grant(
        {"name": name, "sha256": hashlib.sha256(name.encode()).hexdigest(), **rights}
    )


ACCESS = Access(
    [
        grant("pusher", push=["s", "flows-*"]),
        grant("reader", subscribe=["*"]),
        grant("root", admin=True),
    ]
)


def test_each_token_may_do_what_it_was_granted(tmp_path: Path) -> None:
    with sidecar(tmp_path, access=ACCESS) as one:
        with Producer(one.address, "s", "a", SCHEMA, token="pusher") as a:
            a.push(frame_of("ins((A,7),6,20) stable(10)"))
        with Consumer(one.address, "s", start="earliest", token="reader") as consumer:
            assert consumer.next(PATIENCE_S) is not None
        with Caller(one.address, "root") as root:
            assert root.unary("Drain", pb.DrainRequest(), pb.DrainReply).streams == 1


@pytest.mark.parametrize(
    ("token", "code"), [(None, "UNAUTHENTICATED"), ("wrong", "UNAUTHENTICATED")]
)
def test_a_stranger_may_do_nothing(tmp_path: Path, token: str | None, code: str) -> None:
    with sidecar(tmp_path, access=ACCESS) as one, Caller(one.address, token) as caller:
        errors = [
            caller.pushed(attach()),
            error_of(lambda: list(caller.subscribe(pb.SubscribeRequest(stream="s")))),
            error_of(caller.status),
            error_of(lambda: caller.unary("Drain", pb.DrainRequest(), pb.DrainReply)),
        ]
    assert [error.code().name for error in errors] == [code] * 4


def test_a_token_may_not_do_what_another_may(tmp_path: Path) -> None:
    with sidecar(tmp_path, access=ACCESS) as one:
        with Caller(one.address, "pusher") as pusher:
            pusher.push(attach())
            read = error_of(lambda: list(pusher.subscribe(pb.SubscribeRequest(stream="s"))))
            other = pusher.pushed(attach(stream="t"))
            drain = error_of(lambda: pusher.unary("Drain", pb.DrainRequest(), pb.DrainReply))
        with Caller(one.address, "reader") as reader:
            pushed = reader.pushed(attach())
    for error in (read, other, drain, pushed):
        assert error.code().name == "PERMISSION_DENIED"


def test_a_program_is_told_that_it_may_not(tmp_path: Path) -> None:
    with sidecar(tmp_path, access=ACCESS) as one:
        producer = Producer(one.address, "s", "a", SCHEMA, token="reader")
        with pytest.raises(Denied, match="may not push"):
            producer.wait_durable(1, PATIENCE_S)
        producer.abandon()
        with (
            Consumer(one.address, "s", token="wrong") as consumer,
            pytest.raises(Denied, match="nobody knows"),
        ):
            consumer.next(PATIENCE_S)


def test_status_shows_a_caller_its_streams_only(tmp_path: Path) -> None:
    with sidecar(tmp_path, access=ACCESS) as one:
        with Caller(one.address, "pusher") as pusher:
            pusher.push(attach(stream="s"))
            pusher.push(attach(stream="flows-1"))
            assert [s.name for s in pusher.status().streams] == ["flows-1", "s"]
        with Caller(one.address, "reader") as reader:
            assert [s.name for s in reader.status().streams] == ["flows-1", "s"]


def test_a_pattern_ends_in_a_star_or_is_a_name() -> None:
    some = grant("some", push=["a", "b-*"])
    for stream, may in (("a", True), ("ab", False), ("b-", True), ("b-1", True), ("b", False)):
        assert some.allows("push", stream) is may
        assert not some.allows("subscribe", stream)
    with pytest.raises(Refusal):
        check(some, "admin")


BAD: dict[str, dict[str, object]] = {
    "no name": {"sha256": "00" * 32},
    "no hash": {"name": "a"},
    "a hash cut short": {"name": "a", "sha256": "00" * 31},
    "a hash and a certificate": {"name": "a", "sha256": "00" * 32, "certificate": "a"},
    "a star inside": {"name": "a", "sha256": "00" * 32, "push": ["a*b"]},
    "no such right": {"name": "a", "sha256": "00" * 32, "write": ["a"]},
    "names that are no list": {"name": "a", "sha256": "00" * 32, "push": "a"},
}


@pytest.mark.parametrize("what", BAD)
def test_a_grant_that_says_nothing_is_an_error(what: str) -> None:
    with pytest.raises(Misuse):
        parse_grant(BAD[what])


# -- TLS ------------------------------------------------------------------------------------------


def shown(name: str | None, authority: str = "authority") -> Credentials:
    """What a client shows."""
    ca = TLS / f"{authority}.pem"
    if name is None:
        return Credentials(ca=ca)
    return Credentials(ca=ca, certificate=TLS / f"{name}.pem", key=TLS / f"{name}.key")


def secured(folder: Path, *, mutual: bool = False) -> Certificates:
    """A sidecar's certificate, in files of its own."""
    folder.mkdir()
    for end in ("pem", "key"):
        shutil.copy(TLS / f"sidecar.{end}", folder / f"here.{end}")
    ca = str(TLS / "authority.pem") if mutual else ""
    return Certificates(str(folder / "here.pem"), str(folder / "here.key"), ca)


def answers(one: Running, credentials: Credentials) -> bool:
    connection = Connection(f"localhost:{one.port}", credentials)
    try:
        return connection.wait(2.0)
    finally:
        connection.close()


def test_over_tls_a_stream_is_pushed_and_read(tmp_path: Path) -> None:
    certificates = secured(tmp_path / "tls")
    with sidecar(tmp_path / "data", certificates=certificates) as one:
        with Producer(one.address, "s", "a", SCHEMA, credentials=shown(None)) as a:
            a.push(frame_of("ins((A,7),6,20) stable(10)"))
        with Consumer(one.address, "s", start="earliest", credentials=shown(None)) as consumer:
            assert consumer.next(PATIENCE_S) is not None
        assert not answers(one, shown(None, authority="stranger"))


def test_with_mutual_tls_only_known_clients_are_let_in(tmp_path: Path) -> None:
    certificates = secured(tmp_path / "tls", mutual=True)
    with sidecar(tmp_path / "data", certificates=certificates) as one:
        assert answers(one, shown("client"))
        assert not answers(one, shown(None))
        assert not answers(one, shown("unknown"))
        assert not answers(one, shown("expired"))


def test_a_certificate_may_stand_for_a_token(tmp_path: Path) -> None:
    certificates = secured(tmp_path / "tls", mutual=True)
    access = Access([parse_grant({"name": "c", "certificate": "client", "push": ["s"]})])
    with sidecar(tmp_path / "data", certificates=certificates, access=access) as one:
        with Producer(one.address, "s", "a", SCHEMA, credentials=shown("client")) as a:
            a.push(frame_of("stable(3)"))
        with (
            Consumer(one.address, "s", credentials=shown("client")) as consumer,
            pytest.raises(Denied, match="may not subscribe"),
        ):
            consumer.next(PATIENCE_S)
        other = Consumer(one.address, "s", credentials=shown("sidecar"))
        with pytest.raises(Denied, match="a token is asked for"):
            other.next(PATIENCE_S)
        other.close()


def serial(one: Running) -> bytes:
    """The certificate that a new connection is shown."""
    import ssl

    text = ssl.get_server_certificate(("127.0.0.1", one.port))
    return text.encode()


def test_a_renewed_certificate_is_shown_without_a_restart(tmp_path: Path) -> None:
    certificates = secured(tmp_path / "tls")
    with sidecar(tmp_path / "data", certificates=certificates) as one:
        before = serial(one)
        shutil.copy(TLS / "renewed.key", tmp_path / "tls" / "here.key")  # half of it is there:
        assert serial(one) == before  # an invalid pair changes nothing
        shutil.copy(TLS / "renewed.pem", tmp_path / "tls" / "here.pem")
        assert serial(one) != before
        assert answers(one, shown(None))


def test_files_that_are_no_pair_are_refused_at_the_start() -> None:
    with pytest.raises(Misuse, match="no pair"):
        Certificates(str(TLS / "sidecar.pem"), str(TLS / "client.key"))
    with pytest.raises(Misuse, match="TLS"):
        Certificates(str(TLS / "nowhere.pem"), str(TLS / "nowhere.key"))


def test_a_key_behind_a_password_is_refused_and_nobody_is_asked_for_it() -> None:
    with pytest.raises(Misuse, match="no pair"):
        Certificates(str(TLS / "sidecar.pem"), str(TLS / "locked.key"))


@pytest.mark.parametrize("address", ["example.org:7070", "127.0.0.1.example.org:7070"])
def test_a_token_is_never_sent_in_the_clear_to_another_machine(address: str) -> None:
    with pytest.raises(Misuse, match="in the clear"):
        Connection(address, Credentials(token="secret"))
