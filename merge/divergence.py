"""Where inputs that should agree do not.

Two inputs diverge when their fully frozen parts differ: neither can take its version back. An
output never changes what it has promised, so a divergence is counted, sampled with both versions,
and reported; it keeps what the acting input said. It is seen in two ways:

- when an input acts and asks for what the output can no longer give (`record`);
- when a key is settled while another input had told a different version of it. That input may still
  come round, so the open question is kept (`OpenQuestions`) until its own stable freezes its
  version, which is then either the same or a divergence.

What a laggard says of a key after that has been settled and forgotten is not compared: knowing
would mean to remember everything.

Which one is wrong, nobody can know; which one is alone, can be seen. While all versions of a key
are there, an input is the *odd one* if it is alone with its version and all others that have told
the key, two at least, agree:

    input     0   1   2   3
    told      7   5   5   -        0 is the odd one, and may be the one that the output follows
    told      7   5   -   -        nobody is: one says this, one says that
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from gapless.kernels import KeyTable
from gapless.kernels.columns import Column
from gapless.kernels.keys import Ids
from gapless.protocol.elements import INF, Payload, format_time
from gapless.protocol.frame import Times
from gapless.protocol.text import format_payload
from gapless.protocol.values import payload_tuples

SAMPLES_MAX = 32
"""Divergences kept in full; the first ones tell most, the count tells the rest."""
NEWEST_MAX = 5
"""Of the last ones, for a caller that reports each time that there are more: a few lines of text.
"""
NOBODY = -1
"""The number of no input."""
QUESTIONS_MAX = 65_536
"""Open questions kept; an input that leaves more behind is broken enough to be seen anyway."""


@dataclass(frozen=True, slots=True)
class Divergence:
    """One event of which an input and the output have different, final versions."""

    input: int
    payload: Payload
    vs: int
    input_ve: int
    """Equal to vs where the input says that there is no such event."""
    output_ve: int
    """Equal to vs where the output has none."""
    odd: int = NOBODY
    """The input that was alone with its version while two or more others agreed, if one was."""

    def __str__(self) -> str:
        def version(ve: int) -> str:
            return "no such event" if ve == self.vs else f"it ends at {format_time(ve)}"

        return (
            f"{format_payload(self.payload)} from {self.vs}: input {self.input} says "
            f"{version(self.input_ve)}, the output has promised {version(self.output_ve)}"
        )


def odd_ones(
    numbers: Sequence[int], said: npt.NDArray[np.int64], has_told: npt.NDArray[np.bool_]
) -> Ids:
    """For each key (a column of `said`) the odd one among the inputs `numbers`, or `NOBODY`."""
    agree = np.array([((said == each) & has_told).sum(axis=0) for each in said])
    agree[~has_told] = 0
    told = has_told.sum(axis=0)
    is_found = (told >= 3) & (agree.max(axis=0, initial=0) == told - 1)
    alone = np.argmax(agree == 1, axis=0)
    return np.where(is_found, np.asarray(numbers, np.int64)[alone], NOBODY)


class Divergences:
    """How many there were, of whom, the first of them and the last."""

    def __init__(self) -> None:
        self.count = 0
        self.samples: list[Divergence] = []
        self.newest: deque[Divergence] = deque(maxlen=NEWEST_MAX)
        self.by_input: Counter[int] = Counter()
        """How often each attached input has disagreed with the output."""
        self.outvoted: Counter[int] = Counter()
        """How often each attached input was the odd one where some input disagreed."""
        self.unasked = 0
        """Keys that inputs had told otherwise, and of which no question was kept: too many."""

    def record(
        self,
        number: int,
        keys: pa.RecordBatch,
        input_ve: Times,
        output_ve: Times,
        odd: Ids,
    ) -> None:
        """Adds one for each row of `keys` (`_vs`, then the payload), with the odd one of each."""
        self.count += keys.num_rows
        self.by_input[number] += keys.num_rows
        for alone, often in zip(*np.unique(odd[odd != NOBODY], return_counts=True), strict=True):
            self.outvoted[int(alone)] += int(often)

        def sampled(first: int, stop: int) -> list[Divergence]:
            rows = payload_tuples(keys.slice(first, stop - first))
            columns = (each[first:stop].tolist() for each in (input_ve, output_ve, odd))
            return [
                Divergence(number, tuple(payload), vs, theirs, ours, alone)
                for (vs, *payload), theirs, ours, alone in zip(rows, *columns, strict=True)
            ]

        room = min(SAMPLES_MAX - len(self.samples), keys.num_rows)
        if room > 0:
            self.samples += sampled(0, room)
        self.newest += sampled(max(0, keys.num_rows - NEWEST_MAX), keys.num_rows)

    def detach(self, number: int) -> None:
        """An input has left: what it did counts in the sum only."""
        self.by_input.pop(number, None)
        self.outvoted.pop(number, None)

    def __int__(self) -> int:
        return self.count

    def __repr__(self) -> str:
        return f"Divergences({self.count}, samples={self.samples})"


class OpenQuestions:
    """Settled keys of which some input had said something else, and may still come round."""

    def __init__(self, keys: pa.Schema, divergences: Divergences) -> None:
        self._table = KeyTable(pa.schema([pa.field("_input", pa.int64(), nullable=False), *keys]))
        self._keys = keys
        self._divergences = divergences
        self._input = Column(-1)
        self._theirs = Column(INF)
        self._ours = Column(INF)
        self._odd = Column(NOBODY)

    def ask(self, number: int, keys: pa.RecordBatch, theirs: Times, ours: Times, odd: Ids) -> None:
        """Keeps the question, for each key, whether input `number` stays with its end, and who was
        the odd one when it was asked.
        """
        room = QUESTIONS_MAX - len(self._table)
        if room < keys.num_rows:
            self._divergences.unasked += keys.num_rows - room
            keys, theirs, ours, odd = keys.slice(0, room), theirs[:room], ours[:room], odd[:room]
        if not keys.num_rows:
            return
        ids, _ = self._table.intern(self._with_input(number, keys))
        capacity = self._table.capacity
        self._input.fit(capacity)[ids] = number
        self._theirs.fit(capacity)[ids] = theirs
        self._ours.fit(capacity)[ids] = ours
        self._odd.fit(capacity)[ids] = odd

    def heard(self, number: int, keys: pa.RecordBatch, ends: Times) -> None:
        """An input speaks of keys that are settled: maybe it comes round."""
        ids = self._table.find(self._with_input(number, keys))
        known = ids >= 0
        self._theirs.values[ids[known]] = ends[known]  # of a repeated key, numpy keeps the last

    def promised(self, number: int, stable: int) -> None:
        """An input's stable freezes its versions: answers the questions that this decides."""
        ids = np.flatnonzero(self._input.values == number)
        theirs = self._theirs.values[ids]
        final = ids if stable == INF else ids[theirs < stable]
        if not len(final):
            return
        theirs, ours = self._theirs.values[final], self._ours.values[final]
        differ = theirs != ours
        if differ.any():
            rows = self._table.rows(final[differ])
            keys = pa.RecordBatch.from_arrays(rows.columns[1:], schema=self._keys)
            odd = self._odd.values[final[differ]]
            self._divergences.record(number, keys, theirs[differ], ours[differ], odd)
        self._forget(final)

    def close(self, number: int, before: int) -> None:
        """An input need not speak any more of what the output has ending before a time."""
        self._forget(np.flatnonzero((self._input.values == number) & (self._ours.values < before)))

    def detach(self, number: int) -> None:
        """An input has left: its questions will not be answered."""
        self._forget(np.flatnonzero(self._input.values == number))

    def _with_input(self, number: int, keys: pa.RecordBatch) -> pa.RecordBatch:
        whose = pa.array(np.full(keys.num_rows, number, np.int64))
        return pa.RecordBatch.from_arrays([whose, *keys.columns], schema=self._table.schema)

    def _forget(self, ids: Ids) -> None:
        if not len(ids):
            return
        self._table.release(ids)
        capacity = self._table.capacity
        free_ends = (self._theirs, INF), (self._ours, INF)
        for column, free in ((self._input, -1), *free_ends, (self._odd, NOBODY)):
            column.values[ids] = free
            column.fit(capacity)

    def __len__(self) -> int:
        return len(self._table)

    @property
    def nbytes(self) -> int:
        """Bytes of state."""
        columns = (self._input, self._theirs, self._ours, self._odd)
        return int(self._table.nbytes) + sum(c.nbytes for c in columns)
