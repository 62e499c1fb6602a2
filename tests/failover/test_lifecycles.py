"""Life cycles: each is drawn in lifecycles.md as it is, and has no state that nothing leads to."""

from __future__ import annotations

import ast
import importlib
import pkgutil
import re
from collections.abc import Mapping
from pathlib import Path

import pytest

from gapless import failover
from gapless.failover.lifecycles import Lifecycle

ROOT = Path(__file__).parents[2]
DOC = ROOT / "failover" / "lifecycles.md"
DRAWN = re.compile(
    r"^\*\*States of ([^*]+)\*\* \(`(failover/[\w/]+\.py)`\)[^\n]*\n\n((?: {4}.*\n)+)",
    re.MULTILINE,
)
"""A line that names the thing and the module of its table, and the diagram behind it."""


def lifecycles() -> dict[str, tuple[str, Lifecycle[str]]]:
    """Every table of the package, by what it is of, with the module that makes it."""
    found: dict[str, tuple[str, Lifecycle[str]]] = {}
    for info in pkgutil.walk_packages(failover.__path__, "gapless.failover."):
        module = importlib.import_module(info.name)
        made = {
            statement.target.id
            for statement in ast.parse(source_of(info)).body
            if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name)
        }
        for name, value in vars(module).items():
            if name in made and isinstance(value, Lifecycle):
                assert value.what not in found, f"two tables are of {value.what}"
                found[value.what] = path_of(info), value
    return found


def path_of(module: pkgutil.ModuleInfo) -> str:
    """Where a module of the package is, from the root of the repository."""
    name = module.name.removeprefix("gapless.").replace(".", "/")
    return f"{name}/__init__.py" if module.ispkg else f"{name}.py"


def source_of(module: pkgutil.ModuleInfo) -> str:
    """The text of a module of the package."""
    return (ROOT / path_of(module)).read_text()


TABLES = lifecycles()


def drawn(text: str) -> dict[str, tuple[str, str]]:
    """The diagrams of a page: of each thing its module, and what is drawn."""
    return {
        what: (module, re.sub("^ {4}", "", block, flags=re.MULTILINE).rstrip("\n"))
        for what, module, block in DRAWN.findall(text)
    }


def unreachable(table: Mapping[str, Mapping[str, str]]) -> set[str]:
    """The states that nothing leads to from the first one."""
    reached: set[str] = set()
    ahead = [next(iter(table))]
    while ahead:
        state = ahead.pop()
        if state not in reached:
            reached.add(state)
            ahead += table[state].values()
    return set(table) - reached


def words_of(module: pkgutil.ModuleInfo) -> set[str]:
    """The texts that a module's code uses, outside of its own tables and of what documents it."""
    tree = ast.parse(source_of(module))
    skipped = {
        id(inner)
        for node in ast.walk(tree)
        if (isinstance(node, ast.Call) and getattr(node.func, "id", "") == "Lifecycle")
        or (isinstance(node, ast.Subscript) and getattr(node.value, "id", "") == "Literal")
        or (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant))
        for inner in ast.walk(node)
    }
    constants = [n for n in ast.walk(tree) if isinstance(n, ast.Constant) and id(n) not in skipped]
    return {node.value for node in constants if isinstance(node.value, str)}


def test_the_docs_draw_every_life_cycle_as_its_table_has_it_and_no_other() -> None:
    wanted = {what: (module, life.diagram()) for what, (module, life) in TABLES.items()}
    assert drawn(DOC.read_text()) == wanted


def test_a_drawing_that_is_not_the_table_is_seen() -> None:
    what, (module, life) = next(iter(TABLES.items()))
    lines = [f"    {line}\n" for line in life.diagram().splitlines()]
    head, truth = f"**States of {what}** (`{module}`):\n\n", {what: (module, life.diagram())}
    assert drawn(head + "".join(lines)) == truth
    assert drawn(head + "".join(lines[:-1])) != truth
    assert drawn(head + "".join(lines[::-1])) != truth


@pytest.mark.parametrize("what", TABLES)
def test_every_state_of_a_life_cycle_can_be_reached(what: str) -> None:
    _, life = TABLES[what]
    assert unreachable(life.table) == set()


def test_a_state_that_nothing_leads_to_is_seen() -> None:
    assert unreachable({"a": {"go": "b"}, "b": {}, "c": {"go": "b"}}) == {"c"}


@pytest.mark.parametrize("what", TABLES)
def test_everything_that_can_happen_in_a_life_cycle_is_said_somewhere(what: str) -> None:
    """No row is dead: each cause is a word of the code, outside of the table."""
    _, life = TABLES[what]
    modules = pkgutil.walk_packages(failover.__path__, "gapless.failover.")
    said = set().union(*(words_of(module) for module in modules))
    causes = {cause for row in life.table.values() for cause in row}
    assert causes <= said
