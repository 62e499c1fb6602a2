"""Bases of large tables: made of what the journal has, beside all that goes on.

    the thread that writes    seal: commit 17     append, append, append ...     commit: its base
    another one                    draft.make(): the last base, and what follows it up to commit 17

A live table of millions of rows takes seconds to write out, and its output would wait for that. The
journal has it all the same: the last base and the frames behind it are what a life that comes back
reads. So nobody looks at the LMerge for it, and a base may be of an earlier commit than the last.
"""

from __future__ import annotations

from dataclasses import dataclass

from gapless.failover.fold import folded_parts
from gapless.failover.merger.scan import from_base
from gapless.journal.base import write_base
from gapless.journal.disk import Disk
from gapless.journal.head import Base
from gapless.journal.layout import Layout
from gapless.protocol.elements import INF
from gapless.protocol.errors import JournalError
from gapless.protocol.frame import Frame


@dataclass(frozen=True, slots=True)
class Made:
    """A base that is on the disk, and no commit names it yet."""

    base: Base
    rows: int
    nbytes: int


@dataclass(frozen=True, slots=True)
class BaseDraft:
    """A base to be made: the output as of a commit."""

    disk: Disk
    """No other thread uses it meanwhile."""
    layout: Layout
    name: str
    commit: int
    rows: int
    """That the output had."""
    stable: int
    records: int
    """Since the last base, up to that commit."""

    def make(self) -> Made:
        """Writes it, on any thread. Raises where the journal does not read, or the disk does not
        take it.
        """
        schema = self.layout.schema
        base, reader = from_base(self.disk, schema, INF)
        frames: list[Frame] = [] if base is None else [base.with_stable(None)]
        while (behind := self.rows - reader.position[0]) > 0:
            frame = reader.read()
            if frame is None:
                raise JournalError(f"{self.disk}: {behind} rows of commit {self.commit} are gone")
            frames.append(frame.with_stable(None).slice(0, min(behind, len(frame))))
        parts = folded_parts(schema, frames, self.stable)
        live = Frame.concat(parts) if parts else Frame.empty(schema)
        size = write_base(
            self.disk, self.layout, self.name, live.with_stable(self.stable), durable=True
        )
        return Made(Base(self.commit, self.name, size), len(live), live.nbytes)
