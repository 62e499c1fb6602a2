"""Which case of LMerge serves, from what is known of the inputs (LMerge paper, section IV-D).

    an aggregate over an ordered stream: strictly rising starts             r0
    ties that always come in one order, as a top-k's in rank order          r1
    a grouped aggregate over an ordered stream: ties in any order           r2
    a grouped aggregate over a disordered stream: (vs, group) is a key      r3
    anything                                                                r4

The paper's top-k gives each rank once, as `top` does, of each window (and `heavy`): plans that end
there lead to r1. `top_k` says what holds at each instant, and adjusts what it has said, so it leads
to r3 or r4.

r1 is the narrow one. It counts elements at the newest start, so an input that lost one, or skipped
one because feedback said so, is off by one from there on. It serves only where nothing can be lost,
where inputs join between two starts, and where all events of a start end together when feedback
may skip them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from gapless.protocol.errors import Misuse

CaseName = Literal["r0", "r1", "r2", "r3", "r4"]


@dataclass(frozen=True, slots=True)
class StreamProperties:
    """What a stream is known to be; nothing, by default."""

    ordered: bool = False
    """Starts never fall."""
    strictly_ordered: bool = False
    """Starts rise with every element."""
    insert_only: bool = False
    """No event is ever adjusted."""
    key: bool = False
    """At no time two events with one (vs, payload)."""
    deterministic_ties: bool = False
    """Events of one start come in an order that their content decides."""
    ve_of_vs: bool = False
    """Events of one start end together."""
    lossless: bool = False
    """Between joining and leaving, no element is missing."""


def choose(properties: Sequence[StreamProperties], feedback: bool = True) -> tuple[CaseName, str]:
    """The strictest case that all inputs fit, and why, for a person.

    `feedback`: whether inputs may skip what the output has settled.
    """
    if not properties:
        raise Misuse("choose: no properties; say what each input is known to be")

    def every(*names: str) -> bool:
        return all(getattr(p, name) for p in properties for name in names)

    if every("insert_only", "strictly_ordered"):
        return "r0", "inserts only, with strictly rising starts"
    ordered = every("insert_only") and all(p.ordered or p.strictly_ordered for p in properties)
    fixed_ties = all(p.deterministic_ties or p.strictly_ordered for p in properties)
    if ordered and fixed_ties and every("lossless"):
        if not feedback or every("ve_of_vs"):
            return "r1", "inserts only, in order, ties in a fixed order, nothing lost"
        return (
            "r2",
            "inserts only, in order; r1 would miscount where feedback skips part of a start",
        )
    if ordered:
        return "r2", "inserts only, in order; ties in any order"
    if every("key"):
        return "r3", "(vs, payload) is a key"
    return "r4", "nothing is known that would allow less"
