"""Whether an output prefix is compatible with the input prefixes (LMerge paper, section III).

Compatible means: whatever the inputs may still say, the output can still be continued to say the
same. This module decides it from the tables and the stables alone, condition by condition. It
knows nothing of the algorithms in this folder: it is the oracle that their tests lean on, so it
is written from the conditions C1 to C3 and kept slow and plain.

L is the output's stable, L_m that of input m, `<p,vs,ve>` an event of its table.

With (payload, vs) as a key (the paper's case R3, and R0 to R2, which are stricter):

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

Without a key (case R4) a table may hold an event twice, and the paper gives one rule, for an output
that follows the input with the largest L_m. Here L may lag behind it, so the freeze status of both
tables is that at L, which the input knows for good as L <= L_m:

R4  Take the input with the largest L_m >= L whose table is complete at L. The output has exactly
    its events that are fully frozen at L, each as often, and for each (p, vs) as many that are
    half frozen at L. (Their ends may differ: both are at or above L, so they can still be moved.)

Inputs that left (detached, crashed) stay in the comparison: what they said is still part of the
one reference stream. Inputs that joined at t hold only events with ve >= t. C1 to C3 ask only what
inputs do say, so that needs no special case. R4 asks what an input does not say, too: it is told
from when on each knows its table (`join_at`; a feedback time that an input has obeyed counts as
one), passes over inputs that know less than L, and looks at ends from that time on.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from gapless.protocol.elements import BEGIN, Payload, format_time
from gapless.protocol.errors import BadData
from gapless.protocol.tdb import Event, Freeze, Tdb, freeze
from gapless.protocol.text import format_payload

RULES_EXPLAINED = "the rules are explained in gapless.merge.compatible"
"""Said below breaches: a reader who meets "C3.2" finds it at the head of this module."""
CLAIMS_TOLD_MAX = 3
"""Versions of an event that a breach lists; the first ones show what it is about."""


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


def compatible(
    inputs: Sequence[Tdb],
    output: Tdb,
    *,
    key: bool = True,
    join_at: Sequence[int] | None = None,
) -> list[Breach]:
    """The conditions that the output prefix breaks; empty where it is compatible.

    `key`: (payload, vs) is a key, so C1 to C3 must hold; otherwise C1 and R4. `join_at` says for
    each input from which end on its table is complete; by default all are complete.
    """
    breaches = _c1(inputs, output)
    if key:
        return breaches + _keyed(inputs, output)
    return breaches + _r4(inputs, output, join_at or [BEGIN] * len(inputs))


def check_compatible(
    inputs: Sequence[Tdb],
    output: Tdb,
    *,
    key: bool = True,
    join_at: Sequence[int] | None = None,
) -> None:
    """Raises `Incompatible` with every broken condition, and where they are explained."""
    breaches = compatible(inputs, output, key=key, join_at=join_at)
    if breaches:
        raise Incompatible("\n".join([*map(str, breaches), RULES_EXPLAINED]))


def _c1(inputs: Sequence[Tdb], output: Tdb) -> list[Breach]:
    latest = max((tdb.stable for tdb in inputs), default=BEGIN)
    if output.stable <= latest:
        return []
    ours, theirs = format_time(output.stable), format_time(latest)
    return [Breach("C1", f"output stable {ours}, largest input stable {theirs}")]


# -- with a key: C2 and C3 --------------------------------------------------------------------


def _keyed(inputs: Sequence[Tdb], output: Tdb) -> list[Breach]:
    stable = output.stable
    breaches = []
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


def _c2(event: Event, said: list[_Claim], stable: int) -> list[Breach]:
    at = format_time(stable)
    match freeze(event.vs, event.ve, stable):
        case Freeze.HALF:
            if not any(
                stable <= (c.stable if c.status is Freeze.HALF else c.event.ve) for c in said
            ):
                text = (
                    f"{event} is half frozen in the output at {at}, so it is there for good, and "
                    f"no input vouches for that: {_told(said)}"
                )
                return [Breach("C2", text)]
        case Freeze.FULL:
            if not any(c.status is Freeze.FULL and c.event == event for c in said):
                text = (
                    f"{event} is fully frozen in the output at {at}, and no input has just that "
                    f"fully frozen: {_told(said)}"
                )
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
                text = (
                    f"{c.event} is fully frozen in an input, and the output, stable at {at}, must "
                    f"have just that: it has {_state(held, stable)}"
                )
                breaches.append(Breach("C3.1", text))
        elif held is None or freeze(held.vs, held.ve, stable) is not Freeze.HALF:
            text = (
                f"{c.event} is fully frozen in an input, and the output, stable at {at}, can only "
                f"reach it from a half frozen event: it has {_state(held, stable)}"
            )
            breaches.append(Breach("C3.1", text))
    if not full and said:
        ahead = max(said, key=lambda c: c.stable)
        if stable > ahead.event.vs and not (
            stable <= ahead.stable
            and held is not None
            and freeze(held.vs, held.ve, stable) is Freeze.HALF
        ):
            text = (
                f"{ahead.event} is half frozen in an input at {format_time(ahead.stable)}: it is "
                f"there for good, and its end may still move; the output, stable at {at}, has "
                f"{_state(held, stable)}"
            )
            if held is not None and freeze(held.vs, held.ve, stable) is Freeze.FULL:
                text += ": its end can no longer move"
            elif held is not None:
                text += f": it can no longer follow an end below {at}"
            breaches.append(Breach("C3.2", text))
    return list(dict.fromkeys(breaches))  # inputs that agree make the same one


def _state(held: Event | None, stable: int) -> str:
    """What the output has, and how far it is frozen."""
    if held is None:
        return "no such event"
    return f"{held}, {freeze(held.vs, held.ve, stable).value}"


def _told(said: list[_Claim]) -> str:
    """What the inputs have instead."""
    told = (f"{c.event}, {c.status.value} at {format_time(c.stable)}" for c in said)
    claims = list(dict.fromkeys(told))
    shown = "; ".join(claims[:CLAIMS_TOLD_MAX]) or "no such event that is frozen"
    return f"they have {shown}{'; ...' * (len(claims) > CLAIMS_TOLD_MAX)}"


# -- without a key: R4 ------------------------------------------------------------------------


def _r4(inputs: Sequence[Tdb], output: Tdb, join_at: Sequence[int]) -> list[Breach]:
    stable = output.stable
    if stable == BEGIN:
        return []  # nothing is frozen
    pairs = zip(inputs, join_at, strict=True)
    complete = [(tdb, t) for tdb, t in pairs if t <= stable <= tdb.stable]
    at = format_time(stable)
    if not complete:
        return [Breach("R4", f"the output is stable at {at}, and no input knows its table there")]
    followed, known_from = max(complete, key=lambda pair: pair[0].stable)
    ours, theirs = output.since(known_from), followed.since(known_from)
    breaches = []
    full, wanted = ours.frozen(stable).counts(), theirs.frozen(stable).counts()
    for event in sorted((wanted - full) | (full - wanted), key=str):
        text = (
            f"{event} is fully frozen at {at}: {_times(wanted[event])} in the input that the "
            f"output must follow, {_times(full[event])} in the output"
        )
        breaches.append(Breach("R4", text))
    half, wanted_half = _half_frozen(ours, stable), _half_frozen(theirs, stable)
    for payload, vs in sorted((wanted_half - half) | (half - wanted_half), key=str):
        text = (
            f"an event {format_payload(payload)} from {vs} is half frozen at {at}: "
            f"{_times(wanted_half[payload, vs])} in the input that the output must follow, "
            f"{_times(half[payload, vs])} in the output"
        )
        breaches.append(Breach("R4", text))
    return breaches


def _times(n: int) -> str:
    return {0: "never", 1: "once"}.get(n, f"{n} times")


def _half_frozen(tdb: Tdb, stable: int) -> Counter[Key]:
    """How many events each (payload, vs) has that `stable` freezes half."""
    counts: Counter[Key] = Counter()
    for event, n in tdb.counts().items():
        if freeze(event.vs, event.ve, stable) is Freeze.HALF:
            counts[event.payload, event.vs] += n
    return counts
