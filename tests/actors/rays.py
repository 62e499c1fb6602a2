"""A Ray cluster for tests of the runtime, jobs in it, and what they must leave behind: nothing.

with started() as cluster:                     one a file: starting it takes seconds
    with Feed(path) as feed:                   a thread that appends to a journal, steadily
        job = gl.launch(talkers(), journal=path, dir=...)
        ...
        judged(job, [recording])               valid, and the answer, as far as it goes
        end(job)                               drained, and no process of it is left
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partialmethod
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import Any, Self

import numpy as np
import psutil
import pyarrow as pa
import pytest
import ray
from ray._private.parameter import RayParams
from ray.exceptions import RayActorError

import gapless as gl
from gapless.actors.cluster import HEALTH
from gapless.actors.hosts import named
from gapless.actors.views import JobView
from gapless.chaos.judge.judgement import Judgement, judge
from gapless.chaos.judge.recording import Recording
from gapless.failover.messages import Life

SCHEMA = {"ts": "timestamp[ms]", "src": "int32", "len": "int32"}
BATCH_ROWS = 200
BATCH_MS = 100
"""Of stream time: a batch every FEED_S is five times as fast as time."""
FEED_S = 0.02
KEYS = 20
WAIT_S = 60.0
"""For anything: nothing takes a tenth of it on a machine that has nothing else to do."""
LOOK_S = 0.05
OBJECT_STORE_BYTES = 100 << 20
LEFT_OUT = {"no_monitor": True, "include_log_monitor": False}
"""What scales a cluster, and what prints its logs here: two processes, and 2.5 s of CPU until both
are there and gone again. Nodes of `LocalNodes` have neither.
"""


# -- the cluster ----------------------------------------------------------------------------------


@contextmanager
def started(**settings: Any) -> Iterator[None]:
    """A cluster of this process's own, with explicit limits; all of its processes end with it."""
    with TemporaryDirectory(prefix="gl", dir="/tmp") as folder, pytest.MonkeyPatch.context() as env:
        # The path is short, as a Unix socket's has 107 characters at most.
        env.setenv("RAY_AUTH_MODE", "disabled")
        env.setenv("RAY_USAGE_STATS_ENABLED", "0")
        env.setattr(RayParams, "__init__", partialmethod(RayParams.__init__, **LEFT_OUT))
        me = psutil.Process()
        before = set(me.children(recursive=True))
        ray.init(
            address="local",
            num_cpus=2,
            object_store_memory=OBJECT_STORE_BYTES,
            include_dashboard=False,
            logging_level=logging.ERROR,
            log_to_driver=False,
            _temp_dir=folder,
            _system_config=HEALTH,
            **settings,
        )
        try:
            yield
        finally:
            ours = {*me.children(recursive=True), *_processes_in(folder)} - before
            ray.shutdown()
            ours |= _processes_in(folder)  # the last ones that it has started
            _, alive = psutil.wait_procs(ours - {me}, timeout=WAIT_S)
            for process in alive:
                process.kill()
        assert not alive, f"left behind: {[process.name() for process in alive]}"


def _processes_in(folder: str) -> set[psutil.Process]:
    """Those that were started for a cluster, under whatever parent by now."""
    found = psutil.process_iter(["cmdline"])
    return {p for p in found if any(folder in word for word in p.info["cmdline"] or ())}


def until(holds: Callable[[], Any], what: str, timeout_s: float = WAIT_S) -> None:
    """Waits until something is so."""
    end = time.monotonic() + timeout_s
    pause = threading.Event()
    while not holds():
        assert time.monotonic() < end, f"not after {timeout_s:g} s: {what}"
        pause.wait(LOOK_S)


# -- input ----------------------------------------------------------------------------------------


def talkers(*, slide: str = "200ms", least: int = 0) -> gl.Query:
    """Packets and bytes of each source over the last second."""
    flows = gl.source("flows", SCHEMA, time="ts", lateness="1s")
    return (
        flows.where(gl.col("len") > least)
        .window(range="1s", slide=slide)
        .group_by("src")
        .aggregate(packets=gl.count(), bytes=gl.sum("len"))
    )


def batch(number: int) -> pa.RecordBatch:
    """The rows of BATCH_MS, the same whenever they are made."""
    rows = np.arange(number * BATCH_ROWS, (number + 1) * BATCH_ROWS)
    ts = rows * BATCH_MS // BATCH_ROWS
    src, length = (rows * 7919 % KEYS).astype(np.int32), (rows % 97 + 1).astype(np.int32)
    return pa.record_batch(
        {"ts": pa.array(ts.astype("datetime64[ms]")), "src": pa.array(src), "len": pa.array(length)}
    )


class Feed:
    """Appends batches to a journal, one every FEED_S, on a thread of its own."""

    def __init__(self, path: Path, *, batches: int = 50, partitions: int = 2) -> None:
        """`batches` are there at once."""
        self.path = path
        self._writer = gl.JournalWriter(
            path, SCHEMA, time="ts", key="src", partitions=partitions, lateness="1s"
        )
        self.batches = 0
        self.pause_s = FEED_S
        """Between two batches from now on."""
        self._stops = threading.Event()
        self._error: Exception | None = None
        for _ in range(batches):
            self.append()
        self._thread = threading.Thread(target=self._run, name="feed", daemon=True)

    def append(self) -> None:
        """One batch more."""
        self._writer.append(batch(self.batches))
        self.batches += 1

    @property
    def stable(self) -> int:
        """What the journal promises, about: its lateness behind the newest row."""
        return self.batches * BATCH_MS - 1_000

    def _run(self) -> None:
        try:
            while not self._stops.wait(self.pause_s):
                self.append()
        except gl.GaplessError as e:
            self._error = e

    def start(self) -> Self:
        """Begins to append."""
        self._thread.start()
        return self

    def stop(self) -> None:
        """Appends no more; the journal stays open for others to append."""
        self._stops.set()
        if self._thread.is_alive():
            self._thread.join(WAIT_S)
        self._writer.close()
        if self._error is not None:
            raise self._error

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self.stop()


# -- jobs -----------------------------------------------------------------------------------------


def life_of(view: JobView, slot: str) -> Life | None:
    """Who is in a slot."""
    return next((s.life for s in view.state.slots if s.slot == slot), None)


def is_whole(view: JobView) -> bool:
    """Whether all that is desired runs, and each replica could carry the output."""
    return view.is_whole


def told(job: gl.Job) -> str:
    """How a job is, to find out why a test fails."""
    view = job.status()
    state = view.state
    head = f"term {state.term} cutover {state.cutover!r} ending {state.ending!r} best {state.best}"
    slots = [f"{s.slot} {s.state} {s.life} {s.plan} {s.stable} {s.reason}" for s in state.slots]
    alarms = [f"{alarm.who}: {alarm.what}" for alarm in view.alarms]
    return "\n".join([head, *slots, f"hosts {[str(life) for life in view.hosts]}", *alarms])


def wait_whole(job: gl.Job) -> JobView:
    """Waits until a job has all that it should have."""
    wait(job, is_whole, "the job is whole")
    return job.status()


def wait(job: gl.Job, holds: Callable[[JobView], Any], what: str) -> None:
    """Waits until something is so of a job."""
    try:
        until(lambda: holds(job.status()), what)
    except AssertionError as e:
        raise AssertionError(f"{e}\n{told(job)}") from None


def replaced(job: gl.Job, slot: str) -> None:
    """Kills who is in a slot, and waits until another life is, and the job is whole."""
    before = life_of(job.status(), slot)
    job.kill(slot)
    until(lambda: life_of(job.status(), slot) != before, "another life has the slot")
    wait_whole(job)


def follow(
    job: gl.Job,
    name: str = "subscriber",
    *,
    deliver: Any = "changes",
    start: Any = "now",
    mergers: Sequence[int] | None = None,
) -> Recording:
    """Records a new subscription, and waits until it has begun."""
    subscription = job.subscribe(deliver, start, mergers=mergers)
    since = {"now": None, "earliest": gl.BEGIN}.get(start, start)
    recording = Recording(subscription, name, deliver=deliver, since=since)
    if not recording.wait_for(lambda: bool(recording.runs[0].arrivals), WAIT_S):
        raise AssertionError(f"nothing came: {recording.error}\n{told(job)}")
    return recording


def goes_on(recording: Recording, by_ms: int = 3_000) -> None:
    """Waits until the output has gone on by a stretch of stream time."""
    wanted = recording.stable + by_ms
    assert recording.wait_for_stable(wanted, WAIT_S), f"{recording.stable} < {wanted}"


def judged(job: gl.Job | Path, recordings: Sequence[Recording] = ()) -> Judgement:
    """Stops recordings, and holds a job to all its promises, as far as it has come."""
    for recording in recordings:
        recording.stop()
    if not isinstance(job, Path):
        job.validate()
    found = judge(job if isinstance(job, Path) else job.dir, recordings)
    found.check()
    assert found.settled_rows > 0, f"nothing was judged: {found}"
    return found


def processes_of(name: str) -> list[psutil.Process]:
    """The processes of a job, spares and the root included."""
    found = []
    for each in named(f"{name}/"):
        with suppress(RayActorError, ValueError, psutil.NoSuchProcess):  # it dies just now
            handle: Any = ray.get_actor(each, namespace="gapless")
            about: Any = ray.get(handle.about.remote(), timeout=WAIT_S)
            found.append(psutil.Process(about.pid))
    return found


def kill_roots(name: str) -> None:
    """Kills a job's root, and who stands by, so that nothing restarts them."""
    for each in {f"{name}/root", f"{name}/standby"} & {*named(f"{name}/")}:
        ray.kill(ray.get_actor(each, namespace="gapless"), no_restart=True)


def lose_everything(job: gl.Job) -> None:
    """Kills every process of a job at once, so that nothing restarts any: those, too, that were
    about to begin when the root was killed.
    """
    processes = processes_of(job.name)
    kill_roots(job.name)

    def are_gone() -> bool:
        for process in processes:
            with suppress(psutil.NoSuchProcess):  # the root
                process.kill()
        _, alive = psutil.wait_procs(processes, timeout=WAIT_S)
        assert not alive
        processes[:] = processes_of(job.name)
        return not processes and not named(f"{job.name}/")

    until(are_gone, "the cluster knows that all are gone")


def end(job: gl.Job, *, drain: bool = True) -> None:
    """Ends a job; none of its processes may be left, and no name."""
    ours = processes_of(job.name)
    assert ours
    job.stop(drain=drain, timeout_s=WAIT_S)
    _, alive = psutil.wait_procs(ours, timeout=WAIT_S)
    assert not alive, f"left behind: {alive}"
    until(lambda: not named(f"{job.name}/"), f"no actor of {job.name} is left")
