"""Network flows: the lateness bound above all; disorder, lulls, links and keys as described."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gapless.journal.generate import Netflow
from gapless.journal.generate.blocks import BLOCK_ROWS
from gapless.protocol.errors import Misuse
from tests.journal.generate.checks import Ints, column, disorder_ms, table

ROWS = 150_000  # three blocks


def times(**options: Any) -> Ints:
    return column(table(Netflow(events=ROWS, **options)), "ts")


@given(
    st.sampled_from(["none", "band", "block"]),
    st.integers(1, 60_000),
    st.floats(0, 0.99),
    st.sampled_from([1, 2, 7]),
    st.sampled_from([0, 1, 900, 5_000]),
    st.sampled_from([900, 10_000, 2_000_000]),
    st.integers(0, 2**63 - 1),
)
def test_no_row_is_later_than_the_bound(
    disorder: Any, lateness: int, skew: float, links: int, lull: int, rate: int, seed: int
) -> None:
    flows = Netflow(
        seed=seed,
        events=BLOCK_ROWS + 9_000,
        rate=rate,
        disorder=disorder,
        lateness_ms=lateness,
        links=links,
        skew_ms=int(lateness * skew) if links > 1 else 0,
        lull_ms=lull,
        lull_every_ms=20_000,
    )
    assert disorder_ms(column(table(flows), "ts")) <= lateness


class TooLate(Netflow):
    """Forgets that skew takes a part of the bound."""

    @property
    def _room_ms(self) -> int:
        return self.lateness_ms


@pytest.mark.parametrize("disorder", ["band", "block"])
def test_disorder_that_leaves_skew_no_room_is_caught(disorder: Any) -> None:
    options: dict[str, Any] = {"events": ROWS, "disorder": disorder, "links": 2, "skew_ms": 900}
    right, wrong = Netflow(**options, lateness_ms=1_000), TooLate(**options, lateness_ms=1_000)
    assert disorder_ms(column(table(right), "ts")) <= 1_000
    assert disorder_ms(column(table(wrong), "ts")) > 1_000


@pytest.mark.parametrize("disorder", ["band", "block"])
def test_the_bound_is_nearly_reached(disorder: Any) -> None:
    assert 950 < disorder_ms(times(disorder=disorder, lateness_ms=1_000)) <= 1_000


def test_without_disorder_and_skew_times_never_fall() -> None:
    assert disorder_ms(times(disorder="none")) == 0


def test_band_disorder_moves_its_share_back_by_anything_up_to_the_bound() -> None:
    back = times(disorder="none") - times(lateness_ms=2_000, late_share=0.3)
    late = back[4 * BLOCK_ROWS // 10 :]  # past the rows that stay because they come first
    assert set(np.unique(late)) <= set(range(2_001))
    assert abs((late > 0).mean() - 0.3) < 0.01
    assert abs(late[late > 0].mean() - 1_000) < 20


def test_block_sorted_disorder_is_an_ascending_set_of_disjoint_blocks_scattered_inside() -> None:
    scattered = times(disorder="block", lateness_ms=1_000)
    start = Netflow(events=1).start_ms
    blocks = (scattered - start) // 1_000
    assert (np.diff(blocks) >= 0).all()
    inside = (scattered - start)[blocks == 3] % 1_000
    assert len(inside) == 10_000
    assert abs(np.corrcoef(np.arange(10_000), inside)[0, 1]) < 0.05, "position says nothing"
    in_band = (times(lateness_ms=1_000) - start) // 1_000
    assert (np.diff(in_band) < 0).any(), "band disorder has no such blocks"


@pytest.mark.parametrize("disorder", ["none", "band", "block"])
def test_nothing_happens_in_a_lull(disorder: Any) -> None:
    flows = Netflow(events=ROWS, disorder=disorder, lull_ms=1_500, lull_every_ms=5_000)
    since = column(table(flows), "ts") - flows.start_ms
    gaps = np.diff(np.unique(since))
    assert (gaps >= 1_500).sum() >= 3
    assert not flows._pace.in_stretch(since).any()
    assert (np.diff(np.unique(times(disorder=disorder))) < 100).all(), "without lulls no gap"


def test_each_links_clock_lags_by_a_fixed_time() -> None:
    flows = Netflow(events=ROWS, disorder="none", links=3, skew_ms=800, lateness_ms=800)
    rows, steady = table(flows), times(disorder="none")
    behind = steady - column(rows, "ts")
    link = column(rows, "link")
    assert flows.clock_lags_ms.tolist() == [0, 400, 800]
    assert (behind == flows.clock_lags_ms[link]).all()
    counts = np.bincount(link, minlength=3)
    assert np.allclose(counts / ROWS, np.array([6, 3, 2]) / 11, atol=0.01)


def test_a_few_hosts_send_most_and_others_get_most() -> None:
    rows = table(Netflow(events=ROWS, hosts=1_000, exponent=1.1))
    src, dst = column(rows, "src"), column(rows, "dst")
    weights = np.arange(1, 1_001) ** -1.1
    weights /= weights.sum()
    for top in range(3):
        assert abs((src == top).mean() - weights[top]) < 0.005
        assert abs((dst == 500 + top).mean() - weights[top]) < 0.005
    assert (src != dst).all()
    assert src.min() >= 0
    assert max(src.max(), dst.max()) < 1_000
    even = column(table(Netflow(events=ROWS, hosts=1_000, exponent=0)), "src")
    assert np.bincount(even).max() < 250, "exponent 0: all as likely"


def test_the_rate_is_that_of_event_time() -> None:
    since = times(disorder="none", rate=20_000) - Netflow(events=1).start_ms
    assert since[-1] == (ROWS - 1) * 1000 // 20_000


def test_lengths_are_those_of_packets() -> None:
    length = column(table(Netflow(events=ROWS)), "len")
    assert (length.min(), length.max()) == (40, 1500)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"hosts": 1}, "hosts 1: it is from 2 to 16777216"),
        ({"exponent": -1.0}, "exponent -1.0: it is from 0.0 to 10.0"),
        ({"exponent": float("nan")}, "exponent nan"),
        ({"late_share": 1.5}, "late share 1.5: it is from 0.0 to 1.0"),
        ({"links": 101}, "links 101: it is from 1 to 100"),
        ({"lateness_ms": 86_400_001}, "from 0 to 86400000 ms"),
        ({"links": 2, "skew_ms": 6_000}, "from 0 to 5000 ms"),
        ({"skew_ms": 10}, "give 2 links or more"),
        ({"lateness_ms": 0}, "make it at least 1 ms longer"),
        ({"disorder": "some"}, "one of none, band, block"),
        ({"lull_ms": 60_000}, "from 0 to 59999 ms"),
    ],
)
def test_options_out_of_range_are_refused_with_the_range(
    options: dict[str, Any], words: str
) -> None:
    with pytest.raises(Misuse, match=words):
        Netflow(events=1, **options)
