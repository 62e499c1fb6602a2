"""Sums over ranges of places, by id: what windows answer whose aggregates add up.

    sums = RunningSums(1)                                 columns of values
    sums.add([3, 3, 3], [2, 5, 9], [[4, 1, 6]])           cells, by id and then place
    sums.sums([3, 3], [3, 0], [10, 9])                    [[7, 5]]: of [3, 10) and [0, 9)
    sums.drop([3], [5]), sums.drop_before(5)              cells before a place are forgotten

A range costs a look at its two ends, however many cells it covers and however many ranges overlap.
Sums are exact: where one leaves int64, on the way into a cell or as an answer, `add` says False and
changes nothing, and `sums` gives None. Cells of an id come in the order of their places; one at the
last place of its id joins the cell there.

Errors are those of `keys.py`. There is a native one and a twin, as of everything here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gapless.kernels import KERNEL

if TYPE_CHECKING or KERNEL == "native":
    from gapless.kernels.native_running_sums import RunningSums
else:
    from gapless.kernels.twin_running_sums import RunningSums

__all__ = ["RunningSums"]
