"""The handle of a job: what a program, or a person at a shell, does with one that runs.

    with gl.launch(query, journal="data/flows", dir="jobs/talkers") as job:
        for frame in job.subscribe(): ...
    job = gl.attach("talkers")              from any process that is connected to the cluster

A handle holds nothing of the job: it asks the root, and where the root is away for a moment it asks
again. Lives and output go on without handles, and without a root.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pyarrow as pa
import ray
from ray.exceptions import (
    GetTimeoutError,
    RayActorError,
)

from gapless.actors import cluster
from gapless.actors.asking import RunningMergers
from gapless.actors.book import Book
from gapless.actors.door import Door
from gapless.actors.feed import Feed
from gapless.actors.host import NAMESPACE
from gapless.actors.hosts import named as actors_named
from gapless.actors.options import check_code
from gapless.actors.outputs import Output
from gapless.actors.plans import Plans, named_plans
from gapless.actors.reading import Start, mergers_of, slots_of, start_at, subscriber_of
from gapless.actors.setup import RAY_TIMING, JobDir
from gapless.actors.subscribing import Subscription
from gapless.actors.views import JobView
from gapless.actors.whereabouts import cluster_of, root_name, standby_name
from gapless.engine.answer import answer, instant, last_answer
from gapless.engine.plan import Plan
from gapless.engine.query import Query
from gapless.failover.job.desired import Change, Scale, Stop
from gapless.failover.messages import SUPERVISOR
from gapless.failover.table import Deliver
from gapless.failover.timing import Timing
from gapless.protocol.errors import JobError, Misuse
from gapless.protocol.schema import StreamSchema
from gapless.protocol.tables import html_text

AUTO = "auto"
"""For the address of a cluster of this machine."""
AGAIN_S = 0.1
"""Between two looks at a slot that is empty, or a name that is taken."""
FILLED_S = 30.0
"""How long `kill` waits for a slot to be filled, that is empty for the moment."""
GONE_S = 5.0
"""How long a root may take to go once it has said that it does."""
TABLE_S = 60.0
"""How long `table` waits for the output to get as far as was asked for."""

_log = logging.getLogger("gapless.actors")


class Job:
    """A job that runs. `launch` and `attach` give it."""

    def __init__(
        self, door: Door, *, owns_cluster: bool = False, timing: Timing | None = None
    ) -> None:
        self._door = door
        self._owns_cluster = owns_cluster
        self.name = ""  # until the root has said it
        view = self.status()
        self.name = view.name
        self.dir = Path(view.job_dir)
        self._job_dir = JobDir(self.dir)
        self._timing = timing or self._job_dir.settings.timing or RAY_TIMING
        self._schema = view.schema  # as the root has it: a reader runs no code of the job

    # -- reading ------------------------------------------------------------------------------

    def subscribe(
        self,
        deliver: Deliver = "changes",
        start: Start | Any = "now",
        *,
        mergers: Sequence[int] | None = None,
    ) -> Subscription:
        """The output as it becomes durable; `for` and `async for` iterate over its frames.

        `deliver="changes"`: frames of inserts, adjusts and stables. `"final"`: each event once,
        when it can no longer change.

        `start="now"`: the first frame is a reset, the table as of now. `"earliest"`: the first row
        that is still there. Or a time (as for `table`), or the token of an earlier subscription.

        `mergers`: the indexes of the mergers to read in each shard, as in [0]. By default all, so
        that one can die unnoticed.
        """
        at = start_at(start, self._schema.time_unit)
        try:
            desired, book = self.status().desired, self._book()
        except (JobError, Misuse):  # the root is gone, or the cluster with it
            if self.is_running:
                raise
            return self.output.subscribe(deliver, at, mergers=mergers)
        by_shard = mergers_of(desired, mergers)
        record = self._job_dir.job.record
        machine = subscriber_of(record, by_shard, self._schema, deliver, at, self._timing)
        slots = slots_of(by_shard)
        asked = RunningMergers(machine.name, slots, self._schema, self._door, book, _log.warning)
        return Subscription(Feed(machine, slots, self._schema, self.dir, asked))

    @property
    def output(self) -> Output:
        """The output as the job's directory has it: also once the job is over."""
        return Output(self.dir)

    def table(self, at: Any = None) -> pa.Table:
        """The answer at a time, as far as it is durable; by default the newest that is known: where
        nothing is alive any more, that of the last instant at which anything was.

        `at` is an int in the stream's unit, a text such as "2026-01-01T00:00:00Z", a datetime, or a
        date. Raises `Misuse` where the output
        is not stable that far within a minute, `Trimmed` where that part of it is gone.
        """
        since = None if at is None else instant(at, self._schema.time_unit)
        with self.subscribe(start="now" if since is None else since) as subscription:
            try:
                emit = subscription.next_emit(TABLE_S)
            except StopIteration:  # the job is over, and its output does not go so far
                emit = None
        if emit is None:
            raise Misuse(
                f"table: the output of {self.name} is not stable up to {at} after {TABLE_S:g} s"
            )
        if since is not None:
            return answer([emit.frame], self._schema, since)
        frame = emit.frame
        if len(frame) and int(frame.ve.max()) >= emit.since:
            return last_answer([frame], self._schema, True)
        return self.output.last_table()

    # -- looking ------------------------------------------------------------------------------

    @property
    def schema(self) -> StreamSchema:
        """Of the output: its columns, and the unit of its times."""
        return self._schema

    def status(self) -> JobView:
        """How the job is: `gapless status` shows it as a table. Raises `JobError` once it is over:
        `output.status()` says what it has left.
        """
        try:
            return self._view()
        except (JobError, Misuse) as e:
            if not self.name or self.is_running:
                raise
            raise JobError(
                f"job {self.name} is stopped; gl.output({str(self.dir)!r}) reads what it has put "
                f"out, and says how far that goes ({e})"
            ) from None

    def _view(self) -> JobView:
        view: JobView = self._door.look(lambda root: root.view.remote())
        return view

    def validate(self) -> None:
        """Raises `Bug` where an invariant is broken in any process of the job."""
        self._door.ask(lambda root: root.validate.remote())

    # -- changing -----------------------------------------------------------------------------

    def kill(self, replica: str | int) -> None:
        """Kills a process, as a drill: "r0.2" or 2 a replica, "m0.0" a merger, "root" the root.

        A slot that is empty for the moment is waited for; raises `Misuse` for one that is not.
        """
        slot = f"r0.{replica}" if isinstance(replica, int) else replica
        if slot == "root":
            newest = self._book().newest(SUPERVISOR)
            if newest is not None:
                ray.kill(newest[1].handle, no_restart=False)
            return
        until = time.monotonic() + FILLED_S
        while True:
            view, book = self.status(), self._book()
            lives = [life for life in view.hosts if life.slot == slot and life in book.lives]
            if lives:
                book.lives[max(lives)].handle.die.remote()
                return
            slots = {each.slot: each for each in view.state.slots}
            if slot not in slots:
                raise Misuse(f"kill {slot!r}: there are {', '.join(sorted(slots))}, root")
            if slots[slot].state == "failed" or time.monotonic() >= until:
                why = slots[slot].reason or "it has no process"
                raise Misuse(f"kill {slot!r}: nobody is there: {why}")
            time.sleep(AGAIN_S)

    def scale(self, replicas: int) -> None:
        """Runs so many replicas of each shard."""
        self._command(Scale(replicas))

    def cutover(
        self,
        query: Query | Plan | None = None,
        *,
        plans: Plans = None,
        at: Any = None,
        assume_equivalent: bool = False,
    ) -> tuple[str, ...]:
        """Changes to another plan, or other plans, of the same answer; with `at` to another
        answer of the same schema from that time on. The output never pauses.

        Raises `NotEquivalent` where plans that have to give the same are written differently, for
        then nobody can know: `assume_equivalent` is your word that they do. Returns what was taken
        on it, a sentence each.
        """
        since = None if at is None else instant(at, self._schema.time_unit)
        taken = self._job_dir.job.plan_names()
        named = named_plans(query, plans, taken)
        check_code(named.values(), None)
        documents = {name: plan.to_document() for name, plan in named.items()}
        notes: tuple[str, ...] = self._door.ask(
            lambda root: root.cutover.remote(documents, since, assume_equivalent)
        )
        return notes

    def stop(self, drain: bool = True, *, timeout_s: float = 120.0) -> None:
        """Ends the job: with `drain` once all input that is there now is answered and durable.

        Returns when its root has ended; what it has put out stays in its directory.
        """
        self._door.check_connected()
        try:
            until = time.monotonic() + timeout_s
            self._command(Stop(drain))
            self._door.wait(until, lambda: self.is_running)
            self._wait_for_the_names()
        except GetTimeoutError:
            raise JobError(
                f"job {self.name} has not ended after {timeout_s:g} s: `gapless status` shows what "
                "it waits for; stop(drain=False) does not wait"
            ) from None
        except (RayActorError, JobError) as e:
            if self.is_running:
                raise JobError(f"job {self.name} cannot be stopped: {e}") from None

    def _wait_for_the_names(self) -> None:
        """Until those of the root are free, for the next launch of a job of that name."""
        until = time.monotonic() + GONE_S
        names = {root_name(self.name), standby_name(self.name)}
        while names & {*actors_named(f"{self.name}/")} and time.monotonic() < until:
            time.sleep(AGAIN_S)

    @property
    def is_running(self) -> bool:
        """Whether the job's directory does not say that it is stopped."""
        return self._job_dir.job.desired().state != "stopped"

    def _command(self, change: Change) -> None:
        self._door.ask(lambda root: root.command.remote(change))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        """Ends the job at once, and the cluster that `launch` has started for it."""
        try:
            if self.is_running:
                self.stop(drain=False)
        finally:
            if self._owns_cluster:
                cluster.disconnect()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        """As `with` does it, beside the loop: what else runs there goes on meanwhile."""
        await asyncio.to_thread(self.__exit__, kind, error, at)

    def __repr__(self) -> str:
        return f"Job({self.name!r}, dir={str(self.dir)!r})"

    def _repr_html_(self) -> str:
        """As far as it is known without asking anybody: a notebook shows it at once."""
        return html_text(f"{self!r}\n.status() says how it is")

    # -- the root -----------------------------------------------------------------------------

    def _book(self) -> Book:
        book: Book = self._door.look(lambda root: root.book.remote())
        return book


def attach(name: str, *, address: str | None = "auto") -> Job:
    """The handle of a job that runs, from any process.

    `address`: its Ray cluster, where this process is not connected to one; "auto" is that cluster
    with a node of this user on this machine in which it runs. Raises `Misuse` where no such job
    runs there.
    """
    if address == AUTO and cluster.is_free():
        address = cluster_of(name)
    cluster.connect(address)
    try:
        root = ray.get_actor(root_name(name), namespace=NAMESPACE)
    except ValueError:
        jobs = [each.removesuffix("/root") for each in actors_named("") if each.endswith("/root")]
        running = f"running are {', '.join(jobs)}" if jobs else "none is running"
        raise Misuse(
            f"no job {name!r} runs in the cluster at {cluster.address()}, "
            f"{running}; `gapless run --resume DIR` runs a job again whose cluster is gone"
        ) from None
    return Job(Door(name, root))
