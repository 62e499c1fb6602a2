"""One side of a join: its rows that may still meet somebody, and when they no longer can.

    rows       id -> payload, key, [vs, ve)      LiveRows, without the `on` columns where
                                                 their values stand once for each key
    ends       when each row ends                an Agenda: a purge looks at what is due, only
    starts     of rows whose start the other side's stable has not reached    } only where unmatched
    settled    id -> the end of the last match that was forgotten, or vs      } rows come out

A row on a side whose ends are not final may end elsewhere later: then it is entered again, and what
was entered before is recognised by its time, which is not the row's end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from gapless.kernels import KeyTable
from gapless.kernels.columns import Column
from gapless.kernels.keys import Ids, Mask
from gapless.kernels.live_rows import EVER, LiveRows, Met
from gapless.operators.agenda import Agenda
from gapless.operators.join_changes import Changes
from gapless.operators.memory import Memory
from gapless.operators.row_bytes import RowBytes
from gapless.operators.state import State, table
from gapless.protocol.columns import take_rows
from gapless.protocol.elements import BEGIN, INF
from gapless.protocol.errors import Bug, DecodeError, StreamViolation
from gapless.protocol.frame import Frame, Times
from gapless.protocol.schema import StreamSchema
from gapless.protocol.text import format_element

KeysOf = Callable[[pa.RecordBatch, Times], Ids]
"""The numbers of rows of one side: `JoinKeys.of`."""

PAIRS_AT_ONCE_MAX = 1 << 17
"""Pairs of which numbers and times are laid out at once, however many rows share a key."""
PAIR_BYTES = 96
"""Of a pair: who meets whom, three lifetimes, and what is taken of them on the way."""
ALL = INF + 1
"""A bound that every end is below, INF too."""
FEW = 32
"""Of so many ids one is worth sorting; of more a mask over all is cheaper."""

_TIMES = [pa.field(name, pa.int64(), nullable=False) for name in ("_vs", "_ve", "_settled")]

OfKeys = tuple[Sequence[str], Callable[[Ids], list[pa.Array]]]
"""Columns that have one value a key, and their values for keys."""

STALE_MIN = 1024
"""Fewer entries of rows that have moved or gone are not worth entering all again."""


class Side:
    """Rows of one input. The stables are the join's to set."""

    def __init__(
        self, schema: StreamSchema, final: bool, keeps: bool, of_keys: OfKeys | None = None
    ) -> None:
        self.schema = schema
        names = schema.payload.names
        shared = () if of_keys is None else of_keys[0]
        rest = [name for name in names if name not in shared]
        if not rest or not shared:  # a batch without columns would have no rows
            rest, of_keys = names, None
        self._of_keys = None if of_keys is None else of_keys[1]
        self._rest = rest
        self._order = [[*shared, *rest].index(name) for name in names]
        self.rows = LiveRows(pa.schema([schema.payload.field(name) for name in rest]))
        self._state = pa.schema([*_TIMES, *schema.payload])
        self.stable = BEGIN
        self.final = final
        """Whether ends never change."""
        self.keeps = keeps
        """Whether its unmatched rows come out."""
        self.settled = Column(0)  # by id, as is `_end`
        self._ends = Agenda()
        self._starts = Agenda()
        self._end = Column(BEGIN)  # BEGIN where the id is free; kept where ends are not final
        self._stale = 0  # entries in the agendas of rows that have moved or gone
        self.row_bytes = RowBytes(schema.payload)
        self._bytes = Column(0)  # by id, where they differ

    # -- looking ------------------------------------------------------------------------------

    def meet(
        self, keys: Ids, vs: Times, ve: Times, memory: Memory
    ) -> Iterator[tuple[int, int, Met]]:
        """Rows that are alive with those asked for, some of these at a time: from, to, who."""
        start = 0
        while start < len(keys):
            most = memory.rows(PAIR_BYTES, PAIRS_AT_ONCE_MAX)
            end, met = self.rows.meet(keys, vs, ve, start, most)
            memory.ask(len(met.id) * PAIR_BYTES, "pairs of rows that join")
            yield start, end, met
            start = end

    def payloads(self, ids: Ids, known: Sequence[pa.Array] | None = None) -> pa.RecordBatch:
        """The payloads of these rows; `known`: their keys' values, if the caller has them."""
        rest = self.rows.rows(ids)
        if self._of_keys is None:
            return rest
        values = self._of_keys(self.rows.lives(ids).keys) if known is None else known
        columns = [*values, *rest.columns]
        return pa.RecordBatch.from_arrays(
            [columns[i] for i in self._order], schema=self.schema.payload
        )

    def _add(self, payload: pa.RecordBatch, keys: Ids, *lives: Any) -> Ids:
        """Stores rows; their ids."""
        stored = payload if self._of_keys is None else payload.select(self._rest)
        return self.rows.add(stored, keys, *lives)

    def bytes_of(self, ids: Ids) -> Ids:
        """How many bytes each of these rows takes, laid out."""
        if self.row_bytes.is_fixed:
            return np.full(len(ids), self.row_bytes.least)
        found: Ids = self._bytes.values[ids]
        return found

    def find(self, keys: Ids, changes: Changes) -> Ids:
        """The stored row behind each event that is not new: equal ones are taken in their order."""
        n = changes.old
        payload = changes.payload.slice(0, n)
        table = KeyTable(self.schema.payload)
        wanted, _ = table.intern(payload)
        turn = _turns(wanted, changes.vs[:n], changes.was[:n])
        found = np.full(n, -1)
        start = 0
        while start < n:
            end, met = self.rows.equals(
                keys[:n], changes.vs[:n], changes.was[:n], start, PAIRS_AT_ONCE_MAX
            )
            same = table.find(self.payloads(met.id)) == wanted[met.asked]
            asked, ids = met.asked[same], met.id[same]
            place = np.arange(len(asked)) - np.searchsorted(asked, asked)
            mine = place == turn[asked]
            found[asked[mine]] = ids[mine]
            start = end
        if (found < 0).any():
            raise self._violation(changes, int((found < 0).argmax()))
        return found

    def _violation(self, changes: Changes, i: int) -> StreamViolation:
        was, ve = changes.was[i : i + 1], changes.ve[i : i + 1]
        event = Frame.from_columns(
            self.schema, changes.vs[i : i + 1], ve, changes.payload.slice(i, 1), was
        )
        return StreamViolation(
            format_element(event.elements()[0]),
            "an adjust changes an event that is there, which this one, or those of its frame "
            "that lead to it, do not",
        )

    def ending(self, low: int, high: int) -> Ids:
        """Rows that end in `[low, high)`."""
        return self._valid(*self._ends.between(low, high))

    # -- changing -----------------------------------------------------------------------------

    def change(self, ids: Ids, keys: Ids, changes: Changes, since: int, frontier: int) -> None:
        """Moves or removes the rows of those ids, then stores the new ones that end at `since`
        or later. `frontier` is the other side's stable.
        """
        n = changes.old
        if n:
            gone = changes.ve[:n] == changes.vs[:n]
            self._stale += n
            self._move(ids[~gone], changes.ve[:n][~gone])
            self.release(ids[gone])
        if n == len(keys):
            return
        vs, ve = changes.vs[n:], changes.ve[n:]
        payload = changes.payload.slice(n)
        new = self._add(payload, keys[n:], vs, ve, since)
        if since > EVER:
            stored = (new >= 0).nonzero()[0]
            if len(stored) < len(new):
                new, vs, ve = new[stored], vs[stored], ve[stored]
                payload = take_rows(payload, stored)
        self._weigh(new, payload)
        self._enter(new, vs, ve, frontier)
        self._tidy(frontier)

    def beside(self, payload: pa.RecordBatch, keys: Ids, vs: Times, ve: Times) -> Side:
        """Rows of this side that are not stored, as one to be met."""
        side = Side(self.schema, final=True, keeps=False)
        side._weigh(side._add(payload, keys, vs, ve), payload)
        return side

    def _weigh(self, ids: Ids, payload: pa.RecordBatch) -> None:
        """Of new rows, how many bytes they take."""
        if not self.row_bytes.is_fixed:
            self._bytes.fit(self.rows.capacity)[ids] = self.row_bytes.of(payload)

    def _move(self, ids: Ids, ve: Times) -> None:
        self.rows.set_ends(ids, ve)
        self._end.values[ids] = ve
        finite = ve < INF
        self._ends.add(ve[finite], ids[finite])

    def _enter(self, ids: Ids, vs: Times, ve: Times, frontier: int) -> None:
        capacity = self.rows.capacity
        if not self.final:
            self._end.fit(capacity)[ids] = ve
        if len(ve) and int(ve.max()) == INF:  # never due before everything is
            finite = ve < INF
            self._ends.add(ve[finite], ids[finite])
        else:
            self._ends.add(ve, ids)
        if self.keeps:
            self.settled.fit(capacity)[ids] = vs
            later = vs >= frontier
            self._starts.add(vs[later], ids[later])

    def settle(self, ids: Ids, ends: Times) -> None:
        """Matches of these rows, ending then, are forgotten."""
        np.maximum.at(self.settled.values, ids, ends)

    def starting(self, before: int) -> Ids:
        """Rows that start before that, and did not when it was asked last."""
        _, ids = self._starts.due(before)
        if self._stale:
            known = self._end.values
            ids = np.unique(ids[ids < len(known)])
            ids = ids[known[ids] > BEGIN]
        return ids

    def due(self, bound: int) -> Ids:
        """Rows that end before `bound`. They are to be released."""
        if bound >= ALL:
            return self.rows.ids
        return self._valid(*self._ends.due(bound))

    def release(self, ids: Ids) -> None:
        """Forgets rows."""
        if not len(ids):
            return
        self.rows.release(ids)
        capacity = self.rows.capacity
        if not self.final:
            self._end.values[ids] = BEGIN
            self._end.fit(capacity)
        if self.keeps:
            self.settled.fit(capacity)
        if not self.row_bytes.is_fixed:
            self._bytes.fit(capacity)
        if not capacity:
            self._ends, self._starts, self._stale = Agenda(), Agenda(), 0

    def _valid(self, times: Times, ids: Ids) -> Ids:
        """Without entries of rows that have moved or gone."""
        if not self._stale:
            return ids
        known = self._end.values
        inside = ids < len(known)
        times, ids = times[inside], ids[inside]
        return np.unique(ids[known[ids] == times])

    def _tidy(self, frontier: int) -> None:
        """Enters all rows again once most entries are stale."""
        if self._stale > max(STALE_MIN, len(self.rows)):
            self._stale = 0
            self._ends, self._starts = Agenda(), Agenda()
            ids = self.rows.ids
            _, vs, ve = self.rows.lives(ids)
            finite = ve < INF
            self._ends.add(ve[finite], ids[finite])
            if self.keeps:
                later = vs >= frontier
                self._starts.add(vs[later], ids[later])

    # -- looking at it ------------------------------------------------------------------------

    @property
    def nbytes(self) -> int:
        """Bytes of rows and agendas."""
        agendas = self._ends.nbytes + self._starts.nbytes
        columns = self._end.nbytes + self.settled.nbytes + self._bytes.nbytes
        return int(self.rows.nbytes) + agendas + columns

    def snapshot(self) -> pa.RecordBatch:
        """Its rows, each with its lifetime and what is settled of it."""
        ids = self.rows.ids
        _, vs, ve = self.rows.lives(ids)
        settled = self.settled.values[ids] if self.keeps else vs
        columns = [pa.array(vs), pa.array(ve), pa.array(settled), *self.payloads(ids).columns]
        return pa.RecordBatch.from_arrays(columns, schema=self._state)

    def restore(self, state: State, name: str, keys_of: KeysOf, frontier: int) -> None:
        """Takes the rows of a snapshot in."""
        batch = table(state, name, self._state)
        for column in batch.columns[: len(_TIMES)]:
            if column.null_count:
                raise DecodeError(f"snapshot.{name}", "a time is null")
        vs, ve, settled = (column.to_numpy() for column in batch.columns[: len(_TIMES)])
        if ((vs >= ve) | (settled < vs) | (settled > ve)).any():
            raise DecodeError(f"snapshot.{name}", "an invalid lifetime", "vs <= settled <= ve")
        payload = pa.RecordBatch.from_arrays(
            batch.columns[len(_TIMES) :], schema=self.schema.payload
        )
        ids = self._add(payload, keys_of(payload, vs), vs, ve)
        self._weigh(ids, payload)
        self._enter(ids, vs, ve, frontier)
        if self.keeps:
            self.settled.values[ids] = settled

    def validate(self, keys_of: KeysOf, frontier: int) -> None:
        """Raises `Bug` where an invariant is broken; `frontier` is the other side's stable."""
        self.rows.validate()
        ids = self.rows.ids
        keys, vs, ve = self.rows.lives(ids)
        if (keys_of(self.payloads(ids), vs) != keys).any():
            raise Bug("a row is not under its key")
        if not np.array_equal(np.sort(self.ending(BEGIN, INF)), ids[ve < INF]):
            raise Bug("some rows are not due when they end")
        if not self.final:
            ends = self._end.values
            if (ends[ids] != ve).any() or np.count_nonzero(ends != BEGIN) != len(ids):
                raise Bug("an end is not that of its row")
        if not self.keeps:
            return
        settled = self.settled.values[ids]
        if ((settled < vs) | (settled > ve)).any():
            raise Bug("a match was forgotten that was no part of its row's lifetime")
        if not np.isin(ids[vs >= frontier], self._starts.between(BEGIN, INF)[1]).all():
            raise Bug("a row's start would be missed")


class Touched:
    """Ids below a capacity, each once however often it is added: room for as many as there are."""

    def __init__(self, capacity: int) -> None:
        self._few: list[Ids] = []
        self._count = 0
        self._capacity = capacity
        self._mask: Mask | None = None

    def add(self, ids: Ids) -> None:
        """Some of them."""
        self._few.append(ids)
        self._count += len(ids)
        if self._mask is not None or self._count * FEW >= self._capacity:
            if self._mask is None:
                self._mask = np.zeros(self._capacity, np.bool_)
            for some in self._few:
                self._mask[some] = True
            self._few.clear()

    @property
    def ids(self) -> Ids:
        """All of them, ascending."""
        if self._mask is not None:
            return self._mask.nonzero()[0]
        ids = np.sort(np.concatenate(self._few)) if self._few else np.empty(0, np.int64)
        first = np.ones(len(ids), np.bool_)
        first[1:] = ids[1:] != ids[:-1]
        return ids[first]  # twice as fast as np.unique, which hashes


def _turns(payload: Ids, vs: Times, was: Times) -> Ids:
    """For each event, how many equal ones come before it."""
    order = np.lexsort((was, vs, payload))
    columns = [c[order] for c in (payload, vs, was)]
    begins = np.ones(len(order), np.bool_)
    begins[1:] = np.any([c[1:] != c[:-1] for c in columns], axis=0)
    turn = np.empty(len(order), np.int64)
    turn[order] = np.arange(len(order)) - np.maximum.accumulate(
        np.where(begins, np.arange(len(order)), 0)
    )
    return turn
