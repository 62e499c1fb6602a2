"""Rows that a program says one by one gather into frames; a bad one takes no others with it."""

from __future__ import annotations

from pathlib import Path

import pytest

from gapless.protocol.errors import FrameError, Misuse
from gapless.sidecar import frames
from gapless.sidecar.client import gathered_rows
from gapless.sidecar.client.consumer import Consumer
from gapless.sidecar.client.producer import Producer
from tests.sidecar.helpers import SCHEMA, frame_of, read_until, sidecar, table_of

NOWHERE = "127.0.0.1:1"


def test_rows_one_by_one_gather_into_frames(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gathered_rows, "GATHER_ROWS", 3)
    producer = Producer(NOWHERE, "s", "a", SCHEMA)
    for t in range(7):
        producer.insert(t, 20, src="A", n=t)
    assert len(producer._rows) == 1
    assert len(producer._machine.tail) == 6
    producer.abandon()


def test_a_row_that_no_message_takes_is_refused_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gathered_rows, "ROW_BYTES_MAX", 100)
    producer = Producer(NOWHERE, "s", "a", SCHEMA)
    with pytest.raises(Misuse, match="a row of"):
        producer.push(frame_of(f"ins(({'A' * 200},7),6,20)"))
    producer.abandon()


@pytest.mark.parametrize("bad", [{"src": "B", "n": "seven"}, {"src": "x" * 10_000, "n": 1}])
def test_a_row_that_cannot_be_said_takes_no_others_with_it(
    tmp_path: Path, bad: dict[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    """They gathered with it; and the stable behind them promises that they were told."""
    monkeypatch.setattr(gathered_rows, "ROW_BYTES_MAX", 5_000)
    monkeypatch.setattr(gathered_rows, "cut", lambda frame: frames.cut(frame, bytes_max=5_000))
    with sidecar(tmp_path) as one, Producer(one.address, "s", "a", SCHEMA) as a:
        a.insert(1, 20, src="A", n=7)
        a.insert(2, 20, **bad)
        a.insert(3, 20, src="C", n=9)
        with pytest.raises((FrameError, Misuse)):
            a.flush()
        a.stable(10)
        with Consumer(one.address, "s") as out:
            told = table_of("ins((A,7),1,20) ins((C,9),3,20) stable(10)")
            assert read_until(out, 10) == told
