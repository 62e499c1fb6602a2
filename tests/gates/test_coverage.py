"""The floor of coverage only rises, and a line is traced to the tests that run it."""

from __future__ import annotations

import importlib.util
import sys
from types import ModuleType

import pytest
from coverage import CoverageData

from tests.gates.repository import ROOT


def script(name: str) -> ModuleType:
    """A program of scripts/, which is no package."""
    spec = importlib.util.spec_from_file_location(f"scripts_{name}", ROOT / f"scripts/{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


tests_of = script("tests_of")
coverage_floor = script("coverage_floor")

MERGE, FRAME = "/r/merge/r3.py", "/r/protocol/frame.py"
RECORDED = {
    "tests/merge/test_r3.py::test_a": {MERGE: {1, 2, 3}, FRAME: {9}},
    "tests/merge/test_r3.py::test_b": {MERGE: {3, 4}},
    "tests/chaos/test_all.py::test_c": {MERGE: {1, 2, 3, 4}, FRAME: set(range(96))},
}
LINES = {
    test: {file: frozenset(lines) for file, lines in files.items()}
    for test, files in RECORDED.items()
}


@pytest.mark.parametrize(
    ("measured", "floor", "committed", "holds", "says"),
    [
        (88.0, 87.5, 87.5, True, "the floor is 87.5 %"),
        (87.4, 87.5, 87.5, False, "below the floor of 87.5 %"),
        (95.0, 87.0, 87.5, False, "only rises: put 87.5"),
        (90.0, 87.5, 87.5, True, "put 89.5 into coverage_floor.txt"),
        (90.0, 89.0, 87.5, True, "put 89.5 into coverage_floor.txt"),
    ],
)
def test_coverage_fails_below_the_floor_and_the_floor_never_sinks(
    measured: float, floor: float, committed: float, holds: bool, says: str
) -> None:
    told = coverage_floor.verdict(measured, floor, committed)
    assert told[0] is holds
    assert says in told[1]


def test_the_floor_is_one_number_and_not_below_the_committed_one() -> None:
    floor = float(coverage_floor.FLOOR.read_text("utf-8"))
    assert coverage_floor.committed_floor() <= floor < 100


def test_the_tests_of_a_line_are_told_with_the_most_specific_first() -> None:
    found = tests_of.hits(LINES, MERGE, 3)
    assert [(hit.name[-1], hit.lines) for hit in found] == [("b", 2), ("a", 3), ("c", 4)]
    assert [hit.share for hit in found] == [1.0, 0.75, 0.04]
    assert [hit.name[-1] for hit in tests_of.hits(LINES, MERGE, 1)] == ["a", "c"]
    assert tests_of.hits(LINES, MERGE, 5) == []


def test_the_tests_of_a_file_are_told_by_their_files() -> None:
    found = tests_of.hits(tests_of.by_file(LINES), MERGE)
    assert [(hit.name, hit.lines, hit.elsewhere) for hit in found] == [
        ("tests/merge/test_r3.py", 4, 1),
        ("tests/chaos/test_all.py", 4, 96),
    ]


def test_what_is_recorded_comes_back_and_the_phases_of_a_test_are_one() -> None:
    data = CoverageData(no_disk=True)
    for test, files in RECORDED.items():
        for phase in ("setup", "run"):
            data.set_context(f"{test}|{phase}")
            data.add_lines({file: lines if phase == "run" else [] for file, lines in files.items()})
    data.set_context("")  # at import: no test's
    data.add_lines({MERGE: {1}})
    assert tests_of.recorded(data, MERGE) == LINES
    assert tests_of.recorded(data, FRAME) == {t: f for t, f in LINES.items() if FRAME in f}


def test_more_tests_than_a_person_reads_are_counted() -> None:
    many = [tests_of.Hit(f"t{n}", 1, n) for n in range(tests_of.SHOWN + 2)]
    told = tests_of.told(many)
    assert len(told) == tests_of.SHOWN + 1
    assert told[-1] == "... and 2 more"


@pytest.mark.parametrize(
    ("arguments", "says"), [((), "say which file"), (("merge/r3.py:x",), "x is no line")]
)
def test_what_cannot_be_answered_says_what_to_do(arguments: tuple[str, ...], says: str) -> None:
    assert says in str(tests_of.main(*arguments))
