"""Punctuation: what a plan's inside promises about rows to come.

    Punctuation.of(a=5)                    no later row has a < 5
    Punctuation.of(a=5, b=7)               no later row has both a < 5 and b < 7
    Punctuation.of({"src": 3}, a=5)        no later row has src = 3 and a < 5
    Punctuation.of({"src": 3})             no later row has src = 3

A punctuation is a conjunction: it forbids the rows that satisfy all its bounds and belong to its
group, and no others. So more conditions promise less: a joint punctuation of a join (a < 5 and
b < 7) still lets rows with a < 5 come, as long as their b is 7 or more.

It travels beside frames between operators. At a plan's output only what it says of `_vs` alone
counts, as one `stable`. Values are compared as payloads are (NaN equals NaN, null equals null); a
null in a bounded attribute is not below any bound.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gapless.protocol.columns import take, without_views
from gapless.protocol.documents import Document, Fields
from gapless.protocol.elements import BEGIN, INF, format_time
from gapless.protocol.errors import DecodeError, FrameError, Misuse
from gapless.protocol.frame import Mask
from gapless.protocol.lists import elements, lengths
from gapless.protocol.plain import value_from_plain, value_to_plain
from gapless.protocol.values import canonical_float, from_values, ticks_type

CONDITIONS_MAX = 256
"""Bounds and group columns of one punctuation: a join of many inputs has one an input."""


@dataclass(frozen=True, slots=True)
class Punctuation:
    """No later row satisfies all of this. Equal when they forbid by the same conditions."""

    bounds: tuple[tuple[str, int], ...]
    """Attribute and time: forbidden rows have attribute < time. In the attributes' order."""
    group: tuple[tuple[str, Any], ...] = ()
    """Column and canonical value: forbidden rows have this value. In the columns' order."""

    def __post_init__(self) -> None:
        names = [name for name, _ in (*self.bounds, *self.group)]
        if len(set(names)) != len(names):
            raise Misuse(f"punctuation: a column has one condition, not several: {names}")
        if len(names) > CONDITIONS_MAX:
            raise Misuse(f"punctuation: {len(names)} conditions, {CONDITIONS_MAX} are the most")
        for name, t in self.bounds:
            if not BEGIN < t <= INF:
                raise Misuse(f"punctuation: {name} < {format_time(t)} forbids nothing")
        ordered = tuple(sorted(self.bounds))
        group = tuple(sorted(((name, _canonical(v)) for name, v in self.group), key=_name))
        object.__setattr__(self, "bounds", ordered)
        object.__setattr__(self, "group", group)

    @staticmethod
    def of(group: Mapping[str, Any] | None = None, /, **bounds: int) -> Punctuation:
        """A punctuation from names: a group's values, and attributes with their bounds."""
        return Punctuation(tuple(bounds.items()), tuple((group or {}).items()))

    def matches(self, batch: pa.RecordBatch) -> Mask:
        """True for each row that this forbids."""
        mask = np.ones(batch.num_rows, np.bool_)
        for name, t in self.bounds:
            mask &= _below(_column(batch, name), name, t)
        for name, value in self.group:
            mask &= _equals(_column(batch, name), name, value)
        return mask

    def implies(self, other: Punctuation) -> bool:
        """Whether this forbids every row that `other` does."""
        bounds, group = dict(other.bounds), dict(other.group)
        return all(name in bounds and bounds[name] <= t for name, t in self.bounds) and all(
            name in group and (name, group[name]) == (name, value) for name, value in self.group
        )

    def as_stable(self, attribute: str) -> int | None:
        """The largest t for which this promises that no later row has `attribute` < t, or None."""
        if self.group or any(name != attribute for name, _ in self.bounds):
            return None
        return self.bounds[0][1] if self.bounds else INF

    def to_document(self) -> Document:
        """The conditions as plain data."""
        bounds: Document = [[name, t] for name, t in self.bounds]
        group: Document = [[name, value_to_plain(value)] for name, value in self.group]
        return {"bounds": bounds, "group": group}

    @staticmethod
    def from_document(document: Document) -> Punctuation:
        """The inverse of `to_document`, for documents from anybody: raises `DecodeError`."""
        fields = Fields(document, "punctuation")
        bounds = fields.take_list("bounds", list, CONDITIONS_MAX)
        group = fields.take_list("group", list, CONDITIONS_MAX)
        fields.done()
        for pair in (*bounds, *group):
            if len(pair) != 2 or type(pair[0]) is not str:
                raise DecodeError("punctuation", "a condition of no known form", "[column, value]")
        for name, t in bounds:
            if type(t) is not int:
                raise DecodeError(f"punctuation.{name}", f"is a {type(t).__name__}", "an int")
        values = [(name, value_from_plain(value)) for name, value in group]
        try:
            return Punctuation(tuple((name, t) for name, t in bounds), tuple(values))
        except Misuse as e:
            raise DecodeError("punctuation", str(e)) from None

    def __str__(self) -> str:
        conditions = [f"{name} = {value!r}" for name, value in self.group]
        conditions += [f"{name} < {format_time(t)}" for name, t in self.bounds]
        return f"no more ({' and '.join(conditions) or 'rows'})"


def _name(pair: tuple[str, Any]) -> str:
    return pair[0]


def _canonical(value: Any) -> Any:
    if isinstance(value, float):
        return canonical_float(value)
    return tuple(map(_canonical, value)) if isinstance(value, tuple) else value


def _column(batch: pa.RecordBatch, name: str) -> pa.Array:
    i = batch.schema.get_field_index(name)
    if i < 0:
        raise Misuse(f"punctuation: no column {name!r} among {', '.join(batch.schema.names)}")
    return batch.column(i)


def _below(column: pa.Array, name: str, t: int) -> Mask:
    """True where an attribute is below `t`; false where it is null."""
    ticks = ticks_type(column.type)
    if ticks is not None:
        column = column.view(ticks)
    if not pa.types.is_signed_integer(column.type):
        raise Misuse(f"punctuation: {name} is {column.type}; a bound needs integers or times")
    return _as_mask(pc.less(column, pa.scalar(t, pa.int64())))


def _equals(column: pa.Array, name: str, value: Any) -> Mask:
    """True where a column holds `value`, as payloads are equal."""
    t = column.type
    if pa.types.is_dictionary(t):
        found = np.flatnonzero(_equals(column.dictionary, name, value))
        mask = _as_mask(pc.is_in(column.indices, pa.array(found).cast(t.index_type)))
        return mask | _as_mask(column.indices.is_null()) if value is None else mask
    if value is None:
        return _as_mask(column.is_null())
    if pa.types.is_struct(t):
        if not isinstance(value, tuple) or len(value) != t.num_fields:
            raise Misuse(f"punctuation: {name} is {t}, not {value!r}")
        mask = _as_mask(column.is_valid())
        for i, field in enumerate(t):
            mask &= _equals(column.field(i), f"{name}.{field.name}", value[i])
        return mask
    if pa.types.is_list(t):
        return _is_list(column, name, value)
    try:
        wanted = from_values([value], t)
    except FrameError as e:
        raise Misuse(f"punctuation: {name} = {value!r}: {e}") from None
    if pa.types.is_floating(t):
        # float16 has no comparison in Arrow, and Arrow's NaN equals nothing
        numbers, number = column.to_numpy(zero_copy_only=False), canonical_float(value)
        same: Mask = np.isnan(numbers) if number != number else numbers == number
        return same & _as_mask(column.is_valid())
    if pa.types.is_interval(t):
        column, wanted = (a.view(pa.binary(16)) for a in (column, wanted))
    plain = without_views(column.type)
    return _as_mask(pc.equal(column.cast(plain), wanted.cast(plain)[0]))


def _is_list(column: pa.Array, name: str, value: Any) -> Mask:
    """True where a list has these elements: the nth of all that may still be it, then the next."""
    if not isinstance(value, tuple):
        raise Misuse(f"punctuation: {name} is {column.type}, not {value!r}")
    counts, inside = lengths(column), elements(column)
    starts = np.cumsum(counts) - counts
    rows = (_as_mask(column.is_valid()) & (counts == len(value))).nonzero()[0]
    for place, item in enumerate(value):
        nth = take(inside, pa.array(starts[rows] + place))
        rows = rows[_equals(nth, f"{name}.item", item)]
    mask = np.zeros(len(column), np.bool_)
    mask[rows] = True
    return mask


def _as_mask(answers: pa.Array) -> Mask:
    """Arrow's answers as a mask, null as false."""
    mask: Mask = answers.fill_null(False).to_numpy(zero_copy_only=False).astype(np.bool_)
    return mask
