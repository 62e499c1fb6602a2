"""When events end, by whom: a table with a column for each key's id and a row for each teller.

             id   0    1    2
    row 0  starts  6    7   INF      an end equal to the start says "no such event";
    row 1  output 20   14   INF      a free id holds INF everywhere
    row 2  input  30    7   INF
    row 3  input  25   14   INF

This is the paper's index in2t, and what LMerge's case R3 does for each element happens here, in the
kernel: `take` is its Insert and Adjust, `sweep` finds what its Stable has to put right. One call a
frame, one a stable: in numpy the same took a sort where a key came twice, and fifteen passes over
the rows and the table else. `values` is the table itself, for whatever is done less often; who
writes there says so (`changed`).

A stable settles what has ended, mostly what was said lately, whatever else lives. So of a large
table the smallest end on each page of ids is known, by row, and a stable looks at no page on which
all that it could settle ends later.

Ids come from a `KeyTable`. Errors are those of `keys.py`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from gapless.kernels import KERNEL
from gapless.kernels.columns import ROOM_MIN, SPARE_SHARE
from gapless.kernels.keys import Ids, Mask

if TYPE_CHECKING or KERNEL == "native":
    from gapless.kernels._native import clear_ends, sweep_ends, take_ends
else:
    from gapless.kernels.twin_ends import clear_ends, sweep_ends, take_ends

STARTS, OUTPUT, INPUTS = 0, 1, 2
"""Rows; inputs have all from `INPUTS` on."""
BEGIN, INF = np.iinfo(np.int64).min, np.iinfo(np.int64).max
PAGED_IDS_MIN = 1 << 16
"""A smaller table is swept whole: it lies in the processor's cache."""
PAGE_BITS = 8
"""Of the ids of a page: an update to any key has one page looked at, and as many as there are pages
are looked at to find those."""
SPARE_ROWS = 2
"""Beyond those that are in use: who joins a large table costs the copy of a row, not of the table.
So many replicas come back at once, mostly, before those that they replace are gone."""
PAGES_MAX = 512
"""Copied at once, to be swept and to learn their lowest ends: some megabytes."""
DUE_SHARE = 4
"""Where more than one page in so many may be settled, as after a row has opened, the table is swept
whole: an id of a page that is copied takes twice as long."""
LEARNED_MAX = 8 * PAGES_MAX
"""Pages that are learned then, with each stable: some milliseconds beside the sweep."""


class Taken(NamedTuple):
    """What came of the rows of a frame."""

    chosen: Ids
    """Positions of those that go out."""
    was: Ids
    """The end that the output had for each of them; the smallest int64 where it had no event."""
    settled: Ids
    """Positions of those whose key has no id."""


class Misfit(NamedTuple):
    """The first row of a frame that does not fit what its input has said; nothing was changed."""

    row: int
    held: int
    """The end that the input has for the event."""


class Swept(NamedTuple):
    """What a stable finds. Good until the next sweep."""

    wrong: Ids
    """Ids for which the input's end and the output's differ so that it would freeze wrong."""
    gone: Ids
    """Ids that are settled, once those of `wrong` that can be put right have been."""
    contested: bool
    """Another input has told one of `gone` otherwise."""


class Ends:
    """Starts, the output's ends and those of each input, for every id of a `KeyTable`."""

    __slots__ = ("_dirty", "_found", "_lowest", "_room", "values")

    values: Ids
    """Rows by columns."""

    def __init__(self) -> None:
        self._room = np.full((INPUTS + SPARE_ROWS, ROOM_MIN), INF, np.int64)
        self.values = self._room[:INPUTS]
        self._found = np.empty((2, ROOM_MIN), np.int64)
        pages = (ROOM_MIN >> PAGE_BITS) + 1
        self._lowest = np.full((INPUTS, pages), BEGIN, np.int64)  # by page; or less than it is
        self._dirty = np.ones(pages, np.bool_)  # pages of which somebody has written since

    def changed(self, ids: Ids) -> None:
        """Somebody has written to columns of `values`."""
        self._dirty[ids >> PAGE_BITS] = True

    def add_row(self) -> int:
        """A row in which no event is there; its number, the largest."""
        count = len(self.values)
        if count == len(self._room):
            self._room = np.concatenate((self._room, np.empty_like(self._room[:SPARE_ROWS])))
        self._room[count] = self._room[STARTS]
        self.values = self._room[: count + 1]
        self._lowest = np.vstack((self._lowest, np.full_like(self._lowest[STARTS], BEGIN)))
        return count

    def drop_row(self, row: int) -> None:
        """Frees a row; the last one takes its place."""
        last = len(self.values) - 1
        if row < last:
            self.values[row] = self.values[last]
            self._lowest[row] = self._lowest[last]
        self.values, self._lowest = self._room[:last], self._lowest[:last]

    def fit(self, capacity: int) -> None:
        """Makes room for ids below `capacity`, and gives back what is far beyond: see `Column`."""
        room = self.values.shape[1]
        if capacity <= room <= max(ROOM_MIN, SPARE_SHARE * capacity):
            return
        wanted = max(ROOM_MIN, capacity + capacity // SPARE_SHARE)
        if wanted >= PAGED_IDS_MIN:
            wanted = -(-wanted >> PAGE_BITS) << PAGE_BITS  # whole pages
        count, kept = len(self.values), min(room, wanted)
        self._room = np.empty((count + SPARE_ROWS, wanted), np.int64)
        resized = self._room[:count]
        resized[:, :kept] = self.values[:, :kept]
        resized[:, kept:] = INF
        self._room[count:] = INF  # now, and not at a join: it is the first touch that costs
        self.values = resized
        self._found = np.empty((2, wanted), np.int64)
        known, pages = kept >> PAGE_BITS, (wanted >> PAGE_BITS) + 1
        lowest = np.full((len(resized), pages), BEGIN, np.int64)
        lowest[:, :known] = self._lowest[:, :known]
        dirty = np.ones(pages, np.bool_)
        dirty[:known] = self._dirty[:known]
        self._lowest, self._dirty = lowest, dirty

    def take(
        self,
        mine: int,
        ids: Ids,
        first: Mask,
        vs: Ids,
        ve: Ids,
        was: Ids,
        stable: int,
        quorum: int,
        adjusts: bool,
    ) -> Taken | Misfit:
        """Takes in what the input of row `mine` says, in order, and gives the output what may go.

        Id -1 is of a settled key, and passed over; where `first` is true a column begins.
        An insert goes out if the output lacks it, `quorum` inputs or more hold it (0: none does
        go) and it starts at `stable` or later; with `adjusts`, any row whose event the output has
        with another end, while both ends are at `stable` or later.
        """
        self.changed(ids)
        found = np.empty((3, len(ids)), np.int64)
        chosen, settled, bad, held = take_ends(
            self.values, mine, ids, first, vs, ve, was, stable, quorum, adjusts, found
        )
        if bad < len(ids):
            return Misfit(bad, held)
        return Taken(found[0, :chosen], found[1, :chosen], found[2, :settled])

    def sweep(self, count: int, mine: int, t: int, stable: int, follow: bool) -> Swept:
        """Looks, over the ids below `count`, at what stable t of the input of row `mine` freezes.

        `stable` is the old one: ends below it cannot be put right any more. With `follow` ids are
        wrong, too, that both have with different ends, at `stable` or later, whatever t is.
        """
        if count >= PAGED_IDS_MIN and not follow and t != INF:
            pages = self._due(count, mine, t)
            if DUE_SHARE * len(pages) <= max(DUE_SHARE * PAGES_MAX, count >> PAGE_BITS):
                return self._sweep_pages(pages, mine, t, stable)
            for some in _chunks(pages[:LEARNED_MAX]):
                self._look_at(some)
        found = self._found
        wrong, gone, contested = sweep_ends(self.values, count, mine, t, stable, follow, found)
        return Swept(found[0, :wrong], found[1, :gone], contested)

    def _due(self, count: int, mine: int, t: int) -> Ids:
        """The pages on which an end of the input, or of the output, may lie below t."""
        pages = -(-count >> PAGE_BITS)
        lowest = self._lowest[:, :pages]
        due = self._dirty[:pages] | (lowest[OUTPUT] < t) | (lowest[mine] < t)
        some: Ids = due.nonzero()[0]
        return some

    def _sweep_pages(self, pages: Ids, mine: int, t: int, stable: int) -> Swept:
        """The same as `sweep`, of these pages."""
        swept = []
        for some in _chunks(pages):
            ids, part = self._look_at(some)
            found = self._found
            wrong, gone, contested = sweep_ends(part, len(ids), mine, t, stable, False, found)
            swept.append(Swept(ids[found[0, :wrong]], ids[found[1, :gone]], contested))
        if len(swept) == 1:
            return swept[0]
        return Swept(
            np.concatenate([each.wrong for each in swept]),
            np.concatenate([each.gone for each in swept]),
            any(each.contested for each in swept),
        )

    def _look_at(self, pages: Ids) -> tuple[Ids, Ids]:
        """Learns the lowest ends of some pages; their ids and columns."""
        size, rows = 1 << PAGE_BITS, len(self.values)
        part = self.values.reshape(rows, -1, size)[:, pages]
        self._lowest[:, pages] = part.min(axis=2)
        self._dirty[pages] = False
        ids = (pages[:, None] * size + np.arange(size)).ravel()
        return ids, part.reshape(rows, -1)

    def clear(self, ids: Ids) -> None:
        """Frees columns."""
        clear_ends(self.values, ids)

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return self._room.nbytes + self._found.nbytes + self._lowest.nbytes + self._dirty.nbytes


def _chunks(pages: Ids) -> list[Ids]:
    """As many as may be copied at once; one chunk at least."""
    return [pages[at : at + PAGES_MAX] for at in range(0, max(1, len(pages)), PAGES_MAX)]
