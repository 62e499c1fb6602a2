"""W1 to W3 end to end, from files to files, beside the engines that a user would pick instead.

Every engine runs the same way (`peers/README.md`): a process of its own, timed by itself from the
call that starts the stream to the last result in a file; three runs, in turn with the others, of
which the best counts. Reading, parsing and writing are in every figure. Ours has one core,
theirs have all. Ours reads and writes Parquet; so do DuckDB, Polars and numpy. Flink reads CSV, or
Arrow from memory, whichever is faster, and writes CSV; what ours takes from CSV to CSV is
there to know. The first result of each engine is compared with ours, row by row.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from gapless.bench.engine_scale import Scale
from gapless.bench.harness import Context, Row, machine
from gapless.bench.netflow import RANGE_MS, SLIDE_MS
from gapless.bench.peers import workload
from gapless.bench.peers.environments import Environments, work_dir
from gapless.bench.peers.runner import run
from gapless.protocol.errors import BadData

PEER_REPEAT = 3
"""Flink takes 15 s a run."""
OVER_DUCKDB_MIN = 1.0
OVER_FLINK_MIN = {"w1": 10.0, "w2": 20.0, "w3": 10.0}


@dataclass(frozen=True)
class Entry:
    """One engine on one workload, from one form of file."""

    engine: str
    workload: str
    form: str

    @property
    def name(self) -> str:
        """As rows give it."""
        return f"{self.workload.upper()} end to end, {self.engine}, {FORMS[self.engine, self.form]}"


FORMS = {
    ("gapless", "parquet"): "Parquet to Parquet",
    ("gapless", "csv"): "CSV to CSV",
    ("duckdb", "parquet"): "Parquet to Parquet",
    ("polars", "parquet"): "Parquet to Parquet",
    ("numpy", "parquet"): "Parquet to Parquet",
    ("flink", "csv"): "CSV to CSV",
    ("flink", "arrow"): "Arrow to CSV",
}
"""What each engine reads and writes; ours first, as the others are compared with it."""

CANNOT = {("numpy", "w3"), ("flink", "arrow", "w3")}
"""Nobody joins in numpy by hand; Flink's two Arrow sources would be read one after the other."""


def entries() -> list[Entry]:
    """All that is run, by workload."""
    return [
        Entry(engine, each, form)
        for each in ("w1", "w2", "w3")
        for engine, form in FORMS
        if (engine, each) not in CANNOT and (engine, form, each) not in CANNOT
    ]


def peers(scale: Scale, context: Context) -> Iterator[Row]:
    """Runs all of them."""
    root = work_dir()
    environments = Environments(root, context.say)
    for engine in ("duckdb", "polars", "numpy", "flink"):
        environments.python(engine)
    data = workload.files(root, scale.flows, scale.side, context.say)
    events = {"w1": scale.flows, "w2": scale.flows, "w3": 2 * scale.side}
    for each, count in events.items():
        mine = [entry for entry in entries() if entry.workload == each]
        best = best_seconds(mine, environments, data, context)
        rates = {entry: count / s for entry, s in best.items()}
        yield from (Row(entry.name, found, "events/s") for entry, found in rates.items())
        yield from _ratios(each, rates)


def best_seconds(
    mine: list[Entry], environments: Environments, data: Path, context: Context
) -> dict[Entry, float]:
    """The best seconds of each, in turn."""
    best = dict.fromkeys(mine, float("inf"))
    for turn in range(1 if context.quick else PEER_REPEAT):
        for entry in mine:
            context.say(f"running {entry.engine} on {entry.workload}, {entry.form}")
            best[entry] = min(best[entry], _seconds(entry, environments, data))
            if turn == 0 and entry is not mine[0]:
                _compare(mine[0], entry, environments)
    return best


def _seconds(entry: Entry, environments: Environments, data: Path) -> float:
    out = _out(environments.root, entry)
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    ours = entry.engine == "gapless"
    python = Path(sys.executable) if ours else environments.python(entry.engine)
    arguments = [entry.workload, entry.form, str(data), str(out), str(machine()["cores"])]
    return float(run(python, f"run_{entry.engine}.py", arguments)["seconds"])


def _out(root: Path, entry: Entry) -> Path:
    return root / "out" / f"{entry.engine}-{entry.workload}-{entry.form}"


def _ratios(each: str, rates: dict[Entry, float]) -> Iterator[Row]:
    """Ours over theirs."""
    ours = rates[Entry("gapless", each, "parquet")]
    duckdb = rates[Entry("duckdb", each, "parquet")]
    name = f"{each.upper()} end to end, gapless on one core / duckdb on all"
    judged = each == "w1"
    bar, op = (OVER_DUCKDB_MIN, ">=") if judged else (None, None)
    yield Row(name, ours / duckdb, "x", bar, op)  # type: ignore[arg-type]  # a literal, or None
    flink = max(found for entry, found in rates.items() if entry.engine == "flink")
    name = f"{each.upper()} end to end, gapless on one core / flink on all"
    yield Row(name, ours / flink, "x", OVER_FLINK_MIN[each], ">=")
    csv = rates[Entry("gapless", each, "csv")] / rates[Entry("flink", each, "csv")]
    yield Row(f"{name}, CSV to CSV both", csv, "x")


# -- the same answers -----------------------------------------------------------------------------

_WINDOWS = "w::BIGINT AS w, src::INT AS src, cnt::BIGINT AS cnt, slen::BIGINT AS slen"
_PAIRS = "aid::BIGINT AS aid, bid::BIGINT AS bid"


def _compare(ours: Entry, theirs: Entry, environments: Environments) -> None:
    """Raises unless both results are one table."""
    python = environments.python("duckdb")
    arguments = [text for entry in (ours, theirs) for text in _table(entry, environments.root)]
    report = run(python, "compare.py", arguments)
    if report["missing"] or report["extra"]:
        raise BadData(
            f"{theirs.name}: {report['theirs_rows']:,} rows, {report['ours_rows']:,} of ours; "
            f"{report['missing']:,} of ours are not among theirs, {report['extra']:,} the other way"
        )


def _table(entry: Entry, root: Path) -> tuple[str, str]:
    """What DuckDB selects of a result, and where from."""
    columns = _PAIRS if entry.workload == "w3" else _WINDOWS
    if entry.engine == "gapless" and entry.workload in ("w1", "w2"):  # they hold from the end on
        length = RANGE_MS if entry.workload == "w1" else SLIDE_MS
        columns = columns.replace("w::BIGINT", f"(_vs - {length})")
    out = _out(root, entry)
    if FORMS[entry.engine, entry.form].endswith("Parquet"):
        return columns, f"read_parquet('{out}/*.parquet')"
    if entry.engine == "gapless":
        return columns, f"read_csv('{out}/result.csv')"
    names = "['aid', 'bid']" if entry.workload == "w3" else "['w', 'src', 'cnt', 'slen']"
    return columns, f"read_csv('{out}/result/*', header=false, names={names})"
