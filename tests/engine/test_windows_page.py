"""The page of windows: its examples run, one after the other, and so do the queries they make."""

from __future__ import annotations

import re
from typing import Any

import gapless as gl
from gapless.engine import nodes
from gapless.engine.plan import Plan
from gapless.engine.query import Query
from tests.gates.repository import ROOT

PAGE = (ROOT / "docs" / "windows.md").read_text("utf-8")
EXAMPLES = re.findall(r"^```python\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)


def test_every_example_makes_queries_that_run() -> None:
    known: dict[str, Any] = {"gl": gl}
    for example in EXAMPLES:
        exec(example, known)  # noqa: S102  # it is ours
    queries = [q for q in known.values() if isinstance(q, Query)]
    whole = [q for q in queries if not isinstance(q.root, nodes.Session | nodes.RowWindow)]
    assert len(whole) >= len(EXAMPLES)
    for query in whole:
        Plan(query).compile()
