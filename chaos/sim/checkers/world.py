"""What checkers may look at: the simulation, as they see it.

Facts (chaos/judge/history.py) say what happens; this says what there is, above all at the end of
a run. A test of a checker makes a small world of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from gapless.failover.job.desired import Desired
from gapless.failover.messages import Life
from gapless.journal.disk import Disk
from gapless.journal.layout import Layout
from gapless.protocol.tdb import Tdb


class Work(Protocol):
    """What a run works on."""

    @property
    def name(self) -> str:
        """The workload's."""

    @property
    def key(self) -> bool:
        """Whether (payload, vs) is a key of the output."""

    @property
    def starts_are_final(self) -> bool:
        """Whether an event can change no more once the output is past its start."""

    @property
    def shards(self) -> int:
        """Partitions of the sources are dealt to so many shards."""

    @property
    def layouts(self) -> Mapping[str, Layout]:
        """Of the sources' journals."""


class World(Protocol):
    """A run, seen from outside."""

    @property
    def seed(self) -> int:
        """Of the run."""

    @property
    def now(self) -> int:
        """Virtual milliseconds."""

    @property
    def workload(self) -> Work:
        """What it works on."""

    @property
    def expected(self) -> Tdb:
        """The table, recomputed from scratch, that the output of all shards has to be. Another one
        from when on a cutover to another answer counts.
        """

    @property
    def outputs(self) -> Mapping[str, Disk]:
        """The output journal of each merger's slot."""

    @property
    def machines(self) -> Mapping[Life, Any]:
        """The machines that are alive and not frozen."""

    @property
    def supervisor(self) -> Any:
        """The machine of the present supervisor; None where there is none."""

    @property
    def desired(self) -> Desired:
        """What should run."""


def shard_of(slot: str) -> int:
    """The shard of a replica's or merger's slot: that of "m3.1" is 3."""
    return int(slot[1:].partition(".")[0])
