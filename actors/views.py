"""Views: a job as people see it, asked of its root."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from gapless.actors.host import About
from gapless.failover.desired import Desired
from gapless.failover.messages import Life
from gapless.failover.slots import JobState


@dataclass(frozen=True)
class Alarm:
    """Something that a person should know."""

    at_ms: int
    """Since 1970."""
    who: str
    what: str


@dataclass(frozen=True)
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
