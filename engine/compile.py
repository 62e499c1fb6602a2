"""From what a query says to operators that do it: nodes become the steps of a graph.

    Aggregate by src                        1 HoppingAggregate(10 s / 1 s, by src)
      Where len > 0                 ->      0 Filter(len > 0)
        Window 10 s / 1 s
          Source flows                      source flows

Most nodes become one operator each. What is more than that:

- A window with a slide under an aggregate, maybe below conditions, computed columns and unions, is
  part of the aggregate: it is left out where it stands, which changes nothing there, because those
  steps look at payloads and it at `_vs` alone. (A column that it reads with `on=` is followed
  through new names.) A window elsewhere sets lifetimes.
- A windowed aggregate counts rows that stay, and `latest_by` lets rows take over for good. Where
  their input revises itself a step holds events until they can only get another end.
- A node that two others read becomes one operator and a fork; equal nodes are still two.
- A source's stables are thinned to the slides above it, where nothing in between looks at them.
- What progresses besides `_vs` travels as marks: asked of sources and joins only below windows that
  read it, and below aggregates at each instant whose groups it closes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import gcd

from gapless.engine import nodes
from gapless.engine.bucket_node import window_of
from gapless.engine.column_progress import bounds_text
from gapless.engine.extremes import extremes_of
from gapless.engine.graph import Graph
from gapless.engine.marks_read import reads_a_column, with_marks
from gapless.engine.plain_operators import operator_of
from gapless.engine.query import Query
from gapless.engine.steps import Step
from gapless.engine.window_times import offsets, offsets_of
from gapless.engine.words import node_text
from gapless.operators.aggregates.filtered import Named, conditions_below
from gapless.operators.aside import Aside
from gapless.operators.bounded_columns import BoundedColumns
from gapless.operators.bucket import Bucket
from gapless.operators.cleanse import Cleanse
from gapless.operators.filter import Filter
from gapless.operators.followed_by import FollowedBy
from gapless.operators.free_aggregate import FreeAggregate
from gapless.operators.held import HeldAggregate
from gapless.operators.hopping_aggregate import DEFAULT, HoppingAggregate, Implementation
from gapless.operators.join import Join
from gapless.operators.join_marks import JoinProgress
from gapless.operators.lifetimes import SetLifetimes
from gapless.operators.meld import Meld
from gapless.operators.operator import Operator
from gapless.operators.progress import Progress
from gapless.operators.row_window import RowWindowAggregate
from gapless.operators.row_windows import LastRows, RowWindow
from gapless.operators.select import Select
from gapless.operators.session_aggregate import SessionAggregate
from gapless.operators.settle import Settle
from gapless.operators.windows import Cut, Landmark
from gapless.protocol.elements import INF
from gapless.protocol.errors import Bug, Misuse
from gapless.protocol.expr import col
from gapless.protocol.schema import StreamSchema

NO_ANSWER = (
    "a session window has no answer of its own: aggregate its sessions, as in "
    "window(session='30s').aggregate(n=gl.count())"
)
THROUGH = 0
"""The grid of a step that gives its input's stables on as they are."""
Origin = str | int
"""A source's name or a step's number."""


class Compiler:
    """Makes one graph of one query."""

    def __init__(
        self, query: Query, chosen: Mapping[nodes.Node, Implementation], aside: Aside
    ) -> None:
        self._chosen = chosen
        self._aside = aside
        self._steps: list[Step] = []
        self._sources: dict[str, nodes.Source] = {}
        self._made: dict[tuple[nodes.Node, bool], Origin] = {}
        self._known = query.derived
        self._with_marks = with_marks(query.root, self._known)
        self._grids: list[int] = []  # what a step makes of stables: see `_thinned`
        self._compile(query.root)

    def graph(
        self, clock: Callable[[], int] | None = None, memory_limit: int | None = None
    ) -> Graph:
        """The graph."""
        return Graph(
            {name: source.schema for name, source in self._sources.items()},
            self._steps,
            clock=clock,
            memory_limit=memory_limit,
            time_columns={s.name: s.time for s in self._sources.values() if s in self._with_marks},
            grids=self._thinned(),
        )

    # -- nodes --------------------------------------------------------------------------------

    def _compile(self, node: nodes.Node, bare: bool = False) -> Origin:
        """Where a node's output comes from; `bare`: without the windows that the aggregate above
        takes over.
        """
        made = self._made.get((node, bare))
        if made is None:
            made = self._made[node, bare] = self._make(node, bare)
        return made

    def _make(self, node: nodes.Node, bare: bool) -> Origin:
        match node:
            case nodes.Source():
                return self._source(node)
            case nodes.Where():
                below = self._compile(node.input, bare)
                operator: Operator = Filter(node.input.schema, node.predicate, self._aside)
                return self._add(operator, node, [below], THROUGH)
            case nodes.Select():
                below = self._compile(node.input, bare)
                extremes = extremes_of(node, self._known[node.input])
                told = extremes if node in self._with_marks else ()
                operator = Select(node.input.schema, node.columns, self._aside, extremes=told)
                return self._add(operator, node, [below], THROUGH)
            case nodes.Union():
                all_below = [self._compile(each, bare) for each in node.inputs]
                operator = Meld(node.schema, len(all_below))
                return self._add(operator, node, all_below, THROUGH)
            case nodes.Window():
                below = self._compile(node.input)
                return below if bare else self._window(node, below)
            case nodes.Bucket():
                return self._bucket(node)
            case nodes.Session():
                raise Misuse(NO_ANSWER)
            case nodes.RowWindow():
                raise Misuse(f"{node} has no answer of its own: put an aggregate above it")
            case (
                nodes.Dedupe()
                | nodes.LatestBy()
                | nodes.LatestRows()
                | nodes.Top()
                | nodes.Heavy()
                | nodes.SketchedHeavy()
            ):
                answers = isinstance(node, nodes.SketchedHeavy)  # of the window below
                below = self._settled(node.input, self._compile(node.input, bare=answers))
                return self._add(operator_of(node, self._known, self._aside), node, [below])
            case nodes.Aggregate():
                return self._aggregate(node)
            case nodes.Join() | nodes.FollowedBy():
                return self._join(node) if isinstance(node, nodes.Join) else self._followed(node)
        inputs: list[Origin] = [self._compile(each) for each in node.inputs]
        return self._add(operator_of(node, self._known, self._aside), node, inputs)

    def _source(self, node: nodes.Source) -> Origin:
        known = self._sources.setdefault(node.name, node)
        if not known.alike(node):
            raise Misuse(
                f"source {node.name!r} is described in two ways; describe it once and use that"
            )
        if known is not node:  # another node of one source: its rows are looked at once
            return self._compile(known)
        return self._bounded(node) if node.progress else node.name

    def _bounded(self, node: nodes.Source) -> Origin:
        """Its rows without those of which a column is further before their time than declared."""
        told = bounds_text(node.progress, node.time, node.schema.time_unit)
        operator = BoundedColumns(node.schema, node.progress, told, self._aside, node.name)
        step = self._add(operator, node, [node.name], THROUGH, f"{node.name}: {', '.join(told)}")
        return self._progressing(node, step, {name: -by for name, by in node.progress})

    def _window(self, node: nodes.Window, below: Origin) -> Origin:
        """A window that nobody takes over."""
        on = node.on if reads_a_column(node, self._known) else None
        operator = SetLifetimes(node.schema, node.window, on, self._aside)
        grid = gcd(node.slide, node.origin) if node.slide is not None and on is None else 1
        return self._add(operator, node, [below], grid)

    def _bucket(self, node: nodes.Bucket) -> Origin:
        window = window_of(self._known[node.input])
        below = self._compile(node.input)
        operator = Bucket(node.input.schema, window, node.bounds, self._aside)
        step = self._add(operator, node, [below], THROUGH)
        return self._progressing(node, step, offsets_of(dict(node.bounds), window))

    def _aggregate(self, node: nodes.Aggregate) -> Origin:
        p = self._known[node.input]
        if isinstance(node.input, nodes.Session):
            return self._session_aggregate(node, node.input)
        if p.hop is None:
            below = self._compile(node.input)
            below, schema, aggregates = self._with_conditions(node, below)
            operator: Operator = FreeAggregate(schema, node.group_by, aggregates, self._aside)
            return self._add(operator, node, [below])
        if not isinstance(p.hop.window, Cut | Landmark):
            return self._counted(node, p.hop.window)
        below = self._settled(node.input, self._compile(node.input, bare=True))
        below, schema, aggregates = self._with_conditions(node, below)
        slides = node.early is None and p.hop.on is None
        grid = gcd(p.hop.window.slide or 1, p.hop.window.origin) if slides else 1
        if isinstance(p.hop.window, Landmark):
            operator = HeldAggregate(
                schema,
                p.hop.window,
                node.group_by,
                aggregates,
                on=p.hop.on,
                early=node.early,
                aside=self._aside,
            )
            step = self._add(operator, node, [below], grid, f"{node_text(node)} (held)")
            return self._progressing(node, step, offsets(node, p))
        implementation = self._chosen.get(node, DEFAULT)
        operator = HoppingAggregate(
            schema,
            p.hop.window,
            node.group_by,
            aggregates,
            implementation,
            on=p.hop.on,
            early=node.early,
            aside=self._aside,
        )
        step = self._add(operator, node, [below], grid, f"{node_text(node)} ({implementation})")
        return self._progressing(node, step, offsets(node, p))

    def _with_conditions(
        self, node: nodes.Aggregate, below: Origin
    ) -> tuple[Origin, StreamSchema, Named]:
        """Its rows and aggregates with the conditions of `where=` computed, as `map` would."""
        schema = node.input.schema
        aggregates, conditions = conditions_below(node.aggregates, schema.names)
        if not conditions:
            return below, schema, aggregates
        kept = ((name, col(name)) for name in schema.names)
        operator = Select(schema, (*kept, *conditions), self._aside, "aggregate")
        title = f"conditions of {node_text(node)}"
        return self._add(operator, node, [below], THROUGH, title), operator.schema, aggregates

    def _session_aggregate(self, node: nodes.Aggregate, session: nodes.Session) -> Origin:
        below = self._settled(session.input, self._compile(session.input))
        below, schema, aggregates = self._with_conditions(node, below)
        operator = SessionAggregate(
            schema,
            session.gap,
            session.partition_by,
            node.group_by,
            aggregates,
            on=session.on if reads_a_column(session, self._known) else None,
            early=node.early,
            aside=self._aside,
        )
        step = self._add(operator, node, [below], title=f"{node_text(node)} (sessions)")
        return self._progressing(node, step, offsets(node, self._known[session]))

    def _progressing(self, node: nodes.Node, below: Origin, columns: Mapping[str, int]) -> Origin:
        """Its rows, with marks of these columns where a window above reads one."""
        if not columns or node not in self._with_marks:
            return below
        title = f"progress of {', '.join(columns)}"
        return self._add(Progress(node.schema, columns), node, [below], THROUGH, title)

    def _counted(self, node: nodes.Aggregate, window: RowWindow) -> Origin:
        counted = node.input
        if not isinstance(counted, nodes.RowWindow):
            raise Bug("windows that count rows are right below what answers them")
        below = self._settled(counted.input, self._compile(counted.input))
        below, schema, aggregates = self._with_conditions(node, below)
        operator = RowWindowAggregate(
            schema,
            window,
            counted.partition_by,
            node.group_by,
            aggregates,
            aside=self._aside,
        )
        grid = window.slide if isinstance(window, LastRows) else 1
        return self._add(operator, node, [below], grid, f"{node_text(node)} (held)")

    def _settled(self, node: nodes.Node, below: Origin) -> Origin:
        """A node's events, held until they stay where it revises itself."""
        if self._known[node].insert_only:
            return below
        return self._add(Settle(node.schema), node, [below], THROUGH, "settle")

    def _join(self, node: nodes.Join) -> int:
        inputs = [self._compile(each) for each in node.inputs]
        left, right = (self._known[each] for each in node.inputs)
        progressing = [
            JoinProgress(side, column, lag, p.grain)
            for side, p in enumerate((left, right))
            for column, lag in p.progress.items()
            if lag < INF and node in self._with_marks
        ]
        operator = Join(
            node.left.schema,
            node.right.schema,
            node.on,
            node.where,
            node.how,
            self._aside,
            progressing,
            (left.final_ends, right.final_ends),
            (left.longest, right.longest),
        )
        return self._add(operator, node, inputs)

    def _followed(self, node: nodes.FollowedBy) -> int:
        left = self._settled(node.left, self._compile(node.left))
        right = self._compile(node.right)
        if not self._known[node.right].insert_only:  # a pair ends where its row does
            right = self._add(Cleanse(node.right.schema), node, [right], title="cleanse")
        operator = FollowedBy(
            node.left.schema,
            node.right.schema,
            node.on,
            node.where,
            node.within,
            node.pick,
            self._aside,
            self._known[node.right].longest,
        )
        return self._add(operator, node, [left, right])

    def _add(
        self,
        operator: Operator,
        node: nodes.Node,
        below: list[Origin],
        grid: int = 1,
        title: str = "",
    ) -> int:
        self._steps.append(Step(operator, tuple(below), title or node_text(node)))
        self._grids.append(grid)
        return len(self._steps) - 1

    def _thinned(self) -> dict[str, int]:
        """By source, the multiples of time that its stables are of interest at.

        A step with slide s makes something of a stable only where it passes a multiple of s; one
        that puts stables on as they are has its readers' interest; all others see every stable.
        """
        grids: dict[Origin, int] = {}
        for number in reversed(range(len(self._steps))):
            own = self._grids[number] or grids.get(number, 1)
            for origin in self._steps[number].inputs:
                grids[origin] = gcd(own, grids.get(origin, 0))
        return {name: grids.get(name, 1) for name in self._sources}
