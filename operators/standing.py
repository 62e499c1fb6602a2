"""What is held of each group: all that its rows add up to, and since when that answer stands.

a complete pane enters  ->  its groups' states grow; their answers are held from its end on
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from gapless.kernels.columns import Column
from gapless.kernels.keys import Ids
from gapless.operators.answers import Answers, Grouping, results
from gapless.operators.groups import Groups
from gapless.operators.two_stacks import Pane
from gapless.operators.windows import Landmark
from gapless.protocol.elements import BEGIN
from gapless.protocol.errors import Bug
from gapless.protocol.frame import Times


class Standing:
    """By group, the state of all its rows so far, and since when its answer is held."""

    def __init__(self, grouping: Grouping, groups: Groups, window: Landmark) -> None:
        self._grouping, self._groups, self._window = grouping, groups, window
        self._states, _ = grouping.states()
        self._since = Column(BEGIN)
        self._fitted = -1

    def _fit(self) -> Times:
        """Makes room for every group; since when each is held, BEGIN where it has no rows."""
        capacity = self._groups.capacity
        if capacity != self._fitted:
            self._fitted = capacity
            for state in self._states:
                state.fit(capacity)
        return self._since.fit(capacity)

    @property
    def held(self) -> Ids:
        """The groups that have rows, in the order in which their answers began."""
        since = self._since.values
        ids = (since > BEGIN).nonzero()[0]
        ordered: Ids = ids[np.argsort(since[ids], kind="stable")]
        return ordered

    def since(self, ids: Ids) -> Times:
        """From when the answers of groups are held."""
        return self._fit()[ids]

    def answers(self, ids: Ids) -> Answers:
        """What is held of groups, each with its start; nothing of those that have no rows, or of
        which no answer can be given.
        """
        since = self._fit()
        ids = ids[since[ids] > BEGIN]
        return results(
            self._grouping, since[ids], self._groups.columns(ids), self._states, ids, final=False
        )

    def enter(self, pane: Pane) -> None:
        """Rows of these groups have come."""
        since, ids = self._fit(), pane.groups
        for state, partial in zip(self._states, pane.partials, strict=True):
            state.merge(ids, partial)
        since[ids] = self._window.end(pane.number)

    def entered(self, pane: Pane) -> Answers:
        """The final answers of a pane that has entered, by its number; what has none goes aside."""
        ids = pane.groups
        windows = np.full(len(ids), pane.number, np.int64)
        columns = self._groups.columns(ids)
        return results(self._grouping, windows, columns, self._states, ids, final=True)

    def take(self, ids: Ids) -> list[pa.RecordBatch]:
        """The state of groups, a batch each."""
        self._fit()
        return [state.take(ids) for state in self._states]

    def put(self, ids: Ids, since: Times, partials: Sequence[pa.RecordBatch]) -> None:
        """Takes up the state of groups that have none here."""
        self._fit()[ids] = since
        for state, partial in zip(self._states, partials, strict=True):
            state.merge(ids, partial)

    def copy_of(self, ids: Ids) -> Standing:
        """Another that has what these groups have, and may go its own way."""
        since = self._fit()
        ids = ids[since[ids] > BEGIN]
        copy = Standing(self._grouping, self._groups, self._window)
        copy.put(ids, since[ids], self.take(ids))
        return copy

    @property
    def nbytes(self) -> int:
        """Bytes of state."""
        return sum(state.nbytes for state in self._states) + self._since.nbytes

    def validate(self) -> None:
        """Raises `Bug` where an invariant is broken."""
        for state in self._states:
            state.validate()
        since = self._since.values[self._since.values > BEGIN]
        if np.count_nonzero(self._window.ends(self._window.first(since - 1)) != since):
            raise Bug("an answer is held from between two slides on")
