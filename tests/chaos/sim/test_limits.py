"""Bounds are faults: each that is drawn is set wherever it counts, is reached, and comes back."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from pathlib import Path

import pytest

import gapless
from gapless.chaos.sim import limits, run_end
from gapless.chaos.sim.limits import BY_BOUND, LIMITS, Limit, Watched, drawn, limited
from gapless.chaos.sim.limits_not_drawn import TRIED_BY
from gapless.chaos.sim.replica_process import ReadPace
from gapless.chaos.sim.seed_runs import run_many
from gapless.chaos.sim.simulator import run_seed
from gapless.chaos.sim.workloads.all import WORKLOADS
from gapless.failover.job.desired import MERGERS_MAX, REPLICAS_MAX
from gapless.failover.merger import recent_rows as recent
from gapless.failover.merger.inputs import LINKS_MAX, LIVES_MAX
from gapless.failover.replica.effects import Position
from gapless.failover.replica.sources import Sources
from tests.effort import cases

TESTS = Path(__file__).parents[2]
SOURCES = Path(gapless.__file__).parent
REACHED_WITHIN = 60
"""Seeds within which a run reaches a bound that it has drawn; most are reached by the first."""


def imports_of(bound: str) -> Iterator[str]:
    """The modules that import a bound's name, so that it has to be set there as well."""
    module, _, name = bound.rpartition(".")
    for path in sorted(path for folder in SOURCES.iterdir() for path in folder.rglob("*.py")):
        text = path.read_text()
        if path.parent.name == "checkers":  # they judge a run by the product's own bounds
            continue
        if f"gapless.{module} import" not in text or name not in text:
            continue
        for node in ast.walk(ast.parse(text)):
            if not isinstance(node, ast.ImportFrom) or node.module != f"gapless.{module}":
                continue
            if any(alias.name == name for alias in node.names):
                yield path.relative_to(SOURCES).with_suffix("").as_posix().replace("/", ".")


def defaults_of(bound: str) -> Iterator[str]:
    """Functions that take a bound for what they are given by default: it is looked up once."""
    module, _, name = bound.rpartition(".")
    for where in (module, *imports_of(bound)):
        tree = ast.parse((SOURCES / f"{where.replace('.', '/')}.py").read_text())
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef):
                given = [*node.args.defaults, *(d for d in node.args.kw_defaults if d)]
                if any(
                    isinstance(n, ast.Name) and n.id == name for d in given for n in ast.walk(d)
                ):
                    yield f"{where}.{node.name}"


# -- where a bound is looked up --------------------------------------------------------------------


@pytest.mark.parametrize("limit", LIMITS, ids=lambda limit: limit.bound)
def test_a_bound_is_set_wherever_it_is_looked_up(limit: Limit) -> None:
    assert set(imports_of(limit.bound)) == set(limit.others)
    assert not list(defaults_of(limit.bound)), "a default is looked up when the module is loaded"
    assert limit.least <= limit.most
    for module in limit.modules():
        assert type(vars(module)[limit.name]) is int
        assert vars(module)[limit.name] >= limit.most, "what is drawn is small"


@pytest.mark.parametrize("bound", TRIED_BY)
def test_what_tries_a_bound_in_place_of_a_simulation_is_there(bound: str) -> None:
    path, _, name = TRIED_BY[bound].partition("::")
    assert f"\ndef {name}(" in (TESTS / path).read_text()
    module, _, constant = bound.rpartition(".")
    assert hasattr(import_module(f"gapless.{module}"), constant)


def test_a_merger_has_room_for_every_life_of_every_slot() -> None:
    """So that no successor is refused because of lives that only it would replace."""
    assert LINKS_MAX >= REPLICAS_MAX * LIVES_MAX + MERGERS_MAX


# -- what is drawn is set, reached and taken back -------------------------------------------------


@pytest.mark.parametrize(
    "limit", [limit for limit in LIMITS if limit.is_seen], ids=lambda limit: limit.bound
)
def test_a_limit_that_is_drawn_is_reached_and_the_job_goes_on(limit: Limit) -> None:
    values = {limit.bound: limit.least, **limit.along}
    for seed in range(REACHED_WITHIN):
        result = run_seed(seed, limits=values)
        assert result.ok, f"seed {seed}: {result.problem}"
        if limit.bound in result.reached:
            return
    pytest.fail(f"in {REACHED_WITHIN} runs nothing came to {limit.bound}={limit.least}")


def test_a_table_in_parts_of_a_row_has_the_time_that_so_many_round_trips_take(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The last fault of this seed ends late: the subscriber then fetches some hundred rows, one
    after the other.
    """
    values = {"failover.merger.openings.PART_ROWS_MAX": 1}
    assert run_seed(12, workload=WORKLOADS["filter"], limits=values).ok
    monkeypatch.setattr(run_end, "PART_MS", 0)  # broken: as long as for a table in one part
    assert run_seed(12, workload=WORKLOADS["filter"], limits=values).checker == "converge"


def test_what_was_read_ahead_is_read_anew_in_a_run_whose_pace_falls(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    values = {"failover.io.replica_io.READ_AHEAD_TIMES_MAX": 1}
    went_back: list[str] = []

    def counts(self: Sources, source: str, position: Position) -> None:
        went_back.append(source)
        go_back(self, source, position)

    go_back = Sources.go_back
    monkeypatch.setattr(Sources, "go_back", counts)
    paced = (seed for seed in range(REACHED_WITHIN) if ReadPace.is_drawn(seed))
    for result in (run_seed(seed, limits=values) for seed in paced):
        assert result.ok, result.problem
        if went_back:
            assert result.reached == tuple(values)
            return
    pytest.fail("no run read anything anew")


def test_every_workload_with_windows_comes_to_the_rows_of_a_part_of_an_answer() -> None:
    values = {"operators.operator.ANSWER_ROWS_MAX": 2}
    for name in ("w1", "early", "two plans", "shards", "join"):
        result = run_seed(1, workload=WORKLOADS[name], limits=values)
        assert result.ok, f"{name}: {result.problem}"
        assert result.reached == tuple(values), name


def test_what_no_run_comes_to_is_not_reached() -> None:
    assert run_seed(1, limits={"failover.merger.recent_rows.ROWS_MAX": 1 << 40}).reached == ()


def test_bounds_are_the_products_again_behind_a_run_however_it_ends() -> None:
    before = recent.ROWS_MAX
    bounds = limited({"failover.merger.recent_rows.ROWS_MAX": 5})
    with bounds:
        assert recent.ROWS_MAX == 5
    assert recent.ROWS_MAX is before
    with pytest.raises(ZeroDivisionError), limited({"failover.merger.recent_rows.ROWS_MAX": 5}):
        raise ZeroDivisionError
    assert recent.ROWS_MAX is before


def test_half_of_the_runs_draw_limits_and_every_limit_is_drawn() -> None:
    runs = [drawn(seed) for seed in range(2_000)]
    assert 800 < sum(map(bool, runs)) < 1_200
    assert {bound for run in runs for bound in run} == set(BY_BOUND)
    assert drawn(7) == drawn(7)
    for run in runs:
        for bound, value in run.items():
            limit = BY_BOUND[bound]
            along = [other.along[bound] for other in LIMITS if bound in other.along]
            assert limit.least <= value <= limit.most or value in along


def test_the_same_limits_are_drawn_in_any_process() -> None:
    seeds = range(cases(12))
    alone = list(run_many(seeds, jobs=1))
    assert list(run_many(seeds, jobs=2)) == alone
    assert any(result.reached for result in alone)


# -- how it is seen -------------------------------------------------------------------------------

LOOKS: Mapping[str, tuple[Callable[[int], object], bool]] = {
    "not more than it": (lambda b: 4 if b >= 4 else 0, False),
    "as much": (lambda b: b <= 5, True),
    "as much, and not more": (lambda b: b < 5, True),
    "as much, seen from it": (lambda b: b >= 5, True),
    "more": (lambda b: b < 6, True),
    "less": (lambda b: b <= 4, False),
    "the less": (lambda b: min(9, b), True),
    "the less, first": (lambda b: min(b, 3), False),
    "what room there is": (lambda b: b - 5, True),
    "beyond something": (lambda b: 7 + b >= 7 + 4, False),
    "beyond something, reached": (lambda b: 7 + b >= 7 + 5, True),
    "times something": (lambda b: 3 * b < 14, False),
    "times something, reached": (lambda b: b * 3 < 15, True),
    "times nothing": (lambda b: b * 0 < 1, False),
    "every so manieth": (lambda b: 10 % b, True),
    "not the so manieth": (lambda b: 11 % b, False),
    "pieces, rounded up": (lambda b: -(-6 // b), True),
    "one piece": (lambda b: -(-4 // b), False),
}


@pytest.mark.parametrize("look", LOOKS)
def test_a_bound_is_reached_by_what_is_as_large(look: str) -> None:
    how, reached = LOOKS[look]
    bound = Watched(5)
    assert how(bound) == how(5)
    assert bound.reached is reached


def test_a_run_tells_the_limits_it_has_drawn() -> None:
    told = limits.told({"failover.merger.recent_rows.ROWS_MAX": 5})
    assert told == "ROWS_MAX=5 (failover.merger.recent_rows)"
    result = run_seed(1, limits={"failover.merger.recent_rows.ROWS_MAX": 5}, traced=True)
    assert result.trace[1] == f"     0 limits: {told}"
    assert result.limits == {"failover.merger.recent_rows.ROWS_MAX": 5}
