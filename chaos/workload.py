"""The simulated query and its data: a filter and a tumbling count over disordered rows.

`expected` recomputes the answer from the rows with plain Python, sharing nothing with the
operators: it is what the output is judged by.
"""

from __future__ import annotations

import random
from collections import Counter

from gapless.operators.aggregates.calls import count
from gapless.operators.filter import Filter
from gapless.operators.hopping import HoppingAggregate
from gapless.operators.operator import Chain
from gapless.operators.windows import Hopping
from gapless.protocol.elements import INF, Element, Insert, Stable
from gapless.protocol.expr import col
from gapless.protocol.frame import Frame
from gapless.protocol.schema import StreamSchema
from gapless.protocol.tdb import Event, Tdb

SOURCE = StreamSchema({"src": "string", "len": "int32"})
SLIDE = 10
LATENESS = 8
"""How far behind the watermark's front a row may come."""


def plan() -> Chain:
    """The query: where len > 2, then the count per src and tumbling window."""
    where = Filter(SOURCE, col("len") > 2)
    tumbling = Hopping(SLIDE, SLIDE)
    return Chain(where, HoppingAggregate(SOURCE, tumbling, ["src"], [("count", count())]))


def source_frames(rng: random.Random, frames: int) -> list[Frame]:
    """Rows in disorder inside the lateness bound, a watermark behind most frames, an end."""
    out = []
    front = 0
    for _ in range(frames):
        rows: list[Element] = []
        for _ in range(rng.randint(0, 6)):
            front += rng.randint(0, 4)
            ts = max(0, front - rng.randint(0, LATENESS))
            rows.append(Insert((rng.choice("abc"), rng.randint(0, 9)), ts, ts + 1))
        if rng.random() < 0.8 and front > LATENESS:
            rows.append(Stable(front - LATENESS))
        out.append(Frame.from_elements(SOURCE, rows))
    out.append(Frame.empty(SOURCE, INF))
    return out


def expected(frames: list[Frame]) -> Tdb:
    """The answer, from scratch."""
    counts: Counter[tuple[str, int]] = Counter()
    for frame in frames:
        for e in frame.elements():
            if isinstance(e, Insert) and e.payload[1] > 2:
                counts[e.payload[0], e.vs // SLIDE] += 1
    answers = [Event((src, n), (w + 1) * SLIDE, (w + 2) * SLIDE) for (src, w), n in counts.items()]
    return Tdb(plan().schema, answers)
