"""What a query's table is, by the definitions of docs/engine.md and nothing else.

    RowOracle({"a": [(3, "x", 7), (5, "x", 2)]}).table(node) -> [Event(("x", 9), 10, 20)]

Slow and plain: the whole input at once, row by row, in Python's own numbers. A window is found by
looking at every extent that might hold a row, a join by looking at all pairs, an operator of
instants by looking at every instant at which something changes. Nothing is shared with the
operators but the description of the query (its nodes and expressions) and the rule of equality.

What a row makes impossible (an expression that overflows) makes the row vanish here, as it does
where a query says `on_error("aside")`.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from itertools import pairwise
from typing import Any

import pyarrow as pa

from gapless.engine import nodes
from gapless.operators.aggregates.calls import count
from gapless.operators.aggregates.filtered import Filtered
from gapless.operators.aggregates.window_bounds import WindowBound
from gapless.protocol.elements import INF
from gapless.protocol.errors import ExpressionError
from gapless.protocol.schema import StreamSchema
from gapless.protocol.tdb import Event
from gapless.protocol.values import from_values, to_values
from tests.engine.oracles.aggregate_oracle import NoAnswer, aggregate
from tests.engine.oracles.fixed_order import place
from tests.engine.oracles.instants import Payload, Table, at_each_instant, normal_form, rank_by
from tests.engine.oracles.row_window_oracle import counted

Rows = Mapping[str, Sequence[Payload]]
"""By source's name its rows, in any order."""


EVENTS_MAX = 600
"""Of one table: all pairs and all instants of more take too long."""

PAIRS_MAX = 5_000
"""Of two tables, where each row of one looks at each of the other."""


class TooLarge(Exception):
    """A table of more events than a slow way should look at."""


class RowOracle:
    """The tables of queries over one input."""

    def __init__(self, rows: Rows) -> None:
        self.rows = rows
        self._known: dict[int, tuple[nodes.Node, Table]] = {}

    def table(self, node: nodes.Node) -> Table:
        """All events, in no order."""
        if id(node) not in self._known:
            made = _RULES[type(node)](node, self)
            if len(made) > EVENTS_MAX:
                raise TooLarge
            self._known[id(node)] = node, made
        return self._known[id(node)][1]


# -- rows one by one --------------------------------------------------------------------------


def _source(node: nodes.Source, o: RowOracle) -> Table:
    at = node.schema.names.index(node.time)
    others = [(node.schema.names.index(name), by) for name, by in node.progress]
    events = (Event(row, row[at], row[at] + 1) for row in o.rows[node.name])
    return [
        e
        for e in events
        if all(e.payload[i] is not None and e.payload[i] >= e.vs - by for i, by in others)
    ]


def _where(node: nodes.Where, o: RowOracle) -> Table:
    return [e for e in o.table(node.input) if _holds(node.predicate, node.input.schema, e.payload)]


def _holds(predicate: Any, schema: StreamSchema, payload: Payload) -> bool:
    """True where it answers true; null and no answer at all are not true."""
    return _answers([predicate], schema, payload) == (True,)


def _select(node: nodes.Select, o: RowOracle) -> Table:
    computed = [c for _, c in node.columns]
    answered = ((e, _answers(computed, node.input.schema, e.payload)) for e in o.table(node.input))
    return [Event(p, e.vs, e.ve) for e, p in answered if p is not None]


def _answers(computed: Sequence[Any], schema: StreamSchema, payload: Payload) -> Payload | None:
    """What expressions and functions say of one row, alone in its batch."""
    batch = one_row(schema, payload)
    try:
        return tuple(to_values(c.evaluate(batch))[0] for c in computed)
    except ExpressionError:
        return None


def one_row(schema: StreamSchema, payload: Payload) -> pa.RecordBatch:
    """A payload as a batch of its own."""
    columns = [from_values([v], f.type) for v, f in zip(payload, schema.payload, strict=True)]
    return pa.RecordBatch.from_arrays(columns, schema=schema.payload)


# -- lifetimes --------------------------------------------------------------------------------


def _window(node: nodes.Window, o: RowOracle) -> Table:
    out = []
    for e, ts in _timed(node, o.table(node.input)):
        vs, ve = _window_lifetime(ts, node)
        if vs < ve:
            out.append(Event(e.payload, vs, ve))
    return out


def _timed(node: nodes.Window | nodes.Session, events: Table) -> Iterator[tuple[Event, int]]:
    """Each event with the time that the window reads of it."""
    at = None if node.on is None else node.input.schema.names.index(node.on)
    for e in events:
        ts = e.vs if at is None else e.payload[at]
        if ts is not None:
            yield e, ts


def _window_lifetime(ts: int, node: nodes.Window) -> tuple[int, int]:
    """From the first answer that counts a row to the end of the last one."""
    if node.slide is None:
        return ts, INF if node.range is None else min(ts + node.range, INF)
    if _is_held(node):
        return ts - (ts - node.origin) % node.slide + node.slide, INF
    ends = [e for e in _answered_at(node, [ts]) if _start(node, e) <= ts < e]
    return (ends[0], ends[-1] + node.slide) if ends else (0, 0)


def _is_held(node: nodes.Window) -> bool:
    return node.range is None and node.restart is None


def _start(node: nodes.Window, end: int) -> int:
    """Where the window with that end begins: so long before it, or at the last restart before."""
    if node.restart is None:
        return end - (node.range or 0)
    return max(t for t in range(end - node.restart, end) if (t - node.origin) % node.restart == 0)


def _bucket(node: nodes.Bucket, o: RowOracle) -> Table:
    window = _hopping(node.input, o)
    assert window is not None
    slide = window[0].slide or 1
    out = []
    for e in o.table(node.input):
        for end in range(e.vs, e.ve, slide):
            of = {"start": _start(window[0], end), "end": end, "time": end - 1}
            payload = (*e.payload, *(of[bound.which] for _, bound in node.bounds))
            out.append(Event(payload, end, end + slide))
            if len(out) > EVENTS_MAX:
                raise TooLarge
    return out


def _dedupe(node: nodes.Dedupe, o: RowOracle) -> Table:
    out = []
    for events in _grouped(o.table(node.input), node.input.schema, node.key).values():
        kept: int | None = None
        for e in sorted(events, key=lambda e: (e.vs, place(e.payload))):
            if kept is None or e.vs >= kept + node.within:
                kept = e.vs
                out.append(Event(e.payload, e.vs, e.vs + 1))
    return out


def _lifetime(node: nodes.Lifetime, o: RowOracle) -> Table:
    out = []
    for e in o.table(node.input):
        if node.end is None:
            end = min(e.vs + (node.duration or 0), INF)
        else:
            answer = _answers([node.end], node.input.schema, e.payload)
            if answer is None:
                continue
            end = INF if answer[0] is None else answer[0]
        if e.vs < end:
            out.append(Event(e.payload, e.vs, end))
    return out


def _latest_rows(node: nodes.LatestRows, o: RowOracle) -> Table:
    out = []
    for events in _grouped(o.table(node.input), node.input.schema, node.partition_by).values():
        ordered = sorted(events, key=lambda e: (e.vs, place(e.payload)))
        ends = [*(e.vs for e in ordered), *[INF] * node.range.count][node.range.count :]
        out += [Event(e.payload, e.vs, ve) for e, ve in zip(ordered, ends, strict=True)]
    return [e for e in out if e.vs < e.ve]


def _latest_by(node: nodes.LatestBy, o: RowOracle) -> Table:
    out = []
    for events in _grouped(o.table(node.input), node.input.schema, node.key).values():
        times = sorted({e.vs for e in events})
        for vs, ve in pairwise([*times, INF]):
            there = [e.payload for e in events if e.vs == vs]
            out.append(Event(max(there, key=place), vs, ve))
    return out


# -- aggregates -------------------------------------------------------------------------------


def _aggregate(node: nodes.Aggregate, o: RowOracle) -> Table:
    if isinstance(node.input, nodes.Session):
        return list(_sessions(node, node.input, o))
    if isinstance(node.input, nodes.RowWindow):
        return list(_counted(node, node.input, o))
    hopping = _hopping(node.input, o)
    if hopping is None:
        return at_each_instant(
            [o.table(node.input)], lambda alive: _answers_of_groups(node, alive[0])
        )
    window, timed = hopping
    if _is_held(window):
        return list(_held(node, window, timed))
    out = []
    for e in _answered_at(window, [t.vs for t in timed]):
        start = _start(window, e)
        extent = [t for t in timed if start <= t.vs < e]
        lives = e, e + (window.slide or 0)
        answers = _answers_of_groups(node, extent, start, e)
        out += [Event(p, *lives) for p in answers]
    return out


def _counted(node: nodes.Aggregate, window: nodes.RowWindow, o: RowOracle) -> Iterator[Event]:
    """Windows that count rows: of each partition, from the end of one to that of the next."""
    schema, below = window.schema, _countable(node, o.table(window.input))
    for events in _grouped(below, schema, window.partition_by).values():
        groups = _grouped(events, schema, node.group_by)
        yield from counted(window, events, groups, lambda rows: _answers_of_groups(node, rows))


def _held(node: nodes.Aggregate, window: nodes.Window, timed: Table) -> Iterator[Event]:
    """Of all that came before: from each e with new rows of the group to its next."""
    timed = _countable(node, timed)
    for members in _grouped(timed, node.input.schema, node.group_by).values():
        ends = sorted({_window_lifetime(t.vs, window)[0] for t in members})
        for e, until in pairwise([*ends, INF]):
            for payload in _answers_of_groups(node, [t for t in members if t.vs < e], e, e):
                yield Event(payload, e, until)


def _sessions(node: nodes.Aggregate, window: nodes.Session, o: RowOracle) -> Iterator[Event]:
    """Row by row: one that comes more than the gap after the one before it begins a session."""
    timed = [Event(e.payload, ts, INF) for e, ts in _timed(window, o.table(window.input))]
    timed = _countable(node, timed)
    for rows in _grouped(timed, window.schema, window.partition_by).values():
        rows.sort(key=lambda e: e.vs)
        cuts = [i for i in range(1, len(rows)) if rows[i].vs - rows[i - 1].vs > window.gap]
        for a, b in pairwise([0, *cuts, len(rows)]):
            end = rows[b - 1].vs + window.gap
            for payload in _answers_of_groups(node, rows[a:b], rows[a].vs, end):
                yield Event(payload, end, end + 1)


def _hopping(node: nodes.Node, o: RowOracle) -> tuple[nodes.Window, Table] | None:
    """The window with a slide that an aggregate stands on, and its rows at the times it reads.

    Only `vs` of these events means something.
    """
    match node:
        case nodes.Window(slide=int()):
            return node, [Event(e.payload, ts, INF) for e, ts in _timed(node, o.table(node.input))]
        case nodes.Where():
            below = _hopping(node.input, o)
            if below is None:
                return None
            window, timed = below
            schema = node.input.schema
            return window, [e for e in timed if _holds(node.predicate, schema, e.payload)]
        case nodes.Select():
            below = _hopping(node.input, o)
            if below is None:
                return None
            window, timed = below
            computed = [c for _, c in node.columns]
            answered = [(_answers(computed, node.input.schema, e.payload), e) for e in timed]
            return window, [Event(p, e.vs, INF) for p, e in answered if p is not None]
        case nodes.Union():
            parts = [_hopping(n, o) for n in node.inputs]
            known = [p for p in parts if p is not None]
            if (
                len(known) < len(parts)
                or len({(w.range, w.slide, w.restart, w.origin) for w, _ in known}) > 1
            ):
                return None
            return known[0][0], [e for _, timed in known for e in timed]
    return None


def _answered_at(window: nodes.Window, times: Iterable[int]) -> list[int]:
    """Every e at which some row might count."""
    slide, covers = window.slide or 1, window.restart or window.range or 0
    return sorted(
        {
            e
            for ts in set(times)
            for e in range(ts - (ts - window.origin) % slide, ts + covers + slide + 1, slide)
        }
    )


def _answers_of_groups(
    node: nodes.Aggregate, events: Table, start: int = 0, end: int = 0
) -> list[Payload]:
    """The answers about a window, by group."""
    bounds = {"start": start, "end": end, "time": end - 1}
    schema = node.input.schema
    events = _countable(node, events)
    out = []
    for group, members in _grouped(events, schema, node.group_by).items():
        try:
            values = [
                bounds[f.which] if isinstance(f, WindowBound) else aggregate(f, schema, members)
                for _, f in node.aggregates
            ]
        except NoAnswer:
            continue
        out.append((*group, *values))
    return out


def _countable(node: nodes.Aggregate, events: Table) -> Table:
    """Without the rows for which a condition has no answer: they go aside below the aggregate."""
    conditions = [f.where for _, f in node.aggregates if isinstance(f, Filtered)]
    schema = node.input.schema
    if not conditions:
        return events
    return [e for e in events if _answers(conditions, schema, e.payload) is not None]


def _grouped(
    events: Iterable[Event], schema: StreamSchema, names: Sequence[str]
) -> dict[Payload, Table]:
    """Events by what they have in these columns."""
    at = [schema.names.index(n) for n in names]
    groups: dict[Payload, Table] = defaultdict(list)
    for e in events:
        groups[tuple(e.payload[i] for i in at)].append(e)
    return groups


# -- joins ------------------------------------------------------------------------------------


def _join(node: nodes.Join, o: RowOracle) -> Table:
    left, right = o.table(node.left), o.table(node.right)
    out: Table = []
    met: tuple[list[Table], list[Table]] = ([[] for _ in left], [[] for _ in right])
    for i, a in enumerate(left):
        for j, b in enumerate(right):
            vs, ve = max(a.vs, b.vs), min(a.ve, b.ve)
            payload = _joined(node, a.payload, b.payload)
            if vs < ve and payload is not None:
                if len(out) == EVENTS_MAX:
                    raise TooLarge
                out.append(Event(payload, vs, ve))
                met[0][i].append(b)
                met[1][j].append(a)
    if node.how in ("left", "full"):
        for a, matches in zip(left, met[0], strict=True):
            out += _alone(_row_of_join(node, a.payload, None), a, matches)
    if node.how in ("right", "full"):
        for b, matches in zip(right, met[1], strict=True):
            out += _alone(_row_of_join(node, None, b.payload), b, matches)
    return out


def _followed_by(node: nodes.FollowedBy, o: RowOracle) -> Table:
    """One row of the right after the other, each looking at all rows of the left."""
    free = sorted(o.table(node.left), key=lambda e: (e.vs, place(e.payload)))
    right = sorted(o.table(node.right), key=lambda e: (e.vs, place(e.payload), e.ve))
    if len(free) * len(right) > PAIRS_MAX:
        raise TooLarge
    out = []
    for b in right:
        oldest = b.vs - (INF if node.within is None else node.within)
        before = [(a, _joined(node, a.payload, b.payload)) for a in free if oldest <= a.vs < b.vs]
        found = [(a, payload) for a, payload in before if payload is not None]
        if found:
            a, payload = found[-1 if node.pick == "recent" else 0]
            out.append(Event(payload, b.vs, b.ve))
            if node.pick == "chronicle":
                free.remove(a)
    return out


def _joined(node: nodes.Join | nodes.FollowedBy, a: Payload, b: Payload) -> Payload | None:
    """The payload of two rows that join, None where they do not."""
    names = node.left.schema.names, node.right.schema.names
    for own, other in node.on:
        keys = (a[names[0].index(own)],), (b[names[1].index(other)],)
        if keys[0] == (None,) or keys[0] != keys[1]:  # in a tuple the one NaN equals itself
            return None
    payload = _row_of_join(node, a, b)
    if node.where is not None and not _holds(node.where, node.schema, payload):
        return None
    return payload


def _row_of_join(
    node: nodes.Join | nodes.FollowedBy, a: Payload | None, b: Payload | None
) -> Payload:
    """The `on` columns, the left's others, the right's others; nulls for a side that is absent."""
    left, right = node.left.schema.names, node.right.schema.names
    keys = [
        a[left.index(own)] if a is not None else b[right.index(other)] if b is not None else None
        for own, other in node.on
    ]
    own_names = {own for own, _ in node.on}
    other_names = {other for _, other in node.on}
    return (
        *keys,
        *(None if a is None else a[i] for i, n in enumerate(left) if n not in own_names),
        *(None if b is None else b[i] for i, n in enumerate(right) if n not in other_names),
    )


def _alone(payload: Payload, e: Event, matches: Table) -> Table:
    """The pieces of a row's lifetime in which none of its matches lives."""
    bounds = {e.vs, e.ve, *(t for m in matches for t in (m.vs, m.ve) if e.vs < t < e.ve)}
    pieces = [
        Event(payload, vs, ve)
        for vs, ve in pairwise(sorted(bounds))
        if not any(m.vs <= vs < m.ve for m in matches)
    ]
    return normal_form(pieces)


# -- what holds at each instant ---------------------------------------------------------------


def _distinct(node: nodes.Distinct, o: RowOracle) -> Table:
    return at_each_instant([o.table(node.input)], lambda alive: {e.payload for e in alive[0]})


def _difference(node: nodes.Difference, o: RowOracle) -> Table:

    def more(alive: list[Table]) -> Iterable[Payload]:
        left, right = (Counter(e.payload for e in events) for events in alive)
        return (left - right).elements()

    return at_each_instant([o.table(node.left), o.table(node.right)], more)


def _top_k(node: nodes.TopK, o: RowOracle) -> Table:
    schema = node.input.schema
    ranks: dict[Payload, Hashable] = {}

    def rank(payload: Payload) -> Any:
        if payload not in ranks:
            answer = _answers([key.by for key in node.by], schema, payload)
            ranks[payload] = None if answer is None else (rank_by(answer, node.by), payload)
        return ranks[payload]

    def best(alive: list[Table]) -> Iterable[Payload]:
        for members in _grouped(alive[0], schema, node.within).values():
            ranked = [e.payload for e in members if rank(e.payload) is not None]
            yield from sorted(ranked, key=lambda p: (rank(p)[0], place(p)))[: node.k]

    return at_each_instant([o.table(node.input)], best)


# -- what is said of windows ------------------------------------------------------------------


def _pieces(node: nodes.Node, o: RowOracle) -> dict[tuple[int, int], Table]:
    """The rows of each window."""
    found: dict[tuple[int, int], Table] = defaultdict(list)
    for e in o.table(node):
        found[e.vs, e.ve].append(e)
    return found


def _top(node: nodes.Top, o: RowOracle) -> Table:
    schema = node.input.schema
    out = []
    for (vs, ve), rows in _pieces(node.input, o).items():
        for members in _grouped(rows, schema, node.within).values():
            keys = [key.by for key in node.by]
            by = {e.payload: _answers(keys, schema, e.payload) for e in members}
            there = [(by[e.payload], e.payload) for e in members]
            ranked = [(rank_by(b, node.by), place(p), p) for b, p in there if b is not None]
            ranked.sort(key=lambda r: r[:2])
            first = enumerate(ranked[: node.k], 1)
            out += [Event((*p, rank), vs, ve) for rank, (_, _, p) in first]
    return out


def _heavy(node: nodes.Heavy, o: RowOracle) -> Table:
    at = node.schema.names.index(node.count)
    share = Fraction(repr(node.share))
    out = []
    for (vs, ve), rows in _pieces(node.input, o).items():
        total = sum(e.payload[at] for e in rows)
        out += [Event(e.payload, vs, ve) for e in rows if e.payload[at] >= share * total]
    return out


def _sketched_heavy(node: nodes.SketchedHeavy, o: RowOracle) -> Table:
    """Estimates of so few rows are right."""
    return o.table(counted_exactly(node))


def counted_exactly(node: nodes.SketchedHeavy) -> nodes.Heavy:
    """The same, all values counted."""
    counts = nodes.Aggregate(node.input, node.columns, (("n", count()),), None)
    return nodes.Heavy(counts, "n", node.share)


# -- several inputs ---------------------------------------------------------------------------


def _union(node: nodes.Union, o: RowOracle) -> Table:
    return [e for n in node.inputs for e in o.table(n)]


def _race(node: nodes.Race, o: RowOracle) -> Table:
    first, *others = (o.table(n) for n in node.inputs)
    for other in others:
        if Counter(other) != Counter(first):
            raise AssertionError("inputs of a race are not the same table")
    return first


def _normalise(node: nodes.Normalise, o: RowOracle) -> Table:
    return normal_form(o.table(node.input))


_RULES: Mapping[type, Callable[[Any, RowOracle], Table]] = {
    nodes.Source: _source,
    nodes.Where: _where,
    nodes.Select: _select,
    nodes.Window: _window,
    nodes.Dedupe: _dedupe,
    nodes.LatestRows: _latest_rows,
    nodes.Bucket: _bucket,
    nodes.Lifetime: _lifetime,
    nodes.LatestBy: _latest_by,
    nodes.Aggregate: _aggregate,
    nodes.Join: _join,
    nodes.FollowedBy: _followed_by,
    nodes.Union: _union,
    nodes.Difference: _difference,
    nodes.Distinct: _distinct,
    nodes.TopK: _top_k,
    nodes.Top: _top,
    nodes.Heavy: _heavy,
    nodes.SketchedHeavy: _sketched_heavy,
    nodes.Race: _race,
    nodes.Normalise: _normalise,
}
