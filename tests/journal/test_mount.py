"""What the system says of a mount, and what a journal makes of it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from gapless.doctor.findings import CannotLook
from gapless.doctor.mounts import judge_mount, mounted
from gapless.journal import disk as disks
from gapless.journal.disk import LocalDisk
from gapless.journal.mount import Mount, hints, mount_of, mounts, objections

TEXT = r"""
22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw,errors=remount-ro
40 22 0:50 / /data rw,relatime shared:9 - nfs4 nas:/data rw,vers=4.2,soft,nocto,local_lock=none
41 22 0:51 / /data/with\040space rw,relatime - nfs nas:/b rw,hard,lookupcache=positive,nolock
42 22 0:52 / /bucket rw - fuse.s3fs s3fs rw,user_id=0
43 22 0:53 / /hidden rw - nfs4 nas:/old rw,hard
44 22 0:54 / /hidden rw - xfs /dev/sdb rw
a bad line
"""


def at(path: str) -> Mount:
    found = mount_of(TEXT, path)
    assert found is not None
    return found


def test_a_path_lies_on_the_longest_mount_and_the_latest_of_two() -> None:
    assert at("/srv/x").kind == "ext4"
    assert at("/data").kind == "nfs4"
    assert at("/data/flows").source == "nas:/data"
    assert at("/database").kind == "ext4"
    assert at("/data/with space/flows").kind == "nfs"
    assert at("/hidden/j").kind == "xfs"
    assert len(mounts(TEXT)) == 6
    assert mount_of("", "/data") is None


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("/srv/x", []),
        ("/data", ["soft", "nocto"]),
        ("/data/with space", ["nolock"]),
        ("/bucket/j", ["object store"]),
        ("/hidden/j", []),
    ],
)
def test_what_breaks_a_promise_is_objected_to(path: str, words: list[str]) -> None:
    found = objections(at(path))
    assert len(found) == len(words)
    assert all(word in text for word, text in zip(words, found, strict=True))
    verdict = judge_mount(at(path))
    assert verdict.status == ("problem" if words else "ok")


def test_what_would_be_better_is_a_hint_and_no_problem() -> None:
    plain = Mount("/n", "nfs4", "nas:/", {"hard": "", "local_lock": "none"})
    assert objections(plain) == []
    assert "lookupcache=positive" in judge_mount(plain).found
    assert hints(at("/data/with space")) == []


def test_where_nothing_says_what_is_mounted_the_doctor_says_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("gapless.doctor.mounts.mountinfo", lambda: None)
    with pytest.raises(CannotLook, match="nothing says what"):
        mounted("/data")


@pytest.mark.parametrize(("kind", "sent"), [("nfs4", 3), ("ext4", 0)])
def test_over_a_network_each_write_is_sent_before_it_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, sent: int
) -> None:
    monkeypatch.setattr(disks, "mountinfo", lambda: f"40 22 0:50 / {tmp_path} rw - {kind} x rw")
    calls: list[int] = []
    monkeypatch.setattr(os, "fdatasync", calls.append)
    disk = LocalDisk(tmp_path)
    disk.append("segments/1", b"rows")
    disk.append("segments/1", b"more")
    disk.put("live/1", b"8")
    assert len(calls) == sent
