"""Those who read one output: two hundred at once, of which half vanish; and one an hour behind."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

import gapless as gl
from gapless.actors.views import JobView
from gapless.protocol.frame import Frame
from tests.actors.rays import (
    BATCH_MS,
    Feed,
    end,
    follow,
    goes_on,
    started,
    talkers,
    wait,
    wait_whole,
)

pytestmark = [pytest.mark.ray, pytest.mark.cluster]

SUBSCRIBERS = 200
IDLE_BYTES_MAX = 3 << 20
"""Of one that does not read, here and at its merger together: what may wait for it, a thread, and
one answer that was under way."""
LEVEL_BYTES_MAX = 64 << 20
"""By how much a merger may be larger after all that: allocators give little back."""
HOUR_MS = 3_600_000


@pytest.fixture(scope="module", autouse=True)
def cluster() -> Iterator[None]:
    with started():
        yield


def merger_bytes(job: gl.Job) -> int:
    """What the processes of the mergers have in memory."""
    view: JobView = job.status()
    pids = [about.pid for life, about in view.hosts.items() if life.slot.startswith("m")]
    return sum(psutil.Process(pid).memory_info().rss for pid in pids)


def test_of_two_hundred_subscribers_half_vanish_and_memory_is_back_at_its_level(
    tmp_path: Path,
) -> None:
    with Feed(tmp_path / "journal", batches=2000) as feed:
        job = gl.launch(talkers(), journal=feed.path, dir=tmp_path / "job", replicas=2, name="many")
        wait_whole(job)
        first = follow(job, start="earliest")
        goes_on(first)
        me, before, at_merger = (
            psutil.Process(),
            psutil.Process().memory_info().rss,
            merger_bytes(job),
        )
        idle = [job.subscribe(start="earliest") for _ in range(SUBSCRIBERS)]
        for subscription in idle:
            assert len(next(subscription))  # and reads no more
        goes_on(first)
        grown = me.memory_info().rss - before + max(0, merger_bytes(job) - at_merger)
        assert grown / SUBSCRIBERS < IDLE_BYTES_MAX, f"{grown / SUBSCRIBERS / 1e6:.2f} MB each"
        for subscription in idle[::2]:
            subscription.close()
        for subscription in idle[1::2]:
            assert len(next(subscription))
        goes_on(first)
        assert merger_bytes(job) - at_merger < LEVEL_BYTES_MAX
        for subscription in idle[1::2]:
            subscription.close()
        first.stop()
    end(job)


def test_a_subscriber_that_is_an_hour_behind_gets_each_event_once(tmp_path: Path) -> None:
    feed = Feed(tmp_path / "journal", batches=50)
    job = gl.launch(
        talkers(slide="1s"), journal=feed.path, dir=tmp_path / "job", replicas=2, name="behind"
    )
    wait_whole(job)
    subscription = job.subscribe("final", "earliest")
    frames = [next(subscription)]
    token = subscription.token
    subscription.close()
    for _ in range(HOUR_MS // BATCH_MS):
        feed.append()
    stable = feed.stable - 2_000
    wait(job, lambda view: view.state.best[0] >= stable, "the job has read an hour")
    with job.subscribe("final", token) as behind, job.subscribe("final", "earliest") as whole:
        frames += read(behind, stable)
        wanted = read(whole, stable)
    assert events(frames, stable) == events(wanted, stable)
    assert len(events(wanted, stable)) > 20 * 3_500
    feed.stop()
    end(job)


def read(subscription: gl.Subscription, stable: int) -> list[Frame]:
    """All up to a time."""
    frames = []
    for frame in subscription:
        frames.append(frame)
        if frame.stable is not None and frame.stable >= stable:
            break
    return frames


def events(frames: list[Frame], stable: int) -> list[tuple[int, int, tuple[object, ...]]]:
    """Those that end before a time, each as often as it came."""
    rows = (
        (vs, ve, tuple(payload.values()))
        for frame in frames
        for vs, ve, payload in zip(
            frame.vs.tolist(), frame.ve.tolist(), frame.payload.to_pylist(), strict=True
        )
    )
    return sorted(row for row in rows if row[1] < stable)
