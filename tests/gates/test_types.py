"""What a payload may hold, a key may be made of.

`protocol/schema.py` and `kernels/keys.py` each list the types that they take, for neither folder
may import the other. A type that only the first takes would pass as a stream and fail in a merger.
"""

from __future__ import annotations

import pyarrow as pa
from hypothesis import given

from gapless.kernels.keys import check_type
from gapless.protocol.schema import NESTING_MAX, StreamSchema
from tests.protocol.strategies import payload_types


@given(payload_types())
def test_a_payload_column_may_be_part_of_a_key(t: pa.DataType) -> None:
    check_type("p", t)


def test_structs_nest_as_deep_in_a_key_as_in_a_payload() -> None:
    t = pa.int8()
    for _ in range(NESTING_MAX):
        t = pa.struct([("x", t)])
    StreamSchema({"p": t})
    check_type("p", t)
