import errno
import random
from pathlib import Path
from typing import Any

import pytest

from gapless.chaos.sim.disk import CAPACITY_BYTES, SimulatedDisk, View
from gapless.chaos.sim.disk_file import PUTS_MAX, File
from gapless.journal.commit import Commits
from gapless.journal.disk import Disk, LocalDisk
from gapless.journal.layout import Layout, opened
from gapless.journal.reader import Reader
from gapless.journal.writer import Writer
from gapless.protocol.elements import Insert, Stable
from gapless.protocol.errors import DiskFull, GaplessError, JournalError
from gapless.protocol.frame import Frame
from gapless.protocol.schema import StreamSchema
from tests.effort import cases

SCHEMA = StreamSchema({"n": "int64"})
LAYOUT = Layout(SCHEMA)
NAMES = ("a", "b", "d/a", "d/e/a", "d/e/b")
SEEDS = cases(150)


# -- the interface ------------------------------------------------------------------------------


def do(disk: Disk, step: int, rng: random.Random) -> Any:
    """Something that users of a disk do, and what comes of it."""
    name, other, data = (
        rng.choice(NAMES),
        rng.choice(NAMES),
        bytes([step % 256]) * rng.randint(1, 9),
    )
    offset, size = rng.randint(0, 9), rng.randint(0, 12)
    match rng.choice(("create", "append", "append", "put", "link", "unlink", "truncate", "map")):
        case "create":
            return disk.create(name, data)
        case "append":
            return disk.append(name, data)
        case "put" if disk.exists(name):
            return disk.put(name, data)
        case "link":
            return disk.link(name, other)
        case "unlink":
            return disk.unlink(name)
        case "truncate" if disk.size(name) > size:
            return disk.truncate(name, size)
        case "map":
            return bytes(disk.map(name, size).data) + disk.read(name, offset, size)
    return disk.sync(name)


def outcome(disk: Disk, step: int, rng: random.Random) -> Any:
    try:
        return do(disk, step, rng)
    except OSError as e:
        return OSError if isinstance(e, FileNotFoundError) else type(e)


def seen(disk: Disk) -> Any:
    """All that is there, except for folders that are empty."""
    files = [(n, disk.exists(n), disk.size(n), disk.read(n, 1, 99)) for n in NAMES]
    held = {f: [n for n in disk.list(f) if n != "e" or disk.list("d/e")] for f in ("d", "d/e", "x")}
    return files, held, [n for n in disk.list("") if n != "d" or held["d"]]


@pytest.mark.parametrize("prefix", ["", "jobs/7"])
def test_a_simulated_disk_does_what_a_local_one_does(tmp_path: Path, prefix: str) -> None:
    for seed in range(15):
        whole = SimulatedDisk()
        ours: Disk = View(whole, prefix) if prefix else whole
        local = LocalDisk(tmp_path / str(seed))
        for step in range(60):
            key = f"{seed} {step}"
            got = outcome(ours, step, random.Random(key))
            assert got == outcome(local, step, random.Random(key)), key
            for name in NAMES:
                local.close(name)  # else what was unlinked and made anew is still the old file
            assert seen(ours) == seen(local), key
        check_room(whole)


def check_room(disk: SimulatedDisk) -> None:
    held = {id(file): len(file.data) for file in disk._files.values()}
    assert disk.free_bytes() == CAPACITY_BYTES - sum(held.values())


def test_a_view_is_a_folder_and_knows_nothing_of_others() -> None:
    disk = SimulatedDisk()
    one, two = View(disk, "out/m0"), View(disk, "out/m01")
    one.append("segments/1", b"one")
    two.append("segments/1", b"other")
    assert one.read("segments/1", 0, 9) == b"one"
    assert disk.list("out") == ["m0", "m01"]
    assert one.list("") == ["segments"]
    assert disk.files("out/m0") == ["out/m0/segments/1"]
    assert repr(one) == "out/m0"


def test_what_was_mapped_stays_as_it_was() -> None:
    disk = SimulatedDisk()
    disk.append("a", b"first")
    mapped = disk.map("a", 5)
    assert disk.map("a", 5).data.address == mapped.data.address, "it is copied once"
    disk.append("a", b", second")
    disk.flip_bit("a", random.Random(1))
    assert bytes(mapped.data) == b"first"
    with pytest.raises(OSError, match="has 13 bytes, not 14"):
        disk.map("a", 14)


def test_reads_are_counted() -> None:
    disk = SimulatedDisk()
    disk.append("a", b"abc")
    disk.read("a", 0, 1)
    disk.map("a", 2)
    disk.read("none", 0, 1)
    assert disk.reads == 2


# -- crashes ------------------------------------------------------------------------------------


def test_a_crash_leaves_what_was_synced_and_a_prefix_of_the_rest() -> None:
    sizes = set()
    for seed in range(SEEDS):
        disk = SimulatedDisk()
        disk.append("a", b"0123")
        disk.sync("a")
        disk.append("a", b"456789")
        lost = disk.crash("", random.Random(seed))
        left = disk.read("a", 0, 99)
        assert b"0123456789".startswith(left)
        assert lost == 10 - len(left)
        sizes.add(len(left))
        before = disk.read("a", 0, 99)
        assert disk.crash("", random.Random(seed)) == 0
        assert disk.read("a", 0, 99) == before, "what survived a crash is on the disk"
    assert sizes == set(range(4, 11))


def test_a_crash_takes_names_that_were_not_synced_and_brings_others_back() -> None:
    found = set()
    for seed in range(40):
        disk = SimulatedDisk()
        for name in ("d/safe", "d/gone", "d/safe/other", "e/gone"):
            disk.append(name, b"x")
            disk.sync(name)
        disk.unlink("d/gone")
        disk.unlink("e/gone")
        disk.link("d/safe", "e/new")
        disk.sync("e/new")  # the folder e is as it should be; the file of d/safe has another name
        disk.create("d/new", b"")
        disk.crash("", random.Random(seed))
        names = set(disk.files(""))
        assert names >= {"d/safe", "d/safe/other", "e/new"}
        assert "e/gone" not in names
        found |= {frozenset(names & {"d/gone", "d/new"})}
        check_room(disk)
    assert len(found) == 4, "each with and without the other"


def test_a_crash_leaves_any_of_the_last_overwrites_or_a_mix_of_two() -> None:
    found = set()
    for seed in range(SEEDS):
        disk = SimulatedDisk()
        disk.append("a", b"----")
        disk.sync("a")
        for i in range(PUTS_MAX + 2):
            disk.put("a", str(i).encode() * 4)
        disk.crash("a", random.Random(seed))
        found.add(disk.read("a", 0, 9))
    pure = {str(i).encode() * 4 for i in range(PUTS_MAX + 2)}
    assert found & pure == {str(i).encode() * 4 for i in range(1, PUTS_MAX + 2)}
    mixed = found - pure
    assert all(0 <= a - b <= 1 for data in mixed for a, b in [(data[0], data[-1])]), mixed
    assert len(mixed) > PUTS_MAX


def test_an_overwrite_that_was_synced_stays() -> None:
    for seed in range(20):
        disk = SimulatedDisk()
        disk.put("live", b"old")
        disk.put("live", b"new")
        disk.sync("live")
        disk.crash("", random.Random(seed))
        assert disk.read("live", 0, 9) == b"new"


def test_a_crash_is_of_one_folder() -> None:
    lost = 0
    for seed in range(20):
        disk = SimulatedDisk()
        for name in ("out/m0/a", "out/m01/a", "job"):
            disk.append(name, b"abc")
        lost += disk.crash("out/m0", random.Random(seed))
        assert disk.size("out/m01/a") == disk.size("job") == 3
    assert lost > 0


def test_the_same_seed_crashes_in_the_same_way() -> None:
    def left(seed: int) -> Any:
        disk, rng = SimulatedDisk(), random.Random(seed)
        for step in range(40):
            outcome(disk, step, rng)
        disk.crash("", rng)
        return seen(disk)

    assert [left(seed) for seed in range(9)] == [left(seed) for seed in range(9)]


def test_room_is_counted_through_crashes() -> None:
    for seed in range(40):
        disk, rng = SimulatedDisk(), random.Random(seed)
        for step in range(60):
            outcome(disk, step, rng)
            if rng.random() < 0.1:
                disk.crash(rng.choice(("", "d", "d/e", "a")), rng)
            check_room(disk)


# -- full disks and damage ------------------------------------------------------------------------


def test_what_does_not_fit_is_not_there_in_part() -> None:
    disk = SimulatedDisk()
    disk.append("out/m0/a", b"12345")
    disk.append("out/m1/a", b"12345")
    disk.fill("out/m0", 3)
    assert View(disk, "out/m0").free_bytes() == disk.free_under("out/m0/segments") == 3
    for write in (
        lambda: disk.append("out/m0/a", b"6789"),
        lambda: disk.create("out/m0/b", b"6789"),
        lambda: disk.put("out/m0/a", b"123456789"),
    ):
        with pytest.raises(OSError, match="full") as e:
            write()
        assert e.value.errno == errno.ENOSPC
    assert disk.read("out/m0/a", 0, 99) == b"12345"
    assert not disk.exists("out/m0/b")
    assert disk.append("out/m0/a", b"678") == 8
    disk.put("out/m0/a", b"!!!!!")  # what is there may be overwritten
    disk.append("out/m1/a", b"678" * 100)
    disk.truncate("out/m0/a", 2)
    assert View(disk, "out/m0").free_bytes() == 6
    disk.unlink("out/m0/a")
    assert View(disk, "out/m0").free_bytes() == 8
    disk.empty("out/m0")
    assert disk.append("out/m0/a", b"x" * 100) == 100


def test_a_full_disk_is_full_for_everybody() -> None:
    disk = SimulatedDisk()
    disk.fill("")
    with pytest.raises(OSError, match="full"):
        View(disk, "anywhere").append("a", b"x")
    assert View(disk, "anywhere").free_bytes() == disk.free_bytes() == 0


def test_a_flipped_bit_is_mended_unless_it_was_written_over() -> None:
    disk = SimulatedDisk()
    for seed in range(40):
        rng = random.Random(seed)
        disk.unlink("a")
        disk.append("a", bytes(range(60)))
        mend = disk.flip_bit("a", rng)
        damaged = disk.read("a", 0, 99)
        assert sum((x ^ y).bit_count() for x, y in zip(damaged, range(60), strict=True)) == 1
        if seed % 2:
            mend()
            assert disk.read("a", 0, 99) == bytes(range(60))
        else:
            disk.truncate("a", 0)
            disk.append("a", bytes(range(100, 160)))
            mend()
            assert disk.read("a", 0, 99) == bytes(range(100, 160))
    with pytest.raises(FileNotFoundError):
        disk.flip_bit("none", random.Random(1))


def test_bits_flipped_beside_each_other_are_each_mended_in_any_order() -> None:
    disk = SimulatedDisk()
    for seed in range(40):
        rng = random.Random(seed)
        disk.unlink("a")
        disk.append("a", bytes(range(20)))
        mends = [disk.flip_bit("a", rng) for _ in range(3)]
        rng.shuffle(mends)
        for mend in mends:
            mend()
        assert disk.read("a", 0, 99) == bytes(range(20))


# -- journals over it -----------------------------------------------------------------------------


def writer(disk: Disk, token: str) -> Writer:
    """One without headroom: a full disk takes what lies in zeros that are there."""
    return Writer(disk, LAYOUT, who=token, token=token, now_ms=lambda: 0, headroom_bytes=0)


def frame(n: int) -> Frame:
    return Frame.from_elements(SCHEMA, [Insert((n,), n, n + 1), Stable(n)])


def numbers(disk: Disk) -> list[int]:
    reader, found = Reader(disk), []
    while (read := reader.read()) is not None:
        found += read.payload.column("n").to_pylist()
    return found


def live_through_crashes(seed: int) -> int:
    """One journal, whose machine dies now and then; the rows of which it was said that they are
    safe are there each time, and none is there twice. Returns how many were lost that were not.
    """
    rng, disk = random.Random(seed), SimulatedDisk()
    mine, said, next_number, lost = View(disk, "job/out/m0"), 0, 0, 0
    for life in range(4):
        w = writer(mine, f"w{life}")
        there = numbers(mine)
        assert there == list(range(len(there)))
        assert len(there) >= said
        lost += next_number - len(there)
        said = next_number = len(there)
        for _ in range(rng.randint(1, 25)):
            w.append(frame(next_number), synced=False)
            next_number += 1
            if rng.random() < 0.4:
                w.sync()
                said = next_number
            if rng.random() < 0.1:
                w.seal()
                said = next_number
        disk.crash("job/out/m0", rng)
    return lost


def test_what_a_writer_has_synced_survives_all_crashes() -> None:
    assert sum(live_through_crashes(seed) for seed in range(SEEDS // 3)) > 0


def test_a_disk_that_forgets_what_was_synced_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    def forgets(file: File) -> None:
        file.puts.clear()

    monkeypatch.setattr(File, "sync", forgets)
    assert any(is_found_out(seed) for seed in range(SEEDS // 3))


def is_found_out(seed: int) -> bool:
    try:
        live_through_crashes(seed)
    except (AssertionError, GaplessError):
        return True
    return False


def test_commits_are_read_by_those_who_come_after_a_crash() -> None:
    disk = SimulatedDisk()
    mine = View(disk, "out")
    w = writer(mine, "w1")
    for n in range(5):
        w.append(frame(n))
        w.seal()
    made = Commits(mine, opened(mine)).head.number
    for seed in range(10):
        disk.crash("out", random.Random(seed))
        assert Commits(mine, opened(mine)).head.number == made


def test_a_writer_on_a_full_disk_loses_nothing_and_goes_on_once_there_is_room() -> None:
    disk = SimulatedDisk()
    mine = View(disk, "out")
    w = writer(mine, "w1")
    w.append(frame(0))
    disk.fill("out", 20)
    for _ in range(3):
        with pytest.raises(DiskFull):
            w.append(frame(1))
    assert numbers(mine) == [0]
    with pytest.raises(DiskFull):
        writer(mine, "w2")
    disk.empty("out")
    w.append(frame(1))
    assert numbers(mine) == [0, 1]


def test_a_flipped_bit_in_a_segment_is_named_and_read_once_it_is_mended() -> None:
    disk = SimulatedDisk()
    mine = View(disk, "out")
    w = writer(mine, "w1")
    for n in range(9):
        w.append(frame(n))
    w.seal()
    [segment] = disk.files("out/segments")
    for seed in range(20):
        mend = disk.flip_bit(segment, random.Random(seed))
        with pytest.raises(JournalError, match="segment"):
            numbers(mine)
        mend()
        assert numbers(mine) == list(range(9))
