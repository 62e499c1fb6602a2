"""What takes long on real Ray: processes that are stopped, all replicas at once, lies, full disks.

Run by `make test-cluster`. Each test ends with the judges, as those of `make test` do.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

import gapless as gl
from gapless.chaos.judge.judgement import judge
from tests.actors.rays import (
    WAIT_S,
    Feed,
    end,
    follow,
    goes_on,
    judged,
    life_of,
    started,
    talkers,
    until,
    wait,
    wait_whole,
)

pytestmark = [pytest.mark.ray, pytest.mark.cluster]

TMPFS_MB = 64

LIAR = """
from pathlib import Path
import pyarrow as pa
import pyarrow.compute as pc

CLAIM = Path({claim!r})
try:
    CLAIM.touch(exist_ok=False)
    IS_ODD = True
except FileExistsError:
    IS_ODD = False

def length(column):
    return pc.add(column, pa.scalar(1 if IS_ODD else 0, column.type))
"""


@pytest.fixture(scope="module", autouse=True)
def cluster() -> Iterator[None]:
    with started():
        yield


@pytest.fixture
def feed(tmp_path: Path) -> Iterator[Feed]:
    with Feed(tmp_path / "flows") as found:
        yield found


def test_a_replica_that_is_stopped_is_noticed_and_replaced(feed: Feed, tmp_path: Path) -> None:
    job = gl.launch(talkers(), journal=feed.path, dir=tmp_path / "stopped", checkpoint_s=2)
    view = wait_whole(job)
    recording = follow(job)
    before = life_of(view, "r0.1")
    assert before is not None
    os.kill(view.hosts[before].pid, signal.SIGSTOP)  # it answers nothing, and no one sees it die
    goes_on(recording)
    wait(job, lambda now: life_of(now, "r0.1") not in (before, None), "another life of r0.1")
    wait_whole(job)
    judged(job, [recording])
    end(job)


def test_all_replicas_are_killed_at_once_and_the_output_goes_on(feed: Feed, tmp_path: Path) -> None:
    job = gl.launch(talkers(), journal=feed.path, dir=tmp_path / "all", mergers=2, checkpoint_s=1)
    view = wait_whole(job)
    recording = follow(job)
    for life, about in view.hosts.items():
        if life.slot.startswith("r"):
            os.kill(about.pid, signal.SIGKILL)
    goes_on(recording, 10_000)
    after = wait_whole(job)
    assert not {x for x in after.hosts if x.slot[0] == "r"} & view.hosts.keys()
    judged(job, [recording])
    end(job)


# -- a function that does not answer the same everywhere ------------------------------------------


@pytest.fixture
def liar(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The first process that imports it in a job answers wrongly; this one is not counted."""
    path = tmp_path / "here" / "gl_test_liar.py"
    path.parent.mkdir()
    path.write_text(LIAR.format(claim=str(tmp_path / "claim")))
    monkeypatch.syspath_prepend(str(path.parent))
    (tmp_path / "claim").touch()
    yield path
    sys.modules.pop("gl_test_liar", None)


def lying() -> gl.Query:
    import gl_test_liar as liar  # type: ignore[import-not-found]  # made by the fixture

    flows = gl.source(
        "flows", {"ts": "timestamp[ms]", "src": "int32", "len": "int32"}, time="ts", lateness="1s"
    )
    length = gl.function(liar.length, "len", returns="int32")
    return flows.map(n=length).window(range="1s").group_by("src").aggregate(s=gl.sum("n"))


def test_the_odd_one_of_three_is_replaced_where_the_majority_decides(
    feed: Feed, tmp_path: Path, liar: Path
) -> None:
    query = lying()
    job = gl.launch(
        query,
        journal=feed.path,
        dir=tmp_path / "majority",
        code=liar,
        on_divergence="majority",
        checkpoint_s=60,
    )
    view = wait_whole(job)
    (tmp_path / "claim").unlink()  # the next process that imports it is the odd one
    job.kill("r0.1")
    wait(job, lambda now: any("diverge" in a.what or "odd" in a.what for a in now.alarms), "told")
    odd = life_of(view, "r0.1")
    wait(job, lambda now: life_of(now, "r0.1") not in (odd, None), "another life of r0.1")
    wait_whole(job)
    job.validate()
    end(job)


# -- disks ----------------------------------------------------------------------------------------


@contextmanager
def small_disk(at: Path) -> Iterator[None]:
    at.mkdir(parents=True)
    size = f"size={TMPFS_MB}m"
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", size, "tmpfs", str(at)], check=False, capture_output=True
    )
    if mounted.returncode:
        pytest.skip(f"no small disk can be made here: {mounted.stderr.decode().strip()}")
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", str(at)], check=True)


def fill(path: Path) -> None:
    """Writes until nothing more fits."""
    with path.open("wb", buffering=0) as file:
        while True:
            file.write(bytes(4096))


def test_a_full_disk_under_the_output_is_told_and_the_output_goes_on_once_there_is_room(
    feed: Feed, tmp_path: Path
) -> None:
    out = tmp_path / "full" / "out"
    with small_disk(out):
        job = gl.launch(talkers(), journal=feed.path, dir=tmp_path / "full", replicas=2)
        wait_whole(job)
        recording = follow(job)
        goes_on(recording, 1_000)
        filler = out / "filler"
        with pytest.raises(OSError, match="No space"):
            fill(filler)
        until(lambda: not recording.wait_for_stable(recording.stable + 1_000, 1.0), "it waits")
        wait(job, lambda now: any("m0.0" in a.who for a in now.alarms), "the merger has told")
        job.validate()
        filler.unlink()
        goes_on(recording, 5_000)
        judged(job, [recording])
        end(job)
        assert judge(tmp_path / "full").is_clean


def said_instead(job: gl.Job) -> str:
    """Why the job's root does not answer; nothing where it does."""
    try:
        job.status()
    except gl.JobError as e:
        return str(e)
    return ""


def test_a_root_that_cannot_write_what_is_desired_is_back_once_there_is_room(
    feed: Feed, tmp_path: Path
) -> None:
    small = tmp_path / "small"
    with small_disk(small):
        job = gl.launch(talkers(), journal=feed.path, dir=small / "job", replicas=2)
        wait_whole(job)
        recording = follow(job)
        goes_on(recording, 1_000)
        filler = small / "filler"
        with pytest.raises(OSError, match="No space"):
            fill(filler)
        with suppress(gl.JobError):  # its root ends while it answers
            job.scale(replicas=3)
        until(lambda: "cannot begin" in said_instead(job), "it says that it cannot begin")
        filler.unlink()
        until(lambda: not said_instead(job), "it has begun")
        job.scale(replicas=3)
        wait_whole(job)
        goes_on(recording, 5_000)
        judged(job, [recording])
        end(job)


def test_what_does_not_fit_into_the_memory_that_it_may_have_says_so(
    feed: Feed, tmp_path: Path
) -> None:
    with pytest.raises(gl.Misuse, match="lower memory_limit or replicas"):
        gl.launch(talkers(), journal=feed.path, dir=tmp_path / "big", memory_limit=1 << 50)
    with pytest.raises(gl.JobError, match=r"(?i)memory"):
        run_with_little_memory(feed, tmp_path / "little")


def run_with_little_memory(feed: Feed, where: Path) -> None:
    """Raises what the job says of a replica that needs more."""
    job = gl.launch(talkers(), journal=feed.path, dir=where, replicas=2, memory_limit=2_000)
    try:
        wait(
            job,
            lambda now: any("emory" in s.reason for s in now.state.slots),
            "told",
        )
        raise gl.JobError(next(s.reason for s in job.status().state.slots if "emory" in s.reason))
    finally:
        job.stop(drain=False, timeout_s=WAIT_S)
