"""A live segment whose live end was lost in the same crash: a torn end is cut, damage is not.

The live end, which says how far readers were given rows, is not synced: a crash may take it. Then
only the segment itself tells an append that never came to its end from rows that were safe.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from itertools import pairwise

import pyarrow as pa
import pytest

from gapless.chaos.sim.disk import SimulatedDisk
from gapless.journal import segment, takeover
from gapless.journal.commit import Commits, live_segment
from gapless.journal.layout import Layout, opened
from gapless.journal.segment import records_of
from gapless.protocol.envelope import HEADER_BYTES, Incarnation, peek_header
from gapless.protocol.errors import JournalError
from gapless.protocol.frame import Frame
from tests.journal.journals import SCHEMA, Row, batch, memory, read_all, writer

BATCHES = 5


def of_rows() -> SimulatedDisk:
    """Several partitions: a batch is several records."""
    disk = memory()
    out = writer(disk, segment_bytes=1 << 20)
    for i in range(BATCHES):
        out.append(batch(rows(i)))
    return disk


def rows(i: int) -> list[Row]:
    """Of one batch. The third only promises."""
    return [] if i == 2 else [(100 * i + j, "abcd"[j % 4], 10 * i + j) for j in range(8)]


def of_frames() -> SimulatedDisk:
    """What a merger writes: a batch is one record."""
    disk = memory()
    out = writer(disk, shape=Layout(SCHEMA), segment_bytes=1 << 20)
    for i in range(BATCHES):
        out.append(frame(i))
    return disk


def frame(i: int) -> Frame:
    made = batch(rows(i))
    times = made.column("ts").to_numpy()
    return Frame.from_columns(SCHEMA, times, times + 1, made, stable=100 * i + 9)


@pytest.fixture(params=[of_rows, of_frames])
def whole(request: pytest.FixtureRequest) -> SimulatedDisk:
    made: Callable[[], SimulatedDisk] = request.param
    return made()


def live(disk: SimulatedDisk) -> tuple[str, bytes]:
    name = live_segment(Commits(disk, opened(disk)).head)
    return name, disk.read(name, 0, disk.size(name))


def records(data: bytes) -> list[tuple[int, int]]:
    """From where to where each lies."""
    ends = [0]
    while ends[-1] < len(data):
        ends.append(ends[-1] + peek_header(data, ends[-1]).envelope_bytes)
    return list(pairwise(ends))


def rows_until(data: bytes, size: int) -> list[Row]:
    """Those of the batches that are whole in so many bytes."""
    headers = [(peek_header(data, start), end) for start, end in records(data)]
    batches = sum(not header.place.more and end <= size for header, end in headers)
    return [row for i in range(batches) for row in rows(i)]


def crashed(whole: SimulatedDisk, data: bytes) -> SimulatedDisk:
    """The same journal with other bytes in its live segment, and no live end."""
    disk = SimulatedDisk()
    for folder in ("commits", "epochs", "segments"):
        for name in whole.list(folder):
            each = f"{folder}/{name}"
            disk.append(each, whole.read(each, 0, whole.size(each)))
    disk.append("layout", whole.read("layout", 0, whole.size("layout")))
    name, _ = live(whole)
    disk.truncate(name, 0)
    disk.append(name, data)
    return disk


def taken_over(disk: SimulatedDisk, *, accept_loss: bool = False) -> list[Row]:
    writer(disk, "w9", shape=opened(disk), accept_loss=accept_loss).close()
    return sorted(read_all(disk), key=lambda row: row[2])


def flipped(data: bytes, start: int, end: int) -> Iterator[bytes]:
    """A bit in every word of the header, and some of the body."""
    rng = random.Random(start)
    body = rng.choices(range(start + HEADER_BYTES, end), k=3) if end > start + HEADER_BYTES else []
    for at in (*range(start, start + HEADER_BYTES, 4), *body):
        bad = bytearray(data)
        bad[at] ^= 1 << rng.randrange(8)
        yield bytes(bad)


def check_no_damage_passes_for_a_torn_end(whole: SimulatedDisk) -> None:
    name, data = live(whole)
    for start, end in records(data)[:-1]:
        for bad in flipped(data, start, end):
            with pytest.raises(JournalError, match=rf"{name} at byte {start}: .* verify"):
                taken_over(crashed(whole, bad))
            kept = taken_over(crashed(whole, bad), accept_loss=True)
            assert kept == rows_until(data, start)


def test_no_damage_passes_for_a_torn_end(whole: SimulatedDisk) -> None:
    check_no_damage_passes_for_a_torn_end(whole)


def test_a_takeover_that_does_not_look_behind_the_damage_is_caught(
    whole: SimulatedDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(takeover, "_goes_on", lambda *_: False)
    with pytest.raises(pytest.fail.Exception):
        check_no_damage_passes_for_a_torn_end(whole)


def test_torn_ends_of_all_lengths_are_cut(whole: SimulatedDisk) -> None:
    _, data = live(whole)
    around = (-1, 0, 1, 3, 4, 5, HEADER_BYTES - 1, HEADER_BYTES, HEADER_BYTES + 1)
    borders = {start + by for start, _ in records(data) for by in around}
    for size in sorted({*range(0, len(data), 31), *borders, len(data)} - {-1}):
        assert taken_over(crashed(whole, data[:size])) == rows_until(data, size)


def test_an_end_of_zeros_is_torn_too(whole: SimulatedDisk) -> None:
    """As file systems leave it that know a file's length before its bytes."""
    _, data = live(whole)
    start, end = records(data)[-1]
    for at in range(start, end, 7):
        torn = data[:at] + bytes(end - at)
        assert taken_over(crashed(whole, torn)) == rows_until(data, end if torn == data else start)


def test_without_a_live_end_the_last_record_that_does_not_read_is_a_torn_end(
    whole: SimulatedDisk,
) -> None:
    _, data = live(whole)
    start, end = records(data)[-1]
    for bad in flipped(data, start, end):
        assert taken_over(crashed(whole, bad)) == rows_until(data, start)


def test_records_of_another_writer_behind_the_damage_do_not_count(whole: SimulatedDisk) -> None:
    """What a file system has given of a file that was taken away."""
    _, data = live(whole)
    start, _ = records(data)[-1]
    layout = opened(whole)
    stale = records_of(layout, Incarnation(7, 7), [(0, 0, stale_of(layout))], None)
    torn = data[:start] + bytes(HEADER_BYTES) + b"".join(stale)
    assert taken_over(crashed(whole, torn)) == rows_until(data, start)


def stale_of(layout: Layout) -> Frame | pa.RecordBatch:
    return batch(rows(0)) if layout.has_rows else frame(0)


def test_nothing_is_sought_in_what_is_whole_or_torn(
    whole: SimulatedDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    sought: list[int] = []

    def next_header(data: memoryview, at: int, end: int) -> int:
        sought.append(end - at)
        return segment.next_header(data, at, end)

    monkeypatch.setattr(takeover, "next_header", next_header)
    _, data = live(whole)
    start, end = records(data)[-1]
    for size in (end, end - 1, start + HEADER_BYTES, start + 9, start):
        taken_over(crashed(whole, data[:size]))
    assert set(sought) == {0}
