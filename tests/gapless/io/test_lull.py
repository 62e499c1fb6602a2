"""Promises without rows: by a program, and by `gapless ingest --idle` while nothing comes."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import gapless as gl
from gapless.io import ingest_lines
from gapless.io.ingest_input import input_of
from gapless.io.lull import Lull
from gapless.io.stop_signals import StopSignals
from gapless.protocol.elements import INF

SCHEMA = {"ts": "timestamp[ms]", "src": "int32"}
TIMES = [1_000, 4_000, 2_500]


def writer(path: Path) -> gl.JournalWriter:
    return gl.JournalWriter(path, SCHEMA, time="ts", key="src", partitions=2, lateness="1s")


def rows(*times: int) -> pa.Table:
    return pa.table({"ts": pa.array(times, pa.timestamp("ms")), "src": [t % 7 for t in times]})


def stables(path: Path) -> list[int | None]:
    with gl.JournalReader(path) as reader:
        return [frame.stable for frame in reader]


# -- promise --------------------------------------------------------------------------------------


def test_a_promise_is_followed_by_readers_and_makes_earlier_rows_late(tmp_path: Path) -> None:
    with writer(tmp_path / "j") as w, gl.JournalReader(tmp_path / "j") as reader:
        w.append(rows(*TIMES))
        assert w.stable == 3_000
        assert w.promise(9_000)
        seen = list(reader)
        assert (sum(map(len, seen)), seen[-1].stable) == (3, 9_000)
        assert w.append(rows(8_999, 9_000)).late == 1
        assert (w.batches, w.rows, w.stable) == (2, 4, 9_000)


@pytest.mark.parametrize("closes", [True, False])
def test_who_opens_the_journal_anew_finds_the_promise_and_the_batches_alone(
    closes: bool, tmp_path: Path
) -> None:
    first = writer(tmp_path / "j")
    first.append(rows(*TIMES))
    first.promise(9_000)
    first.append(rows(100))  # late: a batch of which no row is taken
    first.promise(datetime(1970, 1, 1, 0, 0, 12, tzinfo=UTC))
    if closes:
        first.close()
    with writer(tmp_path / "j") as again:
        assert (again.batches, again.rows, again.rejected, again.stable) == (2, 3, 1, 12_000)
        again.promise(13_000)
    with writer(tmp_path / "j") as last:
        assert (last.batches, last.stable) == (2, 13_000)
    assert stables(tmp_path / "j")[-1] == 13_000


def test_a_query_answers_during_a_lull(tmp_path: Path) -> None:
    source = gl.source("flows", SCHEMA, time="ts", lateness="1s")
    query = source.window(range="2s", slide="2s").aggregate(n=gl.count())
    with writer(tmp_path / "j") as w:
        w.append(rows(*TIMES))
        w.promise(6_000)
    frames = list(gl.execute(query, tmp_path / "j"))
    assert sum(map(len, frames)) == 3


def test_what_is_promised_twice_or_makes_no_sense(tmp_path: Path) -> None:
    with writer(tmp_path / "j") as w:
        w.append(rows(*TIMES))
        assert not w.promise(3_000)
        with pytest.raises(gl.Misuse, match="finite"):
            w.promise(INF)
        size = w.promise(5_000), w.promise(4_000)
        assert size == (True, False)
    with pytest.raises(gl.Misuse, match="writes no more"):
        w.promise(6_000)
    with (
        gl.JournalWriter(tmp_path / "f", {"n": "int64"}) as frames,
        pytest.raises(gl.Misuse, match="frames have their promises in them"),
    ):
        frames.promise(5)


# -- lulls ----------------------------------------------------------------------------------------


class Clock:
    """Time that passes while somebody waits: what comes meanwhile is a list of (when, what)."""

    def __init__(self, comes: list[tuple[float, bytes]], pipe: int) -> None:
        self.now = 100.0
        self._comes, self._pipe = comes, pipe

    def monotonic(self) -> float:
        return self.now

    def select(self, read: list[int], _w: Any, _e: Any, left: float | None) -> Any:
        if not self._comes:
            return [read[0]], [], []  # the end
        when, what = self._comes[0]
        if left is not None and self.now + left < 100.0 + when:
            self.now += left
            return [], [], []
        self.now = max(self.now, 100.0 + when)
        del self._comes[0]
        os.write(self._pipe, what)
        if not self._comes:
            os.close(self._pipe)
        return [read[0]], [], []


def line(ts_ms: int) -> bytes:
    at = datetime.fromtimestamp(ts_ms / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3]
    return f'{{"ts": "{at}", "src": 1}}\n'.encode()


def test_time_goes_on_while_nothing_comes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ends = os.pipe()
    comes = [(0.0, line(10_000)), (17.0, line(26_500) + line(14_000)), (18.0, line(27_000)[:5])]
    comes.append((40.0, b""))
    clock = Clock(comes, ends[1])
    monkeypatch.setattr(ingest_lines, "monotonic", clock.monotonic)
    monkeypatch.setattr("gapless.io.ingest_lines.select.select", clock.select)
    with (
        os.fdopen(ends[0]) as standard,
        StopSignals() as stop,
        writer(tmp_path / "j") as w,
    ):
        monkeypatch.setattr("sys.stdin", standard)
        promised: list[int] = []
        lull = Lull(w, 5.0)
        given = input_of("-", "jsonl", w.layout.schema.payload, 100, 0.2, stop, lull=lull)
        for batch in given:
            promised.append(w.stable)
            w.append(batch.rows, origin=batch.origin, rejected=batch.rejected)
        assert promised[:2] == [-(2**63), 9_000 + 15_000]  # three times 5 s after the row
        assert w.rejected >= 1  # that of 14 s
        assert w.stable == 25_500 + 20_000  # the last 20 s, of 22


def test_before_the_first_row_there_is_no_time_to_go_on(tmp_path: Path) -> None:
    with writer(tmp_path / "j") as w:
        lull = Lull(w, 5.0)
        lull.lasts(7.0)
        assert w.stable < 0
        w.append(rows(10_000))
        lull.ended()
        lull.lasts(5.0)
        lull.lasts(10.5)
        assert w.stable == 9_000 + 10_500


def test_a_lull_of_a_file_is_refused(tmp_path: Path) -> None:
    with (
        StopSignals() as stop,
        writer(tmp_path / "j") as w,
        pytest.raises(gl.Misuse, match="a file has no lulls"),
    ):
        input_of("x.jsonl", "jsonl", w.layout.schema.payload, 9, 0.2, stop, lull=Lull(w, 1.0))
