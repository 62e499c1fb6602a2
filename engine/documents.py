"""Queries as plain data; `read_documents.py` reads them back, `comparison.py` compares them.

    {"version": 1, "on_error": "stop", "nodes": [
        {"is": "source", "inputs": [], "name": "a", "columns": [["ts", "int64", true]], ...},
        {"is": "where", "inputs": [0], "predicate": ["call", "greater", {}, ["col", "ts"], ...]}]}

Each node is listed once, behind those that it reads, and referred to by its number; the last is the
query's. So a node that two others read is still one node when it comes back. A function of a user's
is named ("module:qualname"): the reader of the document brings it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from gapless.engine import nodes
from gapless.engine.column_progress import bounds_to_document
from gapless.engine.fit import Computed
from gapless.engine.functions import UserFunction
from gapless.engine.lateness import lateness_to_document
from gapless.engine.nodes import Node
from gapless.engine.query import Query
from gapless.engine.row_counts import Rows
from gapless.operators.aggregates.custom import Custom, name_of
from gapless.operators.rank_keys import RankKey
from gapless.protocol.documents import Document
from gapless.protocol.errors import Misuse
from gapless.protocol.expr import Expr
from gapless.protocol.plain import type_to_plain

VERSION = 1
"""Of the form above. A reader takes no other."""

# -- writing --------------------------------------------------------------------------------------


def query_to_document(query: Query) -> Document:
    """The query as plain data; raises `Misuse` where two functions of users have one name."""
    _check_function_names(query)
    numbers = {node: i for i, node in enumerate(query.derived)}
    listed: list[Document] = [
        {
            "is": kind_of(node),
            "inputs": [numbers[below] for below in node.inputs],
            **content_of(node),
        }
        for node in numbers
    ]
    return {"version": VERSION, "on_error": query.on_error_mode, "nodes": listed}


def kind_of(node: Node) -> str:
    """What documents call a node's kind."""
    return _NAMES[type(node)]


def content_of(node: Node) -> dict[str, Document]:
    """A node's own parameters; nothing of its inputs."""
    return _WRITERS[type(node)](node)


def _source(node: nodes.Source) -> dict[str, Document]:
    columns: list[Document] = [
        [f.name, type_to_plain(f.type), f.nullable] for f in node.schema.payload
    ]
    return {
        "name": node.name,
        "columns": columns,
        "time_unit": node.schema.time_unit,
        "time": node.time,
        "lateness": lateness_to_document(node.lateness),
        **({"progress": bounds_to_document(node.progress)} if node.progress else {}),
    }


def _computed(computed: Computed) -> Document:
    if isinstance(computed, Expr):
        return computed.to_document()
    columns: list[Document] = list(computed.columns)
    return {
        "function": computed.name,
        "columns": columns,
        "returns": type_to_plain(computed.returns),
    }


def _window(node: nodes.Window) -> dict[str, Document]:
    told: dict[str, Document] = {"range": node.range, "slide": node.slide, "on": node.on}
    if node.restart is not None:
        told["restart"] = node.restart
    return {**told, "origin": node.origin} if node.origin else told


def _row_window(node: nodes.RowWindow) -> dict[str, Document]:
    return {
        "range": _span(node.range),
        "slide": _span(node.slide),
        "partition_by": list(node.partition_by),
    }


def _span(span: int | Rows | None) -> Document:
    return {"rows": span.count} if isinstance(span, Rows) else span


def _lifetime(node: nodes.Lifetime) -> dict[str, Document]:
    end = None if node.end is None else node.end.to_document()
    return {"end": end, "duration": node.duration}


def _aggregate(node: nodes.Aggregate) -> dict[str, Document]:
    listed: list[Document] = [[name, f.to_document()] for name, f in node.aggregates]
    return {"group_by": list(node.group_by), "aggregates": listed, "early": node.early}


def _join(node: nodes.Join) -> dict[str, Document]:
    on: list[Document] = [list(pair) for pair in node.on]
    where = None if node.where is None else node.where.to_document()
    return {"on": on, "where": where, "how": node.how}


def _followed_by(node: nodes.FollowedBy) -> dict[str, Document]:
    on: list[Document] = [list(pair) for pair in node.on]
    where = None if node.where is None else node.where.to_document()
    return {"on": on, "where": where, "within": node.within, "pick": node.pick}


def _top_k(node: nodes.TopK) -> dict[str, Document]:
    return {
        "k": node.k,
        "by": _ranked_by(node.by),
        "within": list(node.within),
    }


def _top(node: nodes.Top) -> dict[str, Document]:
    first: dict[str, Document] = {"k": node.k, "by": _ranked_by(node.by)}
    return {**first, "within": list(node.within), "rank": node.rank}


def _ranked_by(keys: Sequence[RankKey]) -> Document:
    return [[_computed(key.by), key.largest, key.nulls_first] for key in keys]


_WRITERS: Mapping[type, Callable[..., dict[str, Document]]] = {
    nodes.Source: _source,
    nodes.Where: lambda node: {"predicate": _computed(node.predicate)},
    nodes.Select: lambda node: {"columns": [[name, _computed(c)] for name, c in node.columns]},
    nodes.Window: _window,
    nodes.Session: lambda node: {
        "gap": node.gap,
        "partition_by": list(node.partition_by),
        "on": node.on,
    },
    nodes.Bucket: lambda node: {"bounds": [[name, f.to_document()] for name, f in node.bounds]},
    nodes.Dedupe: lambda node: {"key": list(node.key), "within": node.within},
    nodes.RowWindow: _row_window,
    nodes.Lifetime: _lifetime,
    nodes.LatestBy: lambda node: {"key": list(node.key)},
    nodes.LatestRows: lambda node: {
        "range": node.range.count,
        "partition_by": list(node.partition_by),
    },
    nodes.Aggregate: _aggregate,
    nodes.Join: _join,
    nodes.FollowedBy: _followed_by,
    nodes.TopK: _top_k,
    nodes.Top: _top,
    nodes.Heavy: lambda node: {"count": node.count, "share": node.share},
    nodes.SketchedHeavy: lambda node: {"columns": list(node.columns), "share": node.share},
    **{
        kind: lambda _: {}
        for kind in (nodes.Union, nodes.Difference, nodes.Distinct, nodes.Race, nodes.Normalise)
    },
}


_NAMES: Mapping[type, str] = {
    nodes.Source: "source",
    nodes.Where: "where",
    nodes.Select: "select",
    nodes.Window: "window",
    nodes.Session: "session",
    nodes.Dedupe: "dedupe",
    nodes.Bucket: "bucket",
    nodes.RowWindow: "row_window",
    nodes.Lifetime: "lifetime",
    nodes.LatestBy: "latest_by",
    nodes.LatestRows: "latest_rows",
    nodes.Aggregate: "aggregate",
    nodes.Join: "join",
    nodes.FollowedBy: "followed_by",
    nodes.Union: "union",
    nodes.Difference: "difference",
    nodes.Distinct: "distinct",
    nodes.TopK: "top_k",
    nodes.Top: "top",
    nodes.Heavy: "heavy",
    nodes.SketchedHeavy: "sketched_heavy",
    nodes.Race: "race",
    nodes.Normalise: "normalise",
}


# -- functions of users ---------------------------------------------------------------------------


def user_functions(node: Node) -> list[tuple[str, Callable[..., Any]]]:
    """The functions of users that a node calls, with their names."""
    match node:
        case nodes.Where():
            parts: Sequence[object] = [node.predicate]
        case nodes.Select():
            parts = [computed for _, computed in node.columns]
        case nodes.Aggregate():
            parts = [function.unfiltered for _, function in node.aggregates]
        case _:
            parts = []
    found: list[tuple[str, Callable[..., Any]]] = []
    for part in parts:
        if isinstance(part, UserFunction):
            found.append((part.name, part.function))
        elif isinstance(part, Custom):
            found.append((part.qualified_name, part.function))
            if part.merge is not None:
                found.append((name_of(part.merge), part.merge))
    return found


def has_functions(query: Query) -> bool:
    """Whether it calls functions of users, which a document only names."""
    return bool(functions_of(query))


def functions_of(query: Query) -> dict[str, Callable[..., Any]]:
    """The functions of users that it calls, by the names that documents call them by."""
    return {name: call for node in query.derived for name, call in user_functions(node)}


def _check_function_names(query: Query) -> None:
    named: dict[str, Callable[..., Any]] = {}
    for node in query.derived:
        for name, function in user_functions(node):
            if named.setdefault(name, function) is not function:
                raise Misuse(
                    f"two functions are called {name}: a document could not tell them apart; "
                    "give them names of their own"
                )
