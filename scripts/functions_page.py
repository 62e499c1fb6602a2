"""Prints docs/functions.md, made from the table of functions; a test compares the two.

python scripts/functions_page.py > docs/functions.md
"""

from __future__ import annotations

import sys
from itertools import groupby

from gapless.protocol.function_table import Function
from gapless.protocol.sql_functions import table

TITLES = {
    "": "Any value",
    "gl": "Several values",
    "str": "Text",
    "dt": "Dates and times",
    "list": "Lists",
}
HEAD = """\
# Functions

For people who write queries. Columns (`gl.col("len")`) have these functions, in Python and in SQL.
Their answers are compared with DuckDB's; a note says where ours differs.

    flows.where(gl.col("src").str.starts_with("10.")).map(hour=gl.col("ts").dt.hour)

- Each is a function of `pyarrow.compute`, named in the table; those in brackets are ours. Any other
  that is scalar and deterministic is reached with `gl.call("utf8_swapcase", x)`.
- Null gives null, unless it says otherwise. Where a function has no answer (an overflow, the root
  of -1) its row goes [aside](engine.md), or stops the query.
- A pattern, a place or a unit is a constant, the same for all rows.
- Operators are Python's: `+ - * / // % **`, comparisons, `& | ~`.
- A guard works: a row fails only by what it needs. A branch of `case` or `if_else` is needed where
  its condition is true, a condition of `case` where none before it is, a value of `coalesce` where
  all before it are null, the right side of `&` where the left is not false, of `|` where it is not
  true. So `gl.case((n != 0, x / n))`, `(n != 0) & (x / n > 3)`; in SQL CASE, COALESCE, AND and OR.
"""


def page() -> str:
    """The page."""
    parts = [HEAD]
    for place, rows in groupby(table(), key=lambda row: row.place):
        parts.append(f"\n## {TITLES[place]}\n\n")
        parts.append("| Python | SQL | types | answer | `pyarrow.compute` |\n")
        parts.append("| --- | --- | --- | --- | --- |\n")
        parts += map(line, rows)
    return "".join(parts)


def line(row: Function) -> str:
    """A row of the table."""
    sql = ", ".join(code(spelling.text) for spelling in row.spellings)
    answer = f"{row.doc} {row.note}".strip()
    cells = [code(row.python), sql, row.types, answer, row.arrow]
    return "| " + " | ".join(cell.replace("|", r"\|") for cell in cells) + " |\n"


def code(text: str) -> str:
    """As code."""
    return f"`{text}`"


if __name__ == "__main__":
    sys.stdout.write(page())
