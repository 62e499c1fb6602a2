"""Each exception from a check has its reason beside it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.gates.repository import ROOT, files

EXCEPTION = re.compile(r"# ?(?:noqa|type: ignore|nosec|pragma: no cover)\b")
EXPLAINED = re.compile(
    r"# ?(?:noqa: [A-Z]+\d+(?:, [A-Z]+\d+)*|type: ignore\[[\w-]+\])  ?[#-] .*\w{3}"
)
CODE = re.compile(r'"[A-Z]+\d+"')


def unexplained(source: str) -> list[int]:
    """Lines with an exception that names no rule or gives no reason."""
    return [
        number
        for number, line in enumerate(source.splitlines(), 1)
        if EXCEPTION.search(line) and not EXPLAINED.search(line)
    ]


def unexplained_settings(config: str) -> list[str]:
    """Lines of pyproject.toml that turn a lint rule off and give no reason on the same line."""
    lists = r"^(?:ignore|\"\S+\") = \[(.*?\][^\n]*)$"
    off = re.findall(lists, config, flags=re.MULTILINE | re.DOTALL)
    lines = [line for block in off for line in block.splitlines()]
    return [line for line in lines if CODE.search(line) and not re.search(r"# .*\w{3}", line)]


def test_every_exception_in_the_code_has_its_reason_beside_it() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{line}"
        for path in files("*.py", "*.pyi")
        if path.name != Path(__file__).name  # speaks of exceptions, makes none
        for line in unexplained(path.read_text("utf-8"))
    ]
    assert found == []


def test_every_rule_that_is_off_has_its_reason_beside_it() -> None:
    assert unexplained_settings((ROOT / "pyproject.toml").read_text("utf-8")) == []


@pytest.mark.parametrize(
    "line",
    [
        "x = 1  # noqa",
        "x = 1  # noqa: E501",
        "x = 1  # noqa: E501  #",
        "x = 1  # type: ignore",
        "x = 1  # type: ignore[assignment]",
        "x = 1  # pragma: no cover",
    ],
)
def test_an_exception_without_rule_or_reason_is_caught(line: str) -> None:
    assert unexplained(line) == [1]


@pytest.mark.parametrize(
    "line",
    [
        "x = 1  # noqa: S108 - looked at, never written to",
        "x = 1  # noqa: A001, E501  # the natural name",
        "x = 1  # type: ignore[assignment]  # compares by content",
    ],
)
def test_an_exception_with_rule_and_reason_is_fine(line: str) -> None:
    assert unexplained(line) == []


def test_a_rule_that_is_off_without_a_reason_is_caught() -> None:
    config = 'ignore = [\n  "D105", # their name says it\n  "D107",\n]\n"x/**" = ["S101"]\n'
    assert unexplained_settings(config) == ['  "D107",', '"S101"]']
