"""What is known of a stream whose rows have new lifetimes: the rules of the steps that give them.

    window(range="10s")                   as long for all: ends rise with the starts
    window(range="10s", slide="1s")       starts and ends at whole seconds; an aggregate above
                                          answers it, so what remembers it is a `Hop`
    window("all", "1s", restart="1m")     ends at whole minutes, and a second more
    window(range="1s", on="seen")         starts are those of another column: in no order
    lifetime(end="till")                  how long, nobody knows
    latest_by("src")                      until the next row of the key: one at a time

Windows and lifetimes revise nothing that their input does not; `latest_by` moves an end when the
next row of the key comes. Who lives with whom is new after all of them: nothing stays unique that
was.
"""

from __future__ import annotations

from math import gcd
from typing import Any

from gapless.engine import nodes
from gapless.engine.disagreement import computed_may_differ
from gapless.engine.known import Hop, Properties
from gapless.operators.windows import Sliding
from gapless.protocol.elements import INF


def windowed(node: nodes.Window, p: Properties) -> Properties:
    """Of `window`."""
    on = None if node.on in p.starts else node.on
    covers, slide = node.restart or node.range, node.slide
    longest = INF if covers is None else covers
    lag = longest
    if covers is not None and slide is not None:
        longest, lag = -(-covers // slide) * slide, covers + slide
    exact = slide is None or covers is None or (covers % slide == 0 and node.restart is None)
    lasts = longest if exact else None
    at_start = slide is None and on is None
    grain = gcd(slide or 0, node.origin) or (gcd(p.grain, covers or 0) if on is None else 1)
    text = _window_text(node)
    return _lived(
        p,
        ordered=p.ordered and on is None,
        strictly_ordered=p.strictly_ordered and at_start,
        key=p.key and (at_start or bool(p.starts)),
        lasts=lasts,
        longest=longest,
        grain=grain,
        starts=p.starts if at_start else frozenset((on,)) if on and slide is None else frozenset(),
        progress=_lagging(p, None if on is None else on, lag),
        hop=_hop(node, on),
        window=text,
        endless=text if covers is None else None,
        own_reach=INF if covers is None or on is not None else min(INF, covers + (slide or 0)),
    )


def _hop(node: nodes.Window, on: str | None) -> Hop | None:
    return None if isinstance(node.window, Sliding) or node.slide is None else Hop(node.window, on)


def _window_text(node: nodes.Window) -> str:
    """As the query's author wrote it, in the unit of its times."""
    slide = "" if node.slide is None else f", slide={node.slide}"
    on = "" if node.on is None else f", on={node.on!r}"
    anew = "" if node.restart is None else f", restart={node.restart}"
    anew += f", origin={node.origin}" if node.origin else ""
    return f"window(range={'all' if node.range is None else node.range!r}{slide}{on}{anew})"


def _lagging(p: Properties, on: str | None, lag: int) -> dict[str, int]:
    """Columns that progress, where ends are `lag` after what was read: `_vs`, or the column `on`.

    A column that `_vs` is up to d after lags by so much more; beside `on` all lag without bound.
    """
    if on is not None:
        return {name: lag if name == on else INF for name in p.progress}
    after = {name: 0 if name in p.starts else most - 1 for name, most in p.progress.items()}
    return {name: min(INF, lag + most) for name, most in after.items()}


def with_lifetime(node: nodes.Lifetime, p: Properties) -> Properties:
    """Of `lifetime`."""
    lasts = node.duration
    why: tuple[str, ...] = ()
    if node.end is not None:
        end = f"lifetime end={node.end}"
        why = tuple(computed_may_differ(end, node.end, node.input.schema.payload))
    return _lived(
        p,
        ordered=p.ordered,
        strictly_ordered=p.strictly_ordered,
        key=p.key,
        lasts=lasts,
        longest=INF if lasts is None else lasts,
        grain=1 if lasts is None else gcd(p.grain, lasts),
        starts=p.starts,
        progress=_lagging(p, None, INF if lasts is None else lasts),
        own_reach=INF if lasts is None else lasts,
        own_divergence=why,
    )


def _lived(p: Properties, **own: Any) -> Properties:
    """After new lifetimes: events stay what they are, and who lives with whom is not known."""
    return Properties(
        insert_only=p.insert_only,
        ve_of_vs=own["lasts"] is not None,
        deterministic_ties=own["strictly_ordered"],
        group_marks=p.group_marks,
        no_nulls=p.no_nulls,
        **own,
    )


def latest(node: nodes.LatestBy, p: Properties) -> Properties:
    """Of `latest_by`."""
    return Properties(
        key=True,
        unique=node.key,
        grain=p.grain,
        starts=p.starts,
        group_marks=p.group_marks,
        own_reach=INF,
    )
