"""A reader that begins late in a segment misses nothing, and skips what is before it."""

from __future__ import annotations

import random
from itertools import chain
from typing import Any

import pytest

from gapless.journal import cursor, segment
from gapless.journal.cursor import Growing, Needs
from gapless.journal.reader import Reader
from gapless.protocol.elements import BEGIN, INF
from gapless.protocol.errors import JournalError
from gapless.protocol.frame import Frame
from tests.effort import cases
from tests.journal.journals import (
    batch,
    by_partition,
    drain,
    layout,
    memory,
    random_batches,
    read_all,
    rows_of,
    writer,
)

SEEDS = range(cases(40))


class Reads:
    """Counts records that are decoded, once `count` is in the place of `cursor.read`."""

    def __init__(self) -> None:
        self.so_far = 0

    def count(self, *args: Any) -> Frame:
        """One more."""
        self.so_far += 1
        return segment.read(*args)

    def taken(self) -> int:
        """How many since this was asked last."""
        taken, self.so_far = self.so_far, 0
        return taken


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> Reads:
    counting = Reads()
    monkeypatch.setattr(cursor, "read", counting.count)
    return counting


def check_a_late_begin_misses_nothing(seed: int, reads: Reads) -> tuple[int, int]:
    """From a time or a position in a segment that is live, or has been sealed; how many records
    were read and how many there are.
    """
    reads.taken()
    rng = random.Random(seed)
    shape = layout(partitions=rng.choice((1, 3)), lateness=rng.choice((0, 5)))
    disk, batches = memory(), random_batches(rng, 60)
    out = writer(disk, shape=shape, segment_bytes=rng.choice((20_000, 1 << 20)))
    for rows in batches:
        out.append(batch(rows))
        if rng.random() < 0.02:
            out.seal()
    if rng.random() < 0.3:
        out.close()
    everything, records = read_all(disk), reads.taken()
    t = rng.choice([r[0] for r in everything if r[0] is not None])
    if rng.random() < 0.5:
        reader = Reader(disk, since=t, frame_rows=rng.choice((1, 7, 100)))
    else:
        before = Reader(disk, frame_rows=rng.choice((1, 7, 100)))
        frames = [frame for _ in range(rng.randrange(30)) if (frame := before.read())]
        given = set(chain(*map(rows_of, frames)))
        everything = [row for row in everything if row not in given]
        reads.taken()
        t = BEGIN
        reader = Reader(disk, start=before.position, frame_rows=rng.choice((1, 7, 100)))
    got, decoded = drain(reader), reads.taken()
    wanted = [r for r in everything if r[0] is not None and r[0] >= t]
    assert by_partition([r for r in got if r[0] is not None and r[0] >= t], 3) == by_partition(
        wanted, 3
    )
    assert reader.stable == out.stable
    assert reader.position == {
        p: int(n) for p, n in Reader(disk, start="end").position.items() if p in reader.position
    }
    return decoded, records


def test_a_late_begin_misses_nothing_and_passes_over_what_is_before_it(reads: Reads) -> None:
    done, all_of_them = 0, 0
    for seed in SEEDS:
        few, records = check_a_late_begin_misses_nothing(seed, reads)
        assert few <= records
        done, all_of_them = done + few, all_of_them + records
    assert done < 0.7 * all_of_them


@pytest.mark.parametrize("broken", ["no row is late", "promises are forgotten", "one row too far"])
def test_a_begin_that_passes_over_too_much_is_caught(
    broken: str, reads: Reads, monkeypatch: pytest.MonkeyPatch
) -> None:
    needless, passed = Growing._found_needless, Growing._pass

    def needless_of_one_more(growing: Growing) -> bytearray:
        needs = growing._needs
        if needs is None:
            return needless(growing)
        late = growing._layout.lateness + 1 if broken == "no row is late" else 0
        more = 1 if broken == "one row too far" else 0
        growing._needs = Needs(needs.offsets + more, min(needs.since, INF - late) + late)
        found = needless(growing)
        growing._needs = needs
        return found

    def forgetful(growing: Growing, record: Any) -> None:
        passed(growing, record)
        if broken == "promises are forgotten":
            growing._promised = BEGIN

    monkeypatch.setattr(cursor.Cursor, "_found_needless", needless_of_one_more)
    monkeypatch.setattr(cursor.Cursor, "_pass", forgetful)
    assert any(fails(seed, reads) for seed in SEEDS)


def fails(seed: int, reads: Reads) -> bool:
    try:
        check_a_late_begin_misses_nothing(seed, reads)
    except (AssertionError, JournalError):
        return True
    return False
