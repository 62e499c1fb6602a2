"""The machine under the per-instant operators: pieces, runs, what is kept and what is forgotten."""

import random
from collections import Counter, defaultdict
from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pytest

from gapless.operators.aggregates.counts import Count
from gapless.operators.aside import Aside
from gapless.operators.difference import Difference
from gapless.operators.distinct import Distinct
from gapless.operators.free_aggregate import FreeAggregate
from gapless.operators.per_snapshot import PerSnapshot
from gapless.operators.pieces import Spans, lay_out
from gapless.operators.rank_keys import desc
from gapless.operators.top_k import TopK
from gapless.protocol.elements import BEGIN, INF
from gapless.protocol.errors import SchemaError, StreamViolation
from gapless.protocol.frame import Frame
from gapless.protocol.schema import StreamSchema
from gapless.protocol.text import format
from tests.effort import cases
from tests.operators.instants import say

SCHEMA = StreamSchema({"g": "string", "x": "int64"})
LEFT = 0


def distinct() -> PerSnapshot:
    return Distinct(SCHEMA)


def difference() -> PerSnapshot:
    return Difference(SCHEMA)


def top_two() -> PerSnapshot:
    return TopK(SCHEMA, 2, (desc("x"),), ("g",), Aside())


def count() -> PerSnapshot:
    return FreeAggregate(SCHEMA, ("g",), [("n", Count())], Aside())


EACH = pytest.mark.parametrize("make", [distinct, difference, top_two, count])


def random_events(rng: random.Random, n: int) -> tuple[list[int], list[int], list[int]]:
    """Groups, starts and ends."""
    group = sorted(rng.randrange(4) for _ in range(n))
    vs = [rng.randrange(30) for _ in range(n)]
    ve = [INF if rng.random() < 0.1 else t + rng.choice((1, 3, 12)) for t in vs]
    return group, vs, ve


# -- pieces ---------------------------------------------------------------------------------------


def test_pieces_are_what_lies_between_the_boundaries_of_a_group() -> None:
    for seed in range(cases(200)):
        rng = random.Random(seed)
        group, vs, ve = random_events(rng, rng.randrange(12))
        since, until = rng.choice((BEGIN, 8)), rng.choice((9, 15, INF))
        kept = [i for i in range(len(vs)) if ve[i] >= since]
        of = np.array([group[i] for i in kept], np.int64)
        pieces, spans, after = lay_out(
            np.arange(4) + 10,
            of,
            np.array(kept, np.int64),
            np.array([vs[i] for i in kept], np.int64),
            np.array([ve[i] for i in kept], np.int64),
            since,
            until,
        )
        covers = defaultdict(set)
        for e, first, last in zip(spans.event, spans.first, spans.last, strict=True):
            for piece in range(first, last):
                covers[piece].add(int(e))
        times = zip(pieces.group, pieces.start, pieces.end, pieces.begins, strict=True)
        said: Counter[tuple[int, int]] = Counter()
        for piece, (g, start, end, begins) in enumerate(times):
            mine = [i for i in kept if group[i] + 10 == g]
            boundaries = {t for i in mine for t in (vs[i], ve[i])}
            alive = {i for i in mine if vs[i] <= start < ve[i]}
            assert start < until
            assert begins == (start in boundaries)
            assert covers[piece] == alive
            if alive:
                assert end == min(t for t in boundaries if t > start)
                for at in range(max(start, -1), min(end, 60)):
                    said[int(g), at] += 1
        for g in range(4):
            mine = [i for i in kept if group[i] == g]
            for at in range(max(since, -1), 60):
                if at < until and any(vs[i] <= at < ve[i] for i in mine):
                    assert said[g + 10, at] == 1, f"seed {seed}: {g} at {at}"
            ahead = [t for i in mine for t in (vs[i], ve[i]) if t >= until]
            assert after[g] == min(ahead, default=INF)


def test_nodes_of_a_run_cover_each_of_its_pieces_once_and_are_few() -> None:
    rng = random.Random(7)
    for _ in range(200):
        n = rng.randrange(1, 200)
        runs = [sorted((rng.randrange(n + 1), rng.randrange(n + 1))) for _ in range(5)]
        first, last = np.array(runs, np.int64).T
        spans = Spans(np.arange(5), first, last)
        covered: Counter[tuple[int, int]] = Counter()
        nodes: Counter[int] = Counter()
        for level, (which, places) in enumerate(spans.nodes()):
            for node, place in zip(which.tolist(), places.tolist(), strict=True):
                nodes[place] += 1
                for piece in range(node << level, (node + 1) << level):
                    covered[place, piece] += 1
        wanted = {(i, p): 1 for i, (a, b) in enumerate(runs) for p in range(a, b)}
        assert covered == wanted
        assert max(nodes.values(), default=0) <= 2 * n.bit_length()


# -- state ----------------------------------------------------------------------------------------


def stream(n: int, lasting: int = 0) -> list[Frame]:
    """Many short-lived rows of ever new payloads in few groups, after some that never end."""
    frames = []
    for i in range(n):
        vs = np.arange(20) + 20 * i
        ve = vs + 5
        ve[: lasting if i == 0 else 0] = INF
        groups = pa.array([f"group {j % 7 if j % 2 else i}" for j in range(20)])
        x = pa.array(np.arange(20) + 20 * i)
        frames.append(Frame.from_columns(SCHEMA, vs, ve, [groups, x], None, 20 * i + 20))
    return frames


@EACH
@pytest.mark.parametrize("lasting", [0, 3])
def test_state_is_flat_over_a_long_stream(make: Callable[[], PerSnapshot], lasting: int) -> None:
    operator = make()
    sizes, held = [], []
    for frame in stream(300, lasting):
        operator.push(LEFT, frame)
        if operator.inputs > 1:
            operator.push(1, Frame.empty(SCHEMA, frame.stable))
        sizes.append(operator.nbytes)
        held.append(len(operator))
    operator.validate()
    assert max(sizes[50:]) <= 1.5 * max(sizes[:50])
    assert max(held) <= 20 + lasting


@EACH
def test_the_end_of_all_streams_leaves_nothing(make: Callable[[], PerSnapshot]) -> None:
    operator = make()
    empty = operator.nbytes
    for source in range(operator.inputs):
        say(operator, "ins((A,1),0,inf) ins((A,1),3,9) ins((B,2),5,7) stable(6)", source)
    assert len(operator) > 0
    for source in range(operator.inputs):
        say(operator, "stable(inf)", source)
    assert len(operator) == 0
    assert operator.nbytes <= 2 * empty


@EACH
def test_rows_that_cancel_leave_nothing(make: Callable[[], PerSnapshot]) -> None:
    operator = make()
    assert say(operator, "ins((A,1),1,5) adj((A,1),1,5,9) adj((A,1),1,9,1)", LEFT) == []
    assert len(operator) == 0


def test_a_group_in_which_nothing_begins_or_ends_is_not_looked_at() -> None:
    operator = count()
    say(operator, "ins((A,1),0,1000) ins((B,1),0,3) stable(2)")
    for t in range(3, 50):
        say(operator, f"ins((C,1),{t},{t + 1}) stable({t})")
        looked_at = operator._events.groups.rows(operator._due(t + 1))["g"].to_pylist()
        assert "A" not in looked_at


# -- what is not as it should be ------------------------------------------------------------------


@EACH
def test_an_adjust_of_what_is_not_there_is_named_and_nothing_of_its_frame_counts(
    make: Callable[[], PerSnapshot],
) -> None:
    operator = make()
    say(operator, "ins((A,1),1,5)")
    with pytest.raises(StreamViolation) as caught:
        say(operator, "ins((B,1),1,9) adj((A,1),1,5,7) adj((C,1),2,6,8) ins((D,1),3,4)")
    assert caught.value.element == "adj((C,1),2,6,8)"
    operator.validate()
    assert len(operator) == 1
    say(operator, "adj((A,1),1,5,6) stable(inf)", LEFT)


@EACH
def test_a_frame_of_another_schema_is_refused(make: Callable[[], PerSnapshot]) -> None:
    with pytest.raises(SchemaError):
        make().push(LEFT, Frame.empty(StreamSchema({"g": "string"})))


def test_a_stable_that_says_nothing_new_is_not_passed_on() -> None:
    operator = distinct()
    assert format(say(operator, "ins((A,1),1,5) stable(3)")) == "ins((A,1),1,5) stable(3)"
    assert say(operator, "stable(3)") == []
    assert say(operator, "") == []
