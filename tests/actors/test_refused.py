"""What cannot run is refused, and says what to do; nothing of it is left behind."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

import gapless as gl
from gapless.actors.hosts import named
from gapless.actors.setup import RAY_TIMING
from gapless.actors.views import JobView
from gapless.failover.job.state import SlotState
from tests.actors.rays import WAIT_S, Feed, end, follow, judged, started, talkers, until, wait

pytestmark = pytest.mark.ray

QUICK = replace(RAY_TIMING, backoff_ms=1, backoff_max_ms=5)
"""So that ten attempts take no minute."""

CODE = """
import pyarrow as pa
import pyarrow.compute as pc

def double(column):
    return pc.multiply(column, pa.scalar(2, column.type))

def fails(column):
    raise ValueError("row 7 is not to my taste")
"""


@pytest.fixture(scope="module", autouse=True)
def cluster() -> Iterator[None]:
    with started():
        yield
        until(lambda: not named(""), "nothing of any job is left")


@pytest.fixture
def journal(tmp_path: Path) -> Path:
    feed = Feed(tmp_path / "flows")
    feed.stop()
    return feed.path


@pytest.fixture
def code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A file that this process can import, and no other."""
    path = tmp_path / "here" / "gl_test_scoring.py"
    path.parent.mkdir()
    path.write_text(CODE)
    monkeypatch.syspath_prepend(str(path.parent))
    yield path
    sys.modules.pop("gl_test_scoring", None)


def scored(function: str) -> gl.Query:
    import gl_test_scoring as scoring  # type: ignore[import-not-found]  # made by the fixture

    flows = gl.source(
        "flows", {"ts": "timestamp[ms]", "src": "int32", "len": "int32"}, time="ts", lateness="1s"
    )
    score = gl.function(getattr(scoring, function), "len", returns="int32")
    return flows.map(score=score).window(range="1s").group_by("src").aggregate(s=gl.sum("score"))


def test_a_journal_that_is_missing_or_does_not_fit_is_refused_before_anything_runs(
    journal: Path, tmp_path: Path
) -> None:
    with pytest.raises(gl.JournalError, match=r"holds no journal; `gapless prepare` makes one"):
        gl.launch(talkers(), journal=tmp_path / "none", dir=tmp_path / "job")
    with gl.JournalWriter(tmp_path / "other", {"ts": "timestamp[ms]", "x": "int8"}, time="ts"):
        pass
    with pytest.raises((gl.JournalError, gl.Misuse, gl.SchemaError), match="src"):
        gl.launch(talkers(), journal=tmp_path / "other", dir=tmp_path / "job")
    with pytest.raises(gl.Misuse, match="is not a source of the query"):
        gl.launch(talkers(), journal={"flows": journal, "x": journal}, dir=tmp_path / "job")
    with pytest.raises(gl.Misuse, match="replicas 0"):
        gl.launch(talkers(), journal=journal, dir=tmp_path / "job", replicas=0)
    assert not (tmp_path / "job").exists()


def test_a_directory_and_a_name_are_of_one_job(journal: Path, tmp_path: Path) -> None:
    job = gl.launch(talkers(), journal=journal, dir=tmp_path / "one", replicas=1, spares=0)
    with pytest.raises(gl.Misuse, match=r"a job 'one' runs in this cluster: attach to it"):
        gl.launch(talkers(), journal=journal, dir=tmp_path / "two", name="one")
    with pytest.raises(gl.Misuse, match="a job is here already: resume it"):
        gl.launch(talkers(), journal=journal, dir=tmp_path / "one", name="two")
    with pytest.raises(gl.Misuse, match=r"job one runs in the Ray cluster at .*--takeover"):
        gl.resume(tmp_path / "one")
    with pytest.raises(gl.Misuse, match="a job 'one' runs in this cluster"):
        gl.resume(tmp_path / "one", takeover=True)
    with pytest.raises(gl.Misuse, match=r"there are m0\.0, "):
        job.kill("r0.9")
    with pytest.raises(gl.Misuse, match=r"no job 'two' runs in the cluster at .*, these run: one"):
        gl.attach("two")
    recording = follow(job, start="earliest")
    recording.stop()
    assert judged(job).answer_rows > 0
    end(job)


def test_a_directory_without_a_job_cannot_be_resumed(tmp_path: Path) -> None:
    with pytest.raises(gl.Misuse, match="no job is here"):
        gl.resume(tmp_path)


def test_a_function_that_no_other_process_can_import_is_named(
    journal: Path, tmp_path: Path, code: Path
) -> None:
    assert code.exists()
    with pytest.raises(gl.JobError, match=r"gl_test_scoring:double cannot be imported.*code="):
        gl.launch(scored("double"), journal=journal, dir=tmp_path / "lost", replicas=1, spares=0)
    until(lambda: not named("lost/"), "nothing of the job is left")


def test_a_function_travels_with_the_job(journal: Path, tmp_path: Path, code: Path) -> None:
    job = gl.launch(
        scored("double"), journal=journal, dir=tmp_path / "scored", replicas=1, spares=0, code=code
    )
    recording = follow(job, start="earliest")
    assert recording.wait_for_stable(2_000, WAIT_S)
    judged(job, [recording])
    end(job)


def test_a_query_that_fails_the_same_way_each_time_is_given_up_with_the_reason(
    journal: Path, tmp_path: Path, code: Path
) -> None:
    with pytest.raises(gl.JobError, match="row 7 is not to my taste"):
        run_until_given_up(journal, tmp_path / "fails", code)
    until(lambda: not named("fails/"), "nothing of the job is left")


def run_until_given_up(journal: Path, where: Path, code: Path) -> None:
    """Raises what the job's slot says: where it was up for a moment, and where it never was."""
    job = gl.launch(
        scored("fails"),
        journal=journal,
        dir=where,
        replicas=2,  # the last one of a shard is tried for ever
        spares=0,
        code=code,
        timing=QUICK,
    )
    try:
        wait(job, failed, "one is given up")
        raise gl.JobError(failed(job.status())[0].reason)
    finally:
        job.stop(drain=False)


def failed(view: JobView) -> list[SlotState]:
    return [slot for slot in view.state.slots if slot.state == "failed"]


def test_ray_client_is_refused_by_a_process_that_is_in_no_cluster(
    journal: Path, tmp_path: Path
) -> None:
    program = f"""
        import gapless as gl
        columns = {{"ts": "timestamp[ms]", "src": "int32"}}
        flows = gl.source("flows", columns, time="ts", lateness="1s")
        query = flows.window(range="1s").group_by("src").aggregate(n=gl.count())
        where = dict(journal={str(journal)!r}, dir={str(tmp_path / "client")!r})
        try:
            gl.launch(query, **where, address="ray://127.0.0.1:1")
        except gl.Misuse as e:
            print(e)
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)],
        capture_output=True,
        text=True,
        timeout=WAIT_S,
        check=False,
    )
    assert "Ray Client is not used on the path of data" in done.stdout, done.stderr
    assert not (tmp_path / "client").exists()
