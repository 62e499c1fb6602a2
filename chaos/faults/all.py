"""Every fault of a real cluster, by its name."""

from __future__ import annotations

from collections.abc import Mapping

from gapless.chaos.faults.fault import Fault
from gapless.chaos.faults.kill_merger import KillMerger
from gapless.chaos.faults.kill_replica import KillReplica
from gapless.chaos.faults.kill_root import KillRoot
from gapless.chaos.faults.stop_merger import StopMerger
from gapless.chaos.faults.stop_replica import StopReplica
from gapless.chaos.faults.stop_root import StopRoot

_KINDS: tuple[type[Fault], ...] = (
    KillReplica,
    KillMerger,
    KillRoot,
    StopReplica,
    StopMerger,
    StopRoot,
)

FAULTS: Mapping[str, type[Fault]] = {kind.name: kind for kind in _KINDS}
