"""Why rows were rejected, counted by kind."""

from __future__ import annotations

import pytest

from gapless.chaos.sim.disk import SimulatedDisk
from gapless.journal import reasons
from gapless.journal.reasons import counted, text
from gapless.journal.rejects import FOLDER, lines
from tests.journal.journals import memory


def rejected(*said: str, name: str = "a.jsonl", disk: SimulatedDisk | None = None) -> SimulatedDisk:
    disk = disk or memory()
    disk.append(f"{FOLDER}/{name}", lines(0, [(reason, "here", {"n": 1}) for reason in said]))
    return disk


def test_reasons_that_differ_in_a_value_alone_are_one_kind() -> None:
    disk = rejected(
        "late: below the watermark 2024-05-01 12:00:05",
        "len: 'many' is no int32",
        "late: below the watermark 2024-05-01 12:00:09",
        "ahead: more than a day beyond all others, the newest is 2024-05-01 12:00:05",
        "len < 0",
    )
    rejected("len: '80: B\n' is no int32", "len < 0", name="b.jsonl", disk=disk)
    assert counted(disk, ["a.jsonl", "b.jsonl"]) == {
        "late": 2, "len: no int32": 2, "len < 0": 2, "ahead": 1
    }  # fmt: skip


def test_a_line_that_does_not_read_is_a_kind_of_its_own() -> None:
    disk = rejected("len < 0")
    disk.append(f"{FOLDER}/a.jsonl", b"[]\ntorn")
    assert counted(disk, ["a.jsonl"]) == {"a line that does not read": 2, "len < 0": 1}


def test_the_most_frequent_kinds_are_told_apart_and_the_others_are_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(reasons, "KINDS_MAX", 2)
    disk = rejected(*"abbccccd")
    assert counted(disk, ["a.jsonl"]) == {"c": 4, "b": 2, "2 other reasons": 2}


def test_so_many_rows_are_counted_and_it_says_of_how_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reasons, "COUNTED_ROWS_MAX", 3)
    found = counted(rejected(*"aabb"), ["a.jsonl"])
    assert found == {"a": 2, "b": 1}
    assert text(found, 4).endswith("of the first 3 rows that were rejected")


def test_a_long_reason_is_cut() -> None:
    assert [len(kind) for kind in counted(rejected("x" * 500), ["a.jsonl"])] == [80]


def test_counts_stand_below_each_other_for_people() -> None:
    assert text({"late": 1_200, "len < 0": 7}, 1_207) == "    1,200  late\n        7  len < 0"
    assert text({}, 0) == ""


def test_where_most_rows_are_ahead_it_is_said_how_rare_ones_are_taken() -> None:
    assert "--ahead 14d" in text({"ahead": 30, "late": 29}, 59)
    assert "--ahead" not in text({"late": 30, "ahead": 30}, 60)
    assert "--ahead" not in text({"ahead": 9, "late": 1}, 10), "some wrong clocks"
    assert "--ahead" not in text({}, 0)
