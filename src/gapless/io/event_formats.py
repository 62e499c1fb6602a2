"""What is in a file of events: how a group of rows becomes Parquet, Arrow, CSV or JSON lines.

    with open(...) as file:
        counted = Counted(file)
        encoder = ENCODERS["csv"](counted, schema)
        encoder.write(group)          as often as there are groups
        encoder.close()               counted.bytes is then the file's size

All of it is columns: a text format, too, makes the texts of a group column by column.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import IO, Any

import pyarrow as pa
import pyarrow.compute as pc

from gapless.io.parquet_sink import GROUP_ROWS
from gapless.protocol.errors import BadData, Misuse
from gapless.protocol.lists import elements, lengths, list_of

TEXT_YEARS_MAX = 30_000
"""From 1970, of a time in a text: near 32,767 Arrow's own texts end, and it writes an excuse for a
time. A time that far off was as a rule counted in another unit."""
IS_JSON = b"gapless.json"
"""In the metadata of a field: its texts are JSON, and JSON lines have them as they are."""
_NOT_FINITE = {"nan": '"NaN"', "inf": '"Infinity"', "-inf": '"-Infinity"'}
_TICKS = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
_YEAR_SECONDS = 31_556_952
_DAY_SECONDS = 86_400


class Counted:
    """A binary file that counts, as what writes Parquet and Arrow wants one."""

    closed = False

    def __init__(self, file: IO[bytes]) -> None:
        self._file: IO[bytes] | None = file
        self.bytes = 0

    def write(self, data: Any) -> int:
        """All of it."""
        with memoryview(data) as view:
            if self._file is not None:
                self._file.write(view)
            self.bytes += view.nbytes
            return view.nbytes

    def forget(self) -> None:
        """What comes from here on goes nowhere."""
        self._file = None

    def tell(self) -> int:
        """How far it is."""
        return self.bytes

    def flush(self) -> None:
        """Closing the file does that."""

    def close(self) -> None:
        """The opener of the file does that."""

    def writable(self) -> bool:
        """It is."""
        return True


class Encoder(ABC):
    """Writes groups of rows into a file."""

    def __init__(self, file: Counted, schema: pa.Schema) -> None:
        self._file = file
        self._schema = schema

    @abstractmethod
    def write(self, group: pa.RecordBatch) -> None:
        """The next rows."""

    @abstractmethod
    def close(self) -> None:
        """What stands after the rows."""


class Parquet(Encoder):
    """A row group for each group of rows."""

    def __init__(self, file: Counted, schema: pa.Schema) -> None:
        super().__init__(file, schema)
        from pyarrow import parquet

        self._writer = parquet.ParquetWriter(pa.PythonFile(file, "w"), schema)

    def write(self, group: pa.RecordBatch) -> None:
        """A row group."""
        self._writer.write_batch(group, row_group_size=GROUP_ROWS)

    def close(self) -> None:
        """The places of the row groups."""
        self._writer.close()


class Arrow(Encoder):
    """An Arrow IPC file: a batch for each group."""

    def __init__(self, file: Counted, schema: pa.Schema) -> None:
        super().__init__(file, schema)
        self._writer = pa.ipc.new_file(pa.PythonFile(file, "w"), schema)

    def write(self, group: pa.RecordBatch) -> None:
        """A batch."""
        self._writer.write_batch(group)

    def close(self) -> None:
        """The places of the batches."""
        self._writer.close()


class Text(Encoder):
    """Lines."""

    def write(self, group: pa.RecordBatch) -> None:
        """A line a row."""
        for field, column in zip(self._schema, group.columns, strict=True):
            _check_times(field, column)
        self._write(group)

    @abstractmethod
    def _write(self, group: pa.RecordBatch) -> None:
        """A line a row; texts can say all of its times."""

    def close(self) -> None:
        """Nothing stands after the last line."""


def _check_times(field: pa.Field, column: pa.Array) -> None:
    """Raises `BadData` where a time has no text."""
    t = field.type
    while pa.types.is_list(t):
        column, t = elements(column), t.value_type
    if pa.types.is_timestamp(t):
        ticks, limit = column.view(pa.int64()), _YEAR_SECONDS * _TICKS[t.unit]
    elif pa.types.is_date32(t):
        ticks, limit = column.view(pa.int32()), _YEAR_SECONDS // _DAY_SECONDS
    elif pa.types.is_date64(t):
        ticks, limit = column.view(pa.int64()), _YEAR_SECONDS * _TICKS["ms"]
    else:
        return
    ends = pc.min_max(ticks)
    for end in (ends["min"].as_py(), ends["max"].as_py()):
        if end is not None and abs(end) > TEXT_YEARS_MAX * limit:
            raise BadData(
                f"column {field.name!r}: {end} as {t} is more than {TEXT_YEARS_MAX:,} years from "
                "1970, for which there is no text: take Parquet or Arrow, and see whether it was "
                "counted in another unit"
            )


class Csv(Text):
    """A line of names, then a line a row."""

    def __init__(self, file: Counted, schema: pa.Schema) -> None:
        super().__init__(file, schema)
        self._put(pa.RecordBatch.from_pylist([], schema), with_names=True)

    def _write(self, group: pa.RecordBatch) -> None:
        self._put(group, with_names=False)

    def _put(self, group: pa.RecordBatch, with_names: bool) -> None:
        from pyarrow import csv

        buffer = pa.BufferOutputStream()
        options = csv.WriteOptions(include_header=with_names, quoting_style="needed")
        csv.write_csv(group, buffer, options)
        self._file.write(buffer.getvalue())


class JsonLines(Text):
    """An object a line, with the columns in their order; times as ISO 8601 has them.

    What JSON has no number for (NaN, infinities, decimals) is a text that says it.
    """

    def _write(self, group: pa.RecordBatch) -> None:
        parts: list[Any] = []
        for i, field in enumerate(self._schema):
            name = _quoted(pa.array([field.name]))[0].as_py()
            parts += [f"{',' if i else '{'}{name}:", _json(group.column(i), field)]
        lines = pc.binary_join_element_wise(*parts, "}\n", "")
        self._file.write(lines.buffers()[2][: pc.sum(pc.binary_length(lines)).as_py()])


def _json(column: pa.Array, field: pa.Field) -> pa.Array:
    """Each value as JSON writes it."""
    t = field.type
    if field.metadata is not None and IS_JSON in field.metadata:
        text = column
    elif pa.types.is_string(t) or pa.types.is_large_string(t):
        text = _quoted(column)
    elif pa.types.is_dictionary(t):
        return _json(column.dictionary_decode(), field.with_type(t.value_type))
    elif pa.types.is_floating(t):
        text = column.cast(pa.string())
        for written, said in _NOT_FINITE.items():
            text = pc.if_else(pc.equal(text, written), said, text)
    elif pa.types.is_timestamp(t):
        iso = pc.replace_substring(column.cast(pa.string()), " ", "T")
        text = pc.binary_join_element_wise('"', iso, '"', "")
    elif pa.types.is_integer(t) or pa.types.is_boolean(t):
        text = column.cast(pa.string())
    elif pa.types.is_decimal(t) or pa.types.is_date(t) or pa.types.is_time(t):
        text = pc.binary_join_element_wise('"', column.cast(pa.string()), '"', "")
    elif pa.types.is_struct(t):
        text = _json_struct(column, t)
    elif pa.types.is_list(t):
        text = _json_list(column, t)
    else:
        raise Misuse(
            f"column {field.name!r}: JSON lines have no form for {t}: take Parquet or Arrow"
        )
    return pc.fill_null(text, "null")


def _json_struct(column: pa.StructArray, t: pa.StructType) -> pa.Array:
    parts: list[Any] = []
    for i, (inner, field) in enumerate(zip(column.flatten(), t, strict=True)):
        name = _quoted(pa.array([field.name]))[0].as_py()
        parts += [f"{',' if i else '{'}{name}:", _json(inner, field)]
    text = pc.binary_join_element_wise(*parts, "}", "")
    return pc.if_else(column.is_valid(), text, None)


def _json_list(column: pa.ListArray, t: pa.ListType) -> pa.Array:
    items = _json(elements(column), t.value_field).cast(pa.string())
    texts = list_of(items, lengths(column), pa.list_(pa.string()))
    text = pc.binary_join_element_wise("[", pc.binary_join(texts, ","), "]", "")
    return pc.if_else(column.is_valid(), text, None)


def _quoted(texts: pa.Array) -> pa.Array:
    """Each text between quotes, what JSON does not allow there escaped."""
    if pc.any(pc.match_substring_regex(texts, r'["\\\x00-\x1f]')).as_py():
        texts = pc.replace_substring(pc.replace_substring(texts, "\\", "\\\\"), '"', '\\"')
        for code in range(0x20):
            texts = pc.replace_substring(texts, chr(code), f"\\u{code:04x}")
    return pc.binary_join_element_wise('"', texts, '"', "")


ENCODERS: dict[str, type[Encoder]] = {
    "parquet": Parquet,
    "arrow": Arrow,
    "csv": Csv,
    "jsonl": JsonLines,
}
