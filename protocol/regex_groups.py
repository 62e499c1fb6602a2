r"""Regular expressions whose groups all have names, as Arrow's `extract_regex` wants them.

    ([a-z]+)@(\w+)      (?P<g0>(?P<g1>[a-z]+)@(?P<g2>\w+))

Group 0 is all that matches. A name that a group has already is put away: groups go by number.
"""

from __future__ import annotations

import re

_PARTS = re.compile(
    r"""
    \\Q.*?(?:\\E|$)                     # quoted text
    | \\.                               # an escaped character
    | \[\^?\]?(?:\[:[^]]*:\]|\\.|[^]])*\]   # a class
    | \(\?P?<[A-Za-z_]\w*>              # a group with a name
    | \(\?                              # a group that is not counted
    | \(                                # a group
    """,
    re.VERBOSE | re.DOTALL,
)


def named_groups(pattern: str) -> str:
    """The same expression with each group that counts named `g` and its number."""
    count = 0

    def named(part: re.Match[str]) -> str:
        nonlocal count
        text = part.group()
        if text == "(" or (text.endswith(">") and text.startswith("(?")):
            count += 1
            return f"(?P<g{count}>"
        return text

    inside = _PARTS.sub(named, pattern)
    return f"(?P<g0>{inside})"
