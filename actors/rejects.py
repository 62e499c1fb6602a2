"""The rows that a replica's plan could not process: counted, reported, and kept for people.

    rejects/r0.1.jsonl     {"batch": 3, "reason": "ZeroDivisionError: ...",
                            "origin": "r0.1/1.4, plan talkers: map risk=score(len, n)",
                            "row": {"_vs": 17, "len": 8, "n": 0, ...}}

Of a query with `on_error("aside")`. All replicas of a shard set the same rows aside, and each slot
has a file of its own, of rows that its lives have read. The file of a slot that was never struck
has all; a life that began with the state of a peer has not read what came before it, and one that
began with a checkpoint reads rows again: a line may be there twice.

A file is for people, so it is bounded, and so is what waits to be written: beyond that rows are
counted only, and that is said.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from gapless.failover.messages import Life
from gapless.journal.disk import Disk
from gapless.journal.rejects import (
    ALARM_FACTOR,
    FILE_BYTES_MAX,
    FOLDER,
    Rejected,
    aside_text,
    lines,
)
from gapless.operators.aside import ASIDE_ROWS_MAX, SetAside
from gapless.protocol.errors import GaplessError
from gapless.protocol.plain_rows import plain_rows

WAITING_ROWS_MAX = 100_000
"""Rows that wait to be written: of more than a disk takes in time, some are enough."""
REASONS_MAX = 16
"""For which rows are not kept, each told when it comes up first: a disk fails in a few ways."""

Do = Callable[[Callable[[], None]], None]


class Rejects:
    """Of one life of a replica. Its methods are the pump's; what it writes is written beside it."""

    def __init__(
        self, life: Life, plan: str, disk: Disk, beside: Do, back: Do, alarm: Callable[[str], None]
    ) -> None:
        """`beside`: does work on another thread; `back`: on the pump's."""
        self.count = 0
        """Rows that were set aside."""
        self.lost = 0
        """Of those, the ones that are not in the file."""
        self.name = f"{FOLDER}/{life.slot}.jsonl"
        """The file, in the job's directory."""
        self._who = f"{life}, plan {plan}"
        self._disk = disk
        self._beside, self._back = beside, back
        self._alarm = alarm
        self._waiting = 0
        self._batch = 0
        self._told_at = 1
        self._reasons: set[str] = set()
        self._lost_told_at = ALARM_FACTOR

    def take(self, kept: list[SetAside], count: int) -> None:
        """What one frame has set aside, `count` rows in all: some may not have been kept."""
        rows = sum(of.rows.num_rows for of in kept)
        self.count += count
        if count > rows:
            self._loses(count - rows, f"of one frame {ASIDE_ROWS_MAX:,} are kept at most")
        self._batch += 1
        if self._waiting + rows > WAITING_ROWS_MAX:
            self._loses(rows, f"{WAITING_ROWS_MAX:,} wait for the disk, which is too slow")
        elif rows:
            self._waiting += rows
            batch = self._batch
            self._beside(lambda: self._write(batch, kept, rows))
        if self.count >= self._told_at:
            while self._told_at <= self.count:
                self._told_at *= ALARM_FACTOR
            self._tell(kept)

    def _tell(self, kept: Iterable[SetAside]) -> None:
        last = next((f"{of.where}: {of.reason}" for of in reversed([*kept])), "")
        self._alarm(aside_text(self.count, last, f"see {self.name}", self.lost))

    def _write(self, batch: int, kept: list[SetAside], rows: int) -> None:
        """On the other thread."""
        why = ""
        try:
            if self._disk.size(self.name) < FILE_BYTES_MAX:
                self._disk.append(self.name, lines(batch, self._lines(kept)))
            else:
                why = f"it has {FILE_BYTES_MAX >> 20} MiB: remove it for newer ones"
        except (GaplessError, OSError) as e:
            why = str(e)
        self._back(lambda: self._written(rows, why))

    def _lines(self, kept: Iterable[SetAside]) -> Iterator[Rejected]:
        for of in kept:
            for row in plain_rows(of.rows):
                yield of.reason, f"{self._who}: {of.where}", row

    def _written(self, rows: int, why: str) -> None:
        self._waiting -= rows
        if why:
            self._loses(rows, why)

    def _loses(self, rows: int, why: str) -> None:
        """So many are not in the file. That is told for each reason once, whatever was lost before
        for another one; and the tenth row, the hundredth.
        """
        self.lost += rows
        is_new = why not in self._reasons and len(self._reasons) < REASONS_MAX
        if not is_new and self.lost < self._lost_told_at:
            return
        if is_new:
            self._reasons.add(why)
        while self._lost_told_at <= self.lost:
            self._lost_told_at *= ALARM_FACTOR
        self._alarm(f"rows that are set aside are counted, and not kept in {self.name}: {why}")
