"""Filter: what holds passes, untouched."""

import random

import pyarrow as pa
import pytest

from gapless.operators.aside import Aside
from gapless.operators.filter import Filter
from gapless.operators.operator import Marks, Out
from gapless.protocol.errors import ExpressionError, GaplessError, RowError
from gapless.protocol.expr import col
from gapless.protocol.frame import Frame
from gapless.protocol.punctuation import Punctuation
from gapless.protocol.schema import StreamSchema
from gapless.protocol.tdb import Event, Tdb
from gapless.protocol.text import format, parse
from gapless.protocol.variants import random_tdb
from tests.effort import cases
from tests.operators import laws

SCHEMA = StreamSchema({"src": "string", "len": "int32"})
NUMBERS = StreamSchema({"src": "int64", "len": "int32"})
ROWS: list[tuple[object, ...]] = [(s, n) for s in ("A", "B") for n in (1, 3, 5, None)]


def frame(text: str, schema: StreamSchema = SCHEMA) -> Frame:
    return Frame.from_elements(schema, parse(text, schema))


def filtered(tdb: Tdb) -> Tdb:
    """The oracle."""
    return Tdb(tdb.schema, [e for e in tdb.events if int(e.payload[1] or 0) > 2])


def make() -> Filter:
    return Filter(SCHEMA, col("len") > 2)


def drawn(seed: int) -> tuple[random.Random, Tdb]:
    rng = random.Random(seed)
    return rng, random_tdb(rng, SCHEMA, ROWS, 30, 60, duplicates=bool(seed % 2))


def test_rows_that_hold_pass_in_order_with_the_stable() -> None:
    text = "ins((A,3),1,5) ins((B,1),2,5) adj((A,3),1,5,6) ins((C,null),2,5) stable(1)"
    assert format(make().push(0, frame(text)).frame.elements()) == (
        "ins((A,3),1,5) adj((A,3),1,5,6) stable(1)"
    )


def test_a_frame_that_passes_whole_is_passed_on_as_it_is() -> None:
    whole = frame("ins((A,3),1,5) stable(1)")
    assert make().push(0, whole).frame is whole


def test_whatever_the_order_and_the_cut_what_holds_comes_out() -> None:
    for seed in range(cases(40)):
        rng, tdb = drawn(seed)
        told = [(0, f) for f in laws.tellings(tdb, seed)]
        for cut in (told, laws.recut(rng, told)):
            out = laws.runs(make(), cut)
            assert out == filtered(tdb), f"seed {seed}"
        laws.holds_that_a_restored_one_goes_on_the_same(make, told, rng.randrange(len(told)))


def test_skipping_and_starting_late_spare_only_what_is_not_wanted() -> None:
    for seed in range(cases(30)):
        rng, tdb = drawn(seed)
        told = [(0, f) for f in laws.tellings(tdb, seed, inserts=True)]
        wanted = filtered(tdb)
        laws.holds_that_fast_forward_spares_only_what_ends_before(make, told, wanted, rng)
        laws.holds_that_a_start_at_reach_gives_all_that_is_wanted(
            make, told, wanted, rng.randrange(60)
        )


@pytest.mark.parametrize("schema", [SCHEMA, NUMBERS], ids=["strings", "plain columns"])
def test_columns_of_either_kind_lose_the_same_rows(schema: StreamSchema) -> None:
    """Plain ones are gathered by the kernel, the rest by Arrow."""
    rng = random.Random(1)
    source = {"string": "A", "int64": 7}[str(schema.payload.field("src").type)]
    lengths = [rng.choice((1, 3, None)) for _ in range(300)]
    events = [Event((source, n), i, i + 1) for i, n in enumerate(lengths)]
    whole = Tdb(schema, events).to_frame()
    where = Filter(schema, col("len") > 2)
    for a, b in ((0, 300), (13, 200), (1, 1)):
        kept = where.push(0, whole.slice(a, b, 7)).frame
        assert kept.vs.tolist() == [i for i in range(a, min(a + b, 300)) if lengths[i] == 3]
        assert kept.stable == 7


def test_a_bare_column_of_a_slice_is_a_condition() -> None:
    schema = StreamSchema({"ok": "bool"})
    rows = frame("ins((true),1,2) ins((false),2,3) ins((false),3,4) ins((true),4,5)", schema)
    out = Filter(schema, col("ok")).push(0, rows.slice(1)).frame
    assert format(out.elements()) == "ins(true,4,5)"


def test_what_gives_no_truth_value_is_refused_when_it_is_made() -> None:
    with pytest.raises(ExpressionError):
        Filter(SCHEMA, col("len") + 1)
    with pytest.raises(ExpressionError):
        Filter(SCHEMA, col("width") > 1)


def test_a_row_without_an_answer_stops_or_goes_aside_with_its_adjusts() -> None:
    risky = 6 // col("len") > 1
    text = "ins((A,0),1,5) ins((B,2),1,5) adj((A,0),1,5,7) ins((C,6),1,5) stable(1)"
    with pytest.raises(RowError, match="len=0"):
        Filter(SCHEMA, risky).push(0, frame(text))
    aside = Aside("aside")
    out = Filter(SCHEMA, risky, aside).push(0, frame(text)).frame
    assert format(out.elements()) == "ins((B,2),1,5) stable(1)"
    [kept] = aside.take()
    assert kept.where == f"where {risky}"
    assert kept.rows.column("_ve").to_pylist() == [5, 7]


def test_marks_and_stables_pass_without_rows() -> None:
    mark = Punctuation.of({"src": "A"}, _vs=4)
    out = make().push(0, frame("ins((A,1),1,5) stable(1)"), (mark,))
    assert (format(out.frame.elements()), out.marks) == ("stable(1)", (mark,))
    assert make().push(0, Frame.empty(SCHEMA, 3), (mark,)).frame == Frame.empty(SCHEMA, 3)


class InsertsOnly(Filter):
    """Broken: an adjust passes by another rule than its insert."""

    def push(self, source: int, frame: Frame, marks: Marks = ()) -> Out:
        out = super().push(source, frame.inserts).frame
        return Out(Frame.concat([out, frame.adjusts]).with_stable(frame.stable))


def test_the_laws_catch_a_broken_one() -> None:
    def caught(seed: int) -> bool:
        _, tdb = drawn(seed)
        told = [(0, f) for f in laws.tellings(tdb, seed)]
        try:
            return laws.runs(InsertsOnly(SCHEMA, col("len") > 2), told) != filtered(tdb)
        except GaplessError:
            return True

    assert any(map(caught, range(10)))


def test_nothing_is_copied_where_arrow_need_not() -> None:
    whole = Tdb(NUMBERS, [Event((i, 5), i, i + 1) for i in range(10)]).to_frame()
    passed = Filter(NUMBERS, col("len") > 2).push(0, whole).frame
    assert isinstance(passed.batch, pa.RecordBatch)
    assert passed.batch is whole.batch
