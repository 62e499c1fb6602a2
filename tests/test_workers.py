"""Which worker takes which file next."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.workers import LONG, OF_GRPC, OF_ONE_WORKER, longest_files, next_scope, rank_of, scope_of
from tests.workers import waits as starts_a_cluster

ROOT = Path(__file__).parents[1]
SPARK, RAY = "tests/spark_sources/", "tests/actors/test_deaths.py"
SEEDS, ENGINE = "tests/chaos/sim/test_seeds.py", "tests/engine/test_plan.py"
SIDECAR = "tests/sidecar/test_x.py"
QUEUE = [SPARK, RAY, SEEDS, ENGINE, SIDECAR]


def is_waiting(scope: str) -> bool:
    return scope in (SPARK, RAY)


def test_a_worker_takes_the_first_scope() -> None:
    assert next_scope(QUEUE, is_waiting, 0, 3) == SPARK
    assert next_scope(QUEUE[1:], is_waiting, 1, 3) == RAY


def test_one_worker_computes_while_all_others_wait() -> None:
    assert next_scope(QUEUE, is_waiting, 2, 3) == SEEDS
    assert next_scope([RAY, ENGINE], is_waiting, 1, 2) == ENGINE


def test_where_nothing_is_left_to_compute_all_wait() -> None:
    assert next_scope([SPARK, RAY], is_waiting, 2, 3) == SPARK


def test_a_single_worker_keeps_the_order() -> None:
    assert next_scope(QUEUE, is_waiting, 0, 1) == SPARK


def test_grpc_comes_after_all_that_forks() -> None:
    """A worker that finds nothing else to compute waits with the others instead."""
    assert next_scope([RAY, SIDECAR], is_waiting, 2, 3) == RAY


@pytest.mark.parametrize(
    ("nodeid", "marks", "rank"),
    [
        ("tests/spark_sources/test_x.py::test_it", ["spark"], 0),
        ("tests/actors/test_deaths.py::test_it", ["slow", "ray"], 1),
        (f"{LONG[0]}::test_it", [], 2),
        ("tests/engine/test_plan.py::test_it", ["slow"], 3),
        (f"{OF_GRPC[0]}test_x.py::test_it", ["ray"], 4),
    ],
)
def test_what_takes_longest_begins(nodeid: str, marks: list[str], rank: int) -> None:
    assert rank_of(nodeid, marks) == rank


def test_a_file_is_one_worker_s_and_some_folders_are() -> None:
    assert scope_of(f"{RAY}::test_it[a::b]") == RAY
    assert scope_of("tests/spark_sources/test_x.py::test_it") == OF_ONE_WORKER[0]


def test_what_starts_spark_or_ray_says_so_in_its_marks() -> None:
    assert starts_a_cluster(OF_ONE_WORKER[0], ROOT)
    assert starts_a_cluster(RAY, ROOT)
    assert not starts_a_cluster(ENGINE, ROOT)
    assert not starts_a_cluster(f"{OF_GRPC[0]}test_x.py", ROOT), "it comes last in any case"


def test_the_files_that_are_named_are_there() -> None:
    for name in (*LONG, *OF_ONE_WORKER, *OF_GRPC):
        assert (ROOT / name).exists(), name


def test_the_files_that_take_longest_are_those_whose_tests_do_together() -> None:
    def took(nodeid: str, seconds: float) -> pytest.TestReport:
        return pytest.TestReport(nodeid, ("", 0, ""), {}, "passed", None, "call", duration=seconds)

    reports = [took("a.py::one", 2.0), took("b.py::one", 3.0), took("a.py::two", 2.0)]
    assert longest_files(reports) == [("a.py", 4.0), ("b.py", 3.0)]
