"""Whole random jobs on real Ray, struck and resumed, judged by an answer in plain Python.

GAPLESS_RANDOM_JOBS=20 pytest -m cluster tests/actors/test_random_jobs.py      more of them
GAPLESS_RANDOM_SEED=17                                                         from this seed on
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pyarrow as pa
import pytest
import ray

import gapless as gl
from gapless.actors.hosts import named
from gapless.chaos.judging_recording import Recording
from gapless.protocol.elements import INF
from tests.actors.random_jobs import LATENESS, SCHEMA, RandomJob, Row, Table, changes, drawn
from tests.actors.rays import WAIT_S, follow, judged, processes_of, started, until, wait_whole

pytestmark = [pytest.mark.ray, pytest.mark.cluster]

JOBS = int(os.environ.get("GAPLESS_RANDOM_JOBS", "3"))
FIRST = int(os.environ.get("GAPLESS_RANDOM_SEED", "0"))


@pytest.fixture(scope="module", autouse=True)
def cluster() -> Iterator[None]:
    with started():
        yield


def lose_everything(job: gl.Job) -> None:
    """Kills every process of a job at once, so that nothing restarts any."""
    processes = processes_of(job.name)
    ray.kill(ray.get_actor(f"{job.name}/root", namespace="gapless"), no_restart=True)
    for process in processes:
        with suppress(psutil.NoSuchProcess):  # the root
            process.kill()
    _, alive = psutil.wait_procs(processes, timeout=WAIT_S)
    assert not alive
    until(lambda: not named(f"{job.name}/root"), "the cluster knows that the root is gone")


def finals(recording: Recording) -> Table:
    """What a program holds that counts each final event once."""
    held = []
    for arrival in recording.arrivals:
        frame = arrival.emit.frame
        payloads = zip(*(column.to_pylist() for column in frame.payload.columns), strict=True)
        times = zip(frame.vs.tolist(), frame.ve.tolist(), strict=True)
        held += [(p, *t) for p, t in zip(payloads, times, strict=True)]
    return changes(held)


class Struck:
    """A random job while it runs: what befalls it, and who reads it."""

    def __init__(self, drawn_job: RandomJob, folder: Path) -> None:
        self.drawn = drawn_job
        self.rng = random.Random(f"actions {drawn_job.seed}")
        self.dir = folder / f"job-{drawn_job.seed}"
        self.writer = gl.JournalWriter(
            folder / f"flows-{drawn_job.seed}",
            SCHEMA,
            time="ts",
            key="src",
            partitions=2,
            lateness=LATENESS,
        )
        self.taken: list[Row] = []
        self.job = gl.launch(
            drawn_job.query,
            journal=folder / f"flows-{drawn_job.seed}",
            dir=self.dir,
            replicas=drawn_job.replicas,
            mergers=drawn_job.mergers,
            shards=drawn_job.shards,
            retain=drawn_job.retain,
            checkpoint_s=0.5,
        )
        wait_whole(self.job)

    def write(self, batches: list[list[Row]]) -> None:
        """Appends rows; none of them is late."""
        for rows in batches:
            columns = zip(*rows, strict=True)
            arrays = [pa.array(c, t) for c, t in zip(columns, SCHEMA.values(), strict=True)]
            written = self.writer.append(pa.record_batch(arrays, names=list(SCHEMA)))
            assert not written.rejected
            self.taken += rows

    def befalls(self, action: str, recordings: list[Recording]) -> None:
        """One thing that happens to it."""
        match action:
            case "kill replica" | "kill merger":
                letter = action.split()[1][0]
                slots = [s.slot for s in self.job.status().state.slots if s.slot[0] == letter]
                self.job.kill(self.rng.choice(slots))
            case "scale up":
                self.job.scale(min(4, self.drawn.replicas + 1))
            case "scale down":
                self.job.scale(1)
            case _:
                tokens = []
                for recording in recordings:
                    recording.stop()
                    tokens.append(recording.token)
                lose_everything(self.job)
                self.job = gl.resume(self.dir)
                wait_whole(self.job)
                for recording, token in zip(recordings, tokens, strict=True):
                    recording.go_on(self.job.subscribe(recording.deliver, token))


@pytest.mark.parametrize("seed", range(FIRST, FIRST + JOBS))
def test_a_random_job_loses_and_doubles_nothing(seed: int, tmp_path: Path) -> None:
    wanted = drawn(seed)
    struck = Struck(wanted, tmp_path)
    struck.write(wanted.batches[:5])
    recordings = [
        follow(struck.job, "changes", start="begin"),
        follow(struck.job, "final", deliver="final", start="begin"),
    ]
    share = (len(wanted.batches) - 5) // (len(wanted.actions) + 1)
    at = 5
    for action in wanted.actions:
        struck.write(wanted.batches[at : at + share])
        at += share
        struck.befalls(action, recordings)
    struck.write(wanted.batches[at:])
    struck.writer.end()
    for recording in recordings:
        assert recording.wait_for_end(WAIT_S), f"seed {seed}: {wanted.told}: {recording.error}"
        assert recording.stable == INF
    final = recordings[1]
    judged(struck.dir, recordings)
    assert finals(final) == wanted.answer(struck.taken), f"seed {seed}: {wanted.told}"
    processes = processes_of(struck.job.name)
    struck.job.stop(drain=False, timeout_s=WAIT_S)
    until(lambda: not any(p.is_running() for p in processes), "no process of it is left")
