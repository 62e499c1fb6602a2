"""`gapless doctor`: whether this machine is fit to run jobs, and if not, what is to be done.

    findings.py       what a check says; carrying one out; the exit code
    facts.py          what the probes bring back
    judges.py         the bounds with their reasons, and the verdicts (pure)
    mounts.py         the file system of a directory
    probes.py         looks at the machine; cgroup.py: at the container around it
    ray_processes.py  looks for Ray clusters that take orders from strangers
    trial.py          runs start_spark.py and start_ray.py, leaving nothing behind

`CHECKS` is the list of all checks in the order in which they are shown. What Spark and Ray need
comes before their trials. Running clusters are looked at before our own Ray is started.
"""

from __future__ import annotations

import os
from functools import partial
from typing import Any

from gapless.doctor import judges, probes
from gapless.doctor.findings import CannotLook, Check, CheckResult, Status, Verdict, exit_code
from gapless.doctor.mounts import judge_mount, mounted
from gapless.doctor.ray_processes import ray_exposure
from gapless.doctor.trial import try_module

SPARK_START_LIMIT_S = 120.0
"""It takes 8 s on two idle cores (measured); a busy machine may need many times that."""
RAY_START_LIMIT_S = 90.0
"""It takes 4 s on two idle cores (measured)."""

CHECKS: tuple[Check[Any], ...] = (
    Check("python", probes.python_version, judges.judge_python),
    Check("kernel", probes.kernel, judges.judge_kernel),
    Check("memory", probes.memory, judges.judge_memory),
    Check("cores", probes.cores, judges.judge_cores),
    Check("scheduling", probes.autogroups, judges.judge_autogroups),
    Check("open files", probes.open_files, judges.judge_open_files),
    Check("disk", partial(probes.temp_disk, os.environ), judges.judge_disk),
    Check("shared memory", probes.shared_memory, judges.judge_shared_memory),
    Check("ray exposure", partial(ray_exposure, os.environ), judges.judge_ray_exposure),
    Check("java", partial(probes.java, os.environ), judges.judge_java),
    Check(
        "spark starts",
        partial(probes.spark_start, os.environ, SPARK_START_LIMIT_S),
        judges.judge_start,
    ),
    Check(
        "ray starts",
        partial(try_module, "gapless.doctor.start_ray", RAY_START_LIMIT_S, depends=True),
        judges.judge_start,
    ),
)


def checks_of(directory: str) -> tuple[Check[Any], ...]:
    """All checks, and that of the file system where journals and jobs are to lie."""
    return (Check("file system", partial(mounted, directory), judge_mount), *CHECKS)


__all__ = [
    "CHECKS",
    "CannotLook",
    "Check",
    "CheckResult",
    "Status",
    "Verdict",
    "checks_of",
    "exit_code",
]
