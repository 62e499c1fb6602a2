"""What must hold of every operator, as functions over a stream that is told to it.

A stream is a list of (input, frame). `runs` folds what comes out, so an output that breaks its own
promises raises; each law calls it in another way and compares tables.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterable

from gapless.operators.operator import Operator, Out
from gapless.protocol.elements import BEGIN, INF, Stable
from gapless.protocol.frame import Frame
from gapless.protocol.tdb import Tdb
from gapless.protocol.variants import Telling, random_telling, tell

Told = list[tuple[int, Frame]]
Make = Callable[[], Operator]

PLAIN = Telling()
INSERTS = Telling(order="any", disorder=6, stable_every=3, frame_rows=4)
"""Inserts alone, out of order."""


def runs(operator: Operator, told: Iterable[tuple[int, Frame]]) -> Tdb:
    """The table that comes out; legal at every prefix, with an operator that is valid."""
    out = Tdb(operator.schema)
    for source, frame in told:
        follow(operator, out, source, frame)
    return out


def follow(operator: Operator, out: Tdb, source: int, frame: Frame) -> Out:
    """One push, folded into the table that has come out before."""
    pushed = operator.push(source, frame)
    operator.validate()
    stable = out.stable
    out.fold(pushed.frame)
    assert pushed.frame.stable is None or pushed.frame.stable > stable or stable == INF
    return pushed


def tellings(tdb: Tdb, seed: int, inserts: bool = False) -> list[Frame]:
    """The table told in a way that the seed decides; some seeds tell it plainly."""
    rng = random.Random(seed)
    if inserts:
        return tell(tdb, INSERTS if seed % 4 else PLAIN, seed)
    return tell(tdb, random_telling(rng) if seed % 4 else PLAIN, seed)


def woven(rng: random.Random, *streams: list[Frame]) -> Told:
    """Several inputs' frames in some order, each input's own kept."""
    left = [list(reversed(frames)) for frames in streams]
    told: Told = []
    while any(left):
        source = rng.choice([i for i, frames in enumerate(left) if frames])
        told.append((source, left[source].pop()))
    return told


def recut(rng: random.Random, told: Told) -> Told:
    """The same elements in smaller frames."""
    cut: Told = []
    for source, frame in told:
        at = 0
        while len(frame) - at > 1:
            step = rng.randint(1, len(frame) - at)
            if at + step == len(frame):
                break
            cut.append((source, frame.slice(at, step)))
            at += step
        cut.append((source, frame.slice(at, None, frame.stable)))
    return cut


def rows_and_stable(out: Out) -> tuple[Counter[object], int | None, object]:
    """What a push gave, whatever the order of its rows."""
    elements = out.frame.elements()
    return Counter(e for e in elements if not isinstance(e, Stable)), out.frame.stable, out.marks


def holds_that_a_restored_one_goes_on_the_same(make: Make, told: Told, at: int) -> None:
    """Stops before frame `at`, continues with a new one, and compares all that follows."""
    old = make()
    for source, frame in told[:at]:
        old.push(source, frame)
    state = old.snapshot()
    before = {name: batch.to_pylist() for name, batch in state.items()}
    new = make()
    new.restore(state)
    new.validate()
    for source, frame in told[at:]:
        assert rows_and_stable(new.push(source, frame)) == rows_and_stable(old.push(source, frame))
        new.validate()
    assert {name: batch.to_pylist() for name, batch in state.items()} == before


def holds_that_fast_forward_spares_only_what_ends_before(
    make: Make, told: Told, wanted: Tdb, rng: random.Random
) -> None:
    """Skips ahead now and then, and leaves out of the input what is not asked for any more.

    Rows of the input may be left out only where their end is final: in streams of inserts.
    """
    operator, out, skipped, needed = make(), Tdb(wanted.schema), BEGIN, BEGIN
    insert_only = all(frame.insert_only for _, frame in told)
    for source, given in told:
        if rng.random() < 0.3:
            skipped = max(skipped, rng.randint(0, 60))
            needed = operator.fast_forward(skipped)
            assert needed <= skipped
            operator.validate()
        kept = given
        if insert_only and len(given):
            kept = given.take(given.ve >= needed, given.stable)
        follow(operator, out, source, kept)
    assert out.since(skipped) == wanted.since(skipped), out.since(skipped).difference(
        wanted.since(skipped)
    )


def holds_that_a_start_at_reach_gives_all_that_is_wanted(
    make: Make, told: Told, wanted: Tdb, t: int
) -> None:
    """Starts with the rows of `t - reach` on, and wants the events that end at t or later."""
    operator = make()
    assert operator.reach < INF
    first = t - operator.reach
    late = [(source, frame.take(frame.ve >= first, frame.stable)) for source, frame in told]
    assert runs(operator, late).since(t) == wanted.since(t)
