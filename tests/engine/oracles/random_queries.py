"""Queries drawn from a seed: well typed, over few values, of all nodes, some of them odd.

    DrawnQuery(seed 3)     a.window(7, 3).group_by(k).aggregate(n=count()).top_k(2, by=n)

What is drawn on purpose: ranges that are no multiple of the slide, slides longer than the range,
landmarks, early answers, a node used twice, a query raced against an equal one, null, NaN and -0.0
in whatever is compared, negative times. What the builder refuses is drawn again.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from gapless.engine import nodes
from gapless.engine.fit import Computed
from gapless.engine.functions import UserFunction
from gapless.engine.lateness import KLate, Lateness, TimeLate, Watermarks
from gapless.engine.nodes import How, Node
from gapless.engine.query import Query
from gapless.engine.row_counts import Rows
from gapless.operators.aggregates import calls
from gapless.operators.aggregates.filtered import Filtered
from gapless.operators.aggregates.function import AggregateFunction
from gapless.operators.aggregates.window_bounds import WindowBound
from gapless.operators.rank_keys import RankKey
from gapless.protocol.conditions import greatest, least
from gapless.protocol.elements import INF
from gapless.protocol.errors import Misuse
from gapless.protocol.expr import Expr, col, if_else, lit
from gapless.protocol.schema import StreamSchema
from tests.engine.oracles.random_streams import SPAN, values_of

DEPTH_MAX = 5
"""Steps on the longest path from a source."""
TRIES_MAX = 200
"""Draws until the builder takes one: it refuses some, and never nearly all."""

COLUMNS = {"ts": "int64", "k": "int32", "x": "int64", "f": "double", "s": "string"}
"""Of each source: a time that is never null, something to group by, numbers, a string."""


STRINGS = (
    *(pa.string(), pa.string(), pa.large_string(), pa.string_view()),
    *(pa.dictionary(pa.int32(), pa.string()), pa.dictionary(pa.int32(), pa.string_view())),
    pa.struct([("a", pa.string_view()), ("b", pa.dictionary(pa.int32(), pa.string()))]),
)
FLOATS = (pa.float64(), pa.float64(), pa.float64(), pa.dictionary(pa.int32(), pa.float64()))
KEYS = (pa.int32(), pa.int32(), pa.dictionary(pa.int32(), pa.int32()))


@dataclass(frozen=True, slots=True)
class Taste:
    """Which queries are wanted."""

    depth: int = DEPTH_MAX
    sources: int = 3
    finite_reach: bool = False
    """Only what may start in the middle."""
    races: bool = True
    odd: bool = True
    """Also what fails for some rows (a division by zero, a sum beyond int64), functions, and other
    types than the plainest."""


class Drawing:
    """Draws the parts of one query."""

    def __init__(self, rng: random.Random, taste: Taste) -> None:
        self.rng = rng
        self.taste = taste
        self._types = {n: pa.type_for_alias(t) for n, t in COLUMNS.items()}
        if taste.odd:
            self._types["ts"] = rng.choice((pa.int64(), pa.int64(), pa.timestamp("ms")))
            self._types["s"] = rng.choice(STRINGS)
            self._types["f"] = rng.choice(FLOATS)
            self._types["k"] = rng.choice(KEYS)
        self.sources = [self._source(i) for i in range(rng.randint(1, taste.sources))]
        self._made: list[Node] = list(self.sources)
        self._deepest = 0

    def _source(self, i: int) -> Node:
        choices: list[Lateness] = [TimeLate(bound) for bound in (0, 3, 15, 1_000)]
        choices += [KLate(self.rng.choice((0, 1, 4, 30))), Watermarks(), Watermarks()]
        lateness = self.rng.choice(choices)
        schema = pa.schema([pa.field(n, t, nullable=n != "ts") for n, t in self._types.items()])
        return nodes.Source("abc"[i], StreamSchema(schema), "ts", lateness)

    def query(self, depth: int) -> Node:
        """A query of at most so many steps on a path."""
        self._deepest = max(self._deepest, depth)
        if depth <= 0:
            return self.rng.choice(self.sources)
        if depth < self._deepest and self.rng.random() < 0.2 and len(self._made) > 1:
            made = self.rng.choice(self._made)  # one node, used twice
        else:
            below = self.query(depth - 1)
            made = self.rng.choice(self._steps())(below, depth - 1)
        self._made.append(made)
        return made

    def _steps(self) -> Sequence[Callable[[Node, int], Node]]:
        often = [self._where, self._select, self._cut, self._sliding, self._aggregate]
        often += [self._aggregate] * 2
        steps = [*often, *often, self._join, self._join, self._union, self._lifetime]
        steps += [self._bucket, self._of_windows]
        if not self.taste.finite_reach:
            steps += [self._distinct, self._difference, self._top_k, self._latest_by]
            steps += [self._landmark, self._normalise, self._outer_join, self._counted]
            steps += [self._session] * 3 + [self._dedupe, self._rolled_up]
        if self.taste.races:
            steps += [self._race] * 2
        return steps

    # -- one input ----------------------------------------------------------------------------

    def _where(self, q: Node, _depth: int) -> Node:
        return nodes.Where(q, self.predicate(q.schema))

    def _select(self, q: Node, _depth: int) -> Node:
        names = q.schema.names
        kept = [n for n in names if self.rng.random() < 0.7] or names[:1]
        computed: dict[str, Computed] = {n: col(n) for n in kept}
        for new in self.rng.sample(("p", "q"), self.rng.randint(0, 2)):
            computed[new] = self.value(q.schema)
        times = [f for f in q.schema.payload if f.name.startswith("ts")]
        if len({f.type for f in times}) == 1 and len(times) > 1 and self.rng.random() < 0.5:
            extreme = self.rng.choice((greatest, least))
            computed[self.rng.choice(("ts", "ts_of"))] = extreme(*(col(f.name) for f in times[:2]))
        whole = self._named(q.schema, "int64", "int32")
        if self.taste.odd and whole and self.rng.random() < 0.2:
            column = self.rng.choice(whole)
            computed["p"] = UserFunction(parity, (column,), q.schema.payload.field(column).type)
        return select(q, computed)

    def _hopping(self, q: Node, _depth: int) -> Node:
        covers, slide = self.rng.choice(
            ((4, 4), (10, 5), (7, 3), (3, 7), (12, 4), (1, 1), (5, 2), (9, 6), (20, 10), (50, 1))
        )
        return nodes.Window(q, covers, slide, self._on(q), None, self._origin(slide))

    def _origin(self, period: int) -> int:
        return self.rng.choice((0, 0, 0, 1, period - 1)) % period

    def _cut(self, q: Node, _depth: int) -> Node:
        """A window whose answers are cut at each slide; some cumulate."""
        if self.rng.random() < 0.75:
            return self._hopping(q, 0)
        slide, restart = self.rng.choice(((4, 12), (5, 10), (3, 3), (1, 30), (7, 21)))
        return nodes.Window(q, None, slide, self._on(q), restart, self._origin(restart))

    def _bucket(self, q: Node, _depth: int) -> Node:
        window = self._cut(q, 0)
        if self.rng.random() < 0.3:
            window = self.rng.choice((self._where, self._select))(window, 0)
        return nodes.Bucket(window, self._bounds(window.schema.names))

    def _sliding(self, q: Node, _depth: int) -> Node:
        return nodes.Window(q, self.rng.choice((1, 4, 10)), None, self._on(q))

    def _landmark(self, q: Node, _depth: int) -> Node:
        slide = self.rng.choice((None, 4, 7))
        origin = 0 if slide is None else self._origin(slide)
        return nodes.Window(q, None, slide, self._on(q), None, origin)

    def _on(self, q: Node) -> str | None:
        """Another column to read than `_vs`, now and then; the builder knows which progress."""
        times = [n for n in q.schema.names if n.startswith("ts")]
        return self.rng.choice(times) if times and self.rng.random() < 0.15 else None

    def _lifetime(self, q: Node, _depth: int) -> Node:
        whole = self._named(q.schema, "int64")
        if self.rng.random() < 0.5 or not whole or self.taste.finite_reach:
            return nodes.Lifetime(q, None, self.rng.choice((1, 3, 12)))
        end = col(self.rng.choice(whole)) + self.rng.choice((0, 10, 30))
        return nodes.Lifetime(q, end, None)

    def _latest_by(self, q: Node, _depth: int) -> Node:
        return nodes.LatestBy(q, self._some(q.schema, 1, 2))

    def _dedupe(self, q: Node, _depth: int) -> Node:
        return nodes.Dedupe(q, self._some(q.schema, 1, 2), self.rng.choice((1, 4, 9, INF)))

    def _distinct(self, q: Node, _depth: int) -> Node:
        return nodes.Distinct(self._few(q))

    def _normalise(self, q: Node, _depth: int) -> Node:
        return nodes.Normalise(self._few(q))

    def _few(self, q: Node) -> Node:
        """Few columns, so that payloads meet."""
        return select(q, {n: col(n) for n in self._some(q.schema, 1, 2)})

    def _top_k(self, q: Node, _depth: int) -> Node:
        k = self.rng.choice((1, 2, 5))
        keys = self._rank_keys(q, k)
        return nodes.TopK(q, k, keys, self._some(q.schema, 0, 1))

    def _rank_keys(self, q: Node, k: int) -> tuple[RankKey, ...]:
        """One key; of the first five two, the first of them with nulls at either end."""
        largest = self.rng.random() < 0.5
        key = RankKey(self.value(q.schema), largest)
        if k < 5:
            return (key,)
        return RankKey(col(q.schema.names[-1]), not largest, largest), key

    def _of_windows(self, q: Node, depth: int) -> Node:
        return self.rng.choice((self._top, self._heavy))(q, depth)

    def _top(self, q: Node, depth: int) -> Node:
        """Of windows: of their rows, or of their answers."""
        q = self.rng.choice((self._bucket, self._answers, self._answers))(q, depth)
        k = self.rng.choice((1, 2, 5))
        keys = self._rank_keys(q, k)
        rank = next(name for name in ("rank", "r", "place") if name not in q.schema.names)
        return nodes.Top(q, k, keys, self._some(q.schema, 0, 1), rank)

    def _heavy(self, q: Node, _depth: int) -> Node:
        window, columns = self._cut(q, 0), self._some(q.schema, 1, 2)
        share = self.rng.choice((0.05, 0.3, 0.5, 1.0))
        if self.rng.random() < 0.5:
            return nodes.SketchedHeavy(window, columns, share)
        counted = nodes.Aggregate(window, columns, (("n", calls.count()),), None)
        return nodes.Heavy(counted, "n", share)

    def _answers(self, q: Node, _depth: int) -> Node:
        window = self._cut(q, 0)
        return nodes.Aggregate(window, self._some(q.schema, 0, 2), self.functions(q.schema), None)

    def _aggregate(self, q: Node, _depth: int) -> Node:
        if self.rng.random() < 0.7:
            windows = [self._cut, self._cut, self._sliding]
            if not self.taste.finite_reach:
                windows.append(self._landmark)
            q = self.rng.choice(windows)(q, 0)
            if self.rng.random() < 0.3:
                q = self.rng.choice((self._where, self._select))(q, 0)
        return self._grouped(q, self.functions(q.schema))

    def _session(self, q: Node, _depth: int) -> Node:
        partition = self.rng.choice(((), ("k",), self._some(q.schema, 0, 2)))
        if not set(partition) <= set(q.schema.names):
            partition = ()
        window = nodes.Session(q, self.rng.choice((1, 2, 3, 8)), partition, self._on(q))
        functions = self.functions(window.schema)
        groups = partition if self.rng.random() < 0.6 else self._some(q.schema, 0, 2)
        early = self.rng.choice((None, None, None, 0, 5, INF))
        return nodes.Aggregate(window, groups, (*functions, *self._bounds(groups)), early)

    def _rolled_up(self, q: Node, _depth: int) -> Node:
        """Answers of windows in windows of the last time that each covers."""
        window = self._cut(q, 0)
        groups = self._some(q.schema, 0, 1)
        functions = (*self.functions(q.schema), ("ts_time", calls.window_time()))
        below = nodes.Aggregate(window, groups, functions, None)
        again = nodes.Window(below, 10, self.rng.choice((None, 5)), "ts_time")
        return self._grouped(again, self.functions(again.schema))

    def _bounds(self, groups: Sequence[str]) -> tuple[tuple[str, WindowBound], ...]:
        """What answers say of their windows, now and then: a window above may read it."""
        drawn = self.rng.sample(BOUNDS, self.rng.choice((0, 0, 0, 1, 2)))
        return tuple(bound for bound in drawn if bound[0] not in groups)

    def _counted(self, q: Node, _depth: int) -> Node:
        """Windows that count rows, and the aggregate that answers them."""
        functions = self.functions(q.schema)
        groups = self._some(q.schema, 0, 2)
        partition_by = groups[: self.rng.randint(0, len(groups))]
        slide, every = self.rng.choice((1, 1, 2, 3, 5)), self.rng.choice((1, 4, 7))
        ranges: tuple[int | Rows | None, ...] = (*map(Rows, (1, 3, 4, 10)), 1, 5, 20, None)
        if self.rng.random() < 0.15:
            return nodes.LatestRows(q, Rows(slide), partition_by)
        window = nodes.RowWindow(q, self.rng.choice(ranges), Rows(slide), partition_by)
        if self.rng.random() < 0.15:
            window = nodes.RowWindow(q, Rows(self.rng.choice((1, 2, 6))), every, partition_by)
        return nodes.Aggregate(window, groups, functions, None)

    def _grouped(self, q: Node, functions: Functions) -> Node:
        groups = self._some(q.schema, 0, 2)
        if "k" in q.schema.names and self.rng.random() < 0.3:
            groups = ("k",)
        early = self.rng.choice((None, None, None, 0, 5, INF))
        made = nodes.Aggregate(q, groups, (*functions, *self._bounds(groups)), early)
        try:
            Query(made)
        except Misuse:  # only windows with a slide have early answers, and say where they lie
            return nodes.Aggregate(q, groups, functions, None)
        return made

    # -- several inputs -----------------------------------------------------------------------

    def _join(self, q: Node, depth: int) -> Node:
        return self._joined(q, depth, "inner")

    def _outer_join(self, q: Node, depth: int) -> Node:
        return self._joined(q, depth, self.rng.choice(("left", "right", "full")))

    def _joined(self, q: Node, depth: int, how: How) -> Node:
        other = q if self.rng.random() < 0.15 else self.query(self.rng.randint(0, depth))
        q, other = (
            self._sliding(side, 0) if self.rng.random() < 0.5 else side for side in (q, other)
        )
        pairs = [
            (a.name, b.name)
            for a in q.schema.payload
            for b in other.schema.payload
            if a.type == b.type and a.name != "ts"
        ]
        on = tuple(self.rng.sample(pairs, min(len(pairs), self.rng.randint(0, 2))))
        if len({a for a, _ in on}) < len(on) or len({b for _, b in on}) < len(on):
            on = on[:1]
        joined = nodes.Join(q, other, on, None, how)
        if self.rng.random() < 0.4:
            joined = nodes.Join(q, other, on, self.predicate(joined.schema), how)
        return joined

    def _union(self, q: Node, depth: int) -> Node:
        return nodes.Union((q, self._alike(q, depth)))

    def _difference(self, q: Node, depth: int) -> Node:
        q = self._few(q)
        return nodes.Difference(q, self._alike(q, depth))

    def _alike(self, q: Node, depth: int) -> Node:
        """A query with the columns of another: a part of it, or another one made to fit."""
        if self.rng.random() < 0.4:
            return nodes.Where(q, self.predicate(q.schema))
        other = self.query(self.rng.randint(0, depth))
        fitting: dict[str, Computed] = {}
        for field in q.schema.payload:
            names = [f.name for f in other.schema.payload if f.equals(field.with_name(f.name))]
            if names:
                fitting[field.name] = col(self.rng.choice(names))
            elif field.nullable:
                value = self.rng.choice((None, *(values_of(field.type) or ())))
                fitting[field.name] = lit(value, field.type)
            else:
                return nodes.Where(q, self.predicate(q.schema))
        return select(other, fitting)

    def _race(self, q: Node, _depth: int) -> Node:
        """A query against another that is the same table by the laws of relational algebra."""
        a, b = self.predicate(q.schema), self.predicate(q.schema)
        pairs = (
            (where(q, a & b), where(where(q, b), a)),
            (where(q, a), where(q, a)),
            (nodes.Union((q, where(q, a))), nodes.Union((where(q, a), q))),
        )
        return nodes.Race(self.rng.choice(pairs))

    # -- parts --------------------------------------------------------------------------------

    def _named(self, schema: StreamSchema, *types: str) -> list[str]:
        return [f.name for f in schema.payload if str(f.type) in types]

    def _some(self, schema: StreamSchema, least: int, most: int) -> tuple[str, ...]:
        names = [n for n in schema.names if n != "ts"] or schema.names
        return tuple(self.rng.sample(names, min(len(names), self.rng.randint(least, most))))

    def predicate(self, schema: StreamSchema, depth: int = 2) -> Expr:
        """True for some rows and not for others, with luck."""
        draw = self.rng.random()
        if depth and draw < 0.15:
            return self.predicate(schema, depth - 1) & self.predicate(schema, depth - 1)
        if depth and draw < 0.3:
            return self.predicate(schema, depth - 1) | self.predicate(schema, depth - 1)
        if depth and draw < 0.4:
            return ~self.predicate(schema, depth - 1)
        field = self.rng.choice(list(schema.payload))
        values = values_of(field.type)
        if values is None or self.rng.random() < 0.1:
            return col(field.name).is_null()
        if field.name.startswith("ts") and self.rng.random() < 0.8:
            return col(field.name) >= lit(self.rng.randrange(SPAN // 2)).cast(field.type)
        if self.rng.random() < 0.15:
            return col(field.name).is_in(self.rng.sample(values, 2))
        if str(field.type) in ("int32", "int64") and self.rng.random() < 0.2:
            return col(field.name) % 3 == self.rng.choice((0, 1))
        compare = self.rng.choice(("__eq__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__"))
        made: Expr = getattr(col(field.name), compare)(self.rng.choice(values))
        return made

    def value(self, schema: StreamSchema) -> Expr:
        """A column or something computed of one or two."""
        whole = self._named(schema, "int64", "int32")
        texts = self._named(schema, "string", "large_string", "string_view")
        if self.taste.odd and texts and self.rng.random() < 0.1:
            return col(self.rng.choice(texts)).cast(self.rng.choice(("int64", "double")))
        if not whole or self.rng.random() < 0.3:
            return col(self.rng.choice(schema.names))
        a, b = (col(self.rng.choice(whole)).cast("int64") for _ in range(2))
        values = [a + b, a - 2 * b, a % 4, -a, if_else(a > b, a, None), if_else(a.is_null(), 0, b)]
        if self.taste.odd:
            values += [a // b, if_else(a > b, 2**62, a), lit(2**61)]
        return self.rng.choice(values)

    def functions(self, schema: StreamSchema) -> Functions:
        """One to three aggregates whose answers are exact."""
        drawn = [self.function(schema) for _ in range(self.rng.randint(1, 3))]
        return tuple(zip(("n", "m", "o"), drawn, strict=False))

    def function(self, schema: StreamSchema) -> AggregateFunction:
        """An aggregate whose answer is exact, whatever the order."""
        anything = self.rng.choice(schema.names)
        made: list[AggregateFunction] = [calls.count(), calls.count(anything)]
        made += [each(anything) for each in EXACT]
        whole, floats = self._named(schema, "int32", "int64"), self._named(schema, "double")
        if whole:
            number = self.rng.choice(whole)
            made += [calls.sum_(number), calls.sum_(number), calls.mean(number)]
            made += [calls.var(number), calls.aggregate(number, spread, "int64")]
        if floats:
            made.append(calls.sum_(self.rng.choice(floats), scale=4))
        function = self.rng.choice((self.rng.choice(made), self._newer(schema)))
        if self.rng.random() < 0.2:
            return Filtered(function, self._condition(schema))
        return function

    def _newer(self, schema: StreamSchema) -> AggregateFunction:
        """One of the functions that keep more than a value."""
        anything, other = self.rng.choice(schema.names), self.rng.choice(schema.names)
        made: list[AggregateFunction] = [calls.mode(anything), calls.array_agg(anything)]
        made += [calls.quantile(anything, q, exact=True) for q in (0.0, 0.5, 0.75)]
        made += [calls.arg_min(anything, other), calls.arg_max(anything, other)]
        whole, bools = self._named(schema, "int32", "int64"), self._named(schema, "bool")
        texts = self._named(schema, "string", "large_string", "string_view")
        if whole:
            number, ddof = self.rng.choice(whole), self.rng.choice((0, 1))
            made += [calls.var(number, ddof=ddof), calls.stddev(number, ddof=ddof)]
        if bools:
            made += [calls.bool_and(self.rng.choice(bools)), calls.bool_or(self.rng.choice(bools))]
        if texts:
            made.append(calls.string_agg(self.rng.choice(texts), self.rng.choice((",", ""))))
        return self.rng.choice(made)

    def _condition(self, schema: StreamSchema) -> Expr:
        """Of some rows; now and then one that some rows fail for."""
        whole = self._named(schema, "int32", "int64")
        if self.taste.odd and whole and self.rng.random() < 0.3:
            a, b = (col(self.rng.choice(whole)) for _ in range(2))
            return a // b > 0
        return self.predicate(schema, 1)


def parity(values: pa.Array) -> pa.Array:
    """A user's function: null for null, 1 for odd numbers."""
    return pa.array([None if v is None else v % 2 for v in values.to_pylist()], values.type)


def spread(values: pa.Array) -> int:
    """A user's aggregate."""
    return int(values[-1].as_py() - values[0].as_py())


EXACT = (calls.min_, calls.max_, calls.first, calls.last, calls.count_distinct)
Functions = tuple[tuple[str, AggregateFunction], ...]
BOUNDS: tuple[tuple[str, WindowBound], ...] = (
    ("ts_start", calls.window_start()),
    ("ts_end", calls.window_end()),
    ("ts_time", calls.window_time()),
)
"""By names that a window's `on=` is drawn from."""


def random_inexact_query(rng: random.Random) -> Query:
    """A windowed aggregate whose answers are near the exact ones: sketches, sums of floats."""
    drawing = Drawing(rng, Taste(depth=1, odd=False))
    functions: Functions = (
        ("float_sum", calls.sum_("f")),
        ("float_mean", calls.mean("f")),
        ("float_var", calls.var("f")),
        ("fine_var", calls.var("f", scale=100)),
        ("median", calls.quantile("x", 0.5, accuracy=0.05)),
        ("high", calls.quantile("f", 0.9)),
        ("different", calls.count_distinct("x", method="hll", precision=14)),
    )
    rows = drawing.rng.choice(drawing.sources)
    if rng.random() < 0.5:
        rows = where(rows, drawing.predicate(rows.schema))
    slide = rng.choice((3, 10))
    window = nodes.Window(rows, rng.choice((10, 25)), slide, None)
    groups = rng.choice(((), ("k",)))
    early = rng.choice((None, 5))
    return Query(nodes.Aggregate(window, groups, tuple(rng.sample(functions, 4)), early), "aside")


def select(q: Node, columns: Mapping[str, Computed]) -> Node:
    """These columns of a query."""
    return nodes.Select(q, tuple(columns.items()))


def where(q: Node, predicate: Expr) -> Node:
    """The rows for which it is true."""
    return nodes.Where(q, predicate)


def random_query(rng: random.Random, taste: Taste | None = None) -> Query:
    """A query that the builder takes; of one step at least."""
    for _ in range(TRIES_MAX):
        drawing = Drawing(rng, taste or Taste())
        try:
            root = drawing.query(rng.randint(1, drawing.taste.depth))
            if not isinstance(root, nodes.Source):
                return Query(root, "aside")
        except Misuse:
            continue
    raise AssertionError(f"the builder refused {TRIES_MAX} queries, one after another")
