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

import pyarrow as pa
import pytest
import ray

import gapless as gl
from gapless.chaos.judge.recording import Recording
from gapless.protocol.elements import INF
from tests.actors.plain_answers import Row, Table, changes, spliced
from tests.actors.random_jobs import BATCH_TIME, KINDS, LATENESS, SCHEMA, RandomJob, drawn
from tests.actors.rays import (
    WAIT_S,
    follow,
    judged,
    lose_everything,
    processes_of,
    started,
    until,
    wait_whole,
)
from tests.actors.reader_process import Reader, events_of

pytestmark = [pytest.mark.ray, pytest.mark.cluster]

JOBS = int(os.environ.get("GAPLESS_RANDOM_JOBS", len(KINDS)))
FIRST = int(os.environ.get("GAPLESS_RANDOM_SEED", "0"))


@pytest.fixture(scope="module", autouse=True)
def cluster() -> Iterator[None]:
    with started():
        yield


def finals(recording: Recording) -> Table:
    """What a program holds that counts each final event once."""
    return changes(e for arrival in recording.arrivals for e in events_of(arrival.emit.frame))


class Struck:
    """A random job while it runs: what happens to it, and its readers."""

    def __init__(self, drawn_job: RandomJob, folder: Path) -> None:
        self.drawn = drawn_job
        self.rng = random.Random(f"actions {drawn_job.seed}")
        self.dir = folder / f"job-{drawn_job.seed}"
        sources = list(drawn_job.rows)
        self.writers = {
            name: gl.JournalWriter(
                folder / name, SCHEMA, time="ts", key="src", partitions=2, lateness=LATENESS
            )
            for name in sources
        }
        self.batches = 0
        self.taken: dict[str, list[Row]] = {name: [] for name in sources}
        self.cut_at: int | None = None
        self.job = gl.launch(
            drawn_job.way.query,
            journal={name: folder / name for name in sources},
            dir=self.dir,
            replicas=drawn_job.replicas,
            mergers=drawn_job.mergers,
            shards=drawn_job.shards,
            retain=drawn_job.retain,
            checkpoint_s=0.5,
        )
        wait_whole(self.job)
        address = ray.get_runtime_context().gcs_address
        self.reader = Reader(self.job.name, address, folder / "read")

    def write(self, count: int) -> None:
        """Appends batches; no row of them is late."""
        for batch in self.drawn.batches[self.batches : self.batches + count]:
            self.batches += 1
            for name, rows in batch.items():
                self._append(name, rows)

    def _append(self, name: str, rows: list[Row]) -> None:
        columns = zip(*rows, strict=True)
        arrays = [pa.array(c, t) for c, t in zip(columns, SCHEMA.values(), strict=True)]
        written = self.writers[name].append(pa.record_batch(arrays, names=list(SCHEMA)))
        assert not written.rejected
        self.taken[name] += rows

    def end(self) -> None:
        """Appends what is left, and no more."""
        self.write(len(self.drawn.batches))
        for writer in self.writers.values():
            writer.end()

    def happens(self, action: str, recordings: list[Recording]) -> None:
        """One thing that happens to it."""
        match action:
            case "kill replica" | "kill merger":
                letter = action.split()[1][0]
                slots = [s.slot for s in self.job.status().state.slots if s.slot[0] == letter]
                with suppress(gl.Misuse):  # of a slot that goes meanwhile, as the job was scaled
                    self.job.kill(self.rng.choice(slots))
            case "kill reader":
                self.reader.kill()
                self.reader.start()
            case "scale up":
                self.job.scale(min(4, self.drawn.replicas + 1))
            case "scale down":
                self.job.scale(1)
            case "cutover":
                self.changes()
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

    def changes(self) -> None:
        """From a time on that nobody has reached it has another answer."""
        before = self.job.status().desired.plans
        self.cut_at = self.batches * BATCH_TIME + self.rng.randint(0, 2 * BATCH_TIME)
        self.job.cutover(self.drawn.changed.query, at=self.cut_at)
        until(lambda: self.job.status().desired.plans != before, "the query is another")
        until(lambda: self.job.status().state.cutover == "", "the old one has gone")

    @property
    def answer(self) -> Table:
        """What it has to say of the rows that were written."""
        before = self.drawn.way.answer(self.taken)
        if self.cut_at is None:
            return before
        return spliced(before, self.drawn.changed.answer(self.taken), self.cut_at)


@pytest.mark.parametrize("seed", range(FIRST, FIRST + JOBS))
def test_a_random_job_loses_and_doubles_nothing(seed: int, tmp_path: Path) -> None:
    wanted = drawn(seed)
    struck = Struck(wanted, tmp_path)
    try:
        play(struck, f"seed {seed}: {wanted.told}")
    finally:
        struck.reader.end()
    processes = processes_of(struck.job.name)
    struck.job.stop(drain=False, timeout_s=WAIT_S)
    until(lambda: not any(p.is_running() for p in processes), "no process of it is left")


def play(struck: Struck, what: str) -> None:
    """All that happens to it, to its end, and what it has said."""
    wanted = struck.drawn
    struck.write(5)
    recordings = [
        follow(struck.job, "changes", start="earliest"),
        follow(struck.job, "final", deliver="final", start="earliest"),
    ]
    share = (len(wanted.batches) - 5) // (len(wanted.actions) + 1)
    for action in wanted.actions:
        struck.write(share)
        struck.happens(action, recordings)
    struck.end()
    for recording in recordings:
        assert recording.wait_for_end(WAIT_S), f"{what}: {recording.error}"
        assert recording.stable == INF
    until(lambda: struck.reader.has_ended, f"{what}: the reader of its own has read all")
    judged(struck.dir, recordings)
    assert finals(recordings[1]) == struck.answer, f"{what}, cut at {struck.cut_at}"
    assert changes(struck.reader.events()) == struck.answer, f"{what}, cut at {struck.cut_at}"
