"""Upserts: the last thing said of a key counts, until the next.

    +U (k,a) 1   +U (k,b) 5   -D (k) 9        (k,a) [1,5)   (k,b) [5,9)
    +U (k,c) 7   out of order                 (k,b) [5,7)   (k,c) [7,9)
    +U (k,c) 8   changes nothing              nothing

That is Flink's upsert stream, Debezium's log of a table with a key, a compacted topic. A plus says
what the row of its key is from its time on, whether there was one before or not; a minus says that
there is none, and only its key is looked at. So

- between times, times decide, and not the order in the log; of changes of one key at one time the
  last in the log counts, so the changes of a key come in the order of the log (as they do from one
  partition of a topic);
- a row that is followed by an equal one goes on: the table has one event, as long as the row was
  the same;
- a -U directly before the +U of its key says nothing. Any other is a delete: of the old key, where
  an update changed it;
- a delete of a key that is not there then is refused, unless `absent="ignore"`. A row that came
  and went at one time was never there; its delete is fine, and so is a delete said twice.

What is kept are *entries*: (key, time, row), a row of -1 for a delete. The last of each key stands
in columns by key; those before it, as long as a change may still come between or in their place,
lie in a log. A batch is sorted by key and time together with the last entries of its keys. Where
all of it is later than these, each known run has maybe come to an end, and new ones follow. Else
the entries in the log, of the keys that something comes late for, are sorted in too, and runs of
equal rows before and after are compared; the difference goes out.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from gapless.kernels.columns import Column
from gapless.kernels.keys import Ids, Mask
from gapless.operators.changelog.entries import (
    GONE,
    Entries,
    by_key_and_time,
    events_of_runs,
    next_times,
)
from gapless.operators.changelog.log import Log
from gapless.operators.changelog.reader import LIVE_MAX, ChangelogReader, Late
from gapless.operators.numbers import at_places, numbers, read_numbers, unique
from gapless.operators.payloads import Payloads
from gapless.operators.state import FACTS, State, check_names, facts, part, read_facts
from gapless.protocol.changelog import UPDATE_AFTER, UPDATE_BEFORE, Changes
from gapless.protocol.columns import take_rows
from gapless.protocol.elements import BEGIN, INF, format_time
from gapless.protocol.errors import Bug, ChangeError, DecodeError, Misuse, SchemaError
from gapless.protocol.frame import Frame, Times
from gapless.protocol.schema import StreamSchema

_NONE = -2
"""The row of a key of which nothing is known."""


class Upserts(ChangelogReader):
    """Rows by key. The key's columns are among those of the payload."""

    def __init__(
        self,
        schema: StreamSchema,
        key: Sequence[str],
        *,
        absent: str = "refuse",
        late: Late = "refuse",
        live_max: int = LIVE_MAX,
    ) -> None:
        super().__init__(schema, late=late, live_max=live_max)
        if isinstance(key, str) or not key:
            raise Misuse("key: a list with the name of one column at least")
        for name in key:
            if name not in schema.names:
                raise SchemaError(f"key {name!r}: the columns are {', '.join(schema.names)}")
        if absent not in ("refuse", "ignore"):
            raise Misuse(f"absent={absent!r}: refuse or ignore")
        self.key = tuple(key)
        self._absent = absent
        self._places = [schema.names.index(name) for name in key]
        self._empty()

    def _empty(self) -> None:
        fields = [self.schema.payload.field(i) for i in self._places]
        self._keys = Payloads(pa.schema(fields))
        self._payloads = Payloads(self.schema.payload)
        self._time = Column(BEGIN)  # by key, as are the next two: when its last entry is
        self._row = Column(_NONE)
        self._start = Column(BEGIN)  # of the run that it is in
        self._live = 0  # keys with a last entry
        self._before = Log(5)  # key, time, row, start, time of the next entry, of those before it
        self._gone = Log(1)  # keys whose last entry was once a delete

    # -- reading ------------------------------------------------------------------------------

    def _read(self, changes: Changes) -> Frame:
        keys, new = self._keys.intern_new(changes.payload.select(self._places))
        fresh = keys[new]
        for column, none in self._columns:
            column.fit(self._keys.capacity)[fresh] = none
        pluses = changes.is_plus.nonzero()[0]
        rows = np.full(len(changes), GONE, np.int64)
        all_pluses = len(pluses) == len(changes)
        payload = changes.payload if all_pluses else take_rows(changes.payload, pluses)
        rows[pluses] = self._payloads.intern(payload)
        self._keys.use(keys)
        self._payloads.use(rows[pluses])
        try:
            return self._take_in(changes, keys, rows)
        finally:  # what is held is used by its entries, too
            self._keys.drop(keys)
            self._payloads.drop(rows[pluses])

    def _take_in(self, changes: Changes, keys: Ids, rows: Ids) -> Frame:
        said = _says_something(changes.kinds, keys).nonzero()[0]
        keys, times, rows = keys[said], changes.times[said], rows[said]
        old, logged, in_order = self._held(keys, times)
        merged = Entries(
            np.concatenate([old.key, keys]),
            np.concatenate([old.time, times]),
            np.concatenate([old.row, rows]),
            np.concatenate([old.start, times]),
        )
        order = by_key_and_time(merged.key, merged.time)
        merged, is_old = merged.take(order), order < len(old.key)
        self._check_deletes(changes, said, merged, order - len(old.key))
        counts = np.ones(len(order), np.bool_)  # the last of each key and time
        counts[:-1] = (merged.key[1:] != merged.key[:-1]) | (merged.time[1:] != merged.time[:-1])
        now = merged if counts.all() else merged.take(counts)
        if in_order:
            runs = now.runs()
            frame = self._continued(runs, runs.time <= self._time.values[runs.key])
        else:
            before = events_of_runs(merged.take(is_old).runs())
            frame = self._difference(before, events_of_runs(now.runs()))
        self._hold(old, logged, now)
        return frame

    def _held(self, keys: Ids, times: Times) -> tuple[Entries, Mask | None, bool]:
        """The entries of these keys that matter; which in the log are among them; and whether all
        that comes is later than the last of its key.
        """
        touched = unique(keys)
        touched = touched[self._row.values[touched] != _NONE]
        last = self._time.values[touched]
        old = Entries(touched, last, self._row.values[touched], self._start.values[touched])
        back = keys[times <= self._time.values[keys]]
        if not len(back) or not len(self._before):
            return old, None, not len(back)
        is_back = np.zeros(len(self._time.values), np.bool_)
        is_back[back] = True
        key, time, row, start, _ = self._before.columns
        found = is_back[key]
        logged = Entries(key, time, row, start).take(found)
        joined = [
            np.concatenate([getattr(logged, name), getattr(old, name)])
            for name in ("key", "time", "row", "start")
        ]
        return Entries(*joined), found, False

    def _check_deletes(self, changes: Changes, said: Ids, merged: Entries, place: Ids) -> None:
        """Raises unless each new delete finds a row, or the same delete."""
        if self._absent == "ignore":
            return
        fine = np.zeros(len(place), np.bool_)
        fine[1:] = (merged.key[1:] == merged.key[:-1]) & (
            (merged.row[:-1] >= 0) | (merged.time[1:] == merged.time[:-1])
        )
        wrong = (merged.row == GONE) & (place >= 0) & ~fine
        if np.count_nonzero(wrong):
            i = int(said[place[wrong].min()])
            raise ChangeError(
                changes.row(i),
                f"deletes a key that is not there at {changes.times[i]}",
                'begin with a snapshot of the table, or say absent="ignore"',
            )

    def _continued(self, runs: Entries, is_known: Mask) -> Frame:
        """What the runs say where each key's first, if it is known, has only come to an end."""
        ends = next_times(runs.key, runs.start)
        there = runs.row >= 0
        ended = (there & is_known & (ends < INF)).nonzero()[0]
        rows = np.concatenate([ended, (there & ~is_known).nonzero()[0]])
        if not len(rows):
            return Frame.empty(self.schema)
        was = np.full(len(rows), BEGIN, np.int64)
        was[: len(ended)] = INF
        columns = self._payloads.rows(runs.row[rows]).columns
        return Frame.made(self.schema, runs.start[rows], ends[rows], columns, was)

    def _difference(self, before: Entries, after: Entries) -> Frame:
        """What makes the events `before` the events `after`; each has its end for a time."""
        n = len(before.key)
        key = np.concatenate([before.key, after.key])
        vs = np.concatenate([before.start, after.start])
        order = by_key_and_time(key, vs)
        row = np.concatenate([before.row, after.row])
        end = np.concatenate([before.time, after.time])
        left, right = order[:-1], order[1:]
        same = (key[left] == key[right]) & (vs[left] == vs[right]) & (row[left] == row[right])
        kept, again = left[same], right[same]  # of `before`, of `after`
        alone = np.ones(len(order), np.bool_)
        alone[kept] = alone[again] = False
        removed, inserted = alone[:n].nonzero()[0], n + alone[n:].nonzero()[0]
        moves = end[kept] != end[again]
        kept, again = kept[moves], again[moves]
        rows = np.concatenate([removed, kept, inserted])
        if not len(rows):
            return Frame.empty(self.schema)
        was = np.concatenate([end[removed], end[kept], np.full(len(inserted), BEGIN)])
        ends = np.concatenate([vs[removed], end[again], end[inserted]])
        columns = self._payloads.rows(row[rows]).columns
        return Frame.made(self.schema, vs[rows], ends, columns, was)

    def _hold(self, old: Entries, logged: Mask | None, now: Entries) -> None:
        """The entries are `now` what they were as `old`."""
        if logged is not None:
            self._before.keep(~logged)
        ends = now.next_time
        last = ends == INF
        key = now.key[last]
        self._live += len(key) - int(np.count_nonzero(self._row.values[key] != _NONE))
        self._time.values[key] = now.time[last]
        self._row.values[key] = now.row[last]
        self._start.values[key] = now.start[last]
        self._gone.add(key[now.row[last] == GONE])
        back = now.take(~last)
        self._before.add(back.key, back.time, back.row, back.start, ends[~last])
        self._keys.use(now.key)
        self._keys.drop(old.key)
        self._payloads.use(now.row[now.row >= 0])
        self._payloads.drop(old.row[old.row >= 0])

    # -- settling -----------------------------------------------------------------------------

    def _settle(self, t: int) -> None:
        if t == INF:
            self._empty()
            return
        if len(self._before):
            key, _, row, _, ends = self._before.columns
            stays = ends >= t
            if np.count_nonzero(stays) < len(stays):
                settled, rows = key[~stays], row[~stays]
                self._before.keep(stays)
                self._keys.drop(settled)
                self._payloads.drop(rows[rows >= 0])
        if len(self._gone):
            self._forget_deleted(t)

    def _forget_deleted(self, t: int) -> None:
        (keys,) = self._gone.columns
        keys = unique(keys[keys < len(self._row.values)])
        keys = keys[self._row.values[keys] == GONE]
        forgotten = self._time.values[keys] < t
        self._gone = Log(1)
        self._gone.add(keys[~forgotten])
        keys = keys[forgotten]
        self._row.values[keys] = _NONE
        self._time.values[keys] = BEGIN
        self._live -= len(keys)
        self._keys.drop(keys)

    # -- the state as data --------------------------------------------------------------------

    def snapshot(self) -> State:
        """The keys, the rows, the entries."""
        keys, key_places = self._keys.snapshot()
        rows, row_places = self._payloads.snapshot()
        entries = self._all
        places = np.append(row_places, GONE)  # a row of -1 finds the last
        return {
            FACTS: facts(stable=self.stable),
            "keys.rows": keys,
            "payloads.rows": rows,
            "entries": numbers(
                key=key_places[entries.key],
                time=entries.time,
                row=places[entries.row],
                start=entries.start,
            ),
        }

    def restore(self, state: State) -> None:
        """Takes them back."""
        check_names(state, FACTS, "keys.rows", "payloads.rows", "entries")
        (self.stable,) = read_facts(state, "stable")
        keys = self._keys.restore(part(state, "keys"), "rows")
        payloads = self._payloads.restore(part(state, "payloads"), "rows")
        key, time, row, start = read_numbers(state, "entries", "key", "time", "row", "start")
        key = at_places(keys, key, "entries.key")
        row = at_places(np.append(payloads, GONE), np.where(row < 0, len(payloads), row), "row")
        for column, _ in self._columns:
            column.fit(self._keys.capacity)
        none = np.zeros(0, np.int64)
        order = np.lexsort((time, key))
        entries = Entries(key, time, row, start).take(order)
        self._hold(Entries(none, none, none, none), None, entries)
        try:
            self.validate()
        except Bug as e:
            raise DecodeError("snapshot", str(e), "the state of a reader of upserts") from None

    @property
    def _all(self) -> Entries:
        """Every entry, by key and time."""
        live = (self._row.values != _NONE).nonzero()[0]
        key, time, row, start, _ = self._before.columns
        entries = Entries(
            np.concatenate([key, live]),
            np.concatenate([time, self._time.values[live]]),
            np.concatenate([row, self._row.values[live]]),
            np.concatenate([start, self._start.values[live]]),
        )
        return entries.take(np.lexsort((entries.time, entries.key)))

    @property
    def _columns(self) -> tuple[tuple[Column, int], ...]:
        return (self._time, BEGIN), (self._row, _NONE), (self._start, BEGIN)

    # -- looking at it ------------------------------------------------------------------------

    def __len__(self) -> int:
        """Entries."""
        return self._live + len(self._before)

    @property
    def nbytes(self) -> int:
        """Bytes of tables, columns and log."""
        logs = self._before.nbytes + self._gone.nbytes
        columns = sum(column.nbytes for column, _ in self._columns)
        return self._keys.nbytes + self._payloads.nbytes + logs + columns

    def validate(self) -> None:
        """Raises `Bug` where an invariant is broken."""
        entries = self._all
        if len(entries.key) != len(self):
            raise Bug("entries are miscounted")
        self._keys.validate(entries.key)
        self._payloads.validate(entries.row[entries.row >= 0])
        first, last = entries.is_first, entries.next_time == INF
        if (entries.time[1:] <= entries.time[:-1])[~first[1:]].any():
            raise Bug("two entries of a key at one time")
        if not np.array_equal(entries.time[last], self._time.values[entries.key[last]]):
            raise Bug("the last entry of a key is in the log")
        if (entries.next_time < self.stable).any():
            raise Bug(f"an entry is kept whose next is below {format_time(self.stable)}")
        starts = entries.start.copy()
        entries.runs()
        if not np.array_equal(starts, entries.start) or (starts > entries.time).any():
            raise Bug("an entry does not know when its run began")


def _says_something(kinds: np.typing.NDArray[np.int8], keys: Ids) -> Mask:
    """All but each -U that the +U of its key stands behind."""
    says = np.ones(len(keys), np.bool_)
    before = kinds[:-1] == UPDATE_BEFORE
    if np.count_nonzero(before):
        says[:-1] = ~(before & (kinds[1:] == UPDATE_AFTER) & (keys[1:] == keys[:-1]))
    return says
