"""What an aggregate function says of itself, and what keeps its state.

    function = Sum("len")                       data: it prints, compares, travels as a document
    sums = function.accumulator(rows.schema)    state, by id

    sums.fit(2)                                 ids 0 and 1 may be used: a pane and group each, say
    sums.add(ids=[0, 1, 0], rows, times)        len = 4, 9, 3
    sums.results([0, 1])                        7, 9

An accumulator does not know what an id stands for: a pane and group, a window and group, a segment
of time. Its holder maps rows to ids (a `KeyTable`), and moves state from id to id:

    partial = sums.take([0, 1])                 sub-aggregates L(X), as a record batch
    sums.merge([2, 2 + 1], partial)             the super-aggregate S takes them in
    sums.unmerge([2, 2 + 1], partial)           and out again, where the function is differential

The words are those of window-queries, 6.2.2. F is *bounded* if a sub-aggregate has a size that
no number of rows makes larger, else *holistic*. F is *differential* if a sub-aggregate can be
subtracted: what is left is as if its rows had never been there, to the last bit. A window then
slides by adding the panes that enter and subtracting those that leave.

No order shows: rows in any order, in any cut into calls, through any tree of takes and merges, give
the same results; where that cannot be (sums of floats), `may_diverge` says why.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from gapless.kernels.keys import Ids, Mask
from gapless.protocol.documents import Document
from gapless.protocol.errors import Misuse, SchemaError
from gapless.protocol.frame import Times

UserFunctions = Mapping[str, Callable[..., Any]]
"""Functions of users by "module:qualname", for reading documents that name them."""


class Unanswerable(NamedTuple):
    """Ids that have no answer."""

    mask: Mask
    """True where there is none; the result holds null there."""
    reason: str
    """Why; of the first of them, where they differ."""
    others: Mapping[int, str] = MappingProxyType({})
    """By position, the reasons that differ from that."""

    def by_reason(self) -> Iterator[tuple[Mask, str]]:
        """Which there are of each reason: what is said of one must not depend on whom it was asked
        with.
        """
        first = self.mask.copy()
        first[[*self.others]] = False
        yield first, self.reason
        for reason in dict.fromkeys(self.others.values()):
            mask = np.zeros(len(self.mask), np.bool_)
            mask[[at for at, why in self.others.items() if why == reason]] = True
            yield mask, reason


class AggregateFunction(ABC):
    """A function of a set of rows. Immutable, equal by content.

    What it declares holds for the column types that suit it best: an integer sum is differential
    and never diverges, one of floats neither. The accumulator knows the types: ask that one.
    """

    @property
    @abstractmethod
    def name(self) -> str:
        """What it is called: count, sum, ..."""

    @property
    @abstractmethod
    def columns(self) -> tuple[str, ...]:
        """The columns that it reads."""

    @property
    @abstractmethod
    def bounded(self) -> bool:
        """Whether a sub-aggregate's size has a constant bound; holistic if not."""

    @property
    @abstractmethod
    def differential(self) -> bool:
        """Whether sub-aggregates can be subtracted, for some column types at least."""

    @property
    @abstractmethod
    def sub(self) -> str:
        """What is kept of the rows of one pane, in words: L."""

    @property
    @abstractmethod
    def super_(self) -> str:
        """What makes the answer of those, in words: S."""

    @property
    def may_diverge(self) -> str | None:
        """Why replicas might differ in the last bits, if for some column types they might."""
        return None

    @property
    def unfiltered(self) -> AggregateFunction:
        """The function without a `where=`: itself, if it has none."""
        return self

    @abstractmethod
    def result(self, schema: pa.Schema) -> pa.DataType:
        """The type of its answers over rows of `schema`.

        Raises `SchemaError` where a column is missing or of a type that it cannot take.
        """

    @abstractmethod
    def accumulator(self, schema: pa.Schema, rows: Accumulator | None = None) -> Accumulator:
        """Empty state for rows of `schema`; raises as `result` does.

        `rows` is the accumulator of a `count()` that gets the same calls with the same ids, before
        results are asked for. One that must tell ids with nulls alone from those with values then
        has no need to count rows by itself: eight bytes an id and a pass over the ids less.
        Its sub-aggregates are then short of that count, and of use only with `rows` given again.
        """

    @abstractmethod
    def to_document(self) -> Document:
        """The function as plain data; one of a user's is named, "module:qualname"."""

    @staticmethod
    def from_document(
        document: Document, functions: UserFunctions | None = None
    ) -> AggregateFunction:
        """The inverse of `to_document`, for documents from anybody: raises `DecodeError`.

        A function of a user's is taken from `functions`; one that is not there is an error.
        """
        from gapless.operators.aggregates.documents import decode

        return decode(document, functions or {})


class Accumulator(ABC):
    """The state of one aggregate function, by id.

    Ids are dense and recycled, as a `KeyTable` gives them. An id that is not in use holds no rows:
    a caller that frees one clears it first. Arrays of ids are int64, and contiguous.
    """

    differential: bool
    """Whether `unmerge` can be called, for these column types."""
    may_diverge: str | None = None
    """Why replicas might differ in the last bits, for these column types; None: they never do."""
    repeats: bool = False
    """Whether the ids of one `merge` may repeat, so that a sub-aggregate may go to many at once."""
    uses_rows: bool = False
    """Whether it asks the accumulator of `rows` that it was given."""
    added: tuple[bool, ...] | None = None
    """Whether sub-aggregates merge by adding up int64s alone, and which of their columns those are:
    null is 0, and a column that is not among them is null as long as that holds.
    """
    partial_schema: pa.Schema
    """Of every batch that `take` gives, so that it may lie in a snapshot."""

    @abstractmethod
    def fit(self, capacity: int) -> None:
        """Makes room for ids below `capacity`, before they are used.

        Gives room far beyond it back: ids from `capacity` on hold no rows by then.
        """

    @abstractmethod
    def add(self, ids: Ids, rows: pa.RecordBatch, times: Times) -> None:
        """Row i counts for `ids[i]`, at `times[i]`, a finite time. Ids may repeat."""

    @abstractmethod
    def take(self, ids: Ids) -> pa.RecordBatch:
        """Sub-aggregates, row i of `ids[i]`; the state stays. Ids do not repeat."""

    @abstractmethod
    def merge(self, ids: Ids, partial: pa.RecordBatch) -> None:
        """Adds sub-aggregates, row i to `ids[i]`. Ids only repeat where `repeats` says so."""

    def unmerge(self, ids: Ids, partial: pa.RecordBatch) -> None:
        """Subtracts sub-aggregates that the ids hold. Ids do not repeat."""
        raise Misuse("this aggregate is not differential: recombine what is left of it")

    @abstractmethod
    def clear(self, ids: Ids) -> None:
        """Back to no rows."""

    @abstractmethod
    def results(self, ids: Ids) -> pa.Array:
        """The answers, row i of `ids[i]`; null where only nulls were added, and a count is 0."""

    def unanswerable(self, ids: Ids) -> Unanswerable | None:
        """Which of these ids have no answer, and why; None where all have one."""
        return None

    @property
    @abstractmethod
    def nbytes(self) -> int:
        """Bytes of state."""

    @abstractmethod
    def validate(self) -> None:
        """Raises `Bug` where an invariant is broken."""


def place_of(function: AggregateFunction, schema: pa.Schema, column: str) -> int:
    """Where a column is; raises `SchemaError` where there is none of that name."""
    place: int = schema.get_field_index(column)
    if place < 0:
        raise SchemaError(f"{function}: no column {column!r} among {', '.join(schema.names)}")
    return place
