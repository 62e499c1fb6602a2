"""Oracle and harness for operators that say what holds at each instant.

The oracle looks at one instant after the other, asks a plain Python function what holds there, and
puts the answers together in normal form. It knows nothing of frames, ids, pieces or stables.
"""

import random
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence

from gapless.operators.operator import Operator
from gapless.operators.per_snapshot import PerSnapshot
from gapless.protocol.elements import BEGIN, INF, Adjust, Element, Insert, Payload, Stable
from gapless.protocol.frame import Frame
from gapless.protocol.schema import StreamSchema
from gapless.protocol.tdb import Event, Tdb
from gapless.protocol.text import parse
from gapless.protocol.variants import random_telling, tell

Alive = Counter[Payload]
Relation = Callable[[list[Alive]], Alive]
"""What holds at an instant, from what is alive there in each input."""
Step = tuple[int, Frame]
"""A frame of an input."""


def changes(tdbs: Sequence[Tdb]) -> list[int]:
    """The instants at which anything changes."""
    return sorted({t for tdb in tdbs for e in tdb.counts() for t in (e.vs, e.ve) if t < INF})


def by_instant(relation: Relation, tdbs: Sequence[Tdb], schema: StreamSchema) -> Tdb:
    """The table that the operator must give for these."""
    starts: defaultdict[Payload, list[int]] = defaultdict(list)
    ends: defaultdict[Payload, list[int]] = defaultdict(list)
    before: Alive = Counter()
    for at in changes(tdbs):
        now = relation([tdb.snapshot(at) for tdb in tdbs])
        for payload in now | before:
            rise = now[payload] - before[payload]
            starts[payload] += [at] * rise
            ends[payload] += [at] * -rise
        before = now
    for payload, n in before.items():
        ends[payload] += [INF] * n
    return Tdb(
        schema,
        [
            Event(payload, vs, ve)
            for payload, all_starts in starts.items()
            for vs, ve in zip(all_starts, ends[payload], strict=True)
        ],
    )


def told(tdbs: Sequence[Tdb], rng: random.Random, seed: int) -> list[Step]:
    """The tables as streams, each told in some way, interleaved in some way."""
    streams = [tell(tdb, random_telling(rng), seed + i) for i, tdb in enumerate(tdbs)]
    turns = [i for i, frames in enumerate(streams) for _ in frames]
    rng.shuffle(turns)
    left = [iter(frames) for frames in streams]
    return [(i, next(left[i])) for i in turns]


def run(operator: Operator, steps: Sequence[Step]) -> Tdb:
    """What comes out, folded, so that it is legal at every prefix; validated after each step."""
    out = Tdb(operator.schema)
    for source, frame in steps:
        out.fold(operator.push(source, frame).frame)
        operator.validate()
    return out


def run_tight(operator: Operator, relation: Relation, steps: Sequence[Step]) -> Tdb:
    """The same, and after each step what has been promised is all there, and nothing else."""
    out = Tdb(operator.schema)
    said = [Tdb(frame.schema) for _, frame in steps[:1] for _ in range(operator.inputs)]
    for source, frame in steps:
        said[source].fold(frame)
        out.fold(operator.push(source, frame).frame)
        operator.validate()
        t = min(tdb.stable for tdb in said)
        assert out.stable == t, "it promises what its inputs do"
        assert all(e.vs < t for e in out.counts()), "what starts later may still change"
        for at in (*changes(said), *(e.vs for e in out.counts())):
            if at < t:
                now = relation([tdb.snapshot(at) for tdb in said])
                assert out.snapshot(at) == now, f"at {at}, stable {t}"
    return out


def run_with_snapshot(make: Callable[[], Operator], steps: Sequence[Step], cut: int) -> None:
    """An operator and one restored from its snapshot put the same out from there on."""
    first = make()
    for source, frame in steps[:cut]:
        first.push(source, frame)
    second = make()
    second.restore(first.snapshot())
    second.validate()
    for source, frame in steps[cut:]:
        one, other = (each.push(source, frame).frame.elements() for each in (first, second))
        assert sorted(one, key=repr) == sorted(other, key=repr)
    assert first.fast_forward(0) == second.fast_forward(0) == BEGIN


def frame_of(schema: StreamSchema, text: str) -> Frame:
    return Frame.from_elements(schema, parse(text, schema))


def say(operator: PerSnapshot, text: str, source: int = 0) -> list[Element]:
    """Pushes what the notation says; the elements that come out, rows in a fixed order."""
    out = operator.push(source, frame_of(operator._input, text)).frame
    operator.validate()
    rows: list[Insert | Adjust] = [
        e for e in out.with_stable(None).elements() if not isinstance(e, Stable)
    ]
    stables = [] if out.stable is None else [Stable(out.stable)]
    return [*sorted(rows, key=lambda e: (e.vs, repr(e))), *stables]
