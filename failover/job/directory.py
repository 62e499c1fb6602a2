"""The job's directory: its only durable truth. Everything else can die, and is started from it.

    job                   what it is, written once: name, sources, what its output promises
    plans/talkers         a plan, or a splice of two (engine/splice.py); never changed
    desired/0000000007    what should run; the newest counts
    terms/000003          lives of the job's root: made, never changed; the largest is the present
    checkpoints/          see failover/replica/checkpoint.py
    out/0/m0.1/           the output journal of a merger

Each file is there whole or not at all (whole_file.py), and names with numbers are given once. So of
two roots only one can write what is desired next:

    old root (term 3)    knows 0000000006                 writes 0000000007: it is taken -> Fenced
    new root (term 4)    takes term 4, writes what it read as 0000000007, its own

A root that resumes writes again, under its term, what it has read. What the one before wrote was
either there to be read, or can never be written any more.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from gapless.engine.splice import Runnable, plans_of, runnable_from_document
from gapless.failover.job.desired import PLANS_MAX, Desired
from gapless.failover.job.files import (
    DraftGone,
    JobRecord,
    Where,
    desired_path,
    encode_desired,
    encode_plan,
    encode_record,
    encode_term,
    numbers,
    plan_path,
    read_desired,
    read_plan,
    read_record,
    read_term,
    term_path,
    write,
    write_same,
)
from gapless.failover.job.whole_file import check_name, drop_drafts, is_name
from gapless.failover.replica import checkpoint
from gapless.failover.supervisor.checkpoint_policy import CheckpointInfo
from gapless.failover.supervisor.equivalence import check_changed, check_equivalent, check_fits
from gapless.journal.disk import Disk
from gapless.protocol.documents import Document
from gapless.protocol.envelope import decode_document
from gapless.protocol.errors import CheckpointError, DecodeError, Fenced, JobError, Misuse

NAME = "job"
KEPT = 16
"""Of terms and desired states: the newest counts, those before show how it came to be so."""
TRIES_MAX = 100
"""Roots that take a number at the same time: a handful, and each try leaves one less."""

_CHECKPOINT = re.compile(r"(\d{1,9})-(.+)-(\d{1,9})-(\d{1,9})")
"""Its shard, plan, term and number: what supervisors call it."""
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class RootStart:
    """All that a root needs to start."""

    term: int
    """Its own: no other root has it."""
    desired: Desired
    plans: Mapping[str, Runnable]
    checkpoints: tuple[CheckpointInfo, ...]
    """The oldest first."""
    unreadable: Mapping[str, str] = field(default_factory=dict)
    """Checkpoints of no use, by name, and why: for an alarm, and to be dropped."""


class Job:
    """One process's view of a job's directory. `token` tells it from all others that there are."""

    def __init__(self, disk: Disk, token: str) -> None:
        """Opens it. Raises `Misuse` where there is no job, `JobError` where it does not read."""
        self._disk = disk
        self._token = check_name("token", token)
        self._term: int | None = None
        self._functions: Mapping[str, Callable[..., Any]] | None = None  # of users, for plans
        self._number = -1  # of the desired state that was last read or written
        if not disk.exists(NAME):
            raise Misuse(f"{disk}: no job is here: it has no file {NAME!r}; Job.create makes one")
        self.record = self._read(NAME, read_record)

    @staticmethod
    def create(
        disk: Disk,
        token: str,
        record: JobRecord,
        plans: Mapping[str, Runnable],
        desired: Desired,
        *,
        assume_equivalent: bool = False,
    ) -> Job:
        """Makes a job. After a death in the middle there is none yet; the same call makes it then.

        `assume_equivalent`: its maker's word that plans which are written differently give the
        same. Raises `Misuse` where one is there, or where these plans are none for it.
        """
        Job.check_absent(disk)
        _check_plans(record, plans, desired, assume_equivalent)
        files = {desired_path(0): encode_desired(desired, 0)}
        for name, plan in plans.items():
            files[plan_path(name)] = encode_plan(plan)
        for path, data in files.items():
            write_same(disk, path, data, token)
        try:  # the last file: with it the job is there
            write(disk, NAME, encode_record(record), token)
        except FileExistsError:
            raise Misuse(f"{disk}: another process has just made a job here") from None
        return Job(disk, token)

    @staticmethod
    def check_absent(disk: Disk) -> None:
        """Raises `Misuse` where a job is."""
        if disk.exists(NAME):
            raise Misuse(f"{disk}: a job is here already: resume it, or choose another directory")

    # -- the root -----------------------------------------------------------------------------

    def resume(
        self,
        functions: Mapping[str, Callable[..., Any]] | None = None,
        where: Where | None = None,
    ) -> RootStart:
        """Makes this process the job's root: from now on no other can change what is desired.

        `functions`: those of users that plans name. `where` this is, for a caller that would start
        another. Raises `JobError` where something is missing or damaged, and says what.
        """
        drop_drafts(self._disk)
        self._functions = functions
        plans = self._desired_plans(self._newest(), functions)  # reads before anybody is deposed
        self._term = self.next_term(where)
        desired = self._take_over(self._term)
        if not plans.keys() >= {*desired.plans}:  # one was added meanwhile
            plans = self._desired_plans(desired, functions)
        checkpoints, unreadable = self.checkpoints()
        return RootStart(self._term, desired, plans, checkpoints, unreadable)

    def _desired_plans(
        self, desired: Desired, functions: Mapping[str, Callable[..., Any]] | None
    ) -> dict[str, Runnable]:
        """All plans; raises `JobError` where one that is desired is missing."""
        plans = {name: self.plan(name, functions) for name in self.plan_names()}
        missing = [name for name in desired.plans if name not in plans]
        if missing:
            raise JobError(
                f"{self._disk}: {plan_path(missing[0])} is desired and missing: take it from a "
                "copy of the job's directory"
            )
        return plans

    def next_term(self, where: Where | None = None) -> int:
        """A number above all before, that nobody else gets; `where` its root runs."""
        for _ in range(TRIES_MAX):
            terms = numbers(self._disk, "terms")
            term = (terms[-1] if terms else 0) + 1
            path = term_path(term)
            try:
                write(self._disk, path, encode_term(term, where), self._token)
            except FileExistsError:
                continue
            for old in terms[:-KEPT]:
                self._disk.unlink(term_path(old))
            return term
        raise JobError(f"{self._disk}: {TRIES_MAX} other roots have taken a term meanwhile")

    def where(self) -> Where | None:
        """Where the root that resumed last has begun to run; None where there was none, or where it
        did not say. Raises `JobError`.
        """
        return self.last_root()[1]

    def last_root(self) -> tuple[int, Where | None]:
        """The term of the root that resumed last, 0 where there was none; and where it runs."""
        for _ in range(TRIES_MAX):
            terms = numbers(self._disk, "terms")
            if not terms:
                return 0, None
            path = term_path(terms[-1])
            if self._disk.exists(path):  # it was not dropped meanwhile, as very old
                return terms[-1], self._read(path, read_term)
        raise JobError(f"{self._disk}: its roots change faster than that can be read")

    @property
    def is_over(self) -> bool:
        """Whether another root has resumed the job since. A root's pump asks before it
        starts, ends or removes anything for it, and now and then: one listing, of `KEPT` names
        or so. That a later term is not there would be no answer: over a network it may be as of a
        minute ago, and what a folder has is not (journal/disk.py).
        """
        return self._term is not None and numbers(self._disk, "terms")[-1:] != [self._term]

    def _take_over(self, term: int) -> Desired:
        """The desired state, written again under this term."""
        for _ in range(TRIES_MAX):
            desired = self._newest()
            try:
                self._write_next(desired, term)
            except FileExistsError:
                continue  # the root before was faster: that counts
            return desired
        raise JobError(f"{self._disk}: another root writes what is desired all the time")

    # -- what is desired ----------------------------------------------------------------------

    def desired(self) -> Desired:
        """The newest desired state. Anybody may ask: a root whose term is over stays fenced."""
        number = self._number
        try:
            return self._newest()
        finally:
            self._number = number

    def write_desired(self, desired: Desired) -> None:
        """Makes a desired state the newest, durably. Only the root that resumed last can: for any
        other it raises `Fenced`, and nothing has changed.
        """
        if self._term is None:
            raise Misuse("only the root of a job says what is desired: resume it first")
        there = self.plan_names()
        if unknown := [name for name in desired.plans if name not in there]:
            raise Misuse(
                f"{self._disk}: no plan {unknown[0]!r} is here: add it first; there are: "
                f"{', '.join(there)}"
            )
        try:
            self._write_next(desired, self._term)
        except (FileExistsError, DraftGone):
            raise Fenced(
                f"{self._disk}: another root has resumed the job: term {self._term} is over, and "
                "this one has to end"
            ) from None

    def _write_next(self, desired: Desired, term: int) -> None:
        number = self._number + 1
        write(self._disk, desired_path(number), encode_desired(desired, term), self._token)
        self._number = number
        self._disk.unlink(desired_path(number - KEPT))

    def _newest(self) -> Desired:
        for _ in range(TRIES_MAX):
            written = numbers(self._disk, "desired")
            if not written:
                raise JobError(f"{self._disk}: nothing is desired: the folder 'desired' is empty")
            path = desired_path(written[-1])
            if self._disk.exists(path):  # it was not dropped meanwhile, as very old
                self._number = written[-1]
                return self._read(path, read_desired)
        raise JobError(f"{self._disk}: what is desired changes faster than it can be read")

    # -- plans --------------------------------------------------------------------------------

    def plan_names(self) -> list[str]:
        """All plans, by name. What lies there under a name that no plan can have is a file of
        somebody else (an editor's, a file manager's): it is left alone.
        """
        return [name for name in self._disk.list("plans") if is_name(name)]

    def plan(
        self, name: str, functions: Mapping[str, Callable[..., Any]] | None = None
    ) -> Runnable:
        """A plan; raises `Misuse` where there is none of that name."""
        path = plan_path(name)
        if not self._disk.exists(path):
            names = ", ".join(self.plan_names())
            raise Misuse(f"{self._disk}: no plan {name!r} is here; there are: {names}")

        return self._read(path, lambda d: runnable_from_document(read_plan(d), functions))

    def add_plan(
        self,
        name: str,
        plan: Runnable,
        functions: Mapping[str, Callable[..., Any]] | None = None,
    ) -> None:
        """Keeps another plan, for a cutover. Raises `NotEquivalent` where its output does not keep
        what the job has promised, or is of another schema than that of the plans that are desired;
        `Misuse` where the name has another plan already.

        `functions`: those of users that these plans name; where none are given, as for `resume`.
        """
        if len(self.plan_names()) >= PLANS_MAX:
            raise Misuse(f"{self._disk}: {PLANS_MAX} plans are the most: start a new job")
        _check_sources(self.record, name, plan)
        check_fits(name, plan, insert_only=self.record.insert_only, case=self.record.case)
        for there in self.desired().plans:
            check_changed(self.plan(there, functions or self._functions), plan)
        write_same(self._disk, plan_path(name), encode_plan(plan), self._token)

    # -- checkpoints and outputs --------------------------------------------------------------

    def checkpoints(self) -> tuple[tuple[CheckpointInfo, ...], dict[str, str]]:
        """Those whose heads read, the oldest first; and the others, with what is wrong."""
        found: list[tuple[tuple[int, int], CheckpointInfo]] = []
        unreadable: dict[str, str] = {}
        for name in self._disk.list(checkpoint.FOLDER):
            try:
                plan, join_at = checkpoint.peek(self._disk, name)
                shard, age = _taken_apart(name, plan)
                nbytes = checkpoint.size(self._disk, name)
                found.append((age, CheckpointInfo(name, shard, plan, join_at, nbytes)))
            except (CheckpointError, Misuse) as e:
                unreadable[name] = str(e)
        found.sort(key=lambda each: each[0])
        return tuple(info for _, info in found), unreadable

    def drop_checkpoint(self, name: str) -> None:
        """Takes a checkpoint away; nothing happens where there is none."""
        checkpoint.drop(self._disk, name)

    @staticmethod
    def out(shard: int, merger: str) -> str:
        """The folder of a merger's output journal, by its slot."""
        return f"out/{shard}/{merger}"

    # -- reading ------------------------------------------------------------------------------

    def _read(self, path: str, parse: Callable[[Document], _T]) -> _T:
        try:
            return parse(decode_document(self._disk.read(path, 0, self._disk.size(path))).document)
        except (DecodeError, Misuse, OSError) as e:
            raise JobError(
                f"{self._disk}: file {path}: {e}; take it from a copy of the job's directory"
            ) from None


def _check_plans(
    record: JobRecord, plans: Mapping[str, Runnable], desired: Desired, assume_equivalent: bool
) -> None:
    """Raises `Misuse` unless these can be the plans that a job begins with."""
    if set(plans) != set(desired.plans):
        raise Misuse(
            f"job {record.name}: the plans {', '.join(plans)} are given, and desired are "
            f"{', '.join(desired.plans)}"
        )
    first = plans[desired.plans[0]]
    for name, plan in plans.items():
        _check_sources(record, name, plan)
        check_fits(name, plan, insert_only=record.insert_only, case=record.case)
        check_equivalent(first, plan, assumed=assume_equivalent)


def _check_sources(record: JobRecord, name: str, plan: Runnable) -> None:
    read = (source for each in plans_of(plan) for source in each.query.sources)
    missing = [source for source in read if source not in record.sources]
    if missing:
        raise Misuse(
            f"plan {name} reads {missing[0]!r}, of which job {record.name} has no journal; it has "
            f"{', '.join(record.sources)}"
        )


def _taken_apart(name: str, plan: str) -> tuple[int, tuple[int, int]]:
    """The shard of a checkpoint by its name, and its age: term and number."""
    match = _CHECKPOINT.fullmatch(name)
    if match is None or match[2] != plan:
        raise CheckpointError(f"{name}: no supervisor has given this name to one of plan {plan!r}")
    return int(match[1]), (int(match[3]), int(match[4]))
