"""What can be known of a stream: the words in which `properties.py` says it.

a windowed count by src     inserts only, in order, (vs, payload) a key, each lasts 1 s,
no two that live together share a src, all times are whole seconds
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from math import gcd
from typing import Any

from gapless.merge.choose import StreamProperties
from gapless.operators.row_windows import RowWindow
from gapless.operators.windows import Cut, Landmark
from gapless.protocol.elements import INF


@dataclass(frozen=True, slots=True)
class Hop:
    """The window with a slide that rows are in, for an aggregate to answer."""

    window: Cut | Landmark | RowWindow
    on: str | None
    """The column that it reads, by its present name; None: `_vs`."""
    problem: str | None = None
    """Why an aggregate cannot answer it."""


@dataclass(frozen=True, slots=True)
class Properties:
    """Of the stream that a node puts out. The first seven are LMerge's."""

    ordered: bool = False
    strictly_ordered: bool = False
    insert_only: bool = False
    key: bool = False
    deterministic_ties: bool = False
    ve_of_vs: bool = False
    lossless: bool = False
    unique: tuple[str, ...] | None = None
    """Columns whose values no two events share that are alive at one instant; () allows one event
    at a time; None: not known."""
    longest: int = INF
    """The longest lifetime."""
    lasts: int | None = None
    """How long every event lives, if all live equally long; INF: for ever."""
    grain: int = 1
    """What starts, ends and stables are multiples of, except for INF."""
    apart: bool = False
    """Whether no two events overlap but those that start and end together."""
    starts: frozenset[str] = frozenset()
    """Columns that equal `_vs` in every event."""
    progress: Mapping[str, int] = field(default_factory=dict)
    """Columns of which marks come, each with its lag: the most that an end is after its value."""
    no_nulls: bool = False
    """Whether no column of `progress` is ever null."""
    hop: Hop | None = None
    """The window that an aggregate above would answer; None: it would be over free lifetimes."""
    window: str | None = None
    """The window that set the lifetimes, in words, if nothing has used it yet."""
    endless: str | None = None
    """What gave events lifetimes that never end, in words, if anything did."""
    group_marks: bool = False
    """Whether marks may close single groups."""
    own_reach: int = 0
    """Of this step alone."""
    reach: Mapping[str, int] = field(default_factory=dict)
    """For each source how much time before t is needed, along the path that needs most."""
    own_divergence: tuple[str, ...] = ()
    """Why replicas might differ in what this step puts out, one sentence each."""
    may_diverge: tuple[str, ...] = ()
    """The same of this step and all below it."""

    @property
    def final_ends(self) -> bool:
        """Whether the end of an event never changes, once the event is there."""
        return self.insert_only

    @property
    def merge(self) -> StreamProperties:
        """What LMerge wants to know."""
        return StreamProperties(
            ordered=self.ordered,
            strictly_ordered=self.strictly_ordered,
            insert_only=self.insert_only,
            key=self.key,
            deterministic_ties=self.deterministic_ties,
            ve_of_vs=self.ve_of_vs,
            lossless=self.lossless,
        )


def per_instant(p: Properties, *others: Properties, **own: Any) -> Properties:
    """What says what holds at each instant, in normal form."""
    return Properties(
        key=own["unique"] is not None,
        grain=gcd(p.grain, *(o.grain for o in others)),
        group_marks=p.group_marks or any(o.group_marks for o in others),
        own_reach=INF,
        **own,
    )


def passed(p: Properties, **changed: Any) -> Properties:
    """What passes events as they are."""
    return replace(p, own_reach=0, **{"own_divergence": (), **changed})
