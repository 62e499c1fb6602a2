"""LatestBy: a row lives until the next row of its key.

    latest_by(host)                          output
    ins((A,up),1,2)                          ins((A,up),1,inf)
    ins((A,down),9,10)                       ins((A,down),9,inf)  adj((A,up),1,inf,9)
    ins((A,slow),5,6)     late, still legal  ins((A,slow),5,9)    adj((A,up),1,9,5)

Of rows with one key and one time the one with the largest payload, in the order of `order.py`, is
there, and the others are not events. So the table depends on nothing but the rows: replicas agree.

A row that comes at ts changes only what is there at ts or later: it takes over from its
predecessor. As no row comes below the input's stable, that stable is the output's. What the next
row of its key has ended at or below the stable can have no new successor and is forgotten; the last
of each key stays, so state grows with the keys. What ends is on an agenda: a stable looks at what
it settles, and not at the keys.

Rows of a key, oldest first, are a chain in which each ends where the next one starts. A frame is
handled at once: its rows and their neighbours in the chains (`key_times.py`) are sorted by key and
time, and what the new ends differ in goes out. So a row costs as much on a long chain as on a short
one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from gapless.kernels import KeyTable
from gapless.kernels.columns import Column
from gapless.kernels.keys import Ids
from gapless.operators.agenda import Agenda
from gapless.operators.events import events_of
from gapless.operators.key_times import KeyTimes
from gapless.operators.memory import Memory
from gapless.operators.numbers import numbers_schema, unique
from gapless.operators.operator import Marks, Operator, Out, check_schema
from gapless.operators.order import by_time_and_payload
from gapless.operators.payloads import Payloads
from gapless.operators.state import FACTS, State, check_names, facts, read_facts
from gapless.protocol.elements import BEGIN, INF
from gapless.protocol.errors import Bug, DecodeError, Misuse, SchemaError
from gapless.protocol.frame import Frame, Mask, Times
from gapless.protocol.punctuation import Punctuation
from gapless.protocol.schema import StreamSchema

_PLACE = numbers_schema("key", "vs")
_EVENTS = "events"
RESTORE_ROWS = 16_384
"""Taken back at a time: what a call holds beside the tables is as small as that."""


@dataclass(slots=True)
class _Chain:
    """What the touched keys have at each of their times, by key and time: before and after."""

    key: Ids
    vs: Times
    place: Ids
    """-1 where there was nothing at this time."""
    before: Ids
    """The payload that was there."""
    after: Ids
    """The payload that is there now."""
    ends: Times
    """The next time of the key."""

    @property
    def new(self) -> Mask:
        """Where something is there that was not."""
        new: Mask = (self.place < 0) | (self.before != self.after)
        return new


class LatestBy(Operator):
    """The last row of each key, at every instant. Its input is a stream of inserts."""

    reach = INF  # a row of long ago may be the last of its key
    restores_checked = True  # what it does not compare with the rows it has made of them itself

    def __init__(self, schema: StreamSchema, key: Sequence[str]) -> None:
        missing = [name for name in key if name not in schema.names]
        if missing:
            raise SchemaError(
                f"latest_by {missing[0]!r}: the columns are {', '.join(schema.names)}"
            )
        if not key:
            raise Misuse("latest_by: names one column at least")
        self.schema = schema
        self._key_columns = list(key)
        self._keys = KeyTable(pa.schema([schema.payload.field(name) for name in key]))
        self._payloads = Payloads(schema.payload)
        self._places = KeyTable(_PLACE)
        self._last = Column(-1)  # by id of a key, the place of the event without an end
        self._others = KeyTimes(self._is_at)  # the places of those with one
        self._key = Column(-1)  # by id of a place, as are all columns; -1 where it is free
        self._vs = Column(INF)
        self._ve = Column(INF)
        self._payload = Column(0)
        self._ending = Agenda()  # places whose event has an end; some have an earlier one by now
        self._stable = BEGIN

    def limited(self, memory: Memory) -> None:
        """Rows are asked for, too."""
        super().limited(memory)
        self._payloads.memory = memory

    def push(self, source: int, frame: Frame, marks: Marks = ()) -> Out:
        """Gives what the rows change; passes the stable on."""
        check_schema(frame, self.schema)
        if not frame.insert_only:
            raise Misuse("latest_by takes rows that are settled; got an adjust")
        out = self._take_in(frame) if len(frame) else Frame.empty(self.schema)
        stable = frame.stable
        if stable is not None and stable > self._stable:
            self._stable = stable
            self._settle(stable)
        else:
            stable = None
        return Out(out.with_stable(stable), tuple(filter(self._passes, marks)))

    # -- taking rows in -----------------------------------------------------------------------

    def _take_in(self, frame: Frame) -> Frame:
        payloads = self._payloads.intern(frame.payload)
        self._payloads.use(payloads)
        keys, _ = self._keys.intern(frame.payload.select(self._key_columns))
        chain = self._chain(keys, frame.vs, payloads)
        out = self._changes(chain)
        self._hold(chain)
        self._payloads.drop(payloads)  # those that are held are used by their place, too
        return out

    def _chain(self, keys: Ids, vs: Times, payloads: Ids) -> _Chain:
        held, after = self._concerned(keys, vs)
        key = np.concatenate([self._key.values[held], keys])
        time = np.concatenate([self._vs.values[held], vs])
        payload = np.concatenate([self._payload.values[held], payloads])
        place = np.concatenate([held, np.full(len(keys), -1, np.int64)])
        order = np.lexsort((-place, time, key))  # what is held comes first at its time
        key, time, payload, place = key[order], time[order], payload[order], place[order]
        first = np.ones(len(order), np.bool_)
        first[1:] = (np.diff(key) != 0) | (np.diff(time) != 0)
        at = first.nonzero()[0]
        ends = np.where(place[at] < 0, INF, self._ve.values[place[at]])
        ends[place[at] < 0] = after
        same_key = (np.diff(key[at]) == 0).nonzero()[0]
        ends[same_key] = np.minimum(ends[same_key], time[at][same_key + 1])
        now = self._largest(payload, np.cumsum(first) - 1, at)
        return _Chain(key[at], time[at], place[at], payload[at], now, ends)

    def _concerned(self, keys: Ids, vs: Times) -> tuple[Ids, Times]:
        """The places of these keys at these times, and those before them: all that rows change. And
        the next time of the key of each that has none yet, in the order of keys and times.
        """
        order = np.lexsort((vs, keys))
        keys, vs = keys[order], vs[order]
        first = np.ones(len(order), np.bool_)
        first[1:] = (np.diff(keys) != 0) | (np.diff(vs) != 0)
        keys, vs = keys[first], vs[first]
        before, after = self._others.around(keys, vs)
        last = self._last.fit(self._keys.capacity)[keys]
        at = np.where(last >= 0, self._vs.values[last], INF)
        before = np.where(at < vs, last, before)
        after = np.where(at > vs, np.minimum(at, after), after)
        columns = [pa.array(keys), pa.array(vs)]
        here = self._places.find(pa.RecordBatch.from_arrays(columns, schema=_PLACE))
        held = np.concatenate([before, here])
        return unique(held[held >= 0]), after[here < 0]

    def _is_at(self, keys: Ids, vs: Times, places: Ids) -> Mask:
        """Where these keys have an event at these times still, under these places."""
        inside = places < len(self._key.values)
        places = np.where(inside, places, 0)
        is_key = self._key.values[places] == keys
        there: Mask = inside & is_key & (self._vs.values[places] == vs)
        return there

    def _largest(self, payload: Ids, group: Ids, at: Ids) -> Ids:
        """The largest payload of each group; groups are in order and begin at these positions."""
        largest = payload[at]
        tied = (payload != largest[group]).nonzero()[0]
        if not len(tied):
            return largest
        tied = np.isin(group, group[tied]).nonzero()[0]
        groups = group[tied]
        rows = self._payloads.rows(payload[tied])
        order = by_time_and_payload(groups, np.zeros(len(tied), np.int64), rows)
        largest[groups[order]] = payload[tied][order]  # of each group, numpy keeps the last
        return largest

    def _changes(self, chain: _Chain) -> Frame:
        held = chain.place >= 0
        was = np.where(held, self._ve.values[chain.place], BEGIN)
        gone = (held & chain.new).nonzero()[0]
        moved = (held & ~chain.new & (was != chain.ends)).nonzero()[0]
        added = chain.new.nonzero()[0]
        rows = np.concatenate([gone, moved, added])
        if not len(rows):
            return Frame.empty(self.schema)
        payload = np.concatenate([chain.before[gone], chain.after[moved], chain.after[added]])
        return Frame.from_columns(
            self.schema,
            chain.vs[rows],
            np.concatenate([chain.vs[gone], chain.ends[moved], chain.ends[added]]),
            self._payloads.rows(payload),
            np.concatenate([was[gone], was[moved], np.full(len(added), BEGIN)]),
        )

    def _hold(self, chain: _Chain) -> None:
        """Makes the places say what the chain says."""
        new, place = chain.new, chain.place.copy()
        opened = (place < 0).nonzero()[0]
        keys = pa.RecordBatch.from_arrays(
            [pa.array(chain.key[opened]), pa.array(chain.vs[opened])], schema=_PLACE
        )
        place[opened], _ = self._places.intern(keys)
        self._fit()
        self._payloads.use(chain.after[new])
        self._payloads.drop(chain.before[new & (chain.place >= 0)])
        ends = ((chain.ends != INF) & (chain.ends != self._ve.values[place])).nonzero()[0]
        self._ending.add(chain.ends[ends], place[ends])
        entered = (self._ve.values[place] == INF).nonzero()[0]
        self._key.values[place] = chain.key
        self._vs.values[place] = chain.vs
        self._ve.values[place] = chain.ends
        self._payload.values[place] = chain.after
        self._enter(*(c[entered] for c in (chain.key, chain.vs, place, chain.ends)))

    def _enter(self, keys: Ids, vs: Times, places: Ids, ends: Times) -> None:
        """Has events found next to others of their keys."""
        last = ends == INF
        self._last.fit(self._keys.capacity)[keys[last]] = places[last]
        self._others.add(keys[~last], vs[~last], places[~last])

    # -- forgetting ---------------------------------------------------------------------------

    def _settle(self, t: int) -> None:
        """Forgets what has ended: no row can come between it and its successor."""
        settled = self._settled(t)
        if len(settled):
            self._places.release(settled)
            self._payloads.drop(self._payload.values[settled])
            for column, free in ((self._key, -1), (self._vs, INF), (self._ve, INF)):
                column.values[settled] = free
            self._payload.values[settled] = 0
            self._fit()
            self._others.keep_few(len(self._ending))
        if t == INF:
            self._others.clear()
            self._last = Column(-1)
            self._keys = KeyTable(self._keys.schema)

    def _settled(self, t: int) -> Ids:
        """The places whose event ends at t or before."""
        if t == INF:
            self._ending = Agenda()
            return (self._key.values >= 0).nonzero()[0]
        _, due = self._ending.due(t + 1)
        if not len(due):
            return due
        due = unique(due[due < self._places.capacity])  # the others are free
        return due[self._ve.values[due] <= t]  # a free place has no end

    def _fit(self) -> None:
        for column in (self._key, self._vs, self._ve, self._payload):
            column.fit(self._places.capacity)

    def _passes(self, mark: Punctuation) -> bool:
        """A row moves the end of its predecessor, which has its key, and of the rest who knows."""
        return all(name in self._key_columns for name, _ in (*mark.bounds, *mark.group))

    def fast_forward(self, t: int) -> int:
        """Asks nothing of its input: any row may be the last of its key."""
        return BEGIN

    # -- the state as data --------------------------------------------------------------------

    def snapshot(self) -> State:
        """The events that are held, and the stable."""
        live = (self._key.values >= 0).nonzero()[0]
        events = Frame.from_columns(
            self.schema,
            self._vs.values[live],
            self._ve.values[live],
            self._payloads.rows(self._payload.values[live]),
        )
        return {FACTS: facts(stable=self._stable), _EVENTS: events.batch}

    def restore(self, state: State) -> None:
        """Takes the events back."""
        check_names(state, FACTS, _EVENTS)
        (self._stable,) = read_facts(state, "stable")
        events = events_of(state, _EVENTS, self.schema)
        columns = (self._key, self._vs, self._ve, self._payload)
        for column in columns:
            column.reserve(len(events))
        for start in range(0, len(events), RESTORE_ROWS):
            self._take_back(events.slice(start, RESTORE_ROWS))
        for column in columns:
            column.reserve(0)
        if not self._is_chained() or (len(events) and int(events.ve.min()) < self._stable):
            raise DecodeError(f"snapshot.{_EVENTS}", "events do not end where the next ones start")

    def _take_back(self, events: Frame) -> None:
        """Enters events as they stand; whether they follow one another shows once all are there."""
        payloads = self._payloads.intern(events.payload)
        self._payloads.use(payloads)
        keys, _ = self._keys.intern(events.payload.select(self._key_columns))
        columns = [pa.array(keys), pa.array(events.vs)]
        place, new = self._places.intern(pa.RecordBatch.from_arrays(columns, schema=_PLACE))
        if not new.all():
            raise DecodeError(f"snapshot.{_EVENTS}", "two events of a key start at one time")
        self._fit()
        self._key.values[place] = keys
        self._vs.values[place] = events.vs
        self._ve.values[place] = events.ve
        self._payload.values[place] = payloads
        self._enter(keys, events.vs, place, events.ve)
        ends = (events.ve != INF).nonzero()[0]
        self._ending.add(events.ve[ends], place[ends])

    def _is_chained(self) -> bool:
        """Whether each event ends where the next one of its key starts, and the last of each key
        never. Only keys of several events have to be sorted for that.
        """
        key, ve = self._key.values, self._ve.values
        last = np.zeros(self._keys.capacity, np.bool_)
        lasts = key[(key >= 0) & (ve == INF)]
        last[lasts] = True
        if not len(lasts) == np.count_nonzero(last) == len(self._keys):
            return False
        several = np.zeros(self._keys.capacity, np.bool_)
        several[key[(key >= 0) & (ve != INF)]] = True
        places = ((key >= 0) & several[key]).nonzero()[0] if len(several) else key[:0]
        places = places[np.lexsort((self._vs.values[places], key[places]))]
        follows = key[places][1:] == key[places][:-1]
        return bool((ve[places][:-1] == self._vs.values[places][1:])[follows].all())

    # -- looking at it ------------------------------------------------------------------------

    def __len__(self) -> int:
        """Events held."""
        return len(self._places)

    @property
    def nbytes(self) -> int:
        """Bytes of tables, chains and columns."""
        tables = int(self._keys.nbytes) + int(self._places.nbytes) + self._payloads.nbytes
        columns = (self._key, self._vs, self._ve, self._payload)
        held = tables + self._others.nbytes + self._last.nbytes + self._ending.nbytes
        return held + sum(column.nbytes for column in columns)

    def validate(self) -> None:
        """Raises `Bug` where an invariant is broken."""
        self._keys.validate()
        self._places.validate()
        live = (self._key.values >= 0).nonzero()[0]
        if len(live) != len(self._places):
            raise Bug(f"{len(live)} live events, {len(self._places)} places")
        last = self._last.values[self._last.values >= 0]
        if not np.array_equal(np.sort(np.append(self._others.ids, last)), live):
            raise Bug("an event would not be found next to another of its key")
        self._payloads.validate(self._payload.values[live])
        live = live[np.lexsort((self._vs.values[live], self._key.values[live]))]
        key, vs, ve = self._key.values[live], self._vs.values[live], self._ve.values[live]
        last = np.diff(key, append=-1) != 0
        if (ve[last] != INF).any() or (ve[:-1] != vs[1:])[~last[:-1]].any():
            raise Bug("an event does not end where the next one of its key starts")
        if (ve < self._stable).any():
            raise Bug("an event that has ended is still held")
        _, ending = self._ending.between(BEGIN, INF)
        if np.setdiff1d(live[ve != INF], ending).size:
            raise Bug("an event has an end and is not on the agenda")
