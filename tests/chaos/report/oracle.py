"""What a report has to say of a record, recomputed row by row in plain Python: slow, and plain.

Its rules are those that chaos/report/sights.py states, written a second time: nothing of the report
is used here.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from statistics import median
from typing import NamedTuple

from gapless.chaos.drill.outcome import Strike
from gapless.chaos.judge.record import Kind, Record, Seen

ENDLESS = 2**62


class Silence(NamedTuple):
    """A pause of an output."""

    who: str
    begin_ms: int
    end_ms: int
    is_over: bool = True


def rows_of(record: Record, kind: Kind, who: str | None = None) -> list[Seen]:
    return [seen for seen in record.seen(kind) if who is None or seen.who == who]


def names_of(record: Record, kind: Kind) -> set[str]:
    return {seen.who for seen in record.seen(kind)}


def end_ms(record: Record, strikes: Sequence[Strike]) -> int:
    """When the last thing was seen."""
    seen = [seen.at_ms for seen in record.seen()]
    return max([*seen, *map(over_ms, strikes), 0])


def over_ms(strike: Strike) -> int:
    """When all of a fault had been done."""
    return strike.at_ms if strike.healed_ms is None else strike.healed_ms


def silences(record: Record, strikes: Sequence[Strike] = ()) -> list[Silence]:
    """All pauses, the longest first."""
    found = []
    for who in names_of(record, "output"):
        rows = rows_of(record, "output", who)
        moments = [seen.at_ms for seen in rows if seen.rows]
        gaps = [b - a for a, b in pairwise(moments)]
        bar = max(200, 3 * median(gaps)) if gaps else 200
        found += [Silence(who, a, b) for a, b in pairwise(moments) if b - a > bar]
        has_ended = any((seen.stable or 0) >= ENDLESS for seen in rows)
        last = end_ms(record, strikes)
        if moments and not has_ended and last - moments[-1] > bar:
            found.append(Silence(who, moments[-1], last, is_over=False))
    return sorted(found, key=lambda s: (s.begin_ms - s.end_ms, s.begin_ms, s.who))


def unseen_ms(rows: Sequence[Seen]) -> float:
    """A look that comes later than this leaves a gap."""
    gaps = [b - a for a, b in pairwise(sorted({seen.at_ms for seen in rows}))]
    return max(1_500, 5 * median(gaps)) if gaps else 1_500


def running_share(record: Record, slot: str) -> float | None:
    """Of the time from 0 on in which a slot was looked at."""
    rows = rows_of(record, "slot", slot)
    gaps = [b.at_ms - a.at_ms for a, b in pairwise(rows)]
    apart = unseen_ms(rows)
    spent: dict[str | None, float] = {}
    for a, b in pairwise(rows):
        until = b.at_ms
        if until - a.at_ms > apart:
            until = a.at_ms + round(median(gaps))
        ms = max(0, until - max(0, a.at_ms))
        spent[a.state] = spent.get(a.state, 0) + ms
    total = sum(spent.values())
    return spent.get("running", 0) / total if total else None


def lives_count(record: Record, slot: str) -> int:
    """How many lives were in a slot from 0 on."""
    rows = rows_of(record, "slot", slot)
    seen = {a.text for a, b in pairwise(rows) if b.at_ms > 0} | {
        seen.text for seen in rows if seen.at_ms > 0
    }
    return len({text for text in seen if text and "/" in text})


def progress(record: Record, slot: str) -> list[tuple[int, float]]:
    """Stream seconds a second at each look: over the last second, or since the look before."""
    rows = rows_of(record, "slot", slot)
    apart = unseen_ms(rows)
    found = []
    for life in {seen.text for seen in rows}:
        known = [
            (seen.at_ms, seen.stable)
            for seen in rows
            if seen.text == life and seen.stable is not None and abs(seen.stable) < ENDLESS
        ]
        piece: list[tuple[int, int]] = []
        for at, stable in known:
            if piece and at - piece[-1][0] > apart:
                piece = []
            piece.append((at, stable))
            if len(piece) < 2:
                continue
            since = next(p for p in piece[-100:] if p[0] >= at - 1_000)  # looks come not so often
            if since[0] == at:
                since = piece[-2]
            if 2 * (at - since[0]) >= 1_000:
                found.append((at, (stable - since[1]) / (at - since[0])))
    return sorted(found)


def lags_ms(record: Record, slot: str) -> list[tuple[int, int]]:
    return [
        (seen.at_ms, seen.lag_ms)
        for seen in rows_of(record, "slot", slot)
        if seen.lag_ms is not None and seen.lag_ms < ENDLESS
    ]


def ends(values: Sequence[float]) -> tuple[float, float, float]:
    """The median of the first and the last tenth, and the most."""
    tenth = max(1, len(values) // 10)
    return median(values[:tenth]), median(values[-tenth:]), max(values)


def whole_after_ms(record: Record, strikes: Sequence[Strike], strike: Strike) -> int | None:
    """From when all of a fault was done until the job was whole; None where another struck between,
    except for those that strike within a second.
    """
    over = over_ms(strike)
    later = [seen.at_ms for seen in record.seen("whole") if seen.at_ms > over]
    if not later:
        return None
    if any(over + 1_000 < other.at_ms < min(later) for other in strikes):
        return None
    return min(later) - over
