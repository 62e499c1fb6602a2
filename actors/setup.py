"""What a process is given when it becomes a life, and what it opens with it: the job's directory.

Everything durable is found through the directory, so a setup is small: which job, which life, and
where that begins.
"""

from __future__ import annotations

import os
import socket
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from uuid import uuid4

from gapless.actors.code import Functions
from gapless.actors.watched import WatchedExecutor
from gapless.engine.splice import Runnable
from gapless.failover.job.directory import Job
from gapless.failover.job.settings import Settings
from gapless.failover.life_start import MergerStart, ReplicaStart
from gapless.failover.messages import Life
from gapless.failover.timing import Timing
from gapless.journal.disk import LocalDisk
from gapless.journal.layout import Layout, opened
from gapless.protocol.schema import StreamSchema

RAY_TIMING = Timing(
    heartbeat_ms=100,
    resend_ms=400,
    snapshot_ms=3000,
    hang_ms=900,
    hang_max_ms=10_000,
    lag_ms=5000,
    adopt_ms=400,
    backoff_ms=50,
    start_ms=60_000,
    kill_ms=1000,
)
"""For processes of a Ray cluster: a call is answered in a millisecond, and in a few hundred where
the machine is busy; a process that is started is there within seconds. A stopped process is noticed
by its heartbeat alone, within `hang_ms`.
"""


@dataclass(frozen=True)
class Setup:
    """How a process becomes a life."""

    job_dir: str
    life: Life
    start: ReplicaStart | MergerStart
    schema: StreamSchema
    """Of the output, and so of every message."""
    timing: Timing
    """Of all machines of the job."""
    node: str


def token() -> str:
    """A name that no other process of any machine has."""
    return f"{socket.gethostname()[:40]}-{os.getpid()}-{uuid4().hex[:12]}"


class JobDir:
    """A job's directory, as a process of the job sees it."""

    def __init__(self, path: str | Path) -> None:
        """Raises `Misuse` where there is no job, `JobError` where it does not read."""
        self.path = Path(path)
        self.disk = LocalDisk(self.path)
        self.job = Job(self.disk, token())

    @cached_property
    def functions(self) -> Functions:
        """Those of users, from the job's `code/`: only lives and their root may run them. Whatever
        asks has the folder on Python's path from then on.
        """
        return Functions(self.path, self.settings.code)

    @property
    def settings(self) -> Settings:
        """What the job's maker chose."""
        return self.job.record.settings

    def plan(self, name: str) -> Runnable:
        """A plan of the job."""
        return self.job.plan(name, self.functions)

    def executor(self, name: str) -> WatchedExecutor:
        """A new instance of a plan, within the job's limit of memory."""
        return WatchedExecutor(name, self.plan(name), self.settings.memory_limit)

    def schema(self) -> StreamSchema:
        """Of the output: all plans of a job have one."""
        return self.executor(self.job.desired().plans[0]).schema

    def sources(self) -> dict[str, LocalDisk]:
        """By source, where its journal lies."""
        return {name: LocalDisk(path) for name, path in self.job.record.sources.items()}

    def layouts(self) -> dict[str, Layout]:
        """By source, what its journal is."""
        return {name: opened(disk) for name, disk in self.sources().items()}

    def partitions(self, shard: int) -> tuple[int, ...] | None:
        """Those of every source that a shard reads; None for all: sources of a job that is not cut
        into shards may have different numbers of them.
        """
        shards = self.job.desired().shards
        return None if shards == 1 else tuple(range(shard, self.settings.partitions, shards))

    def output(self, slot: str) -> LocalDisk:
        """Where a merger's output lies."""
        shard = int(slot[1:].partition(".")[0])
        return LocalDisk(self.path / Job.out(shard, slot))
