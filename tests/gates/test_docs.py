"""The documents: each link leads somewhere, and the glossary has few words, each once, in order."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.gates.repository import ROOT

PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
LINK = re.compile(r"\]\((?!https?://|mailto:)([^)#\s]*)(?:#([^)\s]*))?\)")
FENCED = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)
WORDS_MAX = 28_000
"""Of README and manual, decisions apart, by `cat README.md docs/*.md | wc -w`: what is new is said
in place of something."""
PAGE_WORDS_MAX = {"windows.md": 2_400, "sql.md": 2_000, "functions.md": 4_000}
"""Of the pages that a language needs of its own, for those who write in it: each has its bound."""
ENTRIES_MAX = 100
"""Of the glossary: a newcomer reads it whole."""


def anchors(page: Path) -> set[str]:
    """What a link may name behind `#`: the headings, as they are anchored on the web."""
    heads = re.findall(r"^#+ (.*)$", FENCED.sub("", page.read_text("utf-8")), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in heads}


def broken(page: Path) -> Iterator[str]:
    """The links of a page that lead nowhere."""
    for path, anchor in LINK.findall(FENCED.sub("", page.read_text("utf-8"))):
        target = (page.parent / path).resolve() if path else page
        if not target.exists() or (anchor and anchor not in anchors(target)):
            yield f"{path}#{anchor}" if anchor else path


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_leads_to_a_page_and_a_heading_that_are_there(page: Path) -> None:
    assert list(broken(page)) == []


def test_a_link_that_leads_nowhere_is_seen(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# A `b` c\n[x](page.md#a-b-c) [y](#a-b) [z](gone.md) [w](https://gone)\n")
    assert list(broken(page)) == ["#a-b", "gone.md"]


def test_the_glossary_has_few_words_each_once_and_in_order() -> None:
    text = (ROOT / "docs" / "glossary.md").read_text("utf-8")
    words = re.findall(r"^- \*\*(.+?)\*\*: ", text, re.MULTILINE)
    assert len(words) == text.count("\n- ")
    assert 50 < len(words) <= ENTRIES_MAX
    assert words == sorted(set(words), key=str.casefold)


def words(page: Path) -> int:
    """As `wc -w` counts them: code, and the lines of a table, too."""
    return len(page.read_text("utf-8").split())


def test_the_manual_is_not_longer_than_people_read() -> None:
    pages = [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]
    assert sum(words(page) for page in pages if page.name not in PAGE_WORDS_MAX) <= WORDS_MAX
    for page in pages:
        assert words(page) <= PAGE_WORDS_MAX.get(page.name, WORDS_MAX), page.name


def test_every_word_is_counted(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# A b\n\n| c | `d e` |\n\n```\nf\n```\n\n    g - h\n")
    assert words(page) == 15
