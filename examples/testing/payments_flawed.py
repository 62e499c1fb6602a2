"""How much was paid in each minute, of payments that may come twice. It has a bug."""

import pyarrow as pa

import gapless as gl

payments = gl.source(
    "payments",
    {"ts": "timestamp[ms]", "id": "int64", "cents": "int64"},
    time="ts",
    lateness="2s",
)

seen = set()


def is_new(ids):
    """Whether each is here for the first time: a client that gets no answer sends it again."""
    fresh = []
    for id in ids.to_pylist():
        fresh.append(id not in seen)
        seen.add(id)
    return pa.array(fresh)


query = (
    payments.where(gl.function(is_new, "id", returns="bool"))
    .window(range="60s", slide="60s")
    .aggregate(payments=gl.count(), cents=gl.sum("cents"))
)
