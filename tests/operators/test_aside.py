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


def test_what_is_not_kept_is_counted_until_somebody_takes_what_is() -> None:
    aside = Aside("aside", 3)
    for _ in range(3):
        aside.put("here", pa.record_batch({"v": [1, 2]}), "bad")
    assert (aside.count, aside.lost) == (6, 3)
    assert [kept.rows.num_rows for kept in aside.take()] == [2, 1]
    aside.put("here", pa.record_batch({"v": [1, 2]}), "bad")
    assert (aside.count, aside.lost) == (8, 3)


def test_where_there_is_no_room_whoever_can_takes_what_is_kept() -> None:
    aside, taken = Aside("aside", 3), []
    aside.on_full = lambda: taken.extend(aside.take())
    for start in range(0, 20, 10):
        aside.put("here", pa.record_batch({"v": range(start, start + 10)}), "bad")
    taken += aside.take()
    assert [v for kept in taken for v in kept.rows["v"].to_pylist()] == list(range(20))
    assert max(kept.rows.num_rows for kept in taken) <= 3
    assert (aside.count, aside.lost) == (20, 0)
