"""A job with one merger loses it, then everything; it is resumed, drained, and its end is whole."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

import gapless as gl
from gapless.chaos.judge.recording import Recording
from gapless.failover.subscriber.tokens import encode
from gapless.protocol.elements import INF
from tests.actors.rays import (
    BATCH_MS,
    WAIT_S,
    Feed,
    end,
    follow,
    goes_on,
    judged,
    life_of,
    lose_everything,
    started,
    talkers,
    wait,
    wait_whole,
)

pytestmark = pytest.mark.ray


@pytest.fixture(scope="module", autouse=True)
def cluster() -> Iterator[None]:
    with started():
        yield


@dataclass
class Feeds:
    """Those of one test, ended with it."""

    open: list[Feed] = field(default_factory=list)

    def start(self, path: Path) -> Feed:
        feed = Feed(path).start()
        self.open.append(feed)
        return feed


@pytest.fixture
def feeds() -> Iterator[Feeds]:
    found = Feeds()
    yield found
    for feed in found.open:
        feed.stop()


def test_the_only_merger_and_then_everything_is_lost_and_the_output_is_whole_to_its_end(
    feeds: Feeds, tmp_path: Path
) -> None:
    feed = feeds.start(tmp_path / "flows")
    job = gl.launch(
        talkers(), journal=feed.path, dir=tmp_path / "solo", replicas=2, checkpoint_s=0.5
    )
    wait_whole(job)
    changes = follow(job, start="earliest")

    # The only merger: the next one goes on in the same journal, and readers at their offsets.
    before = life_of(job.status(), "m0.0")
    job.kill("m0.0")
    goes_on(changes)
    wait(job, lambda view: life_of(view, "m0.0") not in (before, None), "another merger")
    wait_whole(job)

    # Everything: nobody is left but the directory.
    changes.stop()
    lose_everything(job)
    job = gl.resume(tmp_path / "solo")
    view = wait_whole(job)
    assert view.state.term == 2
    origins = {s.slot: s.origin for s in view.state.slots if s.slot.startswith("r")}
    assert any(origin.startswith("checkpoint") for origin in origins.values()), origins
    changes.go_on(job.subscribe(start=token_of(changes)))
    final = follow(job, "final", deliver="final", start="earliest")
    goes_on(changes)

    # Drained, while rows keep coming: all that is there by then is answered, and streams end.
    at_least = feed.batches * BATCH_MS
    end(job, drain=True)
    for recording in (changes, final):
        assert recording.wait_for_end(WAIT_S)
        assert recording.stable >= at_least - 1_500 or recording.stable == INF
    judged(tmp_path / "solo", [changes, final])
    with pytest.raises(gl.Misuse, match="was stopped, for good"):
        gl.resume(tmp_path / "solo")


def token_of(recording: Recording) -> str:
    return encode(recording.arrivals[-1].emit.tokens)


def test_a_job_whose_source_has_ended_comes_to_its_end_and_is_judged_whole(
    feeds: Feeds, tmp_path: Path
) -> None:
    feed = feeds.start(tmp_path / "flows")
    job = gl.launch(talkers(), journal=feed.path, dir=tmp_path / "ended", replicas=1)
    final = follow(job, deliver="final", start="earliest")
    feed.stop()
    with gl.JournalWriter(feed.path) as writer:
        writer.end()
    assert final.wait_for_stable(INF, WAIT_S)
    found = judged(job, [final])
    assert found.settled_rows == found.answer_rows
    end(job)
