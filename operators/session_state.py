"""What a session aggregate holds: cells of panes that are not complete, and sessions so far.

    open        (pane 3, A): 2 rows of [18, 20]        (pane 3, B): ...
    standing    A: 3 rows of [2, 9], end 14            one session a partition, by group
    end(15)     A ends: no cell of A in pane 3 begins at 14 or before

How rows become cells, and cells sessions, is told in `session_aggregate.py`.

State is by group, a group being the values of the partition's columns and of those that answers are
grouped by. Where the latter are among the former, as a rule, each group is a partition.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from gapless.kernels.columns import Column
from gapless.kernels.keys import Ids, Mask
from gapless.operators.agenda import Agenda
from gapless.operators.answers import Answers, Grouping, results
from gapless.operators.cells import Cells
from gapless.operators.grouped_tables import read_cells, write_cells
from gapless.operators.groups import Groups
from gapless.operators.numbers import unique
from gapless.operators.operator import ANSWER_ROWS_MAX
from gapless.operators.partitions import Partitions
from gapless.operators.sessions import Sessions, sessions_of
from gapless.operators.state import State
from gapless.protocol.columns import int64s
from gapless.protocol.elements import BEGIN, INF
from gapless.protocol.errors import Bug
from gapless.protocol.frame import Times


class _Formed(NamedTuple):
    """Sessions that cells make; what each has of a group is in scratch, under an id."""

    sessions: Sessions
    numbers: Ids
    """By id: which session."""
    groups: Ids
    """By id: which group."""


class SessionState:
    """Takes rows in, and gives the answers of sessions that have ended.

    Answers have as their windows the ends of sessions, as their columns those of the group, the
    session's start, then the aggregates.
    """

    def __init__(
        self, grouping: Grouping, gap: int, groups: Groups, partitions: Partitions
    ) -> None:
        """The last state of `grouping` is a `Span`, beside those that answer."""
        self._grouping, self._gap = grouping, gap
        self._width = gap + 1
        self._groups, self._partitions = groups, partitions
        self._open = Cells(grouping)
        self._standing, self._counter = grouping.states()
        self._scratch, _ = grouping.states()  # empty between
        self._ends = Column(BEGIN)  # by partition: of the session so far; BEGIN where there is none
        self._ending = Agenda()  # partitions; some have a later end by now

    # -- rows ---------------------------------------------------------------------------------

    def add(self, times: Times, rows: pa.RecordBatch) -> None:
        """Counts the rows in their panes."""
        groups = self._groups.of(rows)
        self._partitions.know(groups)
        self._open.add(times // self._width, groups, self._groups.capacity, times, rows)

    # -- ending -------------------------------------------------------------------------------

    def end(self, t: int) -> Iterator[Answers]:
        """The answers of the sessions that end below t, in order of their ends, in parts to be read
        to the end. No row below t comes any more.
        """
        pane = INF if t == INF else t // self._width
        found = self._open.between(BEGIN, pane)
        cells = self._open.take(found)
        self._open.forget(found)
        entering = self._partitions.of(found.groups)
        concerned = unique(np.concatenate([entering, self._due(t)]))
        if not len(concerned):
            return
        self._fit()
        standing = self._in_session(concerned)
        formed = self._form(standing, found.groups, cells)
        for state in self._standing:
            state.clear(standing)
        goes_on = self._goes_on(formed.sessions, t, pane)
        self._stand(formed, goes_on)
        ended = (~goes_on[formed.numbers]).nonzero()[0]
        ends = formed.sessions.ends[formed.numbers[ended]]
        ended = ended[np.argsort(ends, kind="stable")]
        for at in range(0, len(ended), ANSWER_ROWS_MAX):
            yield self._answers(formed, ended[at : at + ANSWER_ROWS_MAX], final=True)
        self._clear(len(formed.groups))
        self._forget(concerned, unique(formed.groups))

    def _due(self, t: int) -> Ids:
        """The partitions whose session so far ends below t."""
        _, partitions = self._ending.due(t)
        partitions = unique(partitions[partitions < len(self._ends.values)])
        ends = self._ends.values[partitions]
        return partitions[(ends > BEGIN) & (ends < t)]

    def _in_session(self, partitions: Ids) -> Ids:
        """The groups of the sessions so far of these partitions."""
        partitions = partitions[self._ends.values[partitions] > BEGIN]
        groups = self._partitions.groups(partitions)
        return groups[self._counter.counts.of(groups) > 0]

    def _goes_on(self, sessions: Sessions, t: int, pane: int) -> Mask:
        """Which sessions may yet have more rows: the last of a partition, if it ends at t or later,
        or the pane that is not complete has a row of it.
        """
        goes_on = sessions.is_last & (sessions.ends >= t)
        asked = (sessions.is_last & ~goes_on).nonzero()[0]
        if t == INF or not len(asked):
            return goes_on
        groups = self._partitions.groups(sessions.partitions[asked])
        found = self._open.at(pane, groups)
        earliest = np.full(self._partitions.capacity, INF)
        (begin, _) = _span([state.take(found.ids) for state in self._open.states[-1:]])
        np.minimum.at(earliest, self._partitions.of(found.groups), begin)
        goes_on[asked] = earliest[sessions.partitions[asked]] <= sessions.ends[asked]
        return goes_on

    def _stand(self, formed: _Formed, goes_on: Mask) -> None:
        """Makes these the sessions so far; what has a row in the open pane is looked at with it."""
        sessions = formed.sessions
        ids = goes_on[formed.numbers].nonzero()[0]
        for scratch, state in zip(self._scratch, self._standing, strict=True):
            state.merge(formed.groups[ids], scratch.take(ids))
        ends = self._ends.values
        ends[sessions.partitions] = BEGIN
        ends[sessions.partitions[goes_on]] = sessions.ends[goes_on]
        self._ending.add(sessions.ends[goes_on], sessions.partitions[goes_on])

    # -- forming sessions ---------------------------------------------------------------------

    def _form(self, standing: Ids, groups: Ids, cells: Sequence[pa.RecordBatch]) -> _Formed:
        """The sessions of what stands and of cells, put together in scratch."""
        groups = np.concatenate([standing, groups])
        partials = [
            pa.concat_batches([state.take(standing), of_cells])
            for state, of_cells in zip(self._standing, cells, strict=True)
        ]
        sessions = sessions_of(self._partitions.of(groups), *_span(partials), self._gap)
        if self._partitions.are_groups:
            ids, numbers = sessions.numbers, np.arange(len(sessions.ends))
            of = sessions.partitions
        else:
            room = self._groups.capacity
            both, ids = np.unique(sessions.numbers * room + groups, return_inverse=True)
            numbers, of = both // room, both % room
        for state in self._scratch:
            state.fit(len(of))
        again = _occurrence(ids)
        for state, partial in zip(self._scratch, partials, strict=True):
            if state.repeats:
                state.merge(ids, partial)
                continue
            for turn in range(int(again.max(initial=-1)) + 1):
                here = (again == turn).nonzero()[0]
                state.merge(ids[here], partial.take(pa.array(here)))
        return _Formed(sessions, numbers, of)

    def _answers(self, formed: _Formed, ids: Ids, final: bool) -> Answers:
        numbers = formed.numbers[ids]
        start = int64s(formed.sessions.starts[numbers])
        columns = [*self._groups.columns(formed.groups[ids]), start]
        ends = formed.sessions.ends[numbers]
        return results(self._grouping, ends, columns, self._scratch, ids, final)

    def ahead(self, horizon: int) -> Iterator[Answers]:
        """The answers of the sessions that end at `horizon` or before, as they are by now."""
        self._fit()
        found = self._open.between(BEGIN, INF)
        formed = self._form(self._all_standing(), found.groups, self._open.take(found))
        ids = (formed.sessions.ends[formed.numbers] <= horizon).nonzero()[0]
        for at in range(0, len(ids), ANSWER_ROWS_MAX):
            yield self._answers(formed, ids[at : at + ANSWER_ROWS_MAX], final=False)
        self._clear(len(formed.groups))

    def _all_standing(self) -> Ids:
        standing: Ids = (self._counter.counts.values > 0).nonzero()[0]
        return standing

    def _clear(self, scratch: int) -> None:
        for state in self._scratch:
            state.clear(np.arange(scratch))
            state.fit(0)

    def _fit(self) -> None:
        for state in self._standing:
            state.fit(self._groups.capacity)
        self._ends.fit(self._partitions.capacity)

    def _forget(self, partitions: Ids, groups: Ids) -> None:
        """Frees the ids of groups and partitions of which nothing is held."""
        gone = groups[(self._counter.counts.of(groups) == 0) & ~self._open.has(groups)]
        self._partitions.release(partitions, gone)
        self._groups.release(gone)
        self._fit()

    # -- as data ------------------------------------------------------------------------------

    def snapshot(self) -> State:
        """The cells, and the sessions so far."""
        found, standing = self._open.between(BEGIN, INF), self._all_standing()
        held = [state.take(standing) for state in self._standing]
        nowhere = np.zeros(len(standing), np.int64)
        return {
            **write_cells("open", found.places, found.groups, self._open.take(found), self._groups),
            **write_cells("standing", nowhere, standing, held, self._groups),
        }

    def restore(self, state: State) -> None:
        """Takes them back."""
        _, groups, partials = read_cells("standing", state, self._open.states, self._groups)
        self._partitions.know(groups)
        self._fit()
        for each, partial in zip(self._standing, partials, strict=True):
            each.merge(groups, partial)
        partitions = self._partitions.of(groups)
        np.maximum.at(self._ends.values, partitions, _span(partials)[1] + self._gap)
        partitions = unique(partitions)
        self._ending.add(self._ends.values[partitions], partitions)
        places, groups, partials = read_cells("open", state, self._open.states, self._groups)
        if len(places):
            self._partitions.know(groups)
            self._open.merge(places, groups, self._groups.capacity, partials)
            self._fit()

    # -- looking at it ------------------------------------------------------------------------

    @property
    def nbytes(self) -> int:
        """Bytes of state."""
        states = sum(state.nbytes for state in (*self._standing, *self._scratch))
        known = self._groups.nbytes + self._partitions.nbytes + self._ends.nbytes
        return states + known + self._open.nbytes + self._ending.nbytes

    def validate(self, stable: int) -> None:
        """Raises `Bug` where an invariant is broken; rows below `stable` have all come."""
        self._groups.validate()
        self._partitions.validate()
        self._open.validate()
        for state in self._standing:
            state.validate()
        if stable > BEGIN and len(self._open.between(BEGIN, _pane(stable, self._width)).ids):
            raise Bug("a pane that is complete has not entered its sessions")
        held = self._all_standing()
        (_, latest) = _span([state.take(held) for state in self._standing[-1:]])
        ends = np.full(len(self._ends.values), BEGIN)
        np.maximum.at(ends, self._partitions.of(held), latest + self._gap)
        if not np.array_equal(ends, self._ends.values):
            raise Bug("a session so far has another end than its rows give it")


def _pane(t: int, width: int) -> int:
    return INF if t == INF else t // width


def _span(partials: Sequence[pa.RecordBatch]) -> tuple[Times, Times]:
    """The earliest and the latest times in sub-aggregates."""
    earliest, latest = (column.to_numpy() for column in partials[-1].columns)
    return earliest, latest


def _occurrence(ids: Ids) -> Ids:
    """How often each id has come before."""
    order = np.argsort(ids, kind="stable")
    ordered = ids[order]
    first = np.ones(len(ids), np.bool_)
    first[1:] = ordered[1:] != ordered[:-1]
    begins = np.maximum.accumulate(np.where(first, np.arange(len(ids)), 0))
    found = np.empty(len(ids), np.int64)
    found[order] = np.arange(len(ids)) - begins
    return found
