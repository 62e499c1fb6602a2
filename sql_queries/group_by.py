"""Aggregates: GROUP BY, HAVING, and select lists with aggregates in them.

    SELECT src, count(*) AS n, sum(len * 8) AS bits FROM .. GROUP BY src HAVING count(*) > 9

    .map(arg_1=col("len") * 8).group_by("src").aggregate(n=count(), bits=sum("arg_1"))
    .where(col("n") > 9)

GROUP BY a column of the time needs no window: each of its values is an instant, and its answer is
final once that has passed. Any other aggregate of rows without a window is of all rows so far, and
is answered anew at each row of its group.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from sqlglot import exp

from gapless.engine.query import Query
from gapless.engine.row_counts import rows
from gapless.protocol.expr import Expr, col
from gapless.sql_queries.aggregate_calls import AggregateCalls, is_aggregate
from gapless.sql_queries.clause import Direct
from gapless.sql_queries.expressions import Expressions, UserFunctions, conjuncts
from gapless.sql_queries.items import Item
from gapless.sql_queries.places import Text
from gapless.sql_queries.relation import Relation, resolve
from gapless.sql_queries.selection import selected


@dataclass(frozen=True, slots=True)
class _Key:
    """What rows are grouped by."""

    node: exp.Expr
    column: str


class Grouping:
    """The groups of one SELECT, and what is asked of each."""

    def __init__(
        self,
        relation: Relation,
        select: exp.Select,
        items: list[Item],
        text: Text,
        functions: UserFunctions,
    ) -> None:
        self._relation = relation
        self._text = text
        self._groups = Expressions(relation, text, functions, self._of_group)
        self._items = items
        self._calls = AggregateCalls(relation, text, functions)
        self._windows_named = False
        self._keys: list[_Key] = []
        group = select.args.get("group")
        if group is not None:
            self._take_keys(group)
        else:
            self._keys = [_Key(exp.column(name), name) for name in relation.partition]
        self._having = select.args.get("having")
        self._is_having = False
        self._select = select

    def answer(self) -> Relation:
        """The relation of the answers, its columns those of the select list."""
        self._check_bounded()
        for key in self._keys:
            self._calls.take(key.column)
        for item in self._items:
            if is_aggregate(item.node):
                self._calls.column_of(item.node, item.name)
            elif isinstance(item.node, exp.Column) and self._relation.is_window_field(item.node):
                self._calls.fact_of(item.node, item.name)
        columns = [(item.name, self._groups.of(item.node)) for item in self._items]
        conditions = conjuncts(self._having.this) if self._having is not None else []
        self._is_having = True
        kept = [self._groups.of(each) for each in conditions]
        query = self._aggregated()
        with self._text.at(self._having or self._select):
            for each in kept:
                query = query.where(each)
        with self._text.at(self._select):
            query = selected(query, columns)
        return replace(Relation.of(query, "", "table"), tables=())

    # -- keys ---------------------------------------------------------------------------------

    def _take_keys(self, group: exp.Group) -> None:
        if group.args.get("all") and not group.expressions:
            for item in self._items:
                if not any(is_aggregate(node) for node in item.node.walk()):
                    self._take_key(item.node)
            return
        for name, value in group.args.items():
            if value and name != "expressions":
                raise self._text.error(
                    f"GROUP BY {name.upper().replace('_', ' ')} is not supported: write one "
                    "SELECT for each grouping, and UNION ALL",
                    group,
                )
        for each in group.expressions:
            if isinstance(each, exp.Rollup | exp.Cube | exp.GroupingSets):
                raise self._text.error(
                    f"{each.key.upper()} is not supported: write one SELECT for each grouping, "
                    "and UNION ALL",
                    each,
                )
            self._take_key(self._meant(each))

    def _meant(self, node: exp.Expr) -> exp.Expr:
        """What an ordinal or the name of an item stands for."""
        if isinstance(node, exp.Literal) and not node.is_string:
            number = int(node.name) if node.name.isdigit() else 0
            if not 1 <= number <= len(self._items):
                raise self._text.error(f"there are {len(self._items)} columns", node)
            return self._items[number - 1].node
        if isinstance(node, exp.Column) and not self._relation.find(node) and not node.table:
            for item in self._items:
                if item.name.lower() == node.name.lower():
                    return item.node
        return node

    def _take_key(self, node: exp.Expr) -> None:
        while isinstance(node, exp.Paren):
            node = node.this
        if isinstance(node, exp.Column) and self._relation.is_window_field(node):
            self._windows_named = True
            return
        if isinstance(node, exp.Column):
            column = resolve(node, self._relation, self._text).column
        else:
            named = next((i.name for i in self._items if i.node == node), None)
            column = self._calls.compute(node, named)
        if all(key.column != column for key in self._keys):
            self._keys.append(_Key(node, column))

    def _check_bounded(self) -> None:
        relation = self._relation
        if relation.is_function and not self._windows_named:
            raise self._text.error(
                "the window has to be named: GROUP BY window_start, window_end", self._place()
            )

    def _so_far(self, query: Query, keys: list[str]) -> Query:
        """All rows so far, answered at each row of a group."""
        if not self._calls.functions:
            return query.window(range="all")
        return query.window(range="all", slide=rows(1), partition_by=tuple(keys))

    def _place(self) -> exp.Expr:
        found: exp.Expr = self._select.args.get("group") or self._select
        return found

    # -- the columns of the answer ------------------------------------------------------------

    def _of_group(self, node: exp.Expr) -> Expr | None:
        """What a node is where rows are grouped; None for what its parts make of it."""
        if is_aggregate(node):
            return col(self._calls.column_of(node))
        for key in self._keys:
            if node == key.node:
                return col(key.column)
        if isinstance(node, exp.Column) and self._is_having:
            item = self._item(node)
            if item is not None:
                return self._groups.of(item.node)
        if isinstance(node, exp.Column | Direct):
            return col(self._column(node))
        return None

    def _item(self, node: exp.Column) -> Item | None:
        """The item that a name in HAVING means, where it is no key: `count(*) AS n .. HAVING n`."""
        found = self._relation.find(node)
        if node.table or any(key.column == f.column for key in self._keys for f in found):
            return None
        same = (i for i in self._items if i.name.lower() == node.name.lower())
        return next((i for i in same if i.node != node), None)

    def _column(self, node: exp.Expr) -> str:
        if isinstance(node, exp.Column) and self._relation.is_window_field(node):
            return self._calls.fact_of(node)
        if isinstance(node, exp.Column):
            column = resolve(node, self._relation, self._text).column
        else:
            column = str(node.this)
        if any(key.column == column for key in self._keys):
            return column
        raise self._text.error(
            f"{node.name!r} is neither in GROUP BY nor in an aggregate, as in max({node.name})",
            node,
        )

    def _aggregated(self) -> Query:
        keys = [key.column for key in self._keys]
        relation = self._relation
        with self._text.at(self._place()):
            query = relation.computed(self._calls.computed)
            if relation.kind == "rows" and not relation.times & set(keys):
                query = self._so_far(query, keys)
            if not self._calls.functions:
                return query.distinct(*keys)
            if not keys:
                return query.aggregate(**self._calls.functions)
            return query.group_by(*keys).aggregate(**self._calls.functions)
