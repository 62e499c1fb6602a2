"""Filters: what is taken of Python's notation, what it means, and that nothing of it runs."""

from __future__ import annotations

import pytest

from gapless.protocol.errors import ExpressionError
from gapless.sidecar.server.filters import CHARS_MAX, parse_filter
from tests.sidecar.helpers import SCHEMA, frame_of

ROWS = frame_of("ins((A,1),6,9) ins((B,2),6,9) ins((C,3),6,9) ins((null,4),6,9)")

MEANINGS = {
    "n > 2": [3, 4],
    "1 < n <= 3": [2, 3],
    'src in ("A", "C")': [1, 3],
    'src not in ["A", "C"] and src is not None': [2],
    "src is None": [4],
    'not (n == 1) and (src == "B" or n % 2 == 0)': [2, 4],
    "n * 2 - 1 == 5 or -n == -1": [1, 3],
    'src == "A"': [1],
}


@pytest.mark.parametrize("text", MEANINGS)
def test_a_filter_means_what_python_means(text: str) -> None:
    passes = parse_filter(text, SCHEMA).evaluate(ROWS.payload).fill_null(False).to_pylist()
    numbers = ROWS.payload.column(1).to_pylist()
    assert [n for n, passed in zip(numbers, passes, strict=True) if passed] == MEANINGS[text]


REFUSED = (
    "",
    "n >",
    "n",
    "x > 1",
    "n > 'a'",
    "open('x')",
    "__import__('os').system('true')",
    "n.real > 1",
    "[n][0] > 1",
    "(lambda: True)()",
    "n if n else n",
    "n in 5",
    "n > 1or n < 0",
    "n is 5",
    "src in (n,)",
    "n in [{[]: 1}]",
    "n in [{[]}]",
    "n ** 9 > 1",
    "(n := 1) > 0",
    "f'{n}' == 'a'",
    "b'a' == src",
    "(" * 500 + "n" + ")" * 500 + " > 1",
    "not " * 900 + "(n > 1)",
    " or ".join(["n > 1"] * CHARS_MAX),
)


@pytest.mark.parametrize("text", REFUSED, ids=range(len(REFUSED)))
def test_what_is_no_filter_is_refused(text: str) -> None:
    with pytest.raises(ExpressionError):
        parse_filter(text, SCHEMA)
