"""How a job is run: what its maker chose once, for every root that resumes it.

    job    {..., settings: {on_divergence: "report", checkpoint_ms: 10000, timing: {...}, ...}}

None of it changes what the output says; it is about what the job may cost, and what is done where
its replicas disagree. It lies in the job's record, and not with the starter of a root, so that a
job which comes back on another machine behaves as it did.

A record that was written before there were settings reads as one with all the defaults, as does a
record that names some of them only.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from typing import Final, Literal, get_args

from gapless.failover.job.whole_file import check_name
from gapless.failover.timing import Timing, changed, checked
from gapless.journal.partition import PARTITIONS_MAX
from gapless.journal.writer import BASE_BYTES
from gapless.protocol.documents import Document
from gapless.protocol.elements import INF
from gapless.protocol.errors import DecodeError, Misuse

OnDivergence = Literal["report", "stop", "majority"]
"""What is done where replicas disagree: see failover/supervisor/divergence.py."""
SPARES_MAX = 8
"""Of a node. Each holds the libraries in memory; more never die in the time that one takes."""
CODE = "code"
"""The folder, in a job's directory, of what its user wrote."""
CODE_DEPTH_MAX = 8
"""Folders around a file of code: people's trees are not deeper, and a path stays short."""


@dataclass(frozen=True, slots=True)
class Settings:
    """What a job's maker chose. Raises `Misuse` for what makes no sense."""

    on_divergence: OnDivergence = "report"
    """Tell somebody; stop the job; or replace the one that disagrees with two others."""
    checkpoint_ms: int = Timing().checkpoint_ms
    """Between two checkpoints of a shard."""
    memory_limit: int | None = None
    """Bytes of state of one replica; None: as much as there is."""
    retain_bytes: int | None = None
    """Of an output journal; None: all of it is kept."""
    retain_ms: int | None = None
    """Output that is older than that may go; None: all of it is kept."""
    spares: int = 2
    """Processes of each node that have the libraries in memory, and wait to become a life. The next
    one takes a second or two to make: a slot that is struck again within that time has the other.
    """
    code: str | None = None
    """A python file, or a package, in the folder `code` of the job's directory, that defines the
    functions which the query names; None where it needs none.
    """
    partitions: int = 1
    """Of the source journals; they are dealt to the shards."""
    base_bytes: int = BASE_BYTES
    """Of an output journal, from one base to the next: what a merger reads at most to start."""
    timing: Timing | None = None
    """Every wait, except `checkpoint_ms`; None: those of the root that runs the job."""

    def __post_init__(self) -> None:
        if self.on_divergence not in get_args(OnDivergence):
            raise Misuse(
                f"on_divergence {self.on_divergence!r:.100}: one of "
                f"{', '.join(get_args(OnDivergence))}"
            )
        for name, (low, high, optional) in _NUMBERS.items():
            value = getattr(self, name)
            if value is None and optional:
                continue
            if type(value) is not int or not low <= value <= high:
                none = " or None" if optional else ""
                raise Misuse(f"{name} {value!r:.100}: a whole number from {low} to {high}{none}")
        if self.code is not None:
            _check_code(self.code)
        if self.timing is not None:
            checked(self.timing)


_NUMBERS: Final = {
    "checkpoint_ms": (1, INF, False),
    "memory_limit": (1, INF, True),
    "retain_bytes": (1, INF, True),
    "retain_ms": (1, INF, True),
    "spares": (0, SPARES_MAX, False),
    "partitions": (1, PARTITIONS_MAX, False),
    "base_bytes": (1, INF, False),
}
"""Of each number the smallest, the largest, and whether it may be None."""


def _check_code(path: object) -> None:
    """Raises `Misuse` where a path may lead out of the folder, or to what python cannot import."""
    parts = path.split("/") if isinstance(path, str) else []
    is_code = bool(parts) and (parts[-1].endswith(".py") or parts[-1].isidentifier())
    if len(parts) > CODE_DEPTH_MAX or not is_code:
        raise Misuse(
            f"code {path!r:.100}: the path of a python file, or of a package, as it lies in the "
            f"folder {CODE!r} of the job's directory, such as 'functions.py'"
        )
    for part in parts:
        check_name("code: the part", part)


def to_document(settings: Settings) -> dict[str, Document]:
    """As it stands in a job's record: all fields, so that defaults of a later release change no
    job that is there.
    """
    document: dict[str, Document] = {
        field.name: getattr(settings, field.name)
        for field in fields(settings)
        if field.name != "timing"
    }
    return {**document, "timing": None if settings.timing is None else asdict(settings.timing)}


def from_document(document: dict[str, Document]) -> Settings:
    """Its inverse, which takes what is absent as its default; raises `DecodeError` or `Misuse`."""
    names = {field.name for field in fields(Settings)}
    if unknown := sorted(document.keys() - names):
        raise DecodeError("job.settings", f"has unknown fields: {', '.join(unknown)}")
    timing = document.get("timing")
    if timing is not None and not isinstance(timing, dict):
        raise DecodeError("job.settings.timing", f"is {timing!r:.100}", "waits, by name")
    waits = None if timing is None else changed(Timing(), timing)
    return Settings(**{**document, "timing": waits})  # type: ignore[arg-type]  # it checks each
