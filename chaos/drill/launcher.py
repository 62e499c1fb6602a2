"""Launching the job of a stage: by the stage itself, or by a program of its own that can be killed.

launch_job(scenario, ...)                      the job, from this process
start_driver(what) --> "launched" --> ...      launcher_process.py does it, and stays
"""

from __future__ import annotations

import json
import select
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from gapless.actors.handle import Job
from gapless.actors.launch import launch
from gapless.chaos.drill.scenario import Scenario
from gapless.engine.plan import Plan
from gapless.protocol.errors import Bug, JobError

OF_THE_JOB = ("replicas", "mergers", "checkpoint_s", "on_divergence")
"""What `launch` takes of a scenario, by its own names."""
LAUNCHED = "launched"
"""What the program says once it has launched the job."""
JOB = "talk"
"""What the job is called: nobody else is in the cluster."""
DRIVER_S = 120.0
"""How long another program may take to launch the job."""
KILLED_S = 10.0
"""How long it may take to be gone, once it is killed."""


def launch_job(
    scenario: Scenario,
    plans: dict[str, Plan],
    journal: Mapping[str, Path],
    job_dir: Path,
    address: str | None,
    code: Path | None = None,
) -> Job:
    """The job of a scenario. This process is connected to its cluster."""
    return launch(
        next(iter(plans.values())),
        journal=journal,
        dir=job_dir,
        name=JOB,
        plans=plans,
        address=address,
        code=code,
        assume_equivalent=True,  # what comes out is judged
        **{name: getattr(scenario, name) for name in OF_THE_JOB},
    )


def what_to_launch(
    scenario: Scenario,
    workload: str,
    plans: Iterable[str],
    journal: Mapping[str, Path],
    job_dir: Path,
    address: str,
    settings: Mapping[str, Any],
) -> dict[str, Any]:
    """The same job, for the program: `workload` and `plans` by their names; `settings` of its
    connection.
    """
    return {
        "scenario": {name: getattr(scenario, name) for name in ("name", *OF_THE_JOB)},
        "workload": workload,
        "plans": list(plans),
        "journal": {name: str(path) for name, path in journal.items()},
        "dir": str(job_dir),
        "address": address,
        "settings": dict(settings),
    }


def start_driver(what: Mapping[str, Any]) -> subprocess.Popen[str]:
    """Starts the program; `what` is for its `main`, as `what_to_launch` says it."""
    return subprocess.Popen(
        [sys.executable, "-m", "gapless.chaos.drill.launcher_process", json.dumps(what)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )


def wait_launched(driver: subprocess.Popen[str]) -> None:
    """Returns once it has launched the job. Raises `JobError` where it has ended instead, or takes
    too long.
    """
    if driver.stdout is None:
        raise Bug("the program was started without a pipe")
    if not select.select([driver.stdout], [], [], DRIVER_S)[0]:
        raise JobError(f"the program that is to launch the job has not, after {DRIVER_S:g} s")
    if driver.stdout.readline().strip() != LAUNCHED:
        raise JobError("the program that is to launch the job has failed")


def end_driver(driver: subprocess.Popen[str]) -> None:
    """Ends it, if a fault has not."""
    driver.kill()
    driver.wait(KILLED_S)
    for pipe in (driver.stdin, driver.stdout):
        if pipe is not None:
            pipe.close()
