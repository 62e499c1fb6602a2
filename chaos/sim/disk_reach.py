"""How the processes of a simulated job reach its disk: over a network, and some calls fail.

    process --> client of its machine --> failing calls --> disk       journals of outputs
    process ----------------------------> failing calls --> disk       the job's directory, sources
    producers, checkers ----------------------------------> disk       no part of the job

What fails, and what a machine remembers of names, is drawn from the seed.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import TYPE_CHECKING

from gapless.chaos.judge.history import Healed, Struck
from gapless.chaos.sim import disk_errors as failing
from gapless.chaos.sim.disk import Files, View
from gapless.chaos.sim.disk_errors import DiskError, Errors, FailingDisk
from gapless.chaos.sim.network_disk import Client, Reach

if TYPE_CHECKING:
    from gapless.chaos.sim.simulator import Simulation


class DiskReach:
    """What stands between processes and the disk of one run."""

    def __init__(
        self, world: Simulation, nodes: Sequence[str], errors: Sequence[DiskError] | None
    ) -> None:
        """`errors`: which calls fail; the seed draws them where nothing is said."""
        self._world = world
        seed = world.seed
        if errors is None:
            errors = failing.drawn(seed, world.sources.span_ms)
        self.errors = Errors(errors, lambda: world.now, self._fails)
        self.files: Files = FailingDisk(world.disk, self.errors) if errors else world.disk
        """The disk, as the job's processes reach it."""
        of_peers = [DiskError(0, "read", "EIO")] if failing.fails_for_a_peer(seed) else []
        self.peer_errors = Errors(of_peers, lambda: world.now, self._fails)
        """Those of a merger that reads the other's output."""
        rng = random.Random(f"reach {seed}")
        reach = Reach.drawn(rng)
        self.clients = {node: Client(self.files, reach, rng, lambda: world.now) for node in nodes}
        """What each machine knows of the disk."""
        self.job = View(self.files, "job")
        """The job's directory."""

    def _fails(self, error: DiskError, name: str) -> None:
        """A call is about to raise something; whose, the next steps show."""
        self._world.note(f"the disk: {error.kind} at {error.call} of {name or 'all'}")
        self._world.say(Struck("disk error", name))
        self._world.say(Healed("disk error", name))
