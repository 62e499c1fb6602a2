import pyarrow as pa
import pytest

from gapless.operators.aside import Aside
from gapless.protocol.errors import RowError


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (pa.array([5]), "v=5"),
        (pa.array([1 << 62], pa.timestamp("s")), r"v=4611686018427387904 \(timestamp\[s\]\)"),
        (pa.array([-(1 << 31)], pa.int32()).view(pa.date32()), r"v=-2147483648 \(date32\[day\]\)"),
        (pa.array([b"\xff"]).view(pa.string()), "v=a string that is no UTF-8"),
    ],
    ids=["a number", "a time", "a date", "a string"],
)
def test_a_query_stops_with_the_row_whatever_is_in_it(value: pa.Array, text: str) -> None:
    with pytest.raises(RowError, match=f"bad; the row: {text}"):
        Aside("stop").put("here", pa.record_batch({"v": value}), "bad")


def test_a_lenient_one_counts_what_it_does_not_keep() -> None:
    aside = Aside("aside", 3, is_lenient=True)
    for _ in range(2):
        aside.put("here", pa.record_batch({"v": [1, 2]}), "bad")
    assert aside.count == 4
    assert [kept.rows.num_rows for kept in aside.take()] == [2]
