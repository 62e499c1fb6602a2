"""Where in the text something stands, and errors that show it.

line 1, column 8: no function 'conut': did you mean count?
SELECT conut(*) FROM flows
^
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from sqlglot import exp

from gapless.protocol.errors import ExpressionError, Misuse, SchemaError, SqlError

AT = "at"
"""What a node knows of its own word, as JOIN or LIMIT, where it has one."""
SHOWN_CHARS = 100
"""Of the line that is shown: one of a thousand characters is cut around the place."""


class Text:
    """The text of a script: makes errors that show a place in it."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def error(self, problem: str, at: exp.Expr | int) -> SqlError:
        """An error at a node, or at a number of characters from the start."""
        problem = _MISFIT.sub(_plain, problem)
        place = at if isinstance(at, int) else start_of(at)
        place = min(max(place, 0), len(self._text))
        begin = self._text.rfind("\n", 0, place) + 1
        end = self._text.find("\n", place)
        line = self._text[begin : end if end >= 0 else len(self._text)]
        column = place - begin
        cut = max(0, column - SHOWN_CHARS // 2)
        shown = line[cut : cut + SHOWN_CHARS].replace("\t", " ").rstrip()
        number = self._text.count("\n", 0, begin) + 1
        head = f"line {number}, column {column + 1}: {problem}"
        return SqlError(f"{head}\n  {shown}\n  {' ' * (column - cut)}^", number, column + 1)

    @contextmanager
    def at(self, node: exp.Expr) -> Iterator[None]:
        """Inside, what a step of the query raises is told at this node."""
        try:
            yield
        except SqlError:
            raise
        except (Misuse, ExpressionError, SchemaError) as e:
            raise self.error(str(e), node) from None


_MISFIT = re.compile(r"Function '\w+' has no kernel matching input types \((.*)\)")


def _plain(found: re.Match[str]) -> str:
    """What Arrow says of a function that these types do not suit."""
    types = [t for t in found[1].split(", ") if not t.startswith("struct")]
    if len(types) == 1:
        return f"it does not take {types[0]}"
    return f"{' and '.join(types)} do not go together: CAST one of them"


def start_of(node: exp.Expr) -> int:
    """Where a node begins: at its own word, or the first place of what is in it."""
    if AT in node.meta:
        return int(node.meta[AT])
    starts = [n.meta["start"] for n in node.walk() if "start" in n.meta]
    return int(min(starts, default=0))
