"""The report of a run: a directory that says all that came of it, to people and to programs.

    scenario.json     config, seed, versions, when it began
    verdicts.json     the outcome: what had to hold, faults, figures (chaos/drill/outcome.py)
    history.arrow     the record: all that was seen (chaos/judge/record.py); an Arrow file, zstd
    report.html       the page (chaos/report/page.py); needs no network and no other file

Many runs of one command have an index.html and an index.json above their directories. Each file is
replaced whole: a reader never sees a part of one. The page comes last.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import ipc

from gapless.chaos.drill.outcome import Outcome
from gapless.chaos.judge.record import Record
from gapless.chaos.report.index import index_page
from gapless.chaos.report.page import page

SCENARIO, VERDICTS, HISTORY, PAGE = (
    "scenario.json",
    "verdicts.json",
    "history.arrow",
    "report.html",
)
INDEX_PAGE, INDEX = "index.html", "index.json"


def write_report(folder: Path, outcome: Outcome, record: Record) -> Path:
    """Leaves the report in `folder`, made if missing; returns its page."""
    folder.mkdir(parents=True, exist_ok=True)
    seen = record.table()
    scenario = {
        "name": outcome.name,
        "about": outcome.about,
        "seed": outcome.seed,
        "began": outcome.began,
        "versions": outcome.versions,
        "config": outcome.config,
    }
    _replace(folder / HISTORY, _arrow(seen))
    _replace(folder / SCENARIO, _json(scenario))
    _replace(folder / VERDICTS, _json(outcome.document()))
    _replace(folder / PAGE, page(outcome, seen).encode())
    return folder / PAGE


def write_index(folder: Path, outcomes: Sequence[tuple[str, Outcome]]) -> Path:
    """Leaves the index of runs in `folder`; each is in the folder of its name in it. Returns the
    index's page.
    """
    folder.mkdir(parents=True, exist_ok=True)
    runs = [{"folder": name, **outcome.document()} for name, outcome in outcomes]
    is_well = bool(outcomes) and all(outcome.is_well for _, outcome in outcomes)
    _replace(folder / INDEX, _json({"is_well": is_well, "runs": runs}))
    _replace(folder / INDEX_PAGE, index_page(outcomes).encode())
    return folder / INDEX_PAGE


def _arrow(seen: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    options = ipc.IpcWriteOptions(compression="zstd")
    with ipc.new_file(sink, seen.schema, options=options) as writer:
        writer.write_table(seen)
    return bytes(sink.getvalue())


def _json(document: Mapping[str, Any]) -> bytes:
    text = json.dumps(
        _sayable(document), indent=2, ensure_ascii=False, allow_nan=False, default=str
    )
    return f"{text}\n".encode(errors="replace")


def _sayable(value: Any) -> Any:
    """JSON has no "not a number" and no infinity: such a figure is null."""
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, Mapping):
        return {str(key): _sayable(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_sayable(each) for each in value]
    return value


def _replace(path: Path, content: bytes) -> None:
    """Writes a file beside it, and puts it in its place."""
    beside = path.with_name(f".{path.name}.new")
    beside.write_bytes(content)
    beside.replace(path)
