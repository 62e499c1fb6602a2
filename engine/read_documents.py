"""Reading the documents of queries that `documents.py` writes; anybody may have sent them.

    {"is": "where", "inputs": [0], "predicate": [...]}      query.nodes[1]: where ...: no column 'x'

What does not decode, or would be refused while a query is written, is a `DecodeError` that names
the node. Numbers of nodes, columns and inputs are bounded before anything is built of them;
expressions and types bound themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa

from gapless.engine import nodes
from gapless.engine.checks import check
from gapless.engine.column_progress import bounds_from_document
from gapless.engine.documents import VERSION
from gapless.engine.fit import Computed
from gapless.engine.functions import UserFunction
from gapless.engine.known import Properties
from gapless.engine.lateness import lateness_from_document
from gapless.engine.nodes import INPUTS_MAX, NODES_MAX, Node
from gapless.engine.properties import of_node
from gapless.engine.query import Query
from gapless.engine.row_counts import Rows
from gapless.operators.aggregates.function import AggregateFunction
from gapless.operators.rank_keys import KEYS_MAX, RankKey
from gapless.operators.row_windows import ROWS_MAX
from gapless.operators.top_k import K_MAX
from gapless.protocol.documents import Document, Fields
from gapless.protocol.elements import INF
from gapless.protocol.errors import DecodeError, Misuse
from gapless.protocol.expr import Expr
from gapless.protocol.plain import type_from_plain
from gapless.protocol.schema import FIELDS_MAX, StreamSchema

Functions = Mapping[str, Callable[..., Any]]
"""Functions of users, by the names that documents call them by."""


class _Given(Fields):
    """Fields some of which are documents of their own, or may be None."""

    def any(self, name: str) -> Document:
        """Whatever it is: its decoder looks at it."""
        if name not in self._left:
            raise DecodeError(f"{self._what}.{name}", "is missing")
        return self._left.pop(name)

    def maybe_int(self, name: str, low: int, high: int) -> int | None:
        """None, or an integer within bounds."""
        return self.take_int(name, low, high) if self._there(name) else None

    def maybe_text(self, name: str) -> str | None:
        """None, or a text."""
        return self.take(name, str) if self._there(name) else None

    def has(self, name: str) -> bool:
        """Whether it is there, and not taken."""
        return name in self._left

    def _there(self, name: str) -> bool:
        if name in self._left and self._left[name] is None:
            del self._left[name]
            return False
        return True


def query_from_document(document: Document, functions: Functions) -> Query:
    """The inverse, for documents from anybody: raises `DecodeError`."""
    given = Fields(document, "query")
    given.take_int("version", VERSION, VERSION)
    on_error: Any = given.take("on_error", str)
    if on_error not in ("stop", "aside"):
        raise DecodeError("query.on_error", repr(on_error[:20]), "'stop' or 'aside'")
    listed = given.take_list("nodes", dict, NODES_MAX)
    given.done()
    if not listed:
        raise DecodeError("query.nodes", "is empty", f"1 to {NODES_MAX} nodes")
    made: list[Node] = []
    known: dict[Node, Properties] = {}
    for i, one in enumerate(listed):
        node = _read_node(_Given(one, f"query.nodes[{i}]"), f"query.nodes[{i}]", made, functions)
        made.append(node)
        try:
            below = [known[n] for n in node.inputs]
            check(node, below)
            known[node] = of_node(node, below)
        except Misuse as e:
            raise DecodeError(f"query.nodes[{i}]", str(e)) from None
    read = {n for node in made for n in node.inputs}
    for i, node in enumerate(made[:-1]):
        if node not in read:
            raise DecodeError(
                f"query.nodes[{i}]", "is read by no node", "a node that another reads"
            )
    try:
        return Query(made[-1], on_error, known)
    except Misuse as e:
        raise DecodeError("query", str(e)) from None


def _read_node(given: _Given, path: str, made: list[Node], functions: Functions) -> Node:
    name = given.take("is", str)
    reader = _READERS.get(name)
    if reader is None:
        raise DecodeError(f"{path}.is", repr(name[:20]), f"one of {', '.join(_READERS)}")
    numbers = given.take_list("inputs", int, INPUTS_MAX)
    for number in numbers:
        if not 0 <= number < len(made):
            raise DecodeError(f"{path}.inputs", f"has {number}", "numbers of nodes before it")
    wanted = _INPUTS.get(name, 1)
    if wanted is not None and len(numbers) != wanted:
        raise DecodeError(f"{path}.inputs", f"has {len(numbers)} numbers", wanted)
    try:
        node = reader(given, [made[number] for number in numbers], functions)
        given.done()
    except DecodeError as e:
        if e.field.startswith(path):
            raise
        raise DecodeError(path, str(e)) from None
    except Misuse as e:
        raise DecodeError(path, str(e)) from None
    return node


def _read_source(given: _Given, _: list[Node], _f: Functions) -> Node:
    name = given.take("name", str)
    columns = []
    for column in given.take_list("columns", list, FIELDS_MAX):
        match column:
            case [str(called), (str() | bytes()) as t, bool(nullable)]:
                columns.append(pa.field(called, type_from_plain(t), nullable))
            case _:
                raise DecodeError("columns", "a column of no known form", "[name, type, nullable]")
    schema = StreamSchema(pa.schema(columns), given.take("time_unit", str))
    time = given.take("time", str)
    lateness = lateness_from_document(given.take("lateness", dict), "lateness")
    listed = given.take_list("progress", list, FIELDS_MAX) if given.has("progress") else []
    return nodes.Source(name, schema, time, lateness, bounds_from_document(listed, "progress"))


def _read_computed(document: Document, functions: Functions) -> Computed:
    if not isinstance(document, dict):
        return Expr.from_document(document)
    given = _Given(document, "function")
    name = given.take("function", str)
    columns = given.take_list("columns", str, FIELDS_MAX)
    returns = type_from_plain(given.any("returns"))
    given.done()
    found = functions.get(name)
    if found is None:
        raise DecodeError("function", f"{name[:100]!r} was not given", "among functions=")
    return UserFunction(found, tuple(columns), returns, name)


def _read_where(given: _Given, inputs: list[Node], functions: Functions) -> Node:
    return nodes.Where(inputs[0], _read_computed(given.any("predicate"), functions))


def _read_select(given: _Given, inputs: list[Node], functions: Functions) -> Node:
    pairs = _named(given, "columns")
    columns = tuple((name, _read_computed(computed, functions)) for name, computed in pairs)
    return nodes.Select(inputs[0], columns)


def _named(given: _Given, field: str) -> list[tuple[str, Document]]:
    pairs = []
    for pair in given.take_list(field, list, FIELDS_MAX):
        match pair:
            case [str(name), document]:
                pairs.append((name, document))
            case _:
                raise DecodeError(field, "an entry of no known form", "[name, what it is]")
    return pairs


def _read_window(given: _Given, inputs: list[Node], _: Functions) -> Node:
    covers = given.maybe_int("range", 1, INF - 1)
    slide = given.maybe_int("slide", 1, INF - 1)
    restart = given.take_int("restart", 1, INF - 1, None)
    origin = given.take_int("origin", 0, INF - 1, 0)
    return nodes.Window(inputs[0], covers, slide, given.maybe_text("on"), restart, origin)


def _read_session(given: _Given, inputs: list[Node], _: Functions) -> Node:
    gap = given.take_int("gap", 1, INF - 1)
    partition_by = tuple(given.take_list("partition_by", str, FIELDS_MAX))
    return nodes.Session(inputs[0], gap, partition_by, given.maybe_text("on"))


def _read_bucket(given: _Given, inputs: list[Node], functions: Functions) -> Node:
    bounds: Any = tuple(  # the node looks at them
        (name, AggregateFunction.from_document(f, functions)) for name, f in _named(given, "bounds")
    )
    return nodes.Bucket(inputs[0], bounds)


def _read_dedupe(given: _Given, inputs: list[Node], _: Functions) -> Node:
    key = tuple(given.take_list("key", str, FIELDS_MAX))
    return nodes.Dedupe(inputs[0], key, given.take_int("within", 1, INF))


def _read_latest_rows(given: _Given, inputs: list[Node], _: Functions) -> Node:
    count = given.take_int("range", 1, ROWS_MAX)
    partition_by = tuple(given.take_list("partition_by", str, FIELDS_MAX))
    return nodes.LatestRows(inputs[0], Rows(count), partition_by)


def _read_row_window(given: _Given, inputs: list[Node], _: Functions) -> Node:
    covers, slide = (_read_span(given, name) for name in ("range", "slide"))
    if slide is None:
        raise DecodeError("slide", "is null", "a span, or a number of rows")
    partition_by = tuple(given.take_list("partition_by", str, FIELDS_MAX))
    return nodes.RowWindow(inputs[0], covers, slide, partition_by)


def _read_span(given: _Given, name: str) -> int | Rows | None:
    span = given.any(name)
    if isinstance(span, dict):
        counted = Fields(span, name)
        count = counted.take_int("rows", 1, ROWS_MAX)
        counted.done()
        return Rows(count)
    if span is None or (type(span) is int and 1 <= span < INF):
        return span
    raise DecodeError(name, repr(span)[:20], "null, a span, or a number of rows")


def _read_lifetime(given: _Given, inputs: list[Node], _: Functions) -> Node:
    end = given.any("end")
    duration = given.maybe_int("duration", 1, INF - 1)
    return nodes.Lifetime(inputs[0], None if end is None else Expr.from_document(end), duration)


def _read_latest_by(given: _Given, inputs: list[Node], _: Functions) -> Node:
    return nodes.LatestBy(inputs[0], tuple(given.take_list("key", str, FIELDS_MAX)))


def _read_aggregate(given: _Given, inputs: list[Node], functions: Functions) -> Node:
    group_by = tuple(given.take_list("group_by", str, FIELDS_MAX))
    aggregates = tuple(
        (name, AggregateFunction.from_document(f, functions))
        for name, f in _named(given, "aggregates")
    )
    return nodes.Aggregate(inputs[0], group_by, aggregates, given.maybe_int("early", 0, INF))


def _read_on(given: _Given) -> tuple[tuple[str, str], ...]:
    on = []
    for pair in given.take_list("on", list, FIELDS_MAX):
        match pair:
            case [str(left), str(right)]:
                on.append((left, right))
            case _:
                raise DecodeError("on", "a pair of no known form", "[left column, right column]")
    return tuple(on)


def _read_condition(given: _Given) -> Expr | None:
    where = given.any("where")
    return None if where is None else Expr.from_document(where)


def _read_join(given: _Given, inputs: list[Node], _: Functions) -> Node:
    on, where = _read_on(given), _read_condition(given)
    how: Any = given.take("how", str)  # the node looks at it
    return nodes.Join(inputs[0], inputs[1], on, where, how)


def _read_followed_by(given: _Given, inputs: list[Node], _: Functions) -> Node:
    on, where = _read_on(given), _read_condition(given)
    within = given.maybe_int("within", 1, INF - 1)
    pick: Any = given.take("pick", str)  # the node looks at it
    return nodes.FollowedBy(inputs[0], inputs[1], on, where, within, pick)


def _read_top_k(given: _Given, inputs: list[Node], _: Functions) -> Node:
    k = given.take_int("k", 1, K_MAX)
    by = _read_ranked_by(given)
    return nodes.TopK(inputs[0], k, by, tuple(given.take_list("within", str, FIELDS_MAX)))


def _read_top(given: _Given, inputs: list[Node], _: Functions) -> Node:
    k = given.take_int("k", 1, K_MAX)
    by = _read_ranked_by(given)
    within = tuple(given.take_list("within", str, FIELDS_MAX))
    return nodes.Top(inputs[0], k, by, within, given.take("rank", str))


def _read_ranked_by(given: _Given) -> tuple[RankKey, ...]:
    keys = []
    for key in given.take_list("by", list, KEYS_MAX):
        match key:
            case [document, bool(largest), bool(nulls_first)]:
                keys.append(RankKey(Expr.from_document(document), largest, nulls_first))
            case _:
                raise DecodeError(
                    "by", "a key of no known form", "[expression, is the largest first, are nulls]"
                )
    if not keys:
        raise DecodeError("by", "is empty", f"1 to {KEYS_MAX} keys")
    return tuple(keys)


def _read_heavy(given: _Given, inputs: list[Node], _: Functions) -> Node:
    return nodes.Heavy(inputs[0], given.take("count", str), given.take("share", float))


def _read_sketched_heavy(given: _Given, inputs: list[Node], _: Functions) -> Node:
    columns = tuple(given.take_list("columns", str, FIELDS_MAX))
    return nodes.SketchedHeavy(inputs[0], columns, given.take("share", float))


_READERS: Mapping[str, Callable[[_Given, list[Node], Functions], Node]] = {
    "source": _read_source,
    "where": _read_where,
    "select": _read_select,
    "window": _read_window,
    "session": _read_session,
    "dedupe": _read_dedupe,
    "bucket": _read_bucket,
    "row_window": _read_row_window,
    "lifetime": _read_lifetime,
    "latest_by": _read_latest_by,
    "latest_rows": _read_latest_rows,
    "aggregate": _read_aggregate,
    "join": _read_join,
    "followed_by": _read_followed_by,
    "union": lambda _, inputs, _f: nodes.Union(tuple(inputs)),
    "difference": lambda _, inputs, _f: nodes.Difference(*inputs),
    "distinct": lambda _, inputs, _f: nodes.Distinct(*inputs),
    "top_k": _read_top_k,
    "top": _read_top,
    "heavy": _read_heavy,
    "sketched_heavy": _read_sketched_heavy,
    "race": lambda _, inputs, _f: nodes.Race(tuple(inputs)),
    "normalise": lambda _, inputs, _f: nodes.Normalise(*inputs),
}
_INPUTS = {
    "source": 0,
    "join": 2,
    "followed_by": 2,
    "difference": 2,
    "union": None,
    "race": None,
}
"""How many inputs a node has, where it is not one; None: any number."""
