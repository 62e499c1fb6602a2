"""Every number of the guarantees stands with what holds it, and what that names is there."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

import pytest

from tests.gates.repository import ROOT

PAGE = (ROOT / "docs" / "guarantees.md").read_text()
TEST = re.compile(r"`(tests/[a-z_/]+\.py)(?:::(test_\w+))?`")
BARS = re.compile(r"(`[A-Z_]+`(?:, `[A-Z_]+`)*), `(bench/\w+\.py)`")


def rows() -> list[str]:
    """Of the table."""
    section = PAGE.partition("\n## Numbers\n")[2].partition("\n## ")[0]
    return [line for line in section.splitlines() if line.startswith("| ")][2:]


def defined(path: str) -> Iterator[str]:
    """The names that a module defines."""
    for node in ast.parse((ROOT / path).read_text()).body:
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                yield name
            case ast.Assign(targets=targets):
                yield from (each.id for each in ast.walk(targets[0]) if isinstance(each, ast.Name))


@pytest.mark.parametrize("row", rows(), ids=lambda row: row.split("|")[1].strip()[:60])
def test_each_number_has_a_test_and_its_bar_is_a_constant_that_is_there(row: str) -> None:
    tests = TEST.findall(row)
    assert tests, "no test holds it"
    for path, name in tests:
        assert not name or name in set(defined(path)), f"{path} has no {name}"
        assert (ROOT / path).exists(), path
    for names, path in BARS.findall(row):
        assert set(re.findall(r"[A-Z_]+", names)) <= set(defined(path)), row


def test_the_table_has_all_numbers() -> None:
    assert len(rows()) >= 11
