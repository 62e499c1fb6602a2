"""The page of guarantees: what it prints of checkers and bounds is what they say."""

from __future__ import annotations

import importlib
import pkgutil
import re
from pathlib import Path

import pytest

from gapless.chaos.sim import checkers

ROOT = Path(__file__).parents[4]
PAGE = (ROOT / "docs" / "guarantees.md").read_text()
ITEMS = [" ".join(item.split()) for item in re.findall(r"^- (.*(?:\n  .*)*)", PAGE, re.MULTILINE)]
"""Of its lists, each as one line."""
BOUND = re.compile(r"`([A-Z][A-Z_]+)`(?=.*?`((?:[a-z_]+/)+[a-z_]+)\.py`)")
"""A bound's name, and the next file that is named in that item."""


def promises() -> dict[str, str]:
    """Of each checker what it promises."""
    found: dict[str, str] = {}
    for info in pkgutil.iter_modules(checkers.__path__):
        module = importlib.import_module(f"gapless.chaos.sim.checkers.{info.name}")
        for made in vars(module).values():
            promise = getattr(made, "promise", None)
            if isinstance(made, type) and isinstance(promise, str):
                found[getattr(made, "name", "")] = promise
    return found


PROMISES = promises()


@pytest.mark.parametrize("name", PROMISES)
def test_a_checkers_promise_is_printed_as_it_stands_beside_its_name(name: str) -> None:
    printed = PROMISES[name].replace('deliver="final"', '`deliver="final"`')
    (item,) = [item for item in ITEMS if printed in item]
    assert item.startswith(f"`{name}`: {printed}")


def test_every_checker_is_found() -> None:
    assert len(PROMISES) >= 11


def test_every_bound_that_is_named_is_in_the_file_that_is_named_with_it() -> None:
    bounds = [bound for item in ITEMS for bound in BOUND.findall(item)]
    assert len(bounds) > 90
    for name, path in bounds:
        value = getattr(importlib.import_module("gapless." + path.replace("/", ".")), name, None)
        assert isinstance(value, int | float), f"{name} in {path}.py"
