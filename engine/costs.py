"""What a plan has to do that a person may not have meant: one sentence each, with what to do.

    window range 24 h, slide 1 s     each group has 86,400 windows open, and is answered for 24 h
                                     after its last row: a longer slide answers less often

None of it is wrong, and the engine does it without a cliff; but it is what the query asks for, so
only another query costs less. What each operator costs is in docs/engine.md.
"""

from __future__ import annotations

from collections.abc import Iterator

from gapless.engine import nodes
from gapless.engine.durations import text
from gapless.engine.functions import UserFunction
from gapless.engine.known import Hop, Properties
from gapless.engine.lateness import Watermarks
from gapless.engine.query import Query
from gapless.engine.words import node_text
from gapless.operators.aggregates.custom import Custom
from gapless.operators.windows import Cumulating, Cut
from gapless.protocol.elements import INF

OPEN_MANY = 600
"""Open windows of a group that are worth a word: ten minutes by the second, which dashboards ask
for, is still fine."""
OPEN_MANY_WID = 60
"""The same where each row is counted in each of its windows."""
REVISED_MANY = 60
"""Provisional answers that one row may revise: each is a removal and an insert."""


def costs(query: Query, chosen: dict[nodes.Aggregate, str]) -> Iterator[str]:
    """The sentences, inputs first; `chosen` is the implementation of each windowed aggregate."""
    known = query.derived
    for node in known:
        where = node_text(node)
        for sentence in _of_node(node, known[node], query, chosen):
            yield f"{where}: {sentence}"


def _of_node(
    node: nodes.Node, own: Properties, query: Query, chosen: dict[nodes.Aggregate, str]
) -> Iterator[str]:
    below = [query.derived[n] for n in node.inputs]
    match node:
        case nodes.Select():
            yield from _functions(node)
        case nodes.Where() if isinstance(node.predicate, UserFunction):
            yield from _called(node.predicate)
        case nodes.LatestBy() | nodes.LatestRows():
            yield from _unpromised(query, own)
        case nodes.Aggregate():
            hop = below[0].hop
            if hop is None:
                yield from _endless(below)
            else:
                yield from _windows(node, hop, chosen.get(node, ""))
            yield from _custom(node, hop)
        case nodes.Join():
            if not node.on:
                yield (
                    "each row is held against every row of the other side that is alive with it: "
                    "name columns that are to be equal, on="
                )
        case nodes.FollowedBy() if node.within is None:
            yield _never_too_old(node)
        case nodes.Distinct() | nodes.TopK() | nodes.Difference() | nodes.Normalise():
            yield from _endless(below)


# -- windows --------------------------------------------------------------------------------------


def _windows(node: nodes.Aggregate, hop: Hop, implementation: str) -> Iterator[str]:
    window, unit = hop.window, node.schema.time_unit
    if not isinstance(window, Cut):
        return
    windows = window.windows_per_row
    if implementation == "wid" and windows >= OPEN_MANY_WID:
        yield (
            f"wid counts each row in each of its {windows:,} windows: leave the implementation to "
            "be paned, which counts it once"
        )
    if windows >= OPEN_MANY:
        until = (
            "until the next restart"
            if isinstance(window, Cumulating)
            else f"for {text(window.range, unit)} after its last row"
        )
        yield (
            f"each group has {windows:,} windows open and is answered every "
            f"{text(window.slide, unit)} {until}: a longer slide answers less often"
        )
    if node.early is not None:
        revised = windows if node.early == INF else min(windows, node.early // window.slide + 1)
        if revised >= REVISED_MANY:
            yield (
                f"each row revises up to {revised:,} early answers, a removal and an insert each: "
                "say early= for as far ahead as somebody looks"
            )


_PARTS = "in Python for each frame and group, and merge for each two answers"


def _custom(node: nodes.Aggregate, hop: Hop | None) -> Iterator[str]:
    is_session = isinstance(node.input, nodes.Session)
    when = "at each change" if hop is None and not is_session else "of each window"
    for name, function in node.aggregates:
        own = function.unfiltered
        if isinstance(own, Custom):
            asked = f"with all values of each group, {when}" if own.merge is None else _PARTS
            yield (
                f"{name} calls your function {asked}: count, sum, quantile or another of ours "
                "costs much less, if it says the same"
            )


# -- functions and lifetimes ----------------------------------------------------------------------


def _functions(node: nodes.Select) -> Iterator[str]:
    for _, computed in node.columns:
        if isinstance(computed, UserFunction):
            yield from _called(computed)


def _called(function: UserFunction) -> Iterator[str]:
    yield (
        f"{function} is called in Python for each frame, and for halves of a frame with a row "
        "that it fails for: work on whole columns, and leave nothing to raise"
    )


def _endless(below: list[Properties]) -> Iterator[str]:
    reasons = [p.endless for p in below if p.endless is not None]
    if reasons:
        yield (
            f"rows live for ever, because of {reasons[0]}, so each one is held: give them an end "
            "with window(range) or lifetime, or take the latest of each key with latest_by"
        )


def _never_too_old(node: nodes.FollowedBy) -> str:
    held = "the last row of each key of the left is held for ever"
    if node.pick == "chronicle":
        held = "each row of the left that none follows is held for ever"
    elif node.where is not None:
        held = "each row of the left is held for ever, as where= may hold for it alone"
    return f"{held}: say within= how long a row may be followed"


def _unpromised(query: Query, own: Properties) -> Iterator[str]:
    silent = [
        name
        for name, source in query.sources.items()
        if name in own.reach and isinstance(source.lateness, Watermarks)
    ]
    if silent:
        yield (
            f"every row is held until {silent[0]} promises that none before it comes: have its "
            "input say so often, with Punctuation.of, or declare a lateness"
        )
