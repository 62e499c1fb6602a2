"""The thesis's window clause, as the parser leaves it in the tree.

    [RANGE 10 minutes, SLIDE 1 minute, WA ts]        Window(range=Span(10, minutes), ...)
    [RANGE 5 minutes, RATTR ts, SLIDE 5 rows, SATTR rank(ts)]
    [RANGE TUMBLING 5 minutes, WA ts]    [RANGE ALL, SLIDE 1 minute]    [RANGE 100 rows, PA src]

It stands behind an item of a select list, behind a table, or behind the last table of FROM.
windows.py says what each means.
"""

from __future__ import annotations

from typing import ClassVar

from sqlglot import exp

WORDS = {
    "RANGE": "range",
    "SLIDE": "slide",
    "WA": "wa",
    "WATTR": "wa",
    "RATTR": "rattr",
    "SATTR": "sattr",
    "PA": "pa",
}
"""The parameters, and what they are called here."""

ROW_NUMBER = "row-num"
"""The attribute of a row's rank in the order of time."""


class Clause(exp.Expression):
    """A window clause: its parameters by name."""

    arg_types: ClassVar = dict.fromkeys(set(WORDS.values()), False)


class Span(exp.Expression):
    """How far a window reaches, or slides: `this` of `unit`; ALL is a unit without a number."""

    arg_types: ClassVar = {"this": False, "unit": True, "tumbling": False}


class Attribute(exp.Expression):
    """What an attribute names: a column, or `row-num`; `rank` where rank(...) stands around it."""

    arg_types: ClassVar = {"this": True, "rank": False}


class Melded(exp.Expression):
    """`a UNION b` between tables: all rows of both."""

    arg_types: ClassVar = {"expressions": True, "alias": False}


class TableFunction(exp.Expression):
    """TUMBLE, HOP, CUMULATE or SESSION of a table: the arguments in order, some with a name."""

    arg_types: ClassVar = {"this": True, "expressions": True, "alias": False}


class Argument(exp.Expression):
    """One argument of a table function: a table, a DESCRIPTOR, or an expression."""

    arg_types: ClassVar = {"this": True, "name": False, "partition_by": False}


class Descriptor(exp.Expression):
    """DESCRIPTOR(column)."""

    arg_types: ClassVar = {"this": True}


class Direct(exp.Expression):
    """A column by what the query calls it: one that a star stands for."""

    arg_types: ClassVar = {"this": True}


CLAUSE = "clause"
"""The argument of an item or a table that holds its clause."""


def clause_of(node: exp.Expr) -> Clause | None:
    """The clause behind an item or a table."""
    found = node.args.get(CLAUSE)
    return found if isinstance(found, Clause) else None
