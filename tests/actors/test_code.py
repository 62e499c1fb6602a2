"""The code of a job: kept by its content, never overwritten, and what a resume runs is that."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import gapless as gl
from gapless.actors import cluster, code, launch
from gapless.actors.code import FOLDER, Functions, keep, named
from gapless.commands.cutover import _shipped
from gapless.commands.query_file import read
from gapless.protocol.errors import JobError, Misuse
from tests.actors.test_reader_registry_shell import COLUMNS, World

ONE, OTHER = "def rate(x):\n    return x\n", "def rate(x):\n    return -x\n"
MODULE = "gl_kept_code"
QUERY = """
import gapless as gl

def rate(column):
    return {sign}column

rows = gl.source("flows", {{"ts": "int64", "k": "int64"}}, time="ts")
query = rows.select("ts", k=gl.function(rate, "k", returns="int64"))
"""


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    """No module of a test is another's."""
    path = list(sys.path)
    yield
    sys.path[:] = path
    sys.modules.pop(MODULE, None)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / f"{MODULE}.py"
    path.write_text(ONE)
    return path


def test_the_name_says_the_content(file: Path) -> None:
    before = named(file)
    assert before.endswith(f"/{MODULE}.py")
    file.write_text(OTHER)
    assert named(file) != before
    file.write_text(ONE)
    assert named(file) == before


def test_of_a_package_all_files_count_and_no_cache(tmp_path: Path) -> None:
    package = tmp_path / "package"
    (package / "deep").mkdir(parents=True)
    (package / "deep" / "a.py").write_text(ONE)
    before = named(package)
    (package / "__pycache__").mkdir()
    (package / "__pycache__" / "a.pyc").write_text("compiled")
    assert named(package) == before
    (package / "deep" / "a.py").rename(package / "a.py")
    assert named(package) != before


def test_what_is_kept_is_run(file: Path, tmp_path: Path) -> None:
    name = named(file)
    keep(file, tmp_path / "job", name)
    keep(file, tmp_path / "job", name)  # a launch that died before there was a job, done again
    assert Functions(tmp_path / "job", name)[f"{MODULE}:rate"](7) == 7
    assert [path.name for path in (tmp_path / "job" / FOLDER).iterdir()] == [name[:32]]


def test_a_file_that_was_renamed_after_a_launch_that_failed_is_kept_by_its_new_name(
    file: Path, tmp_path: Path
) -> None:
    keep(file, tmp_path / "job", named(file))
    renamed = file.rename(file.with_name("renamed_scoring.py"))
    keep(renamed, tmp_path / "job", named(renamed))
    assert (tmp_path / "job" / FOLDER / named(renamed)).read_bytes() == renamed.read_bytes()


def test_a_package_is_kept_whole(tmp_path: Path) -> None:
    package = tmp_path / MODULE
    package.mkdir()
    (package / "__init__.py").write_text("from .inner import rate\n")
    (package / "inner.py").write_text(ONE)
    keep(package, tmp_path / "job", named(package))
    assert Functions(tmp_path / "job", named(package))[f"{MODULE}:rate"](7) == 7


@pytest.mark.parametrize("harm", ["changed", "missing"])
def test_a_resume_runs_exactly_what_was_launched_or_nothing(
    file: Path, tmp_path: Path, harm: str
) -> None:
    name = named(file)
    keep(file, tmp_path / "job", name)
    there = tmp_path / "job" / FOLDER / name
    if harm == "changed":
        there.write_text(OTHER)
    else:
        there.unlink()
    with pytest.raises(JobError, match="another one than the job was launched with"):
        Functions(tmp_path / "job", name)[f"{MODULE}:rate"]
    assert MODULE not in sys.modules


def test_code_that_changes_while_it_is_kept_is_refused(file: Path, tmp_path: Path) -> None:
    name = named(file)
    file.write_text(OTHER)
    with pytest.raises(Misuse, match="changed meanwhile"):
        keep(file, tmp_path / "job", name)
    assert list((tmp_path / "job" / FOLDER).iterdir()) == []


def test_more_than_is_anybodys_code_is_refused(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(code, "CODE_BYTES_MAX", 5)
    with pytest.raises(Misuse, match="runtime_env="):
        named(file)


def test_code_of_an_older_release_runs_as_it_did(tmp_path: Path) -> None:
    (tmp_path / FOLDER).mkdir()
    (tmp_path / FOLDER / f"{MODULE}.py").write_text(ONE)
    assert Functions(tmp_path, f"{MODULE}.py")[f"{MODULE}:rate"](7) == 7


def test_a_launch_into_a_job_that_is_there_leaves_its_code_alone(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its checkpoints were made by that code."""
    world = World(tmp_path)
    monkeypatch.setattr(cluster, "connect", lambda _: False)
    monkeypatch.setattr(launch, "_check_free", lambda _: None)
    flows = gl.source("flows", COLUMNS, time="ts", time_unit="ms")
    before = sorted(world.path.rglob("*"))
    with pytest.raises(Misuse, match="a job is here already"):
        gl.launch(
            flows.map(src=gl.col("src")), journal=tmp_path / "flows", dir=world.path, code=file
        )
    assert sorted(world.path.rglob("*")) == before


def test_a_cutover_brings_no_other_file_of_the_launched_name(tmp_path: Path) -> None:
    """It would not be found: the one that was launched is before it."""
    path = tmp_path / f"{MODULE}.py"
    path.write_text(QUERY.format(sign=""))
    name = named(path)
    keep(path, tmp_path / "job", name)
    with _shipped(read(path), tmp_path / "job", name):
        pass  # the very same
    path.write_text(QUERY.format(sign="-"))
    with (
        pytest.raises(Misuse, match="another file of that name"),
        _shipped(read(path), tmp_path / "job", name),
    ):
        raise AssertionError("not reached")
    assert [at.name for at in (tmp_path / "job" / FOLDER).iterdir()] == [name[:32]]
