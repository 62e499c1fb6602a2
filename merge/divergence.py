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
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
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

    def __str__(self) -> str:
        def version(ve: int) -> str:
            return "no such event" if ve == self.vs else f"it ends at {format_time(ve)}"

        return (
            f"{format_payload(self.payload)} from {self.vs}: input {self.input} says "
            f"{version(self.input_ve)}, the output has promised {version(self.output_ve)}"
        )


class Divergences:
    """How many there were, and the first of them."""

    def __init__(self) -> None:
        self.count = 0
        self.samples: list[Divergence] = []
        self.unasked = 0
        """Keys that inputs had told otherwise, and of which no question was kept: too many."""

    def record(self, number: int, keys: pa.RecordBatch, input_ve: Times, output_ve: Times) -> None:
        """Adds one for each row of `keys` (`_vs`, then the payload)."""
        self.count += keys.num_rows
        room = min(SAMPLES_MAX - len(self.samples), keys.num_rows)
        if room <= 0:
            return
        rows = payload_tuples(keys.slice(0, room))
        ends = zip(input_ve[:room].tolist(), output_ve[:room].tolist(), strict=True)
        for (vs, *payload), (theirs, ours) in zip(rows, ends, strict=True):
            self.samples.append(Divergence(number, tuple(payload), vs, theirs, ours))

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

    def ask(self, number: int, keys: pa.RecordBatch, theirs: Times, ours: Times) -> None:
        """Keeps the question, for each key, whether input `number` stays with its end."""
        room = QUESTIONS_MAX - len(self._table)
        if room < keys.num_rows:
            self._divergences.unasked += keys.num_rows - room
            keys, theirs, ours = keys.slice(0, room), theirs[:room], ours[:room]
        if not keys.num_rows:
            return
        ids, _ = self._table.intern(self._with_input(number, keys))
        capacity = self._table.capacity
        self._input.fit(capacity)[ids] = number
        self._theirs.fit(capacity)[ids] = theirs
        self._ours.fit(capacity)[ids] = ours

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
            self._divergences.record(number, keys, theirs[differ], ours[differ])
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
        for column, free in ((self._input, -1), (self._theirs, INF), (self._ours, INF)):
            column.values[ids] = free
            column.fit(capacity)

    def __len__(self) -> int:
        return len(self._table)

    @property
    def nbytes(self) -> int:
        """Bytes of state."""
        columns = (self._input, self._theirs, self._ours)
        return int(self._table.nbytes) + sum(c.nbytes for c in columns)
