"""FollowedBy: temporal patterns, a row B with the row A that it follows (Stream Mill, section 5).

    A  ins((k,1),3,4) ins((k,2),5,6)        B  ins((k,x),6,7) ins((k,y),9,10)

    recent       ins((k,2,x),6,7) ins((k,2,y),9,10)     each B with the last A before it
    chronicle    ins((k,1,x),6,7) ins((k,2,y),9,10)     each with the earliest that is free

A pair lives as B does, so at most one event comes of a B, and what is said is final. An A comes
before a B if it starts before it; of one time rows count in the order of their payloads, so nothing
depends on arrival.

- A waits until its own stable has passed it: only then is its place among the others known.
- B waits until A's stable has reached it: a later A could be more recent. In chronicle it also
  waits until B's own stable has passed it, for an earlier B takes first.
- An A goes once every B that is to come, or waits, starts so late that it cannot follow it: then it
  is older than `within`, or another has taken its place. In chronicle it goes when it is followed.

Who follows whom is in `recent.py`, `chronicle.py` and, with a condition, `followed_where.py`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal, get_args

import numpy as np
import pyarrow as pa

from gapless.kernels.keys import Ids
from gapless.operators.aside import Aside
from gapless.operators.chronicle import Chronicle
from gapless.operators.events import events_of
from gapless.operators.followed_where import FollowedWhere
from gapless.operators.join_columns import JoinColumns
from gapless.operators.join_condition import Condition
from gapless.operators.join_keys import JoinKeys
from gapless.operators.memory import Memory
from gapless.operators.numbers import unique
from gapless.operators.operator import ANSWER_ROWS_MAX, Marks, Operator, Out, check_schema, joined
from gapless.operators.order import by_key_and_rank
from gapless.operators.pick import Picks
from gapless.operators.recent import Recent
from gapless.operators.row_bytes import RowBytes
from gapless.operators.state import FACTS, State, check_names, facts, read_facts
from gapless.operators.waiting_rows import WaitingRows
from gapless.protocol.columns import take_rows
from gapless.protocol.elements import BEGIN, INF
from gapless.protocol.errors import Bug, DecodeError, Misuse
from gapless.protocol.expr import Expr
from gapless.protocol.frame import Frame, Times
from gapless.protocol.schema import VE, VS, StreamSchema

Pick = Literal["recent", "chronicle"]
PICKS: tuple[Pick, ...] = get_args(Pick)
_PAST, _WAITING = "past", ("left", "right")


class FollowedBy(Operator):
    """Rows of input 1, the right, each with the row of input 0, the left, that it follows.

    `on` are pairs of columns that have to be equal, left and right; `where` is evaluated over the
    output's columns; `longest` is how long a row of the right lives at most.
    """

    inputs = 2

    def __init__(
        self,
        left: StreamSchema,
        right: StreamSchema,
        on: Sequence[tuple[str, str]],
        where: Expr | None = None,
        within: int | None = None,
        pick: Pick = "recent",
        aside: Aside | None = None,
        longest: int = INF,
    ) -> None:
        check_pick(pick)
        if within is not None and not 1 <= within < INF:
            raise Misuse(f"followed_by within {within}: it is at least 1, and less than all time")
        self._columns = JoinColumns(left, right, on, "inner", "followed_by")
        self.schema = self._columns.schema
        self._sides = left, right
        self._once = pick == "chronicle"
        self._keys = JoinKeys(self._columns, left.payload)
        self._waiting = WaitingRows(left.empty_batch), WaitingRows(right.empty_batch)
        self._picks = Picks(left.payload), Picks(right.arrow)
        self._row_bytes = RowBytes(left.payload)
        self._came_rows, self._came_bytes = 0, 0  # of the left, under a limit
        self._picked: Recent | Chronicle | FollowedWhere
        if where is not None:
            condition = Condition(where, self._columns, aside or Aside(), "followed_by")
            self._picked = FollowedWhere(left.payload, within, condition, self._once)
        else:
            self._picked = (Chronicle if self._once else Recent)(left.payload, within)
        # In chronicle who follows whom depends on all that was.
        self.reach = INF if self._once or within is None else min(INF, within + longest)
        self._stables = [BEGIN, BEGIN]
        self._stable = BEGIN
        self._nothing = Frame.empty(self.schema)

    def limited(self, memory: Memory) -> None:
        """Pairs that a condition looks at are asked for, too."""
        super().limited(memory)
        if isinstance(self._picked, FollowedWhere):
            self._picked.memory = memory

    def push(self, source: int, frame: Frame, marks: Marks = ()) -> Out:
        """Takes the rows in; gives the pairs that are known by now. Marks go no further: rows that
        they speak of may wait.
        """
        return joined(self.schema, self.parts(source, frame, marks))

    def parts(self, source: int, frame: Frame, marks: Marks = ()) -> Iterator[Out]:
        """The same; the stable comes with the last part."""
        check_schema(frame, self._sides[source])
        if not frame.insert_only:
            step = ("Settle", "Cleanse")[source]
            raise Misuse(f"followed_by takes rows that are settled: put {step} first")
        if len(frame):
            self._waiting[source].add(frame.batch)
        if frame.stable is not None:
            self._stables[source] = max(self._stables[source], frame.stable)
        if source == 0:
            self._take_in(self._waiting[0].take(self._stables[0]))
        for rows in self._in_parts(self._waiting[1].take(self._answered)):
            yield Out(self._pairs(rows))
        self._purge(self._unanswered)
        stable = self._unanswered if self._unanswered > self._stable else None
        self._stable = max(self._stable, self._unanswered)
        yield Out(self._nothing.with_stable(stable))

    @property
    def _answered(self) -> int:
        """Rows of the right before this time have what they follow."""
        left, right = self._stables
        reached = left if left == INF else left + 1
        return min(reached, right) if self._once else reached

    @property
    def _unanswered(self) -> int:
        """No row of the right before this time waits, or is to come."""
        return min(self._stables[1], self._waiting[1].first)

    # -- the left -----------------------------------------------------------------------------

    def _take_in(self, rows: pa.RecordBatch) -> None:
        """Rows of the left that its stable has passed."""
        if not rows.num_rows:
            return
        self._weigh(rows)
        keys, rows = self._with_key(0, rows)
        if not len(keys):
            return
        vs, payload = _times(rows, VS), self._payload(0, rows)
        order = by_key_and_rank(keys, vs, payload)
        self._picked.take_in(keys[order], vs[order], self._picks[0].take(payload, order))

    def _with_key(self, side: int, rows: pa.RecordBatch) -> tuple[Ids, pa.RecordBatch]:
        """Those rows that have no null in `on`, and their keys."""
        keys, nulls = self._keys.of(side, self._payload(side, rows), _times(rows, VS))
        if nulls is not None:
            there = (~nulls).nonzero()[0]
            keys, rows = keys[there], take_rows(rows, there)
        self._picked.fit(self._keys.capacity)
        return keys, rows

    def _payload(self, side: int, rows: pa.RecordBatch) -> pa.RecordBatch:
        schema = self._sides[side].payload
        first = rows.num_columns - len(schema)
        return pa.RecordBatch.from_arrays(rows.columns[first:], schema=schema)

    def _weigh(self, rows: pa.RecordBatch) -> None:
        if self.memory.limit is not None:
            self.memory.ask(rows.nbytes, "rows that may be followed")
            if not self._row_bytes.is_fixed:
                self._came_rows += rows.num_rows
                self._came_bytes += int(self._row_bytes.of(self._payload(0, rows)).sum())

    # -- the right ----------------------------------------------------------------------------

    def _in_parts(self, rows: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Some rows at a time, in order of time; those of one time together."""
        if not rows.num_rows:
            return
        vs, start = _times(rows, VS), 0
        while start < len(vs):
            most = self.memory.rows(self._pair_bytes(rows), ANSWER_ROWS_MAX)
            last = min(start + most, len(vs)) - 1
            end = int(vs.searchsorted(vs[last], "right"))
            part = rows.slice(start, end - start)
            if self.memory.limit is not None:
                self.memory.ask(int(part.num_rows * self._pair_bytes(part)), "pairs of rows")
            yield part
            start = end

    def _pair_bytes(self, rows: pa.RecordBatch) -> float:
        left: float = self._row_bytes.least
        if self._came_rows:
            left = self._came_bytes / self._came_rows
        return left + int(rows.nbytes) / int(rows.num_rows)

    def _pairs(self, rows: pa.RecordBatch) -> Frame:
        """The pairs of these rows, in the order of their times."""
        keys, rows = self._with_key(1, rows)
        vs = _times(rows, VS)
        if self._picked.by_rank:
            order = by_key_and_rank(keys, vs, self._ranked(rows))
            in_order = take_rows(self._payload(1, rows), order)
            at, ids = self._picked.match(keys[order], vs[order], in_order)
            at = order[at]
            again = np.argsort(at)
            at, ids = at[again], ids[again]
        else:
            at, ids = self._picked.match(keys, vs, rows)
        if not len(at):
            return self._nothing
        rows = self._picks[1].take(rows, at)
        columns = self._columns.joined(self._picked.take(ids), self._payload(1, rows))
        return Frame.made(self.schema, _times(rows, VS), _times(rows, VE), columns)

    def _ranked(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """What ranks rows of one time: their payload, then their end."""
        columns = [*self._payload(1, rows).columns, rows.column(rows.schema.get_field_index(VE))]
        return pa.RecordBatch.from_arrays(columns, names=[str(i) for i in range(len(columns))])

    # -- forgetting ---------------------------------------------------------------------------

    def _purge(self, before: int) -> None:
        self._picked.purge(before)
        past = self._picked.past
        if self._keys.is_large(len(past)):
            used = unique(past.keys(past.ids))
            self._keys.forget_but(used)
            self._picked.forget_but(used)

    def fast_forward(self, t: int) -> int:
        """Asks nothing of its inputs: a row may follow one of any time before."""
        del t
        return BEGIN

    # -- as data ------------------------------------------------------------------------------

    def snapshot(self) -> State:
        """The rows that may be followed, those that wait, and what has been promised."""
        left, right = self._stables
        ids = self._picked.past.ids
        vs = self._picked.past.times(ids)
        columns = self._picked.past.rows(ids).columns
        return {
            FACTS: facts(left=left, right=right, stable=self._stable),
            _PAST: Frame.made(self._sides[0], vs, vs + 1, columns).batch,
            **{n: rows.rows for n, rows in zip(_WAITING, self._waiting, strict=True)},
        }

    def restore(self, state: State) -> None:
        """Takes them back."""
        check_names(state, FACTS, _PAST, *_WAITING)
        left, right, self._stable = read_facts(state, "left", "right", "stable")
        self._stables = [left, right]
        for name, schema, rows in zip(_WAITING, self._sides, self._waiting, strict=True):
            rows.add(events_of(state, name, schema).batch)
        past = events_of(state, _PAST, self._sides[0])
        if len(past) and int(past.vs.max()) >= left:
            raise DecodeError(f"snapshot.{_PAST}", "has rows that are to wait", f"before {left}")
        self._take_in(past.batch)
        self._picked.purge(self._unanswered)

    # -- looking at it ------------------------------------------------------------------------

    @property
    def nbytes(self) -> int:
        """Bytes of the rows that may be followed, of those that wait, and of keys."""
        waiting = sum(rows.nbytes for rows in self._waiting)
        return self._picked.nbytes + waiting + self._keys.nbytes

    def validate(self) -> None:
        """Raises `Bug` where an invariant is broken."""
        self._picked.validate()
        self._keys.validate()
        left, right = self._waiting
        if left.first < self._stables[0]:
            raise Bug("a row of the left waits that its stable has passed")
        if len(right) and right.first < self._answered:
            raise Bug("a row of the right waits whose pair is known")


def check_pick(pick: str) -> None:
    """Raises unless it is one of the ways to pick a row."""
    if pick not in PICKS:
        raise Misuse(
            f"followed_by pick={pick!r}: 'recent', the last row before it, or 'chronicle', the "
            "earliest that none has followed"
        )


def _times(rows: pa.RecordBatch, name: str) -> Times:
    times: Times = rows.column(rows.schema.get_field_index(name)).to_numpy()
    return times
