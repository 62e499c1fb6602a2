"""Texts that are a little wrong are refused, or read: nothing else is raised, and soon."""

from __future__ import annotations

import random
import re
from contextlib import suppress

import pytest

import gapless as gl
from tests.effort import cases
from tests.sql_queries.test_expressions import EXPRESSIONS
from tests.sql_queries.test_manual import BLOCKS
from tests.sql_queries.test_select import SAME, SOURCES
from tests.sql_queries.thesis import CASES
from tests.sql_queries.thesis import SOURCES as LINKS

TEXTS = [
    *SAME,
    *BLOCKS,
    *(case.text for case in CASES),
    *(f"SELECT {each} AS x FROM flows" for each in EXPRESSIONS),  # noqa: S608  # a test's own
]
WORD = re.compile(r"\w+|'[^']*'|\s+|[^\w\s]")
WORDS = [word for text in TEXTS for word in WORD.findall(text) if not word.isspace()]
TEXTS_TRIED = 500


def mutated(rng: random.Random) -> str:
    """A text with a few words gone, added, changed or moved."""
    words = WORD.findall(rng.choice(TEXTS))
    for _ in range(rng.choice((1, 1, 2, 3))):
        i, j = rng.randrange(len(words)), rng.randrange(len(words))
        match rng.randrange(4):
            case 0:
                words[i : i + rng.randint(1, 3)] = [""]
            case 1:
                words.insert(i, f" {rng.choice(WORDS)} ")
            case 2:
                words[i] = rng.choice(WORDS)
            case _:
                words[i], words[j] = words[j], words[i]
    return "".join(words)


@pytest.mark.filterwarnings("ignore")
def test_a_text_that_is_a_little_wrong_is_refused_or_read() -> None:
    for seed in range(cases(TEXTS_TRIED)):
        text = mutated(random.Random(seed))
        with suppress(gl.GaplessError):
            gl.sql(text, {**LINKS, **SOURCES})


@pytest.mark.parametrize(
    "text",
    [
        "SELECT len FROM flows WHERE 1 IN (src, 2)",
        "SELECT count(*) FROM SESSION(TABLE flows PARTITION BY , DESCRIPTOR(ts), INTERVAL '3' DAY)",
    ],
)
def test_what_has_raised_something_else_is_refused(text: str) -> None:
    with pytest.raises(gl.SqlError):
        gl.sql(text, SOURCES)
