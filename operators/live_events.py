"""The events of an operator's inputs that are not fully frozen, by group.

    ins(A,0,9) ins(A,0,9) ins(B,3,5)       group 0 (of A)   event 0: A [0,9) twice
                                           group 1 (of B)   event 1: B [3,5)
    adj(A,0,9,4)                           event 0: A [0,9) once, event 2: A [0,4)

Events are numbers: `id -> (payload id, input, vs, ve)`, and how often the event is there. An insert
adds one; an adjust moves one from `was` to `ve`. So provisional ends and removals fold away by
themselves, equal events are counted, and no order of arrival shows.

A group is what rows agree on in some columns, or the whole payload: then a group's id is that of
its payload. A group stays until its owner lets it go, though it has no events: something may have
been said of it that must be taken back.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from gapless.kernels import Chains, KeyTable
from gapless.kernels.columns import Column
from gapless.kernels.keys import Ids
from gapless.operators.numbers import at_places, numbers, numbers_schema, read_numbers, unique
from gapless.operators.payloads import Payloads
from gapless.operators.state import State
from gapless.protocol.elements import INF
from gapless.protocol.errors import Bug, DecodeError, SchemaError, StreamViolation
from gapless.protocol.frame import Frame, Times
from gapless.protocol.schema import StreamSchema
from gapless.protocol.text import format_element

_EVENT = numbers_schema("payload", "input", "vs", "ve")
_EVERYTHING = pa.schema([pa.field("everything", pa.bool_())])
"""The key of the one group of all rows: a table needs a column."""
_FREE = -1
"""Events of a group that is not there."""


class LiveEvents:
    """A multiset of events. Of its input's promises it checks that an adjust changes what is there.

    group_by: the columns that rows of a group agree on; None: all of them.
    """

    def __init__(self, schema: StreamSchema, group_by: Sequence[str] | None) -> None:
        for name in group_by or ():
            if name not in schema.names:
                raise SchemaError(f"no column {name!r} to group by among {', '.join(schema.names)}")
        self.payloads = Payloads(schema.payload)
        self.group_by = tuple(schema.names if group_by is None else group_by)
        self._columns = [schema.names.index(name) for name in self.group_by]
        if group_by is None:
            self.groups = self.payloads
        else:
            fields = [schema.payload.field(i) for i in self._columns]
            self.groups = Payloads(pa.schema(fields) if fields else _EVERYTHING)
        self._whole = group_by is None
        self._events = KeyTable(_EVENT)
        self.payload = Column(0)  # by id of an event, as are all columns
        self.input = Column(0)
        self.vs = Column(INF)  # INF where the id is free
        self.ve = Column(INF)
        self.group = Column(0)
        self.count = Column(0)
        self._of_group = Chains()
        self._members = Column(_FREE)  # by group, how many different events it has

    # -- taking in ----------------------------------------------------------------------------

    def take_in(self, frame: Frame, source: int) -> Ids:
        """Folds the rows of an input in; returns the group of each row.

        Raises `StreamViolation`, and changes nothing, where an event is adjusted that is not there.
        """
        payloads = self.payloads.intern(frame.payload)
        groups, new = self._groups_of(frame.payload, payloads)
        if frame.insert_only:
            changed = self._intern(groups, payloads, source, frame.vs, frame.ve)
            np.add.at(self.count.values, changed, 1)
            return groups
        try:
            self._revise(frame, source, payloads, groups)
        except StreamViolation:
            self.let_go(new)
            raise
        return groups

    def _groups_of(self, rows: pa.RecordBatch, payloads: Ids) -> tuple[Ids, Ids]:
        """The group of each row, and which are new: all are there from now on."""
        if self._whole:
            groups = payloads
        elif not self._columns:
            everything = pa.nulls(rows.num_rows, pa.bool_())
            groups = self.groups.intern(
                pa.RecordBatch.from_arrays([everything], schema=_EVERYTHING)
            )
        else:
            groups = self.groups.intern(rows.select(self._columns))
        members = self._members.fit(self.groups.capacity)
        new = groups[members[groups] == _FREE]
        if len(new):
            new = unique(new)
            members[new] = 0
            self.groups.use(new)
        return groups, new

    def _intern(self, groups: Ids, payloads: Ids, source: int | Ids, vs: Times, ve: Times) -> Ids:
        """The ids of events, as yet without a count where they are new."""
        inputs = np.full(len(vs), source) if isinstance(source, int) else source
        keys = (payloads, inputs, vs, ve)
        batch = pa.RecordBatch.from_arrays([pa.array(key) for key in keys], schema=_EVENT)
        ids, first = self._events.intern(batch)
        capacity = self._events.capacity
        self.count.fit(capacity)
        new = first.nonzero()[0]
        at = ids[new]
        for column, values in zip(self._columns_of_events, (*keys, groups), strict=True):
            column.fit(capacity)[at] = values[new]
        self.payloads.use(payloads[new])
        self._of_group.add(groups[new], at)
        np.add.at(self._members.values, groups[new], 1)
        return ids

    def _revise(self, frame: Frame, source: int, payloads: Ids, groups: Ids) -> None:
        gained, lost = (frame.ve > frame.vs).nonzero()[0], (~frame.is_insert).nonzero()[0]
        rows = np.concatenate([gained, lost])
        by = np.repeat(np.array([1, -1]), [len(gained), len(lost)])
        ve = np.concatenate([frame.ve[gained], frame.was[lost]])
        ids = self._intern(groups[rows], payloads[rows], source, frame.vs[rows], ve)
        count = self.count.values
        np.add.at(count, ids, by)
        absent = count[ids] < 0
        broken = bool(np.count_nonzero(absent))
        if broken:
            np.subtract.at(count, ids, by)
        self.forget(unique(ids[count[ids] == 0]))
        if broken:
            element = frame.slice(int(rows[int(absent.argmax())]), 1).elements()[0]
            rule = "an adjust changes an event that is there, and this one is not"
            raise StreamViolation(format_element(element), rule)

    # -- looking up and letting go ------------------------------------------------------------

    def of(self, groups: Ids) -> tuple[Ids, Ids]:
        """All pairs (position in `groups`, event of that group), in the order of positions."""
        return self._of_group.probe(groups)

    def forget(self, events: Ids) -> None:
        """Lets events go, however often they are there; their groups stay."""
        if not len(events):
            return
        self._of_group.remove(events)
        self._events.release(events)
        np.subtract.at(self._members.values, self.group.values[events], 1)
        self.payloads.drop(self.payload.values[events])
        capacity = self._events.capacity
        for column, free in zip(self._columns_of_events, (0, 0, INF, INF, 0), strict=True):
            column.values[events] = free
            column.fit(capacity)
        self.count.values[events] = 0
        self.count.fit(capacity)

    def members(self, groups: Ids) -> Ids:
        """How many different events each of these groups has."""
        members: Ids = self._members.values[groups]
        return members

    def without_events(self, groups: Ids) -> Ids:
        """Those of the groups that have none."""
        empty: Ids = groups[self._members.values[groups] == 0]
        return empty

    def let_go(self, groups: Ids) -> None:
        """Forgets groups without events; ids of theirs may be used again at once."""
        if len(groups):
            self._members.values[groups] = _FREE
            self.groups.drop(groups)

    def give_room_back(self) -> None:
        """Lets the memory go that groups had which have been forgotten."""
        self._members.fit(self.groups.capacity)

    @property
    def all_groups(self) -> Ids:
        """Those that are there."""
        return (self._members.values >= 0).nonzero()[0]

    @property
    def _columns_of_events(self) -> tuple[Column, Column, Column, Column, Column]:
        return self.payload, self.input, self.vs, self.ve, self.group

    def __len__(self) -> int:
        """Different events held."""
        return len(self._events)

    # -- snapshots ----------------------------------------------------------------------------

    def snapshot(self, payload_places: Ids, group_places: Ids) -> State:
        """The events; the caller has written payloads and groups, and says where each stands."""
        ids = (self.vs.values < INF).nonzero()[0]
        return {
            "events": numbers(
                payload=payload_places[self.payload.values[ids]],
                input=self.input.values[ids],
                vs=self.vs.values[ids],
                ve=self.ve.values[ids],
                group=group_places[self.group.values[ids]],
                count=self.count.values[ids],
            )
        }

    def restore(self, state: State, payloads: Ids, groups: Ids, present: Ids) -> None:
        """Takes them back into an empty one.

        `payloads` and `groups` are ids by place; `present` the groups that are there.
        """
        self._members.fit(self.groups.capacity)[present] = 0
        self.groups.use(unique(present))
        names = ("payload", "input", "vs", "ve", "group", "count")
        at, inputs, vs, ve, of, count = read_numbers(state, "events", *names)
        group = at_places(groups, of, "events.group")
        if np.count_nonzero(self._members.values[group] == _FREE):
            raise DecodeError("snapshot.events.group", "a group that is not there", "one that is")
        ids = self._intern(group, at_places(payloads, at, "events.payload"), inputs, vs, ve)
        if len(self) < len(ids):
            raise DecodeError("snapshot.events", "repeated events", "each once, with its count")
        self.count.values[ids] = count

    # -- checking -----------------------------------------------------------------------------

    @property
    def nbytes(self) -> int:
        """Bytes of tables, chains and columns."""
        columns = (*self._columns_of_events, self.count, self._members)
        held = sum(column.nbytes for column in columns)
        tables = int(self._events.nbytes) + int(self._of_group.nbytes) + self.payloads.nbytes
        return tables + held + (0 if self._whole else self.groups.nbytes)

    def validate(self, also_used: Ids) -> None:
        """Raises `Bug` where an invariant is broken.

        `also_used` are the payloads that its owner has in use beside the events.
        """
        self._events.validate()
        self._of_group.validate()
        live = (self.vs.values < INF).nonzero()[0]
        if not len(live) == len(self._events) == len(self._of_group):
            raise Bug(f"{len(live)} live starts, {len(self._events)} events held")
        if ((self.count.values > 0) != (self.vs.values < INF)).any():
            raise Bug("an event is held no times, or a free id some times")
        if (self.vs.values[live] >= self.ve.values[live]).any():
            raise Bug("an event ends before it has started")
        there = self.all_groups
        members = np.bincount(self.group.values[live], minlength=len(self._members.values))
        if (members != np.maximum(self._members.values, 0)).any():
            raise Bug("a group has more or fewer events than are counted")
        used = [self.payload.values[live], also_used]
        if self._whole:
            used.append(there)
        else:
            self.groups.validate(there)
        self.payloads.validate(np.concatenate(used))
