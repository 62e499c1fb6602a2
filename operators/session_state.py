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
from gapless.kernels.scatter import max_at, min_at
from gapless.operators.agenda import Agenda
from gapless.operators.aggregates.function import Accumulator
from gapless.operators.answers import Answers, Grouping, results
from gapless.operators.cells import Cells
from gapless.operators.grouped_tables import read_cells, write_cells
from gapless.operators.groups import Groups
from gapless.operators.numbers import ranked, unique
from gapless.operators.operator import ANSWER_ROWS_MAX
from gapless.operators.partitions import Partitions
from gapless.operators.pick import Picks
from gapless.operators.sessions import Sessions, sessions_of
from gapless.operators.sparse_cells import Found
from gapless.operators.state import State
from gapless.protocol.columns import int64s
from gapless.protocol.elements import BEGIN, INF
from gapless.protocol.errors import Bug
from gapless.protocol.frame import Times


class _Gathered(NamedTuple):
    """What sessions have of each of their groups; it is in scratch, under an id."""

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
        self._picks = [Picks(state.partial_schema) for state in self._standing]
        self._starts = Column(BEGIN)  # by partition: of the session so far
        self._ends = Column(BEGIN)  # by partition: of it, too; BEGIN where there is none
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
        pane = _pane(t, self._width)
        found = self._open.between(BEGIN, pane)
        cells = self._open.take(found)
        self._open.forget(found)
        concerned = np.concatenate([self._partitions.of(found.groups), self._due(t)])
        concerned, _ = ranked(concerned, self._partitions.capacity)
        if not len(concerned):
            return
        self._fit()
        going = concerned[self._ends.values[concerned] > BEGIN]
        sessions = self._sessions(going, found, cells)
        goes_on = sessions.is_last & (sessions.ends >= t)
        closing = self._partitions.groups(unique(sessions.partitions[~goes_on]))
        if t < INF and len(closing):
            self._look_at(pane, sessions, closing, goes_on)
        ended = self._enter(going, sessions, goes_on, (found.groups, closing), cells)
        ids = np.argsort(sessions.ends[ended.numbers], kind="stable")
        for at in range(0, len(ids), ANSWER_ROWS_MAX):
            yield self._answers(sessions, ended, ids[at : at + ANSWER_ROWS_MAX], final=True)
        self._clear(len(ended.groups))
        self._forget(concerned, unique(ended.groups))

    def _due(self, t: int) -> Ids:
        """The partitions whose session so far ends below t."""
        _, partitions = self._ending.due(t)
        partitions = unique(partitions[partitions < len(self._ends.values)])
        ends = self._ends.values[partitions]
        return partitions[(ends > BEGIN) & (ends < t)]

    def _look_at(self, pane: int, sessions: Sessions, groups: Ids, goes_on: Mask) -> None:
        """The last session of a partition goes on, too, if the pane that is not complete has a row
        of it; that would be of one of these groups.
        """
        found = self._open.at(pane, groups)
        earliest = np.full(self._partitions.capacity, INF)
        (begin, _) = _span([state.take(found.ids) for state in self._open.states[-1:]])
        min_at(earliest, self._partitions.of(found.groups), begin)
        goes_on |= sessions.is_last & (earliest[sessions.partitions] <= sessions.ends)

    def _enter(
        self,
        going: Ids,
        sessions: Sessions,
        goes_on: Mask,
        of: tuple[Ids, Ids],
        cells: Sequence[pa.RecordBatch],
    ) -> _Gathered:
        """Adds cells to the sessions so far, and gathers what has ended. `of`: the groups of the
        cells, and all groups of partitions of which a session has.

        A session that goes on only takes new cells in: what it has stays where it is, so a stable
        costs as much as comes and ends.
        """
        groups, closing = of
        of_going, of_cells = sessions.numbers[: len(going)], sessions.numbers[len(going) :]
        stays = goes_on[of_cells]
        standing = self._standing_in(going[~goes_on[of_going]], closing)
        over, here = (~stays).nonzero()[0], stays.nonzero()[0]
        ended = self._gather(
            sessions,
            np.concatenate([self._numbers(going, of_going, standing), of_cells[over]]),
            np.concatenate([standing, groups[over]]),
            [
                pa.concat_batches([state.take(standing), picks.take(partial, over)])
                for state, picks, partial in zip(self._standing, self._picks, cells, strict=True)
            ],
        )
        for state in self._standing:
            state.clear(standing)
        staying = [picks.take(c, here) for picks, c in zip(self._picks, cells, strict=True)]
        _merge(self._standing, groups[here], staying)
        for column, values in ((self._starts, sessions.starts), (self._ends, sessions.ends)):
            column.values[sessions.partitions] = BEGIN
            column.values[sessions.partitions[goes_on]] = values[goes_on]
        self._ending.add(sessions.ends[goes_on], sessions.partitions[goes_on])
        return ended

    def _standing_in(self, partitions: Ids, groups: Ids) -> Ids:
        """Those of the groups that are in the session so far of one of these partitions."""
        chosen = np.zeros(self._partitions.capacity, np.bool_)
        chosen[partitions] = True
        groups = groups[chosen[self._partitions.of(groups)]]
        return groups[self._counter.counts.of(groups) > 0]

    def _numbers(self, going: Ids, of_going: Ids, groups: Ids) -> Ids:
        """The sessions of groups, by those of their partitions."""
        of = np.empty(self._partitions.capacity, np.int64)
        of[going] = of_going
        numbers: Ids = of[self._partitions.of(groups)]
        return numbers

    # -- forming sessions ---------------------------------------------------------------------

    def _sessions(self, going: Ids, found: Found, cells: Sequence[pa.RecordBatch]) -> Sessions:
        """Of the sessions so far of these partitions, and of cells behind them."""
        partitions = self._partitions.of(found.groups)
        earliest, latest = _span(cells)
        of = np.arange(len(partitions))
        if not self._partitions.are_groups:  # what a partition has in a pane belongs together
            room = self._partitions.capacity
            pane = np.cumsum(found.places[1:] != found.places[:-1])
            pane = np.concatenate([np.zeros(min(1, len(partitions)), np.int64), pane])
            pieces, of = ranked(pane * room + partitions, room * (int(pane.max(initial=-1)) + 1))
            partitions = pieces % room
            first, last = np.full(len(pieces), INF), np.full(len(pieces), BEGIN)
            min_at(first, of, earliest)
            max_at(last, of, latest)
            earliest, latest = first, last
        sessions = sessions_of(
            np.concatenate([going, partitions]),
            np.concatenate([self._starts.values[going], earliest]),
            np.concatenate([self._ends.values[going] - self._gap, latest]),
            self._gap,
        )
        of_going, of_pieces = sessions.numbers[: len(going)], sessions.numbers[len(going) :]
        return sessions._replace(numbers=np.concatenate([of_going, of_pieces[of]]))

    def _gather(
        self, sessions: Sessions, numbers: Ids, groups: Ids, partials: Sequence[pa.RecordBatch]
    ) -> _Gathered:
        """Puts together in scratch what there is of each of these sessions and groups."""
        if self._partitions.are_groups:
            known, ids = ranked(numbers, len(sessions.ends))
            gathered = _Gathered(known, sessions.partitions[known])
        else:
            room = self._groups.capacity
            both, ids = ranked(numbers * room + groups, room * len(sessions.ends))
            gathered = _Gathered(both // room, both % room)
        for state in self._scratch:
            state.fit(len(gathered.groups))
        _merge(self._scratch, ids, partials)
        return gathered

    def _answers(self, sessions: Sessions, gathered: _Gathered, ids: Ids, final: bool) -> Answers:
        numbers = gathered.numbers[ids]
        start = int64s(sessions.starts[numbers])
        columns = [*self._groups.columns(gathered.groups[ids]), start]
        return results(self._grouping, sessions.ends[numbers], columns, self._scratch, ids, final)

    def ahead(self, horizon: int) -> Iterator[Answers]:
        """The answers of the sessions that end at `horizon` or before, as they are by now."""
        self._fit()
        found, standing = self._open.between(BEGIN, INF), self._all_standing()
        cells = self._open.take(found)
        going = (self._ends.values > BEGIN).nonzero()[0]
        sessions = self._sessions(going, found, cells)
        of_going, of_cells = sessions.numbers[: len(going)], sessions.numbers[len(going) :]
        both = zip(self._standing, cells, strict=True)
        gathered = self._gather(
            sessions,
            np.concatenate([self._numbers(going, of_going, standing), of_cells]),
            np.concatenate([standing, found.groups]),
            [pa.concat_batches([state.take(standing), of_cells]) for state, of_cells in both],
        )
        ids = (sessions.ends[gathered.numbers] <= horizon).nonzero()[0]
        for at in range(0, len(ids), ANSWER_ROWS_MAX):
            yield self._answers(sessions, gathered, ids[at : at + ANSWER_ROWS_MAX], final=False)
        self._clear(len(gathered.groups))

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
        for column in (self._starts, self._ends):
            column.fit(self._partitions.capacity)

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
        self._starts.values[:], self._ends.values[:] = self._spans_of(partitions, partials)
        partitions = unique(partitions)
        self._ending.add(self._ends.values[partitions], partitions)
        places, groups, partials = read_cells("open", state, self._open.states, self._groups)
        if len(places):
            self._partitions.know(groups)
            self._open.merge(places, groups, self._groups.capacity, partials)
            self._fit()

    def _spans_of(self, partitions: Ids, partials: Sequence[pa.RecordBatch]) -> tuple[Times, Times]:
        """By partition, from when to when its session so far is, by what its groups have."""
        earliest, latest = _span(partials)
        starts = np.full(len(self._starts.values), INF)
        min_at(starts, partitions, earliest)
        starts[starts == INF] = BEGIN
        ends = np.full(len(self._ends.values), BEGIN)
        max_at(ends, partitions, latest + self._gap)
        return starts, ends

    # -- looking at it ------------------------------------------------------------------------

    @property
    def nbytes(self) -> int:
        """Bytes of state."""
        states = sum(state.nbytes for state in (*self._standing, *self._scratch))
        known = self._groups.nbytes + self._partitions.nbytes
        known += self._starts.nbytes + self._ends.nbytes
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
        spans = self._spans_of(
            self._partitions.of(held), [state.take(held) for state in self._standing[-1:]]
        )
        for column, times in zip((self._starts, self._ends), spans, strict=True):
            if not np.array_equal(column.values, times):
                raise Bug("a session so far has another span than its rows give it")


def _pane(t: int, width: int) -> int:
    return INF if t == INF else t // width


def _span(partials: Sequence[pa.RecordBatch]) -> tuple[Times, Times]:
    """The earliest and the latest times in sub-aggregates."""
    earliest, latest = (column.to_numpy() for column in partials[-1].columns)
    return earliest, latest


def _merge(states: Sequence[Accumulator], ids: Ids, partials: Sequence[pa.RecordBatch]) -> None:
    """Merges sub-aggregates in, those of one id in their order."""
    places: list[Ids] = []  # of the first of each id, of the second of those that have one, ...
    for state, partial in zip(states, partials, strict=True):
        if state.repeats:
            state.merge(ids, partial)
            continue
        places = places or list(_turns(ids))
        for here in places:
            state.merge(ids[here], partial.take(pa.array(here)))


def _turns(ids: Ids) -> Iterator[Ids]:
    """The places of the first of each id, then of the second of those that have one, ..."""
    order = np.argsort(ids, kind="stable")
    ordered = ids[order]
    first = np.ones(len(ids), np.bool_)
    first[1:] = ordered[1:] != ordered[:-1]
    again = np.arange(len(ids)) - np.maximum.accumulate(np.where(first, np.arange(len(ids)), 0))
    for turn in range(int(again.max(initial=-1)) + 1):
        yield order[again == turn]
