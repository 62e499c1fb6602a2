"""Every operator that lays out more than it was given asks for the memory first."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterator
from itertools import chain

import numpy as np
import pyarrow as pa
import pytest

import gapless.engine
import gapless.operators
from gapless.engine.race import Race
from gapless.merge.choose import StreamProperties
from gapless.operators.aggregates import count, sum_
from gapless.operators.aside import Aside
from gapless.operators.bounded_columns import BoundedColumns
from gapless.operators.bucket import Bucket
from gapless.operators.cleanse import Cleanse
from gapless.operators.clip import Clip
from gapless.operators.dedupe import Dedupe
from gapless.operators.difference import Difference
from gapless.operators.distinct import Distinct
from gapless.operators.filter import Filter
from gapless.operators.followed_by import FollowedBy
from gapless.operators.free_aggregate import FreeAggregate
from gapless.operators.held import HeldAggregate
from gapless.operators.hopping_aggregate import HoppingAggregate
from gapless.operators.join import Join
from gapless.operators.latest import LatestBy
from gapless.operators.latest_rows import LatestRows
from gapless.operators.lifetimes import SetLifetimes
from gapless.operators.meld import Meld
from gapless.operators.memory import Memory
from gapless.operators.normalise import Normalise
from gapless.operators.operator import Chain, Operator
from gapless.operators.per_snapshot import PerSnapshot
from gapless.operators.progress import Progress
from gapless.operators.rank_keys import desc
from gapless.operators.row_window import RowWindowAggregate
from gapless.operators.row_windows import RowHopping
from gapless.operators.select import Select
from gapless.operators.session_aggregate import SessionAggregate
from gapless.operators.settle import Settle
from gapless.operators.sketched_heavy import SketchedHeavy
from gapless.operators.top_k import TopK
from gapless.operators.window_choices import Top
from gapless.operators.window_rows import WindowRows
from gapless.operators.windows import Hopping, Landmark, Sliding
from gapless.protocol.elements import INF
from gapless.protocol.errors import MemoryLimit, Misuse
from gapless.protocol.expr import col
from gapless.protocol.frame import Frame
from gapless.protocol.schema import StreamSchema

S = StreamSchema({"k": "int64", "n": "int64", "text": "string"})
ROWS = 2000
TEXT = "as many characters as it takes to be seen"
SLACK = 4
"""How many times what it was given, and has asked for, an operator may put out."""
FLOOR = 20_000
"""Bytes that nobody need ask for."""


def frame(first: int, stable: int | None = None, rows: int = ROWS, lives: int = 50) -> Frame:
    at = np.arange(first, first + rows)
    vs = at // 10
    columns = [pa.array(at % 700), pa.array(at), pa.array([TEXT] * rows)]
    return Frame.from_columns(S, vs, vs + lives, columns, stable=stable)


def nothing(stable: int) -> Frame:
    return Frame.empty(S, stable)


class Asked(Memory):
    """Counts what is asked for."""

    def __init__(self, limit: int = 1 << 40) -> None:
        super().__init__(limit)
        self.bytes = 0

    def ask(self, more: int, what: str) -> None:
        self.bytes += more
        super().ask(more, what)


Told = list[tuple[int, Frame]]
ONE: Told = [(0, frame(i * ROWS)) for i in range(5)] + [(0, nothing(900)), (0, nothing(INF))]
INSTANTS: Told = [(0, frame(i * ROWS, lives=1)) for i in range(5)] + ONE[5:]
TWO: Told = [(side, frame(i * ROWS)) for i in range(5) for side in (0, 1)]
TWO += [(0, nothing(900)), (1, nothing(900)), (0, nothing(INF)), (1, nothing(INF))]
COUNTS = [("c", count()), ("s", sum_("n"))]
CASES: dict[type[Operator], tuple[Callable[[], Operator], Told]] = {
    Bucket: (lambda: Bucket(S, Hopping(900, 10), ()), ONE),
    BoundedColumns: (lambda: BoundedColumns(S, [("n", 500)], ["n"], Aside("aside")), ONE),
    Chain: (lambda: Chain(Filter(S, col("n") >= 0, Aside()), Settle(S)), ONE),
    Cleanse: (lambda: Cleanse(S), ONE),
    Clip: (lambda: Clip(S, before=500), ONE),
    Dedupe: (lambda: Dedupe(S, ["text", "k"], 50), INSTANTS),
    Difference: (lambda: Difference(S), TWO),
    Distinct: (lambda: Distinct(S), ONE),
    Filter: (lambda: Filter(S, col("n") >= 0, Aside()), ONE),
    FollowedBy: (lambda: FollowedBy(S, S, [("k", "k")]), TWO),
    FreeAggregate: (lambda: FreeAggregate(S, ["text", "k"], COUNTS, Aside()), ONE),
    HeldAggregate: (lambda: HeldAggregate(S, Landmark(10), ["text", "k"], COUNTS), ONE),
    HoppingAggregate: (lambda: HoppingAggregate(S, Hopping(900, 10), ["text", "k"], COUNTS), ONE),
    Join: (lambda: Join(S, S, [("k", "k")], how="full"), TWO),
    LatestBy: (lambda: LatestBy(S, ["k"]), ONE),
    LatestRows: (lambda: LatestRows(S, 3, ["k"]), INSTANTS),
    Meld: (lambda: Meld(S, 2), TWO),
    Normalise: (lambda: Normalise(S), ONE),
    Progress: (lambda: Progress(S, {"n": -1}), ONE),
    Race: (lambda: Race(S, [StreamProperties(key=True)] * 2), TWO),
    RowWindowAggregate: (
        lambda: RowWindowAggregate(S, RowHopping(100, 1), [], ["text", "k"], COUNTS),
        INSTANTS,
    ),
    Select: (lambda: Select(S, [("k", col("k")), ("text", col("text"))], Aside()), ONE),
    SessionAggregate: (lambda: SessionAggregate(S, 5, ["k"], ["text", "k"], COUNTS), INSTANTS),
    SetLifetimes: (lambda: SetLifetimes(S, Sliding(7)), ONE),
    Settle: (lambda: Settle(S), ONE),
    SketchedHeavy: (lambda: SketchedHeavy(S, Hopping(900, 10), ["text", "k"], 0.001), INSTANTS),
    TopK: (lambda: TopK(S, 3, (desc("n"),), ("k",), Aside()), ONE),
    WindowRows: (
        lambda: WindowRows(S, Top(S, 9, (desc("n"),), ("k",), "rank", Aside())),
        INSTANTS,
    ),
}


def kinds(of: type[Operator] = Operator) -> Iterator[type[Operator]]:
    """All operators of the product."""
    for package in (gapless.operators, gapless.engine):
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            importlib.import_module(module.name)
    for kind in of.__subclasses__():
        if kind.__module__.startswith(("gapless.operators.", "gapless.engine.")):
            yield kind
        yield from kinds(kind)


def unasked(operator: Operator, told: Told) -> int:
    """The most bytes of one part beyond what was given and asked for."""
    memory, most = Asked(), 0
    operator.limited(memory)
    for source, given in told:
        memory.bytes = 0
        for out in operator.parts(source, given):
            allowed = SLACK * (given.nbytes + memory.bytes) + FLOOR
            most = max(most, out.frame.nbytes - allowed)
    return most


def test_each_operator_that_there_is_has_a_case_here() -> None:
    assert set(kinds()) - {PerSnapshot} == set(CASES)


@pytest.mark.parametrize("kind", CASES, ids=lambda kind: kind.__name__)
def test_an_operator_asks_for_what_it_puts_out_beyond_what_it_was_given(
    kind: type[Operator],
) -> None:
    make, told = CASES[kind]
    assert unasked(make(), told) <= 0


@pytest.mark.parametrize(
    "kind",
    [
        Dedupe,
        FollowedBy,
        FreeAggregate,
        HeldAggregate,
        HoppingAggregate,
        LatestRows,
        RowWindowAggregate,
        SessionAggregate,
        Settle,
        SketchedHeavy,
        TopK,
        WindowRows,
    ],
    ids=lambda kind: kind.__name__,
)
def test_where_there_is_no_room_nothing_is_put_out(kind: type[Operator]) -> None:
    make, told = CASES[kind]
    operator, memory = make(), Memory(1 << 40)
    operator.limited(memory)
    stables = len(told) - operator.inputs * 2
    for source, given in told[:stables]:
        operator.push(source, given)
    memory.limit = 500  # from now on
    last = [operator.parts(source, given) for source, given in told[stables:]]
    with pytest.raises(MemoryLimit):
        list(chain.from_iterable(last))


def test_a_row_of_more_windows_than_there_is_room_for_is_not_put_out() -> None:
    make, _ = CASES[Bucket]
    operator, memory = make(), Memory(1000)
    operator.limited(memory)
    one_by_one = [len(out.frame) for out in operator.parts(0, frame(0, rows=9))]
    assert one_by_one == [5] * 9 + [0]
    memory.limit = 400
    with pytest.raises(MemoryLimit, match="rows of windows"):
        operator.push(0, frame(0, rows=9))


class Silent(Settle):
    def limited(self, memory: Memory) -> None:
        """Broken: never asks."""


def test_an_operator_that_does_not_ask_is_found() -> None:
    assert unasked(Silent(S), ONE) > 0


def test_room_is_what_the_limit_leaves_and_parts_are_a_share_of_it() -> None:
    class Holds:
        nbytes = 600

    memory = Memory(1000, [("a step", Holds())])
    assert memory.room == 1000
    memory.look()
    assert (memory.room, memory.part_bytes) == (400, 50)
    assert (memory.rows(8.0, 100), memory.rows(8.0, 3), memory.rows(1e9, 100)) == (6, 3, 1)
    memory.ask(400, "rows")
    with pytest.raises(MemoryLimit, match=r"holds 600 bytes and needs 401 more for rows.*a step"):
        memory.ask(401, "rows")
    Holds.nbytes = 1001
    with pytest.raises(MemoryLimit, match="holds 1,001 bytes, its memory_limit is 1,000"):
        memory.look()
    for wrong in (0, 1.5, True):
        with pytest.raises(Misuse):
            Memory(wrong)  # type: ignore[arg-type]  # what is refused
    Memory().ask(INF, "anything")
