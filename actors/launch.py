"""The launch of a job from a query, and its resumption from its directory.

1. checks         journals, plans, shards, directory: whatever is wrong is said here
2. the directory  whole, or there is no job
3. the root       in the cluster; it starts everything else
4. waits          until every shard is answered by a merger and a replica, and every slot has a
                  process: startup.py
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple
from uuid import uuid4

import ray
from ray.exceptions import RayActorError, RayError

from gapless.actors import cluster
from gapless.actors.bytecode import keep_bytecode
from gapless.actors.code import keep
from gapless.actors.code import named as code_named
from gapless.actors.door import Door
from gapless.actors.handle import Job
from gapless.actors.host import NAMESPACE
from gapless.actors.hosts import reason
from gapless.actors.options import (
    Journals,
    check_code,
    check_environment,
    journals_of,
    milliseconds,
    new_directory,
    path_of,
    timing_of,
)
from gapless.actors.pair import Pair
from gapless.actors.plans import Plans, named_plans
from gapless.actors.root_actor import made
from gapless.actors.setup import RAY_TIMING, token
from gapless.actors.shard_check import check_shards
from gapless.actors.startup import Startup
from gapless.actors.whereabouts import Silent, actor_at, root_name, standby_name
from gapless.engine.durations import Duration, ticks
from gapless.engine.plan import Plan, plan_of
from gapless.engine.query import Query
from gapless.failover.job import directory as jobs
from gapless.failover.job.desired import Desired
from gapless.failover.job.files import JobRecord
from gapless.failover.job.settings import Settings
from gapless.failover.supervisor.equivalence import check_equivalent, merge_case
from gapless.failover.timing import Timing
from gapless.journal.disk import LocalDisk
from gapless.journal.layout import Layout
from gapless.protocol.errors import JobError, Misuse

_log = logging.getLogger("gapless.actors")

READY_S = 90.0
"""How long the root may take to start: a process takes seconds, on a busy machine more."""
LOOK_S = 0.05
"""Polling interval."""


def launch(
    query: Query | Plan,
    *,
    journal: Journals,
    dir: str | os.PathLike[str],  # noqa: A002  # what users call it
    name: str | None = None,
    replicas: int = 3,
    plans: Plans = None,
    shards: int = 1,
    mergers: int = 1,
    address: str | None = None,
    checkpoint_s: float = 10,
    retain: Duration | None = None,
    retain_bytes: int | None = None,
    on_divergence: Literal["report", "stop", "majority"] = "report",
    memory_limit: int | None = None,
    spares: int = 2,
    code: str | os.PathLike[str] | None = None,
    runtime_env: Mapping[str, Any] | None = None,
    timing: Timing | Mapping[str, int] | None = None,
    assume_equivalent: bool = False,
) -> Job:
    """Runs a query as a job whose output survives failures; returns once the job answers.

    `journal`: the path of its source's journal; with several sources, a mapping by name. `dir`: the
    job's directory, which all nodes must see; its last part is the default of `name`. Each shard
    has `replicas` replicas, which run `plans` in turn (by default the query's own plan), and 1 or 2
    `mergers`. `address`: a Ray cluster; by default the one this process is connected to, else a
    small one of its own. `retain`, `retain_bytes`: how much of the output stays readable (by
    default all). `on_divergence`: if replicas disagree, "report" it, "stop" the job, or replace the
    minority by "majority". `memory_limit`: bytes of state of one replica. `spares`: idle processes
    on each node, ready to replace one that dies; with 0 the root has no standby either. `code`: the
    file or folder that defines the query's functions. `runtime_env`: Ray's, for every process.
    `assume_equivalent`: your promise that differently written plans give the same answer. `timing`:
    timeouts and intervals by name, as {"hang_ms": 3000} (docs/run.md); the job stores them.

    Raises `Misuse`, `NotEquivalent` or `JournalError` before anything runs, `JobError` if the job
    does not come up.
    """
    job_dir = path_of("dir", dir).resolve()
    named, sources, layouts = checked(
        query, plans, journal, shards=shards, code=code, assume_equivalent=assume_equivalent
    )
    check_environment(runtime_env)
    waits = timing_of(timing, RAY_TIMING)
    settings = Settings(
        on_divergence=on_divergence,
        checkpoint_ms=milliseconds("checkpoint_s", checkpoint_s),
        memory_limit=memory_limit,
        retain_bytes=retain_bytes,
        retain_ms=None if retain is None else ticks(retain, "ms", "retain"),
        spares=spares,
        code=None if code is None else code_named(code),
        partitions=next(iter(layouts.values())).partitions,
        timing=waits,
    )
    record = _record(job_dir.name if name is None else name, sources, named, settings)
    desired = Desired(replicas, tuple(named), mergers, shards)
    new = _NewJob(job_dir, record, named, desired, code, assume_equivalent)
    return _launched(new, address, runtime_env, waits)


def resume(
    dir: str | os.PathLike[str],  # noqa: A002  # what users call it
    *,
    address: str | None = None,
    runtime_env: Mapping[str, Any] | None = None,
    timing: Timing | Mapping[str, int] | None = None,
    takeover: bool = False,
) -> Job:
    """Runs a job again from its directory, after all its processes are gone.

    `timing` overrides the stored timing for this run. Raises `Misuse` if the job runs, or may run;
    with `takeover` it is ended there and runs here.
    """
    job_dir = path_of("dir", dir).resolve()
    check_environment(runtime_env)
    if not job_dir.is_dir():
        raise Misuse(f"{job_dir}: there is no job: it is not a directory")
    job = jobs.Job(LocalDisk(job_dir), token())
    waits = timing_of(timing, job.record.settings.timing or RAY_TIMING)
    if job.desired().state == "stopped":
        raise Misuse(f"{job_dir}: this job was stopped, for good: launch a new one elsewhere")
    if not takeover:
        _check_gone(job, job_dir)
    with _connected(address) as owns:
        _check_free(job.record.name)
        return _start(job_dir, job.record.name, waits, runtime_env, owns=owns)


# -- checks ---------------------------------------------------------------------------------------


class Checked(NamedTuple):
    """What a job is to run, on which journals."""

    plans: Mapping[str, Plan]
    sources: dict[str, str]
    """By source, the path of its journal."""
    layouts: dict[str, Layout]
    """By source, what its journal holds."""


def checked(
    query: Query | Plan,
    plans: Plans,
    journal: Journals,
    *,
    shards: int = 1,
    code: str | os.PathLike[str] | None = None,
    assume_equivalent: bool = False,
) -> Checked:
    """What `launch` makes of its arguments; starts nothing. Raises where plans do not give the
    answer of the first one, or do not fit the journals.
    """
    named = named_plans(query, plans)
    check_code(named.values(), code)
    first = plan_of(query)
    for plan in named.values():
        check_equivalent(first, plan, assumed=assume_equivalent)
    sources, layouts = journals_of(first, journal)
    for plan in named.values():
        check_shards(plan, layouts, shards)
    return Checked(named, sources, layouts)


def _record(
    name: str, sources: Mapping[str, str], plans: Mapping[str, Plan], settings: Settings
) -> JobRecord:
    return JobRecord(
        name,
        sources,
        insert_only=all(plan.insert_only for plan in plans.values()),
        case=_case(plans),
        settings=settings,
    )


def _case(plans: Mapping[str, Plan]) -> Literal["r3", "r4"]:
    return "r4" if any(merge_case(plan) == "r4" for plan in plans.values()) else "r3"


def _check_free(name: str) -> None:
    """Raises `Misuse` if a job of that name runs in the cluster."""
    try:
        ray.get_actor(root_name(name), namespace=NAMESPACE)
    except ValueError:
        return
    raise Misuse(f"a job {name!r} runs in this cluster: attach to it, or choose another name=")


def _check_gone(job: jobs.Job, job_dir: Path) -> None:
    """Raises `Misuse` if the root of a job still runs, or may run."""
    name, where = job.record.name, job.where()
    if where is None:  # none has ever begun, or it was of a release that did not say where
        return
    at = f"the Ray cluster at {where.cluster} (its root was process {where.pid} on {where.host})"
    takes = "--takeover (takeover=True) ends it there, and runs it here"
    try:
        pair = [actor_at(where.cluster, each) for each in (root_name(name), standby_name(name))]
    except Silent as e:
        if e.is_there:
            raise Misuse(
                f"{job_dir}: job {name} may still run in {at}, which does not say: {e}; {takes}"
            ) from None
        return
    if where.actor in [each.actor for each in pair if each is not None]:
        raise Misuse(
            f"{job_dir}: job {name} runs in {at}: `gapless status {name} --address "
            f"{where.cluster}` looks at it; {takes}"
        )


def _check_memory(settings: Settings, desired: Desired) -> None:
    """Raises `Misuse` if the replicas may need more memory than the cluster has."""
    if settings.memory_limit is None:
        return
    wanted = settings.memory_limit * desired.replicas * desired.shards
    resources: Any = ray.cluster_resources
    there = int(resources().get("memory", 0))
    if wanted > there:
        raise Misuse(
            f"{desired.replicas * desired.shards} replicas of {settings.memory_limit} bytes may "
            f"want {wanted} bytes, the cluster has {there}: lower memory_limit or replicas, or add "
            "nodes"
        )


# -- the job --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _NewJob:
    """All that the directory of a new job is made of."""

    dir: Path
    record: JobRecord
    plans: Mapping[str, Plan]
    desired: Desired
    code: str | os.PathLike[str] | None
    assume_equivalent: bool

    def create(self) -> None:
        """Makes the directory, whole, or there is no job. Raises `Misuse`."""
        try:
            self.dir.mkdir(parents=True, exist_ok=True)
            disk = LocalDisk(self.dir)
            jobs.Job.check_absent(disk)  # before anything is put beside what is there
            if self.code is not None and self.record.settings.code is not None:
                keep(self.code, self.dir, self.record.settings.code)
            jobs.Job.create(
                disk,
                token(),
                self.record,
                dict(self.plans),
                self.desired,
                assume_equivalent=self.assume_equivalent,
            )
        except OSError as e:
            raise Misuse(f"the job's directory {self.dir} cannot be written: {e}") from None


def _launched(
    new: _NewJob, address: str | None, runtime_env: Mapping[str, Any] | None, timing: Timing
) -> Job:
    record = new.record
    with new_directory(new.dir), _connected(address) as owns:
        _check_free(record.name)
        _check_memory(record.settings, new.desired)
        new.create()
        return _start(new.dir, record.name, timing, runtime_env, owns=owns)


@contextmanager
def _connected(address: str | None) -> Iterator[bool]:
    """The cluster to run in, and whether it was made for this job. Such a one is ended again where
    the job does not come up.
    """
    owns = cluster.connect(address)
    try:
        yield owns
    except BaseException:
        if owns:
            cluster.disconnect()
        raise


def _start(
    job_dir: Path,
    name: str,
    timing: Timing,
    runtime_env: Mapping[str, Any] | None,
    *,
    owns: bool,
) -> Job:
    """Starts the root, and waits until the job answers."""
    keep_bytecode()
    since, _ = jobs.Job(LocalDisk(job_dir), token()).last_root()
    pair = Pair(name, uuid4().hex, since)
    root = made(str(job_dir), timing, runtime_env, pair, root_name(name))
    try:
        ray.get(root.about.remote(), timeout=READY_S)
    except RayActorError as e:
        raise JobError(f"the root of job {name} cannot be started: {_cause(e)}") from None
    except RayError as e:
        ray.kill(root, no_restart=True)
        raise JobError(f"the root of job {name} cannot be started: {reason(e)}") from None
    job = Job(Door(name, root), owns_cluster=owns, timing=timing)
    try:
        _wait(job)
    except BaseException:
        try:
            job.stop(drain=False)
        except JobError as e:  # what comes first is what is to be mended
            _log.warning("%s", e)
        raise
    return job


def _wait(job: Job) -> None:
    coming = Startup(job.name, time.monotonic())
    while True:
        view = job.status()
        if coming.is_up(view.state, view.desired, view.hosts, time.monotonic()):
            return
        time.sleep(LOOK_S)


def _cause(error: RayActorError) -> str:
    """Why an actor could not be made: the error of its constructor, where there is one."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    ours = [line for line in lines if line.startswith("gapless.")]
    return (ours or lines or ["it died"])[-1]
