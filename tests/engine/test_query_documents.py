"""Queries as documents: they come back as they went, and what anybody sends is looked at."""

from __future__ import annotations

import copy
import random
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gapless.engine import nodes
from gapless.engine.functions import function
from gapless.engine.node_base import DEPTH_MAX
from gapless.engine.nodes import INPUTS_MAX, NODES_MAX
from gapless.engine.query import Query
from gapless.engine.source import source
from gapless.operators.aggregates.calls import count
from gapless.protocol.documents import Document, pack, unpack
from gapless.protocol.errors import DecodeError, Misuse
from gapless.protocol.expr import col
from tests.engine.queries import FUNCTIONS, random_query, some_source, twice
from tests.protocol.strategies import documents, schemas

A = some_source()


def back(query: Query) -> Query:
    return Query.from_document(unpack(pack(query.to_document())), FUNCTIONS)


# -- there and back -------------------------------------------------------------------------------


@given(st.integers(0, 10**6))
def test_a_query_comes_back_as_it_went(seed: int) -> None:
    q = random_query(seed)
    again = back(q)
    assert again.same_as(q)
    assert again.schema == q.schema
    assert again.properties == q.properties
    assert again.explain() == q.explain()
    assert again.to_document() == q.to_document()


@given(schemas())
def test_a_source_of_every_type_comes_back(schema: Any) -> None:
    payload = schema.payload.append(pa.field("the time", pa.int64()))
    if len(set(payload.names)) == len(payload.names):
        q = source("a", payload, time="the time", time_unit=schema.time_unit)
        assert back(q).schema == q.schema


def test_a_step_that_two_others_read_is_still_one() -> None:
    big = A.where(col("k") > 3)
    again = back(big.window(5).join(big.latest_by("k"), on="k"))
    assert isinstance(again.root, nodes.Join)
    left, right = again.root.inputs
    assert left.inputs[0] is right.inputs[0]


def test_the_form_of_a_document() -> None:
    q = A.where(col("k") > 3).on_error("aside")
    assert q.to_document() == {
        "version": 1,
        "on_error": "aside",
        "nodes": [
            {
                "is": "source",
                "inputs": [],
                "name": "a",
                "columns": [["ts", "int64", True], ["k", "int64", True], ["s", "string", True]],
                "time_unit": "ms",
                "time": "ts",
                "lateness": {"time": 5},
            },
            {
                "is": "where",
                "inputs": [0],
                "predicate": ["call", "greater", {}, ["col", "k"], ["lit", None, 3]],
            },
        ],
    }


# -- functions of users ---------------------------------------------------------------------------


def test_functions_are_named_and_brought_by_the_reader() -> None:
    q = A.map(x=function(twice, "k", returns="int64"))
    with pytest.raises(
        DecodeError, match=r"query.nodes\[1\].*'tests.engine.queries:twice' was not given"
    ):
        Query.from_document(q.to_document())
    assert back(q).same_as(q)


def test_functions_of_one_name_do_not_travel() -> None:
    q = A.map(
        x=function(lambda k: k, "k", returns="int64"),
        y=function(lambda k: -k, "k", returns="int64"),
    )
    with pytest.raises(Misuse, match=r"two functions are called .*<lambda>"):
        q.to_document()


# -- from anybody ---------------------------------------------------------------------------------


def changed(query: Query, number: int, **fields: Any) -> Document:
    document: Any = copy.deepcopy(query.to_document())
    for name, value in fields.items():
        if value is ...:
            del document["nodes"][number][name]
        else:
            document["nodes"][number][name] = value
    made: Document = document
    return made


JOINED = A.window(5).join(A.window(5), on="k")  # nodes: source, window, window, join
HOP = A.window(10, 5).group_by("k").aggregate(n=count())  # source, window, aggregate
HOSTILE: dict[str, tuple[Document, str]] = {
    "no document": (7, "query: is a int"),
    "another version": ({"version": 2, "on_error": "stop", "nodes": []}, "query.version: is 2"),
    "no version": ({"on_error": "stop", "nodes": []}, "query.version: is missing"),
    "another mode": ({"version": 1, "on_error": "x", "nodes": []}, "query.on_error: 'x'"),
    "no nodes": ({"version": 1, "on_error": "stop", "nodes": []}, "query.nodes: is empty"),
    "more": ({**A.to_document(), "x": 1}, "query: has unknown fields: x"),  # type: ignore[dict-item]  # a dict
    "no such node": (changed(A, 0, **{"is": "sink"}), r"nodes\[0\].is: 'sink' .*one of sou"),
    "a node with more": (changed(A, 0, x=1), r"query.nodes\[0\]: has unknown fields: x"),
    "a node with less": (changed(A, 0, time=...), r"query.nodes\[0\].time: is missing"),
    "inputs of a source": (changed(A, 0, inputs=[0]), r"query.nodes\[0\].inputs: has 0"),
    "no input": (changed(HOP, 1, inputs=[]), r"query.nodes\[1\].inputs: has 0 numbers"),
    "two inputs": (changed(HOP, 1, inputs=[0, 0]), r"query.nodes\[1\].inputs: has 2 numbers"),
    "itself as input": (changed(HOP, 1, inputs=[1]), r"query.nodes\[1\].inputs: has 1"),
    "input -1": (changed(HOP, 1, inputs=[-1]), r"query.nodes\[1\].inputs: has -1"),
    "true as an input": (changed(HOP, 1, inputs=[True]), r"nodes\[1\].inputs\[0\]: is a bool"),
    "read by nobody": (changed(HOP, 2, inputs=[0]), r"query.nodes\[1\]: is read by no node"),
    "an unfit column": (changed(A, 0, columns=[["ts", "int64"]]), r"query.nodes\[0\]: columns"),
    "an unfit type": (changed(A, 0, columns=[["ts", "int6", True]]), r"query.nodes\[0\]: type"),
    "an unfit name": (changed(A, 0, columns=[["_ts", "int64", True]]), r"nodes\[0\]: payload col"),
    "an unfit time": (changed(A, 0, time="s"), r"query.nodes\[0\]: source a: time 's' is string"),
    "an unfit unit": (changed(A, 0, time_unit="d"), r"query.nodes\[0\]: time unit 'd'"),
    "an unfit lateness": (changed(A, 0, lateness={"time": -1}), r"nodes\[0\]: lateness.time: is"),
    "an empty window": (changed(HOP, 1, range=0), r"query.nodes\[1\].range: is 0"),
    "too many windows": (changed(HOP, 1, range=10**7), r"query.nodes\[1\]: .* 100000 are the most"),
    "a window on 3": (changed(HOP, 1, on=3), r"query.nodes\[1\].on: is a int"),
    "a window on what does not progress": (
        changed(HOP, 1, on="k"),
        r"query.nodes\[1\]: window on='k': nothing is promised",
    ),
    "a group of the unknown": (changed(HOP, 2, group_by=["x"]), r"query.nodes\[2\]: group_by: no"),
    "no aggregate function": (changed(HOP, 2, aggregates=[["n", 3]]), r"query.nodes\[2\]"),
    "no aggregate's form": (changed(HOP, 2, aggregates=[["n"]]), r"query.nodes\[2\]: aggregates"),
    "early before now": (changed(HOP, 2, early=-1), r"query.nodes\[2\].early: is -1"),
    "a join on less": (changed(JOINED, 3, on=[["k"]]), r"query.nodes\[3\]: on: a pair"),
    "a join of no kind": (changed(JOINED, 3, how="semi"), r"query.nodes\[3\]: join how='semi'"),
    "a join of the unknown": (changed(JOINED, 3, on=[["k", "x"]]), r"query.nodes\[3\]: join on"),
    "no such expression": (
        changed(JOINED, 3, where=["cal", "x"]),
        r"query.nodes\[3\]: expression: a node of no known form",
    ),
    "a function of none": (
        changed(A.where(col("k") > 0), 1, predicate={"function": "os:system"}),
        r"query.nodes\[1\]: function.columns: is missing",
    ),
    "too many nodes": (
        {"version": 1, "on_error": "stop", "nodes": [{} for _ in range(NODES_MAX + 1)]},
        "query.nodes: 1001 items",
    ),
    "too many inputs": (
        changed(A.union(A), 1, inputs=[0] * (INPUTS_MAX + 1)),
        r"query.nodes\[1\].inputs: 257 items",
    ),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_what_is_wrong_is_named_with_its_place(case: str) -> None:
    document, sentence = HOSTILE[case]
    with pytest.raises(DecodeError, match=sentence):
        Query.from_document(document)


def test_documents_that_nest_or_fork_without_end_are_refused_soon() -> None:
    source_node: Any = A.to_document()
    chain = list(source_node["nodes"])
    chain += [{"is": "normalise", "inputs": [i]} for i in range(DEPTH_MAX)]
    with pytest.raises(DecodeError, match="steps one above the other"):
        Query.from_document({"version": 1, "on_error": "stop", "nodes": chain})
    forks = list(source_node["nodes"])
    forks += [{"is": "union", "inputs": [i, i]} for i in range(150)]  # 2**150 paths
    q = Query.from_document({"version": 1, "on_error": "stop", "nodes": forks})
    assert len(q.derived) == 151
    assert len(q.explain().splitlines()) < 310


def places(document: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Every place in a document."""
    yield path
    if isinstance(document, dict | list):
        items = document.items() if isinstance(document, dict) else enumerate(document)
        for key, value in items:
            yield from places(value, (*path, key))


@given(st.integers(0, 300), st.randoms(use_true_random=False), documents())
@settings(max_examples=300)
def test_any_change_gives_a_query_or_a_decode_error(
    seed: int, rng: random.Random, other: Document
) -> None:
    document: Any = copy.deepcopy(random_query(seed).to_document())
    place = rng.choice(list(places(document)))
    if not place:
        document = other
    else:
        at = document
        for key in place[:-1]:
            at = at[key]
        if rng.random() < 0.3:
            del at[place[-1]]
        else:
            at[place[-1]] = rng.choice((other, 0, -1, "k", [], {}, None, True))
    try:
        q = Query.from_document(document, FUNCTIONS)
    except DecodeError:
        return
    assert back(q).same_as(q)
