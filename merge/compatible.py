"""Whether an output prefix is compatible with the input prefixes (LMerge paper, III; case R3).

Compatible means: whatever the inputs may still say, the output can still be continued to say the
same. This module decides it from the tables and the stables alone, condition by condition. It
knows nothing of the algorithms in this folder: it is the oracle that their tests lean on, so it
is written from the conditions C1 to C3 and kept slow and plain.

L is the output's stable, L_m that of input m, `<p,vs,ve>` an event of its table.

C1  L is at most the largest L_m.
C2  The output has at most one event for each (p, vs), and if it is
      half frozen,   some input has it half frozen with L <= L_m, or fully frozen with L <= its ve;
      fully frozen,  some input has the very same event fully frozen.
C3  The output has an event for (p, vs), or can still get it, when
      1. some input has <p,vs,ve> fully frozen: then L <= vs, or vs < L <= ve and the output has
         it half frozen, or ve < L and the output has exactly <p,vs,ve>;
      2. none has, but some has it half frozen: take the one with the largest L_m; then L <= vs,
         or vs < L <= L_m and the output has it half frozen.

C2 is printed with `L_m <= L` for the half-frozen case. That lets through an output that can no
longer follow: with L = 13 and an input at stable(11) with <A,2,12>, nothing forbids the input to
keep that end, and the output cannot go below 13. It has to be `L <= L_m`, as in C3.2; see
docs/decisions/0001-compatibility-c2.md.

Inputs that left (detached, crashed) stay in the comparison: what they said is still part of the
one reference stream. Inputs that joined at t hold only events with ve >= t; the conditions ask
only what inputs do say, so that needs no special case.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from gapless.protocol.elements import BEGIN, Payload, format_time
from gapless.protocol.errors import BadData
from gapless.protocol.tdb import Event, Freeze, Tdb, freeze


@dataclass(frozen=True, slots=True)
class Breach:
    """One condition that does not hold, and for which event."""

    rule: str
    why: str

    def __str__(self) -> str:
        return f"{self.rule}: {self.why}"


class Incompatible(BadData):
    """An output that can no longer be continued to agree with its inputs."""


@dataclass(frozen=True, slots=True)
class _Claim:
    """What one input says of one (payload, vs)."""

    event: Event
    status: Freeze
    stable: int


Key = tuple[Payload, int]


def compatible(inputs: Sequence[Tdb], output: Tdb) -> list[Breach]:
    """The conditions that the output prefix breaks; empty where it is compatible."""
    stable = output.stable
    latest = max((tdb.stable for tdb in inputs), default=BEGIN)
    breaches = []
    if stable > latest:
        text = f"output stable {format_time(stable)}, largest input stable {format_time(latest)}"
        breaches.append(Breach("C1", text))
    claims: dict[Key, list[_Claim]] = defaultdict(list)
    for tdb in inputs:
        for event in tdb.counts():
            status = freeze(event.vs, event.ve, tdb.stable)
            if status is not Freeze.UNFROZEN:
                claims[event.payload, event.vs].append(_Claim(event, status, tdb.stable))
    held: dict[Key, Event] = {}
    for event, n in output.counts().items():
        key = (event.payload, event.vs)
        if n > 1 or key in held:
            breaches.append(Breach("C2", f"the output has more than one event like {event}"))
        held[key] = event
        breaches += _c2(event, claims.get(key, []), stable)
    for key, said in claims.items():
        breaches += _c3(held.get(key), said, stable)
    return breaches


def check_compatible(inputs: Sequence[Tdb], output: Tdb) -> None:
    """Raises `Incompatible` with every broken condition."""
    breaches = compatible(inputs, output)
    if breaches:
        raise Incompatible("\n".join(map(str, breaches)))


def _c2(event: Event, said: list[_Claim], stable: int) -> list[Breach]:
    at = format_time(stable)
    match freeze(event.vs, event.ve, stable):
        case Freeze.HALF:
            if not any(
                stable <= (c.stable if c.status is Freeze.HALF else c.event.ve) for c in said
            ):
                text = f"{event} is half frozen at {at} and no input can vouch for it"
                return [Breach("C2", text)]
        case Freeze.FULL:
            if not any(c.status is Freeze.FULL and c.event == event for c in said):
                text = f"{event} is fully frozen at {at} and in no input it is"
                return [Breach("C2", text)]
    return []


def _c3(held: Event | None, said: list[_Claim], stable: int) -> list[Breach]:
    at = format_time(stable)
    breaches = []
    full = [c for c in said if c.status is Freeze.FULL]
    for c in full:
        if stable <= c.event.vs:
            continue
        if freeze(c.event.vs, c.event.ve, stable) is Freeze.FULL:
            if held != c.event:
                text = f"{c.event} is settled, the output has {held} at {at}"
                breaches.append(Breach("C3.1", text))
        elif held is None or freeze(held.vs, held.ve, stable) is not Freeze.HALF:
            text = f"{c.event} is settled, the output cannot reach it from {held} at {at}"
            breaches.append(Breach("C3.1", text))
    if not full and said:
        ahead = max(said, key=lambda c: c.stable)
        if stable > ahead.event.vs and not (
            stable <= ahead.stable
            and held is not None
            and freeze(held.vs, held.ve, stable) is Freeze.HALF
        ):
            text = f"{ahead.event} is there for good, the output has {held} at {at}"
            breaches.append(Breach("C3.2", text))
    return breaches
