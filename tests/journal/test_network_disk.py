"""Journals on a disk that machines reach over a network: what a client remembers, and loses."""

from __future__ import annotations

import errno
import random
from collections.abc import Iterator

import pytest

from gapless.chaos.sim.disk import SimulatedDisk
from gapless.chaos.sim.network_disk import Client, ClientView, Reach
from gapless.journal.commit import FOLDER
from gapless.journal.epoch import claim, is_fenced
from gapless.journal.reader import Reader
from gapless.journal.verify import Verifier
from gapless.journal.writer import Writer
from gapless.protocol.errors import Fenced, JournalError
from tests.journal.journals import Row, batch, drain, read_all, writer

MINUTE = Reach(stale_ms=60_000, lost_share=0.0)
FOLDER_OF_IT = "journal"


def machine(disk: SimulatedDisk, reach: Reach = MINUTE, seed: int = 0) -> Client:
    return Client(disk, reach, random.Random(seed), lambda: 0)


def row(n: int) -> list[Row]:
    return [(100 + n, "a", n)]


def numbers(disk: SimulatedDisk) -> list[int]:
    return [r[2] for r in read_all(machine(disk).view(FOLDER_OF_IT))]


def test_a_writer_that_remembers_no_later_marker_is_fenced_all_the_same() -> None:
    disk = SimulatedDisk()
    there = machine(disk)
    first = writer(there.view(FOLDER_OF_IT), "w1")
    first.append(batch(row(1)))  # from now on its machine believes that nobody follows
    second = writer(machine(disk).view(FOLDER_OF_IT), "w2")
    with pytest.raises(Fenced, match="has taken the journal over"):
        first.append(batch(row(2)))
    assert there.stale_answers
    second.append(batch(row(3)))
    assert numbers(disk) == [1, 3]


def test_who_claims_an_epoch_fences_those_whose_claimants_died_before_they_had(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def dies(*_: object) -> None:
        raise InterruptedError

    disk = SimulatedDisk()
    first = writer(machine(disk).view(FOLDER_OF_IT), "w1")
    first.append(batch(row(1)))
    view = machine(disk).view(FOLDER_OF_IT)
    with monkeypatch.context() as patched:
        patched.setattr("gapless.journal.epoch._fence", dies)
        with pytest.raises(InterruptedError):
            claim(view, 1, "writer w2", "w2")
    first.append(batch(row(2)))  # nobody has begun after it: what it writes counts
    assert claim(machine(disk).view(FOLDER_OF_IT), 1, "writer w3", "w3") == 3
    with pytest.raises(Fenced):
        first.append(batch(row(3)))
    assert is_fenced(view, 1)
    assert is_fenced(view, 2)
    assert not is_fenced(view, 3)


def test_a_marked_marker_says_who_it_was_and_nothing_is_wrong_with_it() -> None:
    disk = SimulatedDisk()
    view = machine(disk).view(FOLDER_OF_IT)
    for n in (1, 2, 3):
        with_one = writer(view, f"w{n}")
        with_one.append(batch(row(n)))
        with_one.close()
    assert [finding.what for finding in Verifier(view).findings()] == []


@pytest.mark.parametrize("lost_share", [0.3, 1.0])
def test_what_was_committed_with_a_lost_answer_is_committed_once(lost_share: float) -> None:
    disk = SimulatedDisk()
    there = machine(disk, Reach(0, lost_share))
    out = writer(there.view(FOLDER_OF_IT), segment_bytes=1)
    for n in range(20):
        out.append(batch(row(n)))
    out.close()
    assert there.lost_answers
    assert numbers(disk) == [*range(20)]


class _Broken(ClientView):
    """A mount that gives up (soft): the name is made, and the answer is an error."""

    def link(self, source: str, name: str) -> None:
        super().link(source, name)
        if name.startswith(FOLDER) and name.endswith("3"):
            raise OSError(errno.EIO, "Input/output error", name)


def test_a_writer_that_does_not_know_whether_it_has_committed_writes_no_more() -> None:
    disk = SimulatedDisk()
    out = writer(_Broken(machine(disk), FOLDER_OF_IT), segment_bytes=1)
    out.append(batch(row(1)))
    with pytest.raises(JournalError, match="whether commits/0000000003 is made nobody knows"):
        out.append(batch(row(2)))
    again = writer(machine(disk).view(FOLDER_OF_IT), "w2")
    assert again.batches == 2
    assert numbers(disk) == [1, 2]


def test_a_reader_that_remembers_no_next_commit_finds_it_and_no_damage() -> None:
    disk = SimulatedDisk()
    out = writer(machine(disk).view(FOLDER_OF_IT), segment_bytes=1)
    out.append(batch(row(0)))
    there = machine(disk)
    reader = Reader(there.view(FOLDER_OF_IT))
    got = drain(reader)
    for n in range(1, 6):
        out.append(batch(row(n)))
        got += drain(reader)
    assert [r[2] for r in got] == [*range(6)]
    assert there.stale_answers


def _writers(disk: SimulatedDisk, rng: random.Random) -> Iterator[Writer]:
    """One after another, each on a machine of its own; the one before is not told."""
    made = 0
    while True:
        made += 1
        reach = Reach(rng.choice((0, 60_000)), rng.choice((0.0, 0.5)))
        there = machine(disk, reach, made)
        yield writer(there.view(FOLDER_OF_IT), f"w{made}", segment_bytes=rng.choice((1, 2_000)))


def test_that_test_sees_a_writer_that_trusts_absence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gapless.journal.epoch.is_marked", lambda *_: False)
    found = 0
    for seed in range(25):
        try:
            test_what_any_writer_was_told_is_written_is_there_once_and_in_order(seed)
        except (AssertionError, JournalError):
            found += 1
    assert found


@pytest.mark.parametrize("seed", range(25))
def test_what_any_writer_was_told_is_written_is_there_once_and_in_order(seed: int) -> None:
    rng, disk = random.Random(seed), SimulatedDisk()
    makers = _writers(disk, rng)
    alive = [next(makers)]
    said: list[int] = []
    for n in range(40):
        if rng.random() < 0.15:
            alive.append(next(makers))
        out = rng.choice(alive)
        try:
            out.append(batch(row(n)))
            said.append(n)
        except Fenced:
            alive.remove(out)
            if not alive:
                alive.append(next(makers))
    assert numbers(disk) == said
