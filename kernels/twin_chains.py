"""Chains in plain Python: a dict of rows for each id. The oracle of the native ones."""

from __future__ import annotations

import sys
from threading import Lock
from typing import Any

import numpy as np

from gapless.kernels.keys import Ids, as_int64, as_pairs

ID_MAX = 2**31 - 2
"""The largest id that a KeyTable gives."""


class Chains:
    """Rows linked by id; see `gapless.kernels`."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._chains: dict[int, dict[int, None]] = {}  # a dict keeps the order of its keys
        self._id_of: dict[int, int] = {}
        self._peak = 0

    def add(self, ids: Any, rows: Any) -> None:
        """Stores each row under its id. `ValueError` where a row is stored already."""
        keys, stored = (a.tolist() for a in as_pairs(ids, rows))
        with self._lock:
            seen: set[int] = set()
            for key_id, row in zip(keys, stored, strict=True):
                if not 0 <= key_id <= ID_MAX:
                    raise ValueError(f"add: id {key_id} is not one of a KeyTable")
                if row in self._id_of or row in seen:
                    raise ValueError(f"add: row {row} is stored already")
                seen.add(row)
            for key_id, row in zip(keys, stored, strict=True):
                self._chains.setdefault(key_id, {})[row] = None
                self._id_of[row] = key_id
            self._peak = max(self._peak, len(self._id_of))

    def probe(self, ids: Any) -> tuple[Ids, Ids]:
        """All pairs (position in `ids`, row stored under that id).

        Pairs come in probe order, and for one id in the order in which its rows were added. An id
        without rows, or a negative one (what `find` gives for an absent key), has no pairs.
        """
        keys = as_int64("ids", ids).tolist()
        probe: list[int] = []
        stored: list[int] = []
        with self._lock:
            for i, key_id in enumerate(keys):
                chain = self._chains.get(key_id)
                if chain is not None:
                    probe.extend([i] * len(chain))
                    stored.extend(chain)
        return np.array(probe, np.int64), np.array(stored, np.int64)

    def remove(self, rows: Any) -> None:
        """Forgets rows. `ValueError` unless all are stored, and named once."""
        gone = as_int64("rows", rows).tolist()
        with self._lock:
            seen: set[int] = set()
            for row in gone:
                if row not in self._id_of:
                    raise ValueError(f"remove: row {row} is not stored")
                if row in seen:
                    raise ValueError(f"remove: row {row} comes twice")
                seen.add(row)
            for row in gone:
                key_id = self._id_of.pop(row)
                chain = self._chains[key_id]
                del chain[row]
                if not chain:
                    del self._chains[key_id]
            if len(self._id_of) < self._peak // 4:  # a dict never shrinks by itself
                self._chains = {key_id: dict(chain) for key_id, chain in self._chains.items()}
                self._id_of = dict(self._id_of)
                self._peak = len(self._id_of)

    def __len__(self) -> int:
        return len(self._id_of)

    @property
    def nbytes(self) -> int:
        """Bytes held, except for the integers."""
        with self._lock:
            chains = sum(map(sys.getsizeof, self._chains.values()))
            return sys.getsizeof(self._chains) + sys.getsizeof(self._id_of) + chains

    def validate(self) -> None:
        """Checks every invariant; `RuntimeError` where one is broken."""
        with self._lock:
            held = {row: key_id for key_id, chain in self._chains.items() for row in chain}
            if held != self._id_of:
                raise RuntimeError("twin chains: rows and ids disagree")
            if not all(self._chains.values()):
                raise RuntimeError("twin chains: an empty chain was kept")
