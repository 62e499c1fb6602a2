"""Every line of docs/sql.md does what it says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import gapless as gl
from gapless.sql_queries.script import Script

PAGE = (Path(__file__).parents[2] / "docs" / "sql.md").read_text("utf-8")
FENCED = re.compile(r"^```(\w+)\n(.*?)^```", re.DOTALL | re.MULTILINE)
BLOCKS = [text for language, text in FENCED.findall(PAGE) if language == "sql"]
TABLES, REST = BLOCKS[0], BLOCKS[1:]


def script() -> Script:
    """The tables of the page, and another like one of them."""
    made = Script()
    made.run(TABLES)
    made.tables["big2"] = made.tables["flows"]
    return made


@pytest.mark.parametrize("text", REST, ids=lambda text: text.splitlines()[0][:40])
def test_every_statement_is_a_query(text: str) -> None:
    answers = script().run(text)
    assert len(answers) == len([t for t in text.split(";\n") if not t.startswith("CREATE")])


def test_three_ways_to_write_a_window_are_one_query() -> None:
    first, *others = script().run(REST[0])
    assert len(others) == 2
    assert all(first.query.same_as(other.query) for other in others)


def test_the_error_is_the_one_shown() -> None:
    shown = next(text for language, text in FENCED.findall(PAGE) if language == "text")
    with pytest.raises(gl.SqlError) as raised:
        script().run(shown.splitlines()[1].strip())
    assert str(raised.value) == shown.rstrip("\n")
