"""What a query cannot mean, seen from more than one step: refused when the step is added.

window over a window                   the first one's lifetimes would be lost
window(on="x")                         x must progress, or no window is ever complete
aggregate(early=...) without a slide   there is no answer to give early
a step other than aggregate above a    which session a row is in depends on all rows: choose them
session window                         below it
any other step above counted rows      ranks would count rows that it leaves out, or twice
a join with a landmark window          its rows never end, so none is ever let go
"""

from __future__ import annotations

from collections.abc import Sequence

from gapless.engine import nodes
from gapless.engine.bucket_node import check_bucket
from gapless.engine.dedupe_node import check_dedupe
from gapless.engine.followed_by_node import check_followed_by
from gapless.engine.known import Properties
from gapless.engine.nodes import Node
from gapless.engine.ranked_nodes import check_sketched
from gapless.engine.window_times import check_bounds
from gapless.operators.windows import Cut, Landmark
from gapless.protocol.errors import Misuse


def check(node: Node, below: Sequence[Properties]) -> None:
    """Raises `Misuse` where a node has no meaning above inputs with these properties."""
    if not isinstance(node, nodes.Aggregate):
        _check_no_session(node)
        _check_no_counted_rows(below)
    match node:
        case nodes.Window() | nodes.Session() | nodes.RowWindow():
            _check_window(node, below[0])
        case nodes.Dedupe():
            check_dedupe(below[0])
        case nodes.LatestRows():
            _check_no_window(below[0])
        case nodes.Bucket():
            check_bucket(below[0])
        case nodes.Aggregate():
            _check_aggregate(node, below[0])
        case nodes.Join():
            _check_join(below)
        case nodes.FollowedBy():
            check_followed_by(below[0])
        case nodes.Top():
            _check_of_windows("top", below[0], "; top_k ranks the rows of every instant")
        case nodes.Heavy():
            _check_of_windows("heavy", below[0], "")
        case nodes.SketchedHeavy():
            check_sketched(below[0])


def _check_no_session(node: Node) -> None:
    if any(isinstance(below, nodes.Session) for below in node.inputs):
        raise Misuse(
            "a session window is answered by the aggregate directly above it, as in "
            "window(session='30s').aggregate(n=gl.count()): put where, select and the like below "
            "the window"
        )


def _check_no_counted_rows(below: Sequence[Properties]) -> None:
    for p in below:
        if p.hop is not None and not isinstance(p.hop.window, Cut | Landmark):
            raise Misuse(
                f"{p.window} counts rows, so it is answered by the aggregate directly above it, as "
                "in window(range=gl.rows(100), slide=gl.rows(10)).aggregate(n=gl.count()): put "
                "where, select, union and the like below the window"
            )


def _check_no_window(p: Properties) -> None:
    if p.window is not None:
        raise Misuse(
            f"window: its input is in a window already, {p.window}, whose lifetimes would be lost: "
            "aggregate or join first, or leave one of the two out"
        )


def _check_window(node: nodes.Window | nodes.Session | nodes.RowWindow, p: Properties) -> None:
    _check_no_window(p)
    if isinstance(node, nodes.RowWindow):
        return
    if node.on is not None and node.on not in p.starts and node.on not in p.progress:
        known = sorted({*p.progress, *p.starts})
        advice = f"{', '.join(known)} does" if known else "none does here"
        raise Misuse(
            f"window on={node.on!r}: nothing is promised of that column, so no window of it would "
            "ever be complete: say at the source how far before a row's time it is at most, as in "
            f"gl.source(.., progress={{{node.on!r}: '60s'}}). A source's time column progresses as "
            f"long as it is carried along; {advice}"
        )


def _check_aggregate(node: nodes.Aggregate, p: Properties) -> None:
    check_bounds(node, p, is_session=isinstance(node.input, nodes.Session))
    if p.hop is not None and p.hop.problem is not None:
        raise Misuse(f"aggregate: {p.hop.problem}")
    if isinstance(node.input, nodes.Session):
        return
    if isinstance(node.input, nodes.RowWindow):
        _check_counting(node, node.input)
    if node.early is not None and p.hop is None:
        raise Misuse(
            "aggregate early=: only windows with a slide are answered early, and sessions; else "
            "every answer is given as soon as it is known: say window(range=, slide=), or leave "
            "early out"
        )


def _check_of_windows(what: str, p: Properties, other: str) -> None:
    if p.hop is not None and p.hop.problem is not None:
        raise Misuse(f"{what}: {p.hop.problem}")
    if p.hop is None and (p.apart or (p.lasts is not None and p.grain % p.lasts == 0)):
        return
    raise Misuse(
        f"{what}: it is said of each window, and here are none: write window(range=, slide=) "
        f"before it, or put it behind an aggregate of such windows{other}"
    )


def _check_counting(node: nodes.Aggregate, window: nodes.RowWindow) -> None:
    if node.early is not None:
        raise Misuse(
            f"aggregate early=: {window} answers once ranks are final, and they never are early: "
            "leave early out, or use a window of time"
        )
    missing = [name for name in window.partition_by if name not in node.group_by]
    if missing:
        groups = ", ".join(repr(n) for n in (*window.partition_by, *node.group_by))
        raise Misuse(
            f"aggregate: {window} has answers by {', '.join(window.partition_by)}: say "
            f"group_by({groups}).aggregate(...)"
        )


def _check_join(below: Sequence[Properties]) -> None:
    for side, p in zip(("left", "right"), below, strict=True):
        if p.endless is not None:
            raise Misuse(
                f"join: rows of the {side} side live for ever, because of {p.endless}, and the "
                "join would keep them all: aggregate that side, say latest_by(...) so that each "
                "row is superseded, or give the window a range; followed_by pairs a row with one "
                "row before it, of any time"
            )
