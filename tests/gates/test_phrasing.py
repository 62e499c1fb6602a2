"""Plain English: no phrase that a newcomer has to decode, anywhere that people read."""

from __future__ import annotations

import pytest

from tests.gates.phrasing import BANNED, found
from tests.gates.repository import ROOT, files

READ = (
    "*.md",
    "*.py",
    "*.pyi",
    "*.hpp",
    "*.cpp",
    "*.proto",
    "*.toml",
    "*.sh",
    "*.yaml",
    "Makefile",
)
OLD = ("docs/decisions/", "CHANGELOG.md")
"""Kept as they were written."""
RULES = "tests/gates/phrasing.py", "tests/gates/test_phrasing.py"


def test_nothing_that_people_read_has_a_banned_phrase() -> None:
    told = [
        f"{name}:{line}: {phrase!r}: write {instead}"
        for path in files(*READ)
        if not (name := str(path.relative_to(ROOT))).startswith((*OLD, *RULES))
        for line, phrase, instead in found(path.read_text("utf-8"))
    ]
    assert not told, "\n" + "\n".join(told)


@pytest.mark.parametrize(
    ("text", "phrase"),
    [
        ("from the begin on", "the begin"),
        ("# it goes on\n    # with the next", "goes on with"),
        ("// a schema that\n// is none", "that is none"),
        ('"""Whoever asks."""', "Whoever"),
    ],
)
def test_a_phrase_is_found_also_over_the_end_of_a_line(text: str, phrase: str) -> None:
    assert [each for _, each, _ in found(text)] == [phrase]


@pytest.mark.parametrize(
    "text", ["the beginning", "def test_whoever_asks", "it is none of these", "`whoever`"]
)
def test_what_only_looks_like_one_is_left_alone(text: str) -> None:
    assert not list(found(text))


def test_each_phrase_has_a_replacement_that_is_not_banned() -> None:
    assert not [each for instead in BANNED.values() for each in found(instead)]
