"""Each row of the table of functions against DuckDB, over drawn rows: nulls, empty texts, Unicode,
negative numbers, extremes. Where ours differs on purpose the table's note says so, and here what is
left out of the comparison stands beside the row.
"""

from __future__ import annotations

import datetime as dt
import math
import re
import unicodedata
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import duckdb
import pyarrow as pa
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from gapless.protocol.errors import ExpressionError
from gapless.protocol.expr import Expr, col, lit
from gapless.protocol.failed_rows import answers
from gapless.protocol.sql_functions import sql_function, sql_functions
from tests.effort import cases

LETTERS = "aAbB\u00df\u00e9\u00c9\u0130\u03c3\u65e5\U0001f600e\u0301 .,%_-1"
TEXTS = st.none() | st.text(LETTERS, max_size=6) | st.sampled_from(["ab,b", "a_b%", "aXbXc", ""])
EDGES = [0, 1, -1, 2**31, -(2**31), 2**63 - 1, -(2**63)]
INTS = st.none() | st.integers(-9, 9) | st.sampled_from(EDGES)
FLOATS = (
    st.none()
    | st.floats(-9, 9).map(lambda x: round(x, 3))
    | st.sampled_from([0.0, -0.0, 0.5, 1.5, 2.5, -2.5, 1e18, -1e300, math.inf, -math.inf, math.nan])
)
TIMES = st.none() | st.integers(-(2 * 10**15), 4 * 10**15)
"""Microseconds from 1906 to 2096."""
DAYS = st.none() | st.integers(-20_000, 40_000)
LISTS = st.none() | st.lists(st.none() | st.integers(0, 3), max_size=4)
COLUMNS: dict[str, tuple[pa.DataType, st.SearchStrategy[Any]]] = {
    "t": (pa.string(), TEXTS),
    "u": (pa.string(), TEXTS),
    "i": (pa.int64(), INTS),
    "j": (pa.int64(), INTS),
    "f": (pa.float64(), FLOATS),
    "g": (pa.float64(), FLOATS),
    "at": (pa.timestamp("us"), TIMES),
    "end": (pa.timestamp("us"), TIMES),
    "day": (pa.date32(), DAYS),
    "l": (pa.list_(pa.int64()), LISTS),
    "p": (pa.bool_(), st.none() | st.booleans()),
}
SCHEMA = pa.schema([(name, t) for name, (t, _) in COLUMNS.items()])
ROWS = st.lists(
    st.fixed_dictionaries({k: v for k, (_, v) in COLUMNS.items()}), min_size=2, max_size=8
)

Row = dict[str, Any]


def all_rows(row: Row) -> bool:  # noqa: ARG001  # as the others
    return True


class Case(NamedTuple):
    """What a spelling is called with: columns by name, and constants."""

    args: tuple[Any, ...]
    rows: Callable[[Row], bool] = all_rows
    """The rows that are compared."""
    is_as_ours: Callable[[Any, Any], bool] | None = None
    """DuckDB's answer and ours, where they differ on purpose."""


class Column(str):
    """A column by name; any other text is a constant."""

    __slots__ = ()


T, U, I, J, F, G, AT, END, DAY, L, P = map(Column, COLUMNS)  # noqa: E741  # as the columns

PATTERNS = ["a", "", "b,", "\u00df", "e"]


def no_mark(row: Row) -> bool:
    return not any(unicodedata.combining(c) for c in row["t"] or "")


def each(*args: Any, **said: Any) -> list[Case]:
    """One case for each choice of the constants: a list stands for its elements."""
    made: list[tuple[Any, ...]] = [()]
    for arg in args:
        choices = arg if isinstance(arg, list) else [arg]
        made = [(*case, choice) for case in made for choice in choices]
    return [Case(case, **said) for case in made]


def finite(*names: str) -> Callable[[Row], bool]:
    return lambda row: all(row[n] is None or math.isfinite(row[n]) for n in names)


def small(*names: str) -> Callable[[Row], bool]:
    return lambda row: all(row[n] is None or abs(row[n]) < 2**53 for n in names)


def null_is_empty(theirs: Any, ours: Any) -> bool:
    return bool(theirs == ours) or (ours is None and theirs == "")


def rounded(theirs: Any, ours: Any) -> bool:
    return bool(theirs == ours) or theirs == ours + 1


NUMBERS = [*each(I), *each(F)]
OF_TIMES = [*each(AT), *each(DAY)]

CASES: dict[str, list[Case]] = {
    "IS NULL": each([T, I, F]),
    "IS NOT NULL": each([T, I, F]),
    "BETWEEN AND": [*each(I, J, 5), *each(T, "A", U)],
    "IS DISTINCT FROM": [*each(I, J), *each(T, U), *each(I, 1)],
    "IS NOT DISTINCT FROM": [*each(I, J), *each(T, U)],
    "NULLIF": [*each(I, J), *each(T, "")],
    "IFNULL": [*each(I, J), *each(T, "none")],
    "COALESCE": [*each(I), *each(I, J, 7), *each(T, U)],
    "GREATEST": [*each(I, J, 3), *each(F, G, rows=finite("f", "g")), *each(T, U)],
    "LEAST": [*each(I, J, 3), *each(F, G, rows=finite("f", "g")), *each(T, U)],
    "CONCAT": [*each(T, U, "x"), *each(T)],
    "CONCAT_WS": each([", ", ""], T, U),
    "ABS": NUMBERS,
    "SIGN": [*each(I), *each(F, rows=finite("f"))],
    "ROUND": [*each(I), *each(F), *each(F, [1, 2])],
    "FLOOR": [*each(I, rows=small("i")), *each(F)],
    "CEIL": [*each(I, rows=small("i")), *each(F)],
    "CEILING": each(F),
    "TRUNC": [*each(I, rows=small("i")), *each(F)],
    "SQRT": NUMBERS,
    "EXP": NUMBERS,
    "LN": NUMBERS,
    "LOG10": NUMBERS,
    "LOG": NUMBERS,
    "LOG2": NUMBERS,
    "POWER": [*each(F, G), *each(I, [2, 0]), *each(F, 3)],
    "POW": each(F, 2),
    "MOD": [*each(I, J), *each(I, [3, -3])],
    "%": [*each(I, J), *each(I, [3, -3])],
    "SIN": NUMBERS,
    "COS": NUMBERS,
    "TAN": NUMBERS,
    "ASIN": NUMBERS,
    "ACOS": NUMBERS,
    "ATAN": NUMBERS,
    "ATAN2": each(F, G),
    "&": [*each(I, J), *each(I, 6)],
    "|": [*each(I, J), *each(I, 6)],
    "XOR": [*each(I, J), *each(I, 6)],
    "ISNAN": each(F),
    "ISFINITE": each(F),
    "CONTAINS": each(T, PATTERNS),
    "STARTS_WITH": each(T, PATTERNS),
    "PREFIX": each(T, PATTERNS),
    "ENDS_WITH": each(T, PATTERNS),
    "SUFFIX": each(T, PATTERNS),
    "LIKE": each(T, ["a%", "%b", "_", "%\u00df_%", "", "a_b.", "(%", "[a]%"]),
    "ILIKE": each(T, ["A%", "%B", "_", "", "A_B%"]),
    "REGEXP_MATCHES": each(T, ["^a", "[a-b]+,", "b|\u00df", "", "a.b", "(?i)B$"]),
    "STRPOS": each(T, PATTERNS),
    "INSTR": each(T, PATTERNS),
    "POSITION IN": each(PATTERNS, T),
    "LENGTH": each(T),
    "CHAR_LENGTH": each(T),
    "CHARACTER_LENGTH": each(T),
    "LOWER": each(T),
    "LCASE": each(T),
    "UPPER": each(T),
    "UCASE": each(T),
    "REVERSE": each(T, rows=no_mark),
    "TRIM": [*each(T), *each(T, ["ab", "\u00df"])],
    "BTRIM": [],
    "LTRIM": [*each(T), *each(T, ["ab", "\u00df"])],
    "RTRIM": [*each(T), *each(T, ["ab", "\u00df"])],
    "SUBSTRING": [*each(T, [1, 2, 0, -2, 9]), *each(T, [1, 2, 0, -2, -5, 9], [0, 1, 3, 9])],
    "SUBSTR": each(T, 2, 2),
    "LEFT": each(T, [0, 1, 3, 99, -1, -9]),
    "RIGHT": each(T, [0, 1, 3, 99, -1, -9]),
    "SPLIT": each(T, [",", "b", "ab"]),
    "STRING_SPLIT": each(T, [",", "b", "ab"]),
    "SPLIT_PART": each(T, ["b", ","], [0, 1, 2, -1, 9]),
    "REGEXP_EXTRACT": [
        *each(T, ["a.", "b+"], is_as_ours=null_is_empty),
        *each(T, ["(a)(.)", r"(?:a)([\(b)])(.?)"], [0, 1, 2], is_as_ours=null_is_empty),
    ],
    "REPLACE": each(T, ["a", "ab", "\u00df"], ["", "xy"]),
    "REGEXP_REPLACE": [
        *each(T, ["a", "b*", "[a-b](.)"], ["", "<\\0>"]),
        *each(T, ["a", "[a-b](.)"], ["", "<\\0>"], "g"),
    ],
    "LPAD": each(T, [0, 1, 4], ["x", "\u00df"]),
    "RPAD": each(T, [0, 1, 4], ["x", "\u00df"]),
    "||": [*each(T, U), *each(T, "x")],
    "YEAR": OF_TIMES,
    "QUARTER": OF_TIMES,
    "MONTH": OF_TIMES,
    "WEEK": OF_TIMES,
    "WEEKOFYEAR": OF_TIMES,
    "ISOYEAR": OF_TIMES,
    "DAY": OF_TIMES,
    "DAYOFMONTH": OF_TIMES,
    "DAYOFYEAR": OF_TIMES,
    "DAYOFWEEK": OF_TIMES,
    "ISODOW": OF_TIMES,
    "HOUR": each(AT),
    "MINUTE": each(AT),
    "SECOND": each(AT),
    **{
        f"EXTRACT {part} FROM": each(AT)
        for part in (
            "YEAR", "QUARTER", "MONTH", "WEEK", "ISOYEAR", "DAY", "DOY", "ISODOW", "DOW",
            "HOUR", "MINUTE", "SECOND", "EPOCH",
        )
    },
    "DATE": each(AT),
    "DATE_TRUNC": [
        *each(["year", "quarter", "month", "week", "day", "hour", "minute", "second"], AT),
        *each(["year", "week", "day"], DAY),
    ],
    "EPOCH": each(AT),
    "EPOCH_MS": each(AT, is_as_ours=rounded),
    "EPOCH_US": each(AT),
    "EPOCH_NS": each(AT),
    "DATE_DIFF": each(["year", "quarter", "month", "day", "hour", "minute", "second"], AT, END),
    "DATEDIFF": each("day", AT, END),
    "LEN": each(L),
    "ARRAY_LENGTH": each(L),
    "CARDINALITY": [],
    "LIST_EXTRACT": each(L, [1, 2, -1, 9]),
    "LIST_ELEMENT": each(L, [1, -2]),
    "LIST_CONTAINS": [*each(L, I), *each(L, 2)],
    "ARRAY_CONTAINS": each(L, 2),
    "LIST_HAS": each(L, 2),
}  # fmt: skip
NOT_IN_DUCKDB = {"BTRIM", "CARDINALITY"}
"""Spellings of PostgreSQL and Flink: the rows that they stand in are compared by another."""


def test_every_spelling_is_compared() -> None:
    assert CASES.keys() == sql_functions().keys()
    assert {key for key, listed in CASES.items() if not listed} == NOT_IN_DUCKDB


def in_sql(arg: Any) -> str:
    if isinstance(arg, Column):
        return f'"{arg}"'
    return "'" + arg.replace("'", "''") + "'" if isinstance(arg, str) else str(arg)


def sql_text(key: str, args: tuple[Any, ...]) -> str:
    """The spelling with these arguments in place of their names."""
    spelling = sql_functions()[key].spelling
    texts = [f"({in_sql(arg)})" for arg in args]
    if "[" in spelling.text or "..." in spelling.text:
        return f"{key}({', '.join(texts)})"
    text = spelling.text
    for i, name in enumerate(spelling.arguments):
        text = re.sub(rf"\b{name}\b", f"\0{i}\0", text)
    for i, argument in enumerate(texts):
        text = text.replace(f"\0{i}\0", argument)
    return text


def in_duckdb(database: duckdb.DuckDBPyConnection, text: str, batch: pa.RecordBatch) -> list[Any]:
    database.register("rows", pa.table(batch))
    query = f"SELECT TRY({text}) FROM rows"  # noqa: S608  # our own text
    return [v for (v,) in database.execute(query).fetchall()]


@pytest.fixture(scope="module")
def database() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect(":memory:", config={"threads": 1}) as connection:
        yield connection


def expression(key: str, args: tuple[Any, ...]) -> Expr:
    return sql_function(key, *(col(a) if isinstance(a, Column) else lit(a) for a in args))


def alike(theirs: Any, ours: Any) -> bool:
    if isinstance(theirs, float) and isinstance(ours, int | float):
        if math.isnan(theirs) or math.isnan(ours):
            return math.isnan(theirs) and math.isnan(ours)
        return math.isclose(theirs, ours, rel_tol=1e-12)
    if isinstance(ours, dt.date) and not isinstance(ours, dt.datetime):
        ours = dt.datetime.combine(ours, dt.time())
        if not isinstance(theirs, dt.datetime) and theirs is not None:
            theirs = dt.datetime.combine(theirs, dt.time())
    return bool(theirs == ours)


def is_no_answer(theirs: Any) -> bool:
    return theirs is None or (isinstance(theirs, float) and not math.isfinite(theirs))


@pytest.fixture(scope="module")
def rows() -> list[Row]:
    """Some hundred drawn rows, the same in each run of a profile."""
    found: list[Row] = []

    @settings(max_examples=cases(100), phases=[Phase.generate], derandomize=True, database=None)
    @given(ROWS)
    def collect(drawn: list[Row]) -> None:
        found.extend(drawn)

    collect()
    assert len(found) > 100
    return found


@pytest.mark.parametrize("key", [key for key in CASES if key not in NOT_IN_DUCKDB])
def test_a_function_answers_as_duckdb_does(
    database: duckdb.DuckDBPyConnection, rows: list[Row], key: str
) -> None:
    for case in CASES[key]:
        batch = pa.RecordBatch.from_pylist([row for row in rows if case.rows(row)], schema=SCHEMA)
        text = sql_text(key, case.args)
        built = expression(key, case.args)
        values, reason, _ = answers(built, batch)
        theirs = in_duckdb(database, text, batch)
        for row, their, our, failed in zip(
            batch.to_pylist(), theirs, values.to_pylist(), reason >= 0, strict=True
        ):
            is_same = is_no_answer(their) if failed else (case.is_as_ours or alike)(their, our)
            assert is_same, (text, row, their, our, failed)


def test_an_unknown_function_is_named_with_those_that_are_near() -> None:
    with pytest.raises(ExpressionError, match="SUBSTRNG: did you mean SUBSTRING"):
        sql_function("SUBSTRNG", col("t"))
