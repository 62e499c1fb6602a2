"""Two copies of a job, one with upserts and one with retractions, merged into one stream."""

import pyarrow as pa

import gapless as gl
from gapless.changelog import Changes, Retractions, Upserts

schema = gl.StreamSchema({"id": "string", "load": "int32"})
batch = pa.record_batch(
    {
        "op": ["+I", "+I", "+U", "-D"],
        "ts": [1, 2, 5, 9],
        "id": ["a", "b", "a", "b"],
        "load": pa.array([10, 20, 11, None], pa.int32()),
    }
)
merge = gl.LMerge(schema)
one, two = merge.attach(), merge.attach()
by_key, by_row = Upserts(schema, ["id"]), Retractions(schema)
upserts = Changes.of(batch, schema)
rows = pa.record_batch(
    {
        "op": ["+I", "+I", "-U", "+U", "-D"],
        "ts": [1, 2, 5, 5, 9],
        "id": ["a", "b", "a", "a", "b"],
        "load": pa.array([10, 20, 10, 11, 20], pa.int32()),
    }
)
table = gl.Tdb(schema)
table.fold(merge.push(one, by_key.push(upserts, watermark=6)))
table.fold(merge.push(two, by_row.push(Changes.of(rows, schema), watermark=10)))
print(*table.events, table.stable)
# <(a,10), [1,5)> <(b,20), [2,9)> <(a,11), [5,inf)> 10
