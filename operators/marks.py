"""Marks that an operator keeps, as a table of a snapshot: whose each is, and it as a document."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa

from gapless.operators.state import State, table
from gapless.protocol.documents import pack, unpack
from gapless.protocol.errors import DecodeError
from gapless.protocol.punctuation import Punctuation

_SCHEMA = pa.schema(
    [pa.field("input", pa.int64(), nullable=False), pa.field("mark", pa.binary(), nullable=False)]
)


def marks_table(marks: Iterable[tuple[int, Punctuation]]) -> pa.RecordBatch:
    """Marks and the inputs that gave them, in order."""
    inputs, documents = [], []
    for source, mark in marks:
        inputs.append(source)
        documents.append(pack(mark.to_document()))
    return pa.record_batch(
        [pa.array(inputs, pa.int64()), pa.array(documents, pa.binary())], _SCHEMA
    )


def read_marks(state: State, name: str, inputs: int) -> list[tuple[int, Punctuation]]:
    """The inverse of `marks_table`, of an operator with so many inputs; raises `DecodeError`."""
    rows = table(state, name, _SCHEMA)
    if any(column.null_count for column in rows.columns):
        raise DecodeError(f"snapshot.{name}", "a null", "inputs and marks")
    sources, documents = (column.to_pylist() for column in rows.columns)
    if not all(0 <= source < inputs for source in sources):
        raise DecodeError(f"snapshot.{name}", f"inputs {sorted(set(sources))}", f"below {inputs}")
    marks = [Punctuation.from_document(unpack(document)) for document in documents]
    return list(zip(sources, marks, strict=True))
