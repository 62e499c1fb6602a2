"""Throws bytes at whatever reads bytes from outside, guided by coverage (atheris, libFuzzer).

    python fuzz/fuzz_decoders.py -max_total_time=60            all targets, sharing the time
    python fuzz/fuzz_decoders.py frame -max_total_time=600     one target; libFuzzer's options
    python fuzz/fuzz_decoders.py frame fuzz-corpus/frame-crash-...    one input again

The contract is the same for all: whatever the bytes, a value or a `GaplessError`. Any other
exception, a crash of the interpreter, 10 s without an end or 1 GB of memory is a finding; its input
is then kept in fuzz-corpus/. Each run starts from valid encodings that it makes itself.

Rows have a stricter one: whatever they are, each door says the same of them (fuzz_rows.py).

Checksums would keep the fuzzer out, so the target of frames computes them anew over what the
fuzzer made of an envelope: it plays a peer that lies well.
"""

from __future__ import annotations

import contextlib
import struct
import subprocess
import sys
import tempfile
import zlib
from collections.abc import Callable, Iterable
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import atheris

ROOT = Path(__file__).parents[1]

# The finder of an editable install loads modules in a way that atheris cannot instrument (it then
# runs without coverage, and finds nothing): import them as plain files.
sys.meta_path[:] = [f for f in sys.meta_path if "editable" not in type(f).__module__]
sys.path[:0] = [str(ROOT / "src"), str(ROOT)]

with atheris.instrument_imports(include=["gapless.protocol", "gapless.sidecar"]):
    import pyarrow as pa
    import pyarrow.compute as pc

    from fuzz import fuzz_rows
    from gapless.protocol import documents, text
    from gapless.protocol.elements import INF, Adjust, Element, Insert
    from gapless.protocol.envelope import (
        HEADER_BYTES,
        Incarnation,
        decode_document,
        decode_frame,
        encode_document,
        encode_frame,
    )
    from gapless.protocol.errors import GaplessError
    from gapless.protocol.expr import Expr, call, col, if_else, lit
    from gapless.protocol.frame import Frame
    from gapless.protocol.ipc_guard import read_schema
    from gapless.protocol.punctuation import Punctuation
    from gapless.protocol.schema import StreamSchema
    from gapless.sidecar import gapless_pb2 as pb
    from gapless.sidecar.frames import from_wire, to_wire
    from gapless.sidecar.server.filters import parse_filter

SECONDS = 60
KEPT = ROOT / "fuzz-corpus"
"""Where inputs that break the contract are kept."""
LIMITS = ("-timeout=10", "-rss_limit_mb=1024", "-max_len=4096")

SENDER = Incarnation(1, 2)
ROWS: tuple[tuple[StreamSchema, tuple[Any, ...]], ...] = (
    (StreamSchema({"p": "int64"}), (7,)),
    (StreamSchema({"p": "string", "q": "float64"}, "us"), ("héllo", 1.5)),
    (StreamSchema({"p": pa.dictionary(pa.int32(), pa.string())}), ("word",)),
    (StreamSchema({"p": "string_view", "q": "binary_view"}), ("x" * 20, b"short")),
    (StreamSchema({"p": pa.decimal128(5, 2), "q": "date64"}), (Decimal("1.50"), 86_400_000)),
    (
        StreamSchema(
            {
                "p": pa.struct(
                    [pa.field("x", pa.bool_(), nullable=False), ("y", pa.large_string())]
                ),
                "q": pa.timestamp("ns", "Europe/Berlin"),
                "r": pa.month_day_nano_interval(),
            }
        ),
        ((True, "A"), 5, (1, 2, 3)),
    ),
    (StreamSchema({"p": "list<list<string>>", "q": "list<int16>"}), ((None, ("A", None)), (1,))),
)
EXPRESSIONS = (
    (col("a") > 0) & ~col("p").is_null() | (col("b") % 7 == 2),
    if_else(col("a").between(1, 9), col("b").cast("int64"), None),
    col("b").is_in([1, None, 3]) | (lit(Decimal("1.50")) < col("a") / 2),
    call("round", col("a"), ndigits=1) - lit(5, "uint8") // col("b"),
    lit(pa.scalar(5, pa.timestamp("ms", "UTC"))) == col("t"),
    call("match_substring_regex", col("s"), pattern="^a+"),
    lit((1, "x"), pa.struct([("x", pa.int8()), ("y", pa.string())])),
)
COLUMNS = pa.schema(
    [
        ("a", pa.int32()), ("b", pa.uint64()), ("p", pa.bool_()), ("s", pa.string_view()),
        ("t", pa.timestamp("ms", "UTC")),
    ]
)  # fmt: skip


def _frames() -> Iterable[bytes]:
    for choice, (schema, row) in enumerate(ROWS):
        rows: list[Element] = [
            Insert(row, 1, INF),
            Adjust(row, 1, INF, 9),
            Insert((None,) * len(row), 2, 3),
        ]
        for frame in (Frame.from_elements(schema, rows).with_stable(1), Frame.empty(schema)):
            yield bytes([choice]) + encode_frame(frame, SENDER, 5)


def _frame(data: bytes) -> None:
    if not data:
        return
    schema, _ = ROWS[data[0] % len(ROWS)]
    frame = decode_frame(_resealed(data[1:]), schema).frame
    frame.batch.validate(full=True)
    assert Frame.from_elements(schema, frame.elements()) == frame
    assert decode_frame(encode_frame(frame, SENDER, 1), schema).frame == frame


def _resealed(data: bytes) -> bytes:
    """An envelope whose length and checksums fit what it holds."""
    body = data[HEADER_BYTES:]
    body += bytes(-len(body) % HEADER_BYTES)
    start = data[:48].ljust(48, b"\x00")
    (length,) = struct.unpack("<Q", data[48:56].ljust(8, b"\x00"))
    if not len(body) - HEADER_BYTES < length <= len(body):
        length = len(body)
    start += struct.pack("<QI", length, zlib.crc32(body))
    return start + struct.pack("<I", zlib.crc32(start)) + body


def _schemas() -> Iterable[bytes]:
    for schema, _ in ROWS:
        yield schema.arrow.serialize().to_pybytes()


def _schema(data: bytes) -> None:
    schema = read_schema(data)
    read_schema(schema.serialize().to_pybytes())


def _documents() -> Iterable[bytes]:
    plain: documents.Document = {"a": [1, -1.5, None, True], "b": {"c": b"x", "d": "héllo"}}
    yield documents.pack(plain)
    yield encode_document(plain, SENDER, 1)


def _document(data: bytes) -> None:
    with contextlib.suppress(GaplessError):
        decode_document(_resealed(data))
    document = documents.unpack(data)
    again = documents.unpack(documents.pack(document))
    assert documents.pack(again) == documents.pack(document)


def _trees() -> Iterable[bytes]:
    trees = list(EXPRESSIONS)
    for function in pc.list_functions():
        for arguments in ("s", "a", "ab", "pab"):
            with contextlib.suppress(GaplessError):
                trees.append(call(function, *map(col, arguments)))
    for tree in trees:
        yield documents.pack(tree.to_document())


def _tree(data: bytes) -> None:
    tree = Expr.from_document(documents.unpack(data))
    assert Expr.from_document(tree.to_document()).same_as(tree)
    assert str(tree)
    tree.type(COLUMNS)


def _marks() -> Iterable[bytes]:
    for mark in (
        Punctuation.of(_vs=5, b=7),
        Punctuation.of({"s": "x", "p": None, "f": Decimal("1.50"), "g": (1, b"x")}, a=5),
    ):
        yield documents.pack(mark.to_document())


def _mark(data: bytes) -> None:
    mark = Punctuation.from_document(documents.unpack(data))
    assert Punctuation.from_document(mark.to_document()) == mark
    assert mark.implies(mark)
    assert str(mark)


def _texts() -> Iterable[bytes]:
    for choice, (schema, row) in enumerate(ROWS):
        elements: list[Element] = [Insert(row, 1, INF), Adjust(row, 1, INF, 9)]
        written = text.format(Frame.from_elements(schema, elements).with_stable(1).elements())
        yield bytes([choice]) + written.encode()


def _text(data: bytes) -> None:
    if not data:
        return
    schema, _ = ROWS[data[0] % len(ROWS)]
    elements = text.parse(data[1:].decode(errors="surrogateescape"), schema)
    assert text.parse(text.format(elements), schema) == elements


def _wires(encoding: pb.Encoding) -> Iterable[bytes]:
    for choice, (schema, row) in enumerate(ROWS):
        rows: list[Element] = [Insert(row, 1, INF), Adjust(row, 1, INF, 9), Insert(row, 2, 3)]
        frame = Frame.from_elements(schema, rows)
        yield bytes([choice]) + to_wire(frame, encoding).body


def _wire(data: bytes, encoding: pb.Encoding) -> None:
    """A body that a sidecar's peer sends: what is taken can be sent on, and is the same then."""
    if not data:
        return
    schema, _ = ROWS[data[0] % len(ROWS)]
    frame = from_wire(pb.Frame(encoding=encoding, body=data[1:], stable=5), schema)
    frame.batch.validate(full=True)
    for way in (pb.ENCODING_ARROW, pb.ENCODING_MSGPACK):
        again = pb.Frame.FromString(to_wire(frame, way).SerializeToString())
        assert from_wire(again, schema) == frame


def _filters() -> Iterable[bytes]:
    for choice, written in enumerate(("p > 3 and not (p in (1, 2))", 'p == "A" or q is None')):
        yield bytes([choice]) + written.encode()


def _filter(data: bytes) -> None:
    if not data:
        return
    schema, _ = ROWS[data[0] % len(ROWS)]
    tree = parse_filter(data[1:].decode(errors="surrogateescape"), schema)
    assert tree.type(schema.payload) == pa.bool_()


class Target(NamedTuple):
    """What is fed with bytes, and valid bytes to begin with."""

    run: Callable[[bytes], None]
    seeds: Callable[[], Iterable[bytes]]


TARGETS = {
    "frame": Target(_frame, _frames),
    "schema": Target(_schema, _schemas),
    "document": Target(_document, _documents),
    "expression": Target(_tree, _trees),
    "punctuation": Target(_mark, _marks),
    "text": Target(_text, _texts),
    "arrow-body": Target(
        partial(_wire, encoding=pb.ENCODING_ARROW), partial(_wires, pb.ENCODING_ARROW)
    ),
    "msgpack-body": Target(
        partial(_wire, encoding=pb.ENCODING_MSGPACK), partial(_wires, pb.ENCODING_MSGPACK)
    ),
    "filter": Target(_filter, _filters),
    "lines": Target(fuzz_rows.lines, fuzz_rows.line_seeds),
    "rows": Target(fuzz_rows.rows, fuzz_rows.row_seeds),
}


def fuzz(name: str, options: list[str]) -> None:
    """Runs one target until its time is over or it has a finding; does not return."""
    target = TARGETS[name]

    def keep_the_contract(data: bytes) -> None:
        with contextlib.suppress(GaplessError):
            target.run(data)

    with tempfile.TemporaryDirectory(prefix="gapless-fuzz-") as folder:
        for i, seed in enumerate(target.seeds()):
            (Path(folder) / f"seed-{i}").write_bytes(seed)
        KEPT.mkdir(exist_ok=True)
        one_input = any(not option.startswith("-") for option in options)
        corpus = [] if one_input else [folder]
        prefix = f"-artifact_prefix={KEPT}/{name}-"
        atheris.Setup([sys.argv[0], *LIMITS, prefix, *options, *corpus], keep_the_contract)
        atheris.Fuzz()


def fuzz_all(options: list[str]) -> int:
    """Runs each target in a process of its own, for its share of the time; 1 on any finding."""
    seconds = SECONDS
    for option in options:
        if option.startswith("-max_total_time="):
            seconds = int(option.partition("=")[2])
    share = [f"-max_total_time={max(1, seconds // len(TARGETS))}"]
    rest = [option for option in options if not option.startswith("-max_total_time=")]
    broken = []
    for name in TARGETS:
        sys.stderr.write(f"-- {name}\n")
        if subprocess.run([sys.executable, __file__, name, *rest, *share], check=False).returncode:
            broken.append(name)
    for name in broken:
        sys.stderr.write(f"{name}: a finding; its input is in {KEPT.name}/{name}-*\n")
    return 1 if broken else 0


if __name__ == "__main__":
    if len(sys.argv) > 1 and sys.argv[1] in TARGETS:
        fuzz(sys.argv[1], sys.argv[2:])
    else:
        sys.exit(fuzz_all(sys.argv[1:]))
