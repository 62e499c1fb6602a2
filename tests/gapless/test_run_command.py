"""`gapless run`, `status`, `stop`, `cutover`: what is refused, and one job on a real Ray."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import psutil
import pyarrow as pa
import pytest

import gapless as gl
from gapless.commands.cutover import _shipped
from gapless.commands.query_file import read
from tests.gapless.command import Gapless

QUERY = """\
import gapless as gl
flows = gl.source("flows", {"ts": "timestamp[ms]", "src": "int32"}, time="ts", lateness="1s")
query = flows.window(range="10s", slide="1s").group_by("src").aggregate(n=gl.count())
"""
ROWS = 20_000
STARTS_S = 150
"""How long a command may take to start Ray and a job where two cores are busy with other tests."""


@pytest.fixture
def query(tmp_path: Path) -> Path:
    """A query file."""
    path = tmp_path / "talkers_of_a_test.py"
    path.write_text(QUERY)
    return path


@pytest.fixture
def journal(tmp_path: Path) -> Path:
    """A journal of its source."""
    path = tmp_path / "flows"
    columns = {"ts": "timestamp[ms]", "src": "int32"}
    with gl.JournalWriter(path, columns, time="ts", key="src", lateness="1s") as writer:
        ts = pa.array(np.arange(ROWS).astype("datetime64[ms]"))
        src = pa.array((np.arange(ROWS) % 50).astype(np.int32))
        writer.append(pa.record_batch({"ts": ts, "src": src}))
    return path


@pytest.fixture(autouse=True)
def fresh_modules() -> Iterator[None]:
    """Query files are modules: none is left to the next test."""
    path = list(sys.path)
    yield
    for name in ("talkers_of_a_test", "other_of_a_test"):
        sys.modules.pop(name, None)
    sys.path[:] = path


# -- refused before anything runs -----------------------------------------------------------------


def test_a_file_that_defines_no_query_is_refused(gapless: Gapless, tmp_path: Path) -> None:
    path = tmp_path / "talkers_of_a_test.py"
    path.write_text("import gapless as gl\nqueery = 7\n")
    outcome = gapless("run", path, "--journal", tmp_path, "--dir", tmp_path / "job")
    assert outcome.code == 2
    assert outcome.err == (
        f"gapless: {path} defines no 'query': assign the query that is to run to that name\n"
    )


def test_a_journal_that_is_missing_or_does_not_fit_is_named_and_no_directory_is_left(
    gapless: Gapless, query: Path, tmp_path: Path
) -> None:
    job = tmp_path / "job"
    outcome = gapless("run", query, "--journal", tmp_path / "none", "--dir", job)
    assert outcome.code == 2
    assert "source flows" in outcome.err
    assert "holds no journal" in outcome.err
    with gl.JournalWriter(tmp_path / "other", {"t": "timestamp[ms]"}, time="t") as other:
        other.append(pa.record_batch({"t": pa.array([1], pa.timestamp("ms"))}))
    outcome = gapless("run", query, "--journal", tmp_path / "other", "--dir", job)
    assert outcome.code == 2
    assert str(tmp_path / "other") in outcome.err
    (tmp_path / "torn").mkdir()
    (tmp_path / "torn" / "journal").write_bytes(b"no journal at all")
    outcome = gapless("run", query, "--journal", tmp_path / "torn", "--dir", job)
    assert outcome.code == 2
    assert str(tmp_path / "torn") in outcome.err
    assert not job.exists()


def test_a_directory_that_cannot_be_is_named(
    gapless: Gapless, query: Path, journal: Path, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("not a folder")
    there = tmp_path / "file" / "job"
    outcome = gapless("run", query, "--journal", journal, "--dir", there)
    assert outcome.code == 2
    assert f"the job's directory {there} cannot be written" in outcome.err


def test_a_directory_with_a_job_is_to_be_resumed(
    gapless: Gapless, query: Path, journal: Path, tmp_path: Path
) -> None:
    (tmp_path / "job").mkdir()
    (tmp_path / "job" / "job").write_bytes(b"")
    outcome = gapless("run", query, "--journal", journal, "--dir", tmp_path / "job")
    assert outcome.code == 2
    assert f"gapless run --resume {tmp_path / 'job'}" in outcome.err
    assert (tmp_path / "job" / "job").exists(), "what was there stays"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (None, "cannot be read"),
        ("hang_ms: 3", "is not TOML"),
        ("hang = 3000", "there is no hang; there are heartbeat_ms"),
        ("hang_ms = '3s'", "a number of milliseconds"),
        ("hang_ms = 150", "less than 3 times heartbeat_ms 100"),
        ("[timing]\nhang_ms = 3000", "there is no timing"),
    ],
)
def test_waits_that_make_no_sense_are_refused_before_anything_starts(
    text: str | None, said: str, gapless: Gapless, query: Path, journal: Path, tmp_path: Path
) -> None:
    waits, job = tmp_path / "waits.toml", tmp_path / "job"
    if text is not None:
        waits.write_text(text)
    outcome = gapless("run", query, "--journal", journal, "--dir", job, "--timing", waits)
    assert outcome.code == 2
    (line,) = outcome.err.splitlines()
    assert said in line
    assert not job.exists()


def test_plans_that_are_not_known_to_give_the_same_are_refused_before_anything_starts(
    gapless: Gapless, query: Path, journal: Path, tmp_path: Path
) -> None:
    longer = QUERY.replace("10s", "20s").replace("query =", "longer =")
    query.write_text(f"{QUERY}{longer}plans = [query, longer]\n")
    outcome = gapless("run", query, "--journal", journal, "--dir", tmp_path / "job")
    assert outcome.code == 2
    (line,) = outcome.err.splitlines()
    assert "window range 10 s, slide 1 s in the old plan, window range 20 s" in line
    assert not (tmp_path / "job").exists()


def test_a_file_that_a_refused_cutover_has_shipped_goes_again(tmp_path: Path) -> None:
    path, job = tmp_path / "other_of_a_test.py", tmp_path / "job"
    path.write_text(
        "import gapless as gl\n"
        "def rate(column): return column\n"
        'rows = gl.source("flows", {"ts": "int64", "k": "int64"}, time="ts")\n'
        'query = rows.select("ts", k=gl.function(rate, "k", returns="int64"))\n'
    )
    job.mkdir()
    file, there = read(path), job / "code" / path.name
    with pytest.raises(gl.NotEquivalent), _shipped(file, job):
        raise gl.NotEquivalent("another answer")
    assert not there.exists()
    with _shipped(file, job):
        assert there.read_bytes() == path.read_bytes()
    with pytest.raises(gl.NotEquivalent), _shipped(file, job):  # an earlier plan calls it
        raise gl.NotEquivalent("another answer")
    assert there.exists()
    path.write_text("changed = True\n")
    with pytest.raises(gl.Misuse, match="another file of that name"), _shipped(file, job):
        raise AssertionError("not reached")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["run"], "give a query file"),
        (["run", "q.py", "--journal", "j"], "give a query file"),
        (["run", "q.py", "--resume", "d"], "--resume DIR"),
        (["run", "--resume", "/nowhere/at/all"], "there is no job"),
        (["run", "q.py", "--journal", "j", "--dir", "d", "--detach"], "--address auto"),
        (["run", "q.py", "--journal", "a=1", "--journal", "b", "--dir", "d"], "SOURCE=PATH"),
        (["run", "q.py", "--journal", "a=1", "--journal", "a=2", "--dir", "d"], "one journal"),
        (["run", "q.py", "--journal", "j", "--dir", "d", "--memory-limit", "2X"], "2GB"),
        (["run", "q.py", "--journal", "j", "--dir", "d", "--takeover"], "--resume DIR"),
        (["status", "--watch"], "--watch needs the name of a job"),
    ],
)
def test_what_does_not_go_together_is_said(
    arguments: Sequence[str], said: str, gapless: Gapless
) -> None:
    outcome = gapless(*arguments)
    assert outcome.code == 2
    assert outcome.err.startswith("gapless: ")
    assert said.replace("2GB", "4GiB") in outcome.err


@pytest.mark.parametrize(
    "arguments", [["status"], ["status", "a"], ["stop", "a"], ["cutover", "a", "QUERY"]]
)
def test_a_cluster_that_is_not_there_is_said_at_once(
    arguments: Sequence[str], gapless: Gapless, query: Path
) -> None:
    given = [str(query) if text == "QUERY" else text for text in arguments]
    outcome = gapless(*given, "--address", "127.0.0.1:1")
    assert outcome.code == 2
    assert "no Ray cluster can be reached at '127.0.0.1:1'" in outcome.err


def test_a_status_without_jobs_or_clusters_says_so_and_what_to_do(
    gapless: Gapless, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It starts no cluster, so it does not advise to leave out an address that nobody gave."""
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    monkeypatch.setattr("gapless.actors.whereabouts.at_hand", list)
    outcome = gapless("status")
    assert outcome.code == 2
    assert "no Ray cluster and no job runs on this machine" in outcome.err
    assert "gapless run" in outcome.err


# -- on a real Ray --------------------------------------------------------------------------------


@dataclass
class Shell:
    """Commands as a person runs them: processes of their own, on a Ray with a folder of its own."""

    folder: Path
    """Ray's: a short path, as sockets lie in it."""

    def start(self, *arguments: str | Path) -> subprocess.Popen[str]:
        """Starts one."""
        command = [sys.executable, "-c", "from gapless.cli import main; main()"]
        environment = {**os.environ, "RAY_TMPDIR": str(self.folder), "RAY_ADDRESS": ""}
        return subprocess.Popen(
            [*command, *map(str, arguments)],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,  # as a window's: Ctrl-C goes to all that run in it
        )

    def run(self, *arguments: str | Path) -> tuple[int, str, str]:
        """Runs one to its end."""
        process = self.start(*arguments)
        out, err = process.communicate(timeout=STARTS_S)
        return process.returncode, out, err

    def processes(self) -> list[psutil.Process]:
        """What Ray has started, and still runs."""
        found = []
        for process in psutil.process_iter():
            try:
                if any(str(self.folder) in text for text in process.cmdline()):
                    found.append(process)
            except (psutil.NoSuchProcess, psutil.AccessDenied, psutil.ZombieProcess):
                continue  # it has ended meanwhile, or is nobody of ours
        return found

    def wait_for(self, wanted: bool) -> None:
        """Until Ray runs, or nothing of it is left."""
        until = time.monotonic() + STARTS_S
        while bool(self.processes()) != wanted:
            assert time.monotonic() < until, self.processes()
            time.sleep(0.1)


@pytest.fixture
def shell() -> Iterator[Shell]:
    """Ends what is left of Ray."""
    with tempfile.TemporaryDirectory(prefix="gs-", dir="/tmp") as folder:
        shell = Shell(Path(folder))
        yield shell
        for process in shell.processes():
            process.kill()


def lines_until(process: subprocess.Popen[str], wanted: str) -> str:
    """The first line of standard output with a text in it."""
    assert process.stdout is not None
    for line in process.stdout:
        if wanted in line:
            return line
    assert process.stderr is not None
    raise AssertionError(process.stderr.read())


@pytest.mark.ray
def test_a_job_is_run_looked_at_and_stopped_from_the_shell_and_nothing_is_left(
    shell: Shell, query: Path, journal: Path, tmp_path: Path
) -> None:
    job = tmp_path / "job"
    options = ("--journal", journal, "--dir", job, "--replicas", "2", "--spares", "0")
    process = shell.start("run", query, *options)
    try:
        address = lines_until(process, "from another shell").split()[-1]
        until = time.monotonic() + STARTS_S
        while (found := shell.run("status", "job", "--address", address, "--json"))[0] != 0:
            assert time.monotonic() < until, found
        document = json.loads(found[1])
        assert document["running"] == {"replicas": 2, "mergers": 1}
        assert [replica["slot"] for replica in document["replicas"]] == ["r0.0", "r0.1"]
        longer = tmp_path / "longer_of_a_test.py"
        longer.write_text(QUERY.replace("10s", "20s"))
        code, _, err = shell.run("cutover", "job", longer, "--address", address)
        assert code == 2
        assert "window range 10 s, slide 1 s in the old plan, window range 20 s" in err
        code, _, err = shell.run("run", "--resume", job)
        assert code == 2
        assert f"job job runs in the Ray cluster at {address}" in err
        assert shell.run("status", "job")[0] == 0, "it is found without an address"
        code, _, err = shell.run("stop", "jab", "--address", address)
        assert code == 2
        assert "no job 'jab' runs in the cluster at" in err
        os.killpg(process.pid, signal.SIGINT)
        out, err = process.communicate(timeout=STARTS_S)
        assert process.returncode == 0, err
        assert "job has stopped" in out
        assert "raylet" not in out, "what Ray says of processes that died is not printed"
    finally:
        process.kill()
    shell.wait_for(False)
    code, _, err = shell.run("run", "--resume", job)
    assert code == 2
    assert "this job was stopped" in err


@pytest.mark.ray
def test_an_interrupted_start_leaves_no_process_and_no_directory(
    shell: Shell, query: Path, journal: Path, tmp_path: Path
) -> None:
    process = shell.start("run", query, "--journal", journal, "--dir", tmp_path / "job")
    shell.wait_for(True)
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=STARTS_S)
    assert process.returncode != 0
    shell.wait_for(False)
    assert not (tmp_path / "job").exists()


@pytest.mark.ray
def test_a_job_that_wants_more_memory_than_there_is_is_refused_and_leaves_nothing(
    shell: Shell, query: Path, journal: Path, tmp_path: Path
) -> None:
    options = ("--journal", journal, "--dir", tmp_path / "job", "--memory-limit", "900TB")
    code, out, err = shell.run("run", query, *options)
    assert (code, out) == (2, "")
    (line,) = err.splitlines()
    assert line.startswith("gapless: 3 replicas of 900000000000000 bytes may want")
    shell.wait_for(False)
    assert not (tmp_path / "job").exists()
