"""A job that runs on this machine while a feeder feeds it, for the drills of the runtime bench.

    with running(w1(), mergers=2) as run:        n nodes of Ray, feeder, job, a subscriber of it
        quiet = run.quiet(10)                    the longest pause while nothing happens
        outcome = run.strike(chosen)             kills, waits until all is back, and a while longer
        fed = run.end()                          the feed first, then the job, drained
        judgement = run.judge()                  all that came, and was written, is right

Everything lies in a directory of its own, which is gone afterwards as are all processes.
"""

from __future__ import annotations

import gc
import os
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from gapless.actors import cluster
from gapless.actors.handle import Job
from gapless.actors.host import SWITCH_S
from gapless.actors.launch import launch
from gapless.actors.local_nodes import LocalNodes
from gapless.actors.views import JobView
from gapless.bench.runtime_feed import Fed, Feeder
from gapless.bench.runtime_pauses import Floats, Outcome, longest_pause_s
from gapless.chaos.judge.judgement import Judgement, judge
from gapless.chaos.judge.recording import Recording
from gapless.engine.query import Query
from gapless.failover.messages import Life
from gapless.protocol.errors import JobError

RATE = 50_000
"""Events a second, as the bars have it."""
REPLICAS = 3
WARM_S = 8.0
"""From the first result to the first measurement: windows are full, spares are there."""
SETTLE_S = 3.0
"""From whole again to the next kill: the spare that was used up is there again. What happens
meanwhile counts for the pause of the kill.
"""
LOOK_S = 0.02
"""Between two looks at how the job is."""
END_S = 60.0
"""How long a subscription may take to end once its job has been drained."""
BACK_LIMIT_S = 120.0
"""A job that is not whole again by then has failed the bench."""

Whole = Callable[[JobView], bool]


@dataclass(frozen=True)
class Target:
    """What a drill strikes, in one view of the job."""

    lives: frozenset[Life]
    """That are not to be counted on any more."""
    act: Callable[[], None]
    """Strikes; returns as soon as that is done."""


class Run:
    """A job, its feeder, and a subscriber that has watched it from its begin."""

    def __init__(self, nodes: LocalNodes, feeder: Feeder, job: Job, recording: Recording) -> None:
        self.nodes = nodes
        self.job = job
        self.recording = recording
        self._every_s: float | None = None
        self._feeder = feeder
        self._pause = threading.Event()  # nobody sets it: a wait that Ctrl-C ends

    def warm(self) -> None:
        """Waits until it answers, with full windows and its spares."""
        self._until(lambda: self.recording.rows > 0, "no result has come")
        self._until(lambda: is_whole(self.job.status()), "the job is not whole")
        self.wait(WARM_S)

    def wait(self, seconds: float) -> None:
        """Lets it run."""
        self._pause.wait(seconds)

    def quiet(self, seconds: float) -> float:
        """The longest pause during the next seconds, in which nothing is done to it."""
        begin = time.monotonic()
        self.wait(seconds)
        return self.pause_s(begin)

    def strike(self, target: Target, is_back: Whole | None = None) -> Outcome:
        """Strikes, and waits until that is made up for; by default, until all slots run lives
        that count. Raises `JobError` where that is never.
        """
        begin = time.monotonic()
        target.act()
        check = is_back or (lambda view: is_whole(view, target.lives))
        self._until(lambda: check(self.job.status()), "the job is not whole again")
        back_s = time.monotonic() - begin
        if self._every_s is None:
            self.settle()
        else:
            self.wait(max(0.0, self._every_s - back_s))
        return Outcome(self.pause_s(begin), back_s)

    def settle(self) -> None:
        """Lets it make its spares."""
        self.wait(SETTLE_S)

    @contextmanager
    def every(self, seconds: float) -> Iterator[None]:
        """Strikes within follow each other so soon, if the job is whole again by then."""
        self._every_s = seconds
        try:
            yield
        finally:
            self._every_s = None

    def end(self) -> Fed:
        """Ends the feed, and the job once all of it is answered."""
        fed = self._feeder.stop()
        self._until(lambda: is_whole(self.job.status()), "the job is not whole")
        self.job.validate()  # every life's machine, so none should be on its way out
        self.job.stop(drain=True)
        if not self.recording.wait_for_end(END_S):
            raise JobError(f"the subscription has not ended {END_S:g} s after the job has")
        self.recording.stop()
        return fed

    def judge(self) -> Judgement:
        """Compares all that came, and all that was written, with the answer; after `end`."""
        return judge(self.job.dir, [self.recording])

    def pause_s(self, begin_s: float) -> float:
        """The longest since then."""
        now = time.monotonic()
        if self.recording.error is not None:
            raise self.recording.error
        return longest_pause_s(self._results_s(), begin_s, now)

    def _results_s(self) -> Floats:
        arrivals = self.recording.arrivals
        return np.array([each.at_s for each in arrivals if len(each.emit.frame)])

    def _until(self, is_so: Callable[[], bool], what: str) -> None:
        limit = time.monotonic() + BACK_LIMIT_S
        while not is_so():
            if time.monotonic() > limit:
                slots = "; ".join(
                    f"{s.slot} {s.state} {s.reason}".strip() for s in self.job.status().state.slots
                )
                raise JobError(f"{what} after {BACK_LIMIT_S:g} s: {slots}")
            self.wait(LOOK_S)


def is_whole(view: JobView, gone: frozenset[Life] = frozenset()) -> bool:
    """Whether every slot runs a life that is not of `gone`, and all replicas may act."""
    desired = view.desired
    slots = view.state.slots
    return len(slots) == desired.shards * (desired.replicas + desired.mergers) and all(
        slot.state == "running"
        and slot.life is not None
        and slot.life not in gone
        and (slot.slot.startswith("m") or slot.qualified_ms >= 0)
        for slot in slots
    )


def signals(view: JobView, lives: frozenset[Life], sign: signal.Signals, *pids: int) -> Target:
    """A target: the processes of lives, and others, get a signal one right after the other."""
    all_pids = [*(view.hosts[life].pid for life in sorted(lives)), *pids]

    def act() -> None:
        for pid in all_pids:
            os.kill(pid, sign)

    return Target(lives, act)


@contextmanager
def running(query: Query, *, mergers: int = 1, nodes: int = 1, rate: int = RATE) -> Iterator[Run]:
    """A job of `query` that is fed, and warm."""
    with (
        _seeing_frames_as_they_come(),
        tempfile.TemporaryDirectory(prefix="gapless-bench-") as name,
        LocalNodes(nodes) as local,
        Feeder(Path(name, "journal"), Path(name, "stamps"), rate) as feeder,
        _job(query, Path(name), local, mergers) as job,
        Recording(job.subscribe(start="earliest")) as recording,
    ):
        run = Run(local, feeder, job, recording)
        feeder.go()
        run.warm()
        yield run


@contextmanager
def _seeing_frames_as_they_come() -> Iterator[None]:
    """Keeps this process from delaying what it measures. It keeps all frames that have come, and a
    full collection of garbage looks at each of them, with all threads stopped: after some minutes
    for several hundred milliseconds, which would count as a pause of the output.
    """
    switch_s = sys.getswitchinterval()
    sys.setswitchinterval(SWITCH_S)
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        sys.setswitchinterval(switch_s)
        if collects:
            gc.enable()


@contextmanager
def _job(query: Query, folder: Path, nodes: LocalNodes, mergers: int) -> Iterator[Job]:
    cluster.connect(nodes.address)
    try:
        with launch(
            query,
            journal=folder / "journal",
            dir=folder / "job",
            name="bench",
            replicas=REPLICAS,
            mergers=mergers,
        ) as job:
            yield job
    finally:
        cluster.disconnect()
