"""Windows that count rows: RANGE 1000 ROWS SLIDE 10 ROWS, slide-by-tuple, the last n rows.

    RowHopping(2, 1), count by src, partition_by src
    ins(A,3,4) ins(A,7,8) stable(8)   ->   ins((A,1),3,inf) adj((A,1),3,inf,7) ins((A,2),7,inf)

A window ends with a row (or, where rows are counted back from times, at a multiple of the slide).
Its answer lives from then until the next window of the partition ends, the last one for ever. An
answer that is superseded within one tick is no event. Nothing is answered before its rows are
final, so nothing is revised but ends.

    rows    -> NotFinal      until a stable passes them: rows where they are ranked, else cells
    cells   -> CellChains    by group and place, as long as a window may need them
               SummedCells   the same, where groups are partitions and aggregates add up
    closed  -> answers       of runs of cells, put together as in `ranges.py`, or subtracted

For slide-by-tuple windows that is figure 6-7 in columns: one pass, and no row is kept. Where the
figure adds a tuple to all bins within the range, a tick has a cell of its own, and a window is put
together of the cells that it covers: those from the first above w - range (the figure's base bin,
which may lie before every later purge) up to w itself, included.

Landmarks by rows keep one cell a group, and answer the groups that have new rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from gapless.kernels.keys import Ids
from gapless.operators.aggregates.function import AggregateFunction
from gapless.operators.answer_pairs import answer_pairs, next_of_group
from gapless.operators.answers import Grouping, answerable, results
from gapless.operators.answers_held import AnswersHeld
from gapless.operators.aside import Aside
from gapless.operators.cell_chains import CellChains, Chained
from gapless.operators.events import events_of
from gapless.operators.final_cells import FinalCells, NotFinal
from gapless.operators.grouped_tables import read_cells, write_cells
from gapless.operators.hopping_aggregate import answer_schema
from gapless.operators.memory import Memory
from gapless.operators.operator import ANSWER_ROWS_MAX, Marks, Operator, Out, check_schema, joined
from gapless.operators.ranks import RankedRows
from gapless.operators.row_partitions import Partitions
from gapless.operators.row_windows import (
    Closings,
    RowLandmark,
    RowWindow,
    SlideByTuple,
    last_of_each,
)
from gapless.operators.state import State, as_part, facts, part, read_facts
from gapless.operators.summed_cells import SummedCells
from gapless.operators.ticks import Ticks
from gapless.operators.window_states import StatesOf, added_up, of_pairs, of_totals
from gapless.protocol.columns import take_rows
from gapless.protocol.elements import BEGIN, INF
from gapless.protocol.errors import Bug, DecodeError, Misuse
from gapless.protocol.frame import Frame, Times
from gapless.protocol.schema import VS, StreamSchema

SWEEP_MIN = 1 << 16
"""So few cells are not worth looking through for those that no window needs any more."""


class RowWindowAggregate(Operator):
    """Answers windows that count rows. Its input is a stream of inserts; only `_vs` matters."""

    reach = INF  # ranks count from the first row of all

    def __init__(
        self,
        schema: StreamSchema,
        window: RowWindow,
        partition_by: Sequence[str],
        group_by: Sequence[str],
        aggregates: Sequence[tuple[str, AggregateFunction]],
        aside: Aside | None = None,
    ) -> None:
        if not aggregates:
            raise Misuse("aggregate: names at least one aggregate, as in n=count()")
        self.schema = answer_schema(schema, group_by, aggregates)
        self._input, self._window = schema, window
        self._aside = aside or Aside()
        functions = [function for _, function in aggregates]
        used = {VS, *group_by, *(name for f in functions for name in f.columns)}
        names = [name for name in schema.arrow.names if name in used]
        rows = pa.schema([schema.arrow.field(name) for name in names])
        self._grouping = Grouping(rows, group_by, functions, self._aside)
        self._partitions = Partitions(rows, partition_by, group_by)
        if isinstance(window, SlideByTuple):
            self._columns = [VS, *(name for name in names if name != VS)]
            self._open: NotFinal = Ticks(window, self._grouping, self._partitions)
        else:
            self._columns = [VS, *schema.names]  # rows of one time are ranked by all of them
            empty = schema.empty_batch.select(self._columns)
            self._open = RankedRows(empty, window, self._grouping, self._partitions)
        self._cells = CellChains(self._grouping)
        by_group = isinstance(window, RowLandmark) or not self._partitions.groups_are_partitions
        self._summed = None if by_group else SummedCells.of(self._grouping)  # or they are here
        self._held = AnswersHeld(self.schema)
        self._swept = 0  # cells that were left by the last sweep
        self._ready = BEGIN  # rows before are final
        self._stable = BEGIN  # of the output
        self._nothing = Frame.empty(self.schema)

    @property
    def _stored(self) -> CellChains | SummedCells:
        """Where the cells are."""
        return self._cells if self._summed is None else self._summed

    def limited(self, memory: Memory) -> None:
        """Answers are asked for, too."""
        super().limited(memory)
        self._grouping.memory = memory
        self._held.limited(memory)

    # -- taking rows in -----------------------------------------------------------------------

    def push(self, source: int, frame: Frame, marks: Marks = ()) -> Out:
        """Takes the rows in, then answers the windows that have closed."""
        return joined(self.schema, self.parts(source, frame, marks))

    def parts(self, source: int, frame: Frame, marks: Marks = ()) -> Iterator[Out]:
        """The same; the stable comes with the last part."""
        check_schema(frame, self._input)
        if len(frame):
            self._take_in(frame)
        stable = frame.stable
        if stable is None or stable <= self._stable:
            yield Out(self._nothing)
            return
        ready = self._window.ready(stable)
        if ready > self._ready:
            self._ready = ready
            for final in self._open.take(ready):
                for made in self._answer(final):
                    yield Out(made)
            if isinstance(self._window, SlideByTuple):
                self._sweep(self._window)
        promise = self._window.stable(stable)
        if promise > self._stable:
            self._stable = promise
            yield Out(self._nothing.with_stable(promise))

    def _take_in(self, frame: Frame) -> None:
        if not frame.insert_only:
            raise Misuse("windows count rows that are settled: put Settle first; got an adjust")
        times = frame.vs
        late, beyond = times < self._ready, times > self._window.latest
        if np.count_nonzero(late) or np.count_nonzero(beyond):
            last = f"these windows take rows up to {self._window.latest}: answers begin before inf"
            answered = "late: windows that it belongs to have been answered"
            for bad, reason in ((beyond, last), (late, answered)):
                if np.count_nonzero(bad):
                    self._aside.put("window", take_rows(frame.batch, bad), reason)
            frame = frame.take(~(late | beyond))
            times = frame.vs
        if len(frame):
            self._open.add(times, frame.batch.select(self._columns))

    # -- answering ----------------------------------------------------------------------------

    def _answer(self, final: FinalCells) -> Iterator[Frame]:
        """What follows from cells that are final: ends of what was held, and answers."""
        closings = final.closings
        totals = None
        if self._summed is not None:
            if self._summed.extend(final.groups, final.places, final.partials):
                totals = self._summed.windows(closings)
                final = final._replace(groups=final.groups[:0])
            if totals is None:
                self._to_chains(self._summed)
        if totals is None:
            yield from self._of_chains(final)
        elif len(closings.at):
            yield from self._ended(*self._of_closed_partitions(closings))
            states = of_totals(self._grouping, totals)
            yield from self._answers(closings.partitions, closings.at, closings.until, states)
            if self._summed is not None:
                groups = closings.partitions[last_of_each(closings.partitions)]
                self._summed.drop(groups, self._needed_from(groups, final.below))

    def _to_chains(self, summed: SummedCells) -> None:
        """Has the cells in chains from now on: a sum does not fit."""
        places, groups, partials = summed.all()
        self._cells.extend(groups, places, partials, self._partitions.groups.capacity)
        self._summed = None

    def _of_chains(self, final: FinalCells) -> Iterator[Frame]:
        closings = final.closings
        capacity = self._partitions.groups.capacity
        self._cells.extend(final.groups, final.places, final.partials, capacity)
        if not len(closings.at):
            return
        groups = self._groups_of(closings)
        chained = self._cells.of(groups)
        partitions = self._partitions.of_groups(groups)
        pairs = answer_pairs(closings, partitions, chained.at, chained.places)
        held_by_group = isinstance(self._window, RowLandmark)
        until = closings.until[pairs.windows]
        if held_by_group:
            until = next_of_group(pairs, closings)
            pairs = pairs._replace(low=np.searchsorted(chained.at, pairs.groups))
            new = last_of_each(pairs.groups[::-1])[::-1]
            yield from self._ended(groups[pairs.groups[new]], closings.at[pairs.windows[new]])
        else:
            yield from self._ended(*self._of_closed_partitions(closings))
        at = closings.at[pairs.windows]
        states = of_pairs(self._grouping, self._cells, chained.slots, pairs)
        yield from self._answers(groups[pairs.groups], at, until, states)
        if held_by_group:
            self._add_up(groups, chained, closings, partitions)
        else:
            self._forget(groups, chained, partitions, final.below)

    def _ended(self, groups: Ids, when: Times) -> Iterator[Frame]:
        """Of these groups, what is held ends."""
        there = self._held.has(groups)
        if np.count_nonzero(there):
            yield self._held.ended(groups[there], when[there])

    def _groups_of(self, closings: Closings) -> Ids:
        """The groups that windows which have closed may answer."""
        closed = closings.partitions[last_of_each(closings.partitions)]
        if self._partitions.groups_are_partitions:
            return closed
        groups = self._cells.groups
        return groups[np.isin(self._partitions.of_groups(groups), closed)]

    def _of_closed_partitions(self, closings: Closings) -> tuple[Ids, Times]:
        """Groups whose answer is held and whose partition goes on, and when it does."""
        first = last_of_each(closings.partitions[::-1])[::-1]
        closed, at = closings.partitions[first], closings.at[first]
        if self._partitions.groups_are_partitions:
            return closed, at
        groups = self._held.groups
        partitions = self._partitions.of_groups(groups)
        place = np.minimum(np.searchsorted(closed, partitions), len(closed) - 1)
        goes_on = closed[place] == partitions
        return groups[goes_on], at[place[goes_on]]

    def _answers(
        self,
        groups: Ids,
        at: Times,
        until: Times,
        states_of: StatesOf,
    ) -> Iterator[Frame]:
        """The answers of these groups from these times on, in parts, of states that have them; the
        answers that have no end are held.
        """
        capacity = self._partitions.groups.capacity
        for start in range(0, len(groups), ANSWER_ROWS_MAX):
            some = slice(start, start + ANSWER_ROWS_MAX)
            of, ends, states = groups[some], until[some], states_of(some)
            ids = np.arange(len(of))
            columns = self._partitions.groups.columns(of)
            answers = results(self._grouping, at[some], columns, states, ids, final=True)
            if len(answers.windows) < len(of):
                good = answerable(self._grouping, states, ids)
                ends, of = ends[good], of[good]
            if not len(ends):
                continue
            frame = Frame.made(self.schema, answers.windows, ends, answers.columns)
            last = (ends == INF).nonzero()[0]
            rows = take_rows(frame.payload, last)
            self._held.hold(of[last], answers.windows[last], rows.columns, capacity)
            yield frame

    # -- forgetting ---------------------------------------------------------------------------

    def _add_up(self, groups: Ids, chained: Chained, closings: Closings, partitions: Ids) -> None:
        """Of each group, what windows of landmarks have had becomes one cell, its last."""
        last = last_of_each(closings.partitions)
        closed, high = closings.partitions[last], closings.high[last]
        high = high[np.searchsorted(closed, partitions)][chained.at]
        had = (chained.places < high).nonzero()[0]
        at, slots = chained.at[had], chained.slots[had]
        ends = last_of_each(at).nonzero()[0]
        starts = np.concatenate(([0], ends[:-1] + 1))[: len(ends)]
        several = (ends > starts).nonzero()[0]
        if not len(several):
            return
        runs = starts[several], ends[several] + 1
        self._cells.replace(
            slots[ends[several]], added_up(self._grouping, self._cells, slots, *runs)
        )
        goes = np.ones(len(slots), np.bool_)
        goes[ends] = False
        self._cells.drop(slots[goes])

    def _forget(self, groups: Ids, chained: Chained, partitions: Ids, below: int) -> None:
        """Drops the cells of these groups that no window needs any more."""
        gone = chained.places < self._needed_from(partitions, below)[chained.at]
        self._cells.drop(chained.slots[gone])
        self._release(groups)

    def _needed_from(self, partitions: Ids, below: int) -> Ids:
        """By partition the first place that a window to come needs."""
        window = self._window
        if isinstance(window, RowLandmark):
            raise Bug("every window of a landmark needs all cells")
        if isinstance(window, SlideByTuple):
            return np.full(len(partitions), window.needed_from(below))
        return window.needed_from(self._partitions.counts[partitions])

    def _sweep(self, window: SlideByTuple) -> None:
        """Drops what time has passed by, of groups of which nothing comes any more."""
        cells = self._stored
        if len(cells) < max(SWEEP_MIN, 2 * self._swept):
            return
        before = window.needed_from(self._ready)
        if isinstance(cells, SummedCells):
            cells.drop_before(before)
        else:
            gone = cells.before(before)
            groups = cells.groups_of(gone)
            cells.drop(gone)
            self._release(groups)
        self._swept = len(cells)

    def _release(self, groups: Ids) -> None:
        """Forgets those of some groups of which nothing is held."""
        if self._partitions.groups_are_partitions:
            return
        held = self._cells.has(groups) | self._held.has(groups) | self._open.has(groups)
        self._partitions.release(groups[~held])

    # -- skipping -----------------------------------------------------------------------------

    def fast_forward(self, t: int) -> int:
        """Ranks count every row."""
        del t
        return BEGIN

    # -- as data ------------------------------------------------------------------------------

    def snapshot(self) -> State:
        """Where it stands, partitions, rows and cells, and what is held."""
        places, ids, partials = self._stored.all()
        groups = self._partitions.groups
        return {
            "facts": facts(ready=self._ready, stable=self._stable, swept=self._swept),
            "partitions": self._partitions.snapshot(),
            "held": self._held.events[1],
            **write_cells("cells", places, ids, partials, groups),
            **as_part(self._open.snapshot(), "open"),
        }

    def restore(self, state: State) -> None:
        """Takes all of it back."""
        self._ready, self._stable, self._swept = read_facts(state, "ready", "stable", "swept")
        self._partitions.restore(state, "partitions")
        groups = self._partitions.groups
        states, _ = self._grouping.states()
        places, ids, partials = read_cells("cells", state, states, groups)
        self._partitions.restored(np.unique(ids))
        order = np.lexsort((places, ids))
        taken = [take_rows(partial, order) for partial in partials]
        ids, places = ids[order], places[order]
        if self._summed is None or not self._summed.extend(ids, places, taken):
            self._summed = None
            self._cells.extend(ids, places, taken, groups.capacity)
        self._restore_held(state)
        self._open.restore(part(state, "open"))

    def _restore_held(self, state: State) -> None:
        held = events_of(state, "held", self.schema)
        if not len(held):
            return
        groups = self._partitions.groups
        columns = held.payload.columns
        ids = groups.intern(columns[: len(groups.schema)], len(held))
        self._partitions.restored(ids)
        if len(np.unique(ids)) < len(ids) or (held.ve != INF).any():
            raise DecodeError("snapshot.held", "two answers of a group, or one with an end", "one")
        self._held.hold(ids, held.vs, columns, groups.capacity)

    # -- looking at it ------------------------------------------------------------------------

    @property
    def nbytes(self) -> int:
        """Bytes of state."""
        own = self._partitions.nbytes + self._open.nbytes
        summed = 0 if self._summed is None else self._summed.nbytes
        return own + self._cells.nbytes + summed + self._held.nbytes

    def validate(self) -> None:
        """Raises `Bug` where an invariant is broken."""
        self._partitions.validate()
        self._open.validate()
        self._cells.validate()
        if self._summed is not None:
            self._summed.validate()
        self._held.validate()
        vs = self._held.events[1].column(0).to_numpy()
        if len(vs) and int(vs.max()) > max(self._stable, self._ready):
            raise Bug("an answer is held that begins after all that is final")
