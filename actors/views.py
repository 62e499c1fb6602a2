"""Views: a job as people see it, asked of its root."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from gapless.actors.host import About
from gapless.failover.job.desired import Desired
from gapless.failover.job.state import JobState
from gapless.failover.messages import Life
from gapless.protocol.schema import StreamSchema
from gapless.protocol.tables import html_table, time_text


@dataclass(frozen=True)
class Alarm:
    """Something that a person should know."""

    at_ms: int
    """Since 1970."""
    who: str
    what: str


@dataclass(frozen=True, repr=False)
class JobView:
    """A job, as people see it."""

    name: str
    job_dir: str
    state: JobState
    desired: Desired
    nodes: Mapping[str, str]
    """By id, the names of the nodes that are there."""
    hosts: Mapping[Life, About]
    alarms: tuple[Alarm, ...]
    root: About
    uptime_ms: int
    """Of this root."""
    cluster: str
    """The address of the Ray cluster in which it runs."""
    schema: StreamSchema
    """Of the output."""
    standby: About | None = None
    """Who becomes the root when that dies; None while nobody is ready to."""

    def __repr__(self) -> str:
        slots, desired = self.state.slots, self.desired
        counts = ", ".join(
            f"{sum(s.state == 'running' and s.slot[0] == what[0] for s in slots)} of "
            f"{number * desired.shards} {what}"
            for what, number in (("replicas", desired.replicas), ("mergers", desired.mergers))
        )
        return f"JobView({self.name}: {counts})"

    def _repr_html_(self) -> str:
        unit = self.schema.time_unit
        rows = [
            (
                slot.slot,
                slot.state,
                self.nodes.get(slot.node, slot.node[:8]),
                self.pid_of(slot.life),
                time_text(slot.stable, unit),
                slot.reason,
            )
            for slot in self.state.slots
        ]
        names = ("slot", "state", "node", "pid", "stable", "reason")
        return html_table(names, rows, f"{self!r}; in the Ray cluster at {self.cluster}")

    def pid_of(self, life: Life | None) -> int | None:
        """The process of a life on its node; None where that is not known."""
        host = None if life is None else self.hosts.get(life)
        return host.pid or None if host is not None else None

    @property
    def is_whole(self) -> bool:
        """Whether all that is desired runs, nothing else does, and each replica could carry the
        output. Stricter than to say that the job is well: it may be on its way to more.
        """
        state, desired = self.state, self.desired
        if state.is_adopting or state.cutover or any(slot.successor for slot in state.slots):
            return False
        slots = [slot for slot in state.slots if slot.state == "running"]
        replicas = [slot for slot in slots if slot.slot[0] == "r" and slot.qualified_ms >= 0]
        mergers = [slot for slot in slots if slot.slot[0] == "m"]
        plans = all(r.plan == desired.plan_of(int(r.slot.rpartition(".")[2])) for r in replicas)
        wanted = desired.replicas * desired.shards, desired.mergers * desired.shards
        # Not only known to the supervisor: their processes are found, to be asked and ended.
        found = all(slot.life in self.hosts for slot in (*replicas, *mergers))
        counts = (len(replicas), len(mergers), len(slots))
        awaited = all(len(names) == desired.mergers for names in state.awaited)
        return plans and found and awaited and counts == (*wanted, sum(wanted))
