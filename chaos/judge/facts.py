"""What a real run leaves behind, as the facts that the simulator's checkers hear.

    out/0/m0.1   rows 0 ..... 812 ..... 2,000     Durable(m0.1/1.2, epoch 1, after 0, frame) ...
                 epoch 1      epoch 2             Durable(m0.1/3.1, epoch 2, after 812, frame) ...
    a Recording  tokens, frames                   Resumed, Emitted ...; and Delivered, where its
                                                  tokens name a place in a journal

Each piece of a journal is said to be of the life that the marker of its epoch names. What a writer
has trimmed away is there as a base alone, which is said as `Recovered`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise

from gapless.chaos.judge.history import Delivered, Durable, Emitted, Fact, Recovered, Resumed
from gapless.chaos.judge.recording import Recording
from gapless.failover.messages import Life, Token
from gapless.failover.table import LiveTable
from gapless.journal.commit import Commits
from gapless.journal.disk import Disk
from gapless.journal.epoch import claimed_by
from gapless.journal.layout import layout_of
from gapless.journal.reader import Reader
from gapless.journal.segment import writer_of
from gapless.protocol.elements import BEGIN
from gapless.protocol.envelope import Incarnation
from gapless.protocol.frame import Frame
from gapless.protocol.schema import StreamSchema


@dataclass(slots=True)
class Written:
    """One output journal, read whole."""

    slot: str
    is_there: bool = False
    """Whether a merger has ever begun it."""
    facts: list[Fact] = field(default_factory=list)
    rows: int = 0
    """That were read; trimmed ones are not there any more."""
    since: int = BEGIN
    """It has every event with `ve` from here on."""
    stable: int = BEGIN
    """The last one."""
    held: Frame | None = None
    """What it leads to, as inserts."""
    epochs: tuple[int, ...] = ()
    """Those that have rows in it."""


def read_output(disk: Disk, slot: str, schema: StreamSchema) -> Written:
    """An output journal with all its epochs. Raises `JournalError` where it does not read, and
    `StreamViolation` where an adjust changes what is not there.
    """
    found = Written(slot)
    table = LiveTable(schema)
    if layout_of(disk) is None:
        found.held = table.rows(table.ids())
        return found
    found.is_there = True
    begins = _begins(disk)
    found.epochs = tuple(sorted({epoch for _, epoch in begins}))
    reader = Reader(disk)
    if reader.position[0] > 0 and (base := reader.read()) is not None:
        table.change(base)
        offset = reader.position[0]
        epoch = _epoch_at(begins, offset)
        found.since = BEGIN if base.stable is None else base.stable
        found.facts.append(Recovered(_life(disk, slot, epoch), epoch, offset, base))
    while (frame := reader.read()) is not None:
        after = reader.position[0] - len(frame)
        table.change(frame)
        found.rows += len(frame)
        for at, piece in _cut(frame, after, [offset for offset, _ in begins]):
            epoch = _epoch_at(begins, at)
            found.facts.append(Durable(_life(disk, slot, epoch), epoch, at, piece))
    found.stable = reader.stable
    found.held = table.rows(table.ids())
    return found


def _begins(disk: Disk) -> list[tuple[int, int]]:
    """Where each epoch that has rows begins, in order: offsets and epochs."""
    layout = layout_of(disk)
    if layout is None:
        return []
    commits = Commits(disk, layout)
    names = commits.facts.column("segment").to_pylist()
    firsts = commits.facts.column("first").to_pylist()
    begins: dict[int, int] = {}
    for name, first in zip(names, firsts, strict=True):  # one a segment
        if name:
            begins.setdefault(writer_of(name).counter, first)
    begins.setdefault(commits.head.epoch, sum(commits.head.rows))  # what is not sealed yet
    return sorted((offset, epoch) for epoch, offset in begins.items())


def _epoch_at(begins: list[tuple[int, int]], offset: int) -> int:
    """The epoch that a row is of."""
    return max((b for b in begins if b[0] <= offset), default=(0, 0))[1]


def _cut(frame: Frame, after: int, cuts: list[int]) -> Iterator[tuple[int, Frame]]:
    """A frame at the offsets where epochs begin; its stable with the last piece."""
    end = after + len(frame)
    inside = [cut for cut in cuts if after < cut < end]
    edges = [after, *inside, end]
    for low, high in pairwise(edges):
        stable = frame.stable if high == end else None
        yield low, frame.slice(low - after, high - low, stable)


def _life(disk: Disk, slot: str, epoch: int) -> Life:
    """Who has written in an epoch."""
    life = Life.parse(claimed_by(disk, epoch)) if epoch else None
    return Life(slot, Incarnation(0, epoch)) if life is None else life


def facts_of(recording: Recording, lives: dict[str, Life]) -> list[Fact]:
    """What a program was handed. `lives`: of each merger's slot, one to say `Delivered` of."""
    facts: list[Fact] = []
    for run in recording.runs:
        tokens = run.resumed
        facts.append(Resumed(recording.name, tokens, recording.deliver, recording.since))
        before = tokens
        for arrival in run.arrivals:
            emit = arrival.emit
            facts.append(Emitted(recording.name, emit.frame, emit.tokens, emit.reset, emit.since))
            exact = None if before is None or emit.reset else _exact(before, dict(emit.tokens))
            if exact is not None and recording.deliver == "changes" and exact.merger in lives:
                after = exact.offset - len(emit.frame)
                facts.append(
                    Delivered(lives[exact.merger], recording.name, after, emit.frame, exact)
                )
            before = dict(emit.tokens)
    return facts


def _exact(before: dict[str, Token], after: dict[str, Token]) -> Token | None:
    """The place in a journal behind what lies between two tokens, of one shard."""
    if len(after) != 1 or before.keys() != after.keys():
        return None
    ((shard, token),) = after.items()
    return token if token.merger and token.merger == before[shard].merger else None
