"""A tree goes into a document and comes back the same; what is no tree's document is one error."""

from __future__ import annotations

import pickle
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gapless.protocol.documents import pack, unpack
from gapless.protocol.errors import DecodeError
from gapless.protocol.expr import DEPTH_MAX, Expr
from gapless.protocol.functions import FUNCTIONS
from tests.protocol.expressions import ROWS, SCHEMA, batch_of, trees
from tests.protocol.strategies import documents


@given(trees(), ROWS)
def test_a_tree_from_its_document_or_pickle_is_the_same_and_answers_the_same(
    tree: Expr, rows: list[Any]
) -> None:
    batch = batch_of(rows)
    answer = tree.evaluate(batch)
    assert len(answer) == len(rows)
    assert answer.type == tree.type(SCHEMA)
    document = unpack(pack(tree.to_document()))
    pickled = pickle.loads(pickle.dumps(tree))  # noqa: S301  # our own bytes
    for back in (Expr.from_document(document), pickled):
        assert back.same_as(tree)
        assert str(back) == str(tree)
        assert back.columns == tree.columns
        assert back.evaluate(batch).equals(answer)


# -- documents from anybody -------------------------------------------------------------------


@pytest.mark.parametrize(
    "document",
    [
        None,
        [],
        "col",
        ["col"],
        ["col", 5],
        ["col", ""],
        ["lit", None, [1]],
        ["lit", "int8", 300],
        ["lit", "int7", 3],
        ["lit", b"junk", 3],
        ["lit", "int8", {"decimal": "1.5"}],
        ["lit", "int8", {"decimal": "1e999999999"}],
        ["lit", "int8", {"decimal": "NaN"}],
        ["lit", "int8", {"struct": [1], "more": 2}],
        ["lit", "string", {"struct": []}],
        ["call"],
        ["call", "add", {}],
        ["call", "random", {}],
        ["call", "sum", {}, ["col", "a"]],
        ["call", "is_in", {"value_set": [1]}, ["col", "a"]],
        ["call", "is_in", {"value_set": {"array": ["int8", [300]]}}, ["col", "a"]],
        ["call", "is_in", {"value_set": {"tensor": []}}, ["col", "a"]],
        ["call", "cast", {"type": "int8"}, ["col", "a"]],
        ["call", "cast", {"type": {"type": "int8"}, "seaf": True}, ["col", "a"]],
        ["call", "round", {"ndigits": "many"}, ["col", "a"]],
        ["call", "__init__", {}, ["col", "a"]],
    ],
    ids=repr,
)
def test_a_document_that_is_no_expression_is_one_error(document: Any) -> None:
    with pytest.raises(DecodeError):
        Expr.from_document(document)


def test_a_document_that_nests_too_deep_is_refused_before_it_is_followed() -> None:
    document: Any = ["col", "a"]
    for _ in range(10_000):
        document = ["call", "invert", {}, document]
    with pytest.raises(DecodeError, match=str(DEPTH_MAX)):
        Expr.from_document(document)


@given(st.data(), documents())
def test_any_document_makes_a_tree_or_one_error(data: st.DataObject, junk: Any) -> None:
    name = st.sampled_from(sorted(FUNCTIONS))
    option = st.sampled_from(["type", "value_set", "ndigits", "pattern", "field_names", "format"])
    args = st.lists(st.just(["col", "a"]) | st.just(junk), max_size=3)
    options = st.dictionaries(option, documents(), max_size=2)
    shaped = data.draw(
        st.builds(lambda f, o, a: ["call", f, o, *a], name, options, args)
        | st.builds(lambda t, v: ["lit", t, v], documents(), documents())
    )
    for document in (junk, shaped):
        try:
            tree = Expr.from_document(document)
        except DecodeError:
            continue
        assert Expr.from_document(tree.to_document()).same_as(tree)
