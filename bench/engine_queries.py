"""The engine bench's queries, and their plans with one step of another kind.

A baseline is the plan of the same query with some operators replaced (`instead`), or with one more
behind one (`behind`) or behind a source (`before`). So what is compared differs in that idea and in
nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from gapless.bench.netflow import (
    BAND_MS,
    FLOW_LATENESS_MS,
    FLOWS,
    RANGE_MS,
    SIDE,
    SIDE_LATENESS_MS,
    SLIDE_MS,
)
from gapless.engine.graph import Graph
from gapless.engine.plan import Plan
from gapless.engine.query import GroupedQuery, Query
from gapless.engine.source import source
from gapless.engine.steps import Step
from gapless.operators.aggregates import count, max_, sum_
from gapless.operators.operator import Operator
from gapless.protocol.errors import Bug
from gapless.protocol.expr import col
from gapless.protocol.schema import StreamSchema

# -- W1 to W3, and what is faster still -----------------------------------------------------------


def w1() -> Query:
    """Count and bytes by source over the last 10 s, every second."""
    return _by_source(RANGE_MS)


def w2() -> Query:
    """The same over each second."""
    return _by_source(SLIDE_MS)


def _by_source(range_ms: int) -> Query:
    flows = source("flows", FLOWS, time="ts", lateness=FLOW_LATENESS_MS)
    grouped = flows.window(range=range_ms, slide=SLIDE_MS).group_by("src")
    return grouped.aggregate(n=count(), bytes=sum_("len"))


def w3() -> Query:
    """Pairs of equal key that are no more than the band apart."""
    left, right = (
        source(name, SIDE, time="ts", lateness=SIDE_LATENESS_MS).window(range=BAND_MS + 1)
        for name in "ab"
    )
    return left.join(right, on="key")


LONG = 770
"""Half of the flows are longer."""


def chain() -> Query:
    """A filter that half of the rows pass, and a map."""
    flows = source("flows", FLOWS, time="ts", lateness=FLOW_LATENESS_MS)
    return flows.where(col("len") > LONG).select("src", bits=col("len") * 8)


# -- the paper's ----------------------------------------------------------------------------------


def largest(rows_in_window: int, rows_between: int, *group_by: str) -> Query:
    """Q6-2: the largest packet of the last rows; there is one row a millisecond, in order."""
    flows = source("flows", FLOWS, time="ts", lateness=0)
    windowed = flows.window(range=rows_in_window, slide=rows_between)
    return _grouped(windowed, group_by).aggregate(most=max_("len"))


def answered_pairs(window_ms: int, answer_ms: int) -> Query:
    """Q7-2: how many pairs there were, by the left rows' time."""
    left, right = (
        source(name, SIDE, time="ts", lateness=SIDE_LATENESS_MS).window(range=window_ms)
        for name in "ab"
    )
    pairs = left.join(right, on="key").select("ts")
    return pairs.window(range=answer_ms, slide=answer_ms, on="ts").aggregate(n=count())


def united(sources: Iterable[str], range_ms: int, slide_ms: int, *group_by: str) -> Query:
    """Q8-2, Q8-5: a count over the union of ordered streams."""
    first, *others = (source(name, FLOWS, time="ts", lateness=0) for name in sources)
    windowed = first.union(*others).window(range=range_ms, slide=slide_ms)
    return _grouped(windowed, group_by).aggregate(n=count())


def _grouped(windowed: Query, group_by: Sequence[str]) -> Query | GroupedQuery:
    return windowed.group_by(*group_by) if group_by else windowed


# -- plans with another step ----------------------------------------------------------------------

Make = Callable[[Operator], Operator]
"""A new operator, in place of the given one or behind it."""


def instead(plan: Plan, kind: type[Operator], make: Make) -> Graph:
    """The plan's graph, with other operators in place of those of this kind."""
    compiled = plan.compile()
    steps = list(compiled.steps)
    for place in _places(compiled, kind):
        steps[place] = Step(make(steps[place].operator), steps[place].inputs)
    return _graph(plan, compiled, steps)


def behind(plan: Plan, kind: type[Operator], make: Make) -> Graph:
    """The plan's graph, with one more operator between the one of this kind and its reader."""
    compiled = plan.compile()
    place = _place(compiled, kind)
    steps = list(compiled.steps[: place + 1])
    steps.append(Step(make(steps[place].operator), (place,)))
    for step in compiled.steps[place + 1 :]:
        inputs = (i + 1 if isinstance(i, int) and i >= place else i for i in step.inputs)
        steps.append(Step(step.operator, tuple(inputs)))
    return _graph(plan, compiled, steps)


def before(plan: Plan, name: str, make: Callable[[StreamSchema], Operator]) -> Graph:
    """The plan's graph, with one more operator between the source of this name and its readers."""
    compiled = plan.compile()
    steps = [Step(make(compiled.sources[name]), (name,))]
    for step in compiled.steps:
        inputs = ((0 if i == name else i) if isinstance(i, str) else i + 1 for i in step.inputs)
        steps.append(Step(step.operator, tuple(inputs)))
    return _graph(plan, compiled, steps)


def _place(graph: Graph, kind: type[Operator]) -> int:
    places = _places(graph, kind)
    if len(places) != 1:
        raise Bug(f"{len(places)} steps are a {kind.__name__}, the baseline has one more behind it")
    return places[0]


def _places(graph: Graph, kind: type[Operator]) -> list[int]:
    places = [i for i, step in enumerate(graph.steps) if isinstance(step.operator, kind)]
    if not places:
        raise Bug(f"no step is a {kind.__name__}, the baseline replaces some")
    return places


def _graph(plan: Plan, compiled: Graph, steps: list[Step]) -> Graph:
    times = {name: each.time for name, each in plan.query.sources.items()}
    return Graph(compiled.sources, steps, time_columns=times, grids=compiled.grids)
