"""Judges a real run: what a job has put out, and what its subscribers were handed.

    with Recording(job.subscribe(start="earliest")) as recording: ...
    judgement = judge(job.dir, [recording])
    judgement.check()                       raises `Broken`, with all that is wrong
    print(judgement)                        0 lost, 0 duplicated, 0 contradicting of 81,000 rows ...

Two judges. One counts: every output journal and every recording against the answer, recomputed over
the same journals (answer.py). The other are the checkers of the simulator, which hear of a
real run what it leaves behind (facts.py):

    stable    journals over all epochs, recordings over all resumes
    prefix    every append and every frame can still become the answer
    final     recordings with deliver="final": each event once, when it is settled
    cut       what was delivered by offset is in the journal, at that place
    table     once a stream has ended: the whole of it is the answer

What a run does not leave behind nobody can judge afterwards: feedback, inputs, incarnation and
redundancy hear what passes between processes; progress, converge and memory look into machines. The
simulator has them; here the job's own `validate` looks into the machines that live.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from gapless.actors.setup import JobDir
from gapless.chaos.judge.answer import Compared, compare, recompute
from gapless.chaos.judge.facts import Written, facts_of, read_output
from gapless.chaos.judge.history import Broken, Checker, Fact, History, Verdict
from gapless.chaos.judge.recording import Recording
from gapless.chaos.sim.checkers.cut import NothingPastACut
from gapless.chaos.sim.checkers.final import Final
from gapless.chaos.sim.checkers.journals import Journals
from gapless.chaos.sim.checkers.prefix import Prefix
from gapless.chaos.sim.checkers.stable import StableNeverGoesBack
from gapless.chaos.sim.checkers.table import TableInTheEnd
from gapless.chaos.sim.checkers.wanted import Tables
from gapless.failover.job.desired import Desired, slot
from gapless.failover.messages import Life
from gapless.failover.table import Received
from gapless.journal.disk import Disk
from gapless.journal.layout import Layout, opened
from gapless.protocol.elements import BEGIN
from gapless.protocol.envelope import Incarnation
from gapless.protocol.errors import GaplessError
from gapless.protocol.frame import Frame
from gapless.protocol.tdb import Tdb

CHECKED_ROWS_MAX = 400_000
"""Rows of all streams together that the simulator's checkers are given, row by row: some seconds'
worth. Of longer runs they hear nothing that costs a row's time, and the counts tell."""


@dataclass(frozen=True, slots=True)
class Ruling:
    """What one judge says."""

    name: str
    verdict: Verdict
    why: str = ""
    """Of one that is broken: how. Of one that is unknown: why, where that is known."""

    def __str__(self) -> str:
        return f"{self.name} {self.verdict.value}{': ' if self.why else ''}{self.why}"


@dataclass(frozen=True, slots=True)
class Judgement:
    """What all judges say of a run."""

    findings: tuple[Ruling, ...]
    compared: tuple[Compared, ...]
    """Each journal and each recording against the answer."""
    answer_rows: int
    """Of the whole answer, what is not due yet included."""

    @property
    def lost(self) -> int:
        """Rows, of all streams together."""
        return sum(each.lost for each in self.compared)

    @property
    def duplicated(self) -> int:
        """Rows, of all streams together."""
        return sum(each.duplicated for each in self.compared)

    @property
    def contradicting(self) -> int:
        """Rows, of all streams together."""
        return sum(each.contradicting for each in self.compared)

    @property
    def settled_rows(self) -> int:
        """Rows of the answer that some stream should have by now: with none nothing was judged."""
        return max((each.rows for each in self.compared), default=0)

    @property
    def is_clean(self) -> bool:
        """Whether nothing is wrong."""
        is_broken = any(finding.verdict is Verdict.BROKEN for finding in self.findings)
        return not is_broken and all(each.is_right for each in self.compared)

    def check(self) -> None:
        """Raises `Broken` where anything is wrong, and says all of it."""
        if not self.is_clean:
            wrong = [str(f) for f in self.findings if f.verdict is Verdict.BROKEN]
            wrong += [str(each) for each in self.compared if not each.is_right]
            raise Broken("judge", "\n".join(wrong))

    def __str__(self) -> str:
        counts = (
            f"{self.lost} lost, {self.duplicated} duplicated, {self.contradicting} contradicting "
            f"of {self.settled_rows} rows"
        )
        return "\n".join([counts, *map(str, self.compared), *map(str, self.findings)])


def judge(
    job_dir: str | Path, recorded: Sequence[Recording] = (), *, answer: Frame | None = None
) -> Judgement:
    """Judges a job by its directory and by what subscribers recorded; while it runs, or afterwards.

    `answer`: all events as inserts, where the caller knows it better than by recomputing.
    Recordings have to be stopped. Raises `Misuse` and `JobError` where there is no job to judge,
    `JournalError` where a source does not read.
    """
    job = JobDir(job_dir)
    desired = job.job.desired()
    findings: list[Ruling] = []
    journals = _journals(job, desired, findings)  # first: the answer may have more, and not less
    whole = recompute(job) if answer is None else answer
    shards = (
        [whole]
        if desired.shards == 1
        else [recompute(job, job.partitions(shard)) for shard in range(desired.shards)]
    )
    compared = [
        compare(f"journal {j.slot}", j.held, shards[_shard(j.slot)], j.stable, since=j.since)
        for j in journals
        if j.held is not None
    ]
    there = {j.slot: job.output(j.slot) for j in journals if j.is_there}
    run = _Run(job, desired, whole, there)
    for recording in recorded:
        found = _held_by(recording, run, findings)
        if found is not None:
            compared.append(found)
    facts = [fact for journal in journals for fact in journal.facts]
    lives = {j.slot: Life(j.slot, Incarnation(0, 0)) for j in journals}
    for recording in recorded:
        facts += facts_of(recording, lives)
    rows = sum(j.rows for j in journals) + sum(r.rows for r in recorded)
    findings += _checked(run, facts, rows)
    return Judgement(tuple(findings), tuple(compared), len(whole))


def _journals(job: JobDir, desired: Desired, findings: list[Ruling]) -> list[Written]:
    schema, found = job.schema(), []
    for shard in range(desired.shards):
        for index in range(desired.mergers):
            name = slot("m", shard, index)
            try:
                found.append(read_output(job.output(name), name, schema))
            except GaplessError as e:
                why = f"the journal of {name}: {type(e).__name__}: {e}"
                findings.append(Ruling("readable", Verdict.BROKEN, why))
    return found


def _shard(of: str) -> int:
    return int(of[1:].partition(".")[0])


def _held_by(recording: Recording, run: _Run, findings: list[Ruling]) -> Compared | None:
    """What a program holds that does with each frame what it says, against the answer."""
    received = Received(run.schema, recording.deliver)
    is_final = recording.deliver == "final"
    kept: list[Any] = []
    for part in recording.runs:
        if part.resumed is None:
            kept = []
        else:
            while kept and dict(kept[-1].tokens) != part.resumed:
                kept.pop()
        kept += [arrival.emit for arrival in part.arrivals]
    try:
        for emit in kept:
            received.take(emit)
    except GaplessError as e:
        why = f"what {recording.name} was handed: {type(e).__name__}: {e}"
        findings.append(Ruling("stream", Verdict.BROKEN, why))
        return None
    since = BEGIN if recording.since is None else recording.since
    if kept and recording.since is None:  # "now": wherever that was, it gets all from there
        first = kept[0]
        at = first.frame.stable if is_final else first.since
        since = BEGIN if at is None else at
    return compare(
        recording.name,
        received.frame(),
        run.answer,
        received.stable,
        since=since,
        final=is_final,
        by_start=is_final and run.starts_are_final,
    )


def _checked(run: _Run, facts: Sequence[Fact], rows: int) -> list[Ruling]:
    tables = Tables(run)
    checkers: list[Checker] = [StableNeverGoesBack(), NothingPastACut(Journals())]
    by_row: list[Checker] = [
        Prefix(tables, key=run.key),
        Final(tables, insert_only=run.starts_are_final, one_shard=run.shards == 1),
        TableInTheEnd(tables, Journals()),
    ]
    if rows > CHECKED_ROWS_MAX:
        why = f"{rows} rows, and {CHECKED_ROWS_MAX} are looked at one by one: the counts tell"
        left_out = [Ruling(checker.name, Verdict.UNKNOWN, why) for checker in by_row]
        return [*(_verdict(checker, run, facts) for checker in checkers), *left_out]
    return [_verdict(checker, run, facts) for checker in [*checkers, *by_row]]


def _verdict(checker: Checker, run: _Run, facts: Sequence[Fact]) -> Ruling:
    """Each has a history of its own, so that one which is broken keeps no other from speaking."""
    history = History([checker])
    try:
        for fact in facts:
            history.say(0, fact)
        return Ruling(checker.name, checker.verdict(run))
    except Broken as e:
        return Ruling(checker.name, Verdict.BROKEN, str(e))


@dataclass
class _Run:
    """A real run as checkers see the simulation (chaos/sim/checkers/world.py); its own workload."""

    job: JobDir
    desired: Desired
    answer: Frame
    outputs: Mapping[str, Disk]
    seed: int = 0
    now: int = 0
    machines: Mapping[Life, Any] = field(default_factory=dict)
    supervisor: Any = None

    def __post_init__(self) -> None:
        self.schema = self.answer.schema
        self.key = self.job.job.record.case == "r3"
        self.starts_are_final = self.job.job.record.insert_only and self.key
        self.shards = self.desired.shards
        self.name = self.job.job.record.name

    @property
    def workload(self) -> _Run:
        """What it works on."""
        return self

    @cached_property
    def layouts(self) -> Mapping[str, Layout]:
        """Of the sources' journals."""
        return {name: opened(disk) for name, disk in self.job.sources().items()}

    @cached_property
    def expected(self) -> Tdb:
        """The answer, event by event."""
        table = Tdb(self.schema)
        table.fold(self.answer)
        return table
