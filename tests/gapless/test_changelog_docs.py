"""docs/changelog-streams.md, and the examples that it links to, do what they say."""

import contextlib
import io
from pathlib import Path

import pytest

import gapless.changelog

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "changelog-streams.md"
EXAMPLES = sorted((ROOT / "examples" / "changelogs").glob("*.py"))


def blocks() -> str:
    """The page's programs, as one."""
    found = [block.split("```")[0] for block in PAGE.read_text().split("```python\n")[1:]]
    assert len(found) > 4
    return "".join(found)


def prints_what_it_shows(example: str, name: str) -> bool:
    """Whether it prints its own comments, line by line."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(example, name, "exec"), {})  # noqa: S102  # our own text
    shown = [line[2:] for line in example.splitlines() if line.startswith("# ")]
    return bool(shown) and printed.getvalue().splitlines() == shown


def test_the_examples_of_the_page_run() -> None:
    assert prints_what_it_shows(blocks(), PAGE.name)


@pytest.mark.parametrize("file", EXAMPLES, ids=lambda file: file.stem)
def test_the_examples_that_the_page_links_to_run(file: Path) -> None:
    assert f"examples/changelogs/{file.name}" in PAGE.read_text()
    assert prints_what_it_shows(file.read_text(), file.name)


def test_there_are_such_examples() -> None:
    assert len(EXAMPLES) == 2


def test_every_public_name_is_there_and_explained() -> None:
    for name in gapless.changelog.__all__:
        assert getattr(gapless.changelog, name).__doc__
