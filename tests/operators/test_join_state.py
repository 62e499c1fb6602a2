"""What a join keeps and for how long; snapshots, skipping ahead, and starts in the middle."""

import random
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from gapless.operators import join_keys, join_side
from gapless.operators.join import Join
from gapless.protocol.elements import BEGIN, INF
from gapless.protocol.errors import (
    DecodeError,
)
from gapless.protocol.frame import Frame
from gapless.protocol.schema import StreamSchema
from tests.effort import cases
from tests.operators import laws
from tests.operators.join_cases import HOWS, LEFT, ON, RIGHT, Case, held, say

# -- progress and state ---------------------------------------------------------------------------


def test_a_row_goes_when_the_other_side_has_reached_its_end() -> None:
    join = Join(LEFT, RIGHT, ON, final_ends=(True, True))
    say(join, 0, "ins((k,1),0,9)")
    say(join, 1, "stable(8)")
    assert held(join) == (1, 0)
    say(join, 1, "stable(9)")
    assert held(join) == (0, 0)


def test_a_row_whose_end_may_change_waits_for_its_own_input_too() -> None:
    join = Join(LEFT, RIGHT, ON)
    say(join, 0, "ins((k,1),0,9)")
    say(join, 1, "stable(50)")
    assert held(join) == (1, 0)
    say(join, 0, "stable(9)")
    assert held(join) == (1, 0)
    assert say(join, 0, "adj((k,1),0,9,60)") == ""
    say(join, 0, "stable(61)")
    assert held(join) == (1, 0)
    say(join, 1, "stable(60)")
    assert held(join) == (0, 0)


def test_a_row_that_can_meet_nobody_later_is_not_stored() -> None:
    join = Join(LEFT, RIGHT, ON, final_ends=(True, True))
    say(join, 1, "ins((k,7),0,50) stable(20)")
    assert say(join, 0, "ins((k,1),5,20)") == "ins((k,1,7),5,20)"
    assert held(join) == (0, 1)
    assert say(join, 0, "ins((k,2),5,21)") == "ins((k,2,7),5,21)"
    assert held(join) == (1, 1)


def test_without_a_stable_of_both_inputs_nothing_is_promised() -> None:
    join = Join(LEFT, RIGHT, ON)
    assert say(join, 0, "stable(inf)") == ""
    assert say(join, 1, "stable(3)") == "stable(3)"
    assert say(join, 1, "stable(3)") == ""


def unending(rng: random.Random, n: int, revising: bool) -> Iterator[tuple[int, Frame]]:
    """Two streams of keys that never come again, with short lives."""
    for i in range(n):
        for source, schema in enumerate((LEFT, RIGHT)):
            vs = np.arange(10 * i, 10 * i + 10)
            ve = vs + np.array([rng.randint(1, 30) for _ in vs])
            names = [None if rng.random() < 0.1 else f"{i}-{j}" for j in range(10)]
            payload = [pa.array(names, pa.string()), pa.array([source] * 10)]
            stable = 10 * i - 5
            yield source, Frame.from_columns(schema, vs, ve, payload, stable=max(stable, 0))
            if revising:  # each lives one longer
                was, longer = np.maximum(ve, vs + 1), ve + 1
                yield source, Frame.from_columns(schema, vs, longer, payload, was)


@pytest.mark.parametrize("how", HOWS)
@pytest.mark.parametrize("revising", [False, True])
def test_state_stays_flat_over_a_long_stream(
    how: Any, revising: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(join_keys, "KEYS_MIN", 50)
    monkeypatch.setattr(join_side, "STALE_MIN", 50)
    join = Join(LEFT, RIGHT, ON, how=how, final_ends=(not revising, not revising))
    sizes = []
    for i, (source, frame) in enumerate(unending(random.Random(1), 400, revising)):
        join.push(source, frame)
        if i % 50 == 0:
            join.validate()
        sizes.append(join.nbytes)
        assert sum(held(join)) <= 160
        assert len(join._keys) <= 4 * 160 + 50 + 20
    quarter = len(sizes) // 4
    assert max(sizes[-quarter:]) <= 1.2 * max(sizes[quarter : 2 * quarter])


def test_fast_forward_drops_what_gives_nothing_that_is_wanted() -> None:
    join = Join(LEFT, RIGHT, ON, final_ends=(True, False))
    say(join, 0, "ins((k,1),0,9) ins((k,2),0,20)")
    say(join, 1, "ins((k,3),0,9) ins((k,4),0,20)")
    assert join.fast_forward(15) == 15
    assert held(join) == (1, 2)  # right ends may still move
    say(join, 0, "ins((k,5),1,14)")
    assert held(join) == (1, 2)
    outer = Join(LEFT, RIGHT, ON, how="left", longest=(5, 7))
    assert outer.fast_forward(15) == BEGIN
    assert (join.reach, outer.reach) == (0, 12)


# -- laws -----------------------------------------------------------------------------------------


def test_a_restored_join_goes_on_the_same() -> None:
    for seed in range(cases(60)):
        case = Case(seed, inserts=seed % 3 == 1)
        at = case.rng.randrange(len(case.told) + 1)
        laws.holds_that_a_restored_one_goes_on_the_same(case.make, case.told, at)


def test_skipping_ahead_spares_only_what_is_not_wanted() -> None:
    for seed in range(cases(60)):
        case = Case(seed, inserts=seed % 2 == 0)
        if case.how == "inner" or not all(f.insert_only for _, f in case.told):
            laws.holds_that_fast_forward_spares_only_what_ends_before(
                case.make, case.told, case.wanted, case.rng
            )


def test_a_start_at_reach_gives_all_that_is_wanted() -> None:
    for seed in range(cases(60)):
        case = Case(seed, inserts=True)
        longest: Any = tuple(
            max((e.ve - e.vs for e in t.events if e.ve < INF), default=1) for t in case.tables
        )
        endless = any(e.ve == INF for t in case.tables for e in t.events)
        if endless and case.how != "inner":
            continue

        def make(case: Case = case, longest: Any = longest) -> Join:
            return Join(LEFT, RIGHT, ON, case.where, case.how, longest=longest)

        laws.holds_that_a_start_at_reach_gives_all_that_is_wanted(
            make, case.told, case.wanted, case.rng.randrange(60)
        )


@pytest.mark.parametrize("name", ["facts", "left", "right"])
def test_a_snapshot_that_lacks_a_table_or_is_of_another_join_is_refused(name: str) -> None:
    state = dict(Join(LEFT, RIGHT, ON).snapshot())
    with pytest.raises(DecodeError):
        Join(LEFT, LEFT, [("k", "k")]).restore(state)
    del state[name]
    with pytest.raises(DecodeError):
        Join(LEFT, RIGHT, ON).restore(state)


def test_a_snapshot_with_a_lifetime_that_is_none_is_refused() -> None:
    join = Join(LEFT, RIGHT, ON, how="full")
    say(join, 0, "ins((k,1),0,9)")
    state = dict(join.snapshot())
    left = state["left"]
    for column, values in (("_ve", [0]), ("_settled", [10]), ("_settled", [-1])):
        at = left.schema.get_field_index(column)
        columns = [pa.array(values) if i == at else c for i, c in enumerate(left.columns)]
        broken = pa.RecordBatch.from_arrays(columns, schema=left.schema)
        with pytest.raises(DecodeError, match="lifetime"):
            Join(LEFT, RIGHT, ON, how="full").restore({**state, "left": broken})


def test_what_rows_of_a_key_have_in_common_is_held_once() -> None:
    schema = StreamSchema({"key": "string", "n": "int64"})
    join = Join(schema, schema, [("key", "key")], final_ends=(True, True))
    n = 2_000
    columns = [pa.array(["k" * 1_000] * n), pa.array(np.arange(n))]
    vs = np.arange(n)
    frame = Frame.from_columns(schema, vs, vs + n, columns)
    join.push(0, frame)
    assert join.nbytes < n * 100 + 10_000
    again = Join(schema, schema, [("key", "key")], final_ends=(True, True))
    again.restore(join.snapshot())
    for each in (join, again):
        each.validate()
        out = each.push(1, frame.slice(n - 1, 1)).frame.payload
        assert out.column("key").to_pylist() == ["k" * 1_000] * n
