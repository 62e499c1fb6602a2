"""The folder of flight records keeps so many files and bytes, and the newest."""

from __future__ import annotations

import pytest

from gapless.chaos.sim.disk import SimulatedDisk
from gapless.failover.recorder import folder
from gapless.failover.recorder.folder import FOLDER, RECORDS_MAX, write_record

LIFE = "r0.1/1.4"


def test_of_more_records_than_a_folder_keeps_the_oldest_go() -> None:
    disk = SimulatedDisk()
    names = [write_record(disk, LIFE, b"x", "t", 1000 + i) for i in range(RECORDS_MAX + 5)]
    assert names[0] == "records/0000000001000-r0.1-1.4"
    assert sorted(f"{FOLDER}/{name}" for name in disk.list(FOLDER)) == names[5:]


def test_of_larger_records_fewer_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folder, "FOLDER_BYTES_MAX", 100)
    disk = SimulatedDisk()
    names = [write_record(disk, LIFE, bytes(30), "t", 1000 + i) for i in range(10)]
    assert sorted(f"{FOLDER}/{name}" for name in disk.list(FOLDER)) == names[-3:]
    only = write_record(disk, LIFE, bytes(200), "t", 2000)
    assert [f"{FOLDER}/{name}" for name in disk.list(FOLDER)] == [only]
