"""One form for every bench: rows that are measured, bars that they must hold, one report.

A bench is a module with two names and nothing to register at run time:

    SUMMARY = "KeyTable and the wire codec against their bars"

    def run(context: Context) -> Iterator[Row]:
        size = 1_000 if context.quick else 100_000
        fast = best_of(lambda: rows_per_s(native, size))
        slow = best_of(lambda: rows_per_s(twin, size))
        yield Row("intern", fast, "rows/s", bar=40e6, op=">=")
        yield Row("intern, native over twin", fast / slow, "x", bar=5, op=">=")

It yields each row as soon as it is measured, so a person can watch. A bar that compares two things
measures both in the same run, as above: figures of two runs, or of two machines, do not compare.
A row without a bar is a figure to know; it cannot be missed.

`BENCHES` names every bench. `measure(name, context)` runs one and gives the `Report` that
`gapless bench NAME` prints as a table or as one JSON object.

Quick runs measure smaller sizes fewer times, to see that a bench works. The bars were set for the
full sizes, so a quick run never judges: `holds` is None in all of its rows.
"""

from __future__ import annotations

import math
import os
import platform
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from importlib import import_module, metadata
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

import psutil

from gapless.protocol.errors import Bug, Misuse

BENCHES: Mapping[str, str] = MappingProxyType(
    {
        "changelog": "gapless.bench.changelog",
        "engine": "gapless.bench.engine",
        "journal": "gapless.bench.journal",
        "kernel": "gapless.bench.kernel",
        "merge": "gapless.bench.merge",
        "runtime": "gapless.bench.runtime",
        "sidecar": "gapless.bench.sidecar",
        "windows": "gapless.bench.windows",
    }
)
"""Every bench: the name a person types, and the module that measures it."""

REPEAT = 5
"""Times a figure is measured; the best one counts, for noise only ever makes a run worse."""

KILLS = 20
"""Strikes of each kind, whose worst counts: the bars were set for so many."""
KILLS_MAX = 1000
"""A night's worth."""

AUTOGROUPS = Path("/proc/sys/kernel/sched_autogroup_enabled")
_PACKAGES = ("gapless", "numpy", "pyarrow", "ray", "pyspark")


@dataclass(frozen=True)
class Row:
    """One measured figure and, if it has one, the bar that it must hold."""

    name: str
    """What was measured; once in a bench."""
    value: float
    unit: str
    bar: float | None = None
    op: Literal[">=", "<="] | None = None
    """`>=`: the value must reach the bar; `<=`: it must not exceed it."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "value", float(self.value))  # numpy's numbers are no JSON
        if self.bar is not None:
            object.__setattr__(self, "bar", float(self.bar))
        if not math.isfinite(self.value):
            raise Misuse(f"row {self.name!r}: the value is {self.value}, nothing was measured")
        if (self.bar is None) != (self.op is None):
            raise Misuse(f"row {self.name!r}: a bar and its op come together (bar=40e6, op='>=')")
        if self.op not in (None, ">=", "<="):
            raise Misuse(f"row {self.name!r}: op is {self.op!r}, not '>=' or '<='")
        if self.bar is not None and not math.isfinite(self.bar):
            raise Misuse(f"row {self.name!r}: the bar is {self.bar}, which says nothing")

    @property
    def holds(self) -> bool | None:
        """Whether the value holds its bar; None where there is no bar."""
        if self.bar is None:
            return None
        return self.value >= self.bar if self.op == ">=" else self.value <= self.bar


@dataclass(frozen=True)
class Context:
    """How a bench is asked to run."""

    quick: bool
    """Smaller sizes, fewer repeats; no bar is judged."""
    plot_dir: Path | None
    """An existing directory for the bench's figures, or None: draw nothing."""
    with_peers: bool = False
    """Where a bench compares with other engines: install them and run them beside ours."""
    say: Callable[[str], None] = lambda text: None
    """Told before a bench installs or writes something outside of its process."""
    only: tuple[str, ...] = ()
    """Where a bench has sections: those to run; empty for all."""
    kills: int = KILLS
    """Where a bench strikes processes: how often, of each kind."""
    rows: int | None = None
    """Where a bench holds many live rows: how many; None for as many as its bars are for."""

    def __post_init__(self) -> None:
        if not 1 <= self.kills <= KILLS_MAX:
            raise Misuse(f"--kills {self.kills}: from 1 to {KILLS_MAX}")
        if self.rows is not None and self.rows < 1:
            raise Misuse(f"--rows {self.rows}: 1 at least")


@dataclass(frozen=True)
class Bench:
    """A bench that is ready to run."""

    name: str
    summary: str
    """One line for the list of benches."""
    run: Callable[[Context], Iterator[Row]]


@dataclass(frozen=True)
class Report:
    """What one run of one bench found, and where."""

    bench: str
    quick: bool
    machine: Mapping[str, Any]
    versions: Mapping[str, str | None]
    rows: tuple[Row, ...]

    def holds(self, row: Row) -> bool | None:
        """Whether `row` holds its bar; None without one, and in a quick run."""
        return None if self.quick else row.holds

    @property
    def missed(self) -> tuple[Row, ...]:
        """The rows below (or above) their bar."""
        return tuple(row for row in self.rows if self.holds(row) is False)

    def to_json(self) -> dict[str, Any]:
        """One object: `bench quick machine versions rows`, a row `name value unit bar op holds`."""
        return {
            "bench": self.bench,
            "quick": self.quick,
            "machine": dict(self.machine),
            "versions": dict(self.versions),
            "rows": [{**asdict(row), "holds": self.holds(row)} for row in self.rows],
        }


def best_of(
    measure: Callable[[], float],
    repeat: int = REPEAT,
    better: Callable[[Iterable[float]], float] = max,
) -> float:
    """The best of `repeat` measurements: `better=max` for rates, `better=min` for times."""
    if repeat < 1:
        raise Misuse(f"best_of(repeat={repeat}): measure at least once")
    return better([measure() for _ in range(repeat)])


def load(name: str, benches: Mapping[str, str] = BENCHES) -> Bench:
    """The bench called `name`. Imports its module, and none of the other benches."""
    if name not in benches:
        raise Misuse(f"no bench is called {name!r}; there are: {', '.join(sorted(benches))}")
    module = import_module(benches[name])
    return Bench(name, module.SUMMARY, module.run)


def measure(
    bench: Bench, context: Context, watch: Callable[[Row], None] = lambda row: None
) -> Report:
    """Runs `bench` to its end; `watch` sees each row as soon as it is measured."""
    rows: dict[str, Row] = {}
    for row in bench.run(context):
        if row.name in rows:
            raise Bug(f"bench {bench.name} measures {row.name!r} twice")
        rows[row.name] = row
        watch(row)
    if not rows:
        raise Bug(f"bench {bench.name} measured nothing")
    return Report(bench.name, context.quick, machine(), versions(), tuple(rows.values()))


def wanted(context: Context, sections: Iterable[str]) -> list[str]:
    """The sections to run: all, or those that were asked for; `peers` only where these were."""
    known = list(sections)
    unknown = [name for name in context.only if name not in known]
    if unknown:
        raise Misuse(f"--only {unknown[0]}: the sections are {', '.join(known)}")
    if context.only:
        return [name for name in known if name in context.only]
    return [name for name in known if name != "peers" or context.with_peers]


def machine() -> dict[str, Any]:
    """The machine that the figures belong to: cores this process may use, memory, processor, and
    whether it groups processes by session, which lengthens pauses where all cores are busy.
    """
    return {
        "cores": len(os.sched_getaffinity(0)),
        "memory_bytes": psutil.virtual_memory().total,
        "cpu": _cpu_model(),
        "autogroups": _autogroups(),
    }


def _autogroups() -> bool | None:
    """Whether Linux groups processes by session; None: this system cannot."""
    try:
        return AUTOGROUPS.read_text().strip() != "0"
    except FileNotFoundError:
        return None


def _cpu_model() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    models = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(models, platform.processor() or platform.machine())


def versions() -> dict[str, str | None]:
    """Versions of what the figures depend on, and which kernel ran; None: not installed."""
    from gapless.kernels import KERNEL  # late: a report needs it, `gapless --help` does not

    found: dict[str, str | None] = {"python": platform.python_version()}
    for package in _PACKAGES:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            found[package] = None
    return {**found, "kernel": KERNEL}
