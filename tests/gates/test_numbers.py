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


def items() -> list[str]:
    """Of the list, each as one line."""
    section = PAGE.partition("\n## Numbers\n")[2].partition("\n## ")[0]
    found = re.findall(r"^- (.*(?:\n  .*)*)", section, re.MULTILINE)
    return [" ".join(item.split()) for item in found]


def defined(path: str) -> Iterator[str]:
    """The names that a module defines."""
    for node in ast.parse((ROOT / path).read_text()).body:
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                yield name
            case ast.Assign(targets=targets):
                yield from (each.id for each in ast.walk(targets[0]) if isinstance(each, ast.Name))


@pytest.mark.parametrize("item", items(), ids=lambda item: item[:60])
def test_each_number_has_a_test_and_its_bar_is_a_constant_that_is_there(item: str) -> None:
    tests = TEST.findall(item)
    assert tests, "no test holds it"
    for path, name in tests:
        assert not name or name in set(defined(path)), f"{path} has no {name}"
        assert (ROOT / path).exists(), path
    for names, path in BARS.findall(item):
        assert set(re.findall(r"[A-Z_]+", names)) <= set(defined(path)), item


def test_the_list_has_all_numbers() -> None:
    assert len(items()) >= 11
