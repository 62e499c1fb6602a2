"""The temporal database (TDB) that a stream describes (LMerge paper, section II).

    ins(A,6,20) adj(A,6,20,30) stable(11) adj(A,6,30,25)      the stream so far
    {<A, [6,25)>}, stable 11                                   its TDB

A TDB is a multiset of events <payload, [vs, ve)>. Two streams are the same when their TDBs are
equal, whatever elements led there, so every claim of correctness in this product is a claim about
TDBs, and this class is the judge: written for plainness, one element at a time, and strict. A
stream that breaks its own promises is refused with the element and the rule that it breaks.

What a stable t freezes: an event is *fully frozen* once ve < t (nothing about it can change),
*half frozen* once vs < t <= ve (it exists for good, its end may still move, though not below t),
and *unfrozen* before. stable(INF) freezes everything, ends at INF included.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from enum import Enum
from typing import Any, NamedTuple

from gapless.protocol.elements import (
    BEGIN,
    INF,
    Adjust,
    Element,
    Insert,
    Payload,
    Stable,
    format_time,
)
from gapless.protocol.errors import SchemaError, StreamViolation
from gapless.protocol.frame import Frame
from gapless.protocol.schema import StreamSchema
from gapless.protocol.text import format_element, format_payload

DIFFERENCE_LINES_MAX = 20
"""Events that a difference lists on each side; a person reads no more."""


class Event(NamedTuple):
    """One row of the table: a payload and its lifetime [vs, ve)."""

    payload: Payload
    vs: int
    ve: int

    def __str__(self) -> str:
        return f"<{format_payload(self.payload)}, [{self.vs},{format_time(self.ve)})>"


class Freeze(Enum):
    """How far a stable has frozen an event."""

    UNFROZEN = "unfrozen"
    HALF = "half frozen"
    FULL = "fully frozen"


def freeze(vs: int, ve: int, stable: int) -> Freeze:
    """The freeze status of a lifetime under a stable time."""
    if stable <= vs:
        return Freeze.UNFROZEN
    return Freeze.FULL if ve < stable or stable == INF else Freeze.HALF


class Tdb:
    """The events of one stream prefix, and the last stable it promised."""

    def __init__(self, schema: StreamSchema, events: Iterable[Event] = ()) -> None:
        self.schema = schema
        self.stable = BEGIN
        self._counts: Counter[Event] = Counter(events)

    # -- following a stream -------------------------------------------------------------------

    def fold(self, frame: Frame) -> None:
        """Applies a frame whole, or raises `StreamViolation` and applies nothing of it."""
        if frame.schema != self.schema:
            raise SchemaError(f"the table holds {self.schema}, the frame {frame.schema}")
        self.fold_elements(frame.elements())

    def fold_elements(self, elements: Iterable[Element]) -> None:
        """Like `fold`, for elements one by one."""
        counts, stable = self._counts, self.stable
        undo: list[tuple[Event, int]] = []

        def count(event: Event, by: int) -> None:
            counts[event] += by
            if not counts[event]:
                del counts[event]
            undo.append((event, -by))

        try:
            for e in elements:
                self._check_promise(e)
                match e:
                    case Insert(payload, vs, ve):
                        count(Event(payload, vs, ve), 1)
                    case Adjust(payload, vs, was, ve):
                        before = Event(payload, vs, was)
                        if before not in counts:
                            raise StreamViolation(
                                format_element(e),
                                f"an adjust changes an event that is there, and {before} is not",
                            )
                        count(before, -1)
                        if ve != vs:
                            count(Event(payload, vs, ve), 1)
                    case Stable(t):
                        self.stable = t
        except StreamViolation:
            for event, by in reversed(undo):
                count(event, by)
            self.stable = stable
            raise

    def _check_promise(self, e: Element) -> None:
        stable, at = self.stable, format_time(self.stable)
        match e:
            case Insert(_, vs, _) if vs < stable:
                raise StreamViolation(
                    format_element(e), f"after stable({at}) no insert has vs < {at}"
                )
            case Adjust(_, _, was, ve) if was < stable or ve < stable:
                raise StreamViolation(
                    format_element(e), f"after stable({at}) no adjust has was < {at} or ve < {at}"
                )
            case Stable(t) if t < stable:
                raise StreamViolation(
                    format_element(e), f"stables never go back, and {at} was promised"
                )

    # -- looking at it ------------------------------------------------------------------------

    @property
    def events(self) -> list[Event]:
        """All events, each as often as it is there, by start, end and payload."""
        return sorted(self._counts.elements(), key=_order)

    def counts(self) -> Counter[Event]:
        """How often each event is there."""
        return Counter(self._counts)

    def frozen(self, t: int | None = None) -> Tdb:
        """The part that stable `t` (by default the stream's own) freezes fully."""
        at = self.stable if t is None else t
        return self._where(lambda e: freeze(e.vs, e.ve, at) is Freeze.FULL)

    def since(self, t: int) -> Tdb:
        """The part with `ve >= t`: what a stream that joins at `t` must describe."""
        return self._where(lambda e: e.ve >= t)

    def snapshot(self, at: int) -> Counter[Payload]:
        """The payloads that are alive at instant `at`, with their counts."""
        alive: Counter[Payload] = Counter()
        for (payload, vs, ve), n in self._counts.items():
            if vs <= at < ve:
                alive[payload] += n
        return alive

    def to_frame(self) -> Frame:
        """The table as inserts in the order of `events`, followed by its stable."""
        rows = Frame.from_elements(self.schema, [Insert(*e) for e in self.events])
        return rows.with_stable(None if self.stable == BEGIN else self.stable)

    def difference(self, other: Tdb) -> str:
        """What one has and the other lacks, for a person; empty where they are equal."""
        lines = []
        for sign, counts in (
            ("only left:  ", self._counts - other._counts),
            ("only right: ", other._counts - self._counts),
        ):
            listed = sorted(counts.items(), key=lambda item: _order(item[0]))
            lines += [f"{sign}{e}" + (f" x{n}" if n > 1 else "") for e, n in listed][
                :DIFFERENCE_LINES_MAX
            ]
            if len(listed) > DIFFERENCE_LINES_MAX:
                lines.append(f"{sign}... {len(listed) - DIFFERENCE_LINES_MAX} more")
        return "\n".join(lines)

    def _where(self, keep: Any) -> Tdb:
        part = Tdb(self.schema)
        part.stable = self.stable
        part._counts = Counter({e: n for e, n in self._counts.items() if keep(e)})
        return part

    def __len__(self) -> int:
        return self._counts.total()

    def __contains__(self, event: object) -> bool:
        return event in self._counts

    def __eq__(self, other: object) -> bool:
        """The same schema and the same events; how far each is stable does not matter."""
        if not isinstance(other, Tdb):
            return NotImplemented
        return self.schema == other.schema and self._counts == other._counts

    __hash__ = None  # type: ignore[assignment]  # mutable

    def __repr__(self) -> str:
        return f"Tdb({len(self)} events, stable {format_time(self.stable)})"


def _order(e: Event) -> tuple[int, int, str]:
    return e.vs, e.ve, format_payload(e.payload)
