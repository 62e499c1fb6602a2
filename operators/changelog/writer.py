"""FinalChanges: frames to changes, each handed out once, in order of time, when it is final.

    frames                                   changes, key (k)          watermark
    ins((k,a),1,inf) stable(3)               +I (k,a) 1                3
    ins((k,b),5,9) adj((k,a),1,inf,5)
    stable(6)                                -U (k,a) 5  +U (k,b) 5    6
    stable(20)                               -D (k,b) 9                20

At stable t all that happens below t is final: an event with `vs < t` has started for good, one with
`ve < t` has ended for good. So at each stable exactly the changes below it go out that have not
gone out before, and the stable is their watermark. Nothing is ever taken back. What may still
change, starts and ends at t or later, waits; that, and the events that are open, is what is kept.

One fixed order: by time; at one time minuses before pluses, and rows in the order of
`operators/order.py` (with a key: by key, each -U directly before its +U). So the changes and their
order depend on the table alone: every replica, and every way of telling the table, gives the same
rows.

A row that ends where an equal one starts goes on, and nothing is said. So what is told is the table
in normal form (`operators/normalise.py`): read again by `Retractions` or `Upserts` it is TDB-equal
where the table was in normal form, and else the same at every instant. A program that wants events
back exactly, or every revision at once, takes timed changes: `Changes.of_frame`.

With a key, a row that goes and one of its key that comes at that time are an update. Where two rows
of a key are there at once it is not a key: `BadData`, and the writer is not to be used any more.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from gapless.kernels.keys import Ids
from gapless.operators.changelog.reader import LIVE_MAX
from gapless.operators.event_counts import EventCounts
from gapless.operators.operator import check_schema
from gapless.operators.order import by_time_and_payload
from gapless.operators.payloads import Payloads
from gapless.operators.state import FACTS, State, as_part, check_names, facts, part, read_facts
from gapless.protocol.changelog import DELETE, INSERT, UPDATE_AFTER, UPDATE_BEFORE, Changes
from gapless.protocol.columns import take_rows
from gapless.protocol.elements import BEGIN, INF, format_time
from gapless.protocol.errors import BadData, Bug, DecodeError, MemoryLimit, Misuse, SchemaError
from gapless.protocol.frame import Frame, Mask, Times
from gapless.protocol.schema import StreamSchema
from gapless.protocol.text import format_payload
from gapless.protocol.values import payload_tuples


class Written(NamedTuple):
    """What one frame makes final."""

    changes: Changes
    """Maybe none."""
    watermark: int | None
    """No later change has a time below it; None where that is no news."""


class FinalChanges:
    """The changes of a table, from the frames that tell it.

    `key`: columns that rows have for themselves at each instant; then updates are told as such.
    `upsert`: with a key, without the -U.
    """

    def __init__(
        self,
        schema: StreamSchema,
        key: Sequence[str] = (),
        *,
        upsert: bool = False,
        live_max: int = LIVE_MAX,
    ) -> None:
        if isinstance(key, str):
            raise Misuse("key: a list with the names of columns")
        for name in key:
            if name not in schema.names:
                raise SchemaError(f"key {name!r}: the columns are {', '.join(schema.names)}")
        if upsert and not key:
            raise Misuse("upsert=True needs a key: without one nobody knows what a +U replaces")
        self.schema = schema
        self.stable = BEGIN
        """Changes below it have been handed out."""
        self._upsert = upsert
        self._live_max = live_max
        self._held = EventCounts(schema)
        self._places = [schema.names.index(name) for name in key]
        fields = [schema.payload.field(i) for i in self._places]
        self._there = Payloads(pa.schema(fields)) if key else None  # keys that have a row

    def push(self, frame: Frame) -> Written:
        """Takes the next frame of a legal stream; gives what its stable makes final.

        Raises `StreamViolation` where an adjust changes what is not there, `MemoryLimit` where
        more would wait than `live_max`: nothing has changed then.
        """
        check_schema(frame, self.schema)
        if len(frame):
            if len(self._held) + len(frame) > self._live_max:
                raise MemoryLimit(
                    f"{len(self._held)} events kept and {len(frame)} rows are more than live_max "
                    f"{self._live_max}: what is to be final needs stables, or raise it"
                )
            self._held.apply(frame)
        if frame.stable is None or frame.stable <= self.stable:
            return Written(Changes.none(self.schema), None)
        changes = self._below(frame.stable)
        self.stable = frame.stable
        return Written(changes, frame.stable)

    def _below(self, t: int) -> Changes:
        held, since = self._held, self.stable
        vs, ve, count = held.vs.values, held.ve.values, held.count.values
        starting = ((vs >= since) & (vs < t)).nonzero()[0]
        ending = ((ve >= since) & (ve < t)).nonzero()[0]
        ids = np.concatenate([starting, ending])
        if not len(ids):
            self._forget(ending, t)
            return Changes.none(self.schema)
        by = np.concatenate([count[starting], -count[ending]])
        times = np.concatenate([vs[starting], ve[ending]])
        ids, times, by = _summed(ids, held.payload.values[ids], times, by)
        rows = np.repeat(np.arange(len(ids)), np.abs(by))
        times, plus = times[rows], by[rows] > 0
        payload = held.payloads_of(ids)
        if len(rows) != len(ids):
            payload = take_rows(payload, rows)
        changes = self._in_order(payload, times, plus)
        self._forget(ending, t)
        return changes

    def _forget(self, ended: Ids, t: int) -> None:
        if t < INF:
            self._held.forget(ended)
            return
        self._held = EventCounts(self.schema)
        if self._there is not None:
            self._there = Payloads(self._there.schema)

    def _in_order(self, payload: pa.RecordBatch, times: Times, plus: Mask) -> Changes:
        if self._there is None:
            order = np.lexsort((_ranks(payload), plus, times))
            kinds = np.where(plus, INSERT, DELETE)
        else:
            key = payload.select(self._places)
            keys = self._there.intern(key)
            kinds = self._kinds(self._there, keys, times, plus)
            _, one, same = np.unique(keys, return_index=True, return_inverse=True)
            order = np.lexsort((plus, _ranks(take_rows(key, one))[same], times))
        if self._upsert:
            order = order[kinds[order] != UPDATE_BEFORE]
        return Changes(
            self.schema, kinds[order].astype(np.int8), times[order], take_rows(payload, order)
        )

    def _kinds(self, there: Payloads, keys: Ids, times: Times, plus: Mask) -> Ids:
        """Kinds of the rows; sees that each key has one row at most, at every instant."""
        was_there = there.uses(keys) > 0
        order = np.lexsort((plus, times, keys))
        who, when, comes = keys[order], times[order], plus[order]
        again = np.zeros(len(order), np.bool_)
        again[1:] = who[1:] == who[:-1]
        before = was_there[order]
        before[1:] = np.where(again[1:], comes[:-1], before[1:])
        wrong = comes == before
        if wrong.any():
            at = int(order[int(wrong.argmax())])
            text = format_payload(payload_tuples(there.rows(keys[at : at + 1]))[0])
            raise BadData(
                f"two rows of key {text} are there at {times[at]}: name more columns as the key, "
                "or write without one"
            )
        update = np.zeros(len(order), np.bool_)  # it goes, and another comes
        update[1:] = again[1:] & (when[1:] == when[:-1])
        update[:-1] |= update[1:]
        kinds = np.empty(len(order), np.int64)
        kinds[order] = np.where(
            comes,
            np.where(update, UPDATE_AFTER, INSERT),
            np.where(update, UPDATE_BEFORE, DELETE),
        )
        there.use(keys[plus])
        there.drop(keys[~plus])
        return kinds

    # -- the state as data --------------------------------------------------------------------

    def snapshot(self) -> State:
        """The events kept, the keys that have a row."""
        state = {FACTS: facts(stable=self.stable), **as_part(self._held.snapshot(), "held")}
        if self._there is not None:
            state["keys"] = self._there.snapshot()[0]
        return state

    def restore(self, state: State) -> None:
        """Takes them back; called once, first. Raises `DecodeError` where they are damaged."""
        names = (FACTS, "held.payloads", "held.events")
        check_names(state, *names, *(("keys",) if self._there is not None else ()))
        (self.stable,) = read_facts(state, "stable")
        self._held.restore(part(state, "held"))
        if self._there is not None:
            self._there.use(self._there.restore(state, "keys"))
        try:
            self.validate()
        except Bug as e:
            raise DecodeError("snapshot", str(e), "the state of a writer") from None

    def __len__(self) -> int:
        """Different events kept."""
        return len(self._held)

    @property
    def nbytes(self) -> int:
        """Bytes of what is kept."""
        return self._held.nbytes + (0 if self._there is None else self._there.nbytes)

    def validate(self) -> None:
        """Raises `Bug` where an invariant is broken."""
        self._held.validate()
        if (self._held.ve.values < self.stable).any():
            raise Bug(f"an event is kept that had ended below {format_time(self.stable)}")
        if self._there is not None:
            started = (self._held.vs.values < self.stable).nonzero()[0]
            rows = self._held.payloads_of(started).select(self._places)
            self._there.validate(self._there.find(rows))


def _summed(ids: Ids, payload: Ids, times: Times, by: Ids) -> tuple[Ids, Times, Ids]:
    """Of each payload and time an event, and by how much the row is there more often from then on;
    without those where that is 0.
    """
    order = np.lexsort((times, payload))
    payload, times = payload[order], times[order]
    begins = np.ones(len(order), np.bool_)
    begins[1:] = (payload[1:] != payload[:-1]) | (times[1:] != times[:-1])
    at = begins.nonzero()[0]
    total = np.add.reduceat(by[order], at)
    changed = total != 0
    return ids[order][at][changed], times[at][changed], total[changed]


def _ranks(rows: pa.RecordBatch) -> Ids:
    """Where each row stands in the fixed order; equal rows stand together."""
    zeros = np.zeros(rows.num_rows, np.int64)
    ranks = np.empty(rows.num_rows, np.int64)
    ranks[by_time_and_payload(zeros, zeros, rows)] = np.arange(rows.num_rows)
    return ranks
