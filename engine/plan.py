"""Plans: a query and the choices of how to run it.

    Plan(talkers)                                     everything by default
    Plan(talkers, implementation="wid")               every windowed aggregate counts by window
    Plan(talkers, implementation={"packets": "wid"})  the one that computes `packets` does
    Plan(talkers, implementation=two_level(slots=64)) few partials below, and panes above
    Plan(talkers, implementation="auto")              the cheapest of each, as far as the query says

Two plans of one query give the same table, so they may race each other. A plan is data like its
query: it travels, and `compile` makes the graph that runs it, a new one with each call. What "auto"
chose is part of it, so that everybody whom it reaches runs the same.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from gapless.engine import nodes
from gapless.engine.automatic import AUTO, Asked, automatic
from gapless.engine.compile import Compiler
from gapless.engine.graph import Graph
from gapless.engine.query import Query
from gapless.operators.aside import Aside
from gapless.operators.hopping_aggregate import DEFAULT, NAMES, Implementation
from gapless.operators.two_level import TwoLevelOptions
from gapless.protocol.documents import Document, Fields
from gapless.protocol.errors import DecodeError, Misuse
from gapless.protocol.tables import html_text

Choice = Asked | Mapping[str | nodes.Node, Asked]
"""One implementation for all windowed aggregates, or one for each that is named: by the name of a
column that it computes, or as a node. The others get the default."""


class Plan:
    """An immutable query with its choices."""

    __slots__ = ("_asked", "_chosen", "query")

    def __init__(self, query: Query, implementation: Choice = "paned") -> None:
        if not isinstance(query, Query):
            raise Misuse(f"a plan is made of a query, not of a {type(query).__name__}")
        self.query = query
        self._asked = _ask(_aggregates(query.root), implementation)
        self._chosen = {node: _chosen(query, node, way) for node, way in self._asked.items()}

    def compile(
        self,
        aside: Aside | None = None,
        clock: Callable[[], int] | None = None,
        memory_limit: int | None = None,
    ) -> Graph:
        """A new graph. `aside` gets the rows that cannot be processed; by default it does with them
        what the query says. `clock` counts nanoseconds, for `counters`.
        """
        aside = aside or Aside(self.query.on_error_mode)
        return Compiler(self.query, self._chosen, aside).graph(clock, memory_limit)

    @property
    def implementations(self) -> tuple[Implementation, ...]:
        """That of each aggregate, in the order of `nodes.walk`; of "auto" what it chose."""
        return tuple(self._chosen.values())

    @property
    def insert_only(self) -> bool:
        """Whether no event that it puts out is ever adjusted."""
        return self.query.properties.insert_only

    def explain(self) -> str:
        """What the query says, and what runs it."""
        graph = self.compile()
        lines = [self.query.explain(self._asked).rstrip(), "", "runs as"]
        for number, step in enumerate(graph.steps):
            read = ", ".join(str(origin) for origin in step.inputs)
            name = step.title or type(step.operator).__name__
            lines.append(f"  {number}  {name}  reads {read}")
        for name, grid in graph.grids.items():
            if grid > 1:
                lines.append(f"stables of {name} are thinned to multiples of {grid}")
        return "\n".join(lines)

    def to_document(self) -> Document:
        """The plan as plain data, except for functions of the user's, which are named."""
        return {
            "query": self.query.to_document(),
            "implementations": [_written(each) for each in self.implementations],
        }

    @staticmethod
    def from_document(
        document: Document, functions: Mapping[str, Callable[..., Any]] | None = None
    ) -> Plan:
        """The inverse, for documents from anybody: raises `DecodeError`."""
        fields = Fields(document, "plan")
        query = Query.from_document(fields.take("query", dict), functions)
        chosen = fields.take("implementations", list)
        fields.done()
        aggregates = _aggregates(query.root)
        if len(chosen) != len(aggregates):
            raise DecodeError(
                "plan.implementations", f"{len(chosen)} choices", f"{len(aggregates)} aggregates"
            )
        return Plan(query, dict(zip(aggregates, map(_read, chosen), strict=True)))

    def _repr_html_(self) -> str:
        return html_text(self.explain())

    def __repr__(self) -> str:
        return f"Plan of {self.query!r}"


def plan_of(query: Query | Plan, implementation: Choice | None = None) -> Plan:
    """A plan as it is, or one for a query."""
    if isinstance(query, Plan):
        if implementation is not None:
            raise Misuse("this is a plan, whose implementation is chosen: give the query instead")
        return query
    return Plan(query, "paned" if implementation is None else implementation)


def _aggregates(root: nodes.Node) -> list[nodes.Node]:
    return [node for node in nodes.walk(root) if isinstance(node, nodes.Aggregate)]


def _chosen(query: Query, node: nodes.Node, asked: Asked) -> Implementation:
    if asked != AUTO:
        return asked
    choice = automatic(query, node)
    return DEFAULT if choice is None else choice.implementation


def _ask(aggregates: list[nodes.Node], choice: Choice) -> dict[nodes.Node, Asked]:
    if not isinstance(choice, Mapping):
        return dict.fromkeys(aggregates, _known(choice))
    chosen: dict[nodes.Node, Asked] = dict.fromkeys(aggregates, DEFAULT)
    for key, value in choice.items():
        named = [node for node in aggregates if key is node or key in _names(node)]
        if len(named) != 1:
            names = ", ".join(name for node in aggregates for name in _names(node))
            many = f"{len(named)} aggregates compute" if named else "no aggregate computes"
            raise Misuse(f"implementation: {many} {key!r}; these are computed: {names or 'none'}")
        chosen[named[0]] = _known(value)
    return chosen


def _names(node: nodes.Node) -> list[str]:
    return [name for name, _ in node.aggregates] if isinstance(node, nodes.Aggregate) else []


def _known(implementation: Any) -> Asked:
    if isinstance(implementation, TwoLevelOptions):
        return implementation
    for each in (*NAMES, AUTO):
        if implementation == each:
            return each
    names = ", ".join((*NAMES, AUTO))
    raise Misuse(f"implementation {implementation!r}: use one of {names}, or gl.two_level(slots=)")


def _written(implementation: Implementation) -> Document:
    if isinstance(implementation, TwoLevelOptions):
        return implementation.to_document()
    return implementation


def _read(document: Document) -> Implementation:
    if isinstance(document, dict):
        return TwoLevelOptions.from_document(document)
    for each in NAMES:
        if document == each:
            return each
    raise DecodeError("plan.implementations", f"is {document!r:.50}", NAMES)
