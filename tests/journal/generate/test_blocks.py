"""What holds for every generator: seed and options alone decide the rows; memory is flat."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from gapless.journal.generate import Dhcp, Events, Netflow, Nexmark, Quotes
from gapless.journal.generate.blocks import BLOCK_ROWS, EVENTS_MAX, Zipf
from gapless.protocol.errors import Misuse
from tests.journal.generate.checks import table

GENERATORS: dict[str, Callable[..., Events]] = {
    "netflow": Netflow,
    "block disorder": lambda **o: Netflow(disorder="block", links=3, skew_ms=9, lull_ms=70, **o),
    "persons": lambda **o: Nexmark(kind="person", **o),
    "auctions": lambda **o: Nexmark(kind="auction", **o),
    "bids": lambda **o: Nexmark(kind="bid", **o),
    "dhcp": Dhcp,
    "quotes": Quotes,
}
SIZE = 100_000  # more than one block, and no multiple of it

each = pytest.mark.parametrize("make", GENERATORS.values(), ids=GENERATORS.keys())


@each
def test_the_same_seed_gives_the_same_rows_each_time(make: Callable[..., Events]) -> None:
    events = make(seed=5, events=SIZE)
    assert table(events).equals(table(events))
    assert table(events).equals(table(make(seed=5, events=SIZE)))


@each
def test_another_seed_gives_other_rows(make: Callable[..., Events]) -> None:
    assert not table(make(seed=5, events=SIZE)).equals(table(make(seed=6, events=SIZE)))


@each
def test_a_shorter_stream_is_how_a_longer_one_begins(make: Callable[..., Events]) -> None:
    whole = table(make(events=3 * SIZE))
    for events in (1, 50, BLOCK_ROWS, SIZE):
        part = make(events=events)
        rows = table(part)
        assert len(rows) == part.rows
        assert rows.equals(whole.slice(0, part.rows))


@each
def test_two_readers_at_a_time_do_not_disturb_each_other(make: Callable[..., Events]) -> None:
    events = make(events=2 * SIZE)
    first, second = iter(events), iter(events)
    turns = [(next(first), None), *zip(first, second, strict=False)]
    firsts, seconds = [a for a, _ in turns], [b for _, b in turns if b is not None]
    for batches in (firsts, [*seconds, *second]):
        assert pa.Table.from_batches(batches).equals(table(events))


@each
def test_every_batch_has_the_schema_and_no_nulls(make: Callable[..., Events]) -> None:
    events = make(events=SIZE)
    assert pa.types.is_timestamp(events.schema.field(events.time_column).type)
    for batch in events:
        batch.validate(full=True)
        assert batch.schema.equals(events.schema)
        assert sum(column.null_count for column in batch.columns) == 0


@each
def test_the_start_moves_all_times_and_nothing_else(make: Callable[..., Events]) -> None:
    here, later = make(events=500), make(events=500, start_ms=1_000_000)
    shift = here.start_ms - 1_000_000
    for field, a, b in zip(here.schema, table(here), table(later), strict=True):
        if pa.types.is_timestamp(field.type):
            moved = pa.array(np.array(b.cast(pa.int64())) + shift)
            assert a.cast(pa.int64()).combine_chunks().equals(moved)
        else:
            assert a.equals(b)


def peak_bytes(events: Events) -> int:
    """The most that Arrow and numpy held at once while the stream was read."""
    for _ in replace(events, events=1):
        pass  # tables of texts are made
    arrow_before, arrow = pa.total_allocated_bytes(), 0
    tracemalloc.start()
    for _ in events:
        arrow = max(arrow, pa.total_allocated_bytes() - arrow_before)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return arrow + peak


class Hoarder(Netflow):
    """Keeps what it has made."""

    def __iter__(self) -> Any:
        self.__dict__["kept"] = list(super().__iter__())
        return iter(self.__dict__["kept"])


SOME, MANY = 8 * BLOCK_ROWS, 32 * BLOCK_ROWS
PER_EVENT = {"persons": 50, "auctions": 16}  # events for a row


@pytest.mark.parametrize("name", GENERATORS)
def test_memory_does_not_grow_with_the_number_of_events(name: str) -> None:
    make, factor = GENERATORS[name], PER_EVENT.get(name, 1)
    less, more = (peak_bytes(make(events=factor * n)) for n in (SOME, MANY))
    assert more < 1.25 * less + 100_000


def test_a_generator_that_keeps_its_rows_is_seen_to_grow() -> None:
    less, more = (peak_bytes(Hoarder(events=n)) for n in (SOME, MANY))
    assert more > 2 * less


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"events": 0}, "events 0: it is from 1 to 1000000000000"),
        ({"events": EVENTS_MAX + 1}, "from 1 to"),
        ({"events": 1, "seed": -1}, "seed -1: it is from 0"),
        ({"events": 1, "rate": 0}, "rate 0: it is from 1 to 1000000000 events a second"),
        ({"events": 1, "start_ms": 2**60}, "start"),
        ({"events": EVENTS_MAX, "rate": 1}, "years after 9999-01-01"),
    ],
)
def test_what_is_out_of_range_is_refused_with_its_range(
    options: dict[str, int], words: str
) -> None:
    for make in (Netflow, Nexmark, Quotes):
        with pytest.raises(Misuse, match=words):
            make(**options)  # type: ignore[arg-type]  # each is refused whatever its type


def test_zipf_draws_ranks_by_their_weights() -> None:
    weights = np.arange(1, 101) ** -1.1
    expected = 200_000 * weights / weights.sum()
    drawn = np.bincount(Zipf(100, 1.1).draw(np.random.default_rng(1), 200_000), minlength=100)
    assert len(drawn) == 100
    assert chi_square(drawn, expected) < 160  # 99 degrees of freedom: one seed in 10,000 is above
    uniform = np.bincount(Zipf(100, 1.0).draw(np.random.default_rng(1), 200_000), minlength=100)
    assert chi_square(uniform, expected) > 1_000, "another exponent is told apart"


def chi_square(counts: Any, expected: Any) -> float:
    return float(((counts - expected) ** 2 / expected).sum())
