import resource
from pathlib import Path

import pytest

from gapless.chaos.storage import SimulatedDisk
from gapless.journal import file as file_module
from gapless.journal.disk import Disk, LocalDisk
from gapless.journal.file import JournalFile
from gapless.protocol.elements import BEGIN
from gapless.protocol.envelope import HEADER_BYTES, Incarnation
from gapless.protocol.errors import JournalError, SchemaError
from gapless.protocol.frame import Frame, frames_of
from gapless.protocol.schema import StreamSchema
from gapless.protocol.text import DEFAULT_SCHEMA, parse

WRITER = Incarnation(1, 2)
FRAMES = list(
    frames_of(
        DEFAULT_SCHEMA,
        parse("ins(A,6,20) stable(5) ins(B,30,31) ins(C,7,8) stable(7) stable(9) ins(D,40,41)"),
    )
)


@pytest.fixture(params=["local", "simulated"])
def disk(request: pytest.FixtureRequest, tmp_path: Path) -> Disk:
    return LocalDisk(tmp_path) if request.param == "local" else SimulatedDisk()


def written(disk: Disk, name: str = "out/0.log") -> JournalFile:
    file = JournalFile(disk, name, DEFAULT_SCHEMA)
    for frame in FRAMES:
        file.append(frame, WRITER)
    file.sync()
    return file


def test_frames_come_back_as_they_were_written(disk: Disk) -> None:
    file = written(disk)
    assert [frame for frame, _ in file.frames()] == FRAMES
    assert file.recover() == disk.size("out/0.log")


def test_reading_goes_on_from_any_record(disk: Disk) -> None:
    file = written(disk)
    offsets = [0, *(behind for _, behind in file.frames())]
    for i, offset in enumerate(offsets):
        assert [frame for frame, _ in file.frames(offset)] == FRAMES[i:]
    assert file.read(offsets[-1]) is None


def test_a_file_that_is_not_there_is_empty(disk: Disk) -> None:
    file = JournalFile(disk, "none.log", DEFAULT_SCHEMA)
    assert file.read(0) is None
    assert file.recover() == 0


def test_a_torn_record_is_waited_for_by_readers_and_cut_by_the_writer(disk: Disk) -> None:
    whole = written(disk)
    ends = [behind for _, behind in whole.frames()]
    data = disk.read("out/0.log", 0, ends[-1])
    for size in range(0, ends[-1], 7):
        name = f"torn/{size}.log"
        if size:
            disk.append(name, data[:size])
        file = JournalFile(disk, name, DEFAULT_SCHEMA)
        kept = [end for end in ends if end <= size]
        assert len(list(file.frames())) == len(kept)
        assert file.recover() == (kept[-1] if kept else 0) == disk.size(name)
        file.append(FRAMES[0], WRITER)
        assert [f for f, _ in file.frames()] == [*FRAMES[: len(kept)], FRAMES[0]]


def test_damage_anywhere_else_is_named_with_its_offset(disk: Disk) -> None:
    ends = [behind for _, behind in written(disk).frames()]
    data = bytearray(disk.read("out/0.log", 0, ends[-1]))
    for at in (ends[0] + 5, ends[0] + HEADER_BYTES + 9):
        damaged = bytearray(data)
        damaged[at] ^= 0x10
        name = f"bad/{at}.log"
        disk.append(name, bytes(damaged))
        with pytest.raises(JournalError, match=f"bad/{at}.log at offset {ends[0]}"):
            list(JournalFile(disk, name, DEFAULT_SCHEMA).frames())


def test_a_file_of_another_schema_is_refused(disk: Disk) -> None:
    written(disk)
    other = JournalFile(disk, "out/0.log", StreamSchema({"q": "int8"}))
    with pytest.raises(JournalError, match="fingerprint"):
        other.read(0)


def test_a_frame_of_another_schema_is_not_appended(disk: Disk) -> None:
    file = written(disk)
    size = disk.size("out/0.log")
    with pytest.raises(SchemaError, match="q: int8"):
        file.append(Frame.empty(StreamSchema({"q": "int8"}), 50), WRITER)
    assert disk.size("out/0.log") == size


@pytest.mark.parametrize("order", [[0, 2], [1], [0, 1, 1], [0, 0]])
def test_records_that_are_missing_or_repeated_are_found(disk: Disk, order: list[int]) -> None:
    ends = [0, *(behind for _, behind in written(disk).frames())]
    for i in order:
        disk.append("odd.log", disk.read("out/0.log", ends[i], ends[i + 1] - ends[i]))
    odd = JournalFile(disk, "odd.log", DEFAULT_SCHEMA)
    with pytest.raises(JournalError, match="expected"):
        list(odd.frames())
    size = disk.size("odd.log")
    with pytest.raises(JournalError, match="expected"):
        odd.recover()
    assert disk.size("odd.log") == size


def test_what_a_full_disk_did_not_take_is_not_in_the_way_of_what_follows(tmp_path: Path) -> None:
    disk = LocalDisk(tmp_path)
    file = written(disk, "full.log")
    size = disk.size("full.log")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size + 100, hard))
    try:
        with pytest.raises(OSError, match="too large"):
            file.append(FRAMES[0], WRITER)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert disk.size("full.log") == size
    file.append(FRAMES[0], WRITER)
    assert [frame for frame, _ in file.frames()] == [*FRAMES, FRAMES[0]]


def test_seeking_a_time_meets_every_row_from_then_on(disk: Disk) -> None:
    file = written(disk)
    rows = [e for frame in FRAMES for e in frame.inserts.elements()]
    for since in (BEGIN, 0, 6, 7, 8, 20, 30, 31, 41):
        met = [e for frame, _ in file.frames(file.seek(since)) for e in frame.inserts.elements()]
        assert [e for e in rows if e.vs >= since] == [e for e in met if e.vs >= since]  # type: ignore[union-attr]  # inserts have vs
    assert file.seek(31) > file.seek(7) > 0


def test_an_empty_frame_with_a_stable_is_a_record(disk: Disk) -> None:
    file = JournalFile(disk, "e.log", DEFAULT_SCHEMA)
    file.append(Frame.empty(DEFAULT_SCHEMA, 5), WRITER)
    assert [f.stable for f, _ in file.frames()] == [5]


def test_a_frame_too_large_for_a_record_becomes_several(
    disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = Frame.from_elements(
        DEFAULT_SCHEMA, parse(" ".join(f"ins(k{i},{i},{i + 1})" for i in range(10)) + " stable(3)")
    )
    for name, rows, size in [("rows", 3, 1 << 20), ("bytes", 1 << 20, whole.nbytes // 3)]:
        monkeypatch.setattr(file_module, "RECORD_ROWS_MAX", rows)
        monkeypatch.setattr(file_module, "RECORD_BYTES_MAX", size)
        file = JournalFile(disk, name, DEFAULT_SCHEMA)
        end = file.append(whole, WRITER)
        file.append(FRAMES[0], WRITER)
        pieces = [frame for frame, _ in file.frames()]
        assert len(pieces) > 2
        assert [p.stable for p in pieces[:-2]] == [None] * (len(pieces) - 2)
        assert [e for p in pieces[:-1] for e in p.elements()] == whole.elements()
        assert [frame for frame, _ in file.frames(end)] == [FRAMES[0]]
