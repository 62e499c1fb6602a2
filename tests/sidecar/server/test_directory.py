"""A sidecar's directory: its name, its terms, its streams; nothing in it is ever half there."""

from __future__ import annotations

from pathlib import Path

import pytest

from gapless.protocol.errors import JobError, Misuse
from gapless.protocol.schema import StreamSchema
from gapless.sidecar.definition import Definition
from gapless.sidecar.server import directory as directories
from gapless.sidecar.server.directory import Directory

SCHEMA = StreamSchema({"src": "int32"})
TALKERS = Definition("talkers", SCHEMA, key=True)


def test_the_name_is_made_once_and_stays(tmp_path: Path) -> None:
    name = Directory(tmp_path).name()
    assert name.startswith("sidecar-")
    assert Directory(tmp_path).name() == name
    assert Directory(tmp_path / "other").name() != name


@pytest.mark.parametrize("data", [b"", b"x", b"\x81\xa4name\xa1a"])
def test_a_name_that_does_not_read_back_is_said_with_its_path(tmp_path: Path, data: bytes) -> None:
    Directory(tmp_path).name()
    (tmp_path / "sidecar").write_bytes(data)
    with pytest.raises(JobError, match=f"{tmp_path}/sidecar: "):
        Directory(tmp_path).name()


def test_each_life_has_a_larger_term_whoever_begins_it(tmp_path: Path) -> None:
    one, other = Directory(tmp_path), Directory(tmp_path)
    assert [one.next_term("a"), other.next_term("b"), one.next_term("c")] == [1, 2, 3]


def test_terms_count_as_numbers_and_what_is_no_term_is_not_counted(tmp_path: Path) -> None:
    (tmp_path / "terms").mkdir()
    for name in ("000009", "000010", "notes"):
        (tmp_path / "terms" / name).touch()
    assert Directory(tmp_path).next_term("a") == 11


def test_a_life_that_finds_every_term_taken_gives_up_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def taken(*_: object) -> None:
        raise FileExistsError

    monkeypatch.setattr(directories, "write_whole", taken)
    with pytest.raises(JobError, match="try again"):
        Directory(tmp_path).next_term("a")


# -- streams --------------------------------------------------------------------------------------


def test_a_stream_is_defined_once_and_reads_back(tmp_path: Path) -> None:
    one = Directory(tmp_path)
    assert not one.has("talkers")
    one.define(TALKERS, "token")
    assert one.has("talkers")
    assert Directory(tmp_path).definition("talkers") == TALKERS
    with pytest.raises(FileExistsError):
        one.define(Definition("talkers", SCHEMA), "another")
    assert one.definition("talkers") == TALKERS


def test_only_folders_that_have_a_definition_and_a_name_are_streams(tmp_path: Path) -> None:
    one = Directory(tmp_path)
    one.define(TALKERS, "token")
    (tmp_path / "streams" / "half").mkdir()
    (tmp_path / "streams" / ".hidden").mkdir()
    (tmp_path / "streams" / ".hidden" / "definition").touch()
    assert one.names() == ["talkers"]


def test_a_definition_under_another_name_is_refused(tmp_path: Path) -> None:
    one = Directory(tmp_path)
    one.define(TALKERS, "token")
    (tmp_path / "streams" / "talkers").rename(tmp_path / "streams" / "copy")
    with pytest.raises(JobError, match="is of stream talkers"):
        one.definition("copy")


def test_a_damaged_definition_is_said_with_its_path(tmp_path: Path) -> None:
    one = Directory(tmp_path)
    one.define(TALKERS, "token")
    (tmp_path / "streams" / "talkers" / "definition").write_bytes(b"\x00")
    with pytest.raises(JobError, match="streams/talkers/definition: "):
        one.definition("talkers")


def test_a_definition_that_would_not_be_read_back_is_not_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, size = Directory(tmp_path), len(TALKERS.document())
    monkeypatch.setattr(directories, "DEFINITION_BYTES_MAX", size - 1)
    with pytest.raises(Misuse, match=f"{size} bytes, {size - 1} are the most"):
        one.define(TALKERS, "token")
    assert not one.has("talkers")
    monkeypatch.setattr(directories, "DEFINITION_BYTES_MAX", size)
    one.define(TALKERS, "token")
    assert one.definition("talkers") == TALKERS


def test_a_removed_stream_is_gone_with_its_output_and_may_be_defined_anew(tmp_path: Path) -> None:
    one = Directory(tmp_path)
    one.define(TALKERS, "token")
    (tmp_path / "streams" / "talkers" / "output").mkdir()
    (tmp_path / "streams" / "talkers" / "output" / "rows").write_bytes(b"1")
    one.remove("talkers")
    assert one.names() == []
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []
    other = Definition("talkers", SCHEMA, key=False)
    one.define(other, "token")
    assert one.definition("talkers") == other


def test_what_a_death_within_a_removal_leaves_is_taken_away_later(tmp_path: Path) -> None:
    one = Directory(tmp_path)
    one.drop_removed()  # there is none
    left = tmp_path / directories.REMOVED / "talkers-1"
    left.mkdir(parents=True)
    (left / "definition").touch()
    one.drop_removed()
    assert not (tmp_path / directories.REMOVED).exists()


# -- one sidecar at a time ------------------------------------------------------------------------


def test_a_second_sidecar_is_refused_until_the_first_lets_go(tmp_path: Path) -> None:
    one, other = Directory(tmp_path), Directory(tmp_path)
    one.lock()
    with pytest.raises(Misuse):
        other.lock()
    one.unlock()
    one.unlock()
    other.lock()
    other.unlock()


def test_a_directory_that_is_a_file_is_said_to_be_none(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(NotADirectoryError):
        Directory(tmp_path / "file").lock()
