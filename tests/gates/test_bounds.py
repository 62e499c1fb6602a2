"""Every bound of machines and of what is around them is tried, and it is said by what.

A bound that no test comes to is where a job stops for the first time at a user's.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import gapless
from gapless.chaos.sim.limits import LIMITS
from gapless.chaos.sim.limits_not_drawn import NOTHING_WAITS, REFUSES, TRIED_BY
from gapless.chaos.sim.limits_of_shells import NO_TEST_CAN, REACHED_BY

SOURCES = Path(gapless.__file__).parent
FOLDERS = ("failover", "merge", "journal")
"""Whose bounds the simulator comes to: machines, LMerge, journals."""
SHELLS = ("actors", "sidecar")
"""Whose bounds it does not come to: what is around machines."""
TOOLS = ("journal/generate", "sidecar/conformance")
"""Programs beside the product: what they take has no bound that a running job comes to."""
TESTS = Path(__file__).parents[1]
BOUND = re.compile(
    r"(^|_)(MAX|MIN|MS|BYTES|ROWS|FRAMES|EVERY|FACTOR|KEPT|CREDITS|FEW|LISTING|CHARS|DIGITS|SPAWNERS)$"
)
"""What a bound's name ends with."""


def bounds_of(folder: str) -> Iterator[str]:
    """Every name of a module of a folder that is a bound."""
    for path in sorted((SOURCES / folder).rglob("*.py")):
        module = path.relative_to(SOURCES).with_suffix("").as_posix()
        if module.startswith(TOOLS):
            continue
        for node in ast.parse(path.read_text()).body:
            match node:
                case (
                    ast.Assign(targets=[ast.Name(id=name)])
                    | ast.AnnAssign(target=ast.Name(id=name))
                ) if BOUND.search(name) and name.isupper() and not name.startswith("_"):
                    yield f"{module.replace('/', '.')}.{name}"


@pytest.mark.parametrize("folder", FOLDERS)
def test_every_bound_is_drawn_or_explained(folder: str) -> None:
    there = set(bounds_of(folder))
    assert there
    taken = {name for limit in LIMITS for name in (limit.bound, *limit.stands_for)}
    told = [taken, set(TRIED_BY), set(REFUSES), set(NOTHING_WAITS)]
    unknown = sorted(there.difference(*told))
    assert not unknown, (
        f"in neither chaos/sim/limits.py nor chaos/sim/limits_not_drawn.py: {unknown}"
    )
    own = {name for names in told for name in names if name.startswith(f"{folder}.")}
    assert not own - there, "there are no such bounds any more"
    assert all(sum(name in names for names in told) == 1 for name in own), "each in one list"


def test_that_test_sees_a_bound_that_nobody_has_told_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "merge").mkdir()
    (tmp_path / "merge" / "new.py").write_text("HEAP_ROWS_MAX = 3\nNAME = 'x'\n_SUM_BYTES = 4\n")
    monkeypatch.setattr("tests.gates.test_bounds.SOURCES", tmp_path)
    with pytest.raises(AssertionError, match=r"merge\.new\.HEAP_ROWS_MAX"):
        test_every_bound_is_drawn_or_explained("merge")


@pytest.mark.parametrize("folder", SHELLS)
def test_every_bound_around_machines_has_a_test_or_a_reason(folder: str) -> None:
    there = set(bounds_of(folder))
    assert there
    unknown = sorted(there - REACHED_BY.keys() - NO_TEST_CAN.keys())
    assert not unknown, f"not in chaos/sim/limits_of_shells.py: {unknown}"
    own = {name for name in (*REACHED_BY, *NO_TEST_CAN) if name.startswith(f"{folder}.")}
    assert not own - there, "there are no such bounds any more"
    assert not REACHED_BY.keys() & NO_TEST_CAN.keys(), "each in one list"


@pytest.mark.parametrize("bound", REACHED_BY)
def test_the_test_that_comes_to_a_bound_is_there(bound: str) -> None:
    path, _, name = REACHED_BY[bound].partition("::")
    assert f"\ndef {name}(" in (TESTS / path).read_text()


def test_that_test_sees_a_bound_around_machines_that_nobody_has_told_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "sidecar").mkdir()
    (tmp_path / "sidecar" / "new.py").write_text("CALLS_MAX = 3\n")
    monkeypatch.setattr("tests.gates.test_bounds.SOURCES", tmp_path)
    with pytest.raises(AssertionError, match=r"sidecar\.new\.CALLS_MAX"):
        test_every_bound_around_machines_has_a_test_or_a_reason("sidecar")


# -- the list that users read ----------------------------------------------------------------------

LIST = SOURCES.parents[1] / "docs" / "guarantees.md"


def in_list(text: str) -> Iterator[tuple[str, str]]:
    """Each bound of the lists of bounds with the file that it names: `A`, `B`, `folder/file.py`."""
    section = text.partition("\n## Bounds\n")[2].partition("\n## ")[0]
    for item in re.findall(r"^- (.*(?:\n  .*)*)", section, re.MULTILINE):
        names: list[str] = []
        for word in re.findall(r"`([^`]+)`", item):
            if word.endswith(".py"):
                yield from ((name, word) for name in names)
                names.clear()
            elif word.isidentifier():
                names.append(word)


def names_of(path: Path) -> set[str]:
    """What a file gives a name to: constants, and fields of its classes."""
    targets: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        match node:
            case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
                targets.add(name)
    return targets


def test_every_bound_in_the_list_is_in_the_file_that_it_names() -> None:
    told = list(in_list(LIST.read_text()))
    assert len(told) > 50
    gone = [(name, path) for name, path in told if name not in names_of(SOURCES / path)]
    assert not gone


def test_every_bound_of_failover_that_is_drawn_is_in_the_list() -> None:
    told = {f"{path[:-3].replace('/', '.')}.{name}" for name, path in in_list(LIST.read_text())}
    drawn = {limit.bound for limit in LIMITS if limit.bound.startswith("failover.")}
    assert not sorted(drawn - told), "docs/guarantees.md does not say what happens there"


def test_those_tests_read_the_list_as_a_person_does() -> None:
    page = (
        "\n## Bounds\n\nA:\n\n- x (`NO`,\n  `a/b.py`): y `c`\n- z (`d`): e\n\n## C\n- `E`, `f.py`\n"
    )
    assert list(in_list(page)) == [("NO", "a/b.py")]
