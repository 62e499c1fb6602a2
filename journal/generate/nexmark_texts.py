"""The texts of Nexmark: what persons, items and channels are called.

The lists of names and places are short, as the benchmark's are, so that queries find something in
few events. All tables are the same for every seed; a seed picks from them.
"""

from __future__ import annotations

from functools import cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gapless.journal.generate.blocks import Ints

STATES = pa.array(["AZ", "CA", "ID", "OR", "WA", "WY"])
CITIES = pa.array(
    [
        *("Phoenix", "Los Angeles", "San Francisco", "Boise", "Portland"),
        *("Bend", "Redmond", "Seattle", "Kent", "Cheyenne"),
    ]
)
FIRST_NAMES = (
    *("Peter", "Paul", "Luke", "John", "Saul", "Vicky"),
    *("Kate", "Julie", "Sarah", "Deiter", "Walter"),
)
LAST_NAMES = (
    *("Shultz", "Abrams", "Spencer", "White", "Bartels"),
    *("Walton", "Smith", "Jones", "Noris"),
)
HOT_CHANNELS = ["Google", "Facebook", "Baidu", "Apple"]
CHANNELS = 10_000
"""Besides the hot ones."""
WITHOUT_ID = 10
"""One of so many channels has no number in its address."""
TABLE_ROWS = 10_000
"""Of words to pick from: those of a block rarely meet."""
TABLE_SEED = 1000
"""Of the tables: any number would do."""


def picked(table: pa.Array, draws: np.random.Generator, rows: int) -> pa.Array:
    """So many texts from a table, all as likely."""
    return table.take(pa.array(draws.integers(0, len(table), rows)))


@cache
def names() -> pa.Array:
    """Each first name with each last name."""
    return pa.array([f"{first} {last}" for first in FIRST_NAMES for last in LAST_NAMES])


def emails(draws: np.random.Generator, rows: int) -> pa.Array:
    """A word of 7 letters at one of 5."""
    user, host = picked(_words(7), draws, rows), picked(_words(5), draws, rows)
    return pc.binary_join_element_wise(user, pc.binary_join_element_wise(host, "com", "."), "@")


def credit_cards(draws: np.random.Generator, rows: int) -> pa.Array:
    """Four groups of four digits."""
    groups = [picked(_four_digits(), draws, rows) for _ in range(4)]
    return pc.binary_join_element_wise(*groups, " ")


@cache
def items() -> pa.Array:
    """Two words each; the standard has one of up to 20 letters."""
    return pc.binary_join_element_wise(_words(7), _words(5), " ")


@cache
def descriptions() -> pa.Array:
    """Four words each; the standard has up to 100 letters."""
    return pc.binary_join_element_wise(_words(5), _words(8), _words(4), _words(9), " ")


def channel_numbers(draws: np.random.Generator, rows: int) -> Ints:
    """Of the hot channels for half of the rows; they are the last in the tables."""
    hot = CHANNELS + draws.integers(0, len(HOT_CHANNELS), rows)
    others = draws.integers(0, CHANNELS, rows)
    return np.where(draws.integers(0, 2, rows) > 0, hot, others)


@cache
def channels() -> pa.Array:
    """What channels are called."""
    return pa.array([*(f"channel-{number}" for number in range(CHANNELS)), *HOT_CHANNELS])


@cache
def urls() -> pa.Array:
    """Where channels are: nine in ten have their number, its bits reversed, at the end."""
    paths = zip(*(_words(5).take(_mixed_up(turn)).to_pylist() for turn in range(3)), strict=True)
    hosts = [f"https://www.nexmark.com/{'/'.join(path)}/item.htm?query=1" for path in paths]
    numbered = [
        f"{host}&channel_id={_reversed(number)}" if number % WITHOUT_ID else host
        for number, host in enumerate(hosts[:CHANNELS])
    ]
    return pa.array([*numbered, *hosts[-len(HOT_CHANNELS) :]])


def _reversed(number: int) -> int:
    """The 32 bits of an int32 in the other order, without its sign, as the standard does."""
    turned = int(f"{number:032b}"[::-1], 2)
    return turned if turned < 1 << 31 else (1 << 32) - turned


@cache
def _words(letters: int) -> pa.Array:
    draws = np.random.default_rng([TABLE_SEED, letters])
    codes = draws.integers(ord("a"), ord("z") + 1, (TABLE_ROWS, letters), dtype=np.uint8)
    return pa.array([row.tobytes().decode("ascii") for row in codes])


@cache
def _four_digits() -> pa.Array:
    return pa.array([f"{number:04d}" for number in range(10_000)])


def _mixed_up(turn: int) -> pa.Array:
    """The places of a table of addresses, as many as there are channels, out of order."""
    draws = np.random.default_rng([TABLE_SEED, 100 + turn])
    return pa.array(draws.integers(0, TABLE_ROWS, CHANNELS + len(HOT_CHANNELS)))
