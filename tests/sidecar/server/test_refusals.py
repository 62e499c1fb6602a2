"""What has no meaning, and who means harm: a status code, a sentence, and the others unharmed."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from gapless.protocol.schema import StreamSchema
from gapless.sidecar import gapless_pb2 as pb
from gapless.sidecar.client.consumer import Consumer
from gapless.sidecar.client.producer import Producer
from gapless.sidecar.lives import incarnation_of
from gapless.sidecar.server.limits import Limits
from gapless.sidecar.server.setup import StreamRetention
from tests.sidecar.helpers import (
    SCHEMA,
    Caller,
    Running,
    attach,
    error_of,
    frame_of,
    read_until,
    said,
    sidecar,
    table_of,
)

OTHER = StreamSchema({"src": "string", "n": "int32"})


@pytest.fixture
def one(tmp_path: Path) -> Iterator[Running]:
    """A sidecar with one sound copy of a stream, which is still read when the test is over."""
    with sidecar(tmp_path) as running, Producer(running.address, "s", "sound", SCHEMA) as sound:
        sound.push(frame_of("ins((A,7),6,20) stable(10)"))
        assert sound.flush()
        yield running
        sound.push(frame_of("ins((B,8),12,20) stable(13)"))
        with Consumer(running.address, "s", start="earliest") as consumer:
            assert read_until(consumer, 13) == table_of("ins((A,7),6,20) ins((B,8),12,20)")


def refused(one: Running, *requests: pb.PushRequest) -> tuple[str, str]:
    with Caller(one.address) as caller:
        error = caller.pushed(*requests)
    return error.code().name, error.details()


FIRSTS = {
    "another type": (attach(schema=OTHER), "INVALID_ARGUMENT", "int32"),
    "other properties": (
        attach(properties=pb.Properties(key=True)),
        "INVALID_ARGUMENT",
        "same properties",
    ),
    "a stream that is a path": (attach(stream="../etc"), "INVALID_ARGUMENT", "a name has"),
    "a producer that is a path": (attach(producer="a/b"), "INVALID_ARGUMENT", "a name has"),
    "an incarnation after which there is none": (
        attach(incarnation=2**64 - 1),
        "INVALID_ARGUMENT",
        "take the time",
    ),
    "a frame": (said("stable(3)"), "INVALID_ARGUMENT", "first message of a push is its attach"),
    "no such stream": (
        pb.PushRequest(attach=pb.Attach(stream="nowhere", producer="a", incarnation=1)),
        "NOT_FOUND",
        "there is no stream nowhere",
    ),
    "no such type": (
        pb.PushRequest(
            attach=pb.Attach(
                stream="t",
                producer="a",
                schema=pb.Schema(columns=[pb.Column(name="x", type="list<int>")]),
            )
        ),
        "INVALID_ARGUMENT",
        "Arrow knows no type",
    ),
    "an invalid schema": (
        pb.PushRequest(
            attach=pb.Attach(stream="t", producer="a", schema=pb.Schema(arrow=b"\xff" * 40))
        ),
        "INVALID_ARGUMENT",
        "stream 't'",
    ),
}


@pytest.mark.parametrize("what", FIRSTS)
def test_an_attach_that_has_no_meaning_is_refused(one: Running, what: str) -> None:
    first, code, words = FIRSTS[what]
    got, sentence = refused(one, first)
    assert got == code
    assert words in sentence


def damaged(frame: pb.PushRequest) -> pb.PushRequest:
    body = bytearray(frame.frame.body)
    body[len(body) // 2] ^= 1
    frame.frame.body = bytes(body)
    return frame


def unmeant(body: bytes, encoding: pb.Encoding = pb.ENCODING_ARROW) -> pb.PushRequest:
    """An invalid body with the right checksum."""
    return pb.PushRequest(
        frame=pb.Frame(sequence=1, encoding=encoding, body=body, crc32=zlib.crc32(body))
    )


FRAMES = {
    "a bit turned": (damaged(said("ins((A,7),6,20)")), "DATA_LOSS", "checksum"),
    "zeros": (unmeant(b"\0" * 100), "INVALID_ARGUMENT", "message"),
    "no msgpack": (unmeant(b"\xc1", pb.ENCODING_MSGPACK), "INVALID_ARGUMENT", "msgpack"),
    "a gap in the sequence": (said("stable(3)", sequence=5), "INVALID_ARGUMENT", "1 is next"),
    "sequence zero": (said("stable(3)", sequence=0), "INVALID_ARGUMENT", "1 is next"),
    "a second attach": (attach(), "INVALID_ARGUMENT", "after the attach come frames"),
    "an encoding to come": (
        pb.PushRequest(frame=pb.Frame(sequence=1, encoding=7, body=b"x")),  # type: ignore[arg-type]  # what old code gets of new
        "INVALID_ARGUMENT",
        "encoding 7",
    ),
}


@pytest.mark.parametrize("what", FRAMES)
def test_a_frame_that_has_no_meaning_ends_its_call_alone(one: Running, what: str) -> None:
    frame, code, words = FRAMES[what]
    got, sentence = refused(one, attach(producer="bad"), frame)
    assert got == code
    assert words in sentence


def test_a_copy_that_breaks_its_own_promise_is_told_which(one: Running) -> None:
    got, sentence = refused(
        one, attach(producer="bad"), said("stable(9)"), said("ins((X,1),5,20)", sequence=2)
    )
    assert got == "INVALID_ARGUMENT"
    assert "ins((X,1),5,20)" in sentence


def test_a_stale_incarnation_is_refused(one: Running) -> None:
    with Caller(one.address) as caller:
        caller.push(attach(producer="b", incarnation=5))
    got, sentence = refused(one, attach(producer="b", incarnation=4))
    assert got == "FAILED_PRECONDITION"
    assert "later incarnation" in sentence


def test_of_a_producer_that_is_no_input_nothing_is_kept(one: Running) -> None:
    stream = one.server.registry.streams["s"]
    refused(one, attach(producer="bad"), said("stable(9)"), said("ins((X,1),5,20)", sequence=2))
    with Caller(one.address) as caller:
        caller.push(attach(producer="b", incarnation=5))
        refused(one, attach(producer="b", incarnation=4))
        caller.push(attach(producer="b", incarnation=6))
    gone = one.on_loop(lambda: list(stream.copies._away))
    assert [incarnation_of(life) for life in gone] == [6]


def test_what_ended_a_push_is_said_before_its_status(one: Running) -> None:
    replies: list[pb.PushReply] = []
    with Caller(one.address) as caller:
        call = caller.channel.stream_stream(
            "/gapless.v1.Sidecar/Push", pb.PushRequest.SerializeToString, pb.PushReply.FromString
        )

        def collect() -> None:
            for reply in call(iter([attach(producer="b"), said("stable(3)", sequence=9)])):
                replies.append(reply)  # noqa: PERF402  # what came before the error counts

        assert error_of(collect).code().name == "INVALID_ARGUMENT"
    assert [reply.WhichOneof("message") for reply in replies][-1] == "detached"
    assert "1 is next" in replies[-1].detached.reason


def test_a_frame_said_twice_counts_once(one: Running) -> None:
    with Caller(one.address) as caller:
        replies = caller.push(attach(producer="b"), said("stable(3)"), said("stable(3)"))
    assert [r.ack.sequence for r in replies if r.WhichOneof("message") == "ack"][-1] == 1


def test_an_oversize_frame_is_refused(tmp_path: Path) -> None:
    limits = Limits(frame_bytes_max=1 << 16)
    with sidecar(tmp_path, limits=limits) as one, Caller(one.address) as caller:
        error = caller.pushed(attach(), unmeant(bytes(1 << 20)))
        assert error.code().name == "RESOURCE_EXHAUSTED"
        assert one.server.problem is None


def test_more_streams_and_producers_than_there_may_be_are_refused(tmp_path: Path) -> None:
    limits = Limits(streams_max=1, producers_max=1)
    with sidecar(tmp_path, limits=limits) as one, Producer(one.address, "s", "a", SCHEMA) as a:
        a.push(frame_of("stable(3)"))
        assert a.flush()
        assert refused(one, attach(stream="t"))[0] == "RESOURCE_EXHAUSTED"
        assert refused(one, attach(stream="s", producer="b"))[0] == "RESOURCE_EXHAUSTED"


WISHES = {
    "no such stream": (pb.SubscribeRequest(stream="nowhere"), "NOT_FOUND", "nowhere"),
    "a token cut short": (
        pb.SubscribeRequest(stream="s", token="gt1-abc"),
        "INVALID_ARGUMENT",
        "token",
    ),
    "no such column": (
        pb.SubscribeRequest(stream="s", columns=["x"]),
        "INVALID_ARGUMENT",
        "no column 'x'",
    ),
    "a column twice": (
        pb.SubscribeRequest(stream="s", columns=["n", "n"]),
        "INVALID_ARGUMENT",
        "once",
    ),
    "half a filter": (
        pb.SubscribeRequest(stream="s", filter="n >"),
        "INVALID_ARGUMENT",
        "does not parse",
    ),
    "a filter that is a number": (
        pb.SubscribeRequest(stream="s", filter="n + 1"),
        "INVALID_ARGUMENT",
        "true or false",
    ),
    "a filter that runs": (
        pb.SubscribeRequest(stream="s", filter="open('x')"),
        "INVALID_ARGUMENT",
        "not taken",
    ),
    "an unknown deliver": (
        pb.SubscribeRequest(stream="s", deliver=9),  # type: ignore[arg-type]  # as above
        "INVALID_ARGUMENT",
        "deliver 9",
    ),
    "an unknown start": (
        pb.SubscribeRequest(stream="s", edge=9),  # type: ignore[arg-type]  # as above
        "INVALID_ARGUMENT",
        "start 9",
    ),
}


@pytest.mark.parametrize("what", WISHES)
def test_a_subscription_that_has_no_meaning_is_refused(one: Running, what: str) -> None:
    request_, code, words = WISHES[what]
    with Caller(one.address) as caller:
        error = error_of(lambda: list(caller.subscribe(request_)))
    assert error.code().name == code
    assert words in error.details()


def test_who_is_behind_what_was_trimmed_is_told_so(tmp_path: Path) -> None:
    with (
        sidecar(tmp_path, retention=StreamRetention(bytes=1)) as one,
        Producer(one.address, "s", "a", SCHEMA) as a,
    ):
        a.push(frame_of("ins((A,7),6,20) stable(10)"))
        with Consumer(one.address, "s", start="earliest") as consumer:
            read_until(consumer, 10)
            token = consumer.token
        a.push(frame_of("ins((B,8),12,20) stable(30)"))
        assert a.wait_durable(30)
        one.restart(by_force=False)  # closes with a base
        with Caller(one.address) as caller:
            caller.status("s")
            assert one.on_loop(one.server.registry.streams["s"].retention.trim) is None
            error = error_of(
                lambda: list(caller.subscribe(pb.SubscribeRequest(stream="s", token=token)))
            )
        assert error.code().name == "OUT_OF_RANGE"


def test_while_the_mergers_hold_too_much_no_more_producers_are_taken(tmp_path: Path) -> None:
    limits = Limits(state_bytes_max=1)
    with sidecar(tmp_path, limits=limits) as one, Producer(one.address, "s", "a", SCHEMA) as a:
        a.push(frame_of("ins((A,7),6,20) stable(3)"))
        assert a.flush()
        code, sentence = refused(one, attach(producer="b"))
        assert code == "RESOURCE_EXHAUSTED"
        assert "state_bytes_max" in sentence
        a.push(frame_of("ins((B,8),12,20) stable(10)"))
        assert a.wait_durable(10)
