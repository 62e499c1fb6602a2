"""What a query's answer is at one instant, as SQL over the whole of its inputs, asked of DuckDB.

    window(10, slide 5), count by k, as of 17      select k, count(*) from a
                                                   where 5 <= ts and ts < 15 group by k

Where every operator only says what holds at an instant, the rows that are alive at x are decided by
what was alive at x below (the query is snapshot-reducible), so one SELECT a node does. Windows and
lifetimes stand on events (`events`), which SQL can say of rows, answers of windows and their joins.
What it cannot say without saying it as we do (a window over a top-k, sketches) raises `CannotSay`,
and the row oracle alone judges it.
"""

# ruff: noqa: S608  # SQL is what this module writes, of names and numbers of our own
from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self

import duckdb
import pyarrow as pa

from gapless.engine import nodes
from gapless.engine.row_counts import Rows
from gapless.operators.rank_keys import RankKey
from gapless.protocol.elements import INF
from gapless.protocol.schema import StreamSchema
from gapless.protocol.values import from_values, payload_tuples
from tests.engine.oracles.row_oracle import counted_exactly
from tests.engine.oracles.sql_text import CannotSay, aggregate_text, expression_text, name_text

Payload = tuple[Any, ...]

VS, VE = "_vs", "_ve"
"""The columns of lifetimes."""
FROM, TO = -1_000, 3_000
"""Before and after all times of rows in tests."""


class DuckdbOracle:
    """Answers about one input."""

    def __init__(
        self, schemas: Mapping[str, StreamSchema], rows: Mapping[str, Sequence[Payload]]
    ) -> None:
        self._db = duckdb.connect(":memory:", config={"threads": 1})
        for name, schema in schemas.items():
            columns = [
                from_values([row[i] for row in rows[name]], field.type)
                for i, field in enumerate(schema.payload)
            ]
            arrived = pa.Table.from_arrays(columns, schema=schema.payload)
            self._db.register("arrived", arrived)
            self._db.execute(f"create table {name_text(name)} as select * from arrived")
            self._db.unregister("arrived")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._db.close()

    def snapshot(self, node: nodes.Node, at: int) -> Counter[Payload]:
        """The payloads alive at an instant, each as often as it is."""
        asked: pa.Table = self._db.sql(alive(node, at)).to_arrow_table()
        columns = [c.combine_chunks() for c in asked.columns]
        typed = [
            c if c.type == f.type else c.cast(f.type)
            for c, f in zip(columns, node.schema.payload, strict=True)
        ]
        batch = pa.RecordBatch.from_arrays(typed, names=node.schema.names)
        return Counter(payload_tuples(batch))


def alive(node: nodes.Node, at: int) -> str:
    """The rows of a node that are alive at an instant."""
    return _ALIVE[type(node)](node, at)


# -- events with their lifetimes --------------------------------------------------------------


def events(node: nodes.Node) -> str:
    """The events of a node, with their lifetimes in two columns more.

    Of what is said of instants SQL knows no lifetimes.
    """
    match node:
        case nodes.Source():
            ts, names = name_text(node.time), _names(node)
            return f"select {names}, {ts} as {VS}, {ts} + 1 as {VE} from {name_text(node.name)}"
        case nodes.Where():
            test = expression_text(node.predicate, node.input.schema)
            return f"select * from ({events(node.input)}) where {test}"
        case nodes.Select():
            return f"select {_computed(node)}, {VS}, {VE} from ({events(node.input)})"
        case nodes.Union():
            return " union all ".join(f"(from ({events(n)}))" for n in node.inputs)
        case nodes.Race():
            return events(node.inputs[-1])
        case nodes.Window():
            vs, ve = _window_lifetime(node)
            rows = f"select * replace ({vs} as {VS}, {ve} as {VE}) from ({_timed(node)})"
            return f"select * from ({rows}) where {VS} < {VE}"
        case nodes.Lifetime():
            end = f"{VS} + {node.duration}" if node.end is None else _end(node)
            rows = f"select * replace ({end} as {VE}) from ({events(node.input)})"
            return f"select * from ({rows}) where {VS} < {VE}"
        case nodes.LatestBy() | nodes.LatestRows() | nodes.Dedupe():
            return _OF_ROWS[type(node)](node)
        case nodes.Aggregate():
            return _answer_events(node)
        case nodes.Join() if node.how == "inner":
            ends = f"greatest(l.{VS}, r.{VS}) as {VS}, least(l.{VE}, r.{VE}) as {VE}"
            pairs = _join_text(node, events(node.left), events(node.right), f", {ends}")
            return f"select * from ({pairs}) where {VS} < {VE}"
    raise CannotSay(f"lifetimes of {type(node).__name__}")


def _timed(node: nodes.Window | nodes.Session) -> str:
    """The events below a window, with the time that it reads as their start."""
    below = events(node.input)
    if node.on is None:
        return below
    on = name_text(node.on)
    return f"select * replace ({on} as {VS}) from ({below}) where {on} is not null"


def _window_lifetime(node: nodes.Window) -> tuple[str, str]:
    end = "" if node.range is None else f"{VS} + {node.range}"
    if node.slide is None:
        return VS, end or f"{INF}::bigint"
    if node.restart is not None:
        return _after(VS, node), f"{_after(VS, node, node.restart)} + {node.slide}"
    return _after(VS, node), _after(end, node) if end else f"{INF}::bigint"


def _after(t: str, window: nodes.Window | nodes.RowWindow, step: int | None = None) -> str:
    """The first end of a window, or of other steps from its origin, after a time."""
    origin = window.origin if isinstance(window, nodes.Window) else 0
    by = step or window.slide
    return f"({t}) - ((({t} - {origin}) % {by}) + {by}) % {by} + {by}"


def _end_at(window: nodes.Window, at: int) -> int:
    """The last end of a window up to an instant."""
    return at - (at - window.origin) % (window.slide or 1)


def _start(window: nodes.Window, end: int) -> int | None:
    """Of a window with that end; None: there is none."""
    if window.restart is not None:
        return end - 1 - (end - 1 - window.origin) % window.restart
    return None if window.range is None else end - window.range


def _end(node: nodes.Lifetime) -> str:
    return f"coalesce({expression_text(node.end, node.input.schema)}, {INF}::bigint)"


def _latest_events(node: nodes.LatestBy) -> str:
    key = ", ".join(map(name_text, node.key))
    last = (
        f"select * from ({events(node.input)}) qualify row_number() over "
        f"(partition by {key}, {VS} order by {_descending(node)}) = 1"
    )
    following = f"lead({VS}) over (partition by {key} order by {VS})"
    return f"select * replace (coalesce({following}, {INF}::bigint) as {VE}) from ({last})"


def _latest_rows_events(node: nodes.LatestRows) -> str:
    by = ", ".join(f"{name_text(n)} asc nulls last" for n in node.schema.names)
    partition = ", ".join(map(name_text, node.partition_by))
    over = f"partition by {partition} " if partition else ""
    end = f"lead({VS}, {node.range.count}) over ({over}order by {VS}, {by})"
    rows = f"select * replace (coalesce({end}, {INF}::bigint) as {VE}) from ({events(node.input)})"
    return f"select * from ({rows}) where {VS} < {VE}"


def _deduped_events(node: nodes.Dedupe) -> str:
    """The kept times of each key, one after the other, and the first row of each."""
    key = ", ".join(map(name_text, node.key))
    by = ", ".join(f"{name_text(n)} asc nulls last" for n in node.schema.names)
    order = f"partition by {key}, {VS} order by {by}"
    first = f"select * from ({events(node.input)}) qualify row_number() over ({order}) = 1"
    times = f"list_transform(list({VS} order by {VS}), lambda t: [t])"
    step = f"case when t[1] - kept[-1] >= {node.within} then list_concat(kept, t) else kept end"
    reduced = f"list_reduce({times}, lambda kept, t: {step}) as _kept"
    kept = f"select {key}, {reduced} from ({first}) group by {key}"
    same = " and ".join(f"f.{name_text(n)} is not distinct from k.{name_text(n)}" for n in node.key)
    rows = f"select f.* replace (f.{VS} + 1 as {VE}) from ({first}) f join ({kept}) k on {same}"
    return f"{rows} where list_contains(k._kept, f.{VS})"


_OF_ROWS: Mapping[type, Callable[[Any], str]] = {
    nodes.LatestBy: _latest_events,
    nodes.LatestRows: _latest_rows_events,
    nodes.Dedupe: _deduped_events,
}


def _descending(node: nodes.Node) -> str:
    return ", ".join(f"{name_text(n)} desc nulls first" for n in node.schema.names)


def _answer_events(node: nodes.Aggregate) -> str:
    """The answers of a window at each of its ends."""
    if isinstance(node.input, nodes.Session):
        return _session_events(node, node.input)
    window = _hopping_below(node.input)
    if window is None or window.slide is None:
        raise CannotSay("lifetimes of an aggregate over free lifetimes")
    if window.range is None and window.restart is None:
        raise CannotSay("ends of answers that are held")
    step = window.slide
    ends = f"select unnest(range({_end_at(window, FROM)}, {TO}, {step})) as _e"
    rows = _windowed(node.input, None, None)
    start = f"_e - {window.range}"
    if window.restart is not None:
        start = f"{_after('_e - 1', window, window.restart)} - {window.restart}"
    within = f"select * from ({rows}) join ({ends}) on {start} <= {VS} and {VS} < _e"
    groups = [name_text(g) for g in node.group_by]
    columns = [*groups, *_answers(node, VS), f"_e as {VS}", f"_e + {step} as {VE}"]
    return f"select {', '.join(columns)} from ({within}) group by {', '.join([*groups, '_e'])}"


def _session_events(node: nodes.Aggregate, window: nodes.Session) -> str:
    """The answers of sessions: rows numbered by how many pauses came before them."""
    named = [name_text(n) for n in window.partition_by]
    of = f"partition by {', '.join(named)} " if named else ""
    pause = f"{VS} - lag({VS}) over ({of}order by {VS}) <= {window.gap}"
    rows = f"select *, case when {pause} then 0 else 1 end as _cut from ({_timed(window)})"
    number = f"sum(_cut) over ({of}order by {VS})"
    rows = f"select *, {number} as _number from ({rows})"
    within = f"partition by {', '.join([*named, '_number'])}"
    rows = f"select *, max({VS}) over ({within}) + {window.gap} as _e from ({rows})"
    groups = [name_text(g) for g in node.group_by]
    columns = [*groups, *_answers(node, VS), f"_e as {VS}", f"_e + 1 as {VE}"]
    keys = ", ".join(dict.fromkeys([*groups, *named, "_number", "_e"]))
    return f"select {', '.join(columns)} from ({rows}) group by {keys}"


def _windowed(node: nodes.Node, start: int | None, end: int | None) -> str:
    """The rows under a window whose times are in `[start, end)`, with those as their starts."""
    match node:
        case nodes.Window():
            since = "true" if start is None else f"{start} <= {VS}"
            until = "true" if end is None else f"{VS} < {end}"
            return f"select * from ({_timed(node)}) where {since} and {until}"
        case nodes.Where():
            test = expression_text(node.predicate, node.input.schema)
            return f"select * from ({_windowed(node.input, start, end)}) where {test}"
        case nodes.Select():
            return (
                f"select {_computed(node)}, {VS}, {VE} from ({_windowed(node.input, start, end)})"
            )
        case nodes.Union():
            return " union all ".join(f"(from ({_windowed(n, start, end)}))" for n in node.inputs)
    raise CannotSay(f"no window under {type(node).__name__}")


def _hopping_below(node: nodes.Node) -> nodes.Window | None:
    """The window with a slide that an aggregate over `node` stands on."""
    match node:
        case nodes.Window():
            return None if node.slide is None else node
        case nodes.Where() | nodes.Select():
            return _hopping_below(node.input)
        case nodes.Union():
            below = [_hopping_below(n) for n in node.inputs]
            known = [w for w in below if w is not None]
            same = len({(w.range, w.slide, w.restart, w.origin) for w in known}) == 1 and len(
                known
            ) == len(below)
            return known[0] if same else None
    return None


# -- what is alive at an instant --------------------------------------------------------------


def _names(node: nodes.Node) -> str:
    return ", ".join(map(name_text, node.schema.names))


def _computed(node: nodes.Select) -> str:
    schema = node.input.schema
    return ", ".join(f"{expression_text(c, schema)} as {name_text(n)}" for n, c in node.columns)


def _source(node: nodes.Source, at: int) -> str:
    return f"select {_names(node)} from {name_text(node.name)} where {name_text(node.time)} = {at}"


def _where(node: nodes.Where, at: int) -> str:
    test = expression_text(node.predicate, node.input.schema)
    return f"select * from ({alive(node.input, at)}) where {test}"


def _select(node: nodes.Select, at: int) -> str:
    return f"select {_computed(node)} from ({alive(node.input, at)})"


def _window(node: nodes.Window, at: int) -> str:
    end = at + 1 if node.slide is None else _end_at(node, at)
    start = _start(node, end)
    return f"select {_names(node)} from ({_windowed(node, start, end)})"


def _bucket(node: nodes.Bucket, at: int) -> str:
    window = _hopping_below(node.input)
    if window is None or window.slide is None:
        raise CannotSay("buckets of no windows")
    end = _end_at(window, at)
    of = {"start": _start(window, end), "end": end, "time": end - 1}
    more = "".join(f", {of[b.which]}::bigint as {name_text(n)}" for n, b in node.bounds)
    return f"select *{more} from ({alive(node.input, at)})"


def _lifetime(node: nodes.Lifetime | nodes.LatestRows, at: int) -> str:
    return f"select {_names(node)} from ({events(node)}) where {VS} <= {at} and {at} < {VE}"


def _dedupe(node: nodes.Dedupe, at: int) -> str:
    return f"select {_names(node)} from ({events(node)}) where {VS} = {at}"


def _latest_by(node: nodes.LatestBy, at: int) -> str:
    key, newest = ", ".join(map(name_text, node.key)), f"{VS} desc, {_descending(node)}"
    return (
        f"select {_names(node)} from ({events(node.input)}) where {VS} <= {at} "
        f"qualify row_number() over (partition by {key} order by {newest}) = 1"
    )


def _aggregate(node: nodes.Aggregate, at: int) -> str:
    if isinstance(node.input, nodes.Session):
        return f"select {_names(node)} from ({events(node)}) where {VS} = {at}"
    if isinstance(node.input, nodes.RowWindow):
        return _counted(node, node.input, at)
    window = _hopping_below(node.input)
    if window is not None and window.slide is not None:
        end = _end_at(window, at)
        start = _start(window, end)
        rows = _windowed(node.input, start, end)
        answers = _answers(node, VS)
    else:
        rows, answers = alive(node.input, at), _answers(node, None)
    groups = [name_text(g) for g in node.group_by]
    by = f"group by {', '.join(groups)}" if groups else "having count(*) > 0"
    return f"select {', '.join(groups + answers)} from ({rows}) {by}"


def _counted(node: nodes.Aggregate, window: nodes.RowWindow, at: int) -> str:
    """Of each partition the window that has ended last."""
    names = [name_text(n) for n in window.partition_by]
    by = f"partition by {', '.join(names)}" if names else ""
    order = ", ".join(f"{name_text(n)} nulls last" for n in window.schema.names)
    rank = f"row_number() over ({by} order by {VS}, {order}) - 1 as _rank"
    ranked = f"select *, {rank} from ({events(window.input)})"
    end, ends = VS, "true"
    if isinstance(window.slide, Rows):
        ends = f"_rank % {window.slide.count} = {window.slide.count - 1}"
    else:
        end = _after(VS, window)
    keys = [f"{name} as _p{i}" for i, name in enumerate(names)]
    closed = f"select {', '.join([*keys, f'{end} as _at', '_rank + 1 as _upto'])} from ({ranked})"
    last_by = f"partition by {', '.join(f'_p{i}' for i in range(len(names)))} " if names else ""
    last = (
        f"select * from ({closed} where {ends} and {end} <= {at}) qualify row_number() over "
        f"({last_by}order by _at desc, _upto desc) = 1"
    )
    same = [f"{name} is not distinct from _p{i}" for i, name in enumerate(names)]
    match window.range:
        case Rows(n):
            same.append(f"_upto - {n} <= _rank and _rank < _upto")
        case None:
            same.append("_rank < _upto")
        case covers:
            same.append(f"_at - {covers} < {VS} and {VS} <= _at")
    rows = f"select * from ({ranked}) join ({last}) on {' and '.join(same)}"
    groups = [name_text(g) for g in node.group_by]
    having = f"group by {', '.join(groups)}" if groups else "having count(*) > 0"
    return f"select {', '.join(groups + _answers(node, VS))} from ({rows}) {having}"


def _answers(node: nodes.Aggregate, times: str | None) -> list[str]:
    schema = node.input.schema
    return [f"{aggregate_text(f, schema, times)} as {name_text(n)}" for n, f in node.aggregates]


def _join(node: nodes.Join, at: int) -> str:
    return _join_text(node, alive(node.left, at), alive(node.right, at))


def _join_text(node: nodes.Join, left_rows: str, right_rows: str, more: str = "") -> str:
    on = " and ".join(f"l.{name_text(a)} = r.{name_text(b)}" for a, b in node.on) or "true"
    left, right = node.left.schema.names, node.right.schema.names
    lefts = [n for n in left if n not in {a for a, _ in node.on}]
    rights = [n for n in right if n not in {b for _, b in node.on}]
    keys = [f"coalesce(l.{name_text(a)}, r.{name_text(b)})" for a, b in node.on]
    sides = [f"l.{name_text(n)}" for n in lefts] + [f"r.{name_text(n)}" for n in rights]
    names = node.schema.names
    columns = ", ".join(f"{c} as {name_text(n)}" for c, n in zip(keys + sides, names, strict=True))
    if node.where is not None:
        of = dict(zip(names, [*(f"l.{name_text(a)}" for a, _ in node.on), *sides], strict=True))
        on += f" and ({expression_text(node.where, node.schema, of)})"
    how = {"inner": "inner", "left": "left", "right": "right", "full": "full outer"}[node.how]
    return f"select {columns}{more} from ({left_rows}) l {how} join ({right_rows}) r on {on}"


def _union(node: nodes.Union, at: int) -> str:
    return " union all ".join(f"(from ({alive(n, at)}))" for n in node.inputs)


def _difference(node: nodes.Difference, at: int) -> str:
    return f"(from ({alive(node.left, at)})) except all (from ({alive(node.right, at)}))"


def _distinct(node: nodes.Distinct, at: int) -> str:
    return f"select distinct * from ({alive(node.input, at)})"


def _ranked_by(keys: Sequence[RankKey], schema: StreamSchema) -> str:
    said = []
    for key in keys:
        by = expression_text(key.by, schema)
        said.append(f"{by} is null {'desc' if key.nulls_first else 'asc'}")
        if pa.types.is_floating(key.by.type(schema.payload)):
            said.append(f"isnan({by})")
        said.append(f"{by} {'desc' if key.largest else 'asc'}")
    return ", ".join(said)


def _top_k(node: nodes.TopK, at: int) -> str:
    schema = node.input.schema
    by = _ranked_by(node.by, schema)
    ties = "".join(f", {name_text(n)} asc nulls last" for n in node.schema.names)
    within = ", ".join(map(name_text, node.within))
    partition = f"partition by {within} " if within else ""
    return (
        f"select * from ({alive(node.input, at)}) qualify row_number() over "
        f"({partition}order by {by}{ties}) <= {node.k}"
    )


def _top(node: nodes.Top, at: int) -> str:
    schema = node.input.schema
    by = _ranked_by(node.by, schema)
    ties = "".join(f", {name_text(n)} asc nulls last" for n in schema.names)
    within = ", ".join(map(name_text, node.within))
    of = f"{f'partition by {within} ' if within else ''}order by {by}{ties}"
    ranked = f"select *, row_number() over ({of}) as {name_text(node.rank)}"
    return f"{ranked} from ({alive(node.input, at)}) qualify {name_text(node.rank)} <= {node.k}"


def _heavy(node: nodes.Heavy, at: int) -> str:
    n = name_text(node.count)
    heavy = f"{n} >= {node.share:.6f} * sum({n}) over ()"
    return f"select * from ({alive(node.input, at)}) qualify {heavy}"


def _sketched_heavy(node: nodes.SketchedHeavy, at: int) -> str:
    return _heavy(counted_exactly(node), at)


def _race(node: nodes.Race, at: int) -> str:
    return alive(node.inputs[-1], at)


def _normalise(node: nodes.Normalise, at: int) -> str:
    return alive(node.input, at)


_ALIVE: Mapping[type, Callable[[Any, int], str]] = {
    nodes.Source: _source,
    nodes.Where: _where,
    nodes.Select: _select,
    nodes.Window: _window,
    nodes.Dedupe: _dedupe,
    nodes.Bucket: _bucket,
    nodes.Lifetime: _lifetime,
    nodes.LatestBy: _latest_by,
    nodes.LatestRows: _lifetime,
    nodes.Aggregate: _aggregate,
    nodes.Join: _join,
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
