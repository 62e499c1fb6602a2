"""A sidecar that producers did not wait for reads what it lacks from its peer."""

from __future__ import annotations

from pathlib import Path

import pytest

from gapless.protocol.errors import Misuse
from gapless.sidecar.client.connection import Credentials
from gapless.sidecar.client.consumer import Consumer
from gapless.sidecar.client.producer import Producer
from gapless.sidecar.server.peer_outputs import Peer
from gapless.sidecar.server.tls import Certificates
from tests.sidecar.helpers import SCHEMA, frame_of, read_until, sidecar, table_of

TLS = Path(__file__).parents[1] / "tls"
BEFORE = "ins((A,7),6,20) stable(10)"
BETWEEN = "ins((B,8),12,20) stable(20)"
AFTER = "ins((C,9),22,30) stable(25)"
WHOLE = "ins((A,7),6,20) ins((B,8),12,20) ins((C,9),22,30) stable(25)"


def test_what_nobody_tells_any_more_comes_from_the_peer(tmp_path: Path) -> None:
    with (
        sidecar(tmp_path / "1") as one,
        sidecar(tmp_path / "2", peer=Peer(one.address)) as other,
        Producer(f"{one.address},{other.address}", "s", "a", SCHEMA) as a,
    ):
        a.push(frame_of(BEFORE))
        assert a.wait_durable(10)
        other.stop(by_force=True)
        with Producer(one.address, "s", "b", SCHEMA) as b:
            b.push(frame_of(f"{BEFORE.replace('stable(10)', '')} {BETWEEN}"))
            assert b.wait_durable(20)
        a.abandon()
        other.restart()
        with Producer(other.address, "s", "c", SCHEMA, join_at=20) as c:
            c.push(frame_of(AFTER))
            with Consumer(other.address, "s", start="earliest") as consumer:
                assert read_until(consumer, 25) == table_of(WHOLE)


def test_without_a_peer_it_says_what_it_waits_for(tmp_path: Path) -> None:
    with sidecar(tmp_path) as one:
        with Producer(one.address, "s", "a", SCHEMA) as a:
            a.push(frame_of(BEFORE))
            assert a.wait_durable(10)
        with Producer(one.address, "s", "c", SCHEMA, join_at=20) as c:
            c.push(frame_of(AFTER))
            assert c.flush()
            waiting = one.on_loop(
                lambda: one.server.registry.streams["s"].machine._merge.waiting_for
            )
            assert waiting is not None


def test_a_peer_that_lets_in_known_certificates_only_is_shown_one(tmp_path: Path) -> None:
    ca, pem, key = (str(TLS / name) for name in ("authority.pem", "client.pem", "client.key"))
    certificates = Certificates(str(TLS / "sidecar.pem"), str(TLS / "sidecar.key"), ca)
    with sidecar(tmp_path / "1", certificates=certificates) as one:
        address = f"localhost:{one.port}"
        with Producer(address, "s", "a", SCHEMA, credentials=Credentials(None, ca, pem, key)) as a:
            a.push(frame_of(BEFORE))
            a.push(frame_of(BETWEEN))
            assert a.wait_durable(20)
        peer = Peer.of_settings(address, ca, "", pem, key)
        with (
            sidecar(tmp_path / "2", peer=peer) as other,
            Producer(other.address, "s", "c", SCHEMA, join_at=20) as c,
        ):
            c.push(frame_of(AFTER))
            with Consumer(other.address, "s", start="earliest") as consumer:
                assert read_until(consumer, 25) == table_of(WHOLE)


def test_what_a_peer_may_not_be_shown_is_an_error_at_the_start(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("secret")
    with pytest.raises(Misuse, match="in the clear"):
        Peer.of_settings("example.org:7070", "", str(tmp_path / "token"), "", "")
    with pytest.raises(Misuse, match="TLS"):
        Peer.of_settings("example.org:7070", str(tmp_path / "nowhere.pem"), "", "", "")


def test_a_new_sidecar_begins_with_all_that_its_peer_has(tmp_path: Path) -> None:
    with sidecar(tmp_path / "1") as one, Producer(one.address, "s", "a", SCHEMA) as a:
        a.push(frame_of(BEFORE))
        a.push(frame_of(BETWEEN))
        assert a.wait_durable(20)
        with (
            sidecar(tmp_path / "2", peer=Peer(one.address)) as other,
            Producer(other.address, "s", "c", SCHEMA, join_at=20) as c,
        ):
            c.push(frame_of(AFTER))
            with Consumer(other.address, "s", start="earliest") as consumer:
                assert read_until(consumer, 25) == table_of(WHOLE)
