"""What one token may not do to the others: take their names, fill their places; and how an
administrator takes away what is in the way.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from gapless.protocol.errors import Misuse
from gapless.sidecar import gapless_pb2 as pb
from gapless.sidecar.client.consumer import Consumer
from gapless.sidecar.client.producer import Producer
from gapless.sidecar.lives import INCARNATION_MAX
from gapless.sidecar.server import copies
from gapless.sidecar.server.access import Access, Grant, parse_grant
from gapless.sidecar.server.limits import Limits
from tests.sidecar.helpers import (
    PATIENCE_S,
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


def grant(name: str, **rights: object) -> Grant:
    """One whose secret is its name."""
    return parse_grant(
        {"name": name, "sha256": hashlib.sha256(name.encode()).hexdigest(), **rights}
    )


ACCESS = Access(
    [
        grant("spark", push=["s"]),
        grant("other", push=["*"]),
        grant("bound", push=["s"], producers=["flink-*"]),
        grant("owner", push=["s"], producers=["own-*"]),
        grant("heir", push=["s"], producers=["own-*"]),
        grant("flows", push=["flows-*"], streams=2),
        grant("reader", subscribe=["*"]),
        grant("root", admin=True, subscribe=["*"]),
    ]
)


def refused(one: Running, token: str, *requests: pb.PushRequest) -> tuple[str, str]:
    with Caller(one.address, token) as caller:
        error = caller.pushed(*requests)
    return error.code().name, error.details()


def test_a_token_may_push_only_as_the_producers_that_it_lists(tmp_path: Path) -> None:
    with sidecar(tmp_path, access=ACCESS) as one:
        code, sentence = refused(one, "bound", attach(producer="a"))
        assert code == "PERMISSION_DENIED"
        assert "its producers are flink-*" in sentence
        with Caller(one.address, "bound") as bound:
            bound.push(attach(producer="flink-1"), said("stable(3)"))


def test_nobody_takes_a_name_that_another_token_has(tmp_path: Path) -> None:
    """Of one name the largest incarnation counts: the last there is would shut out all others."""
    with sidecar(tmp_path, access=ACCESS) as one:
        with Producer(one.address, "s", "a", SCHEMA, token="spark") as a:
            a.push(frame_of("ins((A,7),6,20) stable(10)"))
            assert a.wait_durable(10)
            code, sentence = refused(one, "other", attach(incarnation=INCARNATION_MAX))
            assert code == "PERMISSION_DENIED"
            assert "another token pushes to s as a" in sentence
            a.push(frame_of("stable(13)"))
            assert a.wait_durable(13)
        code, _ = refused(one, "other", attach(incarnation=INCARNATION_MAX))
        assert code == "PERMISSION_DENIED"  # also while it is away


def test_of_two_tokens_that_list_a_name_each_may_take_it_over(tmp_path: Path) -> None:
    with sidecar(tmp_path, access=ACCESS) as one:
        for incarnation, token in enumerate(("owner", "heir", "owner"), 1):
            with Caller(one.address, token) as caller:
                caller.push(attach(producer="own-1", incarnation=incarnation), said("stable(3)"))


def test_without_tokens_everybody_is_one(tmp_path: Path) -> None:
    with sidecar(tmp_path, limits=Limits(token_producers_max=1)) as one:
        for name in "abc":
            with Caller(one.address) as caller:
                caller.push(attach(producer=name), said("stable(3)"))


def test_one_token_leaves_others_places_on_a_stream(tmp_path: Path) -> None:
    with sidecar(tmp_path, access=ACCESS, limits=Limits(token_producers_max=2)) as one:
        with Caller(one.address, "other") as other:
            for name in ("x", "y"):
                other.push(attach(producer=name), said("stable(3)"))  # and are away at once
            error = other.pushed(attach(producer="z"))
            assert error.code().name == "RESOURCE_EXHAUSTED"
            assert "token_producers_max" in error.details()
            other.push(attach(producer="x", incarnation=2), said("stable(3)"))  # it has its place
        with Caller(one.address, "spark") as spark:
            spark.push(attach(producer="a"), said("stable(3)"))


def test_a_pattern_fills_no_more_streams_than_it_may(tmp_path: Path) -> None:
    with sidecar(tmp_path, access=ACCESS, limits=Limits(streams_max=4)) as one:
        with Caller(one.address, "flows") as flows:
            for stream in ("flows-1", "flows-2", "flows-1"):
                flows.push(attach(stream=stream), said("stable(3)"))
            error = flows.pushed(attach(stream="flows-3"))
            assert error.code().name == "RESOURCE_EXHAUSTED"
            assert "fill up 2" in error.details()
        with Caller(one.address, "spark") as spark:
            spark.push(attach(stream="s"), said("stable(3)"))
        with Caller(one.address, "root") as root:
            root.unary("Remove", pb.RemoveRequest(stream="flows-1"), pb.RemoveReply)
        with Caller(one.address, "flows") as flows:
            flows.push(attach(stream="flows-3"), said("stable(3)"))


# -- nothing of a stranger is read ----------------------------------------------------------------

LARGE = pb.SubscribeRequest(stream="s", filter="x" * (8 << 20)).SerializeToString()


@pytest.mark.parametrize("token", [None, "wrong"])
def test_what_a_stranger_sends_is_not_read(
    tmp_path: Path, token: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    parsed: list[int] = []
    of_wire = pb.SubscribeRequest.FromString

    def counted(data: bytes) -> pb.SubscribeRequest:
        parsed.append(len(data))
        return of_wire(data)

    monkeypatch.setattr("gapless.sidecar.server.service._parser", lambda _: counted)
    with sidecar(tmp_path, access=ACCESS) as one:
        for secret, code in ((token, "UNAUTHENTICATED"), ("spark", "PERMISSION_DENIED")):
            with Caller(one.address, secret) as caller:
                for method in ("Subscribe", "Table", "Drain", "Remove"):
                    call = caller.channel.unary_stream(f"/gapless.v1.Sidecar/{method}")
                    metadata = caller._metadata
                    error = error_of(lambda c=call, m=metadata: list(c(LARGE, metadata=m)))  # type: ignore[misc]  # bound now
                    assert error.code().name == code
    assert parsed == []


# -- removal --------------------------------------------------------------------------------------


def remove(one: Running, stream: str, producer: str = "", token: str | None = None) -> None:
    with Caller(one.address, token) as caller:
        caller.unary("Remove", pb.RemoveRequest(stream=stream, producer=producer), pb.RemoveReply)


def test_a_stream_that_is_removed_is_gone_for_all_and_may_be_made_anew(tmp_path: Path) -> None:
    with sidecar(tmp_path) as one:
        a = Producer(one.address, "s", "a", SCHEMA)
        a.push(frame_of("ins((A,7),6,20) stable(10)"))
        assert a.wait_durable(10)
        with Caller(one.address) as reader:
            read = reader.subscribe(pb.SubscribeRequest(stream="s", edge=pb.EDGE_BEGIN))
            next(read)
            remove(one, "s")
            error = error_of(lambda: list(read))
            assert (error.code().name, error.details()) == ("NOT_FOUND", "s was removed")
        with pytest.raises(Misuse, match="s was removed"):
            a.wait_durable(20, PATIENCE_S)
        a.abandon()
        assert not list((tmp_path / "removed").iterdir())
        assert not (tmp_path / "streams" / "s").exists()
        assert one.server.problem is None
        with Caller(one.address) as caller:
            error = error_of(lambda: caller.status("s"))
            assert error.code().name == "NOT_FOUND"
            caller.push(attach(), said("ins((B,8),1,5) stable(3)"))
        with Consumer(one.address, "s", start="earliest") as consumer:
            assert read_until(consumer, 3) == table_of("ins((B,8),1,5)")


def test_what_a_death_leaves_of_a_removal_goes_at_the_next_start(tmp_path: Path) -> None:
    with sidecar(tmp_path) as one:
        with Caller(one.address) as caller:
            caller.push(attach(), said("stable(3)"))
        one.stop()
        (tmp_path / "removed").mkdir(exist_ok=True)
        (tmp_path / "streams" / "s").rename(tmp_path / "removed" / "s-1")
        one.restart()
        assert not (tmp_path / "removed").exists()
        assert one.server.registry.names == []


def test_a_producer_that_is_removed_begins_anew_with_any_incarnation(tmp_path: Path) -> None:
    with sidecar(tmp_path) as one, Producer(one.address, "s", "sound", SCHEMA) as sound:
        sound.push(frame_of("ins((A,7),6,20) stable(10)"))
        with Caller(one.address) as caller:
            caller.push(attach(incarnation=INCARNATION_MAX), said("stable(3)"))
            shut_out = caller.pushed(attach(incarnation=1 << 60))
            assert shut_out.code().name == "FAILED_PRECONDITION"
            remove(one, "s", "a")
            caller.push(attach(incarnation=7), said("ins((A,7),6,20) stable(10)"))
            error = error_of(lambda: remove(one, "s", "nobody"))
            assert error.code().name == "NOT_FOUND"
        assert sound.wait_durable(10)


def test_only_an_administrator_removes(tmp_path: Path) -> None:
    with sidecar(tmp_path, access=ACCESS) as one:
        with Caller(one.address, "spark") as spark:
            spark.push(attach(), said("stable(3)"))
        for token in ("spark", "reader"):
            error = error_of(lambda token=token: remove(one, "s", token=token))  # type: ignore[misc]  # bound now
            assert error.code().name == "PERMISSION_DENIED"
        remove(one, "s", token="root")


def test_of_more_names_than_a_stream_remembers_the_oldest_is_forgotten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(copies.Copies.__init__, "__defaults__", (2,))
    with sidecar(tmp_path) as one, Caller(one.address) as caller:
        leave = pb.PushRequest(detach=pb.Detach())
        for name in ("a", "b", "c"):
            caller.push(attach(producer=name, incarnation=9), leave)
        assert caller.pushed(attach(producer="c")).code().name == "FAILED_PRECONDITION"
        assert caller.pushed(attach(producer="b")).code().name == "FAILED_PRECONDITION"
        caller.push(attach(producer="a"), leave)  # of whom nobody knows that there was a later one


def test_streams_that_are_made_at_once_are_no_more_than_there_may_be(tmp_path: Path) -> None:
    """Each is counted before it is on the disk, and stays when its asker has gone."""
    import asyncio

    from gapless.sidecar.definition import Definition
    from gapless.sidecar.server.refusals import Refusal
    from gapless.sidecar.server.registry import Registry
    from gapless.sidecar.server.setup import StreamRetention

    async def flood() -> tuple[int, list[str]]:
        registry = Registry(tmp_path, Limits(streams_max=3), StreamRetention())
        asked = [
            asyncio.create_task(registry.define(Definition(f"s{i}", SCHEMA))) for i in range(10)
        ]
        await asyncio.sleep(0)
        asked[0].cancel()
        ended = await asyncio.gather(*asked, return_exceptions=True)
        await asyncio.gather(*registry._making.values())
        refusals = sum(isinstance(e, Refusal) for e in ended)
        names = registry.names
        await registry.close()
        return refusals, names

    refusals, names = asyncio.run(flood())
    assert refusals == 7
    assert names == ["s0", "s1", "s2"]
    assert sorted(path.name for path in (tmp_path / "streams").iterdir()) == names


def test_a_name_that_a_token_lists_is_no_other_tokens_also_before_it_comes(tmp_path: Path) -> None:
    """Else the largest incarnation would shut its owner out before it has said a word."""
    last = attach(producer="own-1", incarnation=INCARNATION_MAX)
    with sidecar(tmp_path, access=ACCESS) as one:
        code, sentence = refused(one, "other", last)
        assert code == "PERMISSION_DENIED"
        assert "other tokens list" in sentence
        with Caller(one.address, "owner") as owner:
            owner.push(attach(producer="own-1"), said("stable(3)"))
        with Caller(one.address, "other") as other:  # on a stream that its owner may not push to
            other.push(attach(stream="t", producer="own-1"), said("stable(3)"))


def test_a_token_that_lists_all_names_keeps_nobody_from_one() -> None:
    every, spark = grant("every", push=["*"], producers=["*"]), grant("spark", push=["s"])
    Access([every, spark]).check_producer(spark, "s", "a")
