import random
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gapless.engine.graph import Graph
from gapless.engine.steps import Step
from gapless.operators.aggregates.calls import count
from gapless.operators.cleanse import Cleanse
from gapless.operators.distinct import Distinct
from gapless.operators.filter import Filter
from gapless.operators.hopping_aggregate import HoppingAggregate
from gapless.operators.normalise import Normalise
from gapless.operators.operator import Marks, Operator, Out
from gapless.operators.state import State, facts, read_facts
from gapless.operators.windows import Hopping
from gapless.protocol.elements import BEGIN, INF
from gapless.protocol.errors import Bug, DecodeError, MemoryLimit, Misuse, SchemaError
from gapless.protocol.expr import col
from gapless.protocol.frame import Frame, frames_of
from gapless.protocol.punctuation import Punctuation
from gapless.protocol.schema import StreamSchema
from gapless.protocol.tdb import Tdb
from gapless.protocol.text import parse
from gapless.protocol.variants import random_tdb, random_telling, tell

S = StreamSchema({"p": "string", "n": "int64"})
PAYLOADS: list[tuple[object, ...]] = [(p, n) for p in "ABC" for n in range(4)]


class Both(Operator):
    """Two inputs to one: rows as they come, the lesser stable."""

    inputs = 2
    reach = 3

    def __init__(self, schema: StreamSchema = S) -> None:
        self.schema = schema
        self.stables = [BEGIN, BEGIN]
        self.seen: list[tuple[int, Frame, Marks]] = []
        self.asked: list[int] = []

    def push(self, source: int, frame: Frame, marks: Marks = ()) -> Out:
        self.seen.append((source, frame, marks))
        before = min(self.stables[: self.inputs])
        if frame.stable is not None:
            self.stables[source] = frame.stable
        now = min(self.stables[: self.inputs])
        return Out(frame.with_stable(now if now > before else None))

    def fast_forward(self, t: int) -> int:
        self.asked.append(t)
        return t - self.reach

    def snapshot(self) -> State:
        return {"facts": facts(left=self.stables[0], right=self.stables[1])}

    def restore(self, state: State) -> None:
        self.stables = read_facts(state, "left", "right")

    def validate(self) -> None:
        pass


class Breaks(Operator):
    """Passes frames on until one has more than so many rows."""

    schema = S

    def __init__(self, rows: int) -> None:
        self.rows = rows

    def push(self, source: int, frame: Frame, marks: Marks = ()) -> Out:
        assert source == 0
        if len(frame) > self.rows:
            raise SchemaError("the third row was too much")
        return Out(frame, marks)

    def fast_forward(self, t: int) -> int:
        return t

    def validate(self) -> None:
        pass


class Full(Breaks):
    """Holds so many bytes."""

    @property
    def nbytes(self) -> int:
        return self.rows


def frames(text: str) -> list[Frame]:
    return list(frames_of(S, parse(text, S)))


def frame(text: str) -> Frame:
    [only] = frames(text)
    return only


def diamond() -> Graph:
    """n > 0 and n < 3 of one source, put together again."""
    steps = [
        Step(Filter(S, col("n") > 0), ("s",), "above"),
        Step(Filter(S, col("n") < 3), ("s",), "below"),
        Step(Both(), (0, 1)),
    ]
    return Graph({"s": S}, steps)


def two_sources() -> Graph:
    """One of them through two operators that keep state; counted in the end."""
    steps = [
        Step(Normalise(S), ("a",)),
        Step(Filter(S, col("n") > 0), (0,)),
        Step(Both(), (1, "b")),
        Step(Cleanse(S), (2,)),
        Step(HoppingAggregate(S, Hopping(10, 5), ["p"], [("count", count())]), (3,)),
    ]
    return Graph({"a": S, "b": S}, steps)


GRAPHS: dict[str, Callable[[], Graph]] = {"diamond": diamond, "two sources": two_sources}


def told(graph: Graph, seed: int) -> list[tuple[str, Frame]]:
    """Random streams for a graph's sources, mixed."""
    rng = random.Random(seed)
    queues = {}
    for i, name in enumerate(graph.sources):
        table = random_tdb(rng, S, PAYLOADS, events=15)
        queues[name] = tell(table, random_telling(rng), seed * 10 + i)
    mixed = []
    while queues:
        name = rng.choice(list(queues))
        mixed.append((name, queues[name].pop(0)))
        if not queues[name]:
            del queues[name]
    return mixed


def run(graph: Graph, pushes: list[tuple[str, Frame]]) -> Iterator[Frame]:
    for name, each in pushes:
        yield graph.push(name, each)
        graph.validate()


# -- how frames flow --------------------------------------------------------------------------


def test_a_fork_gives_every_consumer_the_same_frame_without_a_copy() -> None:
    taps = [Both(), Both()]
    graph = Graph({"s": S}, [Step(taps[0], ("s", "s")), Step(taps[1], (0, "s"))])
    given = frame("ins((A,1),1,5) ins((B,2),2,6)")
    graph.push("s", given)
    assert [f is given for _, f, _ in taps[0].seen] == [True, True]
    assert taps[1].seen[-1][1] is given


def test_a_frame_goes_all_the_way_before_a_second_consumer_sees_it() -> None:
    join = Both()
    steps = [
        Step(Filter(S, col("n") > 0), ("s",)),
        Step(Filter(S, col("n") > 1), (0,)),
        Step(join, (1, "s")),
    ]
    graph = Graph({"s": S}, steps)
    graph.push("s", frame("ins((A,1),1,5) ins((A,2),1,5) stable(3)"))
    assert [(source, len(f)) for source, f, _ in join.seen] == [(0, 1), (1, 2)]


def test_all_output_of_a_push_is_one_frame_in_order_with_the_last_stable() -> None:
    out = diamond().push("s", frame("ins((A,1),1,5) ins((B,0),2,6) ins((C,3),2,7) stable(2)"))
    wanted = "ins((A,1),1,5) ins((C,3),2,7) ins((A,1),1,5) ins((B,0),2,6) stable(2)"
    assert out.elements() == list(parse(wanted, S))


def test_two_outputs_with_a_stable_each_become_one_frame() -> None:
    class Eager(Both):
        def push(self, source: int, frame: Frame, marks: Marks = ()) -> Out:
            super().push(source, frame, marks)
            return Out(frame.with_stable(10 * (source + 1)))

    graph = Graph({"s": S}, [Step(Eager(), ("s", "s"))])
    out = graph.push("s", frame("ins((A,1),30,50)"))
    assert out.elements() == list(parse("ins((A,1),30,50) ins((A,1),30,50) stable(20)", S))
    assert graph.stable == 20


class InParts(Both):
    """A row a part; the stable with the last one."""

    inputs = 1

    def __init__(self) -> None:
        super().__init__()
        self.made = 0

    def parts(self, source: int, frame: Frame, marks: Marks = ()) -> Iterator[Out]:
        for row in range(len(frame)):
            self.made += 1
            part = frame.slice(row, 1, frame.stable if row == len(frame) - 1 else None)
            yield self.push(source, part, marks)


def test_a_part_of_an_output_goes_all_the_way_before_the_next_one_is_made() -> None:
    cuts, after = InParts(), Both()
    graph = Graph({"a": S}, [Step(cuts, ("a",)), Step(after, (0, 0))])
    parts = graph.parts("a", frame("ins((A,1),1,5) ins((B,2),2,5) ins((C,3),3,5) stable(4)"))
    assert [cuts.made for _ in parts] == [1, 1, 2, 2, 3, 3]
    assert (graph.stable, graph.counters[0].rows_out, graph.counters[1].rows_in) == (4, 3, 6)
    again = graph.push("a", frame("ins((A,1),6,9) ins((B,2),6,9) stable(7)"))
    assert (len(again), again.stable) == (4, 7)


def test_a_graph_whose_output_is_not_read_to_its_end_is_of_no_more_use() -> None:
    graph = Graph({"a": S}, [Step(InParts(), ("a",))])
    parts = graph.parts("a", frame("ins((A,1),1,5) ins((B,2),2,5)"))
    next(parts)
    for forbidden in (graph.snapshot, lambda: graph.fast_forward(3)):
        with pytest.raises(Misuse, match="not read to its end"):
            forbidden()
    del parts
    with pytest.raises(Misuse, match="not read to its end"):
        graph.push("a", frame("stable(9)"))


def test_a_memory_limit_is_looked_at_between_parts() -> None:
    class Grows(InParts):
        @property
        def nbytes(self) -> int:
            return 10_000 * self.made

    grows = Grows()
    graph = Graph({"a": S}, [Step(grows, ("a",))], memory_limit=15_000)
    with pytest.raises(MemoryLimit):
        list(graph.parts("a", frame("ins((A,1),1,5) " * 9)))
    assert grows.made == 2


def test_a_frame_that_there_is_no_room_for_is_given_to_no_operator() -> None:
    after = Both()
    graph = Graph({"s": S}, [Step(after, ("s", "s"))], memory_limit=100)
    with pytest.raises(MemoryLimit, match=r"needs [0-9]+ more for rows that go into Both"):
        graph.push("s", frame("ins((A,1),1,5) " * 9))
    assert after.seen == []


def test_what_says_nothing_goes_no_further() -> None:
    after = Both()
    steps = [Step(Filter(S, col("n") > 5), ("s",)), Step(after, (0, 0))]
    graph = Graph({"s": S}, steps)
    assert not graph.push("s", frame("ins((A,1),1,5)"))
    assert not graph.push("s", Frame.empty(S))
    assert after.seen == []
    assert [c.frames for c in graph.counters] == [1, 0]
    graph.push("s", Frame.empty(S), (Punctuation.of({"p": "A"}),))
    assert [marks for _, _, marks in after.seen] == [(Punctuation.of({"p": "A"}),)] * 2


def test_a_graph_without_steps_gives_what_it_gets() -> None:
    graph = Graph({"s": S}, [])
    given = frame("ins((A,1),1,5) stable(3)")
    assert graph.push("s", given) is given
    assert (graph.reach, graph.fast_forward(4)) == ({"s": 0}, {"s": 4})
    assert graph.finish("s") == Frame.empty(S, INF)
    assert graph.stable == INF


def test_stables_go_in_as_marks_too_where_an_operator_reads_the_time_column() -> None:
    tap = Both()
    graph = Graph({"s": S}, [Step(tap, ("s", "s"))], time_columns={"s": "n"})
    graph.push("s", frame("ins((A,1),1,5) stable(3)"))
    graph.push("s", frame("ins((A,7),7,8)"))
    assert [marks for _, _, marks in tap.seen[::2]] == [(Punctuation.of(n=3),), ()]


@pytest.mark.parametrize("name", GRAPHS)
@given(seed=st.integers(0, 2**31))
def test_what_comes_out_is_the_same_table_whatever_the_order_of_the_sources(
    name: str, seed: int
) -> None:
    tables = []
    for order in range(2):
        graph = GRAPHS[name]()
        pushes = told(graph, seed)
        if order:
            pushes.sort(key=lambda push: push[0])
        table = Tdb(graph.schema)
        for out in run(graph, pushes):
            table.fold(out)
        assert graph.stable == INF
        tables.append(table)
    assert tables[0] == tables[1]


# -- invalid graphs ---------------------------------------------------------------------------


def test_steps_that_make_no_graph_are_refused() -> None:
    passes = Filter(S, col("n") > 0)
    for steps, message in [
        ([Step(Both(), ("s",))], "has 2 inputs, 1 are connected"),
        ([Step(passes, ("t",))], "reads 't', which is not a source and no earlier step"),
        ([Step(passes, (0,))], "reads 0, which is not a source"),
        ([Step(passes, ("s",)), Step(passes, ("s",))], "nothing reads 0"),
    ]:
        with pytest.raises(Misuse, match=message):
            Graph({"s": S}, steps)
    with pytest.raises(Misuse, match="nothing reads 't'"):
        Graph({"s": S, "t": S}, [Step(passes, ("s",))])
    with pytest.raises(Misuse, match="one source"):
        Graph({}, [])
    with pytest.raises(Misuse, match="memory_limit 0"):
        Graph({"s": S}, [], memory_limit=0)


def test_a_frame_of_another_schema_or_source_is_refused_and_changes_nothing() -> None:
    graph = diamond()
    with pytest.raises(SchemaError, match="the operator takes"):
        graph.push("s", Frame.empty(StreamSchema({"q": "int8"}), 3))
    with pytest.raises(Misuse, match="no source 't': this graph reads s"):
        graph.push("t", Frame.empty(S, 3))
    with pytest.raises(Misuse, match="no source 't'"):
        graph.finish("t")
    assert graph.push("s", Frame.empty(S, 3)).stable == 3


# -- failure ----------------------------------------------------------------------------------


def test_after_an_error_the_graph_has_failed_and_names_the_first_one() -> None:
    graph = Graph({"s": S}, [Step(Filter(S, col("n") > 0), ("s",)), Step(Breaks(2), (0,))])
    graph.push("s", frame("ins((A,1),1,5)"))
    with pytest.raises(SchemaError, match="third row"):
        graph.push("s", frame("ins((A,1),1,5) ins((A,2),1,5) ins((A,3),1,5) stable(3)"))
    assert graph.stable == BEGIN
    for again in (
        lambda: graph.push("s", frame("ins((A,1),1,5)")),
        lambda: graph.finish("s"),
        lambda: graph.fast_forward(5),
        graph.snapshot,
        lambda: graph.restore({}),
    ):
        with pytest.raises(Misuse, match="SchemaError: the third row was too much"):
            again()


def test_a_memory_limit_names_the_operator_that_holds_most_and_gives_nothing_out() -> None:
    steps = [Step(Full(300), ("s",)), Step(Full(500), (0,), "sums"), Step(Full(100), (1,))]
    graph = Graph({"s": S}, steps, memory_limit=899)
    with pytest.raises(MemoryLimit, match=r"900 bytes, its memory_limit is 899.* 500, is in sums"):
        graph.push("s", frame("ins((A,1),1,5) stable(3)"))
    with pytest.raises(Misuse, match="MemoryLimit"):
        graph.push("s", frame("stable(3)"))
    assert Graph({"s": S}, steps, memory_limit=900).push("s", frame("stable(3)")).stable == 3


def test_a_memory_limit_stops_state_that_grows() -> None:
    graph = Graph({"s": S}, [Step(Cleanse(S), ("s",))], memory_limit=200_000)
    payload = frame("ins((A,1),1,5)").payload.take([0] * 1000)

    def fill() -> None:
        for start in range(0, 10**6, 1000):
            vs = np.arange(start, start + 1000)
            graph.push("s", Frame.from_columns(S, vs, vs + 1, payload))

    with pytest.raises(MemoryLimit, match="is in Cleanse"):
        fill()


# -- counters ---------------------------------------------------------------------------------


def test_counters_add_up() -> None:
    now = iter(range(0, 10**6, 7))
    steps = [
        Step(Filter(S, col("n") > 0), ("s",), "above"),
        Step(Filter(S, col("n") < 3), ("s",)),
        Step(Both(), (0, 1)),
        Step(Cleanse(S), (2,)),
    ]
    graph = Graph({"s": S}, steps, clock=lambda: next(now))
    outs = list(run(graph, told(graph, 5)))
    above, below, both, cleanse = graph.counters
    assert [above.name, below.name, both.name] == ["above", "Filter", "Both"]
    assert both.rows_in == above.rows_out + below.rows_out
    assert both.rows_out == both.rows_in == cleanse.rows_in
    assert cleanse.rows_out == sum(map(len, outs))
    assert above.rows_in == below.rows_in > above.rows_out
    assert all(c.busy_ns == 7 * c.frames > 0 for c in graph.counters)
    assert {c.stable for c in graph.counters} == {INF}
    assert cleanse.state_bytes == graph.nbytes > 0


# -- reach, fast-forward ----------------------------------------------------------------------


def test_reach_is_that_of_the_path_that_needs_most() -> None:
    assert diamond().reach == {"s": 3}
    assert two_sources().reach == {"a": INF, "b": 3 + 15}
    steps = [Step(Both(), ("s", "s")), Step(Both(), (0, "s"))]
    assert Graph({"s": S}, steps).reach == {"s": 6}
    steps = [Step(Cleanse(S), ("s",)), Step(Both(), ("s", "s")), Step(Both(), (0, 1))]
    assert Graph({"s": S}, steps).reach == {"s": 6}


def test_fast_forward_asks_from_the_output_up_for_the_least_that_any_consumer_needs() -> None:
    inner, outer = Both(), Both()
    steps = [Step(inner, ("s", "t")), Step(outer, (0, "s"))]
    graph = Graph({"s": S, "t": S}, steps)
    assert graph.fast_forward(20) == {"s": 14, "t": 14}
    assert (outer.asked, inner.asked) == ([20], [17])
    assert graph.fast_forward(10) == {"s": 14, "t": 14}, "it never goes back"
    assert two_sources().fast_forward(100) == {"a": BEGIN, "b": 82}


@given(seed=st.integers(0, 2**31))
def test_fast_forward_changes_no_output_that_ends_at_or_after_it(seed: int) -> None:
    rng = random.Random(seed)
    skipping, whole = two_sources(), two_sources()
    t = 0
    tables = [Tdb(whole.schema), Tdb(whole.schema)]
    for name, each in told(whole, seed):
        if rng.random() < 0.3:
            t = max(t, rng.randrange(60))
            skipping.fast_forward(t)
        tables[0].fold(whole.push(name, each))
        tables[1].fold(skipping.push(name, each))
        skipping.validate()
    assert tables[0].since(t) == tables[1].since(t)


# -- snapshots --------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["diamond", "restorable"])
@given(seed=st.integers(0, 2**31), data=st.data())
def test_a_graph_that_is_restored_goes_on_as_the_old_one_would(
    name: str, seed: int, data: st.DataObject
) -> None:
    make = diamond if name == "diamond" else restorable
    graph = make()
    pushes = told(graph, seed)
    cut = data.draw(st.integers(0, len(pushes)))
    list(run(graph, pushes[:cut]))
    state = graph.snapshot()
    after = list(run(graph, pushes[cut:]))
    again = make()
    again.restore(state)
    assert again.stable <= graph.stable
    assert list(run(again, pushes[cut:])) == after


def restorable() -> Graph:
    steps = [
        Step(Filter(S, col("n") > 0), ("a",)),
        Step(Both(), (0, "b")),
        Step(Both(), (1, "b")),
    ]
    return Graph({"a": S, "b": S}, steps)


def test_a_snapshot_names_its_tables_by_step_and_operator() -> None:
    assert sorted(restorable().snapshot()) == ["1.Both.facts", "2.Both.facts", "graph.facts"]


def test_a_snapshot_of_another_plan_is_refused() -> None:
    state = dict(restorable().snapshot())
    for wrong in (
        {**state, "3.Both.facts": state["1.Both.facts"]},
        {name: t for name, t in state.items() if name != "1.Both.facts"},
        diamond().snapshot(),
    ):
        graph = restorable()
        with pytest.raises(DecodeError):
            graph.restore(wrong)
        with pytest.raises(Misuse, match="failed before"):
            graph.push("a", frame("stable(3)"))


def test_a_snapshot_with_rows_that_no_step_has_written_is_refused() -> None:
    def make() -> Graph:
        return Graph({"a": S}, [Step(Distinct(S), ("a",))])

    graph = make()
    graph.push("a", frame("ins((A,1),2,9) stable(4)"))
    state = dict(graph.snapshot())
    make().restore(state)
    wrong: list[tuple[str, Any]] = []
    for name, table in state.items():
        wrong += [(name, None), (name, pa.Table.from_batches([table]))]
        for i, field in enumerate(table.schema):
            if table.num_rows and field.name not in S.names:  # of a payload, nulls may be
                columns = table.columns
                columns[i] = pa.nulls(table.num_rows, field.type)
                wrong.append((name, pa.record_batch(columns, schema=table.schema)))
    assert len(wrong) > 10
    for name, table in wrong:
        refused = make()
        with pytest.raises(DecodeError):
            refused.restore({**state, name: table})
        with pytest.raises(Misuse, match="failed before"):
            refused.finish("a")


@pytest.mark.parametrize("error", [Bug, KeyError, OverflowError, pa.ArrowInvalid])
@pytest.mark.parametrize("when", ["restore", "validate"])
def test_whatever_a_step_makes_of_a_state_that_is_none_of_its_own_is_a_decode_error(
    error: type[Exception], when: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise error("a count below 0")

    state = restorable().snapshot()
    monkeypatch.setattr(Both, when, fail)
    with pytest.raises(DecodeError, match=r"1\.Both: no state of this step: .*a count below 0"):
        restorable().restore(state)


def test_a_graph_is_restored_before_anything_is_pushed() -> None:
    graph = restorable()
    state = graph.snapshot()
    graph.push("a", frame("stable(3)"))
    with pytest.raises(Misuse, match="before anything is pushed"):
        graph.restore(state)


def test_validate_finds_a_broken_operator() -> None:
    class Broken(Breaks):
        def validate(self) -> None:
            raise Bug("broken")

    with pytest.raises(Bug, match="broken"):
        Graph({"s": S}, [Step(Broken(1), ("s",))]).validate()
