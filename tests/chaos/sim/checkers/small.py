"""A world small enough to be written down, and histories told fact by fact."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from gapless.chaos.judge.history import Broken, Checker, Durable, Emitted, Fact, History, Resumed
from gapless.chaos.sim.disk import SimulatedDisk
from gapless.failover.job.desired import Desired
from gapless.failover.messages import Life, Session, Token
from gapless.journal.disk import Disk
from gapless.journal.layout import Layout
from gapless.journal.writer import Writer
from gapless.protocol.elements import BEGIN
from gapless.protocol.envelope import Incarnation
from gapless.protocol.frame import Frame
from gapless.protocol.schema import StreamSchema
from gapless.protocol.tdb import Tdb
from gapless.protocol.text import DEFAULT_SCHEMA, parse

SOURCE = StreamSchema({"ts": "int64", "p": "string"})


@dataclass(slots=True)
class SmallWork:
    name: str = "small"
    key: bool = True
    starts_are_final: bool = False
    shards: int = 1
    layouts: Mapping[str, Layout] = field(
        default_factory=lambda: {"s": Layout(SOURCE, "ts", ("p",), 2)}
    )


@dataclass(slots=True)
class SmallWorld:
    expected: Tdb
    seed: int = 0
    now: int = 0
    workload: Any = field(default_factory=SmallWork)
    outputs: dict[str, Disk] = field(default_factory=dict)
    machines: dict[Life, Any] = field(default_factory=dict)
    supervisor: Any = None
    desired: Desired = field(default_factory=lambda: Desired(1, ("p",)))


def frame(text: str) -> Frame:
    return Frame.from_elements(DEFAULT_SCHEMA, parse(text))


def table(text: str) -> Tdb:
    tdb = Tdb(DEFAULT_SCHEMA)
    tdb.fold(frame(text))
    return tdb


def world(text: str, **more: Any) -> SmallWorld:
    return SmallWorld(table(text), **more)


def life(slot: str, counter: int = 1, term: int = 1) -> Life:
    return Life(slot, Incarnation(term, counter))


def session(replica: Life, merger: str = "m0.0", attempt: int = 1) -> Session:
    return Session(replica, merger, attempt)


def durable(
    *texts: str, merger: Life | None = None, epoch: int = 1, after: int = 0
) -> list[Durable]:
    """Appends of one life, one behind the other."""
    facts: list[Durable] = []
    for text in texts:
        facts.append(Durable(merger or life("m0.0"), epoch, after, frame(text)))
        after += len(frame(text))
    return facts


def tokens(at: int) -> Mapping[str, Token]:
    return {"0": Token("m0.0", 1, at, at)}


def emitted(text: str, at: int = 0, *, since: int | None = None, who: str = "s") -> Emitted:
    """With `since`: as a reset."""
    reset = since is not None
    return Emitted(who, frame(text), tokens(at), reset, BEGIN if since is None else since)


def resumed(at: int | None = None, who: str = "s", **more: Any) -> Resumed:
    return Resumed(who, None if at is None else tokens(at), **more)


def hear(checker: Checker, *facts: Fact | tuple[int, Fact]) -> None:
    """A fact without a time comes at 0."""
    history = History([checker])
    for fact in facts:
        if type(fact) is tuple:
            history.say(*fact)
        else:
            history.say(0, fact)  # type: ignore[arg-type]  # helpers give any fact


def catches(problem: str) -> Any:
    return pytest.raises(Broken, match=problem)


def journal(*texts: str) -> SimulatedDisk:
    """A journal that was appended so."""
    disk = SimulatedDisk()
    writer = Writer(disk, Layout(DEFAULT_SCHEMA), who="w", token="w", now_ms=lambda: 0)
    for text in texts:
        writer.append(frame(text))
    writer.close()
    return disk
