"""Joins of FROM: by equal columns, and by what keeps rows from waiting for ever.

    flows f, hosts [RANGE 1 hour] h WHERE f.src = h.id        windows: rows join while both live
    a JOIN b ON a.k = b.k AND a.ts BETWEEN b.ts - .. AND ..   the same, as a distance of times
    a JOIN b FOR SYSTEM_TIME AS OF a.ts ON a.k = b.k          b's newest row of the key

Conditions of an inner join that read one side alone filter that side below the join.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from sqlglot import exp

from gapless.engine.nodes import How
from gapless.operators.join_columns import JoinColumns
from gapless.protocol.expr import Expr, col
from gapless.sql_queries.bands import Band, take_bounds
from gapless.sql_queries.expressions import Expressions, UserFunctions, combined
from gapless.sql_queries.places import Text
from gapless.sql_queries.relation import Field, Relation, resolve

_HOW: dict[str, How] = {"": "inner", "LEFT": "left", "RIGHT": "right", "FULL": "full"}
_UNDERSTOOD = {"this", "on", "using", "side", "kind", "method"}
Pairs = list[tuple[str, str]]


@dataclass
class Conditions:
    """What is known of a join: its conditions, sorted by what they become."""

    pairs: Pairs
    band: Band
    bounds: list[exp.Expr]
    """The conditions that the band was made of."""
    rest: list[exp.Expr]
    own: tuple[list[exp.Expr], list[exp.Expr]]
    """Those of one side alone."""


class Joiner:
    """Joins relations of one FROM."""

    def __init__(
        self, text: Text, functions: UserFunctions, mentioned: set[tuple[str, str]]
    ) -> None:
        """`mentioned`: tables and columns that the SELECT names together."""
        self._text = text
        self._functions = functions
        self._mentioned = mentioned

    def joined(
        self, left: Relation, right: Relation, join: exp.Join, conditions: list[exp.Expr]
    ) -> Relation:
        """Both, joined under these conditions."""
        how = self._how(left, right, join)
        sides = (left, right)
        found = self._sorted(sides, conditions, how)
        found.pairs = [*self._using(sides, join), *found.pairs]
        version = join.this.args.get("version")
        if version is not None:
            right = self._newest(sides, found, version, join)
        elif left.kind == right.kind == "rows":
            left, right = self._bounded(left, right, found, join)
        else:
            found.rest += found.bounds
        if how == "inner":
            left = self._filtered(left, found.own[0])
            right = self._filtered(right, found.own[1])
        else:
            left, right = self._with_keys(left, right, found.pairs, how, join)
        return self._together(left, right, found, how, join)

    # -- what is joined -----------------------------------------------------------------------

    def _how(self, left: Relation, right: Relation, join: exp.Join) -> How:
        unknown = next((n for n, v in join.args.items() if v and n not in _UNDERSTOOD), None)
        if unknown is not None:
            raise self._text.error(f"a join with {unknown.upper()} is not supported", join)
        kind, side = str(join.args.get("kind") or ""), str(join.args.get("side") or "")
        if join.args.get("method") or kind not in ("", "INNER", "OUTER", "CROSS"):
            word = join.args.get("method") or kind
            instead = f"JOIN {_name(right)} FOR SYSTEM_TIME AS OF {_time(left)}"
            advice = instead if word == "ASOF" else "write its condition ON"
            raise self._text.error(f"{word} JOIN is not supported: {advice}", join)
        if side not in _HOW:
            raise self._text.error(f"a {side} join is not supported", join)
        return _HOW[side]

    def _using(self, sides: tuple[Relation, Relation], join: exp.Join) -> Pairs:
        pairs = []
        for name in join.args.get("using") or []:
            column = exp.Column(this=name)
            columns = [resolve(column, side, self._text).column for side in sides]
            pairs.append((columns[0], columns[1]))
        return pairs

    def _sorted(
        self, sides: tuple[Relation, Relation], conditions: list[exp.Expr], how: How
    ) -> Conditions:
        found = Conditions([], Band(), [], [], ([], []))
        both_rows = sides[0].kind == sides[1].kind == "rows"
        for each in conditions:
            if self._is_same_window(each, sides):
                continue
            if both_rows and take_bounds(each, sides, found.band, self._text):
                found.bounds.append(each)
                continue
            pair = self._pair(each, sides)
            if pair is not None and self._is_free(pair, found.pairs):
                found.pairs.append(pair)
                continue
            used = sides_of(each, sides)
            if how == "inner" and len(used) == 1:
                found.own[used.pop()].append(each)
            else:
                found.rest.append(each)
        return found

    def _pair(self, node: exp.Expr, sides: tuple[Relation, Relation]) -> tuple[str, str] | None:
        """`left.a = right.b`, as columns."""
        if not isinstance(node, exp.EQ):
            return None
        first, second = node.this, node.expression
        if not isinstance(first, exp.Column) or not isinstance(second, exp.Column):
            return None
        for a, b in ((first, second), (second, first)):
            if sides_of(a, sides) == {0} and sides_of(b, sides) == {1}:
                return (
                    resolve(a, sides[0], self._text).column,
                    resolve(b, sides[1], self._text).column,
                )
        return None

    @staticmethod
    def _is_free(pair: tuple[str, str], pairs: Pairs) -> bool:
        return all(pair[0] != a and pair[1] != b for a, b in pairs)

    def _is_same_window(self, node: exp.Expr, sides: tuple[Relation, Relation]) -> bool:
        """`l.window_start = r.window_start`: what windows alone say already."""
        if not isinstance(node, exp.EQ):
            return False
        columns = (node.this, node.expression)
        if not all(isinstance(c, exp.Column) for c in columns):
            return False
        if not all(any(s.is_window_field(c) for s in sides) for c in columns):
            return False
        if sides[0].window != sides[1].window:
            raise self._text.error("the two windows differ: give both tables the same one", node)
        return True

    # -- what bounds it -----------------------------------------------------------------------

    def _bounded(
        self, left: Relation, right: Relation, found: Conditions, join: exp.Join
    ) -> tuple[Relation, Relation]:
        band = found.band
        if not band.is_bounded:
            problem = (
                "the times are compared in one direction only, so a row waits for ever"
                if band.is_there
                else "nothing bounds this join, so it would keep every row for ever"
            )
            raise self._text.error(
                f"{problem}: give the tables windows, as in {_name(right)} [RANGE 5 minutes], or "
                f"say ON .. AND {_time(right)} BETWEEN {_time(left)} - INTERVAL '5' MINUTE AND "
                f"{_time(left)} + INTERVAL '5' MINUTE",
                join,
            )
        if band.needs_condition:
            found.rest += found.bounds
        made = []
        for side, lasts in zip((left, right), band.ranges(), strict=True):
            with self._text.at(join):
                made.append(side if lasts == 1 else side.then(side.query.window(range=lasts)))
        return made[0], made[1]

    def _newest(
        self, sides: tuple[Relation, Relation], found: Conditions, version: Any, join: exp.Join
    ) -> Relation:
        """The right side as of the left's times: each row until its key's next one."""
        left, right = sides
        at = version.args.get("expression")
        if not isinstance(at, exp.Column) or resolve(at, left, self._text).column not in left.times:
            raise self._text.error(
                f"AS OF takes the time of the left side, {_time(left)}: other clocks differ from "
                "replica to replica",
                version,
            )
        if not found.pairs or right.kind != "rows":
            raise self._text.error(
                "FOR SYSTEM_TIME AS OF needs ON left.key = right.key, and a table of rows", join
            )
        with self._text.at(join):
            query = right.query.latest_by(*(b for _, b in found.pairs))
        return replace(right, query=query, kind="table")

    # -- building it --------------------------------------------------------------------------

    def _filtered(self, side: Relation, conditions: list[exp.Expr]) -> Relation:
        made = Expressions(side, self._text, self._functions)
        whole: Expr | None = combined([made.of(each) for each in conditions])
        return side if whole is None else side.then(side.query.where(whole))

    def _with_keys(
        self, left: Relation, right: Relation, pairs: Pairs, how: How, join: exp.Join
    ) -> tuple[Relation, Relation]:
        """In an outer join the `on` columns come from the side that is there. Where the text reads
        the column of a side that may be missing, that column comes along besides.
        """
        if join.args.get("using"):
            return left, right
        missing = {"left": (1,), "right": (0,), "full": (0, 1)}.get(how, ())
        made = [left, right]
        for number in missing:
            side = made[number]
            for pair in pairs:
                column = pair[number]
                fields = [f for f in side.fields if f.column == column]
                if not any((f.table.lower(), f.name.lower()) in self._mentioned for f in fields):
                    continue
                extra = f"{column}_{'left' if number == 0 else 'right'}"
                query = side.query.map(**{extra: col(column)})
                fields = [
                    replace(f, column=extra) if f.column == column else f for f in side.fields
                ]
                side = replace(side, query=query, fields=tuple(fields))
            made[number] = side
        return made[0], made[1]

    def _together(
        self, left: Relation, right: Relation, found: Conditions, how: How, join: exp.Join
    ) -> Relation:
        with self._text.at(join):
            names = JoinColumns(left.query.schema, right.query.schema, found.pairs, how).names
            fields = tuple(
                Field(f.table, f.name, names[number][f.column])
                for number, side in enumerate((left, right))
                for f in side.fields
            )
            tables = (*left.tables, *right.tables)
            whole = Relation(left.query, fields, "table", None, tables)
            made = Expressions(whole, self._text, self._functions)
            condition = combined([made.of(each) for each in found.rest])
            on: Any = found.pairs or None
            query = left.query.join(right.query, on=on, where=condition, how=how)
        return replace(whole, query=query)


def sides_of(node: exp.Expr, sides: tuple[Relation, Relation]) -> set[int]:
    """Which sides the columns of a node are of."""
    return {
        number
        for column in node.find_all(exp.Column)
        for number, side in enumerate(sides)
        if side.find(column) or side.is_window_field(column)
    }


def _name(side: Relation) -> str:
    return side.tables[0] if side.tables else "it"


def _time(side: Relation) -> str:
    named = next((f for f in side.fields if f.column in side.times), None)
    return f"{named.table}.{named.name}" if named is not None else f"{_name(side)}'s time"
