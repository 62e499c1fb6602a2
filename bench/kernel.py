"""KeyTable and the wire codec against their bars, the native kernel beside its twin.

The keys are random, the frames draw from the live keys at random, so that every lookup is a hit at
an unpredictable place: what a merge of several inputs does after the first of them. Tables are
filled before the clock starts; what is timed is a pass over frames that are made already.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gapless.bench.harness import REPEAT, Context, Row, best_of
from gapless.kernels import KERNEL, twin_key_table
from gapless.protocol.envelope import Incarnation, decode_frame, encode_frame
from gapless.protocol.errors import Misuse
from gapless.protocol.frame import Frame
from gapless.protocol.schema import StreamSchema

SUMMARY = "KeyTable and the wire codec against their bars, native kernel and twin"

LIVE_KEYS = 100_000
"""More than the second-level cache holds, as in a merge with many half-frozen events."""
CARDINALITIES = (10, 1_000, 100_000)
"""Distinct values in what `dictionary_encode` is compared on: its table fits L1, L2, L3."""
SEED = 7

Make = Callable[[Any], pa.RecordBatch]
"""A batch of the keys at these positions."""


def run(context: Context) -> Iterator[Row]:
    """Measures each row of the table, in a few seconds."""
    if KERNEL != "native":
        raise Misuse(
            f"this bench compares the native kernel with its twin, and the {KERNEL} is in use: "
            "install a C++ compiler and Gapless again, and leave GAPLESS_KERNEL unset"
        )
    live, repeat = (LIVE_KEYS // 10, 1) if context.quick else (LIVE_KEYS, REPEAT)
    bench = _Bench(live, repeat)
    yield from bench.two_int64()
    yield from bench.text()
    yield from bench.short_frames()
    yield from bench.dictionary_encode()
    yield bench.bytes_per_key()
    yield bench.envelope()


class _Bench:
    def __init__(self, live: int, repeat: int) -> None:
        from gapless.kernels import native  # absent where the twin is in use

        self._native = native.KeyTable
        self._live = live
        self._repeat = repeat
        self._rng = np.random.default_rng(SEED)
        self._keys = self._rng.integers(0, 2**62, (live, 2))

    # -- the rows of the table --------------------------------------------------------------------

    def two_int64(self) -> Iterator[Row]:
        frames = self._frames(1_000, self._two)
        fast = self._intern_rate(self._native, frames, self._two)
        slow = self._intern_rate(twin_key_table.KeyTable, frames[:50], self._two)
        name = "intern two int64, 1,000-row frames"
        yield Row(name, fast, "rows/s", bar=40e6, op=">=")
        yield Row(f"{name}, twin", slow, "rows/s")
        yield Row(f"{name}, native over twin", fast / slow, "x", bar=5, op=">=")

    def text(self) -> Iterator[Row]:
        texts = pa.array([f"{key:016x}" for key in self._keys[:, 1].tolist()])

        def make(at: Any) -> pa.RecordBatch:
            return pa.record_batch([self._keys[at, 0], texts.take(pa.array(at))], ["a", "b"])

        rate = self._intern_rate(self._native, self._frames(1_000, make), make)
        yield Row(
            "intern int64 and 16-byte string, 1,000-row frames", rate, "rows/s", bar=12e6, op=">="
        )

    def short_frames(self) -> Iterator[Row]:
        rate = self._intern_rate(self._native, self._frames(100, self._two), self._two)
        yield Row("intern two int64, 100-row frames", rate, "rows/s", bar=10e6, op=">=")

    def dictionary_encode(self) -> Iterator[Row]:
        for distinct in CARDINALITIES:
            values = self._rng.integers(0, 2**62, min(distinct, self._live))

            def make(at: Any, values: Any = values) -> pa.RecordBatch:
                return pa.record_batch([values[at % len(values)]], ["a"])

            frames = self._frames(16_000, make)
            ours = self._intern_rate(self._native, frames, make)
            theirs = self._rate(frames, lambda frame: pc.dictionary_encode(frame.column(0)))
            name = f"intern int64, 16,000-row frames, {distinct:,} distinct"
            yield Row(name, ours, "rows/s")
            yield Row(f"{name}, over dictionary_encode", ours / theirs, "x", bar=0.5, op=">=")

    def bytes_per_key(self) -> Row:
        table = self._native(self._two(np.arange(1)).schema)
        worst = 0.0
        step = self._live // 100  # the hash table doubles somewhere on the way
        for start in range(0, self._live, step):
            table.intern(self._two(np.arange(start, start + step)))
            if start >= self._live // 2:
                worst = max(worst, table.nbytes / len(table))
        return Row("bytes a live key of two int64", worst, "bytes", bar=64, op="<=")

    def envelope(self) -> Row:
        schema = StreamSchema({"a": "int64", "b": "int32", "c": "float64", "d": "string"})
        n = 1_000
        vs = np.arange(n, dtype=np.int64)
        text = pa.array([f"text {i % 97}" for i in range(n)])
        columns = [pa.array(vs), pa.array(vs.astype(np.int32)), pa.array(vs / 3), text]
        frame = Frame.from_columns(schema, vs, vs + 10, columns, stable=n)
        data = encode_frame(frame, Incarnation(1, 1), 1)
        calls = 20 if self._repeat == 1 else 500

        def once() -> float:
            start = time.perf_counter()
            for _ in range(calls):
                decode_frame(data, schema)
            return (time.perf_counter() - start) / calls * 1e6

        best = best_of(once, self._repeat, min)
        name = "decode and validate a frame of 1,000 rows, 4 payload columns"
        return Row(name, best, "us", bar=100, op="<=")

    # -- what they share --------------------------------------------------------------------------

    def _two(self, at: Any) -> pa.RecordBatch:
        return pa.record_batch([self._keys[at, 0], self._keys[at, 1]], ["a", "b"])

    def _frames(self, rows: int, make: Make) -> list[pa.RecordBatch]:
        """Frames of live keys, some 400,000 rows in all."""
        count = max(1, 4 * self._live // rows)
        return [make(self._rng.integers(0, self._live, rows)) for _ in range(count)]

    def _intern_rate(self, table_type: Any, frames: Sequence[pa.RecordBatch], make: Make) -> float:
        """Rows/s of `intern` on a table that holds all keys."""
        table = table_type(frames[0].schema)
        table.intern(make(np.arange(self._live)))
        return self._rate(frames, table.intern)

    def _rate(
        self, frames: Sequence[pa.RecordBatch], call: Callable[[pa.RecordBatch], object]
    ) -> float:
        rows = sum(int(frame.num_rows) for frame in frames)

        def once() -> float:
            start = time.perf_counter()
            for frame in frames:
                call(frame)
            return rows / (time.perf_counter() - start)

        return best_of(once, self._repeat)
