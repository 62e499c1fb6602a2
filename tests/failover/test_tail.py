import random

import numpy as np
import pyarrow as pa

from gapless.failover import tail as tail_module
from gapless.failover.tail import Tail
from gapless.protocol.elements import BEGIN
from gapless.protocol.frame import Frame
from gapless.protocol.tdb import Tdb
from gapless.protocol.text import DEFAULT_SCHEMA
from gapless.protocol.variants import random_tdb, random_telling, tell


def test_the_fold_is_the_table_from_the_trim_time_on() -> None:
    for seed in range(60):
        rng = random.Random(seed)
        tdb = random_tdb(rng, DEFAULT_SCHEMA, [("A",), ("B",)], duplicates=bool(seed % 2))
        tail, whole = Tail(DEFAULT_SCHEMA), Tdb(DEFAULT_SCHEMA)
        for frame in tell(tdb, random_telling(rng), seed):
            tail.add(frame)
            whole.fold(frame)
            if rng.random() < 0.2 and tail.stable != BEGIN:
                tail.trim(rng.randint(-5, min(tail.stable, 90)))
            fold = tail.fold()
            assert fold.is_insert.all()
            assert fold.stable == (None if whole.stable == BEGIN else whole.stable)
            told = Tdb(DEFAULT_SCHEMA, ())
            told.fold(fold.with_stable(None))
            assert told == whole.since(tail.since), f"seed {seed}"


def test_it_stays_near_the_size_of_what_is_live() -> None:
    tail = Tail(DEFAULT_SCHEMA)
    sizes = []
    for i in range(300):
        events = [("A", 10 * i + k) for k in range(10)]
        starts = np.array([t for _, t in events], np.int64)
        payload = [pa.array([p for p, _ in events])]
        rows = Frame.from_columns(DEFAULT_SCHEMA, starts, starts + 1, payload, stable=10 * i + 10)
        tail.add(rows)
        tail.trim(10 * i)
        sizes.append(len(tail))
    assert max(sizes) <= tail_module.FOLD_ROWS_MIN + 20


def test_an_empty_tail_folds_to_an_empty_frame() -> None:
    assert not Tail(DEFAULT_SCHEMA).fold()
