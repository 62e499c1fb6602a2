"""What a client pushes that is examined: events that are adjusted long after they seemed over.

    step t        insert n=t, from t up to t+3
    (t > 8)       adjust n=t-8, from its end t-5 to t+32
                  stable t-10
    (t % 4 == 0)  wait until all is acknowledged
    at the end    stable INF, detach

The sidecar that is played is always far ahead of that, as if another copy led: its durable stable
passes the first end of each event before the client adjusts it. A client that forgets by that
alone can no longer say the adjust.
"""

from __future__ import annotations

from gapless.protocol.elements import INF, Adjust, Element, Insert, Stable
from gapless.protocol.schema import StreamSchema

SCHEMA = StreamSchema({"n": "int64"})
STREAM = "conformance"
FENCED_STREAM = "conformance-fenced"
ROUND = 4
"""Steps that are pushed before all is waited for: twice as many frames as there is credit for."""
STEPS = 60
"""More than all scenarios take; then comes the end of the stream."""
LIFE, LATE, LONGER, LAG = 3, 8, 40, 10
LEAD = 30
"""How far the output is ahead of the client."""


def step(t: int) -> list[Element]:
    """What is pushed at step t, of 1 to STEPS; one frame, or part of one."""
    elements: list[Element] = [Insert((t,), t, t + LIFE)]
    if t > LATE:
        n = t - LATE
        elements.append(Adjust((n,), n, n + LIFE, n + LONGER))
    return [*elements, Stable(t - LAG)]


def end() -> list[Element]:
    """What is pushed after the last step, before the detach."""
    return [Stable(INF)]


def final(n: int) -> int:
    """Where the event of step n ends in the end."""
    return n + (LONGER if n + LATE <= STEPS else LIFE)
