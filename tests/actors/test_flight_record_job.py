"""A job on real Ray: the records of its lives are replayed far from it, without a difference."""

from __future__ import annotations

from pathlib import Path

import pytest

import gapless as gl
from gapless.commands.status import _record
from gapless.failover.recorder.record import decode
from gapless.testing import replay
from tests.actors.rays import Feed, end, follow, goes_on, judged, started, talkers, wait_whole

pytestmark = [pytest.mark.ray, pytest.mark.cluster]


def test_every_life_of_a_job_gives_a_record_that_is_replayed(tmp_path: Path) -> None:
    with started(), Feed(tmp_path / "flows") as feed:
        job = gl.launch(talkers(), journal=feed.path, dir=tmp_path / "job", replicas=2, mergers=1)
        wait_whole(job)
        recording = follow(job, start="earliest")
        goes_on(recording)
        assert _record(job.name, "auto", tmp_path / "asked") == 0
        feed.stop()
        judged(job, [recording])
        end(job)
    files = sorted((tmp_path / "asked" / "records").glob("*"))
    machines = sorted(decode(file.read_bytes()).machine for file in files)
    assert machines == ["Merger", "Replica", "Replica", "Supervisor"]
    for file in files:
        assert len(replay(file)) > 10
