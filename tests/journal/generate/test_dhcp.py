"""Leases: an oracle replays them as a server would."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gapless.journal.generate import Dhcp
from gapless.journal.generate.dhcp import ADDRESSES_MAX, ADDRESSES_MIN
from gapless.protocol.errors import Misuse
from tests.journal.generate.checks import column, replay_leases, table

SHORT: dict[str, Any] = {"rate": 100, "lease_ms": 2_000}  # a hundred addresses, many leases each


@settings(max_examples=15)
@given(
    st.integers(0, 2**63 - 1),
    st.floats(0, 0.4),
    st.floats(0.02, 0.4),
    st.integers(1, 4),
    st.sampled_from([(100, 2_000), (1_000, 1_000), (300, 3_600_000)]),
)
def test_a_server_could_have_written_it(
    seed: int, early: float, silent: float, clients: int, pace: tuple[int, int]
) -> None:
    leases = Dhcp(
        seed=seed,
        events=3_000,
        early_share=early,
        silent_share=silent,
        clients=clients,
        rate=pace[0],
        lease_ms=pace[1],
    )
    assert replay_leases(table(leases).to_pylist()) == []


def test_it_could_over_many_leases_and_slices_too() -> None:
    leases = Dhcp(events=140_000, **SHORT)
    assert len(list(leases)) == 3, "slices"
    assert replay_leases(table(leases).to_pylist()) == []


BREAKS = {
    "a lease of an address that is held": ("lease", "is still"),
    "a renew by another": ("renew", "does not hold it"),
    "a release twice": ("release", "does not hold it"),
}


@pytest.mark.parametrize("broken", BREAKS)
def test_the_oracle_catches(broken: str) -> None:
    event, words = BREAKS[broken]
    rows = table(Dhcp(events=2_000, **SHORT)).to_pylist()
    place = next(i for i, row in enumerate(rows) if i > 100 and row["event"] == event)
    if event == "renew":
        rows[place] = {**rows[place], "mac": "02:ff:00:00:00:00"}
    else:
        rows.insert(place + 1, rows[place])
    assert any(words in breach for breach in replay_leases(rows))


def test_the_oracle_catches_a_client_with_two_addresses() -> None:
    rows = table(Dhcp(events=500, **SHORT)).to_pylist()
    leases = [i for i, row in enumerate(rows) if row["event"] == "lease"]
    rows[leases[1]] = {**rows[leases[1]], "mac": rows[leases[0]]["mac"]}
    assert any("already" in breach for breach in replay_leases(rows))


def test_leases_are_renewed_released_and_forgotten_by_their_shares() -> None:
    rows = table(Dhcp(events=100_000, rate=1_000, lease_ms=1_000))
    counts = Counter(rows.slice(20_000).column("event").to_pylist())
    assert abs(counts["renew"] / counts["lease"] - 4) < 0.2, "0.8 / 0.2 of them, on average"
    assert abs(counts["release"] / counts["lease"] - 0.5) < 0.05, "half of the ends are early"


def test_the_rate_is_reached_once_the_addresses_are_in_use() -> None:
    leases = Dhcp(events=100_000, rate=1_000, lease_ms=2_000)
    since = column(table(leases), "ts") - leases.start_ms
    later = since[since > 10_000]
    assert abs(1000 * len(later) / (later[-1] - later[0]) - 1_000) < 30


def test_an_address_has_several_clients_over_time_and_a_client_one_address() -> None:
    rows = table(Dhcp(events=50_000, clients=3, **SHORT)).to_pandas()
    assert (rows.groupby("ip")["mac"].nunique() == 3).all()
    assert (rows.groupby("mac")["ip"].nunique() == 1).all()


def test_renewals_come_before_the_end_and_lengthen_the_lease() -> None:
    leases = Dhcp(events=5_000, **SHORT)
    rows = table(leases)
    ts, expires = column(rows, "ts"), column(rows, "expires")
    released = np.array(rows.column("event")) == "release"
    assert (expires[released] == ts[released]).all()
    assert (expires[~released] - ts[~released] == leases.lease_ms).all()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"lease_ms": 999}, "lease 999: it is from 1000 to 2592000000 ms"),
        ({"rate": 1, "lease_ms": 60_000}, f"from {ADDRESSES_MIN} to {ADDRESSES_MAX}"),
        ({"rate": 10**6}, f"from {ADDRESSES_MIN} to {ADDRESSES_MAX}"),
        ({"early_share": 0.0, "silent_share": 0.0}, "together 0.0: it is from 0.01 to 0.9"),
        ({"early_share": 0.8, "silent_share": 0.2}, "together 1.0"),
        ({"clients": 5}, "clients 5: it is from 1 to 4"),
    ],
)
def test_options_out_of_range_are_refused_with_the_range(
    options: dict[str, Any], words: str
) -> None:
    with pytest.raises(Misuse, match=words):
        Dhcp(events=1, **options)
