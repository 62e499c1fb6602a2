"""Quotes: complete sequences, prices that walk, bursts, few symbols that have most."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from gapless.journal.generate import Quotes
from gapless.journal.generate.quotes import SPREAD_MAX_CENTS, STEP_MAX_CENTS, symbol_names
from gapless.protocol.errors import Misuse
from tests.journal.generate.checks import column, table

ROWS = 150_000


def breaches(rows: pa.Table) -> list[str]:
    """Follows each symbol row by row."""
    seqs: dict[str, int] = defaultdict(int)
    bids: dict[str, int] = {}
    found = []
    columns = (rows.column(name).to_pylist() for name in ("symbol", "seq", "bid", "ask"))
    for symbol, seq, bid, ask in zip(*columns, strict=True):
        if seq != seqs[symbol] + 1:
            found.append(f"{symbol}: {seq} after {seqs[symbol]}")
        if abs(bid - bids.get(symbol, bid)) > STEP_MAX_CENTS:
            found.append(f"{symbol}: jumps from {bids[symbol]} to {bid}")
        if not 0 < bid < ask <= bid + SPREAD_MAX_CENTS:
            found.append(f"{symbol}: {bid} {ask}")
        seqs[symbol], bids[symbol] = seq, bid
    return found


@pytest.mark.parametrize("symbols", [1, 7, 5_000])
def test_each_symbols_updates_are_complete_and_its_prices_walk(symbols: int) -> None:
    assert breaches(table(Quotes(events=ROWS, symbols=symbols))) == []


def test_a_lost_update_and_a_jump_are_caught() -> None:
    rows = table(Quotes(events=1_000, symbols=3))
    lost = pa.concat_tables([rows.slice(0, 500), rows.slice(501)])
    assert len([b for b in breaches(lost) if "after" in b]) == 1
    jumped = rows.set_column(
        2, "bid", pa.array(column(rows, "bid") + (np.arange(1_000) == 500) * 9)
    )
    assert breaches(jumped)


def test_a_walk_that_goes_far_turns_back() -> None:
    bid = column(table(Quotes(events=1_000_000, symbols=2, exponent=0)), "bid")
    assert bid.min() >= 500
    assert bid.max() <= 75_000


def test_bursts_have_many_times_the_rate() -> None:
    quotes = Quotes(
        events=300_000, rate=1_000, burst_ms=500, burst_every_ms=10_000, burst_factor=20
    )
    since = column(table(quotes), "ts") - quotes.start_ms
    counts = np.bincount(since // 100)[:-1]
    assert np.median(counts) == 100
    assert counts.max() == 2_000
    rows_in_period = 9_500 + 10_000
    assert abs((counts > 1_000).sum() / len(counts) - 0.05) < 0.005
    assert since[-1] // 10_000 == 300_000 // rows_in_period
    steady = Quotes(events=300_000, rate=1_000, burst_ms=0)
    counts = np.bincount((column(table(steady), "ts") - steady.start_ms) // 100)
    assert set(counts) == {100}, "without bursts all is even"


def test_times_never_fall() -> None:
    assert (np.diff(column(table(Quotes(events=ROWS)), "ts")) >= 0).all()


def test_a_few_symbols_have_most_updates() -> None:
    rows = table(Quotes(events=ROWS, symbols=1_000, exponent=1.1)).column("symbol").to_pandas()
    share = rows.value_counts(normalize=True)
    weights = np.arange(1, 1_001) ** -1.1
    assert share.index[0] == symbol_names(1)[0]
    assert abs(share.iloc[0] - 1 / weights.sum()) < 0.005


def test_names_are_all_different() -> None:
    assert len(set(symbol_names(100_000))) == 100_000


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"symbols": 0}, "symbols 0: it is from 1 to 100000"),
        ({"burst_factor": 0}, "burst factor 0: it is from 1 to 10000"),
        ({"burst_ms": 10_000}, "burst, inside 10000 ms, 10000: it is from 0 to 9999 ms"),
        ({"rate": 10**9}, "rate in a burst 20000000000"),
    ],
)
def test_options_out_of_range_are_refused_with_the_range(
    options: dict[str, Any], words: str
) -> None:
    with pytest.raises(Misuse, match=words):
        Quotes(events=1, **options)
