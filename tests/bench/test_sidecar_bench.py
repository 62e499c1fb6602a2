"""The sidecar's bench: its feeds, and how it counts what was lost, doubled, late and silent."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from gapless.bench.harness import Context
from gapless.bench.sidecar import SECTIONS, run
from gapless.bench.sidecar_worker import Feed, _paced, frame, push, read
from gapless.protocol.errors import Misuse
from tests.sidecar.helpers import sidecar

FEED = Feed("", frames=50, rows=10, frames_per_s=10.0, begin=100.0, struck_s=2.0)


def test_frames_follow_each_other_without_a_gap() -> None:
    numbers = np.concatenate([frame(i, 7).payload.column(1).to_numpy() for i in range(4)])
    assert (numbers == np.arange(28)).all()
    assert frame(3, 7).stable == 28


def test_a_feed_is_handed_to_a_process_whole() -> None:
    document = json.loads(FEED.argument("read", count=3))
    assert (document.pop("role"), document.pop("count")) == ("read", 3)
    assert Feed(**document) == FEED


def test_a_silence_behind_the_strike_is_a_pause_and_others_are_not() -> None:
    times = 100.0 + np.arange(50) / 10 + 0.005
    times[5:] += 0.4  # before the strike, and then all are late
    times[30:] += 0.7
    stables = (np.arange(50) + 1) * FEED.rows
    told = _paced(FEED, times, stables)
    assert told["pause_ms"] == pytest.approx(800)
    assert told["max_ms"] == pytest.approx(1105)


def test_what_is_pushed_is_read_and_counted(tmp_path: Path) -> None:
    with sidecar(tmp_path) as one:
        feed = Feed(one.address, frames=20, rows=100)
        told = push(feed)
        assert told["ended"] >= told["began"]
        assert {k: read(feed)[k] for k in ("lost", "doubled")} == {"lost": 0, "doubled": 0}


def test_a_section_that_is_none_is_refused() -> None:
    with pytest.raises(Misuse, match="the sections are throughput"):
        next(run(Context(quick=True, plot_dir=None, only=("speed",))))
    assert set(SECTIONS) == {"throughput", "latency", "many", "stuck", "kills"}
