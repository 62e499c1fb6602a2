"""The options of the data source: text from users and from `prepare`, as what it means.

    df.write.format("gapless").mode("append")
        .option("time", "ts").option("key", "src").option("partitions", 8)
        .option("lateness", "5s").save("data/netflow")

What the journal is (time, key, partitions, lateness, columns, time_unit) is said when it is made.
Later it may be left out, and where it is repeated it must be the same.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pyarrow as pa
from pyspark.sql.types import StructType

from gapless.journal.layout import Layout
from gapless.journal.plausible import reach_of
from gapless.protocol.elements import INF
from gapless.protocol.errors import Misuse
from gapless.protocol.schema import StreamSchema
from gapless.spark_sources.spark_types import PER_SECOND, columns_of, payload_of

NO_BOUND = "none"
"""`ahead`: a row may be as far ahead of all others as it likes."""
SORTED = "sorted"
"""`by_partition`: the rows of each partition come in the order of time."""
WRITING = frozenset(
    {
        "path",
        "time",
        "key",
        "partitions",
        "lateness",
        "ahead",
        "columns",
        "time_unit",
        "token",
        "query",
        "batch",
        "by_partition",
        "reject_column",
        "origin_column",
        "durability",
        "sort",
        "ends",
    }
)
READING = frozenset({"path", "partitions", "since", "with_offsets"})
FROM_SPARK = frozenset({"checkpointlocation", "queryname"})
"""What Spark hands on of its own."""

_SECONDS = {"m": 60, "h": 3600, "d": 86_400}
_DURATION = re.compile(r"(\d{1,18}) ?(ns|us|ms|s|m|h|d)?")


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """How rows are to be written. What was not said is None."""

    path: str
    time: str | None
    key: tuple[str, ...] | None
    partitions: int | None
    lateness: str | None
    ahead: str | None
    """How far ahead of all others a row may be; "none": as far as it likes."""
    columns: pa.Schema | None
    time_unit: str | None
    token: str | None
    query: str | None
    batch: int | None
    by_partition: str | None
    """None, `SORTED`, or the column that has the promise of each row."""
    reject_column: str | None
    origin_column: str | None
    durable: bool
    sorts: bool
    """Whether a task puts the rows that it gathers for a record in the order of their time."""
    ends: bool

    @staticmethod
    def of(options: Mapping[str, str]) -> WriteOptions:
        """Reads the options of one write; raises `Misuse` where one means nothing."""
        _check_known(options, WRITING)
        given = {name: options[name] for name in WRITING if name in options}
        key, columns = given.get("key"), given.get("columns")
        batch = given.get("batch")
        if given.get("sort") == "true" and given.get("by_partition") not in (None, "false"):
            raise Misuse("sort= is for rows in any order, by_partition= for rows in theirs")
        if ("query" in given) != (batch is not None):
            raise Misuse("query= and batch= together name a batch: give both, or none")
        return WriteOptions(
            path=_path(given),
            time=given.get("time"),
            key=None if key is None else tuple(n.strip() for n in key.split(",") if n.strip()),
            partitions=_number(given, "partitions"),
            lateness=given.get("lateness"),
            ahead=given.get("ahead"),
            columns=None if columns is None else columns_of(columns),
            time_unit=given.get("time_unit"),
            token=given.get("token"),
            query=given.get("query"),
            batch=_number(given, "batch"),
            by_partition=None
            if given.get("by_partition") == "false"
            else given.get("by_partition"),
            reject_column=given.get("reject_column"),
            origin_column=given.get("origin_column"),
            durable=_one_of(given, "durability", ("process", "machine")) == "machine",
            sorts=_one_of(given, "sort", ("false", "true")) == "true",
            ends=_one_of(given, "ends", ("false", "true")) == "true",
        )

    @property
    def promise_column(self) -> str | None:
        """The column with the promise of each row."""
        return None if self.by_partition == SORTED else self.by_partition

    @property
    def extra(self) -> tuple[str, ...]:
        """Columns that are no data: they say something of their row, and are dropped."""
        named = (self.reject_column, self.origin_column, self.promise_column)
        return tuple(name for name in named if name is not None)

    def reach(self, layout: Layout) -> int | None:
        """The same in ticks of a journal."""
        return reach_from(self.ahead, layout)

    def layout(self, found: Layout | None, schema: StructType) -> Layout:
        """The layout of the journal: the one that is there, if it is what was said.

        `schema` has the columns of the rows that are data.
        """
        if found is None:
            return self._new_layout(schema)
        unit = self.time_unit or found.schema.time_unit
        columns = self.columns or found.schema.payload
        said = replace(
            found,
            schema=StreamSchema(columns, unit),
            time=found.time if self.time is None else self.time,
            key=found.key if self.key is None else self.key,
            partitions=found.partitions if self.partitions is None else self.partitions,
            lateness=found.lateness if self.lateness is None else ticks(self.lateness, unit),
        )
        if said != found:
            raise Misuse(f"{self.path} is there, and has {'; '.join(found.differences(said))}")
        return found

    def _new_layout(self, schema: StructType) -> Layout:
        if self.time is None:
            raise Misuse(
                f"{self.path} is not a journal yet: say time=, the column with each row's time "
                "(and key=, partitions=, lateness=), and it is made"
            )
        payload = payload_of(schema) if self.columns is None else self.columns
        unit = self.time_unit or _unit_of(payload, self.time)
        return Layout(
            StreamSchema(payload, unit),
            self.time,
            self.key or (),
            self.partitions or 1,
            ticks(self.lateness or "0", unit),
        )


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """What of a journal is to be read."""

    path: str
    partitions: tuple[int, ...] | None
    since: str | None
    with_offsets: bool

    @staticmethod
    def of(options: Mapping[str, str]) -> ReadOptions:
        """Reads the options of one read; raises `Misuse` where one means nothing."""
        _check_known(options, READING)
        given = {name: options[name] for name in READING if name in options}
        listed = given.get("partitions")
        return ReadOptions(
            path=_path(given),
            partitions=None
            if listed is None
            else tuple(_integer("partitions", part) for part in listed.split(",")),
            since=given.get("since"),
            with_offsets=_one_of(given, "with_offsets", ("false", "true")) == "true",
        )


def ticks(duration: str, unit: str, what: str = "lateness") -> int:
    """A duration like "5s", "200ms", "1m", "1h" in ticks of a unit; a number is ticks already."""
    match = _DURATION.fullmatch(duration.strip())
    if match is None:
        raise Misuse(f"{what} {duration!r}: a number of ticks, or text like 5s, 200ms, 1m, 1h")
    number, said = int(match[1]), match[2]
    if said is None:
        return number
    per_second = PER_SECOND[unit]
    count, rest = divmod(number * per_second * _SECONDS.get(said, 1), PER_SECOND.get(said, 1))
    if rest:
        raise Misuse(f"{what} {duration!r} is not a whole number of {unit}, the journal's unit")
    return count


def reach_from(ahead: str | int | None, layout: Layout) -> int | None:
    """How far ahead a row may be: a text, or ticks; "none", or None where nothing was said."""
    if ahead is None or isinstance(ahead, int):
        return reach_of(layout, ahead)
    if ahead.strip() == NO_BOUND:
        return reach_of(layout, is_off=True)
    return reach_of(layout, ticks(ahead, layout.schema.time_unit, "ahead"))


def instant(text: str, unit: str) -> int:
    """A time in ticks of a unit: a number is ticks already, all else is a time as ISO writes it.

    Without a zone it is of UTC. Between two ticks it is the later one: what is asked for is what
    comes from then on.
    """
    if re.fullmatch(r"-?\d+", text):
        t = int(text)
    else:
        try:
            moment = datetime.fromisoformat(text)
        except ValueError:
            raise Misuse(
                f"since {text!r}: a number of ticks, or a time like 2024-05-01T12:00:00Z"
            ) from None
        moment = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment
        micros = (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)
        t = -(-micros * PER_SECOND[unit] // PER_SECOND["us"])
    if not -INF <= t <= INF:
        raise Misuse(f"since {text!r} is beyond all times of a journal in {unit}")
    return t


def _unit_of(payload: pa.Schema, time: str) -> str:
    """The unit of a time column; milliseconds for one of integers."""
    found = payload.field(time).type if time in payload.names else None
    return str(found.unit) if found is not None and pa.types.is_timestamp(found) else "ms"


def _check_known(options: Mapping[str, str], known: frozenset[str]) -> None:
    unknown = sorted(name for name in map(str.lower, options) if name not in known | FROM_SPARK)
    if unknown:
        raise Misuse(f"option {unknown[0]!r} is none of {', '.join(sorted(known))}")


def _path(given: Mapping[str, str]) -> str:
    path = given.get("path", "")
    if path.startswith("file:"):
        path = unquote(urlsplit(path).path)
    if not path:
        raise Misuse("no path: say which directory is the journal, as in save(path) or load(path)")
    return path if "://" in path else str(Path(path).absolute())


def _number(given: Mapping[str, str], name: str) -> int | None:
    return _integer(name, given[name]) if name in given else None


def _integer(name: str, text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise Misuse(f"{name}={text!r} is not a whole number") from None


def _one_of(given: Mapping[str, Any], name: str, values: tuple[str, ...]) -> str:
    """One of some values, of which the first is the default."""
    value = str(given.get(name, values[0])).lower()
    if value not in values:
        raise Misuse(f"{name}={value!r}: {' or '.join(values)}")
    return value
