"""The node of `bucket`: a row of a window with a slide, once for each window that it is in.

window("10s", "5s").bucket(end=gl.window_end())      each row twice, with the end of a window
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from gapless.engine.fit import check_names
from gapless.engine.known import Properties
from gapless.engine.node_base import NodeBase
from gapless.engine.window_times import offsets_of, time_type
from gapless.operators.aggregates.window_bounds import WindowBound, typed
from gapless.operators.bucket import bucket_schema
from gapless.operators.windows import Cut
from gapless.protocol.errors import Bug, Misuse

if TYPE_CHECKING:
    from gapless.engine.nodes import Node


@dataclass(frozen=True, eq=False, slots=True)
class Bucket(NodeBase):
    """Rows by window, with columns that say which."""

    input: Node
    bounds: tuple[tuple[str, WindowBound], ...]

    def __post_init__(self) -> None:
        for name, bound in self.bounds:
            if not isinstance(bound, WindowBound):
                raise Misuse(
                    f"bucket {name}: {bound!r} is not gl.window_start(), gl.window_end() or "
                    "gl.window_time()"
                )
        schema = self.input.schema
        check_names("bucket", [*schema.names, *(name for name, _ in self.bounds)])
        bounds = typed(self.bounds, time_type(self.input), schema.time_unit)
        object.__setattr__(self, "bounds", bounds)
        self._is(bucket_schema(schema, self.bounds), self.input)


def check_bucket(p: Properties) -> None:
    """Raises unless the input is in windows of which a row is in so many."""
    if p.hop is None or not isinstance(p.hop.window, Cut):
        raise Misuse(
            "bucket: gives a row once for each window that it is in: say window(range=, slide=) "
            "below it"
        )


def window_of(p: Properties) -> Cut:
    """The window that rows are in."""
    if p.hop is None or not isinstance(p.hop.window, Cut):
        raise Bug("a bucket without windows")
    return p.hop.window


def bucketed(node: Bucket, p: Properties) -> Properties:
    """What is known of the rows: where windows do not overlap they are as they were."""
    window = window_of(p)
    same = window.windows_per_row == 1
    known = offsets_of(dict(node.bounds), window)
    lags = {name: window.slide - offset for name, offset in known.items()}
    return replace(
        p,
        ordered=p.ordered and same,
        strictly_ordered=p.strictly_ordered and same,
        deterministic_ties=p.strictly_ordered and same,
        ve_of_vs=True,
        longest=window.slide,
        lasts=window.slide,
        apart=True,
        starts=frozenset(name for name, offset in known.items() if not offset),
        progress={**p.progress, **lags},
        hop=None,
        window=None,
        own_reach=0,
        own_divergence=(),
    )
