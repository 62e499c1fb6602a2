"""What runs the peers: a program's report is read, one that fails or hangs is told and ended."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import psutil
import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.parquet as pq
import pytest

from gapless.bench import netflow
from gapless.bench.peers import environments, runner, workload
from gapless.bench.peers.environments import Environments
from gapless.protocol.errors import Misuse

PYTHON = Path(sys.executable)


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(runner, "PROGRAMS", tmp_path)
    return "program.py"


def test_the_last_object_that_a_program_prints_is_its_report(tmp_path: Path, program: str) -> None:
    (tmp_path / program).write_text("print('warming up')\nprint('{\"seconds\": 2.5}')\n")
    assert runner.run(PYTHON, program, ["w1"]) == {"seconds": 2.5}


def test_a_program_that_fails_is_told_with_the_end_of_its_errors(
    tmp_path: Path, program: str
) -> None:
    (tmp_path / program).write_text("import sys\nsys.exit('no such column')\n")
    with pytest.raises(Misuse, match=r"program\.py w1 failed with exit code 1:\nno such column"):
        runner.run(PYTHON, program, ["w1"])


def test_a_program_that_says_nothing_has_failed(tmp_path: Path, program: str) -> None:
    (tmp_path / program).write_text("print('done')\n")
    with pytest.raises(Misuse, match="failed with exit code 0"):
        runner.run(PYTHON, program, ["w1"])


HANG = "import threading; threading.Event().wait()"


def test_a_program_that_overruns_is_ended(tmp_path: Path, program: str) -> None:
    (tmp_path / program).write_text(HANG)
    with pytest.raises(Misuse, match=r"program\.py w1 was still running after 0\.1 s"):
        runner.run(PYTHON, program, ["w1"], limit_s=0.1)


def test_what_a_program_has_started_ends_with_it_though_it_left_the_group() -> None:
    source = (
        "import subprocess, sys\n"
        f"child = subprocess.Popen([sys.executable, '-c', {HANG!r}], start_new_session=True)\n"
        f"print(child.pid, flush=True)\n{HANG}\n"
    )
    command = [sys.executable, "-c", source]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True)
    with process:
        assert process.stdout is not None
        child = psutil.Process(int(process.stdout.readline()))
        assert child.is_running()
        runner.end(process)
        assert process.stdout.read() == ""  # comes when nobody has it open any more, the child too


def test_files_are_written_once_and_each_layout_holds_the_same_rows(tmp_path: Path) -> None:
    said: list[str] = []
    directory = workload.files(tmp_path, 5_000, 1_000, said.append)
    assert workload.files(tmp_path, 5_000, 1_000, said.append) == directory
    assert len(said) == 1
    flows = pa.Table.from_batches([netflow.flows(5_000, netflow.generator())])
    assert pq.read_table(directory / "flows.parquet").equals(flows)
    types = pc.ConvertOptions(column_types={f.name: f.type for f in flows.schema})
    assert pc.read_csv(directory / "flows.csv", convert_options=types).equals(flows)
    with pa.memory_map(str(directory / "flows.arrow")) as file:
        assert pa.ipc.open_file(file).read_all().equals(flows)
    named = pc.ReadOptions(column_names=flows.column_names)
    stripes = [
        pc.read_csv(directory / "flows_csv" / f"p{i}.csv", named, convert_options=types)
        for i in (0, 1)
    ]
    blocks = [stripes[i % 2].slice(i // 2 * 1_000, 1_000) for i in range(5)]
    assert pa.concat_tables(blocks).combine_chunks().equals(flows.combine_chunks())


def test_an_environment_that_is_there_with_its_pins_is_used_as_it_is(tmp_path: Path) -> None:
    said: list[str] = []
    python = tmp_path / "duckdb" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.touch()
    pins = Path(environments.__file__).parent / "requirements" / "duckdb.txt"
    (tmp_path / "duckdb" / "installed.txt").write_text(pins.read_text())
    assert Environments(tmp_path, said.append).python("duckdb") == python
    assert said == []


def test_flink_without_java_is_told_before_anything_is_fetched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(Misuse, match="Java 17"):
        Environments(tmp_path, print).python("flink")
    assert not (tmp_path / "flink").exists()
