"""A process of a job boots without compiling what another one has compiled before."""

from __future__ import annotations

import importlib
import os
import py_compile
import sys
from collections.abc import Iterator
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from gapless.actors import host, launch
from gapless.actors.bytecode import keep_bytecode
from gapless.actors.host import Host
from gapless.actors.setup import RAY_TIMING
from gapless.failover.job import directory as jobs

PACKAGE = "kept_by_a_test"
MODULES = (PACKAGE, f"{PACKAGE}.one", f"{PACKAGE}.two")


class Sources:
    """A package of three modules, and how often one of them is compiled for an import."""

    def __init__(self, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.path = path / PACKAGE
        self.path.mkdir()
        for name in ("__init__", "one", "two"):
            (self.path / f"{name}.py").write_text("value = 1\n")
        self.compiled = 0
        to_code = SourceFileLoader.source_to_code

        def counted(loader: SourceFileLoader, data: Any, path: Any, **more: Any) -> Any:
            self.compiled += 1
            return to_code(loader, data, path, **more)

        monkeypatch.setattr(SourceFileLoader, "source_to_code", counted)
        monkeypatch.setattr(sys, "dont_write_bytecode", True)
        monkeypatch.setattr(sys, "pycache_prefix", None)
        monkeypatch.syspath_prepend(path)

    def boot(self) -> list[Any]:
        """Imports all of it anew, as another process does; how many were compiled is `compiled`."""
        self.forget()
        self.compiled = 0
        return [importlib.import_module(name) for name in MODULES]

    def forget(self) -> None:
        for name in MODULES:
            sys.modules.pop(name, None)
        importlib.invalidate_caches()


@pytest.fixture
def sources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Sources]:
    made = Sources(tmp_path, monkeypatch)
    yield made
    made.forget()


def test_a_second_boot_compiles_nothing_where_imports_leave_no_bytecode(sources: Sources) -> None:
    sources.boot()
    sources.boot()
    assert sources.compiled == len(MODULES), "an import leaves nothing behind"
    assert keep_bytecode(PACKAGE) == len(MODULES)
    sources.boot()
    assert sources.compiled == 0
    assert keep_bytecode(PACKAGE) == 0, "it is there"


def test_a_changed_source_is_never_met_with_the_bytecode_of_before(sources: Sources) -> None:
    sources.boot()
    keep_bytecode(PACKAGE)
    file = sources.path / "one.py"
    was = file.stat()
    file.write_text("value = 2\n")  # as long as before
    os.utime(file, ns=(was.st_atime_ns, was.st_mtime_ns))  # and at the same time
    _, one, two = sources.boot()
    assert (one.value, two.value) == (2, 1)
    assert sources.compiled == 1
    assert keep_bytecode(PACKAGE) == 1
    sources.boot()
    assert sources.compiled == 0


def test_where_imports_leave_bytecode_nothing_is_made(
    sources: Sources, monkeypatch: pytest.MonkeyPatch
) -> None:
    sources.boot()
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    assert keep_bytecode(PACKAGE) == 0


def test_a_folder_that_cannot_be_written_costs_cpu_alone(
    sources: Sources, monkeypatch: pytest.MonkeyPatch
) -> None:
    tries: list[str] = []

    def refused(file: str, *_: Any, **__: Any) -> None:
        tries.append(file)
        raise PermissionError(13, "Permission denied", file)

    sources.boot()
    monkeypatch.setattr(py_compile, "compile", refused)
    assert keep_bytecode(PACKAGE) == 0
    assert len(tries) == 1, "nor would another one be written"


def test_a_launch_keeps_bytecode_before_it_makes_a_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    order: list[str] = []

    def made(*_: Any) -> None:
        order.append("made")
        raise InterruptedError

    job: Any = SimpleNamespace(last_root=lambda: (0, None))
    monkeypatch.setattr(jobs, "Job", lambda *_: job)
    monkeypatch.setattr(launch, "keep_bytecode", lambda: order.append("kept"))
    monkeypatch.setattr(launch, "made", made)
    with pytest.raises(InterruptedError):
        launch._start(tmp_path, "job", RAY_TIMING, None, owns=False)
    assert order == ["kept", "made"]


def test_a_spare_keeps_the_bytecode_of_its_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept: list[str] = []
    monkeypatch.setattr(host, "keep_bytecode", lambda: kept.append("kept"))
    monkeypatch.setattr(host, "leave_out_what_is_there", lambda: None)
    monkeypatch.setattr(Host, "_end", lambda *_: None)
    monkeypatch.setattr(host, "SPARE_S", 0)
    spare = Host(str(tmp_path / "no job"))
    spare._ended.set()
    spare._waits.join(10)
    assert kept == ["kept"]
