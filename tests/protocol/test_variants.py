import random
from dataclasses import replace

import pytest

from gapless.protocol.elements import INF, Adjust, Element, Insert, Stable
from gapless.protocol.errors import Misuse
from gapless.protocol.tdb import Tdb
from gapless.protocol.text import DEFAULT_SCHEMA
from gapless.protocol.variants import Telling, random_tdb, random_telling, tell
from tests.effort import cases

PAYLOADS: list[tuple[object, ...]] = [("A",), ("B",), ("C",)]


def elements(tdb: Tdb, telling: Telling, seed: int) -> list[Element]:
    return [e for frame in tell(tdb, telling, seed) for e in frame.elements()]


def test_every_telling_is_legal_and_tells_the_same_table() -> None:
    for seed in range(cases(100)):
        rng = random.Random(seed)
        tdb = random_tdb(rng, DEFAULT_SCHEMA, PAYLOADS, duplicates=bool(seed % 2))
        for variant in range(3):
            told = Tdb(DEFAULT_SCHEMA)
            for frame in tell(tdb, random_telling(rng), variant):
                told.fold(frame)  # raises where a promise is broken
            assert told == tdb
            assert told.stable == INF


def test_a_stream_that_joins_tells_what_ends_at_or_after_its_time() -> None:
    for seed in range(cases(30)):
        rng = random.Random(seed)
        tdb = random_tdb(rng, DEFAULT_SCHEMA, PAYLOADS)
        told = Tdb(DEFAULT_SCHEMA)
        for frame in tell(tdb, random_telling(rng, join_at=30), seed):
            told.fold(frame)
        assert told == tdb.since(30)


def test_the_same_seed_tells_the_same_stream() -> None:
    tdb = random_tdb(random.Random(1), DEFAULT_SCHEMA, PAYLOADS)
    telling = random_telling(random.Random(2))
    assert elements(tdb, telling, 3) == elements(tdb, telling, 3)
    assert elements(tdb, telling, 3) != elements(tdb, telling, 4)


def test_plain_tellings_are_in_order_and_alike() -> None:
    tdb = random_tdb(random.Random(5), DEFAULT_SCHEMA, PAYLOADS)
    inserts = [[e for e in elements(tdb, Telling(), s) if isinstance(e, Insert)] for s in (1, 2)]
    assert inserts[0] == inserts[1]
    assert [e.vs for e in inserts[0]] == sorted(e.vs for e in inserts[0])


def test_ties_may_be_shuffled_without_leaving_the_order_of_starts() -> None:
    tdb = random_tdb(random.Random(5), DEFAULT_SCHEMA, PAYLOADS, events=80, span=20)
    shuffled = replace(Telling(), order="ties_shuffled")
    streams = [[e for e in elements(tdb, shuffled, s) if isinstance(e, Insert)] for s in (1, 2)]
    assert streams[0] != streams[1]
    for stream in streams:
        assert [e.vs for e in stream] == sorted(e.vs for e in stream)


def test_every_way_to_differ_does_happen() -> None:
    seen: set[str] = set()
    for seed in range(cases(20)):
        rng = random.Random(seed)
        tdb = random_tdb(rng, DEFAULT_SCHEMA, PAYLOADS, duplicates=True)
        told = elements(tdb, random_telling(rng), seed)
        starts = [e.vs for e in told if isinstance(e, Insert)]
        keys = [(e.payload, e.vs) for e in told if isinstance(e, Insert)]
        seen |= {"disorder"} if starts != sorted(starts) else set()
        seen |= {"again"} if len(set(keys)) < len(keys) else set()
        seen |= {"stable"} if any(isinstance(e, Stable) and e.t < INF for e in told) else set()
        for e in told:
            if isinstance(e, Adjust):
                seen.add("removal" if e.ve == e.vs else "open" if e.was == INF else "revision")
    assert seen == {"disorder", "again", "stable", "removal", "open", "revision"}


@pytest.mark.parametrize(
    "bad",
    [
        {"order": "backwards"},
        {"order": "by_start", "disorder": 3},
        {"order": "ties_shuffled", "mistakes": 0.5},
        {"order": "any", "stable_lag": -1},
        {"frame_rows": 0},
    ],
)
def test_a_telling_that_means_nothing_is_refused(bad: dict[str, object]) -> None:
    with pytest.raises(Misuse):
        Telling(**bad)  # type: ignore[arg-type]  # wrong on purpose
