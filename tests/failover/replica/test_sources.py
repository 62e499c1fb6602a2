"""The sources of a replica over journals that are trimmed: all rows that count, or a refusal."""

from __future__ import annotations

import random
from collections import Counter

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gapless.chaos.sim.disk import SimulatedDisk
from gapless.failover.replica import sources as module
from gapless.failover.replica.effects import Position
from gapless.failover.replica.sources import Sources, trimmed_to
from gapless.journal.commit import Commits
from gapless.journal.disk import Disk
from gapless.journal.layout import Layout, opened
from gapless.journal.retention import Retention, trim
from gapless.journal.writer import Writer
from gapless.protocol.elements import BEGIN, INF
from gapless.protocol.errors import Trimmed
from gapless.protocol.schema import StreamSchema

SCHEMA = StreamSchema({"ts": "int64", "src": "int32"})
LATENESS = 7
PARTITIONS = 3
LAYOUT = Layout(SCHEMA, "ts", ("src",), PARTITIONS, LATENESS)


class Journal:
    """A journal with a segment a few batches, and what it took."""

    def __init__(self, seed: int = 0, batches: int = 30) -> None:
        self.rng = random.Random(seed)
        self.disk = SimulatedDisk()
        size = self.rng.choice((1, 1500, 4000))
        self.writer = Writer(
            self.disk,
            LAYOUT,
            who="test",
            token="w",
            now_ms=lambda: 0,
            segment_bytes=size,
        )
        self.times: Counter[int] = Counter()
        self.now = 100
        for _ in range(batches):
            self.append()

    def append(self) -> None:
        promised = max(self.writer.stable, 0)
        times = [max(promised, self.now - self.rng.randint(0, LATENESS)) for _ in range(4)]
        values = [self.rng.randint(0, 9) for _ in times]
        columns = [pa.array(times, pa.int64()), pa.array(values, pa.int32())]
        written = self.writer.append(pa.RecordBatch.from_arrays(columns, schema=SCHEMA.payload))
        assert not written.rejected
        self.times.update(times)
        self.now += self.rng.randint(1, 6)

    def trim(self, before: int | None = None, keep_bytes: int | None = None) -> None:
        trim(
            Commits(self.disk, LAYOUT),
            Retention(before=before, keep_bytes=keep_bytes),
            token="trim",
            now_ms=0,
        )

    @property
    def first(self) -> Position:
        return dict(enumerate(Commits(self.disk, LAYOUT).head.first))


def replayed(disk: Disk, since: int, began: Position | None = None) -> Counter[int]:
    """The times of all rows that a replay from `since` reads."""
    sources = Sources({"flows": disk}, {"flows": SCHEMA}, began={"flows": began or {}})
    sources.open(None, {"flows": since})
    read: Counter[int] = Counter()
    while (frame := sources.read("flows")[0]) is not None:
        read.update(frame.vs.tolist())
    return read


def needed(journal: Journal, since: int) -> Counter[int]:
    return Counter({t: n for t, n in journal.times.items() if t >= since})


def is_whole(journal: Journal, since: int) -> bool:
    """Whether a replay is right, or is refused."""
    try:
        read = replayed(journal.disk, since)
    except Trimmed:
        return True
    return all(read[t] == n for t, n in needed(journal, since).items())


def trimmed_somehow(seed: int) -> tuple[Journal, int]:
    journal = Journal(seed, 15)
    rng = random.Random(seed)
    if rng.random() < 0.5:
        journal.trim(before=rng.randint(100, journal.now))
    else:
        journal.trim(keep_bytes=rng.choice((0, 2000, 6000)))
    if rng.random() < 0.3:
        journal.append()
    return journal, rng.choice((BEGIN, rng.randint(90, journal.now + 10)))


@given(st.integers(0, 1 << 32))
def test_oracle_a_replay_reads_every_row_that_it_needs_or_is_refused(seed: int) -> None:
    journal, since = trimmed_somehow(seed)
    assert is_whole(journal, since)


@pytest.mark.parametrize("careless", ["nothing is checked", "no row is late"])
def test_a_check_that_is_careless_answers_from_what_is_left(
    careless: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if careless == "nothing is checked":
        monkeypatch.setattr(module, "trimmed_to", lambda *_: BEGIN)
    else:
        monkeypatch.setattr(module, "_later", lambda t, by: t)
    assert not all(is_whole(*trimmed_somehow(seed)) for seed in range(300))


def test_what_a_trim_before_a_time_leaves_is_enough_a_segment_later() -> None:
    journal = Journal(1, 60)
    journal.trim(before=180)
    gone = trimmed_to(journal.disk, range(PARTITIONS))
    assert any(journal.first.values())
    assert gone < 200  # the lateness, and what a segment holds
    assert replayed(journal.disk, gone + 1) >= needed(journal, gone + 1)
    with pytest.raises(Trimmed):
        replayed(journal.disk, 170)


def test_a_replay_over_trimmed_rows_says_what_is_missing_and_what_to_do() -> None:
    journal = Journal(2, 60)
    journal.trim(before=200)
    with pytest.raises(Trimmed, match="trimmed since the job began") as caught:
        replayed(journal.disk, BEGIN)
    said = str(caught.value)
    assert "source flows" in said
    assert "a replay needs all rows" in said
    assert "checkpoint" in said
    with pytest.raises(Trimmed, match="the rows from 150 on"):
        replayed(journal.disk, 150)


def test_rows_that_went_before_the_job_began_are_no_part_of_its_answer() -> None:
    journal = Journal(3, 60)
    journal.trim(before=180)
    began = journal.first
    read = replayed(journal.disk, BEGIN, began)
    assert 0 < read.total() < journal.times.total()
    journal.trim(before=260)
    assert journal.first != began
    with pytest.raises(Trimmed, match="since the job began"):
        replayed(journal.disk, BEGIN, began)


def test_partitions_of_other_shards_may_have_been_trimmed() -> None:
    journal = Journal(4, 60)
    journal.trim(before=200)
    gone = [p for p, row in journal.first.items() if row]
    assert gone
    sources = Sources(
        {"flows": journal.disk},
        {"flows": SCHEMA},
        [gone[0]],
        {"flows": {gone[0]: journal.first[gone[0]]}},
    )
    sources.open(None, {})
    assert sources.positions["flows"].keys() == {gone[0]}


def test_of_a_partition_that_lost_all_its_rows_the_promise_says_how_late_they_were() -> None:
    journal = Journal(5)
    journal.writer.seal()
    journal.trim(before=INF)
    assert journal.first == dict(enumerate(Commits(journal.disk, opened(journal.disk)).head.rows))
    gone = trimmed_to(journal.disk, range(PARTITIONS))
    assert max(journal.times) <= gone <= max(journal.times) + LATENESS


def test_nothing_can_be_said_of_a_journal_that_has_ended() -> None:
    journal = Journal(6)
    journal.writer.end()
    journal.trim(before=INF)
    assert trimmed_to(journal.disk, [0]) == INF
