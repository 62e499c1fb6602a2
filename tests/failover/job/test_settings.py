"""What a job's maker chose is kept with the job, and nonsense is refused before it is kept."""

from dataclasses import fields
from typing import Any

import pytest

from gapless.chaos.sim.disk import SimulatedDisk
from gapless.engine.plan import Plan
from gapless.failover.job.desired import Desired
from gapless.failover.job.directory import Job
from gapless.failover.job.files import JobRecord, encode_record, encoded, read_record
from gapless.failover.job.settings import Settings, from_document, to_document
from gapless.failover.job.whole_file import check_name
from gapless.failover.timing import Timing
from gapless.journal.writer import BASE_BYTES
from gapless.protocol.documents import Document
from gapless.protocol.envelope import decode_document
from gapless.protocol.errors import DecodeError, JobError, Misuse
from tests.failover.job.test_directory import PLANS, RECORD

WAITS = Timing(hang_ms=3_000, heartbeat_ms=400)
CHOSEN = Settings("majority", 500, 1 << 30, 1 << 20, 3_600_000, 0, "lib/talk.py", 8, 1 << 16, WAITS)


def made(record: JobRecord = RECORD) -> SimulatedDisk:
    disk = SimulatedDisk()
    Job.create(disk, "first", record, PLANS, Desired(2, tuple(PLANS)))
    return disk


def test_a_job_keeps_what_its_maker_chose() -> None:
    chosen = JobRecord("talkers", {"flows": "f"}, insert_only=True, case="r3", settings=CHOSEN)
    assert all(getattr(CHOSEN, f.name) != f.default for f in fields(Settings))
    assert Job(made(chosen), "again").record.settings == CHOSEN
    assert read_record(decode_document(encode_record(chosen)).document) == chosen


@pytest.mark.parametrize("code", ["functions.py", "lib/talk.py", "package", "lib/package"])
def test_code_is_a_file_or_a_package(code: str) -> None:
    assert from_document(to_document(Settings(code=code))).code == code


def test_a_record_from_before_there_were_settings_has_the_defaults() -> None:
    disk = made()
    before: dict[str, Document] = {"name": "t", "sources": {"flows": "f"}, "insert_only": True}
    disk.unlink("job")
    disk.append("job", encoded({**before, "case": "r3"}))
    assert Job(disk, "again").record.settings == Settings()
    assert Settings().base_bytes == BASE_BYTES


def test_all_of_them_are_written_so_that_another_default_changes_no_job() -> None:
    assert to_document(Settings()).keys() == {f.name for f in fields(Settings)}
    assert from_document({"spares": 3}) == Settings(spares=3)


NONSENSE: list[tuple[str, Any]] = [
    ("on_divergence", "panic"),
    ("on_divergence", ["stop"]),
    ("checkpoint_ms", 0),
    ("checkpoint_ms", None),
    ("checkpoint_ms", 1.5),
    ("memory_limit", 0),
    ("memory_limit", "1 GB"),
    ("retain_bytes", -1),
    ("retain_ms", True),
    ("spares", 9),
    ("spares", -1),
    ("code", ""),
    ("code", "../outside.py"),
    ("code", "/etc/absolute.py"),
    ("code", "a//b.py"),
    ("code", "lib/.hidden.py"),
    ("code", "library.so"),
    ("code", 7),
    ("partitions", 0),
    ("partitions", 1025),
    ("base_bytes", 0),
]


@pytest.mark.parametrize(("name", "value"), NONSENSE)
def test_nonsense_is_refused_when_it_is_chosen_and_when_it_is_read(name: str, value: Any) -> None:
    with pytest.raises(Misuse, match=name):
        Settings(**{name: value})
    document = {**to_document(Settings()), name: value}
    with pytest.raises(Misuse, match=name):
        from_document(document)
    disk = made()
    disk.unlink("job")
    base: dict[str, Document] = {"name": "t", "sources": {"flows": "f"}, "insert_only": True}
    disk.append("job", encoded({**base, "case": "r3", "settings": document}))
    with pytest.raises(JobError, match=f"file job: .*{name}"):
        Job(disk, "again")


def test_a_field_that_nobody_knows_is_an_error() -> None:
    with pytest.raises(DecodeError, match=r"job\.settings.*unknown fields: spare$"):
        from_document({"spare": 1})


@pytest.mark.parametrize(
    "changed",
    [
        {"name": 7},
        {"sources": ["flows"]},
        {"sources": {"flows": 1}},
        {"sources": {1: "f"}},
        {"sources": {"flows": ""}},
        {"insert_only": 1},
        {"case": ["r3"]},
        {"settings": {}},
    ],
)
def test_a_record_of_wrong_types_is_refused(changed: dict[str, Any]) -> None:
    good: dict[str, Any] = {"name": "t", "sources": {"f": "f"}, "insert_only": True, "case": "r3"}
    assert JobRecord(**good).settings == Settings()
    with pytest.raises(Misuse):
        JobRecord(**{**good, **changed})


@pytest.mark.parametrize("name", [None, 7, b"talkers", ["a"]])
def test_what_is_no_text_is_no_name(name: Any) -> None:
    with pytest.raises(Misuse, match="a name has"):
        check_name("plan", name)


def test_a_file_of_somebody_else_among_the_plans_stops_no_resume() -> None:
    disk = made()
    for stray in (".DS_Store", "wid~", "paned.swp x", "#wid#"):
        disk.append(f"plans/{stray}", b"not ours")
    job = Job(disk, "again")
    assert job.plan_names() == sorted(PLANS)
    assert job.resume().plans.keys() == PLANS.keys()
    assert isinstance(job.plan("wid"), Plan)
    assert len(disk.list("plans")) == len(PLANS) + 4
