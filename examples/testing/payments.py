"""How much was paid in each minute, of payments that may come twice."""

import gapless as gl

payments = gl.source(
    "payments",
    {"ts": "timestamp[ms]", "id": "int64", "cents": "int64"},
    time="ts",
    lateness="2s",
)

query = (
    payments.window(range="60s", slide="60s")
    .group_by("id")
    .aggregate(cents=gl.max("cents"))
    .aggregate(payments=gl.count(), cents=gl.sum("cents"))
)
