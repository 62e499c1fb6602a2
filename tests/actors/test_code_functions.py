"""Functions of users, found by name in the directory of a job."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from gapless.actors.code import FOLDER, Functions
from gapless.protocol.errors import JobError


@pytest.fixture
def functions(tmp_path: Path) -> Iterator[Functions]:
    (tmp_path / FOLDER).mkdir()
    (tmp_path / FOLDER / "gl_users_code.py").write_text(
        "RATE = 3\ndef rate(x):\n    return x * RATE\nclass A:\n    def f(x):\n        return x\n"
    )
    (tmp_path / FOLDER / "gl_users_bad_code.py").write_text("raise ValueError('half written')\n")
    before = list(sys.path)
    yield Functions(tmp_path)
    sys.path[:] = before
    for name in ("gl_users_code", "gl_users_bad_code"):
        sys.modules.pop(name, None)


def test_a_function_is_found_in_the_jobs_directory_by_its_name(functions: Functions) -> None:
    assert functions["gl_users_code:rate"](2) == 6
    assert functions["gl_users_code:A.f"](2) == 2
    assert functions["math:sqrt"](4) == 2


def test_only_a_name_with_a_module_may_be_one(functions: Functions) -> None:
    assert "math:sqrt" in functions
    assert "sqrt" not in functions
    assert list(functions) == []


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("gl_users_absent:rate", "launch the job with code="),
        ("gl_users_code:absent", "AttributeError"),
        ("gl_users_bad_code:rate", "half written"),
        ("gl_users_code:RATE", "is a int, and no function"),
    ],
)
def test_a_function_that_cannot_be_had_is_an_error_that_says_what_to_do(
    functions: Functions, name: str, problem: str
) -> None:
    with pytest.raises(JobError, match=problem):
        functions[name]
