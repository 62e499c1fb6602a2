"""What the paper compares LMerge with: R3 without a shared index, and ordering every input first.

    R3Minus      LMR3-: an index for each input and one for the output, each with its own copy of
                 keys and payloads. The same output as R3 on the same pushes (a test holds that);
                 what differs is what it costs.

                     input 0: key -> end      input 1: key -> end      output: key -> end

    CleanseR1    C+LMR1: a Cleanse on each input, which holds events until they are fully frozen
                 and releases them in one order; then the merge of case r1, which keeps next to
                 nothing. The same table in the end, later.

Both compose public parts and are as vectorised as what they are compared with: a figure shows the
cost of the idea, not of a slow loop. Inputs join at the start and stay; they are trusted to be
legal, so nothing here checks a frame again.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from gapless.kernels import KeyTable
from gapless.kernels.columns import Column, Ints
from gapless.merge.lmerge import LMerge
from gapless.operators.cleanse import Cleanse
from gapless.protocol.elements import BEGIN, INF
from gapless.protocol.frame import Frame, Mask
from gapless.protocol.schema import VS, StreamSchema


class Index:
    """Keys (vs, payload) of one stream, each with an end; an end equal to `vs` is a removed event.

    What an index of its own means: every lookup from another index goes through whole rows.
    """

    def __init__(self, schema: StreamSchema) -> None:
        self._table = KeyTable(pa.schema([schema.arrow.field(VS), *schema.payload]))
        self._vs = Column(INF)
        self._ve = Column(INF)

    def put(self, keys: pa.RecordBatch, vs: Ints, ve: Ints) -> None:
        """Sets the end of each key, known or new; of a repeated key the last one counts."""
        ids, first = self._table.intern(keys)
        self._vs.fit(self._table.capacity)[ids[first]] = vs[first]
        self._ve.fit(self._table.capacity)[ids] = ve

    def add(self, keys: pa.RecordBatch, vs: Ints, ve: Ints) -> Mask:
        """Sets the end of the keys that are new; where those stand, each for the first time."""
        ids, first = self._table.intern(keys)
        self._vs.fit(self._table.capacity)[ids[first]] = vs[first]
        self._ve.fit(self._table.capacity)[ids[first]] = ve[first]
        return first

    def ends(self, keys: pa.RecordBatch, vs: Ints) -> tuple[Ints, Mask]:
        """The end of each key, its `vs` where it is not here; and whether it is here."""
        ids = self._table.find(keys)
        here = ids >= 0
        return np.where(here, self._ve.values[ids], vs), here

    def starting_before(self, t: int) -> tuple[pa.RecordBatch, Ints, Ints]:
        """The keys with `vs < t`, their starts and ends."""
        ids = np.flatnonzero(self._vs.values < t)
        return self._table.rows(ids), self._vs.values[ids], self._ve.values[ids]

    def forget(self, keys: pa.RecordBatch) -> None:
        """Frees the keys that are here."""
        ids = self._table.find(keys)
        ids = ids[ids >= 0]
        self._table.release(ids)
        for column in (self._vs, self._ve):
            column.values[ids] = INF
            column.fit(self._table.capacity)

    def keys(self, frame: Frame) -> pa.RecordBatch:
        """`_vs` and the payload of a frame's rows."""
        columns = frame.batch.columns
        return pa.RecordBatch.from_arrays([columns[0], *columns[3:]], schema=self._table.schema)

    def __len__(self) -> int:
        return len(self._table)

    @property
    def nbytes(self) -> int:
        """Bytes of state."""
        return int(self._table.nbytes) + self._vs.nbytes + self._ve.nbytes


class R3Minus:
    """LMR3-: R3 with an index for each input and another for the output."""

    def __init__(self, schema: StreamSchema) -> None:
        self.schema = schema
        self.stable = BEGIN
        """The output's stable."""
        self._out = Index(schema)
        self._in: list[Index] = []

    def attach(self) -> int:
        """A new input, there from the start; its number."""
        self._in.append(Index(self.schema))
        return len(self._in) - 1

    def push(self, number: int, frame: Frame) -> Frame:
        """Takes the next frame of an input; returns what it adds to the output."""
        out = self._take_in(number, frame) if len(frame) else []
        t = frame.stable
        if t is not None and t > self.stable:
            out += self._freeze(number, t)
            self.stable = t
        else:
            t = None
        if not out:
            return Frame.empty(self.schema, t)
        return (out[0] if len(out) == 1 else Frame.concat(out)).with_stable(t)

    def _take_in(self, number: int, frame: Frame) -> list[Frame]:
        keys = self._out.keys(frame)
        _, here = self._out.ends(keys, frame.vs)
        live = here | (frame.vs >= self.stable)  # of the others, what they are about is settled
        if not live.all():
            rows = np.flatnonzero(live)
            frame, keys, here = frame.take(rows), keys.take(pa.array(rows)), here[rows]
        self._in[number].put(keys, frame.vs, frame.ve)
        new = np.flatnonzero(frame.is_insert & ~here)
        if not len(new):
            return []
        added = frame.with_stable(None) if len(new) == len(frame) else frame.take(new)
        first = self._out.add(self._out.keys(added), added.vs, added.ve)
        return [added if first.all() else added.take(first)]

    def _freeze(self, number: int, t: int) -> list[Frame]:
        """Makes the output agree with the acting input, and forgets what is then settled."""
        out = []
        keys, vs, ve = self._out.starting_before(t)
        mine, _ = self._in[number].ends(keys, vs)
        lower = np.minimum(mine, ve)
        wrong = np.flatnonzero((mine != ve) & ((lower < t) | (t == INF)) & (lower >= self.stable))
        if len(wrong):
            put_right = keys.take(pa.array(wrong))
            out.append(
                Frame.from_columns(
                    self.schema, vs[wrong], mine[wrong], put_right.columns[1:], ve[wrong]
                )
            )
            self._out.put(put_right, vs[wrong], mine[wrong])
            ve[wrong] = mine[wrong]
        settled = np.flatnonzero((ve < t) | (t == INF))
        if len(settled):
            gone = keys.take(pa.array(settled))
            for index in (self._out, *self._in):
                index.forget(gone)
        return out

    def __len__(self) -> int:
        """Live keys of the output."""
        return len(self._out)

    @property
    def nbytes(self) -> int:
        """Bytes of state."""
        return self._out.nbytes + sum(index.nbytes for index in self._in)


class CleanseR1:
    """C+LMR1: a Cleanse on each input, then the merge of case r1."""

    def __init__(self, schema: StreamSchema) -> None:
        self._merge = LMerge(schema, case="r1")
        self._schema = schema
        self._cleanse: dict[int, Cleanse] = {}

    def attach(self) -> int:
        """A new input, there from the start; its number."""
        number = self._merge.attach()
        self._cleanse[number] = Cleanse(self._schema)
        return number

    def push(self, number: int, frame: Frame) -> Frame:
        """Takes the next frame of an input; returns what is final and was not yet put out."""
        return self._merge.push(number, self._cleanse[number].push(0, frame).frame)

    @property
    def stable(self) -> int:
        """The output's stable."""
        return self._merge.stable

    def __len__(self) -> int:
        """Events held before the merge."""
        return sum(map(len, self._cleanse.values()))

    @property
    def nbytes(self) -> int:
        """Bytes of state."""
        return int(self._merge.nbytes) + sum(c.nbytes for c in self._cleanse.values())
