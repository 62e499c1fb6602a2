"""The table of mounts is read as the kernel writes it."""

from __future__ import annotations

from pathlib import Path

from gapless.chaos.drill.means.mounts import is_mounted, mounts, parsed

TABLE = rb"""/dev/vda / ext4 rw,relatime 0 0
tmpfs /run/a\040disk\134 tmpfs rw,size=64m 0 0
cgroup /sys/fs/cgroup/cpu,cpuacct cgroup rw,cpu,cpuacct 0 0
""" + "none /ü\\011x tmpfs rw 0 0\n".encode()


def test_places_are_read_with_their_spaces_and_letters() -> None:
    assert [mount.at for mount in parsed(TABLE)] == [
        Path("/"),
        Path("/run/a disk\\"),
        Path("/sys/fs/cgroup/cpu,cpuacct"),
        Path("/ü\tx"),
    ]


def test_kinds_and_options_are_read() -> None:
    assert [mount.kind for mount in parsed(TABLE)] == ["ext4", "tmpfs", "cgroup", "tmpfs"]
    assert parsed(TABLE)[2].options == {"rw", "cpu", "cpuacct"}


def test_the_root_of_this_machine_is_mounted_and_a_file_is_not() -> None:
    assert mounts()
    assert is_mounted(Path("/proc"))
    assert not is_mounted(Path(__file__))
