"""Each bound of a sidecar is reached, and what it says happens there does."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from gapless.failover.io import output_reads
from gapless.failover.merger import output_journal, output_writer, recent_rows
from gapless.failover.merger.output_journal import OutputJournal
from gapless.protocol.errors import Misuse
from gapless.sidecar import gapless_pb2 as pb
from gapless.sidecar.client.consumer import Consumer
from gapless.sidecar.client.producer import Producer
from gapless.sidecar.server import settings as settings_module
from gapless.sidecar.server.access import TOKENS_MAX, Access, Grant
from gapless.sidecar.server.limits import Limits
from gapless.sidecar.server.refusals import SENTENCE_CHARS_MAX, Refusal
from gapless.sidecar.server.throttle import TokenBucket
from tests.sidecar.helpers import (
    PATIENCE_S,
    SCHEMA,
    Caller,
    attach,
    error_of,
    frame_of,
    read_until,
    said,
    sidecar,
    table_of,
)


def test_more_subscribers_than_there_may_be_are_refused(tmp_path: Path) -> None:
    with sidecar(tmp_path, limits=Limits(subscribers_max=1)) as one, Caller(one.address) as caller:
        caller.push(attach(), said("stable(3)"))
        wish = pb.SubscribeRequest(stream="s")
        first = caller.subscribe(wish)
        next(first)
        error = error_of(lambda: list(caller.subscribe(wish)))
        assert error.code().name == "RESOURCE_EXHAUSTED"
        assert "subscribers_max" in error.details()


def test_more_columns_than_one_may_name_are_refused(tmp_path: Path) -> None:
    with sidecar(tmp_path, limits=Limits(columns_max=1)) as one, Caller(one.address) as caller:
        caller.push(attach(), said("stable(3)"))
        wish = pb.SubscribeRequest(stream="s", columns=["src", "n"])
        assert error_of(lambda: list(caller.subscribe(wish))).code().name == "INVALID_ARGUMENT"


@pytest.mark.parametrize(
    "limits", [Limits(producer_bytes_per_s=1 << 16), Limits(producer_frames_per_s=50)]
)
def test_a_producer_is_read_no_faster_than_it_may_and_loses_nothing(
    tmp_path: Path, limits: Limits, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits: list[float] = []
    spend = TokenBucket.spend

    def noted(pace: TokenBucket, amount: float, now_s: float) -> float:
        waits.append(spend(pace, amount, now_s))
        return min(waits[-1], 0.001)

    monkeypatch.setattr(TokenBucket, "spend", noted)
    with sidecar(tmp_path, limits=limits) as one, Caller(one.address) as caller:
        frames = [said(f"ins((A,{t}),{t},{t + 5}) stable({t})", t) for t in range(1, 301)]
        assert caller.push(attach(), *frames)[-1].ack.sequence == 300
    assert max(waits) > 0.1


def test_what_a_stream_keeps_at_hand_is_bounded_and_the_rest_is_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(output_reads, "READERS_MAX", 1)
    monkeypatch.setattr(recent_rows, "KEPT_READS_MAX", 1)
    monkeypatch.setattr("gapless.sidecar.server.subscribe_call.ENCODED_MAX", 1)
    whole = " ".join(f"ins((A,{t}),{t},{t + 5})" for t in range(1, 31))
    with sidecar(tmp_path) as one, Producer(one.address, "s", "a", SCHEMA) as a:
        readers = [Consumer(one.address, "s", start="earliest") for _ in range(3)]
        for t in range(1, 31):
            a.push(frame_of(f"ins((A,{t}),{t},{t + 5}) stable({t})"))
        for reader in readers:
            assert read_until(reader, 30) == table_of(whole)
            reader.close()
        stream = one.server.registry.streams["s"]
        recent = stream._io._reads._nearest._recent
        assert recent is not None
        assert len(stream._io._reads._readers) <= 1
        assert len(recent._reads) <= 1
        assert one.on_loop(lambda: len(stream.encoded)) <= 1


def test_a_base_of_a_table_that_is_too_large_to_be_taken_at_once_is_made_beside_the_appends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(output_writer, "BASE_ROWS_MAX", 0)
    monkeypatch.setattr(output_journal, "RECORDS_MAX", 1)
    made: list[str] = []
    put_base = OutputJournal.put_base

    def noted(journal: OutputJournal, *args: Any) -> str:
        made.append(put_base(journal, *args))
        return made[-1]

    monkeypatch.setattr(OutputJournal, "put_base", noted)
    whole = " ".join(f"ins((A,{t}),{t},{t + 50})" for t in range(1, 31))
    with sidecar(tmp_path) as one, Producer(one.address, "s", "a", SCHEMA) as a:
        reader = Consumer(one.address, "s", start="earliest")
        for t in range(1, 31):
            a.push(frame_of(f"ins((A,{t}),{t},{t + 50}) stable({t})"))
        assert read_until(reader, 30) == table_of(whole)
        reader.close()
        stream = one.server.registry.streams["s"]
        assert one.on_loop(lambda: stream.lost) is None
    assert "" in made


def test_settings_and_sentences_have_an_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(Misuse, match="tokens"):
        Access([Grant(f"t{i}") for i in range(TOKENS_MAX + 1)])
    assert len(str(Refusal("INTERNAL", "x" * 2 * SENTENCE_CHARS_MAX))) == SENTENCE_CHARS_MAX
    monkeypatch.setattr(settings_module, "FILE_BYTES_MAX", 10)
    path = tmp_path / "sidecar.toml"
    path.write_text("retain_s = 60  # a minute")
    with pytest.raises(Misuse, match="10 are the most"):
        settings_module.load({}, {}, path)


def test_a_disk_that_is_slow_holds_its_stream_back_and_neither_the_others_nor_the_calls(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stuck, begun = threading.Event(), threading.Event()
    sync = OutputJournal.sync

    def slow(output: OutputJournal) -> Any:
        if "streams/slow" in str(output._disk) and not stuck.is_set():
            begun.set()
            assert stuck.wait(PATIENCE_S)
        return sync(output)

    monkeypatch.setattr(OutputJournal, "sync", slow)
    with (
        sidecar(tmp_path) as one,
        Producer(one.address, "slow", "a", SCHEMA) as a,
        Producer(one.address, "quick", "a", SCHEMA) as b,
        Caller(one.address) as caller,
    ):
        a.push(frame_of("ins((A,7),6,20) stable(10)"))
        assert begun.wait(PATIENCE_S)
        b.push(frame_of("ins((B,8),6,20) stable(10)"))
        assert b.wait_durable(10, PATIENCE_S)
        assert a.flush(PATIENCE_S)  # taken in, and not durable
        assert not a.wait_durable(10, 0.05)
        assert caller.status("slow").streams[0].durable_stable < 10
        stuck.set()
        assert a.wait_durable(10, PATIENCE_S)
        with Consumer(one.address, "slow", start="earliest") as consumer:
            assert read_until(consumer, 10) == table_of("ins((A,7),6,20)")


def test_a_producer_that_goes_while_its_disk_is_stuck_leaves_nothing_that_waits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its call is cancelled while it waits until all is durable: its place is free at once."""
    stuck, begun = threading.Event(), threading.Event()
    sync = OutputJournal.sync

    def slow(output: OutputJournal) -> Any:
        begun.set()
        assert stuck.wait(PATIENCE_S)
        return sync(output)

    monkeypatch.setattr(OutputJournal, "sync", slow)
    try:
        with sidecar(tmp_path) as one, Caller(one.address) as caller:
            call = caller.channel.stream_stream(
                "/gapless.v1.Sidecar/Push",
                pb.PushRequest.SerializeToString,
                pb.PushReply.FromString,
            )
            leave = pb.PushRequest(detach=pb.Detach())
            replies = call(iter([attach(), said("ins((A,7),6,20) stable(10)"), leave]))
            assert next(replies).attached.credits
            assert begun.wait(PATIENCE_S)
            replies.cancel()
            stream = one.server.registry.streams["s"]
            for _ in range(1000):
                if not one.on_loop(lambda: len(stream.copies)):
                    break
            assert not one.on_loop(lambda: len(stream.copies))
            stuck.set()
            assert caller.push(attach(), said("ins((A,7),6,20) stable(10)"))[-1].ack.sequence == 1
    finally:
        stuck.set()
