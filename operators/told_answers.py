"""The provisional answers of windows that have been put out, by window and group.

    told       (3, A): 2    (3, B): 1
    now        (3, A): 4                        of A alone there is news
    revision   removal of (A, 2), insert of (A, 4)

The value of an answer is payload, so a revision is a removal and an insert, never a moved end. What
has not changed is not repeated, and of what has no news nothing is compared.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from gapless.kernels import KeyTable
from gapless.kernels.columns import Column
from gapless.kernels.keys import Ids
from gapless.operators.answers import Answers
from gapless.operators.payloads import Payloads
from gapless.operators.state import State, table
from gapless.protocol.columns import compact_batch
from gapless.protocol.elements import INF
from gapless.protocol.errors import Bug, DecodeError
from gapless.protocol.frame import Times

_WINDOW = "_window"
_NOT_TOLD = -1


class Revision(NamedTuple):
    """What to remove, and what to insert."""

    gone: Answers
    new: Answers


class ToldAnswers:
    """At most one answer of each window and group."""

    def __init__(self, payload: pa.Schema, groups: int) -> None:
        """The first `groups` columns of `payload` are those of the group."""
        self._payload = payload
        self._groups = groups
        window = pa.field(_WINDOW, pa.int64(), nullable=False)
        self._key_schema = pa.schema([window, *list(payload)[:groups]])
        self._schema = pa.schema([window, *payload])
        self._keys = KeyTable(self._key_schema)
        self._answers = Payloads(payload)
        self._windows = Column(INF)  # by key, as the next one; INF where it is free
        self._answer = Column(_NOT_TOLD)

    def revise(self, windows: Times, groups: Sequence[pa.Array], now: Answers) -> Revision:
        """Of these windows and groups, each once, the answers are `now` such, and no others."""
        keys = self._intern(windows, groups)
        answers = np.full(len(keys), _NOT_TOLD, np.int64)
        place = np.empty(self._keys.capacity, np.int64)
        place[keys] = np.arange(len(keys))
        answers[place[self._find(now)]] = self._answers.intern(self._batch(now.columns))
        revision = self._change(windows, keys, answers)
        self._free(keys[answers == _NOT_TOLD])
        return revision

    def settle(self, below: int, final: Answers) -> Revision:
        """The answers of windows below `below` are final: those of each window whole, or none."""
        keys = self._intern(final.windows, final.columns[: self._groups])
        told = ((self._windows.values < below) & (self._answer.values != _NOT_TOLD)).nonzero()[0]
        left = np.setdiff1d(told, keys)
        answers = np.full(len(keys) + len(left), _NOT_TOLD, np.int64)
        answers[: len(keys)] = self._answers.intern(self._batch(final.columns))
        all_keys = np.concatenate((keys, left))
        revision = self._change(self._windows.values[all_keys], all_keys, answers)
        self._forget(all_keys)
        return revision

    def _change(self, windows: Times, keys: Ids, now: Ids) -> Revision:
        """Tells other answers of keys; -1 stands for none."""
        before = self._answer.values[keys]
        there = now != _NOT_TOLD
        self._answers.use(now[there])
        changed = before != now
        gone = (changed & (before != _NOT_TOLD)).nonzero()[0]
        new = (changed & there).nonzero()[0]
        revision = Revision(
            Answers(windows[gone], self._answers.rows(before[gone]).columns),
            Answers(windows[new], self._answers.rows(now[new]).columns),
        )
        self._answer.values[keys] = now
        self._answers.drop(before[before != _NOT_TOLD])
        return revision

    def forget_below(self, window: int) -> None:
        """Drops what was told about the windows below."""
        self._forget((self._windows.values < window).nonzero()[0])

    def _forget(self, keys: Ids) -> None:
        answers = self._answer.values[keys]
        self._answers.drop(answers[answers != _NOT_TOLD])
        self._answer.values[keys] = _NOT_TOLD
        self._free(keys)

    def _free(self, keys: Ids) -> None:
        if len(keys):
            self._keys.release(keys)
            self._windows.values[keys] = INF
            self._windows.fit(self._keys.capacity)
            self._answer.fit(self._keys.capacity)

    # -- keys and rows ------------------------------------------------------------------------

    def _key_batch(self, windows: Times, groups: Sequence[pa.Array]) -> pa.RecordBatch:
        return pa.RecordBatch.from_arrays([pa.array(windows), *groups], schema=self._key_schema)

    def _intern(self, windows: Times, groups: Sequence[pa.Array]) -> Ids:
        keys, _ = self._keys.intern(self._key_batch(windows, groups))
        self._windows.fit(self._keys.capacity)[keys] = windows
        self._answer.fit(self._keys.capacity)
        return keys

    def _find(self, answers: Answers) -> Ids:
        return self._keys.find(self._key_batch(answers.windows, answers.columns[: self._groups]))

    def _batch(self, columns: Sequence[pa.Array]) -> pa.RecordBatch:
        return pa.RecordBatch.from_arrays(list(columns), schema=self._payload)

    # -- as data ------------------------------------------------------------------------------

    def snapshot(self) -> pa.RecordBatch:
        """Everything told, as rows, by window."""
        keys = (self._answer.values != _NOT_TOLD).nonzero()[0]
        keys = keys[np.argsort(self._windows.values[keys], kind="stable")]
        rows = self._answers.rows(self._answer.values[keys])
        windows = pa.array(self._windows.values[keys])
        told = pa.RecordBatch.from_arrays([windows, *rows.columns], schema=self._schema)
        return compact_batch(told)

    def restore(self, state: State, name: str) -> None:
        """Takes it back."""
        rows = table(state, name, self._schema)
        windows, columns = rows.column(0).to_numpy(), rows.columns[1:]
        keys = self._intern(windows, columns[: self._groups])
        if len(self._keys) < len(keys):
            raise DecodeError(f"snapshot.{name}", "a window and group twice", "each once")
        answers = self._answers.intern(self._batch(columns))
        self._answers.use(answers)
        self._answer.values[keys] = answers

    @property
    def nbytes(self) -> int:
        """Bytes of what is held."""
        columns = self._windows.nbytes + self._answer.nbytes
        return int(self._keys.nbytes) + self._answers.nbytes + columns

    def validate(self) -> None:
        """Raises `Bug` where an invariant is broken."""
        self._keys.validate()
        told = self._answer.values[self._answer.values != _NOT_TOLD]
        self._answers.validate(told)
        live = int(np.count_nonzero(self._windows.values < INF))
        if not len(told) == live == len(self._keys):
            raise Bug(f"{len(told)} answers told, {live} windows, {len(self._keys)} keys")
