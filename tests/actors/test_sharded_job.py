"""A job on real Ray in two shards: one merged output, whatever dies in one of them; and what it
keeps in its source while it runs, and no longer.
"""

from __future__ import annotations

from pathlib import Path

import pytest

import gapless as gl
from gapless.journal.disk import LocalDisk
from gapless.journal.readers import registered
from gapless.protocol.errors import Misuse
from tests.actors.rays import (
    Feed,
    end,
    follow,
    goes_on,
    judged,
    replaced,
    started,
    talkers,
    until,
    wait_whole,
)

pytestmark = [pytest.mark.ray, pytest.mark.cluster]


def kept(path: Path) -> set[str]:
    """Who is registered in a source, except for the job's own part of the names."""
    return {reader.name.partition(".")[2] for reader in registered(LocalDisk(path))}


def test_two_shards_give_one_output_while_a_replica_of_one_dies(tmp_path: Path) -> None:
    with started(), Feed(tmp_path / "flows", partitions=4) as feed:
        whole = talkers().window(range="1s", slide="1s").aggregate(rows=gl.count())
        with pytest.raises(Misuse, match="shards=2: aggregate rows of all rows"):
            gl.launch(whole, journal=feed.path, dir=tmp_path / "whole", shards=2)
        job = gl.launch(
            talkers(),
            journal=feed.path,
            dir=tmp_path / "talkers",
            replicas=2,
            shards=2,
            checkpoint_s=1,
        )
        wait_whole(job)
        recording = follow(job, start="earliest")
        replicas = {"r0.0", "r0.1", "r1.0", "r1.1"}
        until(lambda: kept(feed.path) >= replicas, "replicas are registered in the source")
        shards = {"ckpt.0", "ckpt.1"}
        until(lambda: {name[:6] for name in kept(feed.path)} >= shards, "so are checkpoints")
        replaced(job, "r1.0")
        goes_on(recording)
        with job.subscribe() as now:
            emit = now.next_emit(30)
            assert emit is not None
            assert set(emit.tokens) == {"0", "1"}
        feed.stop()
        end(job)
        recording.wait_for_end(30)
        assert judged(job.dir, [recording]).settled_rows > 0
        assert kept(feed.path) == set()
