"""The kernel: rows -> dense integer ids, and rows linked by id.

    table = KeyTable(schema)
    ids, first_seen = table.intern(batch)     # same row, same id; new rows get the lowest free one
    table.intern_since(batch, times, since)   # rows before that time get no new id
    table.find(batch)                         # -1 where absent
    table.rows(ids)                           # the columns back
    table.release(ids)                        # forgotten; the ids will be used again

    chains = Chains()
    chains.add(ids, rows)                     # rows: any int64 numbers of the caller's, each once
    probe_row, stored_row = chains.probe(ids) # all pairs
    chains.remove(rows)

Everything else (aggregates, joins, distinct) is numpy over those ids: an array of length
`table.capacity` (a `columns.Column`) has a place for each live one. For what LMerge does with every
element numpy took too many passes, so that is in the kernel, too (`ends.py`).

Equality is exact, null is a value, NaN equals NaN and -0.0 equals 0.0; a null struct differs from a
struct of nulls; two dictionaries of the same values are the same. Both give memory back after a
peak. What errors mean stands in `keys.py`.

There are two of each: C++ (`native.py`), and plain Python (`twin_*.py`) with the same answers, down
to which id a row gets. The twin is the oracle in tests, and it serves, with one warning, where no
compiler was available when the package was installed. `KERNEL` says which one is in use.
The environment variable GAPLESS_KERNEL=native|twin insists on one.
"""

from __future__ import annotations

import os
from importlib.util import find_spec
from typing import TYPE_CHECKING, Literal

__all__ = ["KERNEL", "Chains", "KeyTable"]


def _choose() -> Literal["native", "twin"]:
    wanted = os.environ.get("GAPLESS_KERNEL", "")
    if wanted not in ("", "native", "twin"):
        raise ImportError(f"GAPLESS_KERNEL is {wanted!r}: use native or twin, or leave it unset")
    if wanted == "twin":
        return "twin"
    if find_spec("gapless.kernels._native") is not None:
        return "native"
    remedy = "install a C++ compiler (g++ or clang++) and then install gapless again"
    if wanted == "native":
        raise ImportError(f"GAPLESS_KERNEL=native, but there is no native kernel here: {remedy}")
    import warnings

    warnings.warn(
        f"gapless runs on the Python twin of its kernel, which is many times slower: {remedy}",
        RuntimeWarning,
        stacklevel=3,
    )
    return "twin"


KERNEL: Literal["native", "twin"] = _choose()
"""Which kernel is in use."""

if TYPE_CHECKING or KERNEL == "native":
    from gapless.kernels.native import Chains, KeyTable
else:
    from gapless.kernels.twin_chains import Chains
    from gapless.kernels.twin_key_table import KeyTable
