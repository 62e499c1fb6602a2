"""The files of a job's directory: what stands in each, and how it is written and read back.

    job                   {format, name, sources: {flows: /data/flows}, insert_only, case, settings}
    plans/talkers         {format, runs: a plan's or a splice's document}
    desired/0000000007    {format, term, replicas, plans, mergers, shards, state}
    terms/000003          {format, term, where: {cluster, actor, host, pid}}

Each is one document in an envelope, so every byte lies under a checksum.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import cast, get_args

from gapless.engine.splice import Runnable
from gapless.failover.job.desired import (
    MERGERS_MAX,
    PLANS_MAX,
    REPLICAS_MAX,
    SHARDS_MAX,
    Desired,
    State,
)
from gapless.failover.job.settings import Settings, from_document, to_document
from gapless.failover.job.whole_file import check_name, write_whole
from gapless.failover.supervisor.equivalence import Case
from gapless.journal.disk import Disk
from gapless.journal.room import Room
from gapless.protocol.documents import Document, Fields
from gapless.protocol.elements import INF
from gapless.protocol.envelope import Incarnation, encode_document
from gapless.protocol.errors import DecodeError, JobError, Misuse

FORMAT = 1
"""Of all files here. A reader takes no other."""
SOURCES_MAX = 1000
"""Sources of one job: as many as a query has steps at most."""
TERM_MAX = 2**32 - 1
"""As incarnations have it."""

_NOBODY = Incarnation(0, 0)


@dataclass(frozen=True, slots=True)
class JobRecord:
    """What a job is. It never changes."""

    name: str
    sources: Mapping[str, str]
    """By the name that plans know it by, the path of a source's journal."""
    insert_only: bool
    """Whether its output never adjusts an event: every plan of it has to keep that."""
    case: Case
    """Of LMerge: where it is r3, every plan has to keep a key."""
    settings: Settings = field(default_factory=Settings)
    """How it is run."""

    def __post_init__(self) -> None:
        check_name("job", self.name)
        if not isinstance(self.sources, Mapping):
            raise Misuse(f"job {self.name}: sources {self.sources!r:.100}: by name, their paths")
        for name, path in self.sources.items():
            if type(name) is not str or type(path) is not str or not name or not path:
                raise Misuse(f"job {self.name}: source {name!r:.100} at {path!r:.100}: two texts")
        if not 1 <= len(self.sources) <= SOURCES_MAX:
            raise Misuse(f"job {self.name}: {len(self.sources)} sources, 1 to {SOURCES_MAX} can be")
        if self.case not in get_args(Case):
            raise Misuse(f"job {self.name}: case {self.case!r:.100} is none of {get_args(Case)}")
        if type(self.insert_only) is not bool:
            raise Misuse(f"job {self.name}: insert_only {self.insert_only!r:.100}: True or False")
        if not isinstance(self.settings, Settings):
            raise Misuse(f"job {self.name}: settings {self.settings!r:.100} are no Settings")


@dataclass(frozen=True, slots=True)
class Where:
    """Where a life of the job's root runs, for a caller that would start another one."""

    cluster: str
    """The address of its Ray cluster."""
    actor: str
    """Ray's number of it there: no other ever has it."""
    host: str
    pid: int
    pair: str = ""
    """Of the actors that are the job's root in turn; each launch and each resume has a new one."""


# -- documents ------------------------------------------------------------------------------------


def encoded(document: dict[str, Document]) -> bytes:
    """A document of this format, in its envelope."""
    return encode_document({"format": FORMAT, **document}, _NOBODY, 0)


def opened(document: Document, what: str) -> Fields:
    """The fields of a document of this format."""
    fields = Fields(document, what)
    written = fields.take("format", int)
    if written != FORMAT:
        raise DecodeError(
            f"{what}.format", f"{written}: another release made it, which has to run it", FORMAT
        )
    return fields


def encode_record(record: JobRecord) -> bytes:
    """The file `job`."""
    return encoded(
        {
            "name": record.name,
            "sources": dict(record.sources),
            "insert_only": record.insert_only,
            "case": record.case,
            "settings": to_document(record.settings),
        }
    )


def read_record(document: Document) -> JobRecord:
    """Its inverse; raises `DecodeError` or `Misuse`."""
    fields = opened(document, "job")
    record = JobRecord(
        fields.take("name", str),
        fields.take("sources", dict),
        fields.take("insert_only", bool),
        cast(Case, fields.take("case", str)),  # which the record checks
        from_document(fields.take("settings", dict, {})),
    )
    fields.done()
    return record


def encode_plan(plan: Runnable) -> bytes:
    """A file of `plans`."""
    return encoded({"runs": plan.to_document()})


def read_plan(document: Document) -> Document:
    """The document of what a plan's file runs."""
    fields = opened(document, "plan")
    runs = fields.take("runs", dict)
    fields.done()
    return runs


def encode_desired(desired: Desired, term: int) -> bytes:
    """A file of `desired`, written by the root of this term."""
    return encoded(
        {
            "term": term,
            "replicas": desired.replicas,
            "plans": list(desired.plans),
            "mergers": desired.mergers,
            "shards": desired.shards,
            "state": desired.state,
        }
    )


def read_desired(document: Document) -> Desired:
    """Its inverse; raises `DecodeError` or `Misuse`."""
    fields = opened(document, "desired")
    fields.take_int("term", 0, TERM_MAX)  # for people who ask who wrote it
    state = fields.take("state", str)
    if state not in get_args(State):
        raise DecodeError("desired.state", f"is {state!r}", get_args(State))
    desired = Desired(
        fields.take_int("replicas", 1, REPLICAS_MAX),
        tuple(fields.take_list("plans", str, PLANS_MAX)),
        fields.take_int("mergers", 1, MERGERS_MAX),
        fields.take_int("shards", 1, SHARDS_MAX),
        cast(State, state),
    )
    fields.done()
    return desired


def encode_term(term: int, where: Where | None) -> bytes:
    """A file of `terms`."""
    said: dict[str, Document] = {"term": term}
    if where is not None:
        said["where"] = {
            "cluster": where.cluster,
            "actor": where.actor,
            "host": where.host,
            "pid": where.pid,
            "pair": where.pair,
        }
    return encoded(said)


def read_term(document: Document) -> Where | None:
    """Where its root began to run, as far as it has said so; raises `DecodeError`."""
    fields = opened(document, "term")
    fields.take_int("term", 1, TERM_MAX)
    said = fields.take("where", dict, {})
    fields.done()
    if not said:
        return None
    of = Fields(said, "term.where")
    where = Where(
        of.take("cluster", str),
        of.take("actor", str),
        of.take("host", str),
        of.take_int("pid", 0, INF),
        of.take("pair", str, ""),
    )
    of.done()
    return where


# -- files ----------------------------------------------------------------------------------------


def plan_path(name: str) -> str:
    """Where a plan lies; raises `Misuse` where files cannot have its name."""
    return f"plans/{check_name('plan', name)}"


def desired_path(number: int) -> str:
    """Where a desired state lies."""
    return f"desired/{number:010}"


def term_path(term: int) -> str:
    """Where a term lies."""
    return f"terms/{term:06}"


def numbers(disk: Disk, folder: str) -> list[int]:
    """The numbers that are names in a folder, the largest last."""
    return sorted(int(name) for name in disk.list(folder) if name.isdecimal() and name.isascii())


class DraftGone(JobError):
    """What was to become a file was taken away: a root that resumes clears what others have left
    half-made.
    """


def write(disk: Disk, path: str, data: bytes, token: str) -> None:
    """Makes a file, whole or not at all; raises `FileExistsError` where it is there, and
    `DraftGone` where another root has resumed meanwhile.
    """
    room = Room(disk)
    room.need(len(data))
    try:
        write_whole(disk, path, [data], token)
    except FileExistsError:
        raise
    except FileNotFoundError:
        raise DraftGone(f"{disk}: the draft of {path} is gone: another root has resumed") from None
    except OSError as e:
        raise room.refused(e) from None


def write_same(disk: Disk, path: str, data: bytes, token: str) -> None:
    """Makes a file, or finds it there with the same bytes; raises `Misuse` where it has others."""
    try:
        write(disk, path, data, token)
    except FileExistsError:
        if disk.read(path, 0, disk.size(path)) != data:
            raise Misuse(
                f"{disk}: {path} is there, and says something else: what a job has once said never "
                "changes; give it another name"
            ) from None
