"""Retractions: rows come and go, equal ones are counted, no key is needed.

    +I A 1   +I B 2   -D A 4            A [1,4)    B [2,inf)
    +I A 6   +I A 7   -D A 9            A [1,4)    A [6,9)  A [7,inf)    first come, first gone

That is Flink's retract stream, with its -U before each +U, an I-stream with its D-stream, and open
and close where several may be open. What counts is how often a payload is there at each instant, so
the table is that in *normal form* (`operators/normal_form.py`): of one payload the i-th start goes
with the i-th end, and where an end meets a start both go. So

- a change that says what is so already (-U p and +U p at one time) changes nothing, nor does a row
  that goes when it comes;
- in whatever order changes come, inside the bound of the watermark, the table is the same. Only
  this is asked: at the end of each batch no payload was ever there less than no times. So a minus
  stands in the batch of its plus, before it or behind, or in a later one. Else it is refused;
- times decide, not the order in the log.

**How it is fast.** Most payloads come and go in order: one is there or not, and what comes next
is the other, later than all before. For those two numbers a payload are enough, the start of the
open event and the last end; events that ended lie in a log until they are settled. A payload that
does anything else is *tangled*: its events move into a `NormalForm`, which can do everything, and
it stays there until all of them are settled.
"""

from __future__ import annotations

import numpy as np

from gapless.kernels.columns import Column
from gapless.kernels.keys import Ids, Mask
from gapless.operators.changelog.log import Log
from gapless.operators.changelog.reader import LIVE_MAX, ChangelogReader, Late
from gapless.operators.normal_form import NormalForm
from gapless.operators.numbers import at_places, numbers, read_numbers, unique
from gapless.operators.payloads import Payloads
from gapless.operators.state import FACTS, State, check_names, facts, read_facts
from gapless.protocol.changelog import Changes
from gapless.protocol.columns import take_rows
from gapless.protocol.elements import BEGIN, INF
from gapless.protocol.errors import Bug, ChangeError, DecodeError
from gapless.protocol.frame import Frame, Times
from gapless.protocol.schema import StreamSchema


class Retractions(ChangelogReader):
    """Pluses and minuses of rows without a key."""

    def __init__(
        self, schema: StreamSchema, *, late: Late = "refuse", live_max: int = LIVE_MAX
    ) -> None:
        super().__init__(schema, late=late, live_max=live_max)
        self._empty()

    def _empty(self) -> None:
        self._payloads = Payloads(self.schema.payload)
        self._open = Column(INF)  # by payload, as are the next two: the start of its open event
        self._ended = Column(BEGIN)  # its last end
        self._tangled = Column(0)
        self._open_count = 0
        self._closed = Log(3)  # payload, vs, ve of events that have ended and are not settled
        self._form = NormalForm(self.schema, self._payloads)  # of those that are tangled

    # -- reading ------------------------------------------------------------------------------

    def _read(self, changes: Changes) -> Frame:
        payloads, new = self._payloads.intern_new(changes.payload)
        capacity = self._payloads.capacity
        fresh = payloads[new]
        for column, none in self._columns:
            column.fit(capacity)[fresh] = none
        self._payloads.use(payloads)
        try:
            return self._take_in(changes, payloads)
        finally:
            self._payloads.drop(payloads)  # what is held is used by its event, too

    def _take_in(self, changes: Changes, payloads: Ids) -> Frame:
        order = _by_payload_and_time(payloads, changes.times)
        payload, time, plus = payloads[order], changes.times[order], changes.is_plus[order]
        first = np.ones(len(order), np.bool_)
        first[1:] = payload[1:] != payload[:-1]
        plain = self._are_plain(payload, time, plus, first)
        frames = []
        if np.count_nonzero(plain) < len(plain):
            tangled = self._tangled.values != 0
            tangled[payload[~plain]] = True
            plain = ~tangled[payload]
            frames.append(self._untangle(changes, payloads, tangled[payloads].nonzero()[0]))
            order, payload, time, plus, first = (
                column[plain] for column in (order, payload, time, plus, first)
            )
        if len(order):
            frames.insert(0, self._follow(changes, order, payload, time, plus, first))
        return frames[0] if len(frames) == 1 else Frame.concat(frames)

    def _are_plain(self, payload: Ids, time: Times, plus: Mask, first: Mask) -> Mask:
        """Where a row is the next that can happen to a payload that is not tangled."""
        start = self._open.values[payload]
        is_open = start < INF
        after = np.where(is_open, start, self._ended.values[payload])
        after[1:] = np.where(first[1:], after[1:], time[:-1])
        was_there = is_open
        was_there[1:] = np.where(first[1:], was_there[1:], plus[:-1])
        plain: Mask = (plus != was_there) & (time > after)
        plain &= self._tangled.values[payload] == 0
        return plain

    def _follow(
        self, changes: Changes, order: Ids, payload: Ids, time: Times, plus: Mask, first: Mask
    ) -> Frame:
        """Plain rows, by payload and time: each plus ends at the minus behind it."""
        last = np.append(first[1:], True)
        ends = np.append(time[1:], INF)
        ends[last] = INF
        comes = plus.nonzero()[0]
        closes = (first & ~plus).nonzero()[0]  # what was open before
        closed = payload[closes]
        starts = self._open.values[closed]
        ended = comes[ends[comes] < INF]
        self._closed.add(
            np.concatenate([closed, payload[ended]]),
            np.concatenate([starts, time[ended]]),
            np.concatenate([time[closes], ends[ended]]),
        )
        self._open.values[closed] = INF
        stays = (plus & last).nonzero()[0]
        self._open.values[payload[stays]] = time[stays]
        self._open_count += len(stays) - len(closes)
        goes = (~plus).nonzero()[0]
        self._ended.values[payload[goes]] = time[goes]  # of each payload, numpy keeps the last
        self._payloads.use(payload[comes])
        rows = np.concatenate([closes, comes])
        return Frame.made(
            self.schema,
            np.concatenate([starts, time[comes]]),
            np.concatenate([time[closes], ends[comes]]),
            take_rows(changes.payload, order[rows]).columns,
            np.concatenate([np.full(len(closes), INF), np.full(len(comes), BEGIN)]),
        )

    # -- tangled payloads ---------------------------------------------------------------------

    def _untangle(self, changes: Changes, payloads: Ids, rows: Ids) -> Frame:
        """Rows of tangled payloads, old and new ones, through the normal form."""
        self._tangle(unique(payloads[rows]))
        payload, time, plus = payloads[rows], changes.times[rows], changes.is_plus[rows]
        up, down = np.where(plus, time, INF), np.where(plus, INF, time)
        out = self._form.revise(payload, up, down)
        if out is None:
            at = self._offender(payload, time, plus)
            raise ChangeError(
                changes.row(int(rows[at])),
                f"takes away at {time[at]} a row that is not there, or that another minus takes",
                "its plus comes before it in time, and not in a later batch",
            )
        return out

    def _tangle(self, payloads: Ids) -> None:
        """Moves all that is known of these payloads into the normal form: that is no news."""
        payloads = payloads[self._tangled.values[payloads] == 0]
        if not len(payloads):
            return
        self._tangled.values[payloads] = 1
        start = self._open.values[payloads]
        opened = payloads[start < INF]
        payload, vs, ve = self._closed.columns
        moves = self._tangled.values[payload] != 0
        moved = np.concatenate([opened, payload[moves]])
        if len(moved):
            starts = np.concatenate([start[start < INF], vs[moves]])
            ends = np.concatenate([np.full(len(opened), INF), ve[moves]])
            if self._form.revise(moved, starts, ends) is None:
                raise Bug("events of a payload that is not tangled overlap")
            self._payloads.drop(moved)
        self._closed.keep(~moves)
        self._open.values[opened] = INF
        self._open_count -= len(opened)

    def _offender(self, payload: Ids, time: Times, plus: Mask) -> int:
        """The last minus in the log, up to the first instant at which there are too many."""
        held, at, sums = self._form.of(unique(payload))
        who = np.concatenate([held, payload])
        when = np.concatenate([at, time])
        by = np.concatenate([sums, np.where(plus, 1, -1)])
        finite = (when < INF).nonzero()[0]
        order = finite[np.lexsort((when[finite], who[finite]))]
        who, when, by = who[order], when[order], by[order]
        ends = np.append((who[1:] != who[:-1]) | (when[1:] != when[:-1]), True)
        total = np.cumsum(by)
        first = np.append(True, who[1:] != who[:-1]).nonzero()[0]
        before = np.repeat(total[first] - by[first], np.diff(np.append(first, len(who))))
        broken = int((ends & (total - before < 0)).argmax())
        rows = (payload == who[broken]) & (time <= when[broken]) & ~plus
        return int(rows.nonzero()[0][-1])

    # -- settling -----------------------------------------------------------------------------

    def _settle(self, t: int) -> None:
        if t == INF:
            self._empty()
            return
        payload, _, ve = self._closed.columns
        if len(ve):
            stays = ve >= t
            settled = payload[~stays]
            if len(settled):
                self._closed.keep(stays)
                self._payloads.drop(settled)
        if len(self._form):
            self._form.settle(t)

    # -- the state as data --------------------------------------------------------------------

    def snapshot(self) -> State:
        """The payloads, the plain events, the boundaries of tangled ones."""
        rows, places = self._payloads.snapshot()
        payload, vs, ve = self._events
        return {
            FACTS: facts(stable=self.stable),
            "payloads": rows,
            "events": numbers(payload=places[payload], vs=vs, ve=ve),
            **self._form.snapshot(places),
        }

    def restore(self, state: State) -> None:
        """Takes them back."""
        check_names(state, FACTS, "payloads", "events", "boundaries")
        (self.stable,) = read_facts(state, "stable")
        payloads = self._payloads.restore(state, "payloads")
        places, vs, ve = read_numbers(state, "events", "payload", "vs", "ve")
        payload = at_places(payloads, places, "events.payload")
        for column, _ in self._columns:
            column.fit(self._payloads.capacity)
        opened = ve == INF
        self._open.values[payload[opened]] = vs[opened]
        self._open_count = int(np.count_nonzero(opened))
        self._closed.add(payload[~opened], vs[~opened], ve[~opened])
        np.maximum.at(self._ended.values, payload[~opened], ve[~opened])
        self._payloads.use(payload)
        self._form.restore(state, payloads)
        self._tangled.values[self._form.used] = 1
        try:
            self.validate()
        except Bug as e:
            raise DecodeError("snapshot", str(e), "the state of a reader of retractions") from None

    @property
    def _events(self) -> tuple[Ids, Times, Times]:
        """Payload, start and end of all events that are not tangled."""
        opened = (self._open.values < INF).nonzero()[0]
        payload, vs, ve = self._closed.columns
        return (
            np.concatenate([opened, payload]),
            np.concatenate([self._open.values[opened], vs]),
            np.concatenate([np.full(len(opened), INF), ve]),
        )

    @property
    def _columns(self) -> tuple[tuple[Column, int], ...]:
        return (self._open, INF), (self._ended, BEGIN), (self._tangled, 0)

    # -- looking at it ------------------------------------------------------------------------

    def __len__(self) -> int:
        """Events, and boundaries of tangled payloads."""
        return self._open_count + len(self._closed) + len(self._form)

    @property
    def nbytes(self) -> int:
        """Bytes of tables, columns and log."""
        columns = sum(column.nbytes for column, _ in self._columns)
        return self._payloads.nbytes + self._closed.nbytes + self._form.nbytes + columns

    def validate(self) -> None:
        """Raises `Bug` where an invariant is broken."""
        payload, vs, ve = self._events
        if int(np.count_nonzero(self._open.values < INF)) != self._open_count:
            raise Bug("open events are miscounted")
        self._payloads.validate(np.concatenate([payload, self._form.used]))
        self._form.validate(self.stable)
        if (vs >= ve).any() or (ve < self.stable).any():
            raise Bug("an event is empty, or settled and still there")
        if np.isin(payload, self._form.used).any():
            raise Bug("a payload is tangled and has plain events")
        order = np.lexsort((vs, payload))
        payload, vs, ve = payload[order], vs[order], ve[order]
        if ((payload[1:] == payload[:-1]) & (vs[1:] <= ve[:-1])).any():
            raise Bug("plain events of a payload meet")
        ended = ve < INF
        if (ve[ended] > self._ended.values[payload[ended]]).any():
            raise Bug("a payload has ended later than is known")


def _by_payload_and_time(payloads: Ids, times: Times) -> Ids:
    """The order by payload, then time; of a batch in order of time it takes one sort."""
    if len(times) and (times[1:] >= times[:-1]).all():
        return np.argsort(payloads, kind="stable")
    return np.lexsort((times, payloads))
