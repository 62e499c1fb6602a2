"""Distinct: each payload once, lifetimes as long as they can be, whatever the order."""

import random
import time
from collections import Counter

import numpy as np
import pyarrow as pa
import pytest

from gapless.kernels.keys import Ids
from gapless.operators.distinct import Distinct
from gapless.operators.operator import Operator
from gapless.operators.per_snapshot import Rows
from gapless.operators.pieces import Pieces, Spans
from gapless.protocol.elements import BEGIN, INF, Insert, Stable
from gapless.protocol.errors import GaplessError
from gapless.protocol.frame import Frame
from gapless.protocol.punctuation import Punctuation
from gapless.protocol.schema import StreamSchema
from gapless.protocol.tdb import Tdb
from gapless.protocol.text import DEFAULT_SCHEMA, format, parse
from gapless.protocol.variants import random_tdb
from tests.operators.instants import (
    Alive,
    by_instant,
    frame_of,
    run,
    run_tight,
    run_with_snapshot,
    say,
    told,
)

PAYLOADS: list[tuple[object, ...]] = [("A",), ("B",), ("C",)]


def once_each(alive: list[Alive]) -> Alive:
    return Counter(dict.fromkeys(alive[0], 1))


def drawn(seed: int) -> tuple[random.Random, Tdb]:
    rng = random.Random(seed)
    return rng, random_tdb(rng, DEFAULT_SCHEMA, PAYLOADS, 20, 50, duplicates=bool(seed % 3))


def test_the_example_of_the_header() -> None:
    distinct = Distinct(DEFAULT_SCHEMA)
    out = say(distinct, DEFAULT_SCHEMA, "ins(A,0,5) ins(A,3,9) ins(B,4,6) stable(7)")
    assert format(out) == "ins(A,0,9) ins(B,4,6) stable(7)"
    out = say(distinct, DEFAULT_SCHEMA, "ins(A,9,12) stable(20)")
    assert format(out) == "adj(A,0,9,12) stable(20)"
    assert len(distinct) == 0
    assert format(say(distinct, DEFAULT_SCHEMA, "ins(A,20,inf) stable(inf)")) == (
        "ins(A,20,inf) stable(inf)"
    )


def test_any_telling_of_a_table_gives_the_set_at_each_instant_tightly() -> None:
    for seed in range(80):
        rng, tdb = drawn(seed)
        wanted = by_instant(once_each, [tdb], DEFAULT_SCHEMA)
        for variant in range(2):
            steps = told([tdb], rng, 10 * seed + variant)
            out = run_tight(Distinct(DEFAULT_SCHEMA), once_each, steps)
            assert out == wanted, f"seed {seed}\n{out.difference(wanted)}"
            assert out.stable == INF
