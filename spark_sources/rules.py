"""Rules by which rows are cleaned: one after another, each row by row.

    [[rule]]
    default = "len"                 a null in `len` becomes 0
    value = 0

    [[rule]]
    drop = "len <= 0"               left out without a trace, but counted

    [[rule]]
    reject = "len > 65535"          into the reject file, with this reason
    reason = "longer than any packet"

A condition is a boolean expression of Spark SQL over the journal's columns, as the rules before it
have left them. Where it is null the rule does not apply. A row that was dropped or rejected meets
no further rule; so does one whose values did not fit their types.

Nothing is written unless every rule is right: a rule that is not is named by its number.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import reduce
from typing import Any, Literal

import pyarrow as pa
from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  # the name that Spark's own documents use

from gapless.protocol.errors import Misuse, SchemaError
from gapless.spark_sources.casts import Cast, cast, quoted
from gapless.spark_sources.spark_types import spark_fields, spark_type

RULES_MAX = 1000
"""Each is a projection of Spark's plan; more than a few dozen are a table to join with."""
WHY, DROPPED = "_why", "_dropped"
"""Columns beside the rows: why one is rejected (null: it is not), and whether it is left out."""

_KEYS = {"drop": {"drop"}, "reject": {"reject", "reason"}, "default": {"default", "value"}}


@dataclass(frozen=True)
class Rule:
    """One rule of a file."""

    number: int
    """From 1, as people count."""
    kind: Literal["drop", "reject", "default"]
    on: str
    """The condition; of a default, the column."""
    reason: str = ""
    value: Any = None


def parse(text: str) -> tuple[Rule, ...]:
    """The rules of a TOML text, in their order. Raises `Misuse` that names the rule."""
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as e:
        raise Misuse(f"the rules are no TOML: {e}") from None
    unknown = set(document) - {"rule"}
    given = document.get("rule", [])
    if unknown or not isinstance(given, list):
        named = ", ".join(sorted(unknown)) or "rule"
        raise Misuse(f"the rules have {named!r}: write each rule as a table [[rule]]")
    if len(given) > RULES_MAX:
        raise Misuse(f"{len(given)} rules: {RULES_MAX} at most")
    return tuple(_rule(number, table) for number, table in enumerate(given, 1))


def _rule(number: int, table: dict[str, Any]) -> Rule:
    kinds = [kind for kind in _KEYS if kind in table]
    if len(kinds) != 1:
        raise Misuse(
            f"rule {number} is to have one of drop, default, reject; it has {_shown(table)}"
        )
    kind: Any = kinds[0]
    if set(table) != _KEYS[kind]:
        raise Misuse(
            f"rule {number}: {kind} goes with {_shown(_KEYS[kind])}, and this has {_shown(table)}"
        )
    for key in _KEYS[kind] - {"value"}:
        if not isinstance(table[key], str) or not table[key].strip():
            raise Misuse(f"rule {number}: {key} = {table[key]!r}: write it as a text")
    return Rule(number, kind, table[kind], table.get("reason", ""), table.get("value"))


def _shown(keys: Any) -> str:
    return ", ".join(sorted(keys)) or "nothing"


# -- held against the columns ---------------------------------------------------------------------


def check(rules: tuple[Rule, ...], names: list[str]) -> None:
    """Raises `Misuse` where a default is of no column. Needs no Spark."""
    for rule in rules:
        if rule.kind == "default" and rule.on not in names:
            raise Misuse(
                f"rule {rule.number}: default of {rule.on!r}, which is none of the columns "
                f"{', '.join(names)}"
            )


def check_with(spark: SparkSession, rules: tuple[Rule, ...], payload: pa.Schema) -> None:
    """Raises `Misuse` where a condition does not analyse over the columns, is not boolean, or gives
    another answer each time; or where a default is no value of its column.
    """
    rows = spark.createDataFrame([], spark_fields(payload))
    for rule in rules:
        if rule.kind == "default":
            _check_value(spark, rule, payload.field(rule.on).type)
        else:
            _check_condition(rows, rule)


def _check_condition(rows: DataFrame, rule: Rule) -> None:
    try:
        asked: Any = rows.where(F.expr(rule.on))
    except (AnalysisException, ParseException) as e:
        said = " ".join(str(e).partition("SQLSTATE")[0].split())
        raise Misuse(f"rule {rule.number}: {rule.kind} = {rule.on!r}: {said}") from None
    if not asked._jdf.queryExecution().analyzed().deterministic():
        raise Misuse(
            f"rule {rule.number}: {rule.kind} = {rule.on!r} gives another answer each time: what "
            "is in a journal must not depend on when it was prepared"
        )


def _check_value(spark: SparkSession, rule: Rule, t: pa.DataType) -> None:
    no_value = f"rule {rule.number}: {rule.value!r} is no value of {rule.on!r}, which is {t}"
    try:
        made = _literal(rule, t)
    except SchemaError:
        raise Misuse(no_value) from None
    misfits = F.lit(False) if made.misfits is None else made.misfits
    if spark.range(1).select(misfits | made.value.isNull()).collect()[0][0]:
        raise Misuse(no_value)


def _literal(rule: Rule, t: pa.DataType) -> Cast:
    """A default as a value of its column, made as one of a file would be."""
    for python, arrow in ((bool, pa.bool_()), (int, pa.int64()), (float, pa.float64())):
        if isinstance(rule.value, python):
            return cast(rule.on, F.lit(rule.value).cast(spark_type(rule.on, arrow)), arrow, t)
    return cast(rule.on, F.lit(str(rule.value)), pa.string(), t)


def applied(rules: tuple[Rule, ...], rows: DataFrame, payload: pa.Schema) -> DataFrame:
    """The rows with `WHY` and `DROPPED` as the rules say, nothing taken out yet.

    `rows` has `WHY`; it gets `DROPPED` if a rule may drop.
    """
    if any(rule.kind == "drop" for rule in rules):
        rows = rows.withColumn(DROPPED, F.lit(False))
    return reduce(lambda frame, rule: _applied(rule, frame, payload), rules, rows)


def _applied(rule: Rule, rows: DataFrame, payload: pa.Schema) -> DataFrame:
    open_ = F.col(WHY).isNull()
    if DROPPED in rows.columns:
        open_ &= ~F.col(DROPPED)
    if rule.kind == "default":
        name = rule.on
        value = _literal(rule, payload.field(name).type).value
        return rows.withColumn(name, F.coalesce(F.col(quoted(name)), value))
    holds = F.coalesce(F.expr(rule.on), F.lit(False))
    if rule.kind == "drop":
        return rows.withColumn(DROPPED, F.when(open_, holds).otherwise(F.col(DROPPED)))
    said = F.lit(f"rule {rule.number}: {rule.reason}")
    return rows.withColumn(WHY, F.when(open_ & holds, said).otherwise(F.col(WHY)))
