"""`LMerge.live()` is what the output still holds: another merger takes it up where it was left."""

import random

import pytest

from gapless.merge.choose import CaseName
from gapless.merge.lmerge import LMerge
from gapless.protocol.elements import INF
from gapless.protocol.tdb import Tdb
from gapless.protocol.text import DEFAULT_SCHEMA
from gapless.protocol.variants import random_tdb, random_telling, tell

PAYLOADS: list[tuple[object, ...]] = [("A",), ("B",), ("C",)]


@pytest.mark.parametrize("case", ["r3", "r4"])
@pytest.mark.parametrize("seed", range(20))
def test_at_any_moment_the_live_table_is_what_the_output_still_holds(
    case: CaseName, seed: int
) -> None:
    rng = random.Random(f"live {seed}")
    table = random_tdb(rng, DEFAULT_SCHEMA, PAYLOADS, 30, duplicates=case == "r4")
    streams = [tell(table, random_telling(rng), rng.randrange(10**6)) for _ in range(2)]
    merge, output = LMerge(DEFAULT_SCHEMA, case), Tdb(DEFAULT_SCHEMA)
    inputs = [merge.attach() for _ in streams]
    while any(streams):
        i = rng.choice([i for i, stream in enumerate(streams) if stream])
        output.fold(merge.push(inputs[i], streams[i].pop(0)))
        live = _table(merge)
        assert live.stable == output.stable
        wanted = Tdb(DEFAULT_SCHEMA) if output.stable == INF else output.since(output.stable)
        assert live.counts() == wanted.counts()
        again = LMerge(DEFAULT_SCHEMA, case)
        again.resume(merge.live())
        assert again.stable == merge.stable
        assert _table(again) == live


def _table(merge: LMerge) -> Tdb:
    table = Tdb(DEFAULT_SCHEMA)
    table.fold(merge.live())
    return table


def test_before_the_first_stable_there_is_none_in_it() -> None:
    assert LMerge(DEFAULT_SCHEMA, "r3").live().stable is None
