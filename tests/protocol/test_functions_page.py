"""docs/functions.md is the table of functions, as scripts/functions_page.py prints it."""

from __future__ import annotations

import importlib.util

from gapless.protocol.sql_functions import table
from tests.gates.repository import ROOT


def test_the_page_is_the_table() -> None:
    spec = importlib.util.spec_from_file_location("page", ROOT / "scripts/functions_page.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    page = (ROOT / "docs/functions.md").read_text("utf-8")
    assert page == module.page(), "python scripts/functions_page.py > docs/functions.md"


def test_each_row_says_what_it_answers_once() -> None:
    names = [(row.place, row.name) for row in table()]
    assert len(set(names)) == len(names)
    assert all(row.doc.endswith(".") and row.types and row.arrow for row in table())
    keys = [spelling.key for row in table() for spelling in row.spellings]
    assert len(set(keys)) == len(keys)
