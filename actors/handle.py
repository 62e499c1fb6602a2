"""The handle of a running job.

    with gl.launch(query, journal="data/flows", dir="jobs/talkers") as job:
        for frame in job.subscribe(): ...
    job = gl.attach("talkers")              from any process that is connected to the cluster

A handle holds no part of the job: it asks the root, and retries while the root is away. Replicas,
mergers and output go on without handles, and without a root.
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
    RayError,
)

from gapless.actors import cluster
from gapless.actors.book import Book
from gapless.actors.door import Door
from gapless.actors.feed import Feed
from gapless.actors.host import NAMESPACE
from gapless.actors.hosts import named as actors_named
from gapless.actors.hosts import reason as why_of
from gapless.actors.options import check_code
from gapless.actors.outputs import Output
from gapless.actors.plans import Plans, named_plans
from gapless.actors.running_mergers import RunningMergers
from gapless.actors.setup import RAY_TIMING, JobDir
from gapless.actors.subscriber_start import Start, mergers_of, slots_of, start_at, subscriber_of
from gapless.actors.subscription import Subscription
from gapless.actors.views import JobView
from gapless.actors.whereabouts import cluster_of, root_name, standby_name
from gapless.engine.answer import answer, instant, last_answer
from gapless.engine.plan import Plan
from gapless.engine.query import Query
from gapless.failover.job.desired import Change, Scale, Stop
from gapless.failover.messages import SUPERVISOR, Life
from gapless.failover.table import Deliver
from gapless.failover.timing import Timing
from gapless.protocol.errors import GaplessError, JobError, Misuse
from gapless.protocol.schema import StreamSchema
from gapless.protocol.tables import html_text

AUTO = "auto"
"""Address that means: search the clusters of this machine."""
AGAIN_S = 0.1
"""Polling interval while a slot is empty or a name is taken."""
FILLED_S = 30.0
"""How long `kill` waits for an empty slot to be filled."""
GONE_S = 5.0
"""How long a root may take to exit once it has announced it."""
RECORD_S = 20.0
"""How long a life may take to return its flight record: some megabytes, while it works on."""
TABLE_S = 60.0
"""How long `table` waits for the output to reach the requested time."""

_log = logging.getLogger("gapless.actors")


class Job:
    """A running job, from `launch` or `attach`."""

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
        """The output in the job's directory, readable even after the job has ended."""
        return Output(self.dir)

    def table(self, at: Any = None) -> pa.Table:
        """The durable answer at a time; by default the newest that is not empty.

        `at` is an int in the stream's unit, a text such as "2026-01-01T00:00:00Z", a datetime or a
        date. Raises `Misuse` if the output is not stable up to there within a minute, `Trimmed` if
        that part of it is gone.
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
        """The schema of the output: its columns, and the unit of its times."""
        return self._schema

    def status(self) -> JobView:
        """The state of the job; `gapless status` prints it. Raises `JobError` once the job has
        ended; then use `output.status()`.
        """
        try:
            return self._view()
        except (JobError, Misuse) as e:
            if not self.name or self.is_running:
                raise
            raise JobError(
                f"job {self.name} is stopped; gl.output({str(self.dir)!r}) reads its output ({e})"
            ) from None

    def _view(self) -> JobView:
        view: JobView = self._door.look(lambda root: root.view.remote())
        return view

    def validate(self) -> None:
        """Raises `Bug` if an invariant is broken in any process of the job."""
        self._door.ask(lambda root: root.validate.remote())

    # -- changing -----------------------------------------------------------------------------

    def kill(self, replica: str | int) -> None:
        """Kills a process: a replica ("r0.2" or 2), a merger ("m0.0") or the root ("root").

        Waits if the slot is empty for the moment; raises `Misuse` if there is no such slot.
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
                raise Misuse(f"kill {slot!r}: no process runs there: {why}")
            time.sleep(AGAIN_S)

    def scale(self, replicas: int) -> None:
        """Changes the number of replicas of each shard."""
        self._command(Scale(replicas))

    def cutover(
        self,
        query: Query | Plan | None = None,
        *,
        plans: Plans = None,
        at: Any = None,
        assume_equivalent: bool = False,
    ) -> tuple[str, ...]:
        """Switches to other plans of the same answer; with `at`, to another answer with the same
        schema from that time on. The output never pauses.

        Raises `NotEquivalent` if plans that must give the same answer are written differently:
        equivalence cannot be checked. `assume_equivalent` is your promise that they do. Returns
        what was assumed, one sentence each.
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
        """Ends the job; with `drain`, once the results of its present input are durable.

        Returns when its root has ended. The output stays in its directory.
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
        """Waits until the root's names are free, so that a job of that name can be launched
        again.
        """
        until = time.monotonic() + GONE_S
        names = {root_name(self.name), standby_name(self.name)}
        while names & {*actors_named(f"{self.name}/")} and time.monotonic() < until:
            time.sleep(AGAIN_S)

    def records(self, reason: str) -> dict[Life, bytes | str]:
        """By life, its flight record as of now, for `gapless chaos replay`; or why it has none."""
        found: dict[Life, bytes | str] = {}
        for life, entry in self._book().lives.items():
            try:
                if life.slot == SUPERVISOR:
                    found[life] = self._door.look(lambda root: root.record.remote(reason))
                else:
                    found[life] = ray.get(entry.handle.record.remote(reason), timeout=RECORD_S)
            except (GaplessError, RayError) as e:  # one that does not answer hides no other
                found[life] = str(e) if isinstance(e, GaplessError) else why_of(e)
        return found

    @property
    def is_running(self) -> bool:
        """Whether the job's directory does not mark it as stopped."""
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
        """Ends the job at once, and the cluster that `launch` started for it."""
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
        """Like `with`, without blocking the event loop."""
        await asyncio.to_thread(self.__exit__, kind, error, at)

    def __repr__(self) -> str:
        return f"Job({self.name!r}, dir={str(self.dir)!r})"

    def _repr_html_(self) -> str:
        """What is known without asking the job: a notebook shows it at once."""
        return html_text(f"{self!r}\n.status() says how it is")

    # -- the root -----------------------------------------------------------------------------

    def _book(self) -> Book:
        book: Book = self._door.look(lambda root: root.book.remote())
        return book


def attach(name: str, *, address: str | None = "auto") -> Job:
    """The handle of a running job, in any process.

    `address` is its Ray cluster, unless this process is connected to one; "auto" searches the
    clusters that have a node of this user on this machine. Raises `Misuse` if no such job runs
    there.
    """
    if address == AUTO and cluster.is_free():
        address = cluster_of(name)
    cluster.connect(address)
    try:
        root = ray.get_actor(root_name(name), namespace=NAMESPACE)
    except ValueError:
        jobs = [each.removesuffix("/root") for each in actors_named("") if each.endswith("/root")]
        running = f"these run: {', '.join(jobs)}" if jobs else "no job runs"
        raise Misuse(
            f"no job {name!r} runs in the cluster at {cluster.address()}, "
            f"{running}; `gapless run --resume DIR` runs a job again whose cluster is gone"
        ) from None
    return Job(Door(name, root))
