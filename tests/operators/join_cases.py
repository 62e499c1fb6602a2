"""Two tables, ways of telling them, and a join of them: what the tests of joins share."""

import random
from collections.abc import Callable
from typing import Any

from gapless.operators.join import Join
from gapless.protocol.expr import Expr, col
from gapless.protocol.frame import Frame
from gapless.protocol.schema import StreamSchema
from gapless.protocol.tdb import Tdb
from gapless.protocol.text import format, parse
from gapless.protocol.variants import random_tdb
from tests.operators import laws
from tests.operators.join_oracle import Oracle

LEFT = StreamSchema({"k": "string", "a": "int64"})
RIGHT = StreamSchema({"key": "string", "b": "int64"})
ON = [("k", "key")]
ROWS: list[tuple[object, ...]] = [(k, n) for k in ("x", "y", None) for n in (1, 2)]
HOWS = ("inner", "left", "right", "full")
Condition = tuple[Expr | None, Callable[[tuple[Any, ...]], bool]]
ALWAYS: Condition = (None, lambda _: True)
DIFFER: Condition = (col("a") != col("b"), lambda row: bool(row[1] != row[2]))


class Case:
    """Two tables, a way of telling them, and a join of them."""

    def __init__(self, seed: int, inserts: bool = False, how: str | None = None) -> None:
        self.rng = rng = random.Random(seed)
        self.how: Any = how or HOWS[seed % 4]
        self.where, self.holds = DIFFER if seed % 3 == 0 else ALWAYS
        self.final = (inserts and seed % 5 != 0, inserts and seed % 7 != 0)
        self.tables = [
            random_tdb(rng, schema, ROWS, 12, 40, duplicates=seed % 2 == 0)
            for schema in (LEFT, RIGHT)
        ]
        streams = [laws.tellings(t, seed * 9 + i, inserts) for i, t in enumerate(self.tables)]
        self.told = laws.woven(rng, *streams)
        self.oracle = Oracle(((0, 0),), self.how, self.holds)

    def make(self) -> Join:
        return Join(LEFT, RIGHT, ON, self.where, self.how, final_ends=self.final)

    @property
    def wanted(self) -> Tdb:
        left, right = self.tables
        return Tdb(self.make().schema, self.oracle.table(left, right).elements())


def check_each_push(case: Case, told: laws.Told) -> None:
    """After each push: the table is what all pairs say, the stable the least of the inputs'."""
    join = case.make()
    inputs, out = (Tdb(LEFT), Tdb(RIGHT)), Tdb(join.schema)
    for source, frame in told:
        inputs[source].fold(frame)
        laws.follow(join, out, source, frame)
        stables = inputs[0].stable, inputs[1].stable
        wanted = case.oracle.table(*inputs, stables)
        assert out.counts() == wanted, out.difference(Tdb(join.schema, wanted.elements()))
        assert out.stable == min(stables)
    assert len(join._sides[0].rows) == len(join._sides[1].rows) == 0


def say(join: Join, source: int, text: str) -> str:
    schema = (LEFT, RIGHT)[source]
    frame = Frame.from_elements(schema, parse(text, schema))
    return format(join.push(source, frame).frame.elements())


def held(join: Join) -> tuple[int, int]:
    left, right = join._sides
    return len(left.rows), len(right.rows)
