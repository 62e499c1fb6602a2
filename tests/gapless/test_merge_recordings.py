"""`gapless merge --files`: recorded streams, in each form that is read."""

from __future__ import annotations

import io
import random
from pathlib import Path

import pyarrow as pa
import pytest

from gapless.commands.recorded import RecordedStream, RecordedStreamWriter, interleave
from gapless.protocol.elements import INF
from gapless.protocol.envelope import HEADER_BYTES, Incarnation, encode_frame
from gapless.protocol.errors import BadData, JournalError
from gapless.protocol.frame import Frame
from gapless.protocol.schema import StreamSchema
from gapless.protocol.tdb import Tdb
from gapless.protocol.text import DEFAULT_SCHEMA, format, parse
from gapless.protocol.variants import random_tdb, random_telling, tell
from tests.gapless.command import Gapless

PAYLOADS: list[tuple[object, ...]] = [("A",), ("B",), ("C",)]


def record(path: Path, frames: list[Frame], form: str) -> Path:
    """Writes a stream down in one of the forms that are read."""
    schema = frames[0].schema
    if form == "envelopes":
        path.write_bytes(b"".join(enveloped(frames)))
    elif form == "stream":
        with RecordedStreamWriter(path, schema) as recorder:
            for frame in frames:
                recorder.write(frame)
    else:
        with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, schema.arrow) as writer:
            for frame in frames:
                t = frame.stable
                metadata = None if t is None else {"gapless.stable": "inf" if t == INF else str(t)}
                writer.write_batch(frame.batch, custom_metadata=metadata)
    return path


def enveloped(frames: list[Frame]) -> list[bytes]:
    return [encode_frame(frame, Incarnation(1, 1), i) for i, frame in enumerate(frames)]


FORMS = ["envelopes", "stream", "file"]


def streams(seed: int, n: int = 3) -> tuple[Tdb, list[list[Frame]]]:
    rng = random.Random(seed)
    tdb = random_tdb(rng, DEFAULT_SCHEMA, PAYLOADS)
    return tdb, [tell(tdb, random_telling(rng), i) for i in range(n)]


@pytest.mark.parametrize("form", FORMS)
def test_a_recording_reads_back_as_it_was_told(form: str, tmp_path: Path) -> None:
    _, (frames, *_) = streams(1)
    recording = RecordedStream(record(tmp_path / "a", frames, form))
    assert recording.schema == DEFAULT_SCHEMA
    assert list(recording.frames()) == frames
    assert recording.bytes_read == recording.bytes_total


@pytest.mark.parametrize("order", ["round-robin", "by-vs"])
def test_recordings_of_every_form_merge_into_their_table(
    order: str, gapless: Gapless, tmp_path: Path
) -> None:
    for seed in range(5):
        tdb, told = streams(seed)
        paths = [
            record(tmp_path / f"{seed}.{form}", frames, form)
            for form, frames in zip(FORMS, told, strict=True)
        ]
        options = ["--files", "--order", order, "--check", "--case", "r3"]
        outcome = gapless("merge", *options, *paths)
        assert (outcome.code, outcome.err) == (0, "")
        merged = Tdb(DEFAULT_SCHEMA)
        merged.fold_elements(parse(outcome.out))
        assert merged == tdb
        assert merged.stable == INF


def test_output_goes_to_a_file_that_reads_back(gapless: Gapless, tmp_path: Path) -> None:
    tdb, told = streams(3)
    paths = [record(tmp_path / f"{i}.arrow", frames, "stream") for i, frames in enumerate(told)]
    out = tmp_path / "out.arrow"
    outcome = gapless("merge", "--files", "--case", "r3", *paths, "--out", out)
    assert outcome.code == 0
    assert "of 3 inputs" in outcome.out
    merged = Tdb(DEFAULT_SCHEMA)
    for frame in RecordedStream(out).frames():
        merged.fold(frame)
    assert merged == tdb
    document = gapless("merge", "--files", "--case", "r3", *paths, "--out", out, "--json").document
    assert document["lines"] == []
    assert document["case"] == "r3"
    assert document["elements"] == sum(
        len(f) + (f.stable is not None) for frames in told for f in frames
    )


@pytest.mark.parametrize("way", ["itself", "link", "hard link"])
def test_an_input_is_never_overwritten(way: str, gapless: Gapless, tmp_path: Path) -> None:
    frame = Frame.from_elements(DEFAULT_SCHEMA, parse("ins(A,1,2) stable(inf)"))
    source = record(tmp_path / "in.arrow", [frame], "stream")
    before, out = source.read_bytes(), tmp_path / "out.arrow"
    if way == "itself":
        out = source
    elif way == "link":
        out.symlink_to(source)
    else:
        out.hardlink_to(source)
    outcome = gapless("merge", "--files", source, "--out", out)
    assert outcome.code == 2
    assert outcome.err.startswith(f"gapless: {out}: is an input, {source}; ")
    assert source.read_bytes() == before


def test_an_output_that_does_not_fit_is_said_in_a_sentence(
    gapless: Gapless, tmp_path: Path
) -> None:
    frame = Frame.from_elements(DEFAULT_SCHEMA, parse("ins(A,1,2) stable(inf)"))
    source = record(tmp_path / "in.arrow", [frame], "stream")
    outcome = gapless("merge", "--files", source, "--out", "/dev/full")
    assert outcome.code == 2
    assert outcome.err.startswith("gapless: /dev/full: cannot be written: ")
    assert "No space left" in outcome.err


def test_bad_content_of_a_recording_detaches_it(gapless: Gapless, tmp_path: Path) -> None:
    good = [Frame.from_elements(DEFAULT_SCHEMA, parse("ins(A,1,2) stable(inf)"))]
    bad = [
        Frame.from_elements(DEFAULT_SCHEMA, parse(text))
        for text in ("stable(9)", "ins(A,1,2)", "stable(10)")
    ]
    paths = [
        record(tmp_path / "bad", bad, "envelopes"),
        record(tmp_path / "good", good, "envelopes"),
    ]
    outcome = gapless("merge", "--files", *paths)
    assert outcome.code == 1
    assert f"frame 2, of {paths[0]}: {paths[0]} is detached: ins(A,1,2)" in outcome.err
    assert outcome.out.endswith("stable(inf)\n")


def test_a_recording_without_rows_takes_the_schema_of_the_one_before(
    gapless: Gapless, tmp_path: Path
) -> None:
    full = [Frame.from_elements(DEFAULT_SCHEMA, parse("ins(A,1,2) stable(inf)"))]
    none = [Frame.from_elements(DEFAULT_SCHEMA, parse("stable(1)"))]
    paths = [
        record(tmp_path / "full", full, "envelopes"),
        record(tmp_path / "none", none, "envelopes"),
    ]
    assert gapless("merge", "--files", *paths).code == 0
    outcome = gapless("merge", "--files", *reversed(paths))
    assert outcome.code == 2
    assert "has no row, so nothing says its schema; name it after another" in outcome.err


def test_frames_come_in_turn_or_by_their_first_start(tmp_path: Path) -> None:
    told = [["ins(A,1,9)", "ins(A,8,9)", "stable(9)"], ["ins(B,5,9)", "ins(B,2,9)"]]
    paths = [
        record(
            tmp_path / str(i),
            [Frame.from_elements(DEFAULT_SCHEMA, parse(text)) for text in texts],
            "stream",
        )
        for i, texts in enumerate(told)
    ]

    def merged(by_vs: bool) -> str:
        steps: list[None] = []
        recordings = [RecordedStream(path) for path in paths]
        found = interleave(recordings, by_vs, lambda: steps.append(None), 7)
        text = " ".join(format(frame.elements()) for _, frame in found)
        assert len(steps) == 7  # the progress bar came to its end
        return text

    assert merged(False) == "ins(A,1,9) ins(B,5,9) ins(A,8,9) ins(B,2,9) stable(9)"
    assert merged(True) == "ins(A,1,9) ins(B,5,9) ins(B,2,9) ins(A,8,9) stable(9)"


def test_a_torn_recording_is_merged_as_far_as_it_goes_and_named(
    gapless: Gapless, tmp_path: Path
) -> None:
    _, (frames, *_) = streams(1)
    path = record(tmp_path / "a", frames, "envelopes")
    path.write_bytes(path.read_bytes()[:-10])
    outcome = gapless("merge", "--files", path)
    assert outcome.code == 1
    assert "is torn" in outcome.err
    assert outcome.out


def test_a_torn_end_of_any_length_is_left_out(tmp_path: Path) -> None:
    _, (frames, *_) = streams(1)
    records = enveloped(frames)
    whole = b"".join(records[:-1])
    for size in range(0, len(records[-1]), 7):
        (tmp_path / "a").write_bytes(whole + records[-1][:size])
        recording = RecordedStream(tmp_path / "a")
        assert list(recording.frames()) == frames[:-1]
        assert recording.bytes_read == len(whole)


def test_a_damaged_record_is_named_with_its_offset(tmp_path: Path) -> None:
    _, (frames, *_) = streams(1)
    records = enveloped(frames)
    data = b"".join(records)
    rows = [i for i, record in enumerate(records) if i and len(record) > HEADER_BYTES]
    start = sum(len(record) for record in records[: rows[0]])
    for at in (start + 5, start + HEADER_BYTES + 9):
        damaged = bytearray(data)
        damaged[at] ^= 0x10
        (tmp_path / "a").write_bytes(damaged)
        with pytest.raises(JournalError, match=f"a at offset {start}: "):
            list(RecordedStream(tmp_path / "a").frames())


@pytest.mark.parametrize("order", [[0, 2], [1], [0, 1, 1], [0, 0]])
def test_records_that_are_missing_or_repeated_are_found(order: list[int], tmp_path: Path) -> None:
    texts = ("ins(A,6,20) stable(5)", "ins(B,30,31)", "ins(C,7,8) stable(7)")
    records = enveloped([Frame.from_elements(DEFAULT_SCHEMA, parse(text)) for text in texts])
    (tmp_path / "a").write_bytes(b"".join(records[i] for i in order))
    with pytest.raises(JournalError, match=r"record \d, expected \d: records are missing"):
        list(RecordedStream(tmp_path / "a").frames())


def broken_files(tmp_path: Path) -> dict[str, bytes]:
    _, (frames, *_) = streams(1)
    envelopes = record(tmp_path / "e", frames, "envelopes").read_bytes()
    stream = record(tmp_path / "s", frames, "stream").read_bytes()
    plain = io.BytesIO()
    batch = pa.record_batch({"x": [1]})
    with pa.ipc.new_stream(plain, batch.schema) as writer:
        writer.write_batch(batch)
    return {
        "empty": b"",
        "text": b"attach a\n",
        "header cut": envelopes[:40],
        "first body cut": envelopes[:100],
        "first body damaged": envelopes[:200] + b"\xff" * 40 + envelopes[240:],
        "stream cut": stream[: len(stream) // 2],
        "another schema": plain.getvalue(),
        "arrow file without a footer": b"ARROW1\0\0",
    }


def test_files_that_are_not_recordings_are_refused_by_name(
    gapless: Gapless, tmp_path: Path
) -> None:
    for name, data in broken_files(tmp_path).items():
        path = tmp_path / f"{name}.bin"
        path.write_bytes(data)
        outcome = gapless("merge", "--files", path)
        assert outcome.code == 2, name
        assert outcome.err.startswith("gapless: "), name
        assert path.name in outcome.err, name
        assert "Traceback" not in outcome.err, name


def test_a_stable_in_the_metadata_must_be_a_time(tmp_path: Path) -> None:
    path = tmp_path / "a"
    schema = DEFAULT_SCHEMA
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_stream(sink, schema.arrow) as writer:
        writer.write_batch(schema.empty_batch, custom_metadata={"gapless.stable": "soon"})
    with pytest.raises(BadData, match=r"batch 0: gapless\.stable: 'soon'"):
        list(RecordedStream(path).frames())


def test_recordings_of_different_schemas_are_refused(gapless: Gapless, tmp_path: Path) -> None:
    other = StreamSchema({"n": "int64"})
    paths = [
        record(tmp_path / "a", [Frame.empty(DEFAULT_SCHEMA, 1)], "stream"),
        record(tmp_path / "b", [Frame.empty(other, 1)], "stream"),
    ]
    outcome = gapless("merge", "--files", *paths)
    assert outcome.code == 2
    assert f"{paths[1]}: holds" in outcome.err
    assert gapless("merge", "--files", paths[0], "--schema", "n:int64").code == 2
    assert gapless("merge", "--files", paths[1], "--schema", "n:int64").out == "stable(1)\n"
