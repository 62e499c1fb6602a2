"""A replica with a day of state comes back: from a live peer, and by reading the day again.

    24 h of flows --> r0.0, r0.2   answer count and bytes of 24 h by source, every 10 minutes
                  --> r0.1         killed; back when it has said as much as the others

Twice the same, except for the names of the plans. Three replicas of one plan: the new life asks a
peer for its state (a jumpstart; never the one that leads, so there are three). Three plans with
three names: nobody has its state, nor is there a checkpoint, so it reads all that its windows can
still need (a replay). Time counts from the kill; a spare process waits in both runs.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa

from gapless.actors.handle import Job
from gapless.actors.launch import launch
from gapless.bench.harness import Context, Row
from gapless.bench.journal_files import folder
from gapless.bench.netflow import FLOW_LATENESS_MS, FLOWS, START_MS, flows, generator
from gapless.bench.runtime_throughput import cluster_of_one, wait_for_all, writer
from gapless.engine.query import Query
from gapless.engine.source import source
from gapless.failover.job.state import SlotState
from gapless.operators.aggregates import count, sum_
from gapless.protocol.errors import Bug

HOUR_MS = 3_600_000
WINDOW_H, SLIDE_MS = 24, 600_000
HOURS = WINDOW_H + 2
"""Of flows: the first windows are full, and some have gone."""
SECONDS = 5.0
"""A jumpstart is a matter of seconds, however long the window is."""
LOOK_S = 0.02
"""Between two looks at how far a replica is."""
WAIT_S = 600.0
"""Until a run has failed: a replay takes as long as it takes."""
VICTIM, OTHERS = "r0.1", ("r0.0", "r0.2", "m0.0")


def a_day() -> Query:
    """Count and bytes by source over the last 24 hours, every 10 minutes."""
    given = source("flows", FLOWS, time="ts", lateness=FLOW_LATENESS_MS)
    grouped = given.window(range=WINDOW_H * HOUR_MS, slide=SLIDE_MS).group_by("src")
    return grouped.aggregate(n=count(), bytes=sum_("len"))


def fill(path: Path, rows_an_hour: int) -> None:
    """A journal with some hours of flows, of which every hour has the same sources and lengths."""
    hour = flows(rows_an_hour, generator())
    steps = np.arange(rows_an_hour, dtype=np.int64) * HOUR_MS // rows_an_hour
    out = writer(path)
    for i in range(HOURS):
        ts = pa.array(START_MS + i * HOUR_MS + steps)
        batch = pa.record_batch([ts, hour.column("src"), hour.column("len")], schema=FLOWS)
        for start in range(0, rows_an_hour, 65_536):
            out.append(batch.slice(start, 65_536))
    out.close()


def back_s(job: Job, origin: str) -> float:
    """Kills one of three replicas that are equally far; seconds until they are again."""
    there = _until(job, lambda slots: _agreed(slots) > START_MS + (HOURS - 1) * HOUR_MS)
    stable, life = _agreed(there), there[VICTIM].life
    time.sleep(2.0)  # a spare is made a second after its like was used; both runs have one
    start = time.perf_counter()
    job.kill(VICTIM)

    def is_back(slots: dict[str, SlotState]) -> bool:
        slot = slots[VICTIM]
        return slot.life not in (None, life) and slot.state == "running" and slot.stable >= stable

    found = _until(job, is_back)[VICTIM]
    took = time.perf_counter() - start
    if not found.origin.startswith(origin):
        raise Bug(f"{VICTIM} came back by {found.origin!r}, and not by {origin}")
    return took


def _agreed(slots: dict[str, SlotState]) -> int:
    """How far all are, replicas and merger, where they are equally far; else 0."""
    stable = slots[VICTIM].stable
    return stable if all(slots[name].stable == stable for name in OTHERS) else 0


def _until(job: Job, holds: Callable[[dict[str, SlotState]], bool]) -> dict[str, SlotState]:
    until = time.monotonic() + WAIT_S
    while True:
        slots = {slot.slot: slot for slot in job.status().state.slots}
        if holds(slots):
            return slots
        if time.monotonic() > until:
            raise Bug(f"not within {WAIT_S:g} s: {slots}")
        time.sleep(LOOK_S)


def measure_jumpstart(context: Context) -> Iterator[Row]:
    """Both ways back."""
    rows_an_hour = 36_000 if context.quick else 1_800_000
    runs = {
        "jumpstart": ("live", {"day": a_day()}),
        "replay": ("replay", {name: a_day() for name in ("day", "same-day", "that-day")}),
    }
    found: dict[str, float] = {}
    with cluster_of_one(), folder("jumpstart") as path:
        fill(path / "journal", rows_an_hour)
        yield Row("24 h of state, flows", float(WINDOW_H * rows_an_hour), "events")
        for name, (origin, plans) in runs.items():
            with launch(
                a_day(),
                journal=path / "journal",
                dir=path / name,
                replicas=len(OTHERS),
                plans=plans,
                checkpoint_s=36_000,
            ) as job:
                wait_for_all(job)
                found[name] = back_s(job, origin)
                job.validate()
            bar, op = (SECONDS, "<=") if name == "jumpstart" else (None, None)
            yield Row(f"24 h of state, back by {name}", found[name], "s", bar, op)  # type: ignore[arg-type]  # both or none
    ratio = found["replay"] / found["jumpstart"]
    yield Row("24 h of state, replay / jumpstart", ratio, "x")


if __name__ == "__main__":
    for row in measure_jumpstart(Context(quick="--quick" in sys.argv, plot_dir=None)):
        print(f"{row.name:45} {row.value:14.4f} {row.unit}", flush=True)  # noqa: T201  # a bench by itself
