"""A program that launches a job and stays, as people's programs do: one that a fault can kill.

python -m gapless.chaos.drill.launcher_process JSON       says "launched", waits for its pipe to end
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from gapless.actors import cluster
from gapless.chaos.drill.launcher import LAUNCHED, launch_job
from gapless.chaos.drill.scenario import Scenario
from gapless.chaos.drill.workloads import REAL_WORKLOADS
from gapless.engine.plan import Plan


def job_of(what: dict[str, Any]) -> tuple[Scenario, dict[str, Plan]]:
    """What the job takes of a scenario, and its plans."""
    plans = REAL_WORKLOADS[what["workload"]].plans
    return Scenario(**what["scenario"]), {name: plans[name] for name in what["plans"]}


def main(what: dict[str, Any]) -> None:
    """Launches it."""
    cluster.connect(what["address"], **what["settings"])
    scenario, plans = job_of(what)
    journals = {name: Path(path) for name, path in what["journal"].items()}
    launch_job(scenario, plans, journals, Path(what["dir"]), what["address"])
    sys.stdout.write(f"{LAUNCHED}\n")
    sys.stdout.flush()
    sys.stdin.read()


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
