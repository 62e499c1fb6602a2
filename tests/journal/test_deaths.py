"""The writer dies at each step of all that it does; the next one goes on, and nothing is wrong.

The producer cuts its rows into the same batches each time, and resumes with batch `batches` after a
death: so each row is in the journal exactly once, whatever step the death was in.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from itertools import chain, count
from typing import Any

import pytest

from gapless.journal import rejects, takeover
from gapless.journal.commit import Commits
from gapless.journal.layout import Layout
from gapless.journal.reader import Reader
from gapless.journal.segment import Index
from gapless.journal.tally import recount
from gapless.journal.writer import Writer
from gapless.protocol.errors import GaplessError
from tests.journal.dying import Died, DyingDisk
from tests.journal.journals import (
    Row,
    batch,
    by_partition,
    drain,
    expected,
    layout,
    random_batches,
    read_all,
    writer,
)

BATCHES = random_batches(random.Random(2), 14)
SAID = expected(BATCHES)
WHOLE = by_partition(list(chain(*SAID.kept)), 3)


def produce(disk: DyingDisk, told: list[int], **options: Any) -> Writer:
    """Opens, appends what is not in yet, seals now and then, closes; notes what it was told."""
    out = writer(disk, f"w{disk.changes}", segment_bytes=2_500, **options)
    for i in range(out.batches, len(BATCHES)):
        told.append(out.append(batch(BATCHES[i])).batch)
        if i % 5 == 4:
            out.seal()
    out.close()
    return out


def rejected_in(disk: DyingDisk) -> list[bytes]:
    names = disk.list("rejects")
    return [
        line for name in names for line in disk.read(f"rejects/{name}", 0, 1 << 20).splitlines()
    ]


def check_one_death(at: int, *, halfway: bool, machine: bool, seed: int = 0) -> bool:
    """Whether the death came at all: after the last step it does not."""
    disk = DyingDisk(at, halfway=halfway)
    told: list[int] = []
    seen: list[Row] = []
    durability = "machine" if machine else "process"
    try:
        produce(disk, told, durability=durability)
        died = False
    except Died:
        died = True
        if disk.exists("layout"):
            seen = drain(Reader(disk))
    disk.revived()
    if machine:
        disk.crash_machine(random.Random(seed + at))
    before = len(told)
    again = produce(disk, told, durability=durability)
    assert told[:before] == list(range(before))  # what it was told is in, and what comes goes on
    assert told[before:] == list(range(told[before], len(BATCHES))) if told[before:] else True
    assert not told[before:] or told[before] in (before, before + 1)
    found = by_partition(read_all(disk), 3)
    assert found == WHOLE
    for p, rows in by_partition(seen, 3).items():
        assert found[p][: len(rows)] == rows  # what a reader had seen is still there
    assert again.stable == SAID.stables[-1]
    assert len(rejected_in(disk)) == again.rejected == len(list(chain(*SAID.late)))
    writer(disk, "last").close()
    facts = Commits(disk, layout()).facts
    named = set(facts.column("segment").to_pylist())
    assert {f"segments/{name}" for name in disk.list("segments")} <= named
    return died


def deaths(check: Callable[..., bool], **options: Any) -> int:
    """Dies at every step there is; how many there were."""
    for at in count(1):
        if not check(at, **options):
            return at - 1
    raise AssertionError


@pytest.mark.parametrize("halfway", [False, True], ids=["before", "halfway"])
@pytest.mark.parametrize("machine", [False, True], ids=["process", "machine"])
def test_every_row_is_there_once_whatever_step_the_writer_dies_at(
    halfway: bool, machine: bool
) -> None:
    assert deaths(check_one_death, halfway=halfway, machine=machine) > 60


@pytest.mark.parametrize("seed", [1, 5, 10])
def test_no_crash_leaves_a_batch_without_the_lines_of_its_rejected_rows(seed: int) -> None:
    for at in range(60, 85):
        check_one_death(at, halfway=False, machine=True, seed=seed)


def test_a_takeover_that_does_not_cut_torn_batches_is_caught(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def uncut(index: Index, data: memoryview, shape: Layout) -> Any:
        tally, damage = recount(index, data, shape)
        tally.bytes = len(data)
        return tally, damage

    monkeypatch.setattr(takeover, "recount", uncut)
    with pytest.raises((AssertionError, GaplessError)):
        deaths(check_one_death, halfway=True, machine=False)


def test_a_takeover_that_keeps_lines_of_lost_batches_is_caught(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(
        rejects, "cut", lambda disk, name, _: disk.read(name, 0, 1 << 20).count(b"\n")
    )
    with pytest.raises(AssertionError):
        deaths(check_one_death, halfway=False, machine=False)


def test_a_writer_that_lets_readers_see_before_it_syncs_is_caught(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sync = Writer.sync

    def seen_first(self: Writer) -> None:
        self._show()
        self._unshown = True
        sync(self)

    monkeypatch.setattr(Writer, "sync", seen_first)
    with pytest.raises((AssertionError, GaplessError)):
        _many_deaths()


def _many_deaths() -> None:
    for seed in range(20):
        deaths(check_one_death, halfway=False, machine=True, seed=seed)


def test_a_second_death_while_taking_over_changes_nothing() -> None:
    steps = deaths(check_one_death, halfway=False, machine=False)
    for first in range(3, steps, 7):
        for second in range(1, 14):
            disk = DyingDisk(first)
            told: list[int] = []
            with pytest.raises(Died):
                produce(disk, told)
            disk.at = disk.changes + second
            try:
                produce(disk, told)
            except Died:
                disk.revived()
                produce(disk, told)
            assert by_partition(read_all(disk), 3) == WHOLE
