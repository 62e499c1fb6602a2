"""A query's plan for people: each step with what is known of it, and what follows for the whole.

    aggregate by src: n=count()        paned; reach 11 s; inserts only, in order of start, ...
      window range 10 s, slide 1 s
        source netflow (ts, src)       inserts only
    reach: netflow 11 s                how far before t a replica reads, to be right from t on
    LMerge: r2: ...                    the case that races this query's replicas, and why
    may diverge: nothing               what replicas might not agree on
    costs: ...                         what the query asks for that takes much, and what takes less
    on error: stop

The last step comes first, as it is what was asked for; below it are its inputs. A step that two
others read has a number, and is shown once. Properties are shown where they are other than below.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from gapless.engine import nodes
from gapless.engine.automatic import AUTO, Asked, automatic
from gapless.engine.costs import costs
from gapless.engine.durations import text
from gapless.engine.lateness import KLate, TimeLate, is_ordered
from gapless.engine.nodes import Node
from gapless.engine.words import node_text, properties_text
from gapless.merge.choose import choose
from gapless.operators.hopping_aggregate import DEFAULT
from gapless.operators.windows import Cut
from gapless.protocol.elements import INF

if TYPE_CHECKING:
    from gapless.engine.query import Query

Implementation = Asked | Mapping[Node, Asked] | None
"""Of all windowed aggregates, or of each; None, and for those that are left out: the default."""

NOTE_COLUMN_MAX = 72
"""Characters: steps that are longer do not move the notes of the others."""


def explain(query: Query, implementation: Implementation = None) -> str:
    """The whole of it, as lines; `implementation` is that of windowed aggregates."""
    steps = list(_tree(query, implementation))
    width = max(
        (len(step) for step, note in steps if note and len(step) <= NOTE_COLUMN_MAX), default=0
    )
    lines = [f"{step:<{width}}  {note}" if note else step for step, note in steps]
    lines += _functions(query)
    lines += _whole(query, implementation)
    return "\n".join(lines)


def in_short(query: Query) -> str:
    """One line: the last step, its columns, and what it reads."""
    columns = ", ".join(query.schema.names)
    return f"{node_text(query.root)} -> ({columns}), reads {', '.join(query.sources)}"


# -- the tree -------------------------------------------------------------------------------------


def _tree(query: Query, implementation: Implementation) -> Iterator[tuple[str, str]]:
    """Steps with their indentation, each with its note."""
    known = query.derived
    readers = Counter(below for node in known for below in node.inputs)
    shared = [node for node in known if readers[node] > 1]
    shown: set[Node] = set()
    answered = _answered(query)
    left = [(query.root, 0)]
    while left:
        node, level = left.pop()
        mark = f"#{shared.index(node) + 1} " if node in shared else ""
        if node in shown:
            yield f"{'  ' * level}{mark}as above", ""
            continue
        shown.add(node)
        step = f"{'  ' * level}{mark}{node_text(node)}"
        notes = (
            *_done(node, query, implementation),
            *([] if node in answered else _looks_back(node, query)),
            *_told(node, query),
        )
        yield step, "; ".join(notes)
        left += [(below, level + 1) for below in reversed(node.inputs)]


def _done(node: Node, query: Query, implementation: Implementation) -> Iterator[str]:
    """How it is done, where there is a choice."""
    known = query.derived
    if isinstance(node, nodes.Race):
        yield f"LMerge {': '.join(choose([known[n].merge for n in node.inputs]))}"
    if isinstance(node, nodes.Window | nodes.RowWindow | nodes.LatestRows):
        yield node.context
    if isinstance(node, nodes.Aggregate):
        hop = known[node.input].hop
        if isinstance(node.input, nodes.Session):
            yield "sessions, merged"
        elif hop is None:
            yield "at every instant"
        else:
            cut = isinstance(hop.window, Cut)
            yield " ".join(_chosen(node, query, implementation)) if cut else "held"


def _chosen(node: Node, query: Query, implementation: Implementation) -> tuple[str, ...]:
    """The implementation, and of "auto" why it is that."""
    each = implementation.get(node) if isinstance(implementation, Mapping) else implementation
    choice = automatic(query, node) if each == AUTO else None
    if choice is not None:
        return choice.implementation, f"(auto: {choice.why})"
    return (str(DEFAULT if each is None or each == AUTO else each),)


def _looks_back(node: Node, query: Query) -> Iterator[str]:
    """How far before t it reads, to be right from t on; a window's answers with what it reads."""
    known = query.derived
    reach = known[node].own_reach
    answers = isinstance(node, nodes.Aggregate | nodes.SketchedHeavy)
    if answers and known[node.inputs[0]].hop is not None:
        reach = max(known[node].reach.values())
    if reach:
        yield f"reach {text(reach, node.schema.time_unit)}"


def _answered(query: Query) -> set[Node]:
    """Windows whose rows nothing reads but aggregates that answer them: they are no steps of their
    own, and their reach is the aggregate's.
    """
    known = query.derived
    readers: dict[Node, list[Node]] = {node: [] for node in known}
    for node in known:
        for below in node.inputs:
            readers[below].append(node)
    return {
        node
        for node in known
        if isinstance(node, nodes.Window | nodes.RowWindow)
        and known[node].hop is not None
        and all(
            isinstance(reader, nodes.Aggregate | nodes.SketchedHeavy)
            for reader in _ends(node, readers, query)
        )
    }


def _ends(node: Node, readers: dict[Node, list[Node]], query: Query) -> Iterator[Node]:
    """Who reads the rows of a window, behind steps that only pass them on."""
    if node is query.root:
        yield node
    for reader in readers[node]:
        if query.derived[reader].hop is not None:
            yield from _ends(reader, readers, query)
        else:
            yield reader


def _told(node: Node, query: Query) -> Iterator[str]:
    """Its properties, unless they are its input's."""
    known = properties_text(node, query.derived[node])
    below = [properties_text(n, query.derived[n]) for n in node.inputs]
    if below != [known] or node is query.root:
        yield known


# -- what follows ---------------------------------------------------------------------------------


def _functions(query: Query) -> Iterator[str]:
    """What the aggregates declare of themselves."""
    declared = {}
    for node in query.derived:
        if isinstance(node, nodes.Aggregate):
            payload = node.input.schema.payload
            for _, function in node.aggregates:
                slides = function.accumulator(payload).differential
                kind = "bounded" if function.bounded else "holistic"
                how = "differential" if slides else "recombined"
                declared[str(function)] = f"{kind}, {how}: {function.sub}, then {function.super_}"
    if declared:
        yield "aggregates:"
        width = max(map(len, declared))
        for name, kind in declared.items():
            yield f"  {name:<{width}}  {kind}"


def _whole(query: Query, implementation: Implementation) -> Iterator[str]:
    p = query.properties
    yield f"reach: {', '.join(f'{name} {_reach(query, name)}' for name in query.sources)}"
    yield f"LMerge: {': '.join(choose([p.merge, p.merge]))}"
    yield from _listed("may diverge", p.may_diverge)
    judged = [name for name, source in query.sources.items() if _by_arrival(source)]
    if judged:
        yield (
            f"late rows: of {', '.join(judged)} found by order of arrival; replicas share a "
            "journal's verdict"
        )
    chosen = {
        node: _chosen(node, query, implementation)[0]
        for node in query.derived
        if isinstance(node, nodes.Aggregate)
    }
    dear = tuple(costs(query, chosen))
    if dear:
        yield from _listed("costs", dear)
    yield f"on error: {query.on_error_mode}"


def _reach(query: Query, name: str) -> str:
    reach = query.properties.reach[name]
    return "all" if reach == INF else text(reach, query.sources[name].schema.time_unit)


def _listed(title: str, sentences: tuple[str, ...]) -> list[str]:
    if not sentences:
        return [f"{title}: nothing"]
    return [f"{title}:", *(f"  {sentence}" for sentence in sentences)]


def _by_arrival(source: nodes.Source) -> bool:
    return isinstance(source.lateness, KLate | TimeLate) and not is_ordered(source.lateness)
