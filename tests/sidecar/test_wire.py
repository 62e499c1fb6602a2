"""The rules of the wire, as a program in another language meets them: raw messages, no client."""

from __future__ import annotations

from pathlib import Path

import grpc
import pytest
from google.protobuf import descriptor_pb2
from grpc_reflection.v1alpha import reflection_pb2

from gapless.protocol.elements import INF
from gapless.sidecar import gapless_pb2 as pb
from gapless.sidecar.client.consumer import Consumer
from gapless.sidecar.client.producer import Producer
from gapless.sidecar.frames import to_wire
from gapless.sidecar.server import push_admission, push_call, service
from gapless.sidecar.server.limits import Limits
from gapless.sidecar.server.reflection import ALPHA, V1
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

DETACH = pb.PushRequest(detach=pb.Detach(reason="done"))
LAGGING = "ins((A,7),6,12) stable(8)"
"""What a copy knows whose output lags: the others say that the event ends at 40, and are at 30."""


def told(text: str) -> pb.PushRequest:
    """A frame of a tail."""
    return pb.PushRequest(frame=to_wire(frame_of(text)))


def ends(caller: Caller, *requests: pb.PushRequest) -> tuple[str, pb.Detached]:
    """The status that a push call ends with, and what was said before it."""
    call = caller.channel.stream_stream(
        "/gapless.v1.Sidecar/Push", pb.PushRequest.SerializeToString, pb.PushReply.FromString
    )
    replies: list[pb.PushReply] = []
    try:
        for reply in call(iter(requests), timeout=30):
            replies.append(reply)  # noqa: PERF402  # what came before an error counts
        code = "OK"
    except grpc.RpcError as e:
        code = e.code().name
    return code, replies[-1].detached


def leads(one: Running) -> Producer:
    """A copy that is far ahead, so that the output is."""
    ahead = Producer(one.address, "s", "ahead", SCHEMA)
    ahead.push(frame_of("ins((A,7),6,40) stable(30)"))
    assert ahead.wait_durable(30)
    return ahead


@pytest.mark.parametrize(
    ("tail", "code"), [([LAGGING], "OK"), ([], "INVALID_ARGUMENT")], ids=["both", "durable alone"]
)
def test_a_copy_that_lags_forgets_only_what_both_stables_have_passed(
    tmp_path: Path, tail: list[str], code: str
) -> None:
    """Its event ends before the durable stable, and it adjusts it later: its own is behind."""
    adjusted = said("adj((A,7),6,12,40) stable(30)")
    with sidecar(tmp_path) as one, leads(one), Caller(one.address) as caller:
        joined = attach(producer="lags", join_at=8 if tail else 30, tail_frames=len(tail))
        first = caller.pushed(joined, *map(told, tail), told("stable(3)")).code().name
        assert first == "INVALID_ARGUMENT"  # sequence 0: so a call ends that has attached
        ended, detached = ends(caller, joined, *map(told, tail), adjusted)
        assert ended == code
        if code != "OK":
            assert (detached.why, detached.sequence) == (pb.Detached.WHY_BAD_CONTENT, 1)


def test_our_producer_that_lags_tells_what_it_adjusts_later_to_a_sidecar_that_restarts(
    tmp_path: Path,
) -> None:
    with sidecar(tmp_path) as one, leads(one), Producer(one.address, "s", "lags", SCHEMA) as lags:
        lags.push(frame_of(LAGGING))
        assert lags.flush()
        assert lags.durable_stable == 30
        assert lags.resume_at == 8
        one.restart()
        lags.push(frame_of("adj((A,7),6,12,40) stable(50)"))
        assert lags.wait_durable(50)
        with Consumer(one.address, "s", start="earliest") as consumer:
            assert read_until(consumer, 50) == table_of("ins((A,7),6,40)")


def test_who_leaves_is_told_that_it_has(tmp_path: Path) -> None:
    with sidecar(tmp_path) as one, Caller(one.address) as caller:
        code, detached = ends(caller, attach(), said("ins((A,7),6,20) stable(10)"), DETACH)
        assert (code, detached.why) == ("OK", pb.Detached.WHY_LEFT)
        assert detached.reason


def test_who_is_detached_is_told_for_which_frame_and_why(tmp_path: Path) -> None:
    damaged = said("ins((A,7),6,20)", sequence=2)
    damaged.frame.crc32 ^= 1
    with sidecar(tmp_path) as one, Caller(one.address) as caller:
        code, detached = ends(caller, attach(), said("stable(3)"), damaged)
        assert (code, detached.why, detached.sequence) == ("DATA_LOSS", pb.Detached.WHY_DAMAGED, 2)
        code, detached = ends(caller, attach(), said("stable(3)"), said("ins((A,7),1,20)", 2))
        assert (code, detached.sequence) == ("INVALID_ARGUMENT", 2)
        assert detached.why == pb.Detached.WHY_BAD_CONTENT


# -- tails ----------------------------------------------------------------------------------------


def rows(first: int, behind: int) -> str:
    return " ".join(f"ins((A,{t}),{t},inf)" for t in range(first, behind))


def test_a_tail_of_many_frames_is_merged_frame_by_frame(tmp_path: Path) -> None:
    parts = [told(rows(t, t + 3)) for t in range(1, 31, 3)] + [told("stable(31)")]
    with sidecar(tmp_path) as one, Caller(one.address) as caller:
        joined = attach(tail_frames=len(parts))
        replies = caller.push(joined, *parts, said("ins((B,1),31,inf) stable(32)"))
        assert replies[0].attached.credits
        assert replies[-1].ack.sequence == 1  # the tail has none of its own
        with Consumer(one.address, "s", start="earliest") as consumer:
            assert read_until(consumer, 32) == table_of(f"{rows(1, 31)} ins((B,1),31,inf)")


TAILS = {
    "more frames than there may be": (4, ["stable(3)"] * 4, "RESOURCE_EXHAUSTED", "tail_frames"),
    "a stable before the end": (2, ["stable(3)", rows(4, 5)], "INVALID_ARGUMENT", "last frame"),
    "a frame of nothing": (2, ["", rows(4, 5)], "INVALID_ARGUMENT", "has rows"),
    "an end too soon": (2, [rows(4, 5)], "INVALID_ARGUMENT", "2 frames of its tail"),
    "what contradicts itself": (
        2,
        ["adj((A,7),6,12,40)", "stable(3)"],
        "INVALID_ARGUMENT",
        "not believed",
    ),
}


@pytest.mark.parametrize("what", TAILS)
def test_a_tail_that_has_no_meaning_is_refused_and_leaves_nothing(
    tmp_path: Path, what: str
) -> None:
    count, parts, code, words = TAILS[what]
    with sidecar(tmp_path, limits=Limits(tail_frames_max=3)) as one, Caller(one.address) as caller:
        ended, detached = ends(caller, attach(tail_frames=count), *map(told, parts), DETACH)
        assert ended == code
        assert words in detached.reason
        if one.server.registry.streams:
            stream = one.server.registry.streams["s"]
            assert not one.on_loop(lambda: list(stream.copies.everybody()))


def test_a_tail_that_does_not_come_gives_its_place_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(push_call, "TAIL_FRAME_S", 0.05)
    with (
        sidecar(tmp_path, limits=Limits(producers_max=1)) as one,
        Caller(one.address) as slow,
        Caller(one.address) as other,
    ):
        error = slow.pushed(attach(producer="slow", tail_frames=2), told(rows(1, 2)))
        assert "did not come within" in error.details()
        assert other.push(attach(), said("stable(3)"))[-1].ack.sequence == 1


def test_while_the_mergers_hold_too_much_no_tail_goes_on(tmp_path: Path) -> None:
    with sidecar(tmp_path, limits=Limits(state_bytes_max=1)) as one, Caller(one.address) as caller:
        joined = attach(tail_frames=2)
        code, detached = ends(caller, joined, told(rows(1, 2)), told(rows(2, 3)), DETACH)
        assert (code, detached.why) == ("RESOURCE_EXHAUSTED", pb.Detached.WHY_FULL)


# -- before a call is one -------------------------------------------------------------------------


def test_a_call_whose_message_does_not_come_is_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service, "REQUEST_S", 0.05)
    monkeypatch.setattr(push_admission, "FIRST_MESSAGE_S", 0.05)
    with sidecar(tmp_path) as one, Caller(one.address) as caller:
        assert "no attach within" in caller.pushed().details()
        for method in ("Subscribe", "Table", "Status", "Drain", "Remove"):
            call = caller.channel.stream_stream(f"/gapless.v1.Sidecar/{method}")
            error = error_of(lambda call=call: list(call(Silent(), timeout=30)))  # type: ignore[misc]  # bound now
            assert "no message came within" in error.details()


class Silent:
    """A peer that says nothing and does not end."""

    def __init__(self) -> None:
        import threading

        self._never = threading.Event()

    def __iter__(self) -> Silent:
        return self

    def __next__(self) -> bytes:
        self._never.wait(10)
        raise StopIteration


def test_a_request_that_is_larger_than_any_has_to_be_is_refused(tmp_path: Path) -> None:
    limits = Limits(request_bytes_max=100)
    with sidecar(tmp_path, limits=limits) as one, Caller(one.address) as caller:
        wish = pb.SubscribeRequest(stream="s", filter="n == 1 or " * 20 + "n == 2")
        error = error_of(lambda: list(caller.subscribe(wish)))
    assert error.code().name == "RESOURCE_EXHAUSTED"
    assert "request_bytes_max" in error.details()


# -- final ----------------------------------------------------------------------------------------


def test_final_says_a_stable_with_each_frame_and_nothing_before_it_comes_later(
    tmp_path: Path,
) -> None:
    """Its stables are those of the output: what is final at one has been told by then."""
    with sidecar(tmp_path) as one, Caller(one.address) as caller:
        caller.push(
            attach(),
            said("ins((A,7),6,20) ins((B,8),9,12) stable(13)"),
            said("ins((C,9),14,15) stable(31)", 2),
            said(f"stable({INF})", 3),
            DETACH,
        )
        wish = pb.SubscribeRequest(stream="s", edge=pb.EDGE_BEGIN, deliver=pb.DELIVER_FINAL)
        frames = [f for d in caller.subscribe(wish) for f in d.frames]
        stables = [f.stable for f in frames]
        assert stables == sorted(stables)
        assert stables[-1] == INF
        assert all(f.HasField("stable") for f in frames)


# -- reflection -----------------------------------------------------------------------------------


@pytest.mark.parametrize("service_name", [V1, ALPHA])
def test_tools_find_the_services_by_either_name_of_reflection(
    tmp_path: Path, service_name: str
) -> None:
    ask = reflection_pb2.ServerReflectionRequest
    with sidecar(tmp_path) as one, Caller(one.address) as caller:
        call = caller.channel.stream_stream(
            f"/{service_name}/ServerReflectionInfo",
            ask.SerializeToString,
            reflection_pb2.ServerReflectionResponse.FromString,
        )
        questions = [
            ask(list_services=""),
            ask(file_containing_symbol="gapless.v1.Sidecar"),
            ask(file_containing_symbol=service_name),
        ]
        services, ours, its = call(iter(questions), timeout=30)
    names = {s.name for s in services.list_services_response.service}
    assert names >= {"gapless.v1.Sidecar", "grpc.health.v1.Health", V1, ALPHA}
    for answer, package in ((ours, "gapless.v1"), (its, service_name.rpartition(".")[0])):
        files = answer.file_descriptor_response.file_descriptor_proto
        found = [descriptor_pb2.FileDescriptorProto.FromString(data) for data in files]
        assert package in {file.package for file in found}
