"""Persons, auctions and bids: the Nexmark benchmark's streams, as its standard generator has them.

    event number mod 50     0        1 2 3     4 .. 49
    what happens            person   auctions  bids          1 : 3 : 46

Event n happens at n / rate, and its ids follow from n alone: persons and auctions are numbered from
1000. So each of the three streams is made by itself, and they still belong together. As in Beam's
and Flink's:

- of the bids 1/2 go to the *hot* auction, the first of the last hundred, the others to one of the
  last 100 auctions, which are taken to be in flight, or of 10 that are yet to come;
- of the bids 3/4 are made by the hot bidder, the second of the last hundred persons; of the
  auctions 3/4 are the hot seller's, the first of them; the others by one of the last 1,000, or of
  the next 10;
- prices are 10 ** (0 .. 6) dollars in cents; auctions take as long as 100 auctions on average;
- half of the bids come through four hot channels, the others through one of 10,000.

What differs: texts are picked from small tables (`nexmark_texts.py`), item names and descriptions
are shorter, and there is no `extra`, which pads the standard's events to a size. Random numbers are
numpy's, so rows are like the standard's, and not the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
import pyarrow as pa

from gapless.journal.generate import nexmark_texts as texts
from gapless.journal.generate.blocks import (
    BLOCK_ROWS,
    TIMESTAMP,
    Events,
    Ints,
    below,
    row_numbers,
    times,
    within,
)
from gapless.protocol.errors import Misuse

Kind = Literal["person", "auction", "bid"]
KINDS: tuple[Kind, ...] = get_args(Kind)

GENERATORS = {"person": 4, "auction": 5, "bid": 6}
PERSONS, AUCTIONS, BIDS = 1, 3, 46
TOTAL = PERSONS + AUCTIONS + BIDS
FIRST = {"person": 0, "auction": PERSONS, "bid": PERSONS + AUCTIONS}
"""The first of a kind among 50 events."""
SHARE = {"person": PERSONS, "auction": AUCTIONS, "bid": BIDS}
FIRST_PERSON_ID = FIRST_AUCTION_ID = 1000
FIRST_CATEGORY_ID, CATEGORIES = 10, 5
BATCH = 100
"""Among the last so many is one hot auction, one hot seller, one hot bidder."""
LEAD = 10
"""So many ids that are not there yet may be referred to: events then look swapped in time."""
HOT_RATIO_MAX = 1_000_000
IN_FLIGHT_MAX = ACTIVE_MAX = 1_000_000


@dataclass(frozen=True, kw_only=True)
class Nexmark(Events):
    """One of the three streams. `events` counts the events of all three, as `rate` does."""

    kind: Kind = "bid"
    rate: int = 10_000
    hot_auctions: int = 2
    """A bid is for the hot auction with probability 1 - 1 / this."""
    hot_bidders: int = 4
    hot_sellers: int = 4
    in_flight: int = 100
    active: int = 1_000
    """Persons, the last so many, who bid and sell."""

    time_column = "dateTime"

    def _check(self) -> None:
        if self.kind not in KINDS:
            raise Misuse(f"kind {self.kind!r}: it is one of {', '.join(KINDS)}")
        within("hot auctions", self.hot_auctions, 1, HOT_RATIO_MAX)
        within("hot bidders", self.hot_bidders, 1, HOT_RATIO_MAX)
        within("hot sellers", self.hot_sellers, 1, HOT_RATIO_MAX)
        within("in flight", self.in_flight, 1, IN_FLIGHT_MAX, "auctions")
        within("active", self.active, 1, ACTIVE_MAX, "persons")

    def _span_ms(self) -> int:
        return (self.events - 1) * 1000 // self.rate

    @property
    def rows(self) -> int:
        """How many of the events are of this kind."""
        rounds, rest = divmod(self.events, TOTAL)
        share = SHARE[self.kind]
        return rounds * share + min(max(rest - FIRST[self.kind], 0), share)

    @property
    def schema(self) -> pa.Schema:
        """The benchmark's fields, in its order; prices in cents, times in milliseconds."""
        return SCHEMAS[self.kind]

    def _blocks(self) -> Iterator[pa.RecordBatch]:
        make = {"person": self._persons, "auction": self._auctions, "bid": self._bids}[self.kind]
        share, first, block = SHARE[self.kind], FIRST[self.kind], 0
        while True:
            rounds, place = np.divmod(row_numbers(block), share)
            event = rounds * TOTAL + first + place
            columns = make(event, self.draws(GENERATORS[self.kind], block))
            yield pa.record_batch(columns, schema=self.schema)
            block += 1

    def _time_ms(self, event: Ints) -> Ints:
        return event * 1000 // self.rate

    def _persons(self, event: Ints, draws: np.random.Generator) -> list[pa.Array]:
        place = draws.integers(0, len(texts.CITIES), BLOCK_ROWS)
        return [
            pa.array(last_person(event) + FIRST_PERSON_ID),
            texts.picked(texts.names(), draws, BLOCK_ROWS),
            texts.emails(draws, BLOCK_ROWS),
            texts.credit_cards(draws, BLOCK_ROWS),
            texts.CITIES.take(pa.array(place)),
            texts.picked(texts.STATES, draws, BLOCK_ROWS),
            times(self.start_ms, self._time_ms(event)),
        ]

    def _auctions(self, event: Ints, draws: np.random.Generator) -> list[pa.Array]:
        time_ms = self._time_ms(event)
        hot = last_person(event) // BATCH * BATCH
        is_hot = draws.integers(0, self.hot_sellers, BLOCK_ROWS) > 0
        seller = np.where(is_hot, hot, self._person(event, draws))
        least = prices(draws)
        ahead = self._time_ms(event + self.in_flight * TOTAL // AUCTIONS) - time_ms
        expires = time_ms + 1 + below(draws, np.maximum(2 * ahead, 1))
        return [
            pa.array(last_auction(event) + FIRST_AUCTION_ID),
            texts.picked(texts.items(), draws, BLOCK_ROWS),
            texts.picked(texts.descriptions(), draws, BLOCK_ROWS),
            pa.array(least),
            pa.array(least + prices(draws)),
            times(self.start_ms, time_ms),
            times(self.start_ms, expires),
            pa.array(seller + FIRST_PERSON_ID),
            pa.array(FIRST_CATEGORY_ID + draws.integers(0, CATEGORIES, BLOCK_ROWS)),
        ]

    def _bids(self, event: Ints, draws: np.random.Generator) -> list[pa.Array]:
        last = last_auction(event)
        is_hot = draws.integers(0, self.hot_auctions, BLOCK_ROWS) > 0
        oldest = np.maximum(last - self.in_flight, 0)
        auction = oldest + below(draws, last - oldest + 1 + LEAD)
        auction = np.where(is_hot, last // BATCH * BATCH, auction)
        hot = last_person(event) // BATCH * BATCH + 1
        is_hot = draws.integers(0, self.hot_bidders, BLOCK_ROWS) > 0
        bidder = np.where(is_hot, hot, self._person(event, draws))
        channel = pa.array(texts.channel_numbers(draws, BLOCK_ROWS))
        return [
            pa.array(auction + FIRST_AUCTION_ID),
            pa.array(bidder + FIRST_PERSON_ID),
            pa.array(prices(draws)),
            texts.channels().take(channel),
            texts.urls().take(channel),
            times(self.start_ms, self._time_ms(event)),
        ]

    def _person(self, event: Ints, draws: np.random.Generator) -> Ints:
        """One of the persons who are active at this event, or of the next few."""
        count = last_person(event) + 1
        active = np.minimum(count, self.active)
        return count - active + below(draws, active + LEAD)


SCHEMAS: dict[str, pa.Schema] = {
    "person": pa.schema(
        [
            ("id", pa.int64()),
            ("name", pa.string()),
            ("emailAddress", pa.string()),
            ("creditCard", pa.string()),
            ("city", pa.string()),
            ("state", pa.string()),
            ("dateTime", TIMESTAMP),
        ]
    ),
    "auction": pa.schema(
        [
            ("id", pa.int64()),
            ("itemName", pa.string()),
            ("description", pa.string()),
            ("initialBid", pa.int64()),
            ("reserve", pa.int64()),
            ("dateTime", TIMESTAMP),
            ("expires", TIMESTAMP),
            ("seller", pa.int64()),
            ("category", pa.int64()),
        ]
    ),
    "bid": pa.schema(
        [
            ("auction", pa.int64()),
            ("bidder", pa.int64()),
            ("price", pa.int64()),
            ("channel", pa.string()),
            ("url", pa.string()),
            ("dateTime", TIMESTAMP),
        ]
    ),
}


def last_person(event: Ints) -> Ints:
    """The number, from 0, of the last person as of this event, which may be that person's own."""
    return event // TOTAL * PERSONS + np.minimum(event % TOTAL, PERSONS - 1)


def last_auction(event: Ints) -> Ints:
    """The number, from 0, of the last auction as of this event; before the first it is -1."""
    place = np.minimum(event % TOTAL - PERSONS, AUCTIONS - 1)
    return event // TOTAL * AUCTIONS + np.maximum(place, -1)


def prices(draws: np.random.Generator) -> Ints:
    """A block of prices, in cents."""
    price: Ints = np.rint(10.0 ** (draws.random(BLOCK_ROWS) * 6.0) * 100.0).astype(np.int64)
    return price
