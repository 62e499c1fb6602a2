"""Session windows as users write them: the query, what is known of it, what is refused."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pyarrow as pa
import pytest

import gapless as gl
from gapless.engine import nodes
from gapless.engine.execute import Execution
from gapless.engine.plan import Plan
from gapless.engine.query import Query
from gapless.merge.choose import choose
from gapless.protocol.elements import INF
from gapless.protocol.errors import DecodeError, ExpressionError, Misuse, SchemaError
from gapless.protocol.tdb import Event, Tdb
from tests.engine.queries import some_source

A = some_source("a")  # ts, k, s; lateness 5
BY_K = A.window(session=3, partition_by="k")
ROWS = pa.table({"ts": [1, 2, 9, 4, 6, 30], "k": [1, 2, 1, 1, 2, 2], "s": list("abcdfe")})


def test_each_session_of_each_partition_is_one_answer() -> None:
    q = BY_K.group_by("k").aggregate(n=gl.count(), last=gl.last("s"))
    tdb = Tdb(q.schema)
    for frame in Execution(Plan(q), {"a": ROWS}):
        tdb.fold(frame)
    assert Counter(tdb.events) == Counter(
        [
            Event((2, 1, "b"), 5, 6),
            Event((1, 2, "d"), 7, 8),
            Event((2, 1, "f"), 9, 10),
            Event((1, 1, "c"), 12, 13),
            Event((2, 1, "e"), 33, 34),
        ]
    )


def test_what_is_known_of_answers() -> None:
    def case(q: Query) -> str:
        return choose([q.properties.merge] * 2)[0]

    by_partition = BY_K.group_by("k").aggregate(n=gl.count())
    assert by_partition.properties.reach == {"a": INF}
    assert by_partition.properties.unique == ("k",)
    assert case(by_partition) == "r2"
    assert case(A.window(session=3).aggregate(n=gl.count())) == "r0"
    assert case(BY_K.group_by("k").aggregate(n=gl.count(), early=True)) == "r3"
    assert not BY_K.group_by("s").aggregate(n=gl.count()).properties.key
    assert "window session 3 ms by k" in by_partition.explain()
    assert "sessions, merged" in by_partition.explain()
    assert "(sessions)" in Plan(by_partition).explain()


def test_a_document_says_all_of_it() -> None:
    q = A.window(session="2ms", partition_by=[gl.col("k"), "s"], on="ts").aggregate(n=gl.count())
    again = Query.from_document(q.to_document())
    assert again.same_as(q)
    assert not again.same_as(A.window(session="2ms").aggregate(n=gl.count()))
    node = again.root.inputs[0]
    assert isinstance(node, nodes.Session)
    assert (node.gap, node.partition_by, node.on) == (2, ("k", "s"), None)
    document: Any = q.to_document()
    document["nodes"][1]["gap"] = 0
    with pytest.raises(DecodeError, match="gap"):
        Query.from_document(document)


def test_what_has_no_meaning_is_refused() -> None:
    with pytest.raises(Misuse, match="directly above it"):
        BY_K.where(gl.col("k") > 1)
    with pytest.raises(Misuse, match="directly above it"):
        BY_K.join(A, on="k")
    with pytest.raises(Misuse, match="no answer of its own"):
        Plan(BY_K).compile()
    with pytest.raises(Misuse, match="session= alone"):
        A.window("10s", session=3)
    with pytest.raises(Misuse, match="say range="):
        A.window()
    with pytest.raises(Misuse, match="goes with session="):
        A.window("10s", partition_by="k")
    with pytest.raises(Misuse, match="at least 1"):
        A.window(session=0)
    with pytest.raises(Misuse, match="longest gap"):
        A.window(session=INF // 2)
    with pytest.raises(SchemaError, match="partition_by"):
        A.window(session=3, partition_by="kk")
    with pytest.raises(ExpressionError, match="partition_by"):
        A.window(session=3, partition_by=gl.col("k") + 1)
    with pytest.raises(Misuse, match="nothing is promised of that column"):
        A.window(session=3, on="k")
    with pytest.raises(Misuse, match="in a window already"):
        A.window(10).window(session=3)
