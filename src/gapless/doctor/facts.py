"""What the probes bring back: plain facts about a machine, without any judgement."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Java:
    """The Java that Spark would run."""

    home: str | None
    """JAVA_HOME; where it is set, Spark looks nowhere else."""
    path: str | None
    """The program itself, or None: there is none."""
    major: int | None
    """17 for Java 17; None where its answer could not be read."""
    says: str
    """First line of what `java -version` printed."""


@dataclass(frozen=True)
class Start:
    """A program that was started for a trial, in a process of its own."""

    exit_code: int | None
    """None: it was ended because its time was over."""
    took_s: float
    limit_s: float
    says: str
    """The last line that it printed."""
    command: str
    """What a person types to see the same with all of its output."""
    depends: bool
    """Whether it stands on what earlier checks looked at."""

    @property
    def timed_out(self) -> bool:
        """Whether it had to be ended."""
        return self.exit_code is None


@dataclass(frozen=True)
class Memory:
    """Memory, within the container's limit where there is one."""

    available_bytes: int
    total_bytes: int


@dataclass(frozen=True)
class OpenFiles:
    """How many files and connections a process may have open."""

    soft: int
    hard: int


@dataclass(frozen=True)
class Space:
    """Room in a file system."""

    path: str
    free_bytes: int
    total_bytes: int


@dataclass(frozen=True)
class SharedMemory:
    """Room in shared memory, beside the memory that decides how much of it Ray wants."""

    path: str
    free_bytes: int
    memory_available_bytes: int


@dataclass(frozen=True)
class RayProcess:
    """A process of a Ray cluster on this machine that takes orders from the network."""

    name: str
    """`gcs_server` or `raylet`."""
    pid: int
    reachable: tuple[str, ...] | None
    """Addresses other than this machine's own loopback where it listens; None: could not see."""
    token: bool | None
    """Whether it demands a token; None: could not see."""


@dataclass(frozen=True)
class RayExposure:
    """Ray clusters that run here, and the one that a job would join."""

    processes: tuple[RayProcess, ...]
    address: str | None
    """RAY_ADDRESS: the cluster that a job joins instead of starting its own."""
    sends_token: bool
    """Whether this environment would send a token to that cluster."""
