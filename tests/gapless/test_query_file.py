"""Query files: what a right one gives, and what each wrong one is told, with the line."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gapless.commands.query_file import read
from gapless.protocol.errors import Misuse

FLOWS = """\
import gapless as gl
flows = gl.source("flows", {"ts": "timestamp[ms]", "src": "int32"}, time="ts", lateness="1s")
"""
COUNTS = "flows.window(range='10s', slide='1s').group_by('src').aggregate(n=gl.count())"

Write = Callable[..., Path]


@pytest.fixture
def written(tmp_path: Path) -> Iterator[Write]:
    """Writes a query file, and forgets afterwards what importing it has left in Python."""
    modules, path = set(sys.modules), list(sys.path)

    def write(text: str, name: str = "a_query_file.py") -> Path:
        (tmp_path / name).write_text(text)
        return tmp_path / name

    yield write
    for name in set(sys.modules) - modules:
        if getattr(sys.modules[name], "__file__", "") == str(tmp_path / f"{name}.py"):
            del sys.modules[name]
    sys.path[:] = path


def test_a_file_gives_its_query_and_its_plans(written: Write) -> None:
    file = read(written(f"{FLOWS}query = {COUNTS}\nplans = {{'a': query, 'b': gl.Plan(query)}}\n"))
    assert isinstance(file.plans, dict)
    assert list(file.plans) == ["a", "b"]
    assert not file.needs_code


def test_functions_of_a_file_have_its_name_and_need_it(written: Write) -> None:
    file = read(
        written(
            f"{FLOWS}def same(src):\n    return src\n"
            "query = flows.map(x=gl.function(same, 'src', returns='int32'))\n"
        )
    )
    assert file.module == "a_query_file"
    assert sys.modules["a_query_file"].same.__module__ == "a_query_file"
    assert file.needs_code


def test_a_file_imports_what_lies_beside_it(written: Write) -> None:
    written(FLOWS, "beside_it.py")
    read(written(f"from beside_it import gl, flows\nquery = {COUNTS}\n"))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("x = 1\nquery = (\n", "a_query_file.py, line 2: invalid Python: '(' was never closed"),
        ("x = 1\n\ny = {}['no']\n", "a_query_file.py, line 3: KeyError: 'no'"),
        ("def f():\n    return 1 / 0\nf()\n", "a_query_file.py, line 2: ZeroDivisionError"),
        ("import sys\nsys.exit(7)\n", "a_query_file.py, line 2: SystemExit: 7"),
        (f"{FLOWS}flows.where(gl.col('nobody') > 0)\n", "a_query_file.py, line 3: "),
        (f"{FLOWS}talkers = {COUNTS}\n", "defines no 'query'; it defines flows, talkers"),
        ("query = 7\n", "'query' is a int"),
        (f"{FLOWS}query = {COUNTS}\nplans = 7\n", "'plans' is a int"),
    ],
)
def test_what_is_wrong_with_a_file_is_said_with_its_line(
    text: str, said: str, written: Write
) -> None:
    path = written(text)
    with pytest.raises(Misuse) as error:
        read(path)
    assert str(path) in str(error.value)
    assert said in str(error.value)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("json.py", "a module 'json' already"),
        ("a-query.py", "rename it"),
        ("query.txt", "rename it"),
        ("gapless.py", "a module 'gapless' already"),
    ],
)
def test_a_name_that_no_process_could_import_is_refused(
    name: str, said: str, written: Write
) -> None:
    with pytest.raises(Misuse, match=said):
        read(written(f"{FLOWS}query = {COUNTS}\n", name))


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(Misuse, match="no such file"):
        read(tmp_path / "none.py")
