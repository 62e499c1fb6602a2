"""The events that the supervisor gets from its shell, and the effects that it asks for.

Spawn --> Died, where it fails      Kill, DropCheckpoint --> nothing
Desire -> nothing, and it is durable before any effect behind it is done
"""

from __future__ import annotations

from dataclasses import dataclass

from gapless.failover.effects import Alarm, Exit, Send, Start, Tick
from gapless.failover.job.desired import Change, Desired
from gapless.failover.life_start import Start as StartOf
from gapless.failover.messages import Life, Retire
from gapless.failover.replica.effects import DropCheckpoint
from gapless.failover.statuses import CheckpointTaken, MergerStatus, ReplicaStatus

# -- events ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Died:
    """The shell reports that a life is over. That may be wrong: the life is then a zombie."""

    life: Life
    reason: str


@dataclass(frozen=True, slots=True)
class Nodes:
    """The nodes that can be used now. What ran on others is lost."""

    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Command:
    """What a person, or a program, wants changed."""

    change: Change


SupervisorEvent = (
    Tick | ReplicaStatus | MergerStatus | CheckpointTaken | Died | Nodes | Command | Retire | Start
)


# -- effects -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Spawn:
    """Start a life on a node. If that fails: `Died`."""

    life: Life
    node: str
    start: StartOf


@dataclass(frozen=True, slots=True)
class Kill:
    """End a life by force. It may be dead already, or out of reach."""

    life: Life


@dataclass(frozen=True, slots=True)
class Desire:
    """Write what is desired to the job's directory, durably, before any effect that follows."""

    desired: Desired


SupervisorEffect = Send | Spawn | Kill | Desire | DropCheckpoint | Alarm | Exit
