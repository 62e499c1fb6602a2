"""Dedupe: the first row of a key in each stretch of time.

    dedupe(id, within=10)     7:A 9:A 16:A 17:A 20:A      7:A and 17:A are kept: 16 is 9 after 7,
                                                          20 is 3 after 17; 9 and 16 are dropped

Rows are taken in the order of their times, and at one time in that of their payloads (`order.py`).
A row is kept unless one of its key has been kept less than `within` before it, or at its very time.
So what is kept depends on all rows before, and nothing on when they came: a row is decided once a
stable has passed it. What is kept lives for an instant, as a row of a source does. With `within`
INF each key is kept once, and remembered until the end of the stream.

All rows that a stable decides are decided at once. Each leads to the next that could be kept after
it; those that are reached from a key's first one, step by step, are kept. Steps are doubled: 1, 2,
4, ... at a time, so a chain of n takes log n rounds.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from gapless.kernels import KeyTable
from gapless.kernels.columns import Column
from gapless.kernels.keys import Ids, Mask
from gapless.operators.agenda import Agenda
from gapless.operators.events import events_of
from gapless.operators.numbers import numbers, read_numbers, sorting, unique
from gapless.operators.operator import Marks, Operator, Out, check_schema
from gapless.operators.order import by_time_and_payload
from gapless.operators.state import FACTS, State, check_names, facts, read_facts
from gapless.operators.waiting_rows import WaitingRows
from gapless.protocol.columns import take_rows
from gapless.protocol.elements import BEGIN, INF
from gapless.protocol.errors import Bug, DecodeError, Misuse, SchemaError
from gapless.protocol.frame import Frame, Times
from gapless.protocol.schema import StreamSchema

_WAITING, _KEPT, _KEYS = "held", "kept", "keys"


class Dedupe(Operator):
    """Keeps first rows. Its input is a stream of inserts; only `_vs` of a row matters."""

    reach = INF  # what is kept depends on what was kept before

    def __init__(self, schema: StreamSchema, key: Sequence[str], within: int) -> None:
        missing = [name for name in key if name not in schema.names]
        if missing:
            raise SchemaError(f"dedupe {missing[0]!r}: the columns are {', '.join(schema.names)}")
        if not key:
            raise Misuse("dedupe: name the columns of which the first row is kept")
        self.schema = schema
        self._key = list(key)
        self._within = within
        self._keys = KeyTable(pa.schema([schema.payload.field(name) for name in key]))
        self._until = Column(BEGIN)  # by key: rows before are dropped
        self._ending = Agenda()  # keys, by until; some have a later one by now
        self._waiting = WaitingRows(schema.empty_batch)  # rows that are not decided
        self._stable = BEGIN
        self._nothing = Frame.empty(schema)

    def push(self, source: int, frame: Frame, marks: Marks = ()) -> Out:
        """Has the rows wait; gives those that the stable decides and that are kept. Marks go no
        further: rows that they speak of may wait.
        """
        check_schema(frame, self.schema)
        if not frame.insert_only:
            raise Misuse("dedupe takes rows that are settled: put Settle first; got an adjust")
        if len(frame):
            self._waiting.add(frame.batch)
        stable = frame.stable
        if stable is None or stable <= self._stable:
            return Out(self._nothing)
        self._stable = stable
        kept = self._decide(self._nothing.picked(self._waiting.take(stable)))
        self._forget(stable)
        return Out(kept.with_stable(stable))

    # -- deciding -----------------------------------------------------------------------------

    def _decide(self, rows: Frame) -> Frame:
        """The rows that are kept, in the order of their times."""
        if not len(rows):
            return self._nothing
        self.memory.ask(rows.nbytes, "rows that are decided")
        keys, _ = self._keys.intern(rows.payload.select(self._key))
        until = self._until.fit(self._keys.capacity)
        order = sorting(keys, rows.vs)
        key, ts = keys[order], rows.vs[order]
        is_first = np.ones(len(order), np.bool_)  # of its key and time
        is_first[1:] = (key[1:] != key[:-1]) | (ts[1:] != ts[:-1])
        first = is_first.nonzero()[0]
        here = self._chosen(key[first], ts[first], until).nonzero()[0]
        lengths = np.diff(np.append(first, len(order)))[here]
        at = self._smallest(rows, order, first[here], lengths)
        ends = _later(ts[first[here]], self._within)
        np.maximum.at(until, key[first[here]], ends)
        self._ending.add(ends, key[first[here]])
        at = at[np.argsort(rows.vs[at], kind="stable")]
        starts = rows.vs[at]
        return Frame.made(self.schema, starts, starts + 1, take_rows(rows.payload, at).columns)

    def _chosen(self, key: Ids, ts: Times, until: Times) -> Mask:
        """Which of these are kept: each key and time once, in that order."""
        n = len(key)
        following = _places(key, ts, key, _later(ts, self._within))
        own = np.append(key, -1)  # the last is nowhere
        step = np.append(np.where(own[following] == key, following, n), n)
        begins = np.concatenate(([True], key[1:] != key[:-1])).nonzero()[0]
        starts = _places(key, ts, key[begins], until[key[begins]])
        chosen = np.zeros(n + 1, np.bool_)
        chosen[starts[own[starts] == key[begins]]] = True
        steps = [step]
        while np.count_nonzero(steps[-1] < n):
            steps.append(steps[-1][steps[-1]])
        for step in reversed(steps):
            chosen[step[chosen]] = True
        return chosen[:n]

    def _smallest(self, rows: Frame, order: Ids, first: Ids, lengths: Ids) -> Ids:
        """Of rows with one key and time, next to each other in `order`, those that come first."""
        at: Ids = order[first]
        tied = (lengths > 1).nonzero()[0]
        if not len(tied):
            return at
        many = lengths[tied]
        group = np.arange(len(tied)).repeat(many)
        behind = np.arange(len(group)) - (np.cumsum(many) - many)[group]
        places = order[first[tied][group] + behind]
        payload = take_rows(rows.payload, places)
        ranked = by_time_and_payload(group, np.zeros(len(group), np.int64), payload)[::-1]
        smallest = np.empty(len(tied), np.int64)
        smallest[group[ranked]] = places[ranked]  # of each group, numpy keeps the last
        at[tied] = smallest
        return at

    def _forget(self, stable: int) -> None:
        """Forgets keys of which no row is dropped any more."""
        _, keys = self._ending.due(INF if stable == INF else stable + 1)
        keys = unique(keys[keys < len(self._until.values)])
        until = self._until.values[keys]
        keys = keys[(until > BEGIN) & (until <= stable)]
        if stable == INF:
            keys = (self._until.values > BEGIN).nonzero()[0]
            self._ending = Agenda()
        if len(keys):
            self._keys.release(keys)
            self._until.values[keys] = BEGIN
            self._until.fit(self._keys.capacity)

    # -- skipping -----------------------------------------------------------------------------

    def fast_forward(self, t: int) -> int:
        """Asks nothing of its input: what is kept depends on what was kept before."""
        del t
        return BEGIN

    # -- as data ------------------------------------------------------------------------------

    def snapshot(self) -> State:
        """The rows that are not decided, and until when rows of keys are dropped."""
        keys = (self._until.values > BEGIN).nonzero()[0]
        return {
            FACTS: facts(stable=self._stable),
            _WAITING: self._waiting.rows,
            _KEPT: numbers(until=self._until.values[keys].copy()),
            _KEYS: self._keys.rows(keys),
        }

    def restore(self, state: State) -> None:
        """Takes them back."""
        check_names(state, FACTS, _WAITING, _KEPT, _KEYS)
        (self._stable,) = read_facts(state, "stable")
        self._waiting.add(events_of(state, _WAITING, self.schema).batch)
        (until,) = read_numbers(state, _KEPT, "until")
        rows = state[_KEYS]
        if rows.schema != self._keys.schema or rows.num_rows != len(until):
            raise DecodeError(f"snapshot.{_KEYS}", f"has {rows.schema}", self._keys.schema)
        keys, new = self._keys.intern(rows)
        if not new.all():
            raise DecodeError(f"snapshot.{_KEYS}", "a key comes twice", "each once")
        self._until.fit(self._keys.capacity)[keys] = until
        self._ending.add(until, keys)

    # -- looking at it ------------------------------------------------------------------------

    @property
    def nbytes(self) -> int:
        """Bytes of waiting rows and of keys."""
        keys = int(self._keys.nbytes) + self._until.nbytes + self._ending.nbytes
        return self._waiting.nbytes + keys

    def validate(self) -> None:
        """Raises `Bug` where an invariant is broken."""
        self._keys.validate()
        known = self._until.values[self._until.values > BEGIN]
        if len(known) != len(self._keys):
            raise Bug(f"{len(known)} keys have kept rows, {len(self._keys)} are known")
        if len(known) and int(known.min()) <= self._stable:
            raise Bug("a key is held of which no row is dropped any more")
        if self._waiting.first < self._stable:
            raise Bug("a row that the stable has passed is not decided")


def _later(ts: Times, within: int) -> Times:
    """So much later, INF at most; INF is later than any time by INF."""
    if within == INF:
        return np.full(len(ts), INF)
    return np.where(ts > INF - within, INF, np.minimum(ts, INF - within) + within)


def _places(keys: Ids, times: Times, of: Ids, since: Times) -> Ids:
    """Where (of, since) would stand in (keys, times), which are in order: before what equals it."""
    n = len(of)
    asked = np.concatenate([np.zeros(n, np.int64), np.ones(len(keys), np.int64)])
    order = np.lexsort((asked, np.concatenate([since, times]), np.concatenate([of, keys])))
    before = np.empty(len(order), np.int64)
    before[order] = np.cumsum(asked[order])
    found: Ids = before[:n]
    return found
