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
from gapless.chaos.limits import LIMITS
from gapless.chaos.limits_not_drawn import NOTHING_WAITS, REFUSES, TRIED_BY
from gapless.chaos.limits_of_shells import NO_TEST_CAN, REACHED_BY

SOURCES = Path(gapless.__file__).parent
FOLDERS = ("failover", "merge", "journal")
"""Whose bounds the simulator comes to: machines, LMerge, journals."""
SHELLS = ("actors", "sidecar")
"""Whose bounds it does not come to: what is around machines."""
TESTS = Path(__file__).parents[1]
BOUND = re.compile(
    r"(^|_)(MAX|MIN|MS|BYTES|ROWS|FRAMES|EVERY|FACTOR|KEPT|CREDITS|FEW|LISTING|CHARS|DIGITS|SPAWNERS)$"
)
"""What a bound's name ends with."""


def bounds_of(folder: str) -> Iterator[str]:
    """Every name of a module of a folder that is a bound."""
    for path in sorted((SOURCES / folder).glob("*.py")):
        for node in ast.parse(path.read_text()).body:
            match node:
                case (
                    ast.Assign(targets=[ast.Name(id=name)])
                    | ast.AnnAssign(target=ast.Name(id=name))
                ) if BOUND.search(name) and name.isupper() and not name.startswith("_"):
                    yield f"{folder}.{path.stem}.{name}"


@pytest.mark.parametrize("folder", FOLDERS)
def test_every_bound_is_drawn_or_explained(folder: str) -> None:
    there = set(bounds_of(folder))
    assert there
    taken = {name for limit in LIMITS for name in (limit.bound, *limit.stands_for)}
    told = [taken, set(TRIED_BY), set(REFUSES), set(NOTHING_WAITS)]
    unknown = sorted(there.difference(*told))
    assert not unknown, f"in neither chaos/limits.py nor chaos/limits_not_drawn.py: {unknown}"
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
    assert not unknown, f"not in chaos/limits_of_shells.py: {unknown}"
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
