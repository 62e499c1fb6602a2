"""Tables scanned slice by slice, and what ends last, against the table recomputed."""

from __future__ import annotations

import random
from functools import partial

import pytest

from gapless.chaos.sim.disk import SimulatedDisk
from gapless.failover.merger import scan as scanning
from gapless.failover.merger.scan import BeyondEnd, Scan, end_of, last_events
from gapless.journal.disk import Disk
from gapless.journal.reader import Reader
from gapless.protocol.elements import BEGIN, INF
from gapless.protocol.frame import Frame
from gapless.protocol.tdb import Tdb
from gapless.protocol.text import DEFAULT_SCHEMA
from gapless.protocol.variants import random_tdb, random_telling, tell
from tests.failover.outputs import PAYLOADS, events, journal, say

SEEDS = 20


def put_out(seed: int) -> tuple[Disk, Tdb, random.Random]:
    """Part of a table or all of it, with bases here and there."""
    rng = random.Random(f"scans {seed}")
    table = random_tdb(rng, DEFAULT_SCHEMA, PAYLOADS, 40, duplicates=True)
    frames = tell(table, random_telling(rng), seed)
    frames = frames[: rng.randint(1, len(frames))] if rng.random() < 0.5 else frames
    disk, so_far = SimulatedDisk(), Tdb(DEFAULT_SCHEMA)
    out = journal(disk)
    for frame in frames:
        out.append(frame)
        out.sync()
        so_far.fold(frame)
        if rng.random() < 0.2 and so_far.stable > BEGIN:
            live = so_far.since(so_far.stable).to_frame()
            out.seal(live.with_stable(so_far.stable))
    return disk, so_far, rng


@pytest.fixture
def small_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scanning, "SLICE_FRAMES", 1)
    monkeypatch.setattr(scanning, "Reader", partial(Reader, frame_rows=3))


@pytest.mark.usefixtures("small_slices")
def test_a_table_that_is_scanned_in_slices_is_the_one_recomputed() -> None:
    slices = 0
    for seed in range(SEEDS):
        disk, so_far, rng = put_out(seed)
        stable = so_far.stable
        for since in (None, stable, BEGIN, rng.randint(0, 60)):
            at = stable if since is None else since
            scan = Scan(disk, DEFAULT_SCHEMA, since)
            if at > stable:
                with pytest.raises(BeyondEnd):
                    scan.run()
                continue
            while (found := scan.step()) is None:
                slices += 1
            rows, offset = found
            assert rows.insert_only
            assert events(rows).counts() == so_far.since(at).counts()
            assert (rows.stable or BEGIN, offset) == (stable, end_of(disk)[0])
    assert slices > SEEDS


def test_the_end_of_an_output_is_known_without_reading_it_all() -> None:
    for seed in range(SEEDS):
        disk, so_far, _ = put_out(seed)
        rows = 0
        reader = Reader(disk, start={0: 0})
        while (frame := reader.read()) is not None:
            rows += len(frame)
        assert end_of(disk) == (rows, so_far.stable)


@pytest.mark.usefixtures("small_slices")
def test_what_ends_last_is_what_the_whole_output_says_wherever_its_bases_are() -> None:
    ended = 0
    for seed in range(2 * SEEDS):
        disk, so_far, _ = put_out(seed)
        counts = so_far.counts()
        last = max((e.ve for e in counts), default=BEGIN)
        wanted = {e: n for e, n in counts.items() if e.ve == last}
        found = last_events(disk, DEFAULT_SCHEMA)
        assert events(found).counts() == wanted
        ended += so_far.stable == INF
    assert ended > SEEDS // 2


class Counted(Reader):
    """Counts the rows that are read."""

    rows = 0

    def read(self) -> Frame | None:
        frame = super().read()
        Counted.rows += 0 if frame is None else len(frame)
        return frame


def test_a_scan_reads_what_lies_behind_the_base_that_is_early_enough(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(scanning, "Reader", Counted)
    disk = SimulatedDisk()
    out = journal(disk)
    for t in range(1, 101):
        said = f"ins(A,{t},{t + 2}) stable({t})"
        say(out, said)
        if t in (70, 90):
            out.seal(Frame.from_elements(DEFAULT_SCHEMA, []).with_stable(t))
    cost = {}
    for since in (95, 90, 80, 70, 60, 5):
        Counted.rows = 0
        Scan(disk, DEFAULT_SCHEMA, since).run()
        cost[since] = Counted.rows
    assert cost == {95: 10, 90: 10, 80: 30, 70: 30, 60: 100, 5: 100}
