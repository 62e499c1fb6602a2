"""The items of a select list: what each is called, and which stand for several columns."""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from gapless.sql_queries.clause import Direct
from gapless.sql_queries.places import Text
from gapless.sql_queries.relation import WINDOW_FIELDS, Relation, resolve


@dataclass(frozen=True, slots=True)
class Item:
    """One column of the answer."""

    name: str
    node: exp.Expr
    """What it is, without its name."""


def items_of(select: exp.Select, relation: Relation, text: Text) -> list[Item]:
    """The items, with stars spelled out."""
    found: list[Item] = []
    for node in select.expressions:
        if _is_star(node):
            found += _spelled_out(node, relation, text)
        else:
            found.append(_item(node, relation, text))
    seen: set[str] = set()
    for item in found:
        if item.name in seen:
            raise text.error(
                f"two columns would be called {item.name!r}: name one with AS", item.node
            )
        seen.add(item.name)
    return found


def _is_star(node: exp.Expr) -> bool:
    return isinstance(node, exp.Star) or (
        isinstance(node, exp.Column) and isinstance(node.this, exp.Star)
    )


def _spelled_out(node: exp.Expr, relation: Relation, text: Text) -> list[Item]:
    table = node.table if isinstance(node, exp.Column) else ""
    if node.args.get("except_") or node.args.get("replace"):
        raise text.error("* stands alone: list the columns", node)
    if table and not relation.has_table(table):
        raise text.error(f"no table {table!r} here", node)
    if not table:
        names = relation.query.schema.names
        by_column = {f.column: f.name for f in reversed(relation.fields)}
        plain = len(relation.tables) < 2
        return [Item(by_column.get(n, n) if plain else n, _column(n, node)) for n in names]
    fields = [f for f in relation.fields if f.table.lower() == table.lower()]
    return [Item(f.name, _column(f.column, node)) for f in fields]


def _column(name: str, star: exp.Expr) -> exp.Expr:
    made = Direct(this=name)
    made.meta["start"] = star.meta.get("start", 0)
    return made


def _item(node: exp.Expr, relation: Relation, text: Text) -> Item:
    if isinstance(node, exp.Alias):
        return Item(node.alias, node.this)
    inner = node
    while isinstance(inner, exp.Paren):
        inner = inner.this
    match inner:
        case exp.Column():
            if relation.is_window_field(inner) or inner.name.lower() in WINDOW_FIELDS:
                return Item(inner.name, inner)
            return Item(resolve(inner, relation, text).name, inner)
        case exp.Anonymous():
            return Item(inner.name.lower(), inner)
        case exp.Filter() | exp.Window() if isinstance(inner.this, exp.Anonymous):
            return Item(inner.this.name.lower(), inner)
    raise text.error("this column has no name: give it one with AS", node)
