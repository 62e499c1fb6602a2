"""Queries, built step by step; each step returns a new query.

    flows = source("netflow", {"ts": "timestamp[ms]", "src": "int32", "len": "int32"},
                   time="ts", lateness="5s")
    talkers = (flows.where(col("len") > 0)
                    .window(range="10s", slide="1s")
                    .group_by("src").aggregate(packets=count(), bytes=sum("len")))

A query is a description: nothing is read or computed. Mistakes that can be detected early are
raised by the step that makes them. Queries are immutable, so steps can be shared. Both sides of
this join read one `where`, which is computed once:

    big = flows.where(col("len") > 1000);   big.join(big.latest_by("src"), on="src")
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from gapless.engine import nodes
from gapless.engine.derivation import derived, sources_of
from gapless.engine.durations import Duration, ticks
from gapless.engine.fit import Computed, check_columns
from gapless.engine.known import Properties
from gapless.engine.names import check_column
from gapless.engine.nodes import Node
from gapless.engine.on import On, pairs_of
from gapless.engine.query_aliases import of_groups, of_query
from gapless.engine.rank_arguments import HeavyMethod, Within, is_sketched, ranking
from gapless.engine.window_arguments import Columns, Span, window_node
from gapless.operators.aggregates.counts import Count
from gapless.operators.aside import OnError
from gapless.operators.followed_by import Pick
from gapless.operators.rank_keys import RankBy
from gapless.protocol.column_names import column_names
from gapless.protocol.elements import INF
from gapless.protocol.errors import ExpressionError, Misuse
from gapless.protocol.expr import Column, Expr, col
from gapless.protocol.schema import StreamSchema
from gapless.protocol.tables import html_text

if TYPE_CHECKING:
    from gapless.engine.explain import Implementation
    from gapless.operators.aggregates.function import AggregateFunction
    from gapless.operators.aggregates.window_bounds import WindowBound
    from gapless.protocol.documents import Document


class Query:
    """An immutable description of a continuous query. Compare two by content with `same_as`."""

    __slots__ = ("_known", "on_error_mode", "root", "sources")

    def __init__(
        self,
        root: Node,
        on_error: OnError = "stop",
        known: Mapping[Node, Properties] | None = None,
    ) -> None:
        """`known`: properties already derived for some of its nodes."""
        if on_error not in ("stop", "aside"):
            raise Misuse(f"on_error {on_error!r}: use 'stop' or 'aside'")
        self.root = root
        """The last step."""
        self.on_error_mode: OnError = on_error
        self._known = derived(root, known or {})
        self.sources = sources_of(self._known)
        """The sources by name, in the query's order."""

    @property
    def schema(self) -> StreamSchema:
        """The schema of the answer."""
        return self.root.schema

    @property
    def properties(self) -> Properties:
        """The properties of the answer's stream."""
        return self._known[self.root]

    @property
    def derived(self) -> Mapping[Node, Properties]:
        """The properties of every step's stream, inputs first."""
        return self._known

    # -- one input ----------------------------------------------------------------------------

    def where(self, predicate: Computed) -> Query:
        """The rows for which `predicate` is true; null is not true."""
        return self._then(nodes.Where(self.root, predicate))

    def select(self, *columns: str | Expr, **computed: Computed) -> Query:
        """Exactly these columns: the named ones, then the computed ones."""
        for given in columns:
            if isinstance(given, Expr) and not isinstance(given, Column):
                raise ExpressionError(f"select: give {given} a name, as in select('a', b={given})")
        names = column_names("select", columns)
        for name in names:
            check_column("select", name, self.schema.names)
        kept = [(name, col(name)) for name in names]
        return self._then(nodes.Select(self.root, (*kept, *computed.items())))

    def map(self, **computed: Computed) -> Query:
        """All columns, and these: each replaces a column of the same name or is appended."""
        if not computed:
            raise Misuse("map: name at least one column, as in map(x=gl.col('y') + 1)")
        columns: dict[str, Computed] = {name: col(name) for name in self.schema.names}
        return self._then(nodes.Select(self.root, tuple({**columns, **computed}.items())))

    def window(
        self,
        range: Span | None = None,  # noqa: A002  # the paper's word
        slide: Span | None = None,
        on: str | Expr | None = None,
        *,
        session: Duration | None = None,
        partition_by: Columns = (),
        restart: Duration | None = None,
        origin: Duration | datetime | None = None,
    ) -> Query:
        """Each answer covers the rows of the `range` before it, or "all" rows before it.

        With `slide`, aggregates are answered at its multiples, else at every instant. A slide
        longer than the range skips rows, and warns. `on` names a progressing column to use instead
        of the source's time. Both may count rows, `gl.rows(100)`: the last 100, or answers at every
        100th, of each value of `partition_by`; rows of a range without a slide live until so many
        more have come. With `session` each session is answered: rows, of equal `partition_by`,
        whose neighbours are at most that far apart. With `restart` a window of "all" begins anew at
        its multiples, so each answer covers the rows since the last one. All multiples are counted
        from `origin`, a time or a duration after 1970.
        """
        given = (range, slide, on, session, partition_by, restart, origin)
        return self._then(window_node(self.root, self.properties, *given))

    def bucket(self, **bounds: WindowBound) -> Query:
        """Each row once for every window that it is in, with columns that say which, as in
        `bucket(end=gl.window_end())`; above a window with a slide.
        """
        return self._then(nodes.Bucket(self.root, tuple(bounds.items())))

    def lifetime(self, end: str | Expr | None = None, duration: Duration | None = None) -> Query:
        """Each row lives until its own `end` (null: forever), or for a `duration`."""
        if duration is not None:
            duration = ticks(duration, self.schema.time_unit, "lifetime duration", least=1)
        if isinstance(end, str):
            check_column("lifetime end", end, self.schema.names)
            end = col(end)
        return self._then(nodes.Lifetime(self.root, end, duration))

    def dedupe(self, *key: str | Expr, within: Duration | None = None) -> Query:
        """Each row unless one with its `key` was kept less than `within` before it, or at its time;
        of those that come at one time the one with the smallest payload. Without `within` the first
        row of each key alone, and every key is remembered for ever.
        """
        span = INF
        if within is not None:
            span = ticks(within, self.schema.time_unit, "dedupe within", least=1)
        return self._then(nodes.Dedupe(self.root, column_names("dedupe", key), span))

    def latest_by(self, *key: str | Expr) -> Query:
        """Each row lives until the next one with its key."""
        return self._then(nodes.LatestBy(self.root, column_names("latest_by", key)))

    def group_by(self, *columns: str | Expr) -> GroupedQuery:
        """Groups rows by these columns, for `aggregate`."""
        if not columns:
            raise Misuse(
                "group_by: name the columns; for one group of all rows use query.aggregate(...)"
            )
        names = column_names("group_by", columns)
        check_columns("group_by", names, self.schema.names)
        return GroupedQuery(self, names)

    def aggregate(
        self, *, early: Duration | bool | None = None, **aggregates: AggregateFunction
    ) -> Query:
        """Aggregates all rows of a window, or all rows alive; `early` as for groups."""
        return _aggregated(self, (), early, aggregates)

    def distinct(self, *columns: str | Expr) -> Query:
        """Each row once at every instant; only these columns, if any are named."""
        query = self.select(*columns) if columns else self
        return Query(nodes.Distinct(query.root), query.on_error_mode, query.derived)

    def top_k(
        self,
        k: int,
        by: RankBy | Sequence[RankBy],
        largest: bool = True,
        within: Within = (),
    ) -> Query:
        """At every instant the first k rows by `by`, in each group: by the largest values, or the
        smallest; by several keys, `by=["n", gl.asc("src", nulls="first")]`.
        """
        keys, groups = ranking("top_k", self.schema.names, by, largest, within)
        return self._then(nodes.TopK(self.root, k, keys, groups))

    def top(
        self,
        k: int,
        by: RankBy | Sequence[RankBy],
        largest: bool = True,
        within: Within = (),
        rank: str = "rank",
    ) -> Query:
        """Of each window the first k rows by `by`, as of `top_k`, with their ranks from 1."""
        keys, groups = ranking("top", self.schema.names, by, largest, within)
        cut = self if self.properties.hop is None else self.bucket()
        top = nodes.Top(cut.root, k, keys, groups, rank)
        return Query(top, cut.on_error_mode, cut.derived)

    def heavy(self, *columns: str | Expr, share: float, method: HeavyMethod = "exact") -> Query:
        """Of each window the values that at least this share of its rows has, and their count n;
        by "count_min" an estimate of it, in little memory: never too low, and none is missing.
        """
        if is_sketched(method):
            return self._then(nodes.SketchedHeavy(self.root, column_names("heavy", columns), share))
        counted = self.group_by(*columns).aggregate(n=Count())
        return _combined(nodes.Heavy(counted.root, "n", share), counted)

    def normalise(self) -> Query:
        """The normal form of the table: as few and as long lifetimes as possible. Put it behind
        plans that divide lifetimes differently, so that they can race.
        """
        return self._then(nodes.Normalise(self.root))

    # -- several inputs -----------------------------------------------------------------------

    def join(
        self, other: Query, on: On = None, where: Expr | None = None, how: nodes.How = "inner"
    ) -> Query:
        """Pairs of rows that are alive together, equal in `on`, and for which `where` holds over
        the output's columns. Outer joins add unmatched rows, with nulls.
        """
        pairs = pairs_of(on)
        node = nodes.Join(self.root, _root("join", other), pairs, where, how)
        return _combined(node, self, other)

    def followed_by(
        self,
        other: Query,
        on: On = None,
        where: Expr | None = None,
        within: Duration | None = None,
        pick: Pick = "recent",
    ) -> Query:
        """Each row of `other` with one row before it, equal in `on`, for which `where` holds: the
        most recent, or the earliest that no row has followed ("chronicle"). `within`: at most so
        long before it. A pair lives as its row of `other` does.
        """
        root = _root("followed_by", other)
        if within is not None:
            within = ticks(within, self.schema.time_unit, "followed_by within", least=1)
        pairs = pairs_of(on, "followed_by")
        node = nodes.FollowedBy(self.root, root, pairs, where, within, pick)
        return _combined(node, self, other)

    def union(self, *others: Query) -> Query:
        """The rows of all these queries."""
        if not others:
            raise Misuse("union: give at least one other query")
        roots = (_root("union", query) for query in others)
        return _combined(nodes.Union((self.root, *roots)), self, *others)

    def difference(self, other: Query) -> Query:
        """Each row as often as it is alive more here than in `other`."""
        return _combined(nodes.Difference(self.root, _root("difference", other)), self, other)

    # -- the whole ----------------------------------------------------------------------------

    def on_error(self, mode: OnError) -> Query:
        """What happens to a row that cannot be processed: "stop" raises a `RowError`, "aside"
        keeps the row and goes on. If queries are combined, the first one's choice applies.
        """
        return Query(self.root, mode, self._known)

    def explain(self, implementation: Implementation = None) -> str:
        """The plan in words: steps, properties, reach, merge case, what may diverge.

        `implementation` is the plan's choice for windowed aggregates.
        """
        from gapless.engine.explain import explain

        return explain(self, implementation)

    def same_as(self, other: Query) -> bool:
        """Whether both describe the same steps."""
        from gapless.engine.comparison import same_query

        return same_query(self, other)

    def to_document(self) -> Document:
        """The query as plain data; user functions are named "module:qualname"."""
        from gapless.engine.documents import query_to_document

        return query_to_document(self)

    @staticmethod
    def from_document(document: Document, functions: Mapping[str, Any] | None = None) -> Query:
        """The inverse of `to_document`, for untrusted documents. Raises `DecodeError`.

        `functions` maps the names in the document to user functions.
        """
        from gapless.engine.read_documents import query_from_document

        return query_from_document(document, functions or {})

    def _then(self, node: Node) -> Query:
        return Query(node, self.on_error_mode, self._known)

    def __reduce__(self) -> tuple[Any, ...]:
        from gapless.engine.documents import has_functions

        if has_functions(self):
            return Query, (self.root, self.on_error_mode)
        return Query.from_document, (self.to_document(),)

    def __repr__(self) -> str:
        from gapless.engine.explain import in_short

        return f"Query({in_short(self)})"

    def _repr_html_(self) -> str:
        return html_text(self.explain())

    if not TYPE_CHECKING:  # a type checker is to find such a name

        def __getattr__(self, name: str) -> Any:
            return of_query(self, name)


class GroupedQuery:
    """Grouped rows: half a step, completed by `aggregate`."""

    __slots__ = ("_columns", "_query")

    def __init__(self, query: Query, columns: tuple[str, ...]) -> None:
        self._query = query
        self._columns = columns

    def aggregate(
        self, *, early: Duration | bool | None = None, **aggregates: AggregateFunction
    ) -> Query:
        """For each group its columns, then these aggregates.

        `early`: windows that end within this time of the stable are answered provisionally, and
        revised; True: all windows that have rows. Only windows with a slide have early answers.
        """
        return _aggregated(self._query, self._columns, early, aggregates)

    def __repr__(self) -> str:
        return f"{self._query!r} grouped by {', '.join(self._columns)}: call aggregate(...)"

    if not TYPE_CHECKING:  # a type checker is to find such a name

        def __getattr__(self, name: str) -> Any:
            return of_groups(self, name)


def race(first: Query, *others: Query) -> Query:
    """The answer of equivalent queries, from whichever is first at each moment."""
    if not others:
        raise Misuse("race: give at least two queries")
    roots = [_root("race", query) for query in (first, *others)]
    return _combined(nodes.Race(tuple(roots)), first, *others)


# -- parts ----------------------------------------------------------------------------------------


def _aggregated(
    query: Query,
    group_by: tuple[str, ...],
    early: Duration | bool | None,
    aggregates: Mapping[str, AggregateFunction],
) -> Query:
    if early is True:
        horizon: int | None = INF
    elif early is None or early is False:
        horizon = None
    else:
        horizon = ticks(early, query.schema.time_unit, "aggregate early")
    node = nodes.Aggregate(query.root, group_by, tuple(aggregates.items()), horizon)
    return Query(node, query.on_error_mode, query.derived)


def _combined(node: Node, first: Query, *others: Query) -> Query:
    """A step over several queries, whose steps are known already."""
    known = dict(first.derived)
    for other in others:
        known.update(other.derived)
    return Query(node, first.on_error_mode, known)


def _root(what: str, query: Query) -> Node:
    if not isinstance(query, Query):
        raise Misuse(f"{what}: {query!r} is not a query")
    return query.root
