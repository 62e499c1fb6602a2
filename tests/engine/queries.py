"""Small queries of all kinds, drawn from a seed, for tests of what is said about queries.

Types are few (a time, an int64 and a string), so that nearly everything fits nearly everything.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pyarrow as pa

from gapless.engine.functions import UserFunction, function
from gapless.engine.lateness import k_late, watermarks
from gapless.engine.query import Query, race
from gapless.engine.source import source
from gapless.operators.aggregates.calls import aggregate, count, mean, sum_, window_time
from gapless.protocol.errors import Misuse
from gapless.protocol.expr import Expr, call, col, if_else

COLUMNS = {"ts": "int64", "k": "int64", "s": "string"}


def twice(column: pa.Array) -> pa.Array:
    """A user's function."""
    return pa.compute.add(column, column)


def spread(values: pa.Array) -> int:
    """A user's aggregate function."""
    return int(values[-1].as_py() - values[0].as_py())


FUNCTIONS = {f"{__name__}:twice": twice, f"{__name__}:spread": spread}


def some_source(name: str = "a", lateness: Any = 5) -> Query:
    return source(name, COLUMNS, time="ts", lateness=lateness)


def random_query(seed: int, steps: int = 6, *, functions: bool = True) -> Query:
    """A query of a few steps; steps that have no meaning where they are tried are left out."""
    rng = random.Random(seed)
    made = [
        some_source("a", rng.choice((0, 5, "20ms", None))),
        some_source("b", rng.choice((k_late(3), watermarks(), 0))),
    ]
    for _ in range(rng.randint(1, steps)):
        try:
            made.append(_step(rng, made, functions))
        except Misuse:
            continue
    return made[-1].on_error(rng.choice(("stop", "aside")))


def _step(rng: random.Random, made: list[Query], functions: bool) -> Query:
    q = made[-1] if rng.random() < 0.8 else rng.choice(made)
    return rng.choice(_STEPS)(rng, q, rng.choice(made), functions)


def _some(rng: random.Random, q: Query, least: int = 1) -> list[str]:
    return rng.sample(q.schema.names, rng.randint(least, len(q.schema.names)))


def _named(rng: random.Random, q: Query, t: pa.DataType) -> str:
    names = [f.name for f in q.schema.payload if f.type == t]
    if not names:
        raise Misuse("no such column")
    name: str = rng.choice(names)
    return name


def _number(rng: random.Random, q: Query) -> Expr:
    x = col(_named(rng, q, pa.int64()))
    return rng.choice((x, x + 1, x % 3, if_else(x > 2, x, None)))


def _computed(rng: random.Random, q: Query, functions: bool) -> Expr | UserFunction:
    if functions and rng.random() < 0.3:
        return function(twice, _named(rng, q, pa.int64()), returns="int64")
    return rng.choice((_number(rng, q), call("exp", _number(rng, q)), col(q.schema.names[0])))


def _always(rng: random.Random, q: Query) -> Expr:
    """A condition that holds for every row, as none of a race's queries may have another answer."""
    x = col(rng.choice(q.schema.names))
    return x.is_null() | (x == x)


def _alike(rng: random.Random, q: Query, other: Query) -> Query:
    return other if other.schema == q.schema else q.where(_number(rng, q) > 1)


def _aggregate(rng: random.Random, q: Query, _o: Query, own: bool) -> Query:
    early = rng.choice((None, None, True, 3))
    functions: dict[str, Any] = {"n": count()}
    if rng.random() < 0.2:
        functions[rng.choice(("ts", "at"))] = window_time()
    if rng.random() < 0.5:
        functions["m"] = rng.choice((sum_, mean))(_named(rng, q, pa.int64()))
    if own and rng.random() < 0.2:
        functions["o"] = aggregate(_named(rng, q, pa.int64()), spread, returns="int64")
    groups = [name for name in _some(rng, q) if name not in functions]
    if not groups or rng.random() < 0.3:
        return q.aggregate(**functions, early=early)
    return q.group_by(*groups).aggregate(**functions, early=early)


def _join(rng: random.Random, q: Query, other: Query, _f: bool) -> Query:
    pairs = [(n, m) for n in q.schema.names for m in other.schema.names if n == m]
    on: Any = rng.choice((rng.sample(pairs, min(1, len(pairs))), dict(pairs[:2]), None))
    return q.join(other, on=on, how=rng.choice(("inner", "left", "right", "full")))


_STEPS: list[Callable[[random.Random, Query, Query, bool], Query]] = [
    lambda r, q, o, f: q.where(_number(r, q) > r.choice((0, 2))),
    lambda r, q, o, f: q.select(*_some(r, q), x=_computed(r, q, f)),
    lambda r, q, o, f: q.map(**{r.choice((*q.schema.names, "y")): _computed(r, q, f)}),
    lambda r, q, o, f: q.window(r.choice((4, 10, "all")), r.choice((None, 2, 3, 5))),
    lambda r, q, o, f: q.window(6, r.choice((None, 3)), on=_named(r, q, pa.int64())),
    lambda r, q, o, f: q.window("all", r.choice((2, 3)), restart=r.choice((6, 12))),
    lambda r, q, o, f: q.window(r.choice((4, "all")), 4, origin=r.choice((1, -2))),
    lambda r, q, o, f: _aggregate(r, q.window(r.choice((4, 10, "all")), r.choice((2, 5))), o, f),
    lambda r, q, o, f: _aggregate(r, q.window(r.choice((4, 10)), r.choice((2, 5))), o, f),
    lambda r, q, o, f: _aggregate(r, q.window(session=3, partition_by=_some(r, q, 0)), o, f),
    lambda r, q, o, f: q.window(r.choice((4, 10)), 5).bucket(at=window_time()),
    lambda r, q, o, f: q.lifetime(duration=r.choice((2, 7))),
    lambda r, q, o, f: q.lifetime(end=_number(r, q) + 20),
    lambda r, q, o, f: q.latest_by(*_some(r, q)),
    lambda r, q, o, f: q.dedupe(*_some(r, q), within=r.choice((1, 4))),
    _aggregate,
    _aggregate,
    _aggregate,
    _join,
    _join,
    lambda r, q, o, f: q.union(_alike(r, q, o), q),
    lambda r, q, o, f: q.difference(_alike(r, q, o)),
    lambda r, q, o, f: q.distinct(*_some(r, q, 0)),
    lambda r, q, o, f: q.window(4, 2).top(r.choice((1, 3)), _number(r, q), rank="r"),
    lambda r, q, o, f: q.window(4, 2).heavy(*_some(r, q), share=r.choice((0.5, 1))),
    lambda r, q, o, f: q.window(4, 2).heavy(*_some(r, q), share=0.5, method="count_min"),
    lambda r, q, o, f: q.top_k(r.choice((1, 3)), _number(r, q), within=_some(r, q, 0)[:1]),
    lambda r, q, o, f: race(q, q.where(_always(r, q))),
    lambda r, q, o, f: q.normalise(),
]
