"""Select: other columns, the same times."""

import random

import pyarrow as pa
import pytest

from gapless.operators.aside import Aside
from gapless.operators.select import Select
from gapless.protocol.errors import ExpressionError, Misuse, RowError, SchemaError
from gapless.protocol.expr import col, lit
from gapless.protocol.frame import Frame
from gapless.protocol.punctuation import Punctuation
from gapless.protocol.schema import StreamSchema
from gapless.protocol.tdb import Event, Tdb
from gapless.protocol.text import format, parse
from gapless.protocol.variants import random_tdb
from tests.effort import cases
from tests.operators import laws

SCHEMA = StreamSchema({"src": "string", "len": "int32"})
ROWS: list[tuple[object, ...]] = [(s, n) for s in ("A", "B") for n in (1, 3, None)]
COLUMNS = [("who", col("src")), ("x", col("len") * 2)]


def frame(text: str) -> Frame:
    return Frame.from_elements(SCHEMA, parse(text, SCHEMA))


def make() -> Select:
    return Select(SCHEMA, COLUMNS)


def selected(tdb: Tdb) -> Tdb:
    """The oracle."""
    schema = StreamSchema({"who": "string", "x": "int64"})
    return Tdb(
        schema,
        [Event((who, n if n is None else 2 * n), vs, ve) for (who, n), vs, ve in tdb.events],
    )


def drawn(seed: int) -> tuple[random.Random, Tdb]:
    rng = random.Random(seed)
    return rng, random_tdb(rng, SCHEMA, ROWS, 30, 60, duplicates=bool(seed % 2))


def test_payloads_are_computed_and_times_stay() -> None:
    out = make().push(0, frame("ins((A,3),1,5) adj((A,3),1,5,6) ins((B,null),2,5) stable(1)"))
    assert format(out.frame.elements()) == (
        "ins((A,6),1,5) adj((A,6),1,5,6) ins((B,null),2,5) stable(1)"
    )


def test_whatever_the_order_and_the_cut_the_same_table_comes_out() -> None:
    for seed in range(cases(40)):
        rng, tdb = drawn(seed)
        told = [(0, f) for f in laws.tellings(tdb, seed)]
        for cut in (told, laws.recut(rng, told)):
            assert laws.runs(make(), cut) == selected(tdb), f"seed {seed}"
        laws.holds_that_a_restored_one_goes_on_the_same(make, told, rng.randrange(len(told)))


def test_skipping_and_starting_late_spare_only_what_is_not_wanted() -> None:
    for seed in range(cases(20)):
        rng, tdb = drawn(seed)
        told = [(0, f) for f in laws.tellings(tdb, seed, inserts=True)]
        wanted = selected(tdb)
        laws.holds_that_fast_forward_spares_only_what_ends_before(make, told, wanted, rng)
        laws.holds_that_a_start_at_reach_gives_all_that_is_wanted(
            make, told, wanted, rng.randrange(60)
        )


def test_a_column_that_gets_another_name_is_not_copied() -> None:
    whole = frame("ins((A,3),1,5) ins((B,4),2,5)")
    out = Select(SCHEMA, [("n", col("len")), ("n2", col("len"))]).push(0, whole).frame
    assert out.schema == StreamSchema({"n": "int32", "n2": "int32"})
    places = [column.buffers()[1].address for column in out.batch.columns]
    here = {
        name: whole.batch.column(name).buffers()[1].address for name in whole.batch.schema.names
    }
    assert places == [here["_vs"], here["_ve"], here["_was"], here["len"], here["len"]]


def test_a_column_that_allows_no_null_still_does_not() -> None:
    schema = StreamSchema(pa.schema([pa.field("len", pa.int64(), nullable=False)]), "us")
    out = Select(schema, [("n", col("len")), ("x", col("len") + 1)]).schema
    assert [f.nullable for f in out.payload] == [False, True]
    assert out.time_unit == "us"


def test_a_row_without_an_answer_goes_aside_whole_whichever_column_lacks_it() -> None:
    columns = [("a", 12 // col("len")), ("s", col("src")), ("b", 12 // (col("len") - 3))]
    text = "ins((A,3),1,5) ins((B,0),2,5) ins((C,2),2,5) adj((A,3),1,5,7) stable(1)"
    aside = Aside("aside")
    out = Select(SCHEMA, columns, aside).push(0, frame(text)).frame
    assert format(out.elements()) == "ins((6,C,-12),2,5) stable(1)"
    kept = aside.take()
    assert [(k.where, k.rows.column("src").to_pylist()) for k in kept] == [
        ("select a = (12 // len)", ["B"]),
        ("select b = (12 // (len - 3))", ["A", "A"]),
    ]
    with pytest.raises(RowError, match="src='B'"):
        Select(SCHEMA, columns).push(0, frame(text))


def test_a_mark_passes_where_its_columns_survive_and_under_their_names() -> None:
    marks = (
        Punctuation.of({"src": "A"}, _vs=4),
        Punctuation.of(len=7),
        Punctuation.of(_vs=9),
        Punctuation.of(),
    )
    out = make().push(0, Frame.empty(SCHEMA, 3), marks)
    assert out.frame == Frame.empty(make().schema, 3)
    assert out.marks == (
        Punctuation.of({"who": "A"}, _vs=4),
        Punctuation.of(_vs=9),
        Punctuation.of(),
    )


def test_marks_that_pass_are_true_of_what_follows() -> None:
    """A mark on a column that is computed would not be: so it is dropped."""
    swapped = Select(SCHEMA, [("len", col("len") * -1), ("src", col("src"))])
    assert not swapped.push(0, Frame.empty(SCHEMA), (Punctuation.of(len=7),)).marks


def test_a_constant_is_repeated() -> None:
    out = Select(SCHEMA, [("one", lit(1)), ("s", col("src"))]).push(0, frame("ins((A,3),1,5)"))
    assert format(out.frame.elements()) == "ins((1,A),1,5)"


@pytest.mark.parametrize(
    ("columns", "error"),
    [
        ([("x", col("width"))], ExpressionError),
        ([("x", col("src") * 2)], ExpressionError),
        ([("x", col("src")), ("x", col("len"))], SchemaError),
        ([("_x", col("src"))], SchemaError),
        ([("x", lit(None))], SchemaError),
        ([], SchemaError),
    ],
)
def test_what_cannot_be_is_an_error_when_it_is_made(
    columns: list[tuple[str, object]], error: type[Misuse]
) -> None:
    with pytest.raises(error):
        Select(SCHEMA, columns)  # type: ignore[arg-type]  # expressions, all of them
