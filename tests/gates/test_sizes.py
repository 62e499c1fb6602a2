"""Small rooms: a module fits a sitting, and a function fits a screen."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.gates.repository import ROOT, files

MODULE_LINES_MAX = 400
FUNCTION_LINES_MAX = 60
SOURCES = ("*.py", "*.pyi", "*.cpp", "*.hpp")
WRITTEN_BY_TOOLS = frozenset(
    {"sidecar/gapless_pb2.py", "sidecar/gapless_pb2.pyi", "kernels/_native.pyi"}
)
"""By protoc, and by nanobind: nobody reads them for what they do."""


def sizes(name: str, text: str) -> Iterator[tuple[str, int, int]]:
    """What of a source file has a size: its name, its lines, and how many it may have."""
    yield name, len(text.splitlines()), MODULE_LINES_MAX
    if not name.endswith(".py"):
        return
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            lines = (node.end_lineno or node.lineno) - node.lineno + 1
            yield f"{name}: {node.name}", lines, FUNCTION_LINES_MAX


def too_large(name: str, text: str) -> dict[str, int]:
    """What has more lines than it may have."""
    return {thing: lines for thing, lines, most in sizes(name, text) if lines > most}


def sources() -> Iterator[Path]:
    """Files of this repository that are not tests."""
    for path in files(*SOURCES):
        name = path.relative_to(ROOT).as_posix()
        if not name.startswith("tests/") and name not in WRITTEN_BY_TOOLS:
            yield path


def test_every_module_fits_a_sitting_and_every_function_a_screen() -> None:
    found: dict[str, int] = {}
    for path in sources():
        found |= too_large(path.relative_to(ROOT).as_posix(), path.read_text("utf-8"))
    assert not found, "divide it: what moves out is one idea, with a name and a header of its own"


def test_the_gate_sees_the_repository() -> None:
    seen = {path.relative_to(ROOT).as_posix() for path in sources()}
    assert {"protocol/frame.py", "kernels/cpp/module.cpp", "src/gapless/cli.py"} <= seen
    assert not any(name.startswith("tests/") for name in seen)


def _function(lines: int) -> str:
    return "def f():\n" + "    x = 1\n" * (lines - 1)


@pytest.mark.parametrize(
    ("name", "text", "found"),
    [
        ("merge/x.py", "x = 1\n" * 400, {}),
        ("merge/x.py", "x = 1\n" * 401, {"merge/x.py": 401}),
        ("kernels/cpp/x.cpp", "//\n" * 401, {"kernels/cpp/x.cpp": 401}),
        ("merge/x.py", _function(60), {}),
        ("merge/x.py", _function(61), {"merge/x.py: f": 61}),
        ("merge/x.py", "async " + _function(61), {"merge/x.py: f": 61}),
        ("merge/x.py", "class C:\n  @p\n  " + _function(61), {"merge/x.py: f": 61}),
    ],
    ids=["a room", "a hall", "a hall in C++", "a screen", "two screens", "async", "a method"],
)
def test_what_does_not_fit_is_found(name: str, text: str, found: dict[str, int]) -> None:
    assert too_large(name, text) == found
