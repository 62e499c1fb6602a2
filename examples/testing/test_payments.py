"""Tests of a query: an ordinary one, and two that break things while it runs.

    pytest examples/testing                             all of them: a minute
    pytest examples/testing -m "not gapless_ray"        without a real cluster: seconds

The one on Ray plays a job of the query on a cluster of its own, on this machine.
"""

import pyarrow as pa
from payments import query

import gapless as gl

SCHEMA = pa.schema({"ts": pa.timestamp("ms"), "id": pa.int64(), "cents": pa.int64()})


def events():
    """Thirty payments a minute; every fifth comes again, nine seconds later."""
    start = 1_700_000_040_000
    first = [
        {"ts": start + (i // 30) * 60_000 + (i % 30) * 1_500, "id": i, "cents": 100 + i}
        for i in range(90)
    ]
    again = [{**payment, "ts": payment["ts"] + 9_000} for payment in first[::5]]
    return pa.Table.from_pylist(first + again, SCHEMA).sort_by("ts")


def test_it_survives_failures(simulate):
    simulate(query, events())


def test_each_payment_counts_once():
    assert gl.table(query, events()).to_pylist() == [{"payments": 30, "cents": 5_235}]


def test_it_survives_failures_on_ray(drill):
    drill(query, events())
