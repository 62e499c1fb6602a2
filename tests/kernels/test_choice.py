"""Which kernel is used, what is said about it, and that the stub tells the truth."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import gapless.kernels
from tests.kernels.conftest import Kernel

REPORT = """
import sys, warnings
hidden = sys.argv[1] == "hidden"
import importlib.util
if hidden:
    real = importlib.util.find_spec
    importlib.util.find_spec = lambda name, *a: None if name.endswith("_native") else real(name, *a)
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    import gapless.kernels, gapless.kernels as again
print(gapless.kernels.KERNEL, gapless.kernels.KeyTable.__module__)
for warning in caught:
    print(warning.category.__name__, warning.message)
"""


def report(*, hidden: bool = False, wanted: str | None = None) -> tuple[int, list[str], str]:
    """Imports the kernels in a process of their own."""
    environment = {k: v for k, v in os.environ.items() if k != "GAPLESS_KERNEL"}
    if wanted is not None:
        environment["GAPLESS_KERNEL"] = wanted
    done = subprocess.run(
        [sys.executable, "-c", REPORT, "hidden" if hidden else "there"],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout.splitlines(), done.stderr


def test_without_the_native_module_the_twin_serves_with_one_warning() -> None:
    code, lines, _ = report(hidden=True)
    assert code == 0
    assert lines[0] == "twin gapless.kernels.twin_key_table"
    assert len(lines) == 2
    assert lines[1].startswith("RuntimeWarning gapless runs on the Python twin")
    assert "install a C++ compiler" in lines[1]


@pytest.mark.usefixtures("native")
def test_the_native_kernel_serves_without_a_word() -> None:
    assert report()[:2] == (0, ["native gapless.kernels.native"])


def test_the_twin_serves_without_a_word_where_it_is_asked_for() -> None:
    assert report(wanted="twin")[:2] == (0, ["twin gapless.kernels.twin_key_table"])


def test_insisting_on_a_native_kernel_that_is_not_there_is_an_error() -> None:
    code, _, errors = report(hidden=True, wanted="native")
    assert code == 1
    assert "GAPLESS_KERNEL=native, but there is no native kernel here" in errors


def test_insisting_on_something_else_is_an_error() -> None:
    code, _, errors = report(wanted="fast")
    assert code == 1
    assert "use native or twin" in errors


# -- the stub -------------------------------------------------------------------------------------


def stub_names() -> dict[str, set[str]]:
    """Public names of the stub, and of each of its classes."""
    text = Path(gapless.kernels.__file__).with_name("_native.pyi").read_text("utf-8")
    names: dict[str, set[str]] = {"": set()}
    for statement in ast.parse(text).body:
        if isinstance(statement, ast.ClassDef):
            names[""].add(statement.name)
            names[statement.name] = {
                part.name for part in statement.body if isinstance(part, ast.FunctionDef)
            }
        elif isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
            names[""].add(statement.target.id)
        elif isinstance(statement, ast.FunctionDef):
            names[""].add(statement.name)
    return names


def public(thing: Any) -> set[str]:
    own = {"__init__", "__len__"} & set(vars(thing))
    return own | {name for name in vars(thing) if not name.startswith("_")}


def test_the_stub_has_the_names_of_the_native_module(native: Kernel) -> None:
    from gapless.kernels import _native

    names = stub_names()
    assert names[""] == public(_native)
    for name in names.keys() - {""}:
        assert names[name] == public(getattr(_native, name)), name
    assert native.KeyTable is not _native.KeyTable


def test_both_kernels_have_the_same_public_names(native: Kernel, twin: Kernel) -> None:
    assert public(native.KeyTable) == public(twin.KeyTable)
    assert public(native.Chains) == public(twin.Chains)
