"""Nexmark: ids and their ranges against the benchmark's rules, row by row; ratios by counting."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from gapless.journal.generate import Nexmark
from gapless.journal.generate.nexmark import KINDS, Kind, last_auction, last_person
from gapless.journal.generate.nexmark_texts import HOT_CHANNELS, channels, urls
from gapless.protocol.errors import Misuse
from tests.journal.generate.checks import column, table

EVENTS = 500_000


def rows(kind: Kind, **options: Any) -> pa.Table:
    return table(Nexmark(kind=kind, events=options.pop("events", EVENTS), **options))


@pytest.fixture(scope="module")
def bids() -> pa.Table:
    return rows("bid")


def slow_history(events: int) -> list[tuple[str, int, int]]:
    """What happens, event by event: its kind, and the last person and auction, the own included."""
    history, person, auction = [], -1, -1
    for event in range(events):
        place = event % 50
        kind = "person" if place == 0 else "auction" if place <= 3 else "bid"
        person += kind == "person"
        auction += kind == "auction"
        history.append((kind, person, auction))
    return history


def test_the_last_person_and_auction_are_those_of_a_slow_count() -> None:
    history = slow_history(1_000)
    events = np.arange(1_000)
    assert last_person(events).tolist() == [person for _, person, _ in history]
    assert last_auction(events).tolist() == [auction for _, _, auction in history]


@pytest.mark.parametrize("events", [1, 2, 4, 5, 49, 50, 51, 777])
def test_of_each_50_events_1_is_a_person_3_are_auctions_and_46_bids(events: int) -> None:
    kinds = [kind for kind, _, _ in slow_history(events)]
    for kind in KINDS:
        assert len(rows(kind, events=events)) == kinds.count(kind)


@pytest.mark.parametrize("kind", KINDS)
def test_an_event_happens_when_its_number_says(kind: Kind) -> None:
    history = slow_history(2_000)
    numbers = [number for number, (each, _, _) in enumerate(history) if each == kind]
    stream = Nexmark(kind=kind, events=2_000, rate=3_000)
    since = column(table(stream), "dateTime") - stream.start_ms
    assert since.tolist() == [number * 1000 // 3_000 for number in numbers]


def test_persons_and_auctions_are_numbered_from_1000() -> None:
    for kind, count in (("person", 10_000), ("auction", 30_000)):
        ids = column(rows(kind), "id")  # type: ignore[arg-type]  # both are kinds
        assert ids.tolist() == list(range(1_000, 1_000 + count))


def references(bids: pa.Table, last_of: Any, name: str) -> tuple[Any, Any]:
    """What bids refer to, from 0, and the last that was there, leaving out the first rounds."""
    row = np.arange(len(bids))
    event = row // 46 * 50 + 4 + row % 46
    late = event > 60_000
    return (column(bids, name) - 1000)[late], last_of(event)[late]


def test_half_of_the_bids_are_for_the_hot_auction_the_others_for_one_in_flight(
    bids: pa.Table,
) -> None:
    auction, last = references(bids, last_auction, "auction")
    hot = auction == last // 100 * 100
    assert abs(hot.mean() - (0.5 + 0.5 / 111)) < 0.005
    assert (auction[~hot] >= last[~hot] - 100).all()
    assert (auction[~hot] <= last[~hot] + 10).all()
    offset = auction[~hot] - last[~hot]
    counts = np.bincount(offset + 100, minlength=111)
    assert counts.min() > 0.85 * counts.mean(), "all in flight are as likely"


def test_three_quarters_of_the_bids_are_the_hot_bidders_the_others_of_an_active_person(
    bids: pa.Table,
) -> None:
    bidder, last = references(bids, last_person, "bidder")
    hot = bidder == last // 100 * 100 + 1
    assert abs(hot.mean() - 0.75) < 0.005
    assert (bidder[~hot] > last[~hot] - 1_000).all()
    assert (bidder[~hot] <= last[~hot] + 10).all()


def test_three_quarters_of_the_auctions_are_the_hot_sellers() -> None:
    auctions = rows("auction")
    row = np.arange(len(auctions))
    last = last_person(row // 3 * 50 + 1 + row % 3)
    seller = column(auctions, "seller") - 1000
    hot = seller == last // 100 * 100
    assert abs(hot.mean() - 0.75) < 0.01
    assert (seller[~hot] >= np.maximum(last[~hot] - 999, 0)).all()
    assert (seller[~hot] <= last[~hot] + 10).all()
    assert set(column(auctions, "category")) == set(range(10, 15))


def test_other_ratios_give_other_shares() -> None:
    auction, last = references(rows("bid", hot_auctions=10), last_auction, "auction")
    assert abs((auction == last // 100 * 100).mean() - 0.9) < 0.005
    even, last = references(rows("bid", hot_auctions=1), last_auction, "auction")
    assert (even == last // 100 * 100).mean() < 0.02


def test_the_first_rows_refer_to_nothing_before_the_first_ids(bids: pa.Table) -> None:
    assert column(bids, "auction").min() == 1000
    assert column(bids, "bidder").min() == 1000
    assert column(rows("auction"), "seller").min() == 1000


def test_auctions_take_as_long_as_100_auctions_on_average() -> None:
    auctions = rows("auction")
    length = column(auctions, "expires") - column(auctions, "dateTime")
    ahead = (100 * 50 // 3) * 1000 / 10_000
    assert length.min() >= 1
    assert length.max() <= 2 * ahead + 2
    assert abs(length.mean() - ahead) < 3
    assert (column(auctions, "reserve") > column(auctions, "initialBid")).all()


def test_prices_spread_evenly_over_six_powers_of_ten(bids: pa.Table) -> None:
    price = column(bids, "price")
    assert price.min() >= 100
    assert price.max() <= 100_000_000
    powers = np.bincount(np.floor(np.log10(price)).astype(int))[2:8]
    assert np.allclose(powers / len(price), 1 / 6, atol=0.005)


def test_half_of_the_bids_come_through_a_hot_channel(bids: pa.Table) -> None:
    share = bids.column("channel").to_pandas().isin(HOT_CHANNELS).mean()
    assert abs(share - 0.5) < 0.005
    pairs = (
        bids.select(["channel", "url"]).group_by(["channel"]).aggregate([("url", "count_distinct")])
    )
    assert set(pairs.column("url_count_distinct").to_pylist()) == {1}, "a channel has one address"


def test_addresses_end_in_the_channels_number_with_its_bits_reversed() -> None:
    names, links = channels().to_pylist(), urls().to_pylist()
    assert links[names.index("channel-1")].endswith(f"&channel_id={1 << 31}")
    assert links[names.index("channel-3")].endswith(f"&channel_id={1 << 30}")
    assert sum("channel_id" in link for link in links) == 9_000


def test_persons_have_the_forms_that_queries_look_for() -> None:
    persons = rows("person").to_pandas()
    assert persons["emailAddress"].str.fullmatch(r"[a-z]{7}@[a-z]{5}\.com").all()
    assert persons["creditCard"].str.fullmatch(r"(\d{4} ){3}\d{4}").all()
    assert set(persons["state"]) == {"AZ", "CA", "ID", "OR", "WA", "WY"}
    assert persons["city"].nunique() == 10
    assert persons["name"].nunique() == 99


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"kind": "bidder"}, "one of person, auction, bid"),
        ({"hot_auctions": 0}, "hot auctions 0: it is from 1 to 1000000"),
        ({"in_flight": 0}, "in flight 0: it is from 1 to 1000000 auctions"),
        ({"active": 0}, "active 0: it is from 1"),
    ],
)
def test_options_out_of_range_are_refused_with_the_range(
    options: dict[str, Any], words: str
) -> None:
    with pytest.raises(Misuse, match=words):
        Nexmark(events=1, **options)
