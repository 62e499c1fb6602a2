"""`gl.JournalReader`: from where it reads, and how it follows a journal that grows."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from threading import Event
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import gapless as gl
from gapless.io.journal_handles import POLL_MS_MAX
from tests.gapless.io.journal_rows import (
    NOON,
    TABLE,
    made,
    rows,
)

# -- reading --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "since",
    [
        NOON,
        "2024-05-01T12:00:00",
        "2024-05-01 14:00:00+02:00",
        datetime(2024, 5, 1, 12, tzinfo=UTC),
        datetime(2024, 5, 1, 12),  # noqa: DTZ001  # without a zone it is UTC
        np.datetime64("2024-05-01T12:00:00"),
    ],
)
def test_times_are_said_in_many_forms(since: Any, tmp_path: Path) -> None:
    with made(tmp_path, lateness=0) as writer:
        for hour in range(4):
            writer.append({"ts": [NOON + (hour - 2) * 3_600_000], "src": [hour], "len": [0.0]})
            writer.seal()
    assert [row["src"] for row in rows(tmp_path, since=since)] == [2, 3]
    with gl.JournalReader(tmp_path / "j") as reader:
        reader.skip_before(since)
        assert sum(len(frame) for frame in reader) == 2


@given(
    st.lists(st.lists(st.integers(0, 100), max_size=6), max_size=8),
    st.integers(1, 7),
    st.sets(st.integers(0, 3), min_size=1),
    st.lists(st.booleans(), min_size=8, max_size=8),
)
def test_oracle_a_reader_gets_each_row_that_was_not_late_once(
    tmp_path_factory: pytest.TempPathFactory,
    batches: list[list[int]],
    frame_rows: int,
    partitions: set[int],
    seals: list[bool],
) -> None:
    path = tmp_path_factory.mktemp("oracle")
    expected: list[int] = []
    largest, number = -5_000 - 1, 0
    with made(path) as writer, gl.JournalReader(path / "j", frame_rows=frame_rows) as beside:
        seen: list[gl.Frame] = []
        for times, seal in zip(batches, seals, strict=False):
            numbers = range(number, number + len(times))
            number += len(times)
            given = {"ts": [1_000 * t for t in times], "src": numbers, "len": [0.0] * len(times)}
            writer.append({**given, "src": list(numbers)})
            if seal:
                writer.seal()
            on_time = [
                i for i, t in zip(numbers, times, strict=True) if 1_000 * t >= largest - 5_000
            ]
            expected += on_time
            largest = max([largest, *(1_000 * t for t in times)])
            seen += beside  # from where it was
        stable = writer.stable
    numbers_seen = sorted(row["src"] for frame in seen for row in frame.payload.to_pylist())
    assert numbers_seen == expected
    assert max((f.stable for f in seen if f.stable is not None), default=stable) == stable
    some = rows(path, partitions=partitions, columns=["src"])
    others = rows(path, partitions={0, 1, 2, 3} - partitions or {0}, columns=["src"])
    if len(partitions) < 4:
        assert sorted(row["src"] for row in some + others) == expected


class Waits:
    """An event that notes how long it is waited for, and is set after so many waits."""

    def __init__(self, waits: int, meanwhile: Callable[[int], object] = lambda _: None) -> None:
        self.timeouts_ms: list[float] = []
        self._waits = waits
        self._meanwhile = meanwhile

    def is_set(self) -> bool:
        return len(self.timeouts_ms) >= self._waits

    def wait(self, timeout: float) -> bool:
        self.timeouts_ms.append(timeout * 1_000)
        self._meanwhile(len(self.timeouts_ms))
        return self.is_set()


def test_a_follower_looks_less_often_while_nothing_comes(tmp_path: Path) -> None:
    with made(tmp_path) as writer, gl.JournalReader(tmp_path / "j") as reader:
        stop = Waits(10, lambda n: writer.append(TABLE) if n == 6 else None)
        frames = list(reader.follow(stop))
    assert [len(frame) for frame in frames] == [3]
    assert stop.timeouts_ms == [1, 2, 4, 8, 10, 10, 1, 2, 4, 8]
    assert max(stop.timeouts_ms) == POLL_MS_MAX


def test_a_follower_ends_with_its_journal(tmp_path: Path) -> None:
    with made(tmp_path) as writer, gl.JournalReader(tmp_path / "j") as reader:
        following = reader.follow()
        for number in range(3):
            writer.append({**TABLE.to_pydict(), "src": [number] * 3})
            assert next(following).payload.column("src").to_pylist() == [number] * 3
        writer.end()
        assert [frame.stable for frame in following] == [gl.INF]
        assert reader.ended
        assert list(reader.follow()) == []


def test_a_follower_ends_when_it_is_told(tmp_path: Path) -> None:
    stop = Event()
    with made(tmp_path) as writer, gl.JournalReader(tmp_path / "j") as reader:
        writer.append(TABLE)
        frames = []
        for frame in reader.follow(stop):
            frames.append(frame)
            stop.set()
            writer.append(TABLE)
        assert [len(frame) for frame in frames] == [3]
        with gl.JournalReader(tmp_path / "j", start=reader.position) as later:
            assert sum(len(frame) for frame in later) == 3
    with pytest.raises(gl.Misuse, match="was closed"):
        reader.read()
