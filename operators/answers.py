"""Answers of windows: which window, which group, which aggregates; as columns.

What the implementations of a windowed aggregate have in common: they take rows in, and give
answers when asked.

An answer that cannot be given (an integer sum beyond int64) goes aside with its group and window.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from gapless.kernels.keys import Ids, Mask
from gapless.operators.aggregates.counts import Count, CountAccumulator
from gapless.operators.aggregates.function import Accumulator, AggregateFunction
from gapless.operators.aside import Aside
from gapless.operators.memory import UNBOUNDED
from gapless.operators.operator import ANSWER_ROWS_MAX
from gapless.operators.state import State
from gapless.protocol.columns import take
from gapless.protocol.frame import Times

ANSWER_BYTES = 9
"""Of one aggregate: a number, and whether it is null."""


class Answers(NamedTuple):
    """Rows in ascending order of their windows."""

    windows: Times
    columns: list[pa.Array]
    """Group columns, then aggregates."""

    @staticmethod
    def joined(parts: Sequence[Answers]) -> Answers:
        """Those of all parts, in their order; there is at least one."""
        if len(parts) == 1:
            return parts[0]
        columns = zip(*(part.columns for part in parts), strict=True)
        windows = np.concatenate([part.windows for part in parts])
        return Answers(windows, [pa.concat_arrays(c) for c in columns])


class AnswerPart(NamedTuple):
    """Some of the answers that a stable makes; those of later parts are of the same windows or of
    later ones.
    """

    answers: Answers
    below: int
    """All answers of windows below this one have been given."""


class AnswerLook(NamedTuple):
    """Provisional answers that may be others than before."""

    windows: Times
    """With the groups, what was looked at; each pair once."""
    groups: list[pa.Array]
    answers: Answers
    """Of those pairs, as far as they have an answer."""


class Grouping:
    """What is computed of which rows, and the state to compute it with.

    Rows are counted whatever is computed: something is there where rows are, and aggregates that
    must tell nulls from nothing share that count.
    """

    def __init__(
        self,
        rows: pa.Schema,
        group_by: Sequence[str],
        functions: Sequence[AggregateFunction],
        aside: Aside,
        beside: Sequence[AggregateFunction] = (),
    ) -> None:
        """`beside`: what an operator keeps for itself; its states come last."""
        self.rows = rows
        self.group_by = tuple(group_by)
        self.aside = aside
        self.memory = UNBOUNDED
        """Asked for answers before they are laid out."""
        self.answers = len(functions)
        """So many of the states are aggregates; a count of rows may follow."""
        self._functions = [*functions]
        counts = [i for i, f in enumerate(functions) if f == Count()]
        if not counts:
            self._functions.append(Count())
        self._count = counts[0] if counts else len(functions)
        self._functions += beside

    def states(self) -> tuple[list[Accumulator], CountAccumulator]:
        """New state, for ids of any kind; and which of it counts the rows."""
        counter = CountAccumulator(None)
        states = [
            counter if i == self._count else f.accumulator(self.rows, counter)
            for i, f in enumerate(self._functions)
        ]
        return states, counter


class Windowed(ABC):
    """An implementation of a windowed aggregate."""

    @abstractmethod
    def add(self, times: Times, rows: pa.RecordBatch, within: tuple[int, int]) -> None:
        """Takes rows in, some; each lies in a window that has not been answered.

        `within`: the earliest and the latest of their times.
        """

    def promised(self, complete: int) -> int:
        """Below which window answers can be given now that the rows of all below `complete` have
        come; that is what is asked for next.
        """
        return complete

    @abstractmethod
    def answer(self, complete: int) -> Iterator[AnswerPart]:
        """Answers all windows below `complete`, each once, and forgets what only they needed.

        In parts of about `ANSWER_ROWS_MAX` rows at the most, to be read to their end; no part where
        no row has come for any of them. The last part is below `complete`.
        """

    @abstractmethod
    def look(self, limit: int) -> Iterator[AnswerLook]:
        """The provisional answers of windows below `limit` that have not been answered: of those
        looked at before as far as they have new rows, of the others all. In parts, by window; for
        one that was made to be looked at.
        """

    @abstractmethod
    def of_groups(self, limit: int, chosen: Callable[[pa.RecordBatch], Mask]) -> Iterator[Answers]:
        """What is known now of the windows below `limit` that have not been answered, and of the
        groups that are chosen. In parts, by window.
        """

    @abstractmethod
    def has_open(self, limit: int) -> bool:
        """Whether a window below `limit` has rows and has not been answered."""

    @abstractmethod
    def skip_to(self, window: int) -> None:
        """Windows below are not wanted any more."""

    @abstractmethod
    def snapshot(self) -> State:
        """All of its state."""

    @abstractmethod
    def restore(self, state: State) -> None:
        """Takes a snapshot back, first of all."""

    @property
    @abstractmethod
    def nbytes(self) -> int:
        """Bytes of state."""

    @abstractmethod
    def validate(self) -> None:
        """Raises `Bug` where an invariant is broken."""


def results(
    grouping: Grouping,
    windows: Times,
    groups: Sequence[pa.Array],
    states: Sequence[Accumulator],
    ids: Ids,
    final: bool,
) -> Answers:
    """The answers of ids of `states`; those that cannot be given go aside if they are final."""
    states = states[: grouping.answers]
    if grouping.memory.limit is not None:
        width = sum(column.nbytes for column in groups) + ANSWER_BYTES * len(ids) * len(states)
        grouping.memory.ask(width, "answers of windows")
    unanswerable = [u for state in states if (u := state.unanswerable(ids)) is not None]
    if not unanswerable:
        return Answers(windows, [*groups, *(state.results(ids) for state in states)])
    good = answerable(grouping, states, ids)
    for found in unanswerable:
        for mask, reason in found.by_reason() if final else ():
            rows = pa.RecordBatch.from_arrays(
                [pa.array(windows[mask]), *(take(g, pa.array(mask)) for g in groups)],
                names=["_window", *grouping.group_by],
            )
            grouping.aside.put("aggregate", rows, reason)
    kept = [take(g, pa.array(good)) for g in groups]
    return Answers(windows[good], [*kept, *(state.results(ids[good]) for state in states)])


def results_of_windows(
    grouping: Grouping,
    windows: range,
    groups: Callable[[Ids], list[pa.Array]],
    states: Sequence[Accumulator],
    ids: Ids,
) -> Iterator[tuple[Answers, int]]:
    """The final answers of ids of `states`, as those of each of these windows, in parts; and below
    which window all answers are then given. `groups`: the group columns of ids.
    """

    def of_one(window: int, some: Ids) -> Answers:
        alike = np.full(len(some), window, np.int64)
        return results(grouping, alike, groups(some), states, some, final=True)

    if len(ids) > ANSWER_ROWS_MAX:
        for window in windows:
            for at in range(0, len(ids), ANSWER_ROWS_MAX):
                last = at + ANSWER_ROWS_MAX >= len(ids)
                yield of_one(window, ids[at : at + ANSWER_ROWS_MAX]), window + last
        return
    several = max(1, ANSWER_ROWS_MAX // max(1, len(ids)))
    for start in range(windows.start, windows.stop, several):
        some = range(start, min(start + several, windows.stop))
        one = of_one(start, ids)
        if len(some) > 1 and len(one.windows) < len(ids):  # each answer that there is not is aside
            yield Answers.joined([one, *(of_one(w, ids) for w in some[1:])]), some.stop
        else:
            yield _repeated(one, some, len(ids)), some.stop


def _repeated(one: Answers, windows: range, rows: int) -> Answers:
    """The same answers as those of several windows."""
    if len(windows) == 1:
        return one
    again = pa.array(np.tile(np.arange(rows), len(windows)))
    numbers = np.arange(windows.start, windows.stop).repeat(rows)
    return Answers(numbers, [take(column, again) for column in one.columns])


def answerable(grouping: Grouping, states: Sequence[Accumulator], ids: Ids) -> Mask:
    """Which ids have an answer."""
    good = np.ones(len(ids), np.bool_)
    for state in states[: grouping.answers]:
        found = state.unanswerable(ids)
        if found is not None:
            good &= ~found.mask
    return good
