"""A flight record as a test: the machine gets what it got in production, and must not fail."""

from __future__ import annotations

from os import PathLike
from pathlib import Path

from gapless.chaos.failed import ReplayFailed
from gapless.chaos.record_story import causes, told_replayed
from gapless.failover.recorder.record import Functions, decode
from gapless.failover.recorder.replay import Step, replayed


def replay(path: str | PathLike[str], functions: Functions | None = None) -> list[Step]:
    """Replays the flight record in a file; the steps. Raises `ReplayFailed`, with the chain of
    causes, where the machine or its `validate` raises, `RecordError` where it cannot be replayed.

    `functions`: those of yours that the query names, by "module:name".
    """
    record = decode(Path(path).read_bytes())
    steps = list(replayed(record, functions))
    if steps and steps[-1].error is not None:
        told = "\n".join(
            line for step in causes(steps) for line in told_replayed(record.life, step)
        )
        raise ReplayFailed(f"{path}: event {steps[-1].number} of {record.life}:\n{told}")
    return steps
