"""A producer's program: what it may say, what is left out for it, when it has to wait."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from gapless.protocol.errors import FrameError, JobError, Misuse, StreamViolation
from gapless.sidecar.client.connection import Credentials
from gapless.sidecar.client.consumer import Consumer
from gapless.sidecar.client.producer import Producer
from gapless.sidecar.server.limits import Limits
from tests.sidecar.helpers import (
    PATIENCE_S,
    SCHEMA,
    Caller,
    attach,
    frame_of,
    read_until,
    said,
    sidecar,
    table_of,
)

NOWHERE = "127.0.0.1:1"


def test_what_is_settled_is_left_out_of_a_stream_that_only_inserts(tmp_path: Path) -> None:
    with sidecar(tmp_path) as one:
        with (
            Producer(one.address, "s", "a", SCHEMA, key=True, insert_only=True) as a,
            Producer(one.address, "s", "b", SCHEMA, key=True, insert_only=True) as b,
        ):
            b.push(frame_of("ins((A,1),1,2)"))
            assert b.flush()
            a.push(frame_of("ins((A,1),1,2) ins((B,2),2,3) ins((C,3),9,12) stable(10)"))
            assert a.wait_durable(10)
            assert b.wait_durable(10)
            before = one.on_loop(lambda: one.server.counters.rows_in["s"])
            b.push(frame_of("ins((B,2),2,3) ins((C,3),9,12) stable(10)"))
            assert b.flush()
            assert one.on_loop(lambda: one.server.counters.rows_in["s"]) == before + 1
        with Consumer(one.address, "s", start="earliest") as consumer:
            assert read_until(consumer, 10) == table_of(
                "ins((A,1),1,2) ins((B,2),2,3) ins((C,3),9,12)"
            )


def test_rows_one_by_one_are_adjusted_and_removed(tmp_path: Path) -> None:
    with sidecar(tmp_path) as one:
        with Producer(one.address, "s", "a", SCHEMA, encoding="msgpack") as a:
            a.insert(6, 20, src="A", n=7)
            a.insert(6, None, src="B", n=8)
            a.adjust(6, 20, 30, src="A", n=7)
            a.adjust(6, None, 6, src="B", n=8)
            a.stable(10)
            with pytest.raises(Misuse, match="the stream has src, n"):
                a.insert(6, 20, src="A")
        with Consumer(one.address, "s", start="earliest") as consumer:
            assert read_until(consumer, 10) == table_of("ins((A,7),6,30)")


def test_what_is_no_frame_of_the_stream_is_refused_at_once() -> None:
    producer = Producer(NOWHERE, "s", "a", SCHEMA)
    with pytest.raises((Misuse, FrameError)):
        producer.push(pa.RecordBatch.from_pydict({"x": [1]}))
    producer.abandon()


def test_who_reaches_nobody_waits_and_says_so() -> None:
    producer = Producer(NOWHERE, "s", "a", SCHEMA)
    producer.push(frame_of("ins((A,7),6,20) stable(10)"))
    assert not producer.flush(0.1)
    with pytest.raises(JobError, match="not all that was pushed"):
        producer.close(0.1)


def test_a_copy_that_breaks_its_promise_is_told_in_its_program(tmp_path: Path) -> None:
    with sidecar(tmp_path) as one:
        producer = Producer(one.address, "s", "a", SCHEMA)
        producer.push(frame_of("stable(10)"))
        assert producer.flush()
        producer.push(frame_of("ins((A,7),6,20)"))
        with pytest.raises(StreamViolation, match=r"ins\(\(A,7\),6,20\)"):
            producer.wait_durable(20, PATIENCE_S)
        producer.abandon()


MANY = ",".join(f"host:{port}" for port in range(1, 10))


@pytest.mark.parametrize("wrong", ["", "host", "host:port", MANY])
def test_addresses_are_host_and_port(wrong: str) -> None:
    with pytest.raises(Misuse):
        Producer(wrong, "s", "a", SCHEMA)


def test_who_was_away_for_too_long_comes_back_by_itself(tmp_path: Path) -> None:
    with sidecar(tmp_path) as one:
        with Caller(one.address) as caller:
            caller.push(attach(producer="a", incarnation=1 << 32), said("ins((A,7),6,20)"))

            stream = one.server.registry.streams["s"]
            one.on_loop(lambda: stream.copies.let_absent_go(stream.now_ms() / 1000 + 1e6))
            assert not one.on_loop(lambda: stream.machine.attached)
        with Producer(one.address, "s", "a", SCHEMA, incarnation=1 << 32) as a:
            a.push(frame_of("ins((A,7),6,20) stable(10)"))
            assert a.wait_durable(10)


def test_a_copy_with_more_rows_that_live_than_may_be_on_their_way_goes_on(tmp_path: Path) -> None:
    with sidecar(tmp_path) as one, Producer(one.address, "s", "a", SCHEMA) as a:
        a._machine._rows_max = 20
        whole = " ".join(f"ins((A,{t}),{t},inf)" for t in range(1, 201))
        for t in range(1, 201):
            a.push(frame_of(f"ins((A,{t}),{t},inf) stable({t})"), PATIENCE_S)
        assert a.wait_durable(200)
        one.restart()
        a.push(frame_of("stable(201)"), PATIENCE_S)
        assert a.wait_durable(201, PATIENCE_S)
        with Consumer(one.address, "s", start="earliest") as consumer:
            assert read_until(consumer, 201) == table_of(whole)


def test_who_waits_is_told_why(tmp_path: Path) -> None:
    with sidecar(tmp_path, limits=Limits(streams_max=1)) as one:
        with Producer(one.address, "s", "a", SCHEMA) as a:
            a.push(frame_of("stable(3)"))
            assert a.wait_durable(3)
            assert a.problem is None
        b = Producer(one.address, "t", "a", SCHEMA)
        b.push(frame_of("stable(3)"))
        assert not b.flush(0.5)
        assert "streams_max" in (b.problem or "")
        with pytest.raises(JobError, match="streams_max"):
            b.close(0.1)


def test_what_no_sidecar_could_be_asked_is_refused_before_one_is(tmp_path: Path) -> None:
    """gRPC waits for ever with invalid certificates, and so would its caller."""
    for stream in ("", "a/b", "x" * 65):
        with pytest.raises(Misuse, match="a name has"):
            Producer(NOWHERE, stream, "a", SCHEMA)
        with pytest.raises(Misuse, match="a name has"):
            Consumer(NOWHERE, stream)
    for start in (1 << 63, -(1 << 63) - 1):
        with pytest.raises(Misuse, match="int64"):
            Consumer(NOWHERE, "s", start=start)
    for token in ("", "a\nb", "\u00fc"):
        with pytest.raises(Misuse, match="the token"):
            Producer(NOWHERE, "s", "a", SCHEMA, token=token)
    (tmp_path / "ca.pem").write_text("no certificate")
    with pytest.raises(Misuse, match="no certificates"):
        Producer(NOWHERE, "s", "a", SCHEMA, credentials=Credentials(ca=tmp_path / "ca.pem"))
