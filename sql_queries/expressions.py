"""Expressions of the text as those of `gl.col`.

    len * 8 > 1000 AND src IN (1, 2)        (((len * 8) > 1000) & is_in(src, [1, 2]))

SQL's null rules are ours. One differs: `gl.col("x").is_in(...)` is never null. A condition of WHERE
cannot tell; elsewhere IN gives null for null. `/` divides in float64, as DuckDB does, and `%` takes
the sign of what is divided, as SQL's does.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

import pyarrow as pa
from sqlglot import exp

from gapless.engine.functions import UserFunction
from gapless.engine.functions import function as user_function
from gapless.protocol.conditions import case
from gapless.protocol.errors import ExpressionError, SchemaError
from gapless.protocol.expr import Expr, call, col, if_else, lit
from gapless.sql_queries import functions as table
from gapless.sql_queries import intervals
from gapless.sql_queries.aggregates import AGGREGATES
from gapless.sql_queries.casts import arrow_type, read_as
from gapless.sql_queries.clause import Direct
from gapless.sql_queries.elsewhere import ELSEWHERE, FUNCTIONS_ELSEWHERE
from gapless.sql_queries.near import nearest
from gapless.sql_queries.places import Text
from gapless.sql_queries.relation import Relation, resolve

UserFunctions = dict[str, tuple[Callable[..., Any], Any]]
"""Functions of the user by name: what is called, and the type that it gives."""

_BINARY: dict[type[exp.Expr], Callable[[Any, Any], Expr]] = {
    exp.Add: lambda a, b: a + b,
    exp.Sub: lambda a, b: a - b,
    exp.Mul: lambda a, b: a * b,
    exp.Div: lambda a, b: a / b,
    exp.Mod: partial(table.called, "%"),
    exp.Pow: partial(table.called, "POWER"),
    exp.DPipe: partial(table.called, "||"),
    exp.BitwiseAnd: partial(table.called, "&"),
    exp.BitwiseOr: partial(table.called, "|"),
    exp.RegexpLike: partial(table.called, "REGEXP_MATCHES"),
    exp.Like: partial(table.called, "LIKE"),
    exp.ILike: partial(table.called, "ILIKE"),
    exp.NullSafeNEQ: partial(table.called, "IS DISTINCT FROM"),
    exp.NullSafeEQ: partial(table.called, "IS NOT DISTINCT FROM"),
    exp.And: lambda a, b: a & b,
    exp.Or: lambda a, b: a | b,
}
_COMPARED: dict[type[exp.Expr], Callable[[Any, Any], Expr]] = {
    exp.EQ: lambda a, b: a == b,
    exp.NEQ: lambda a, b: a != b,
    exp.LT: lambda a, b: a < b,
    exp.LTE: lambda a, b: a <= b,
    exp.GT: lambda a, b: a > b,
    exp.GTE: lambda a, b: a >= b,
}


class Expressions:
    """Translates the expressions over one relation."""

    def __init__(
        self,
        relation: Relation,
        text: Text,
        functions: UserFunctions,
        instead: Callable[[exp.Expr], Expr | None] | None = None,
    ) -> None:
        """`instead` is asked first at every node: of grouped rows, aggregates are columns."""
        self.relation = relation
        self.text = text
        self._functions = functions
        self._instead = instead

    def computed(self, node: exp.Expr) -> Expr | UserFunction:
        """What may stand in a select list or in WHERE: also a function of the user."""
        name = node.name.lower() if isinstance(node, exp.Anonymous) else ""
        if name in self._functions:
            return self._users(node, name)
        return self.of(node)

    def condition(self, node: exp.Expr) -> Expr | UserFunction:
        """A condition that rows have to satisfy: null is as good as false."""
        if isinstance(node, exp.In):
            return self._told(node, self._listed)
        return self.computed(node)

    def of(self, node: exp.Expr) -> Expr:
        """The expression at a node."""
        if self._instead is not None:
            found = self._instead(node)
            if found is not None:
                return found
        return self._told(node, self._of)

    def _told(self, node: Any, translate: Callable[[Any], Expr]) -> Expr:
        """What it makes of a node; an error is told at the node."""
        try:
            return translate(node)
        except (table.BadArgument, ExpressionError, SchemaError) as e:
            raise self.text.error(str(e), node) from None

    def _of(self, node: exp.Expr) -> Expr:
        kind = type(node)
        known = _UNDERSTOOD | _BESIDES.get(kind, frozenset())
        unknown = next(
            (name for name, given in node.args.items() if given and name not in known), None
        )
        if unknown is not None and (kind in _BINARY or kind in _KINDS):
            raise self.text.error(
                f"{node.key.upper()} with {unknown.upper()} is not supported", node
            )
        if kind in _BINARY:
            made = _BINARY[kind](self.of(node.this), self.of(node.expression))
            return ~made if node.args.get("negate") else made
        translate = _KINDS.get(kind)
        if translate is None:
            advice = ELSEWHERE.get(kind)
            raise self.text.error(advice or f"{node.key.upper()} is not supported", node)
        return translate(self, node)

    # -- kinds --------------------------------------------------------------------------------

    def column(self, node: exp.Expr) -> Expr:
        """A column, as the text names it or as a star stands for it."""
        if isinstance(node, Direct):
            return col(str(node.this))
        if not isinstance(node, exp.Column) or isinstance(node.this, exp.Star):
            raise self.text.error(ELSEWHERE[exp.Star], node)
        return col(resolve(node, self.relation, self.text).column)

    def negative(self, node: exp.Neg) -> Expr:
        """-x; of a number a constant."""
        if isinstance(node.this, exp.Literal):
            return self.literal(node.this, negative=True)
        return -self.of(node.this)

    def interval(self, node: exp.Interval) -> Expr:
        """A length of time."""
        return intervals.literal(intervals.nanoseconds(node, self.text))

    def between(self, node: exp.Between) -> Expr:
        """Value BETWEEN low AND high."""
        value, low, high = self.alike(node.this, node.args["low"], node.args["high"])
        return value.between(low, high)

    def is_in(self, node: exp.In) -> Expr:
        """Value IN (..), null for null."""
        value = self.of(node.this)
        return if_else(value.is_null(), lit(None, "bool"), self._listed(node))

    def substring(self, node: exp.Substring) -> Expr:
        """SUBSTRING(value FROM start FOR length)."""
        ends = [node.args.get(k) for k in ("start", "length")]
        given = [self.of(each) for each in (node.this, *ends) if each is not None]
        return table.called("SUBSTRING", *given)

    def not_(self, node: exp.Not) -> Expr:
        """NOT, also within IS NOT NULL."""
        if isinstance(node.this, exp.Is) and isinstance(node.this.expression, exp.Null):
            return self.of(node.this.this).is_valid()
        return ~self.of(node.this)

    def literal(self, node: exp.Literal, negative: bool = False) -> Expr:
        """A number or a text."""
        if node.is_string:
            return lit(node.name)
        number = f"-{node.name}" if negative else node.name
        try:
            return lit(int(number))
        except ValueError:
            return lit(float(number))

    def compared(self, node: exp.Expr) -> Expr:
        """A comparison."""
        sides = (node.this, node.expression)
        if any(isinstance(side, exp.Null) for side in sides):
            raise self.text.error("comparing with NULL is never true: write IS NULL", node)
        return _COMPARED[type(node)](*self.alike(*sides))

    def alike(self, *nodes: exp.Expr) -> list[Expr]:
        """Values that are compared: a text that is written out is read as what the others are."""
        made = [self.of(node) for node in nodes]
        written = [isinstance(n, exp.Literal) and n.is_string for n in nodes]
        if not any(written) or all(written):
            return made
        to = self._type_of(made[written.index(False)])
        if to is None or pa.types.is_string(to) or pa.types.is_large_string(to):
            return made
        return [
            read_as(n.name, to, n, self.text) if is_written else each
            for n, each, is_written in zip(nodes, made, written, strict=True)
        ]

    def _type_of(self, value: Expr) -> pa.DataType | None:
        """The type of an expression over the rows; None of one over other columns."""
        with suppress(ExpressionError, SchemaError):
            return value.type(self.relation.query.schema.payload)
        return None

    def is_(self, node: exp.Is) -> Expr:
        """Value IS NULL, TRUE or FALSE."""
        value, what = self.of(node.this), node.expression
        if isinstance(what, exp.Null):
            return value.is_null()
        if isinstance(what, exp.Boolean):
            return call("coalesce", value if what.this else ~value, False)
        raise self.text.error("IS takes NULL, TRUE or FALSE", node)

    def _listed(self, node: exp.In) -> Expr:
        if node.args.get("query") or node.args.get("unnest"):
            raise self.text.error(
                "IN takes a list of values here: x IN (SELECT ..) stands in WHERE by itself or "
                "beside AND; for NOT IN write LEFT JOIN .. WHERE y IS NULL",
                node,
            )
        value, *made = self.alike(node.this, *node.expressions)
        values = [table.constant(each, "each value of IN") for each in made]
        if None in values:
            raise self.text.error("NULL in a list makes IN null: leave it out", node)
        return value.is_in(values)

    def cast(self, node: exp.Cast) -> Expr:
        """CAST(value AS type); of a text that is written out a constant."""
        to = arrow_type(node.args["to"], self.text)
        if isinstance(node.this, exp.Literal) and node.this.is_string:
            return read_as(node.this.name, to, node, self.text)
        return self.of(node.this).cast(to)

    def try_cast(self, node: exp.TryCast) -> Expr:
        """TRY_CAST(value AS type): null where it does not fit."""
        return self.of(node.this).try_cast(arrow_type(node.args["to"], self.text))

    def case(self, node: exp.Case) -> Expr:
        """CASE, with or without a subject."""
        subject = None if node.this is None else self.of(node.this)
        branches = []
        for branch in node.args["ifs"]:
            condition = self.of(branch.this)
            if subject is not None:
                condition = subject == condition
            branches.append((condition, self.of(branch.args["true"])))
        default = node.args.get("default")
        return case(*branches, otherwise=None if default is None else self.of(default))

    def trim(self, node: exp.Trim) -> Expr:
        """TRIM(BOTH characters FROM value)."""
        side = str(node.args.get("position") or "BOTH").upper()
        name = {"LEADING": "LTRIM", "TRAILING": "RTRIM"}.get(side, "TRIM")
        given = [each for each in (node.this, node.expression) if each is not None]
        return table.called(name, *(self.of(each) for each in given))

    # -- functions ----------------------------------------------------------------------------

    def called(self, node: exp.Anonymous) -> Expr:
        """A function by its name."""
        name = node.name.lower()
        if name in self._functions:
            raise self.text.error(
                f"{name}() is a function of yours: it stands alone in a select list or in WHERE; "
                "compute with it in a query around this one",
                node,
            )
        if name in AGGREGATES:
            raise self.text.error(
                f"{name}() is an aggregate: it stands in a select list or in HAVING; filter rows "
                "by it in HAVING, or in a query around this one",
                node,
            )
        if not table.is_function(name):
            known = [*table.names(), *AGGREGATES, *self._functions]
            meant = FUNCTIONS_ELSEWHERE.get(name)
            hint = f": {meant}" if meant else nearest(name, known)
            raise self.text.error(f"no function {name!r}{hint}", node)
        return table.called(name, *(self.of(each) for each in node.expressions))

    def _users(self, node: exp.Expr, name: str) -> UserFunction:
        call_, returns = self._functions[name]
        columns = []
        for each in node.expressions:
            if not isinstance(each, exp.Column):
                raise self.text.error(
                    f"{name}() takes columns: compute this one in a subquery first", each
                )
            columns.append(resolve(each, self.relation, self.text).column)
        with self.text.at(node):
            return user_function(call_, *columns, returns=returns)


_KINDS: dict[type[exp.Expr], Callable[[Expressions, Any], Expr]] = {
    **dict.fromkeys(_COMPARED, Expressions.compared),
    exp.Column: Expressions.column,
    Direct: Expressions.column,
    exp.Paren: lambda self, node: self.of(node.this),
    exp.Literal: Expressions.literal,
    exp.Boolean: lambda _, node: lit(bool(node.this)),
    exp.Null: lambda _self, _node: lit(None),
    exp.Neg: Expressions.negative,
    exp.Not: Expressions.not_,
    exp.Interval: Expressions.interval,
    exp.Anonymous: Expressions.called,
    exp.Is: Expressions.is_,
    exp.Between: Expressions.between,
    exp.In: Expressions.is_in,
    exp.TryCast: Expressions.try_cast,
    exp.Cast: Expressions.cast,
    exp.Case: Expressions.case,
    exp.Extract: lambda self, node: table.part_of(node.name, self.of(node.expression)),
    exp.Substring: Expressions.substring,
    exp.StrPosition: lambda self, node: table.called(
        "POSITION IN", self.of(node.args["substr"]), self.of(node.this)
    ),
    exp.Trim: Expressions.trim,
}
"""How each kind of node is translated, other than operators of two sides."""


_UNDERSTOOD = frozenset(("this", "expression", "expressions"))
_BESIDES: dict[type[exp.Expr], frozenset[str]] = {
    kind: frozenset(names)
    for kind, names in {
        exp.Div: ("typed", "safe"),
        exp.DPipe: ("safe",),
        exp.Like: ("negate",),
        exp.ILike: ("negate",),
        exp.Column: ("table",),
        exp.Literal: ("is_string",),
        exp.Interval: ("unit",),
        exp.Between: ("low", "high"),
        exp.In: ("query",),
        exp.TryCast: ("to", "safe", "requires_string"),
        exp.Cast: ("to", "safe"),
        exp.Case: ("ifs", "default"),
        exp.Substring: ("start", "length"),
        exp.StrPosition: ("substr",),
        exp.Trim: ("position",),
    }.items()
}
"""The arguments of each kind of node that are translated: any other is refused, and none is dropped
in silence."""


def conjuncts(node: exp.Expr | None) -> list[exp.Expr]:
    """The conditions that AND combines."""
    found: list[exp.Expr] = []
    waiting = [node] if node is not None else []
    while waiting:
        each = waiting.pop()
        if isinstance(each, exp.Paren) and isinstance(each.this, exp.And | exp.Paren):
            waiting.append(each.this)
        elif isinstance(each, exp.And):
            waiting += [each.expression, each.this]
        else:
            found.append(each)
    return found


def combined(conditions: list[Expr]) -> Expr | None:
    """All of them at once."""
    whole: Expr | None = None
    for each in conditions:
        whole = each if whole is None else whole & each
    return whole
