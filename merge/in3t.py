"""The index in3t of case R4: how often each event is there, in each input and in the output.

The paper's in3t (section IV-C) is in2t with, for each input and the output, an index of ends with
their counts. Here a second `KeyTable` holds pairs (key, end), and counts are columns over keys and
over pairs:

      key   vs  payload     pair  key  end   inputs[0]  inputs[1]  out
       0     6  A             0     0   20           1          1    1     input 0: ins(A,6,20)
                              1     0   25           1          0    1              ins(A,6,25)
                       events of key 0:              2          1    2     input 1: ins(A,6,20)

The events of a key add up to those of its pairs, in each column. A pair goes with its key, and a
free pair has no events. What the counts mean for the output is the business of `r4.py`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from gapless.kernels import KeyTable
from gapless.kernels.columns import ROOM_MIN, Column
from gapless.merge.keys import positions
from gapless.merge.rows import Rows, StartedKeys
from gapless.protocol.elements import BEGIN, INF
from gapless.protocol.errors import Bug
from gapless.protocol.frame import Frame, Times
from gapless.protocol.schema import StreamSchema

Ids = npt.NDArray[np.int64]

NO_PAIR = -1

_PAIR = pa.schema([pa.field(n, pa.int64(), nullable=False) for n in ("key", "end")])


class Counts:
    """How many events one input, or the output, has: by key and by pair."""

    __slots__ = ("keys", "pairs")

    def __init__(self, keys: int = ROOM_MIN, pairs: int = ROOM_MIN) -> None:
        self.keys = Column(0, keys)
        self.pairs = Column(0, pairs)

    def add(self, keys: Ids, pairs: Ids, by: int) -> None:
        """Counts events up or down; the same key or pair may stand there several times."""
        np.add.at(self.keys.values, keys, by)
        np.add.at(self.pairs.values, pairs, by)

    @property
    def nbytes(self) -> int:
        """Bytes of both columns."""
        return self.keys.nbytes + self.pairs.nbytes


@dataclass(slots=True)
class Units:
    """Single events, by key and ascending end."""

    keys: Ids
    pairs: Ids

    def __len__(self) -> int:
        return len(self.keys)

    def __getitem__(self, rows: Ids) -> Units:
        return Units(self.keys[rows], self.pairs[rows])

    def ranks(self) -> Ids:
        """The place of each among those of its key."""
        starts = positions(np.r_[True, self.keys[1:] != self.keys[:-1]])
        sizes = np.diff(np.r_[starts, len(self.keys)])
        return np.arange(len(self.keys)) - np.repeat(starts, sizes)


class In3t:
    """Live keys, their pairs, and the counts of the output and of each input."""

    def __init__(self, schema: StreamSchema) -> None:
        self.schema = schema
        self.keys = StartedKeys(schema)
        self.key = Column(NO_PAIR)
        """By pair; so are `end` and `start`, which are INF where a pair is free."""
        self.end = Column(INF)
        self.start = Column(INF)
        self.out = Counts()
        self.inputs: dict[int, Counts] = {}
        self._pairs = KeyTable(_PAIR)
        self._room = 0, 0  # capacity of keys and of pairs that the columns were last fitted to

    def attach(self, number: int) -> None:
        """Opens counts of nothing, as long as all others are."""
        out = self.out
        self.inputs[number] = Counts(len(out.keys.values), len(out.pairs.values))

    def detach(self, number: int) -> None:
        """Frees the counts of an input."""
        del self.inputs[number]

    @property
    def starts(self) -> Times:
        """Of keys, by id; INF where an id is free."""
        starts: Times = self.keys.vs.values[: self.keys.capacity]
        return starts

    # -- keys and pairs -----------------------------------------------------------------------

    def pair(self, keys: Ids, ends: Times, starts: Times) -> tuple[Ids, Ids]:
        """Ids of the pairs, and those of them that are new."""
        batch = pa.RecordBatch.from_arrays([pa.array(keys), pa.array(ends)], schema=_PAIR)
        pairs, first = self._pairs.intern(batch)
        new = pairs[first]
        self._make_room()
        self.key.values[new] = keys[first]
        self.end.values[new] = ends[first]
        self.start.values[new] = starts[first]
        return pairs, new

    def undo(self, rows: Rows, new: Ids) -> None:
        """Forgets the keys that a frame's rows are the first of, and the pairs that are new."""
        self._release_pairs(new)
        self.keys.release(rows.ids[rows.new])
        self._make_room()

    def forget(self, t: int) -> None:
        """Frees keys that t settles, with all their pairs."""
        n = self.keys.capacity
        gone = self.starts < t
        if t != INF:
            past = positions(self.end.values < t)  # a free pair ends at INF
            left = self.out.keys.values[:n].copy()
            np.subtract.at(left, self.key.values[past], self.out.pairs.values[past])
            gone &= left == 0
        ids = positions(gone)
        if not len(ids):
            return
        self._release_pairs(positions(np.append(gone, False)[self.key.values]))  # NO_PAIR is last
        for counts in self._counts():
            counts.keys.values[ids] = 0
        self.keys.release(ids)
        self._make_room()

    def _release_pairs(self, pairs: Ids) -> None:
        if not len(pairs):
            return
        self._pairs.release(pairs)
        self.key.values[pairs] = NO_PAIR
        self.end.values[pairs] = INF
        self.start.values[pairs] = INF
        for counts in self._counts():
            counts.pairs.values[pairs] = 0

    def _counts(self) -> list[Counts]:
        return [self.out, *self.inputs.values()]

    def _make_room(self) -> None:
        keys, pairs = self.keys.capacity, self._pairs.capacity
        if (keys, pairs) == self._room:
            return
        self._room = keys, pairs
        for counts in self._counts():
            counts.keys.fit(keys)
            counts.pairs.fit(pairs)
        for column in (self.key, self.end, self.start):
            column.fit(pairs)

    # -- comparing ----------------------------------------------------------------------------

    def differences(self, number: int, since: int, t: int) -> tuple[Units, Units]:
        """Of keys with `vs < t`, over ends from `since` on: what the input has more often than the
        output, and the output more often than the input.
        """
        diff = self.inputs[number].pairs.values - self.out.pairs.values
        active = (diff != 0) & (self.start.values < t) & (self.end.values >= since)
        pairs = positions(active)
        keys, ends = self.key.values[pairs], self.end.values[pairs]
        order = np.lexsort((ends, keys))
        pairs, keys = pairs[order], keys[order]
        by = diff[pairs]
        more, less = np.maximum(by, 0), np.maximum(-by, 0)
        return (
            Units(np.repeat(keys, more), np.repeat(pairs, more)),
            Units(np.repeat(keys, less), np.repeat(pairs, less)),
        )

    def lacking(self, number: int, deficits: Units) -> Units:
        """The first deficits of each key, as many as the input has more events in all."""
        more = self.inputs[number].keys.values - self.out.keys.values
        return deficits[positions(deficits.ranks() < more[deficits.keys])]

    def holders(self, ids: Ids) -> Ids:
        """How many inputs have more of each key than the output."""
        have = self.out.keys.values[ids]
        holders = np.zeros(len(ids), np.int64)
        for counts in self.inputs.values():
            holders += counts.keys.values[ids] > have
        return holders

    # -- tables of events ---------------------------------------------------------------------

    def rows(self, keys: Ids, ve: Times, was: Times) -> Frame:
        """Rows of these keys: inserts where `was` is BEGIN."""
        rows = self.keys.rows(keys)
        starts = rows.column(0).to_numpy()
        return Frame.from_columns(self.schema, starts, ve, rows.columns[1:], was)

    def table(self, counts: Counts) -> Frame:
        """The events of an input, or of the output, whose keys are live."""
        held = positions(counts.pairs.values > 0)
        pairs = np.repeat(held, counts.pairs.values[held])
        if not len(pairs):
            return Frame.empty(self.schema)
        keys, ends = self.key.values[pairs], self.end.values[pairs]
        return self.rows(keys, ends, np.full(len(ends), BEGIN))

    def adopt(self, counts: Counts, table: Frame) -> None:
        """Counts the events of a table, of which none is settled."""
        rows = self.keys.rows_of(table, BEGIN)
        pairs, _ = self.pair(rows.ids, rows.ve, rows.vs)
        counts.add(rows.ids, pairs, 1)

    # -- looking at it ------------------------------------------------------------------------

    def __len__(self) -> int:
        """Live keys."""
        return len(self.keys)

    @property
    def nbytes(self) -> int:
        """Bytes of state."""
        columns = self.key.nbytes + self.end.nbytes + self.start.nbytes
        counts = sum(c.nbytes for c in self._counts())
        return self.keys.nbytes + int(self._pairs.nbytes) + columns + counts

    def validate(self) -> None:
        """Raises `Bug` where an invariant is broken."""
        self.keys.validate(self.keys.vs.values)
        self._pairs.validate()
        key, live = self.key.values, self.key.values != NO_PAIR
        if int(live.sum()) != len(self._pairs):
            raise Bug(f"{int(live.sum())} pairs have a key, {len(self._pairs)} are live")
        if (self.keys.vs.values[key[live]] != self.start.values[live]).any():
            raise Bug("a pair of a key that is not live")
        named = [("output", self.out), *((f"input {n}", c) for n, c in self.inputs.items())]
        for name, counts in named:
            if (counts.pairs.values < 0).any():
                raise Bug(f"{name}: a negative count")
            by_key = np.zeros(len(counts.keys.values), np.int64)
            np.add.at(by_key, key[live], counts.pairs.values[live])
            if (by_key != counts.keys.values).any():
                raise Bug(f"{name}: events of a key do not add up to those of its pairs")
            if counts.pairs.values[~live].any():
                raise Bug(f"{name}: a free pair has events")
