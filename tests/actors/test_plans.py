"""Plans with names, from what users give."""

from __future__ import annotations

from typing import Any

import pytest

import gapless as gl
from gapless.actors.plans import named_plans
from gapless.protocol.errors import Misuse


def query() -> gl.Query:
    return gl.source("flows", {"ts": "int64", "k": "int64"}, time="ts")


def test_plans_without_names_get_some_that_are_free() -> None:
    assert list(named_plans(query(), None)) == ["plan0"]
    assert list(named_plans(None, [query(), gl.Plan(query())])) == ["plan0", "plan1"]
    assert list(named_plans(query(), None, taken=["plan0", "plan1"])) == ["plan2"]
    assert list(named_plans(None, [query(), query()], taken=["plan1"])) == ["plan0", "plan2"]


def test_plans_with_names_keep_them() -> None:
    assert list(named_plans(query(), {"mine": query()})) == ["mine"]


@pytest.mark.parametrize(
    ("given_query", "plans", "problem"),
    [
        (None, None, "give a query, or plans"),
        (query(), [], "one is the least"),
        (query(), ["a text"], "a str is neither a query nor a plan"),
        (query(), {"p": 3}, "plan p: a int is neither"),
    ],
)
def test_what_is_no_plan_is_refused(given_query: Any, plans: Any, problem: str) -> None:
    with pytest.raises(Misuse, match=problem):
        named_plans(given_query, plans)
