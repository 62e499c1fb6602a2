"""What the shell of a replica tells its pace, and what it does when the pace falls."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from gapless.actors import watched
from gapless.actors.pace import Pace
from gapless.actors.replica import ReplicaShell
from gapless.failover.io.replica_io import READ_AHEAD_TIMES_MAX
from gapless.failover.replica.executor import Executor
from gapless.failover.replica.sources import Sources
from gapless.protocol.frame import Frame
from tests.actors.test_reader_registry_shell import World, until

READ_MS, PLAN_MS = 1000.0, 7.0


def run(shell: ReplicaShell) -> None:
    until(lambda: shell.pump.call(lambda: shell.machine.output.tail.stable) >= 190)


def test_the_plan_alone_is_timed_and_not_the_read_that_follows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By a clock that only reads and plans move."""
    told: list[float] = []
    now = [0.0]
    read, parts = Sources.read, Executor.parts

    def slow_read(self: Sources, source: str, rows: int) -> object:
        now[0] += READ_MS
        return read(self, source, rows)

    def slow_parts(self: Executor, source: str, frame: Frame) -> Iterator[Frame]:
        now[0] += PLAN_MS
        yield from parts(self, source, frame)

    monkeypatch.setattr(Sources, "read", slow_read)
    monkeypatch.setattr(Executor, "parts", slow_parts)
    monkeypatch.setattr(watched, "clock_ms", lambda: now[0])
    monkeypatch.setattr(Pace, "took", lambda _, __, ms: told.append(ms))
    with World(tmp_path).replica() as shell:
        run(shell)
    assert set(told) == {PLAN_MS}


def test_what_was_read_ahead_is_cut_to_a_pace_that_has_fallen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And no row is lost by that, or read twice."""
    given: list[Frame] = []
    parts = Executor.parts

    def look(self: Executor, source: str, frame: Frame) -> Iterator[Frame]:
        given.append(frame)
        return parts(self, source, frame)

    def fall(pace: Pace, *_: float) -> None:
        pace.rows = 3

    monkeypatch.setattr(Executor, "parts", look)
    monkeypatch.setattr(Pace, "took", fall)
    monkeypatch.setattr("gapless.actors.pace.ROWS_FIRST", 64)
    with World(tmp_path).replica():
        until(lambda: sum(map(len, given)) >= 200)
    sizes = [len(frame) for frame in given if len(frame)]
    assert sizes[0] == 60  # whole records of ten rows
    assert max(sizes[1:]) <= READ_AHEAD_TIMES_MAX * 3
    assert sorted(t for frame in given for t in frame.vs.tolist()) == list(range(200))


def test_what_was_read_ahead_grows_to_a_pace_that_has_risen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[Frame] = []
    parts = Executor.parts

    def look(self: Executor, source: str, frame: Frame) -> Iterator[Frame]:
        given.append(frame)
        return parts(self, source, frame)

    def rise(pace: Pace, *_: float) -> None:
        pace.rows = 100

    monkeypatch.setattr(Executor, "parts", look)
    monkeypatch.setattr(Pace, "took", rise)
    with World(tmp_path).replica():
        until(lambda: sum(map(len, given)) >= 200)
    sizes = [len(frame) for frame in given if len(frame)]
    assert sizes == [sizes[0], 100, 100 - sizes[0]]
    assert sorted(t for frame in given for t in frame.vs.tolist()) == list(range(200))
    stables = [frame.stable for frame in given if frame.stable is not None]
    assert stables == sorted(set(stables))
