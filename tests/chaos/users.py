"""What users write into their queries: good functions, and ones with a bug each."""

from __future__ import annotations

import datetime as dt
import functools
import time
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

import gapless as gl
from gapless.engine.query import Query
from tests.chaos import users_helper

flows = gl.source(
    "flows",
    {"ts": "timestamp[ms]", "src": "string", "len": "int64"},
    time="ts",
    lateness="2s",
)
START_MS = 1_700_000_000_000


def rows(count: int = 60) -> pa.Table:
    """A row each 200 ms; three sources, lengths of which some are 700."""
    n = np.arange(count)
    return pa.table(
        {
            "ts": pa.array(START_MS + n * 200, pa.timestamp("ms")),
            "src": [f"host-{i % 3}" for i in n.tolist()],
            "len": n * 100 % 1_500,
        }
    )


def mapped(function: Callable[..., Any], *columns: str, returns: str = "int64") -> Query:
    """A query that adds what a function says of each row."""
    return flows.map(value=gl.function(function, *columns, returns=returns))


# -- a good one -----------------------------------------------------------------------------------


def kilobytes(lengths: pa.Array) -> pa.Array:
    """By the row alone."""
    return pa.array([length / 1_000 for length in lengths.to_pylist()], pa.float64())


# -- what looks beyond the row --------------------------------------------------------------------

seen: set[str] = set()
counted = 0


def is_new(sources: pa.Array) -> pa.Array:
    """Remembers, in a set of its module."""
    found = []
    for source in sources.to_pylist():
        found.append(source not in seen)
        seen.add(source)
    return pa.array(found)


def number(lengths: pa.Array) -> pa.Array:
    """Counts rows, in a number of its module."""
    global counted
    first, counted = counted, counted + len(lengths)
    return pa.array(range(first, counted), pa.int64())


def hour(lengths: pa.Array) -> pa.Array:
    """Asks the wall clock."""
    return pa.array([dt.datetime.now().hour] * len(lengths), pa.int64())  # noqa: DTZ005  # the bug


def age(lengths: pa.Array) -> pa.Array:
    """Asks the clock, in another way."""
    return pa.array([int(time.time()) // 3_600] * len(lengths), pa.int64())


def bucket(sources: pa.Array) -> pa.Array:
    """Hashes texts with Python's own hash, which each process salts."""
    return pa.array([hash(source) % 8 for source in sources.to_pylist()], pa.int64())


def share(lengths: pa.Array) -> pa.Array:
    """Of the whole batch: wherever that happens to be cut."""
    values = lengths.to_numpy()
    return pa.array(values * 100 // max(1, int(values.sum())), pa.int64())


def place(lengths: pa.Array) -> pa.Array:
    """The number within the batch."""
    return pa.array(range(len(lengths)), pa.int64())


def divides(lengths: pa.Array) -> pa.Array:
    """Fails where a batch has nothing but one small length."""
    most = max(lengths.to_pylist()) // 500
    return pa.array([length // most for length in lengths.to_pylist()], pa.int64())


LOOKING_BEYOND: dict[str, Query] = {
    "memory, a set": flows.where(gl.function(is_new, "src", returns="bool")),
    "memory, a number": mapped(number, "len"),
    "the clock, datetime": mapped(hour, "len"),
    "the clock, time": mapped(age, "len"),
    "hash": mapped(bucket, "src"),
    "the batch, a share": mapped(share, "len"),
    "the batch, a number": mapped(place, "len"),
}
"""Queries that answer in another way elsewhere, by what they look at."""

# -- where functions keep something ---------------------------------------------------------------

Counting = Callable[[], int]
"""Says how often it was called, by whatever means; those must be apart for each process."""


def by_global() -> int:
    global counted  # noqa: PLW0603  # one of the means
    counted += 1
    return counted


def by_default(calls: list[int] = [0]) -> int:  # noqa: B006  # one of the means
    calls[0] += 1
    return calls[0]


def by_keyword(*, calls: dict[str, int] = {"n": 0}) -> int:  # noqa: B006  # one of the means
    calls["n"] += 1
    return calls["n"]


def by_attribute() -> int:
    by_attribute.calls = getattr(by_attribute, "calls", 0) + 1  # type: ignore[attr-defined]  # one of the means
    return int(by_attribute.calls)  # type: ignore[attr-defined]  # as above


def closure() -> Counting:
    calls = 0

    def by_cell() -> int:
        nonlocal calls
        calls += 1
        return calls

    return by_cell


class Counter:
    in_class = 0
    shared: ClassVar[dict[str, int]] = {"n": 0}

    def __init__(self) -> None:
        self.calls = 0

    def by_object(self) -> int:
        self.calls += 1
        return self.calls

    def __call__(self) -> int:
        return self.by_object()

    @classmethod
    def by_class(cls) -> int:
        cls.in_class += 1
        return cls.in_class

    @staticmethod
    def by_shared() -> int:
        Counter.shared["n"] += 1
        return Counter.shared["n"]


class Slotted:
    __slots__ = ("calls",)

    def __init__(self) -> None:
        self.calls = 0

    def by_slot(self) -> int:
        self.calls += 1
        return self.calls


THE_COUNTER = Counter()


def by_global_object() -> int:
    return THE_COUNTER.by_object()


def by_another() -> int:
    """Of a function that it calls."""
    return by_global()


def by_module() -> int:
    """Of another module."""
    return users_helper.counted()


def by_module_name() -> int:
    users_helper.calls += 1
    return users_helper.calls


def by_import() -> int:
    from tests.chaos import users_helper as helper

    return helper.counted()


@functools.cache
def _cell() -> list[int]:
    return [0]


def by_cache() -> int:
    _cell()[0] += 1
    return _cell()[0]


TABLE: dict[str, Counting] = {"count": by_global}


def by_table() -> int:
    """Of a function that a table has."""
    return TABLE["count"]()


def _count(calls: list[int]) -> int:
    calls[0] += 1
    return calls[0]


COUNTING: dict[str, Callable[[], Counting]] = {
    "global": lambda: by_global,
    "default": lambda: by_default,
    "keyword": lambda: by_keyword,
    "attribute": lambda: by_attribute,
    "closure": closure,
    "object": lambda: Counter().by_object,
    "called object": Counter,
    "class": lambda: Counter.by_class,
    "class's value": lambda: Counter.by_shared,
    "slot": lambda: Slotted().by_slot,
    "global object": lambda: by_global_object,
    "another function": lambda: by_another,
    "another module": lambda: by_module,
    "another module's name": lambda: by_module_name,
    "imported late": lambda: by_import,
    "table": lambda: by_table,
    "partial": lambda: functools.partial(_count, [0]),
}
"""A way to keep a count, and what makes a function that does."""
