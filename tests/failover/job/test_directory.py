"""The job's directory: what is there is whole, and only one root says what is desired."""

import random
from itertools import count
from pathlib import Path

import pytest

from gapless.chaos.sim.disk import SimulatedDisk, View
from gapless.chaos.sim.network_disk import Client, Reach
from gapless.engine.functions import function
from gapless.engine.plan import Plan
from gapless.engine.query import Query
from gapless.engine.source import source
from gapless.engine.splice import Splice
from gapless.failover.job.desired import Desired, Scale, Stop
from gapless.failover.job.directory import KEPT, Job
from gapless.failover.job.files import JobRecord, Where, encoded
from gapless.failover.replica import checkpoint
from gapless.failover.replica.checkpoint import Checkpoint
from gapless.journal.disk import LocalDisk
from gapless.operators.aggregates import calls
from gapless.protocol.documents import Document
from gapless.protocol.errors import Fenced, GaplessError, JobError, Misuse, NotEquivalent
from gapless.protocol.expr import col
from gapless.protocol.frame import Frame
from tests.journal.dying import Died, DyingDisk

RECORD = JobRecord("talkers", {"flows": "/data/flows"}, insert_only=True, case="r3")
Fields = dict[str, Document]
DESIRED = Desired(3, ("paned", "wid"), mergers=2)


def flows() -> Query:
    return source("flows", {"ts": "int64", "k": "int64"}, time="ts", lateness=5)


def counted(slide: int = 5) -> Query:
    return flows().window(range=10, slide=slide).group_by("k").aggregate(n=calls.count())


PLANS = {"paned": Plan(counted()), "wid": Plan(counted(), "wid")}


def made(disk: SimulatedDisk | View | None = None, token: str = "first") -> Job:
    return Job.create(disk or SimulatedDisk(), token, RECORD, PLANS, DESIRED)


def disk_of(job: Job) -> SimulatedDisk:
    disk = job._disk
    assert isinstance(disk, SimulatedDisk)
    return disk


def replace(disk: SimulatedDisk, path: str, data: bytes) -> None:
    disk.unlink(path)
    disk.append(path, data)


def test_all_that_a_root_needs_reads_back() -> None:
    disk = disk_of(made())
    job = Job(disk, "again")
    assert job.record == RECORD
    found = job.resume()
    assert (found.term, found.desired, found.checkpoints, found.unreadable) == (1, DESIRED, (), {})
    assert {name: plan.to_document() for name, plan in found.plans.items()} == {
        name: plan.to_document() for name, plan in PLANS.items()
    }
    assert job.out(1, "m1.0") == "out/1/m1.0"


def test_it_lies_on_a_file_system_as_it_does_in_memory(tmp_path: Path) -> None:
    job = Job.create(LocalDisk(tmp_path), "first", RECORD, PLANS, DESIRED)
    assert job.resume().term == 1
    job.write_desired(DESIRED.changed(Scale(5)))
    assert Job(LocalDisk(tmp_path), "second").resume().desired.replicas == 5
    names = sorted(str(p.relative_to(tmp_path)) for p in tmp_path.rglob("*") if p.is_file())
    assert names == [
        *(f"desired/{n:010}" for n in range(4)),
        "job",
        "plans/paned",
        "plans/wid",
        "terms/000001",
        "terms/000002",
    ]


# -- roots --------------------------------------------------------------------------------------


def test_where_a_root_runs_is_what_the_last_one_to_resume_has_said() -> None:
    job = made()
    assert job.where() is None
    first, second = (Where("10.0.0.1:6379", f"ab{i}", "host", 40 + i) for i in range(2))
    job.resume(where=first)
    assert Job(disk_of(job), "looks").where() == first
    Job(disk_of(job), "second").resume(where=second)
    assert job.where() == second
    Job(disk_of(job), "third").resume()
    assert job.where() is None
    disk_of(job).append("terms/000009", encoded({"term": 9, "where": {"cluster": 7}}))
    with pytest.raises(JobError, match="terms/000009"):
        job.where()


def test_terms_rise_and_are_given_once() -> None:
    job = made()
    terms = [Job(disk_of(job), f"root-{i}").next_term() for i in range(3 * KEPT)]
    assert terms == list(range(1, 3 * KEPT + 1))
    assert len(disk_of(job).list("terms")) <= KEPT + 1


def test_the_newest_desired_state_counts_and_old_ones_go() -> None:
    job = made()
    job.resume()
    for replicas in [*range(1, 40), 7]:
        job.write_desired(DESIRED.changed(Scale(replicas)))
    assert job.desired().replicas == 7
    assert len(disk_of(job).list("desired")) == KEPT
    assert Job(disk_of(job), "next").resume().desired.replicas == 7


def check_an_old_root_is_fenced() -> None:
    old = made()
    old.resume()
    new = Job(disk_of(old), "second")
    assert new.resume().term == 2
    with pytest.raises(Fenced, match="term 1 is over"):
        old.write_desired(DESIRED.changed(Stop()))
    assert new.desired() == DESIRED
    new.write_desired(DESIRED.changed(Scale(4)))
    with pytest.raises(Fenced):
        old.write_desired(DESIRED.changed(Stop()))
    assert Job(disk_of(old), "third").resume().desired.replicas == 4


def test_an_old_root_is_fenced_as_soon_as_a_new_one_has_resumed() -> None:
    check_an_old_root_is_fenced()


def test_an_old_root_that_asks_what_is_desired_is_fenced_all_the_same() -> None:
    old = made()
    old.resume()
    Job(disk_of(old), "second").resume()
    assert old.desired() == DESIRED
    old.add_plan("new", Plan(counted(10)))
    with pytest.raises(Fenced, match="term 1 is over"):
        old.write_desired(DESIRED.changed(Stop()))


def test_a_root_that_only_reads_what_is_desired_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Job, "_take_over", lambda self, _: self.desired())
    with pytest.raises(pytest.fail.Exception):
        check_an_old_root_is_fenced()


def test_what_the_old_root_writes_while_the_new_one_resumes_is_not_lost(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    old = made()
    old.resume()
    new = Job(disk_of(old), "second")
    newest = Job._newest

    def meanwhile(job: Job) -> Desired:
        found = newest(job)
        monkeypatch.setattr(Job, "_newest", newest)
        old.write_desired(DESIRED.changed(Scale(9)))
        return found

    monkeypatch.setattr(Job, "_newest", meanwhile)
    assert new.resume().desired.replicas == 9


def test_a_root_that_stops_in_the_middle_of_saying_what_is_desired_is_fenced_or_is_done() -> None:
    """The one that has resumed meanwhile has cleared its draft away."""
    disk = disk_of(made())
    fenced = 0
    for stops_at in range(1, 6):
        old = Job(disk, f"first-{stops_at}")
        before = old.resume().desired
        writes = 0

        def before_write(stops_at: int = stops_at) -> None:
            nonlocal writes
            writes += 1
            if writes == stops_at:
                Job(disk, f"second-{stops_at}").resume()

        disk.before_write = before_write
        try:
            old.write_desired(before.changed(Scale(before.replicas % 5 + 1)))
        except Fenced:
            fenced += 1
            assert old.desired() == before
        finally:
            disk.before_write = None
    assert fenced > 1


def test_only_a_root_says_what_is_desired() -> None:
    with pytest.raises(Misuse, match="resume it first"):
        made().write_desired(DESIRED)


# -- deaths -------------------------------------------------------------------------------------


def live(disk: SimulatedDisk, told: list[int]) -> None:
    """Makes a job, resumes it, wants another number of replicas."""
    made(disk)
    job = Job(disk, "first")
    told.append(job.resume().term)
    job.write_desired(DESIRED.changed(Scale(8)))
    told.append(8)


def check_one_death(at: int, *, halfway: bool, machine: bool) -> bool:
    disk, told, died = DyingDisk(at, halfway=halfway), list[int](), False
    try:
        live(disk, told)
    except Died:
        died = True
    disk.revived()
    if machine:
        disk.crash_machine(random.Random(at))
    try:
        job = Job(disk, "second")
    except Misuse:
        assert not told
        job = made(disk, "second")  # there is none yet: the same call makes it
    found = job.resume()
    assert found.term > max(told[:1], default=0)
    assert set(found.plans) == set(PLANS)
    assert found.desired in (DESIRED, DESIRED.changed(Scale(8)))
    assert found.desired.replicas == 8 or 8 not in told
    assert disk.list("drafts") == []
    return died


def test_a_death_at_any_step_leaves_a_job_that_goes_on_or_none() -> None:
    for at in count(1):
        died = {
            check_one_death(at, halfway=h, machine=m) for h in (False, True) for m in (False, True)
        }
        if True not in died:
            break
    assert at > 40


# -- bad directories ----------------------------------------------------------------------------


def test_where_no_job_is_it_says_so() -> None:
    with pytest.raises(Misuse, match="no job is here"):
        Job(SimulatedDisk(), "first")


def test_a_job_is_made_once() -> None:
    job = made()
    with pytest.raises(Misuse, match="a job is here already"):
        made(disk_of(job), "second")


def test_a_flipped_byte_in_any_file_is_a_named_error() -> None:
    for path in ("job", "plans/wid", "desired/0000000000"):
        size = disk_of(made()).size(path)
        for i in range(0, size, 7):
            disk = disk_of(made())
            data = bytearray(disk.read(path, 0, size))
            data[i] ^= 4
            replace(disk, path, bytes(data))
            with pytest.raises(JobError, match=f"file {path}.*copy of the job"):
                Job(disk, "again").resume()


@pytest.mark.parametrize("path", ["job", "plans/wid", "desired/0000000000"])
def test_another_format_is_refused_before_anything_else_is_looked_at(path: str) -> None:
    disk = disk_of(made())
    replace(disk, path, encoded({"format": 2, "what": "nobody knows"}))
    with pytest.raises(JobError, match="another release made it"):
        Job(disk, "again").resume()


def test_documents_of_no_meaning_are_refused_though_their_checksums_are_right() -> None:
    good: Fields = {"replicas": 3, "plans": ["wid"], "mergers": 1, "shards": 1, "state": "running"}
    worse: list[Fields] = [{"state": "asleep"}, {"replicas": 0}, {"plans": []}, {"plans": [1]}]
    worse += [{"mergers": 9}, {"shards": True}, {"extra": 1}]
    for changed in worse:
        disk = disk_of(made())
        disk.append("desired/0000000001", encoded({"term": 1, **good, **changed}))
        with pytest.raises(JobError, match="desired/0000000001"):
            Job(disk, "again").resume()
    records: list[Fields] = [{"name": "a/b"}, {"case": "r9"}, {"sources": {}}]
    records += [{"sources": {"flows": 1}}]
    for record in records:
        disk = disk_of(made())
        base: Fields = {"name": "t", "sources": {"flows": "f"}, "insert_only": True, "case": "r3"}
        replace(disk, "job", encoded({**base, **record}))
        with pytest.raises(JobError, match="file job"):
            Job(disk, "again")


def test_what_is_missing_is_named() -> None:
    disk = disk_of(made())
    disk.unlink("plans/wid")
    with pytest.raises(JobError, match="plans/wid is desired and missing"):
        Job(disk, "again").resume()
    disk = disk_of(made())
    disk.unlink("desired/0000000000")
    with pytest.raises(JobError, match="nothing is desired"):
        Job(disk, "again").resume()
    with pytest.raises(Misuse, match=r"no plan 'other'.*paned, wid"):
        made().plan("other")


def twice(column: object) -> object:
    """A user's function."""
    return column


def test_functions_of_users_are_brought_by_whoever_resumes() -> None:
    named = f"{__name__}:twice"
    plan = Plan(flows().select("k", n=function(twice, "k", returns="int64")))
    record = JobRecord("t", {"flows": "f"}, insert_only=True, case="r4")
    disk = SimulatedDisk()
    job = Job.create(disk, "first", record, {"p": plan}, Desired(1, ("p",)))
    assert isinstance(job.resume({named: twice}).plans["p"], Plan)
    with pytest.raises(JobError, match="plans/p"):
        job.resume()
    again = Plan(flows().select("k", n=function(twice, "k", returns="int64")).where(col("k") > 1))
    job.resume({named: twice})
    job.add_plan("again", again)
    Job(disk, "another").add_plan("again", again, {named: twice})


# -- plans --------------------------------------------------------------------------------------


def test_a_splice_is_kept_like_a_plan_and_a_name_never_changes_its_meaning() -> None:
    job = made()
    spliced = Splice(PLANS["paned"], Plan(counted(10)), 100)
    job.add_plan("at-100", spliced)
    job.add_plan("at-100", spliced)
    found = job.plan("at-100")
    assert isinstance(found, Splice)
    assert found.at == 100
    assert job.resume().plans.keys() == {"paned", "wid", "at-100"}
    with pytest.raises(Misuse, match="never changes"):
        job.add_plan("paned", PLANS["wid"])
    with pytest.raises(Misuse, match="a name has"):
        job.add_plan("../job", PLANS["wid"])


def test_plans_that_do_not_keep_what_the_job_promises_are_refused() -> None:
    job = made()
    early = flows().window(range=10, slide=5).group_by("k").aggregate(early=0, n=calls.count())
    for query, why in (
        (early, "it adjusts events"),
        (flows().where(col("k") > 1), "may not be a key"),
    ):
        with pytest.raises(NotEquivalent, match=why):
            job.add_plan("new", Plan(query))
    elsewhere = source("quotes", {"ts": "int64", "k": "int64"}, time="ts")
    with pytest.raises(Misuse, match="reads 'quotes'"):
        job.add_plan("new", Plan(elsewhere.window(range=5, slide=5).aggregate(n=calls.count())))


def check_a_plan_of_another_schema_is_refused() -> None:
    job = made()
    renamed = flows().window(range=10, slide=5).group_by("k").aggregate(m=calls.count())
    described = source("flows", {"ts": "int64", "k": "int64"}, time="ts", lateness=9)
    other = described.window(range=10, slide=5).group_by("k").aggregate(n=calls.count())
    for query in (renamed, other):
        with pytest.raises(NotEquivalent, match=r"the old plan gives|described in two ways"):
            job.add_plan("new", Plan(query))
        with pytest.raises(NotEquivalent):
            job.add_plan("new", Splice(Plan(query), Plan(query), 100))
    assert job.plan_names() == sorted(PLANS)
    job.add_plan("new", Plan(counted(10)))


def test_a_plan_of_another_schema_is_refused_before_anybody_switches_to_it() -> None:
    check_a_plan_of_another_schema_is_refused()


def test_a_job_that_takes_plans_of_any_schema_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gapless.failover.job.directory.check_changed", lambda *_: None)
    with pytest.raises(pytest.fail.Exception):
        check_a_plan_of_another_schema_is_refused()


def test_a_job_begins_with_plans_that_agree_and_are_desired() -> None:
    for plans, desired in (
        (PLANS, Desired(1, ("paned",))),
        ({"paned": PLANS["paned"]}, DESIRED),
        ({"paned": PLANS["paned"], "wid": Plan(counted(10))}, DESIRED),
    ):
        disk = SimulatedDisk()
        with pytest.raises(Misuse):
            Job.create(disk, "first", RECORD, plans, desired)
        assert disk.list("plans") == []


# -- checkpoints --------------------------------------------------------------------------------


def test_checkpoints_are_listed_from_the_oldest_on_and_useless_ones_named() -> None:
    job = made()
    disk = disk_of(job)
    schema = PLANS["wid"].query.schema
    for since, name in enumerate(("0-wid-2-9", "0-wid-10-1", "1-wid-2-10", "0-paned-2-1", "own")):
        value = Checkpoint("wid", {}, {}, since, since, (Frame.empty(schema),), {})
        checkpoint.write(disk, name, value)
    disk.append("checkpoints/0-wid-3-1", b"torn")
    found = job.resume()
    assert [(c.name, c.shard, c.plan, c.join_at) for c in found.checkpoints] == [
        ("0-wid-2-9", 0, "wid", 0),
        ("1-wid-2-10", 1, "wid", 2),
        ("0-wid-10-1", 0, "wid", 1),
    ]
    assert sorted(found.unreadable) == ["0-paned-2-1", "0-wid-3-1", "own"]
    job.drop_checkpoint("own")
    assert "own" not in disk.list("checkpoints")


def test_every_refusal_is_one_of_ours() -> None:
    for error in (JobError, Fenced, NotEquivalent):
        assert issubclass(error, GaplessError)


def test_a_root_that_cannot_resume_deposes_nobody() -> None:
    living = made()
    living.resume()
    disk = disk_of(living)
    plan = disk.read("plans/wid", 0, disk.size("plans/wid"))
    replace(disk, "plans/wid", plan[:-1])
    with pytest.raises(JobError):
        Job(disk, "second").resume()
    living.write_desired(DESIRED.changed(Scale(4)))
    assert living.desired().replicas == 4
    assert not living.is_over


def test_a_plan_that_is_not_there_is_never_desired() -> None:
    job = made()
    job.resume()
    with pytest.raises(Misuse, match="no plan 'nope' is here"):
        job.write_desired(Desired(3, ("nope",)))
    assert Job(disk_of(job), "second").resume().desired == DESIRED


def test_a_root_whose_machine_remembers_no_later_term_is_over_all_the_same() -> None:
    disk = SimulatedDisk()
    made(View(disk, "job"))
    minute = Reach(stale_ms=60_000, lost_share=0.0)
    there = [Client(disk, minute, random.Random(n), lambda: 0).view("job") for n in range(2)]
    first, second = Job(there[0], "r1"), Job(there[1], "r2")
    first.resume()
    before = first.is_over
    second.resume()
    assert (before, first.is_over, second.is_over) == (False, True, False)


def test_a_root_whose_answers_are_lost_does_not_take_itself_for_another() -> None:
    disk = SimulatedDisk()
    made(View(disk, "job"))
    client = Client(disk, Reach(0, 1.0), random.Random(0), lambda: 0)
    root = Job(client.view("job"), "r1")
    assert root.resume().term == 1
    root.write_desired(Desired(4, ("paned", "wid"), mergers=2))
    assert client.lost_answers
    assert root.desired().replicas == 4
