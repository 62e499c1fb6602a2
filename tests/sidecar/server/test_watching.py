"""Watching a sidecar: health, reflection, metrics, status, and one that is replaced."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import grpc
import pytest
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import (
    ProtoReflectionDescriptorDatabase,
)

from gapless.protocol.errors import Misuse
from gapless.sidecar.client.consumer import Consumer
from gapless.sidecar.client.producer import Producer
from gapless.sidecar.server.directory import Directory
from gapless.sidecar.server.http import Http
from gapless.sidecar.server.metrics import Metrics
from tests.sidecar.helpers import PATIENCE_S, SCHEMA, Caller, Running, frame_of, sidecar

NAME = "gapless.v1.Sidecar"
SERVING = health_pb2.HealthCheckResponse.SERVING


def health_of(one: Running, service: str = NAME) -> int:
    """What it says of itself first that is not `NOT_SERVING`, as it opens its streams."""
    with grpc.insecure_channel(one.address) as channel:
        watched = health_pb2_grpc.HealthStub(channel).Watch(
            health_pb2.HealthCheckRequest(service=service), timeout=PATIENCE_S
        )
        for said in watched:
            if said.status == SERVING:
                return int(said.status)
    return -1


def test_health_says_serving_once_streams_are_open(tmp_path: Path) -> None:
    with sidecar(tmp_path) as one, Producer(one.address, "s", "a", SCHEMA) as a:
        a.push(frame_of("stable(3)"))
        assert a.flush()
        one.restart()
        assert health_of(one) == SERVING
        assert health_of(one, "") == SERVING
        assert one.server.problem is None


def test_a_stream_that_does_not_open_is_a_problem_and_the_others_go_on(tmp_path: Path) -> None:
    with sidecar(tmp_path) as one:
        for name in ("s", "t"):
            with Producer(one.address, name, "a", SCHEMA) as a:
                a.push(frame_of("ins((A,7),6,20) stable(10)"))
        one.stop()
        (tmp_path / "streams" / "t" / "definition").write_bytes(b"damaged")
        one.restart()
        with Consumer(one.address, "s", start="earliest") as consumer:
            assert consumer.next(PATIENCE_S) is not None
        problem = one.on_loop(lambda: one.server.problem)
        assert problem in ("stream t is not open", "it opens its streams")


def test_a_tool_that_knows_nothing_calls_through_reflection(tmp_path: Path) -> None:
    with sidecar(tmp_path) as one, grpc.insecure_channel(one.address) as channel:
        database = ProtoReflectionDescriptorDatabase(channel)
        assert NAME in database.get_services()
        service = DescriptorPool(database).FindServiceByName(NAME)
        method = service.methods_by_name["Status"]
        call = channel.unary_unary(
            f"/{NAME}/Status",
            lambda message: message.SerializeToString(),
            GetMessageClass(method.output_type).FromString,
        )
        reply = call(GetMessageClass(method.input_type)(), timeout=PATIENCE_S)
        assert reply.sidecar == one.server.registry.name


def test_status_says_how_copies_and_output_are(tmp_path: Path) -> None:
    with sidecar(tmp_path) as one, Producer(one.address, "s", "a", SCHEMA) as a:
        a.push(frame_of("ins((A,7),6,20) stable(10)"))
        assert a.wait_durable(10)
        with Caller(one.address) as caller:
            (stream,) = caller.status("s").streams
        assert (stream.name, stream.rows, stream.durable_stable) == ("s", 1, 10)
        assert stream.lmerge_case == "r4"


async def asked(port: int, request: bytes) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(request)
    answer = await reader.read()
    writer.close()
    await writer.wait_closed()
    return answer


def test_metrics_and_probes_answer_over_http(tmp_path: Path) -> None:
    async def ask(one: Running) -> list[bytes]:
        server = one.server
        http = Http(Metrics(server.registry, server.counters, lambda: server.problem), problem)
        port = await http.listen("127.0.0.1:0")
        answers = [
            await asked(port, request)
            for request in (
                b"GET /metrics HTTP/1.1\r\n\r\n",
                b"GET /healthz HTTP/1.1\r\n\r\n",
                b"GET /readyz HTTP/1.1\r\n\r\n",
                b"POST /metrics HTTP/1.1\r\n\r\n",
                b"GET /secrets HTTP/1.1\r\n\r\n",
                b"x" * 20_000,
            )
        ]
        http.close()
        return answers

    problem_now: list[str | None] = [None]

    def problem() -> str | None:
        return problem_now[0]

    with sidecar(tmp_path) as one, Producer(one.address, "s", "a", SCHEMA) as a:
        a.push(frame_of("ins((A,7),6,20) stable(10)"))
        assert a.wait_durable(10)
        metrics, healthy, ready, posted, nowhere, endless = asyncio.run(ask(one))
        assert b'gapless_sidecar_input_rows_total{stream="s"} 1.0' in metrics
        assert b'gapless_sidecar_stable{stream="s"} 10.0' in metrics
        assert healthy.startswith(b"HTTP/1.1 200")
        assert ready.startswith(b"HTTP/1.1 200")
        assert posted.startswith(b"HTTP/1.1 405")
        assert nowhere.startswith(b"HTTP/1.1 404")
        assert endless == b""
        problem_now[0] = "it opens its streams"
        _, healthy, ready, *_ = asyncio.run(ask(one))
        assert healthy.startswith(b"HTTP/1.1 200")
        assert ready.startswith(b"HTTP/1.1 503")
        assert ready.endswith(b"it opens its streams\n")


def test_of_two_sidecars_on_one_directory_the_second_is_refused(tmp_path: Path) -> None:
    with sidecar(tmp_path) as one, Producer(one.address, "s", "a", SCHEMA) as a:
        with pytest.raises(Misuse, match=rf"held by a sidecar, process {os.getpid()} of \S+: end"):
            Directory(tmp_path).lock()
        a.push(frame_of("ins((A,7),6,20) stable(10)"))
        assert a.wait_durable(10)
        one.restart()  # a lock ends with its holder


def test_where_locks_do_not_reach_the_later_sidecar_takes_the_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Directory, "lock", lambda _: None)
    with sidecar(tmp_path) as one:
        old = Producer(one.address, "s", "a", SCHEMA)
        old.push(frame_of("ins((A,7),6,20) stable(10)"))
        assert old.wait_durable(10)
        with sidecar(tmp_path) as later, Producer(later.address, "s", "b", SCHEMA) as b:
            b.push(frame_of("ins((A,7),6,20) ins((B,8),12,20) stable(13)"))
            assert b.wait_durable(13)
            old.push(frame_of("ins((X,1),11,20) stable(12)"))  # to one that is over
            one.ended(PATIENCE_S)
            assert one.server.registry.setup.fenced is not None
            with Consumer(later.address, "s", start="earliest") as consumer:
                frame = consumer.next(PATIENCE_S)
                assert frame is not None
                assert "X" not in frame.payload.column(0).to_pylist()
        old.abandon()
