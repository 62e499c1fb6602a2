"""Every bound of machines, of LMerge and of journals is tried, and it is said by what.

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

SOURCES = Path(gapless.__file__).parent
FOLDERS = ("failover", "merge", "journal")
"""Whose bounds the simulator comes to: machines, LMerge, journals."""
BOUND = re.compile(
    r"(^|_)(MAX|MIN|MS|BYTES|ROWS|FRAMES|EVERY|FACTOR|KEPT|CREDITS|FEW|LISTING|CHARS|DIGITS)$"
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
