"""What of an output goes, what stays for the other merger, and what who comes too late is told."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gapless.actors import output_retention
from gapless.actors.output_retention import ABSENT_MS, PIECE_BYTES_MIN, OutputRetention
from gapless.chaos.sim.disk import SimulatedDisk
from gapless.failover.job.settings import Settings
from gapless.failover.merger.output_journal import OutputJournal
from gapless.failover.merger.output_reader import OutputReader
from gapless.failover.messages import Token
from gapless.journal.commit import Commits
from gapless.journal.disk import Disk
from gapless.journal.layout import opened
from gapless.journal.retention import Plan
from gapless.journal.segment import SEGMENT_BYTES
from gapless.protocol.elements import BEGIN
from gapless.protocol.errors import Trimmed
from gapless.protocol.tdb import Tdb
from gapless.protocol.text import DEFAULT_SCHEMA
from tests.failover.mergers import frame
from tests.failover.outputs import journal

TABLE_EVERY = 10
"""Frames from one base to the next."""


class Output:
    """An output that is written: event t lives [t, t + 15), and after it comes stable(t)."""

    def __init__(self, slot: str = "m0.0") -> None:
        self.slot = slot
        self.disk = SimulatedDisk()
        self.journal: OutputJournal = journal(self.disk, segment_bytes=1)
        self.journal.recover()
        self.table = Tdb(DEFAULT_SCHEMA)
        self.t = 0

    def say(self, until: int) -> None:
        while self.t < until:
            self.t += 1
            said = frame(f"ins(A,{self.t},{self.t + 15}) stable({self.t})")
            self.table.fold(said)
            self.journal.append(said)
            self.journal.sync()
            if self.t % TABLE_EVERY == 0:
                live = self.table.since(self.t)
                live.stable = self.t
                self.journal.seal(live.to_frame())

    @property
    def first(self) -> int:
        return Commits(self.disk, opened(self.disk)).head.first[0]

    def peer(self, since: int) -> tuple[Tdb, int]:
        """What another merger that is stable up to `since` catches up from."""
        reader = OutputReader(self.disk, DEFAULT_SCHEMA)
        told, join_at = reader.peer(since)
        table = Tdb(DEFAULT_SCHEMA)
        while told is not None:
            table.fold(told)
            told, _ = reader.peer(since)
        return table, join_at


class Trimmer:
    """The retention of one output, and what it says."""

    def __init__(self, output: Output, peer: Disk | None = None, **settings: int) -> None:
        self.now_ms = 0
        self.alarms: list[str] = []
        self.retention = OutputRetention(
            output.disk,
            Settings(**settings),  # type: ignore[arg-type]  # numbers, each of its own field
            {} if peer is None else {"m0.1": peer},
            "trim",
            lambda: self.now_ms,
            self.alarms.append,
        )

    def trim(self) -> Plan | None:
        return self.retention.trim()


def test_output_that_is_older_than_was_wanted_goes_up_to_the_last_base() -> None:
    output = Output()
    output.say(95)
    trimmer = Trimmer(output, retain_ms=30)
    done = trimmer.trim()
    assert done is not None
    assert 60 <= output.first <= 66
    Trimmer(output, retain_ms=1).trim()
    assert output.first == 90  # the base at 90 stands for all before it, and not for later ones


def test_output_beyond_the_bytes_that_were_wanted_goes() -> None:
    output = Output()
    output.say(95)
    whole = sum(output.disk.size(f"segments/{name}") for name in output.disk.list("segments"))
    done = Trimmer(output, retain_bytes=whole // 2).trim()
    assert done is not None
    assert done.kept_bytes <= whole // 2
    assert 0 < output.first < 60


def test_without_a_base_or_without_a_wish_nothing_goes() -> None:
    output = Output()
    output.say(9)
    assert Trimmer(output, retain_ms=1).trim() is None
    output.say(50)
    assert not Trimmer(output).retention.is_wanted
    assert Trimmer(output).trim() is None
    assert output.first == 0


def test_the_life_that_writes_goes_on_and_the_next_recovers_the_same_table() -> None:
    output = Output()
    output.say(95)
    Trimmer(output, retain_ms=5).trim()
    output.say(133)
    Trimmer(output, retain_ms=5).trim()
    assert output.first == 126
    again = journal(output.disk, "t2", segment_bytes=1)
    live, rows = again.recover()
    table = Tdb(DEFAULT_SCHEMA)
    table.fold(live)
    assert rows == 133
    assert table == output.table.since(133)


def behind(stable: int) -> Output:
    """The other merger, that has died there."""
    peer = Output("m0.1")
    peer.say(stable)
    peer.journal.seal(None)
    return peer


@pytest.mark.parametrize("stable", [3, 81, 88, 90, 94])
def test_what_the_other_merger_would_catch_up_from_stays(stable: int) -> None:
    output = Output()
    output.say(95)
    Trimmer(output, behind(stable).disk, retain_ms=1).trim()
    table, join_at = output.peer(stable)
    assert join_at <= stable
    assert table.since(stable) == output.table.since(stable)


def test_without_that_it_could_not_catch_up() -> None:
    output = Output()
    output.say(95)
    Trimmer(output, retain_ms=1).trim()
    with pytest.raises(Trimmed):
        output.peer(88)


def test_a_base_that_only_just_stands_for_what_went_would_not_be_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """How many rows an older base stands for is known by rows before it: all gone, it is lost."""
    monkeypatch.setattr(output_retention, "_row_before", lambda *_: 80)
    output = Output()
    output.say(95)
    Trimmer(output, behind(84).disk, retain_ms=1).trim()
    with pytest.raises(Trimmed):
        output.peer(84)


def test_as_the_other_merger_moves_on_what_was_kept_for_it_goes() -> None:
    output, peer = Output(), behind(3)
    output.say(95)
    trimmer = Trimmer(output, peer.disk, retain_ms=5)
    trimmer.trim()
    assert output.first == 0
    peer.say(95)
    trimmer.trim()
    assert output.first == 88  # the newest commit's stable, which is that of 94, less five and one


def test_a_merger_that_is_away_for_too_long_is_not_waited_for_and_that_is_said() -> None:
    output, peer = Output(), behind(3)
    output.say(95)
    trimmer = Trimmer(output, peer.disk, retain_ms=5)
    for now in (0, ABSENT_MS - 1):
        trimmer.now_ms = now
        trimmer.trim()
        assert output.first == 0
        assert not trimmer.alarms
    for now in (ABSENT_MS, ABSENT_MS + 1):
        trimmer.now_ms = now
        output.say(output.t + 20)
        trimmer.trim()
        assert output.first == output.t - 7
    (alarm,) = trimmer.alarms
    assert "m0.1" in alarm


def test_a_merger_that_was_never_there_is_waited_for_too() -> None:
    output = Output()
    output.say(95)
    Trimmer(output, SimulatedDisk(), retain_ms=5).trim()
    assert output.first == 0
    table, join_at = output.peer(BEGIN)
    assert join_at == BEGIN
    assert table == output.table


def test_a_token_from_before_is_told_that_its_rows_are_gone() -> None:
    output = Output()
    output.say(95)
    reader = OutputReader(output.disk, DEFAULT_SCHEMA)
    Trimmer(output, retain_ms=30).trim()
    with pytest.raises(Trimmed):
        reader.read(Token("m0.0", 1, 5, 5))
    assert reader.read(Token("m0.0", 1, output.first, output.first)) is not None
    table, rows = reader.table(92)  # and a subscriber that begins anew gets the table
    assert (rows, table.stable) == (95, 95)


def test_an_output_that_has_ended_is_kept_by_bytes_alone() -> None:
    output = Output()
    output.say(50)
    output.journal.append(frame("stable(inf)"))
    output.journal.sync()
    output.journal.seal(None)
    assert Trimmer(output, retain_ms=1).trim() is None


def test_a_small_output_has_small_segments_and_one_without_a_bound_has_large_ones() -> None:
    assert output_retention.segment_bytes(Settings()) == SEGMENT_BYTES
    small = Settings(retain_bytes=20 << 20)
    assert output_retention.segment_bytes(small) == 5 << 20
    assert output_retention.base_bytes(small) == 5 << 20
    assert output_retention.base_bytes(replace(small, base_bytes=100)) == 100
    assert output_retention.segment_bytes(Settings(retain_bytes=1)) == PIECE_BYTES_MIN
