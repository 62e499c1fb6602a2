"""LatestRows: a row lives until so many more rows of its partition have come.

    range of 2 rows, by host                       output
    ins((A,1),1,2) ins((A,2),4,5) stable(5)        ins((A,1),1,inf) ins((A,2),4,inf) stable(5)
    ins((A,3),9,10) stable(10)                     ins((A,3),9,inf) adj((A,1),1,inf,9) stable(10)

Rows have ranks, by partition: by time, then by payload in the order of `order.py`, never by
arrival. The row of rank i ends when that of rank i + n starts; one that would end where it starts
is no event. A rank is final once the stable has passed its row, so rows wait until then.

Of each partition the last n rows are open. They are found by (partition, rank), so a row costs as
much in a long range as in a short one.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from gapless.kernels import KeyTable
from gapless.kernels.columns import Column
from gapless.kernels.keys import Ids
from gapless.operators.events import events_of
from gapless.operators.memory import Memory
from gapless.operators.numbers import numbers, numbers_schema, read_numbers
from gapless.operators.operator import Marks, Operator, Out, check_schema
from gapless.operators.order import by_time_and_payload
from gapless.operators.payloads import Payloads
from gapless.operators.state import FACTS, State, check_names, facts, read_facts
from gapless.operators.waiting_rows import WaitingRows
from gapless.protocol.columns import take_rows
from gapless.protocol.elements import BEGIN, INF
from gapless.protocol.errors import Bug, DecodeError, Misuse, SchemaError
from gapless.protocol.frame import Frame
from gapless.protocol.schema import StreamSchema

_PLACE = numbers_schema("partition", "rank")
_WAITING, _OPEN, _RANKS = "waiting", "open", "ranks"


class LatestRows(Operator):
    """The last rows of each partition, at every instant. Its input is a stream of inserts; only
    `_vs` of a row matters.
    """

    reach = INF  # which ranks rows have depends on all rows before

    def __init__(self, schema: StreamSchema, count: int, partition_by: Sequence[str]) -> None:
        missing = [name for name in partition_by if name not in schema.names]
        if missing:
            raise SchemaError(
                f"window partition_by {missing[0]!r}: the columns are {', '.join(schema.names)}"
            )
        self.schema = schema
        self._count = count
        self._by = list(partition_by)
        self._partitions = KeyTable(pa.schema([schema.payload.field(name) for name in self._by]))
        self._ranks = Column(0)  # by partition: how many rows it has had
        self._payloads = Payloads(schema.payload)
        self._places = KeyTable(_PLACE)  # of the open rows
        self._vs = Column(INF)  # by place; INF where it is free
        self._payload = Column(0)
        self._waiting = WaitingRows(schema.empty_batch)  # rows that have no rank yet
        self._stable = BEGIN
        self._nothing = Frame.empty(schema)

    def limited(self, memory: Memory) -> None:
        """Rows are asked for, too."""
        super().limited(memory)
        self._payloads.memory = memory

    def push(self, source: int, frame: Frame, marks: Marks = ()) -> Out:
        """Has the rows wait; gives those that the stable has passed, and ends those before them.
        Marks go no further: rows that they speak of may wait.
        """
        check_schema(frame, self.schema)
        if not frame.insert_only:
            raise Misuse("windows count rows that are settled: put Settle first; got an adjust")
        if len(frame):
            self._waiting.add(frame.batch)
        stable = frame.stable
        if stable is None or stable <= self._stable:
            return Out(self._nothing)
        self._stable = stable
        rows = self._nothing.picked(self._waiting.take(stable))
        out = self._ranked(rows) if len(rows) else self._nothing
        if stable == INF:
            self._forget_all()
        return Out(out.with_stable(stable))

    # -- ranking ------------------------------------------------------------------------------

    def _ranked(self, rows: Frame) -> Frame:
        """The events that these rows, the next ones in order, begin and end."""
        self.memory.ask(2 * rows.nbytes, "rows that get their ranks")
        partition = self._partition_of(rows.payload)
        order = by_time_and_payload(partition, rows.vs, rows.payload).astype(np.int64)
        partition, vs = partition[order], rows.vs[order]
        begins = np.concatenate(([True], partition[1:] != partition[:-1])).nonzero()[0]
        lengths = np.diff(np.append(begins, len(order)))
        behind = np.arange(len(order)) - begins.repeat(lengths)
        ranks = self._ranks.fit(self._partitions.capacity)
        rank = ranks[partition] + behind
        ranks[partition[begins]] += lengths
        ends = np.full(len(order), INF)
        closed = (lengths.repeat(lengths) - behind > self._count).nonzero()[0]
        ends[closed] = vs[closed + self._count]
        gone = ((behind < self._count) & (rank >= self._count)).nonzero()[0]
        ended = self._end(partition[gone], rank[gone] - self._count, vs[gone])
        at = (ends > vs).nonzero()[0]
        payload = take_rows(rows.payload, order[at])
        self._open(partition[at], rank[at], vs[at], ends[at], payload)
        begun = Frame.made(self.schema, vs[at], ends[at], payload.columns)
        return Frame.concat([ended, begun]) if len(ended) else begun

    def _partition_of(self, payload: pa.RecordBatch) -> Ids:
        if not self._by:
            return np.zeros(payload.num_rows, np.int64)
        return self._partitions.intern(payload.select(self._by))[0]

    def _end(self, partition: Ids, rank: Ids, at: Ids) -> Frame:
        """Ends the open rows of these ranks."""
        if not len(rank):
            return self._nothing
        places = self._places.find(_place(partition, rank))
        payloads, vs = self._payload.values[places], self._vs.values[places].copy()
        out = Frame.made(
            self.schema, vs, at, self._payloads.rows(payloads).columns, np.full(len(vs), INF)
        )
        self._payloads.drop(payloads)
        self._places.release(places)
        self._vs.values[places], self._payload.values[places] = INF, 0
        self._fit()
        return out

    def _open(self, partition: Ids, rank: Ids, vs: Ids, ends: Ids, payload: pa.RecordBatch) -> None:
        """Keeps those of these rows that have no end."""
        is_open = ends == INF
        payloads = self._payloads.intern(take_rows(payload, is_open))
        self._payloads.use(payloads)
        places, _ = self._places.intern(_place(partition[is_open], rank[is_open]))
        self._fit()
        self._vs.values[places], self._payload.values[places] = vs[is_open], payloads

    def _fit(self) -> None:
        for column in (self._vs, self._payload):
            column.fit(self._places.capacity)

    def _forget_all(self) -> None:
        """No row comes any more."""
        self._partitions, self._places = KeyTable(self._partitions.schema), KeyTable(_PLACE)
        self._ranks, self._vs, self._payload = Column(0), Column(INF), Column(0)
        memory, self._payloads = self._payloads.memory, Payloads(self.schema.payload)
        self._payloads.memory = memory

    # -- skipping -----------------------------------------------------------------------------

    def fast_forward(self, t: int) -> int:
        """Asks nothing of its input: ranks count every row."""
        del t
        return BEGIN

    # -- as data ------------------------------------------------------------------------------

    def snapshot(self) -> State:
        """The rows without a rank, and those that are open, with their ranks."""
        live = (self._vs.values < INF).nonzero()[0]
        rank = self._places.rows(live).column("rank").to_numpy()
        rows = self._payloads.rows(self._payload.values[live])
        vs = self._vs.values[live].copy()
        return {
            FACTS: facts(stable=self._stable),
            _WAITING: self._waiting.rows,
            _OPEN: Frame.made(self.schema, vs, np.full(len(vs), INF), rows.columns).batch,
            _RANKS: numbers(rank=rank),
        }

    def restore(self, state: State) -> None:
        """Takes them back."""
        check_names(state, FACTS, _WAITING, _OPEN, _RANKS)
        (self._stable,) = read_facts(state, "stable")
        self._waiting.add(events_of(state, _WAITING, self.schema).batch)
        rows = events_of(state, _OPEN, self.schema)
        (rank,) = read_numbers(state, _RANKS, "rank")
        if len(rank) != len(rows) or (len(rank) and int(rank.min()) < 0):
            raise DecodeError(f"snapshot.{_RANKS}", "a rank for no row, or none", "one a row")
        if not len(rows):
            return
        partition = self._partition_of(rows.payload)
        np.maximum.at(self._ranks.fit(self._partitions.capacity), partition, rank + 1)
        if len(np.unique(np.stack([partition, rank]), axis=1).T) != len(rank):
            raise DecodeError(f"snapshot.{_RANKS}", "two rows of a partition at one rank", "one")
        self._open(partition, rank, rows.vs, rows.ve, rows.payload)

    # -- looking at it ------------------------------------------------------------------------

    @property
    def nbytes(self) -> int:
        """Bytes of waiting and open rows, and of partitions."""
        tables = int(self._partitions.nbytes) + int(self._places.nbytes) + self._payloads.nbytes
        columns = (self._ranks, self._vs, self._payload)
        return tables + self._waiting.nbytes + sum(column.nbytes for column in columns)

    def validate(self) -> None:
        """Raises `Bug` where an invariant is broken."""
        self._partitions.validate()
        self._places.validate()
        live = (self._vs.values < INF).nonzero()[0]
        if len(live) != len(self._places):
            raise Bug(f"{len(live)} rows are open, {len(self._places)} places are taken")
        self._payloads.validate(self._payload.values[live])
        places = self._places.rows(live)
        partition, rank = (places.column(i).to_numpy() for i in range(2))
        if len(live) and (rank + self._count < self._ranks.values[partition]).any():
            raise Bug("a row is open behind which there are as many as the range has")
        if self._waiting.first < self._stable:
            raise Bug("a row that the stable has passed has no rank")


def _place(partition: Ids, rank: Ids) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array(partition), pa.array(rank)], schema=_PLACE)
