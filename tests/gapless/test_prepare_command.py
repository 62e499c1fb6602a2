"""`gapless prepare` as a process: one line or JSON, one sentence for an error, nothing left behind.

The processes here start Spark themselves. Killed or interrupted in the middle of writing, they
leave a journal that has nothing of the batch, and the next run has each row in once.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pyarrow as pa
import pytest
from pyarrow import parquet

from gapless.journal.generate import Netflow
from tests.gapless.command import Gapless
from tests.spark_sources.journal_rows import rows_in, values_of

ROWS = 300_000
"""Enough that writing them takes a while, in which a process can be killed."""
LIMIT_S = 120.0
"""For what takes ten seconds, on a machine that is busy."""
KEYED = ["--time", "ts", "--key", "src", "--lateness", "5s", "--partitions", "4"]
HERE = ["--cores", "2"]


@pytest.fixture(scope="module")
def flows(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("flows") / "flows.parquet"
    parquet.write_table(table(), path)
    return path


def table() -> pa.Table:
    return pa.Table.from_batches(list(Netflow(events=ROWS, seed=3)))


class Running:
    """A `gapless prepare` that runs, with a directory of its own for temporary files."""

    def __init__(self, directory: Path, *arguments: str | Path) -> None:
        self.temporary = directory / "tmp"
        self.temporary.mkdir(exist_ok=True)
        self._output = (directory / "stdout").open("w+")
        self._errors = (directory / "stderr").open("w+")
        self.process = subprocess.Popen(
            [
                sys.executable, "-c", "from gapless.cli import main; main()", "prepare",
                *map(str, arguments), "--driver-memory", "1g",
            ],
            stdout=self._output,
            stderr=self._errors,
            env={**os.environ, "TMPDIR": str(self.temporary), "PYTHONUNBUFFERED": "1"},
        )  # fmt: skip

    def ended(self) -> tuple[int, str, str]:
        """Waits for its end; what it exits with and has printed."""
        code = self.process.wait(LIMIT_S)
        texts = []
        for file in (self._output, self._errors):
            file.seek(0)
            texts.append(file.read())
            file.close()
        return code, texts[0], texts[1]

    def wait_for(self, pattern: str, folder: Path) -> None:
        """Waits until there is a file."""
        until = time.monotonic() + LIMIT_S
        while not any(folder.glob(pattern)):
            assert self.process.poll() is None, self.ended()
            assert time.monotonic() < until, f"no {pattern} came"
            time.sleep(0.005)

    def family(self) -> list[psutil.Process]:
        return psutil.Process(self.process.pid).children(recursive=True)


@contextmanager
def running(directory: Path, *arguments: str | Path) -> Iterator[Running]:
    started = Running(directory, *arguments)
    try:
        yield started
    finally:
        if started.process.poll() is None:
            for process in [*started.family(), psutil.Process(started.process.pid)]:
                process.kill()
            started.process.wait()


def prepared(directory: Path, *arguments: str | Path) -> tuple[int, str, str]:
    with running(directory, *arguments) as run:
        return run.ended()


def is_alive(process: psutil.Process) -> bool:
    """Not one that has ended and that nobody has asked how, as where the first process is none."""
    try:
        return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


SEGMENTS_OF_A_TASK = "segments/*.*.*"
"""Segments that a task has begun, and no commit names yet."""


@pytest.mark.slow
@pytest.mark.spark
def test_killed_in_the_middle_it_leaves_nothing_and_the_next_run_has_each_row_once(
    flows: Path, tmp_path: Path, gapless: Gapless
) -> None:
    out = tmp_path / "j"
    with running(tmp_path, flows, "--out", out, *KEYED, *HERE) as run:
        run.wait_for(SEGMENTS_OF_A_TASK, out)
        family = run.family()
        run.process.send_signal(signal.SIGKILL)
        assert run.ended()[0] == -signal.SIGKILL
    until = time.monotonic() + LIMIT_S
    while any(map(is_alive, family)):
        assert time.monotonic() < until, "the JVM ends with the process that started it"
        time.sleep(0.1)
    assert rows_in(out) == []
    for left in (tmp_path / "tmp").iterdir():
        shutil.rmtree(left)  # nobody could, once it was killed
    code, said, errors = prepared(tmp_path, flows, "--out", out, *KEYED, *HERE)
    assert (code, errors) == (0, "")
    assert said.startswith(
        f"{out}: 300,000 rows in, 300,000 written, 0 rejected (0 late), 0 dropped, 4 partitions, "
    )
    assert sorted(rows_in(out)) == sorted(values_of(table()))
    assert not list((tmp_path / "tmp").iterdir()), "Spark leaves nothing behind"
    assert gapless("prepare", flows, "--out", out).out.startswith(
        f"{out}: these files are prepared"
    )
    document = gapless("prepare", flows, "--out", out, "--json").document
    assert (document["already"], document["written"]) == (True, 0)


@pytest.mark.spark
def test_interrupted_it_ends_spark_and_leaves_no_journal(flows: Path, tmp_path: Path) -> None:
    out = tmp_path / "j"
    with running(tmp_path, flows, "--out", out, *KEYED, *HERE) as run:
        run.wait_for(SEGMENTS_OF_A_TASK, out)
        family = run.family()
        run.process.send_signal(signal.SIGINT)
        assert run.ended() == (2, "", f"gapless: interrupted: nothing of it is in {out}\n")
    assert not [process for process in family if is_alive(process)]
    assert not out.exists()
    assert not list((tmp_path / "tmp").iterdir())


@pytest.mark.slow
@pytest.mark.spark
def test_a_stream_ends_with_sigterm_and_says_what_it_has_done(flows: Path, tmp_path: Path) -> None:
    folder, out = tmp_path / "in", tmp_path / "j"
    folder.mkdir()
    (folder / "a.parquet").hardlink_to(flows)
    with running(
        tmp_path, folder, "--out", out, *KEYED, *HERE, "--follow", "--trigger", "200ms"
    ) as run:
        run.wait_for("spark-checkpoint/commits/0", out)
        family = run.family()
        run.process.terminate()
        code, said, errors = run.ended()
    assert (code, errors) == (0, "")
    assert said.startswith(f"{out}: 300,000 rows in, 300,000 written, 0 rejected (0 late)")
    assert not [process for process in family if is_alive(process)]
    assert sorted(rows_in(out)) == sorted(values_of(table()))


@pytest.mark.spark
def test_what_is_no_cluster_is_said_in_a_sentence(flows: Path, tmp_path: Path) -> None:
    arguments: list[str | Path] = [
        flows,
        "--out",
        tmp_path / "j",
        *KEYED,
        "--spark-master",
        "nonsense",
    ]
    with running(tmp_path, *arguments) as run:
        code, said, errors = run.ended()
    assert (code, said) == (2, "")
    assert errors.startswith("gapless: Spark did not start: ")
    assert "Master must" in errors
    assert len(errors.splitlines()) == 1
    assert not (tmp_path / "j").exists()
    assert not list((tmp_path / "tmp").iterdir())


# -- without Spark --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--out", "s3://bucket/j"], "POSIX file system"),
        (["--out", "j", "--lateness", "soon"], "--lateness 'soon'"),
        (["--out", "j", "--once"], "--once goes with --follow"),
        (["--out", "j", "--trigger", "1s"], "--trigger goes with --follow"),
        (["--out", "j", "--checkpoint", "c"], "--checkpoint goes with --follow"),
        (["--out", "j", "--follow", "--again"], "--again is for files"),
        (["--out", "j", "--follow", "--end"], "add --once"),
        (["--out", "j", "--cores", "0"], "cores 0: 1 to 1024"),
        (["--out", "j", "--driver-memory", "lots"], "driver memory 'lots'"),
        (["--out", "j", "--spark-master", "local", "--cores", "1"], "a cluster has its own"),
        (["--out", "j", "--time", "at"], "--time 'at' is none of the columns"),
    ],
)
def test_what_cannot_be_is_one_sentence(
    arguments: list[str],
    said: str,
    flows: Path,
    tmp_path: Path,
    gapless: Gapless,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    time_column = [] if "--time" in arguments else ["--time", "ts"]
    outcome = gapless("prepare", flows, *arguments, *time_column)
    assert (outcome.code, outcome.out) == (2, "")
    assert outcome.err.startswith("gapless: ")
    assert said in outcome.err
    assert not (tmp_path / "j").exists()


def test_without_java_it_says_what_to_install(
    flows: Path, tmp_path: Path, gapless: Gapless, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    outcome = gapless("prepare", flows, "--out", tmp_path / "j", "--time", "ts")
    assert outcome.code == 2
    assert "Spark needs Java 17" in outcome.err
    assert "JAVA_HOME" in outcome.err
    assert not (tmp_path / "j").exists()
