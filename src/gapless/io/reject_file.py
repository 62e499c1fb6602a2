"""The rows that an embedded query sets aside, in a file: as a job keeps them (actors/rejects.py).

    talkers.parquet.rejects.jsonl     {"batch": 3, "reason": "late by 3 ms; ...",
                                       "origin": "source flows", "row": {"ts": ..., "src": 7}}

The file is of one run: what was there of an earlier one is replaced. It is for people, so it is
bounded; beyond that rows are only counted, and that is said.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

from gapless.journal.rejects import ALARM_FACTOR, FILE_BYTES_MAX, Rejected, aside_text, lines
from gapless.operators.aside import SetAside
from gapless.protocol.errors import Misuse
from gapless.protocol.plain_rows import plain_rows

log = logging.getLogger("gapless")


class RejectFile:
    """Takes what is set aside after each step of a run."""

    def __init__(self, path: str | Path) -> None:
        """Raises `Misuse` where no file can be there; it is made with its first row."""
        self.path = Path(path)
        self.count = 0
        """Rows that were set aside."""
        self.lost = 0
        """Of those, the ones that are not in the file."""
        self._bytes = self._batch = 0
        self._told_at = 1
        self._is_closed = False
        try:
            self.path.unlink(missing_ok=True)
        except OSError as e:
            raise Misuse(f"rejects={str(path)!r}: no file of rows can be there: {e}") from None

    def take(self, kept: list[SetAside], count: int) -> None:
        """What one step has set aside, `count` rows in all: some may not have been kept."""
        rows = sum(of.rows.num_rows for of in kept)
        self.count += count
        self.lost += count - rows
        self._batch += 1
        if rows and not self._write(kept):
            self.lost += rows
        if self.count >= self._told_at:
            while self._told_at <= self.count:
                self._told_at *= ALARM_FACTOR
            last = kept[-1] if kept else None
            where = "" if last is None else f"{last.where}: {last.reason}"
            log.warning(aside_text(self.count, where, f"see {self.path}", self.lost))

    def _write(self, kept: list[SetAside]) -> bool:
        if self._is_closed:
            return False
        if self._bytes >= FILE_BYTES_MAX:
            return self._closed_as(f"it has {FILE_BYTES_MAX >> 20} MiB")
        data = lines(self._batch, _rejected(kept))
        try:
            with self.path.open("ab") as file:
                file.write(data)
        except OSError as e:
            self._is_broken = True  # a file with holes would look whole
            log.warning("rows that are set aside are counted, and not kept in %s: %s", self.path, e)
            return False
        self._bytes += len(data)
        return True

    def _closed_as(self, why: str) -> bool:
        """Nothing more is written: a file with holes would look whole."""
        self._is_closed = True
        log.warning("rows that are set aside are counted, and not kept in %s: %s", self.path, why)
        return False


def _rejected(kept: list[SetAside]) -> Iterator[Rejected]:
    for of in kept:
        for row in plain_rows(of.rows):
            yield of.reason, of.where, row
