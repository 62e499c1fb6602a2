"""The pytest plugin: fixtures that test a query of yours under failures.

    def test_talkers_survive(simulate):         seeded schedules of faults, in this process
        simulate(talkers, rows)

    def test_talkers_survive_on_ray(drill):     a real cluster on this machine, in half a minute
        drill(talkers, rows, faults=["kill replica", "kill merger"])

pytest loads it wherever Gapless is installed, so it imports nothing until a fixture is used. The
fixtures take the arguments of `gapless.testing.simulate` and `drill`; docs/testing.md has the
options.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from gapless.chaos.drill.outcome import Outcome
    from gapless.chaos.sim.simulation import Simulated

MARK = "gapless_ray"
"""The marker of every test that uses `drill`: -m "not gapless_ray" skips them."""
SEEDS = 50
"""The default of `gapless.testing.simulate`; a test compares the two."""
_REPORTS_INI, _SEEDS_INI = "gapless_reports", "gapless_seeds"


def pytest_addoption(parser: pytest.Parser) -> None:
    """The options of both fixtures."""
    group = parser.getgroup("gapless", "gapless: queries under failures")
    group.addoption(
        "--gapless-seeds",
        type=_count(1),
        metavar="N",
        help=f"simulate: schedules of faults per call ({_SEEDS_INI} in the ini file; {SEEDS} "
        "if neither is given)",
    )
    group.addoption(
        "--gapless-seed",
        type=_count(0),
        metavar="S",
        help="simulate and drill: run only this seed, to replay a failure",
    )
    group.addoption(
        "--gapless-faults",
        type=_count(0),
        metavar="K",
        help="simulate, with --gapless-seed: inject only the first K of its faults",
    )
    group.addoption(
        "--gapless-reports",
        metavar="DIR",
        help=f"drill: the folder of the reports ({_REPORTS_INI} in the ini file; the "
        "test's tmp_path if neither is given)",
    )
    parser.addini(_SEEDS_INI, "simulate: schedules of faults per call")
    parser.addini(_REPORTS_INI, "drill: the folder of the reports", type="paths")


def _count(least: int) -> Callable[[str], int]:
    """A parser of an option's whole number."""

    def read(text: str) -> int:
        if not text.isascii() or not text.isdigit() or int(text) < least:
            raise ValueError(text)
        return int(text)

    read.__name__ = f"whole number of {least} or more"  # argparse says it of a wrong one
    return read


def pytest_configure(config: pytest.Config) -> None:
    """Registers the marker, for --strict-markers, and refuses impossible options."""
    config.addinivalue_line("markers", f"{MARK}: runs on a Ray cluster of its own, half a minute")
    if config.getoption("gapless_faults") is not None and config.getoption("gapless_seed") is None:
        raise pytest.UsageError("--gapless-faults needs --gapless-seed, the seed of the faults")
    _seeds(config)


def pytest_itemcollected(item: pytest.Item) -> None:
    """Marks the tests that use this plugin's `drill`, not another fixture of that name."""
    info = getattr(item, "_fixtureinfo", None)
    found = () if info is None else info.name2fixturedefs.get("drill", ())
    if found and found[-1].func.__module__ == __name__:
        item.add_marker(MARK)


def _seeds(config: pytest.Config) -> int:
    return seeds_said(config.getoption("gapless_seeds"), str(config.getini(_SEEDS_INI)).strip())


def seeds_said(said: int | None, written: str) -> int:
    """How many seeds a call tries: from the command line, else from the ini file."""
    if said is not None:
        return said
    try:
        return _count(1)(written) if written else SEEDS
    except ValueError:
        raise pytest.UsageError(f"{_SEEDS_INI} = {written}: a whole number of 1 or more") from None


# -- the simulator --------------------------------------------------------------------------------


@pytest.fixture
def simulate(request: pytest.FixtureRequest) -> Callable[..., Simulated]:
    """`gapless.testing.simulate`, with the seeds of the command line, the ini file, or the call."""
    from gapless.testing import SimulationFailed
    from gapless.testing import simulate as run

    config = request.config
    seed, faults = config.getoption("gapless_seed"), config.getoption("gapless_faults")

    def simulate(query: Any, events: Any, **how: Any) -> Simulated:
        __tracebackhide__ = True
        if config.getoption("gapless_seeds") is not None or "seeds" not in how:
            how["seeds"] = _seeds(config)
        if seed is not None:
            how |= {"first_seed": seed, "seeds": config.getoption("gapless_seeds") or 1}
        if faults is not None:
            how["faults"] = faults
        try:
            return run(query, events, **how)
        except SimulationFailed as e:
            options = f"--gapless-seed {e.seed} --gapless-faults {e.faults}"
            raise _as_told(e, request, options) from None

    return simulate


# -- a real cluster -------------------------------------------------------------------------------


@pytest.fixture
def drill(request: pytest.FixtureRequest) -> Callable[..., Outcome]:
    """`gapless.testing.drill`, with a report for each call; what it does is printed."""
    from gapless.testing import DrillFailed
    from gapless.testing import drill as play

    folder = _folder(request)
    seed = request.config.getoption("gapless_seed")
    calls = 0

    def drill(query: Any, events: Any, **how: Any) -> Outcome:
        __tracebackhide__ = True
        nonlocal calls
        calls += 1
        how.setdefault(
            "report", folder if calls == 1 else folder.with_name(f"{folder.name}-{calls}")
        )
        how.setdefault("name", request.node.name)
        how.setdefault("say", print)
        if seed is not None:
            how["seed"] = seed
        try:
            return play(query, events, **how)
        except DrillFailed as e:
            raise _as_told(e, request, f"--gapless-seed {e.outcome.seed}") from None

    return drill


def _folder(request: pytest.FixtureRequest) -> Path:
    """Where the report of this test's first drill goes."""
    config = request.config
    root = reports_said(config.getoption("gapless_reports"), config.getini(_REPORTS_INI))
    if root is not None:
        return folder_in(root, request.node.nodeid)
    tmp_path: Path = request.getfixturevalue("tmp_path")
    return tmp_path / "drill"


def reports_said(said: str | None, written: Sequence[Path]) -> Path | None:
    """The folder of reports: from the command line, else from the ini file, else None."""
    if said is not None:
        return Path(said)
    return written[0] if written else None


def folder_in(root: Path, nodeid: str) -> Path:
    """The name of a test's folder."""
    return root / re.sub(r"[^\w.-]+", "-", nodeid).strip("-")


def _as_told(error: Exception, request: pytest.FixtureRequest, options: str) -> Exception:
    """The same error, raised from the test itself, with the command that replays it."""
    error.add_note(f'or: pytest "{request.node.nodeid}" {options}')
    return error.with_traceback(None)
