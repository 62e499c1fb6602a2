"""What ORDER BY names: columns of the answer, and what the answer does not show.

SELECT src, count(*) AS n FROM .. GROUP BY src ORDER BY n DESC, src LIMIT 3      columns of it
SELECT src FROM .. GROUP BY src ORDER BY sum(len) DESC LIMIT 3     a hidden one, dropped at last
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from sqlglot import exp

from gapless.sql_queries.aggregate_calls import is_aggregate
from gapless.sql_queries.clause import Direct
from gapless.sql_queries.items import Item
from gapless.sql_queries.places import AT, Text, start_of
from gapless.sql_queries.relation import WINDOW_FIELDS, Relation


@dataclass
class Ordering:
    """The items of a select list, and others that only an order needs."""

    items: list[Item]
    relation: Relation
    text: Text
    hidden: list[Item] = field(default_factory=list)

    def column(self, node: exp.Expr) -> exp.Expr:
        """What stands for a node over the answer: maybe the column of a hidden item."""
        while isinstance(node, exp.Paren):
            node = node.this
        if isinstance(node, exp.Literal) and not node.is_string:
            names = [item.name for item in self.items]
            return direct(ordinal(node, names, self.text), node)
        if isinstance(node, exp.Column) and not node.table:
            named = [i for i in self.items if i.name.lower() == node.name.lower()]
            exact = [i for i in named if i.name == node.name] or named
            if len(exact) == 1:
                return direct(exact[0].name, node)
        same = next((i for i in (*self.items, *self.hidden) if self._is(i.node, node)), None)
        if same is not None:
            return direct(same.name, node)
        if self._is_of_answer(node):
            return node
        return direct(self._hide(node).name, node)

    def _is(self, one: exp.Expr, other: exp.Expr) -> bool:
        if isinstance(one, exp.Column) and isinstance(other, exp.Column):
            found = self.relation.find(one)
            if len(found) == 1:
                return found == self.relation.find(other)
        return one == other

    def _is_of_answer(self, node: exp.Expr) -> bool:
        """Whether an expression has nothing but columns of the answer in it."""
        names = {item.name.lower() for item in self.items}
        return not any(is_aggregate(n) for n in node.walk()) and all(
            not column.table and column.name.lower() in names
            for column in node.find_all(exp.Column)
        )

    def _hide(self, node: exp.Expr) -> Item:
        taken = {item.name.lower() for item in (*self.items, *self.hidden)}
        name = node.name if isinstance(node, exp.Column) else ""
        if not name or name.lower() in taken or name.lower() in WINDOW_FIELDS:
            numbers = range(1, len(taken) + 2)
            name = next(n for i in numbers if (n := f"order_{i}") not in taken)
        self.hidden.append(Item(name, node))
        return self.hidden[-1]


def direct(column: str, node: exp.Expr) -> Direct:
    """A column by what the query calls it, at the place of a node."""
    made = Direct(this=column)
    made.meta[AT] = start_of(node)
    return made


def ordinal(node: exp.Expr, names: Sequence[str], text: Text) -> str:
    """The name of the column with that number."""
    number = int(node.name) if node.name.isdigit() else 0
    if not 1 <= number <= len(names):
        raise text.error(f"there are {len(names)} columns", node)
    return names[number - 1]
