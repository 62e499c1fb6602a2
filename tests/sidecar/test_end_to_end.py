"""A stream pushed by copies and read back, over real sockets: while they die, and it does."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from gapless.protocol.elements import INF, Element, Insert, Stable
from gapless.protocol.errors import Fenced
from gapless.protocol.frame import Frame
from gapless.sidecar.client.consumer import Consumer, table
from gapless.sidecar.client.producer import Producer
from tests.sidecar.helpers import PATIENCE_S, SCHEMA, frame_of, read_until, sidecar, table_of

WHOLE = "ins((A,7),6,20) ins((B,8),12,20) ins((C,9),14,30) stable(20)"


def test_what_two_copies_push_is_read_once(tmp_path: Path) -> None:
    with (
        sidecar(tmp_path) as one,
        Producer(one.address, "s", "a", SCHEMA) as a,
        Producer(one.address, "s", "b", SCHEMA) as b,
        Consumer(one.address, "s", start="earliest") as consumer,
    ):
        a.push(frame_of("ins((A,7),6,20) stable(10)"))
        b.push(frame_of("ins((A,7),6,20) ins((B,8),12,20) stable(13)"))
        a.push(frame_of("ins((B,8),12,20) ins((C,9),14,30) stable(20)"))
        assert read_until(consumer, 20) == table_of(WHOLE)


def test_a_producer_is_five_lines(tmp_path: Path) -> None:
    with sidecar(tmp_path) as one:
        with Producer(one.address, "s", "a", {"src": "string", "n": "int64"}) as p:
            for i, src in enumerate("ABC"):
                p.insert(6 + i, 20, src=src, n=i)
            p.stable(INF)
        with Consumer(one.address, "s", start="earliest") as consumer:
            assert list(consumer.elements()) == [
                Insert(("A", 0), 6, 20),
                Insert(("B", 1), 7, 20),
                Insert(("C", 2), 8, 20),
                Stable(INF),
            ]


@pytest.mark.parametrize("last", ["stable(21)", "stable(31)", "stable(inf)"])
def test_the_table_of_a_stream_behind_its_last_event_is_that_of_the_last_instant(
    tmp_path: Path, last: str
) -> None:
    with sidecar(tmp_path) as one, Producer(one.address, "s", "a", SCHEMA) as a:
        a.push(frame_of(WHOLE))
        a.push(frame_of(last))
        assert a.wait_durable(21)
        assert table(one.address, "s").column("n").to_pylist() == [9]
        assert table(one.address, "s", filter="n < 9").num_rows == 0


@pytest.mark.parametrize("deliver", ["changes", "final"])
def test_who_begins_with_the_token_of_the_end_ends(tmp_path: Path, deliver: str) -> None:
    with sidecar(tmp_path / "one") as one, sidecar(tmp_path / "two") as two:
        both = f"{one.address},{two.address}"
        with Producer(both, "s", "a", SCHEMA) as a:
            a.push(frame_of("ins((A,7),6,20) stable(inf)"))
            assert a.wait_durable(INF), "one that is not reached yet is not waited for at the close"
        for where in (one.address, both):
            with Consumer(where, "s", start="earliest", deliver=deliver) as consumer:
                assert list(consumer)[-1].stable == INF
                token = consumer.token
            with Consumer(where, "s", start=token, deliver=deliver) as consumer:
                assert list(consumer) == []


def test_one_copy_dies_and_the_stream_goes_on(tmp_path: Path) -> None:
    with sidecar(tmp_path) as one, Producer(one.address, "s", "b", SCHEMA) as b:
        a = Producer(one.address, "s", "a", SCHEMA)
        a.push(frame_of("ins((A,7),6,20) stable(10)"))
        assert a.flush()
        a.abandon()
        b.push(frame_of(WHOLE))
        with Consumer(one.address, "s", start="earliest") as consumer:
            assert read_until(consumer, 20) == table_of(WHOLE)


def test_a_killed_sidecar_comes_back_and_nothing_is_lost_or_said_twice(tmp_path: Path) -> None:
    with sidecar(tmp_path) as one, Producer(one.address, "s", "a", SCHEMA) as a:
        consumer = Consumer(one.address, "s", start="earliest")
        a.push(frame_of("ins((A,7),6,20) ins((B,8),12,20) stable(10)"))
        first = consumer.next(PATIENCE_S)
        assert first is not None
        assert first.stable == 10
        one.restart()
        a.push(frame_of("ins((C,9),14,30) stable(20)"))
        rest = [consumer.next(PATIENCE_S)]
        while rest[-1] is not None and rest[-1].stable != 20:
            rest.append(consumer.next(PATIENCE_S))
        rows = [e for f in rest if f is not None for e in f.elements() if e != Stable(20)]
        assert rows == [Insert(("C", 9), 14, 30)]
        consumer.close()


def test_a_token_goes_on_exactly_behind_what_was_read(tmp_path: Path) -> None:
    with sidecar(tmp_path) as one, Producer(one.address, "s", "a", SCHEMA) as a:
        a.push(frame_of("ins((A,7),6,20) stable(10)"))
        with Consumer(one.address, "s", start="earliest") as consumer:
            read_until(consumer, 10)
            token = consumer.token
        a.push(frame_of("ins((B,8),12,20) stable(13)"))
        with Consumer(one.address, "s", start=token) as consumer:
            delivered = consumer.next_delivered(PATIENCE_S)
            assert delivered is not None
            assert not delivered.reset
            assert delivered.frame.elements() == [Insert(("B", 8), 12, 20), Stable(13)]


def test_who_starts_now_first_gets_the_table_as_a_reset(tmp_path: Path) -> None:
    with sidecar(tmp_path) as one, Producer(one.address, "s", "a", SCHEMA) as a:
        a.push(frame_of("ins((A,7),6,9) ins((B,8),6,20) stable(10)"))
        assert a.wait_durable(10)
        with Consumer(one.address, "s") as consumer:
            delivered = consumer.next_delivered(PATIENCE_S)
            assert delivered is not None
            assert delivered.reset
            assert delivered.frame.elements() == [Insert(("B", 8), 6, 20), Stable(10)]


def test_final_gives_each_event_once_when_it_cannot_change(tmp_path: Path) -> None:
    with sidecar(tmp_path) as one, Producer(one.address, "s", "a", SCHEMA) as a:
        a.push(frame_of("ins((A,7),6,20) ins((B,8),9,12) stable(10)"))
        a.push(frame_of("adj((A,7),6,20,30) stable(13)"))
        a.push(frame_of("stable(31)"))
        with Consumer(one.address, "s", deliver="final", start="earliest") as consumer:
            rows: list[Element] = []
            while not rows or rows[-1] != Stable(31):
                frame = consumer.next(PATIENCE_S)
                assert frame is not None
                rows += frame.elements()
        inserts = [row for row in rows if isinstance(row, Insert)]
        assert inserts == [Insert(("B", 8), 9, 12), Insert(("A", 7), 6, 30)]


def test_columns_and_a_filter_leave_promises_as_they_are(tmp_path: Path) -> None:
    with sidecar(tmp_path) as one, Producer(one.address, "s", "a", SCHEMA) as a:
        a.push(frame_of(WHOLE))
        with Consumer(
            one.address, "s", start="earliest", columns=["n"], filter='n > 7 and src in ("B", "C")'
        ) as consumer:
            frame = consumer.next(PATIENCE_S)
            assert frame is not None
            assert frame.elements() == [Insert((8,), 12, 20), Insert((9,), 14, 30), Stable(20)]


def test_the_table_is_what_is_alive(tmp_path: Path) -> None:
    with sidecar(tmp_path) as one, Producer(one.address, "s", "a", SCHEMA) as a:
        a.push(frame_of(WHOLE))
        assert a.wait_durable(20)
        assert table(one.address, "s").to_pydict()["src"] == ["C"]
        assert table(one.address, "s", at=20).column("src").to_pylist() == ["C"]


def test_a_later_incarnation_ends_the_one_before(tmp_path: Path) -> None:
    with sidecar(tmp_path) as one:
        old = Producer(one.address, "s", "a", SCHEMA, incarnation=1)
        old.push(frame_of("ins((A,7),6,20) stable(10)"))
        assert old.flush()
        with Producer(one.address, "s", "a", SCHEMA, incarnation=2) as new:
            new.push(frame_of("ins((A,7),6,20) stable(10)"))
            assert new.flush()
            with pytest.raises(Fenced, match="incarnation"):
                old.wait_durable(INF)
        old.abandon()


def test_two_sidecars_are_read_as_one_stream(tmp_path: Path) -> None:
    with sidecar(tmp_path / "1") as one, sidecar(tmp_path / "2") as other:
        both = f"{one.address},{other.address}"
        with (
            Producer(both, "s", "a", SCHEMA) as a,
            Producer(both, "s", "b", SCHEMA) as b,
            Consumer(both, "s", start="earliest") as consumer,
        ):
            a.push(frame_of("ins((A,7),6,20) stable(10)"))
            b.push(frame_of("ins((A,7),6,20) ins((B,8),12,20) stable(13)"))
            read_until(consumer, 13)
            one.stop(by_force=True)
            a.push(frame_of("ins((B,8),12,20) ins((C,9),14,30) stable(20)"))
            frames: list[Frame] = []
            while not frames or frames[-1].stable != 20:
                frame = consumer.next(PATIENCE_S)
                assert frame is not None
                frames.append(frame)
            rows = [e for f in frames for e in f.elements() if isinstance(e, Insert)]
            assert rows == [Insert(("C", 9), 14, 30)]


def test_who_reads_from_several_threads_of_one_stream_gets_all_of_it(tmp_path: Path) -> None:
    tables = []
    with sidecar(tmp_path) as one, Producer(one.address, "s", "a", SCHEMA) as a:

        def read() -> None:
            with Consumer(one.address, "s", start="earliest") as consumer:
                tables.append(read_until(consumer, 100))

        threads = [threading.Thread(target=read) for _ in range(8)]
        for thread in threads:
            thread.start()
        for t in range(1, 101):
            a.push(frame_of(f"ins((A,{t}),{t},{t + 5}) stable({t})"))
        for thread in threads:
            thread.join(PATIENCE_S)
    whole = table_of(" ".join(f"ins((A,{t}),{t},{t + 5})" for t in range(1, 101)) + " stable(100)")
    assert tables == [whole] * 8
