"""The boot of a process that is to be a spare: what it costs, and what those who run feel of it.

    Ray's own worker    an actor that does nothing           CPU a
    a spare             the same, with our libraries         CPU b         b - a is ours

A spare boots while the others of its job run, on the same cores: whenever one has been used up, and
so right behind each death. The output's pauses meanwhile are held to the bar of a replica's death.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import psutil
import ray

from gapless.actors.actor_class import actor_class
from gapless.actors.host import host_class
from gapless.bench.harness import Context, Row
from gapless.bench.runtime_kills import QUICK_UNDISTURBED_S, UNDISTURBED_S, fine
from gapless.bench.runtime_pauses import Account, pause_bar_s
from gapless.bench.runtime_run import running

BOOTS, QUICK_BOOTS = 10, 2
BOOT_CPU_S = 0.5
"""Of a spare, beyond Ray's own worker."""
READY_S = 60.0
GAP_S = 0.5
"""Between two boots, in which the killed one goes."""


class Nothing:
    """Ray's own worker: it is sent by value, so that its process imports nothing of ours."""

    def about(self) -> Any:
        """Answers once it is there."""
        import os

        return os.getpid()


def measure_spares(context: Context, account: Account) -> Iterator[Row]:
    """Boots beside a job that runs."""
    boots = QUICK_BOOTS if context.quick else BOOTS
    with running(fine(), mergers=2) as run:
        quiet_s = run.quiet(QUICK_UNDISTURBED_S if context.quick else UNDISTURBED_S)
        yield Row("spares: longest pause undisturbed", 1000 * quiet_s, "ms")
        by_value: Any = ray.cloudpickle  # which has no types
        by_value.register_pickle_by_value(sys.modules[__name__])
        try:
            ray_s = _boots(actor_class(Nothing, {}, {}, max_restarts=0).remote, boots)
        finally:
            by_value.unregister_pickle_by_value(sys.modules[__name__])
        ours = host_class()
        begin = time.monotonic()
        spare_s = _boots(lambda: ours.remote(str(run.job.dir)), boots)
        pause_s = run.pause_s(begin)
        yield Row("spares: CPU of Ray's own worker, median", ray_s, "s")
        more_s = spare_s - ray_s
        yield Row("spares: CPU of a boot beyond that, median", more_s, "s", BOOT_CPU_S, "<=")
        bar_ms = 1000 * pause_bar_s(quiet_s)
        yield Row(f"spares: longest pause in {boots} boots", 1000 * pause_s, "ms", bar_ms, "<=")
        run.end()
        account.add("boots of spares", run.judge())


def _boots(make: Callable[[], Any], boots: int) -> float:
    """The median CPU of so many processes, made one after the other, from start to first answer."""
    used = []
    for _ in range(boots):
        handle = make()
        answer: Any = ray.get(handle.about.remote(), timeout=READY_S)
        times = psutil.Process(getattr(answer, "pid", answer)).cpu_times()
        used.append(times.user + times.system)
        ray.kill(handle)
        time.sleep(GAP_S)
    return float(np.median(used))
