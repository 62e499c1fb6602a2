"""`gapless merge`: the paper's tables as they stand in examples/, options, files, exits."""

from __future__ import annotations

import io
import random
import shlex
import sys
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
import typer

from gapless.commands.merge import parse_policy, parse_schema
from gapless.commands.recorded import Recorder, Recording, interleave
from gapless.journal.disk import LocalDisk
from gapless.journal.file import JournalFile
from gapless.merge.lmerge import LMerge
from gapless.merge.policy import Policy, lag, quorum
from gapless.protocol.elements import INF
from gapless.protocol.envelope import Incarnation
from gapless.protocol.errors import BadData
from gapless.protocol.frame import Frame
from gapless.protocol.schema import StreamSchema
from gapless.protocol.tdb import Tdb
from gapless.protocol.text import DEFAULT_SCHEMA, format, parse
from gapless.protocol.variants import random_tdb, random_telling, tell
from tests.gapless.command import Gapless, Outcome

EXAMPLES = Path(__file__).parents[2] / "examples" / "merge"
PAYLOADS: list[tuple[object, ...]] = [("A",), ("B",), ("C",)]


@pytest.fixture
def write(tmp_path: Path) -> Callable[[str], Path]:
    def to_file(content: str) -> Path:
        path = tmp_path / f"script{len(list(tmp_path.iterdir()))}.txt"
        path.write_text(content, encoding="utf-8")
        return path

    return to_file


Write = Callable[[str], Path]


# -- scripts --------------------------------------------------------------------------------------


@pytest.mark.parametrize("expected", sorted(EXAMPLES.glob("*.expected")), ids=lambda p: p.stem)
def test_an_example_gives_what_its_file_says(
    expected: Path, gapless: Gapless, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(EXAMPLES)
    for session in expected.read_text().split("$ ")[1:]:
        command, _, text = session.partition("\n")
        outcome = gapless(*shlex.split(command)[1:])
        assert f"{outcome.out}{outcome.err}[exit {outcome.code}]" == text.rstrip()


def test_every_example_has_its_expected_output() -> None:
    scripts = {path.stem for path in EXAMPLES.glob("*.txt")}
    assert scripts == {path.stem for path in EXAMPLES.glob("*.expected")}
    assert scripts > {"table1", "table2", "table3"}


def test_table_3_is_printed_as_the_paper_has_it() -> None:
    text = (EXAMPLES / "table3.expected").read_text()
    out1 = "ins(A,6,10)\nadj(A,6,10,12)\nins(B,7,14)\nadj(A,6,12,15)\nstable(16)\n"
    out2 = "ins(A,6,15) ins(B,7,14) stable(16)\n"
    out3 = "ins(A,6,10)\nins(B,7,14)\nadj(A,6,10,15) stable(16)\n"
    assert [part.split("\n", 1)[1].split("[")[0] for part in text.split("$ ")[1:]] == [
        out1,
        out2,
        out3,
    ]


def test_scripts_are_merged_one_after_the_other_with_a_line_between(
    gapless: Gapless, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = write("attach a\na: ins(A,1,2)\n---\nattach a\na: ins(A,1,2) stable(3)")
    monkeypatch.setattr(sys, "stdin", io.StringIO("attach b\nb: stable(inf)"))
    wanted = "ins(A,1,2)\n---\nins(A,1,2) stable(3)\n---\nstable(inf)\n"
    assert gapless("merge", first, "-") == Outcome(0, wanted, "")


def test_payload_columns_are_those_of_the_schema(gapless: Gapless, write: Write) -> None:
    path = write("attach a\na: ins((x,-7),1,2)")
    outcome = gapless("merge", path, "--schema", "src: string, len:int32")
    assert outcome == Outcome(0, "ins((x,-7),1,2)\n", "")
    assert gapless("merge", path).code == 2


def test_bad_content_detaches_and_the_rest_goes_on(gapless: Gapless, write: Write) -> None:
    path = write("attach a\nattach b\na: stable(5)\na: ins(A,1,9)\na: stable(6)\nb: ins(B,5,6)")
    outcome = gapless("merge", path)
    assert (outcome.code, outcome.out) == (1, "stable(5)\nins(B,5,6)\n")
    reason = "ins(A,1,9) breaks the rule: a promised stable(5)"
    assert outcome.err == (
        f"gapless: {path}: line 4: a is detached: {reason}\n"
        f"gapless: {path}: line 5: a is detached: skipped\n"
    )
    document = gapless("merge", path, "--json").document
    assert document["problem"] is True
    assert document["scripts"][0]["detached"] == [{"at": 4, "input": "a", "reason": reason}]
    assert document["scripts"][0]["lines"][1] == {"line": 6, "out": "ins(B,5,6)"}


def test_the_check_stops_at_the_first_break_and_names_line_and_rule(
    gapless: Gapless, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    push = LMerge.push

    def without_adjusts(self: LMerge, number: int, frame: Frame) -> Frame:
        out = push(self, number, frame)
        return out.take(out.is_insert, out.stable)

    monkeypatch.setattr(LMerge, "push", without_adjusts)
    path = write(
        "attach a\nattach b\na: ins(A,6,7)\nb: ins(A,6,12) stable(11)\n"
        "b: ins(C,12,13)\n---\nattach a"
    )
    assert gapless("merge", path, "--case", "r3").code == 0
    outcome = gapless("merge", path, "--case", "r3", "--check")
    assert (outcome.code, outcome.out) == (1, "ins(A,6,7)\nstable(11)\n")
    assert f"{path}: line 4: C2: <A, [6,7)> is fully frozen" in outcome.err
    assert outcome.err.endswith("gapless: the rules are explained in gapless.merge.compatible\n")
    document = gapless("merge", path, "--case", "r3", "--check", "--json").document
    assert len(document["scripts"]) == 1
    assert document["scripts"][0]["break"]["at"] == 4
    assert document["scripts"][0]["break"]["rules"][0]["rule"] == "C2"


def test_the_document_tells_the_case_and_its_steps(gapless: Gapless, write: Write) -> None:
    path = write("attach a\na: ins(A,6,7)\na: ins(A,6,7)")
    (script,) = gapless("merge", path, "--json").document["scripts"]
    assert script["case"] == "r4"
    assert [(step["before"], step["after"]) for step in script["steps"]] == [("r3", "r4")]
    assert script["output"]["inserts"] == 2


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("attach a\na: ins(A,1", "line 2, column 11: expected ',', found the end"),
        ("b: stable(1)", "line 1, column 1: expected an attached input (none is), found 'b'"),
        ("go", "line 1, column 1: expected attach NAME"),
    ],
)
def test_a_bad_line_is_named_before_anything_is_merged(
    content: str, message: str, gapless: Gapless, write: Write
) -> None:
    good, bad = write("attach a\na: stable(1)"), write(content)
    outcome = gapless("merge", good, bad)
    assert (outcome.code, outcome.out) == (2, "")
    assert outcome.err.startswith(f"gapless: {bad}: {message}")


def test_what_cannot_be_read_is_said(gapless: Gapless, tmp_path: Path) -> None:
    outcome = gapless("merge", tmp_path / "none.txt")
    assert outcome.code == 2
    assert "none.txt: cannot be read: No such file" in outcome.err
    (tmp_path / "bytes.txt").write_bytes(b"attach \xff")
    assert "is no UTF-8 text: invalid start byte at byte 7; a recording? add --files" in (
        gapless("merge", tmp_path / "bytes.txt").err
    )


def test_divergences_are_told_with_the_names_of_the_script(gapless: Gapless, write: Write) -> None:
    path = write(
        "attach a\nattach b\na: ins(A,1,5)\nb: ins(A,1,6)\n"
        "a: stable(7)\nb: stable(7)\na: stable(inf)"
    )
    outcome = gapless("merge", path)
    assert (outcome.code, outcome.out) == (1, "ins(A,1,5)\nstable(7)\nstable(inf)\n")
    sample = "A from 1: b says it ends at 6, the output has promised it ends at 5"
    assert outcome.err == (
        f"gapless: {path}: divergence: {sample}\ngapless: {path}: 1 divergence\n"
    )
    document = gapless("merge", path, "--json").document
    assert document["problem"] is True
    (script,) = document["scripts"]
    assert (script["divergences"], script["divergence_samples"]) == (1, [sample])


def test_a_name_stands_for_the_input_and_never_inside_a_payload(
    gapless: Gapless, write: Write
) -> None:
    path = write('attach a\nattach b\nb: adj("input 0",1,5,6)\nb: stable(1)')
    told = gapless("merge", path, "--case", "r3").err
    assert 'b is detached: adj("input 0",1,5,6) breaks the rule: an adjust is of what' in told
    assert "; b has " in told


@pytest.mark.parametrize(
    ("content", "waits_for"),
    [
        (
            "attach a\nattach c join 120\na: stable(7)\nc: stable(inf)",
            "7; it waits for a, which is stable to 7: c is at its end, but joined at 120",
        ),
        (
            "attach a\na: stable(7)\ndetach a\nattach c join 120",
            "7; it waits for an input that knows the time from 7 on: the earliest, c, joined at",
        ),
        ("attach a\na: stable(7)\ndetach a", "7; it waits for an input: none is attached"),
    ],
)
def test_at_the_end_of_a_script_it_is_said_what_the_output_waits_for(
    content: str, waits_for: str, gapless: Gapless, write: Write
) -> None:
    path = write(content)
    outcome = gapless("merge", path)
    assert (outcome.code, outcome.out) == (0, "stable(7)\n")
    assert outcome.err.startswith(f"gapless: {path}: the output is stable to {waits_for}")
    assert gapless("merge", path, "--json").document["scripts"][0]["waiting_for"] is not None


def test_a_script_is_no_recording(gapless: Gapless, write: Write) -> None:
    outcome = gapless("merge", "--files", write("attach a\na: stable(1)"))
    assert outcome.code == 2
    assert "a script? leave out --files" in outcome.err


def test_help_explains_the_notation(gapless: Gapless) -> None:
    told = gapless("merge", "--help").out
    for line in ("ins(PAYLOAD,VS,VE)  ", "adj(PAYLOAD,VS,WAS,VE)  ", "stable(T)  "):
        assert f"\n  {line}" in told
    assert "inputs diverge" in told


# -- options --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "policy"),
    [
        ("", Policy()),
        ("insert=first", Policy()),
        (
            "insert=quorum(2),adjust=at_once,stable=lag(5)",
            Policy(quorum(2), "at_once", lag(5)),
        ),
        (" stable = maximum , insert = half_frozen ", Policy("half_frozen")),
    ],
)
def test_a_policy_is_read_from_its_rules(text: str, policy: Policy) -> None:
    assert parse_policy(text) == policy


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("first", "expected insert=, adjust= or stable= and a rule, found 'first'"),
        ("insert=first,", "expected insert="),
        ("insert=quorum", "expected quorum(NUMBER), found 'insert=quorum'"),
        ("insert=first(2)", "first takes no number"),
        ("insert=lag(2)", "lag takes no number"),
        ("insert=quorum(0)", "at least one input"),
        ("stable=lag(-1)", "expected insert="),
        ("insert=first,insert=leading", "insert is there twice"),
        ("adjust=sometimes", "use at_stable, at_once, leading"),
        ("insert=fully_frozen,adjust=at_once", "never changes"),
    ],
)
def test_a_policy_that_means_nothing_is_refused(text: str, message: str) -> None:
    with pytest.raises(typer.BadParameter) as caught:
        parse_policy(text)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("src", "expected NAME:TYPE, found 'src'"),
        ("src:string,", "expected NAME:TYPE, found ''"),
        ("src:int", "int32 or int64"),
        ("src:text", "Arrow knows no type 'text'"),
        ("a:int8,a:int8", "column 'a' is there twice"),
        ("_vs:int64", "do not start with _"),
    ],
)
def test_columns_that_cannot_be_are_refused(text: str, message: str) -> None:
    with pytest.raises(typer.BadParameter) as caught:
        parse_schema(text)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    "options",
    [
        ["--case", "r5"],
        ["--policy", "insert=quorum"],
        ["--schema", "src"],
        ["--out", "x.arrow"],
        ["--order", "by-vs"],
    ],
)
def test_wrong_usage_could_not_run_and_says_why(
    options: list[str], gapless: Gapless, write: Write
) -> None:
    outcome = gapless("merge", write("attach a"), *options)
    assert (outcome.code, outcome.out) == (2, "")
    assert "Error: " in outcome.err


# -- files ----------------------------------------------------------------------------------------


def record(path: Path, frames: list[Frame], form: str) -> Path:
    """Writes a stream down in one of the forms that are read."""
    schema = frames[0].schema
    if form == "journal":
        journal = JournalFile(LocalDisk(path.parent), path.name, schema)
        for frame in frames:
            journal.append(frame, Incarnation(1, 1))
    elif form == "stream":
        with Recorder(path, schema) as recorder:
            for frame in frames:
                recorder.write(frame)
    else:
        with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, schema.arrow) as writer:
            for frame in frames:
                t = frame.stable
                metadata = None if t is None else {"gapless.stable": "inf" if t == INF else str(t)}
                writer.write_batch(frame.batch, custom_metadata=metadata)
    return path


FORMS = ["journal", "stream", "file"]


def streams(seed: int, n: int = 3) -> tuple[Tdb, list[list[Frame]]]:
    rng = random.Random(seed)
    tdb = random_tdb(rng, DEFAULT_SCHEMA, PAYLOADS)
    return tdb, [tell(tdb, random_telling(rng), i) for i in range(n)]


@pytest.mark.parametrize("form", FORMS)
def test_a_recording_reads_back_as_it_was_told(form: str, tmp_path: Path) -> None:
    _, (frames, *_) = streams(1)
    recording = Recording(record(tmp_path / "a", frames, form))
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
    for frame in Recording(out).frames():
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
    paths = [record(tmp_path / "bad", bad, "journal"), record(tmp_path / "good", good, "journal")]
    outcome = gapless("merge", "--files", *paths)
    assert outcome.code == 1
    assert f"frame 2, of {paths[0]}: {paths[0]} is detached: ins(A,1,2)" in outcome.err
    assert outcome.out.endswith("stable(inf)\n")


def test_a_recording_without_rows_takes_the_schema_of_the_one_before(
    gapless: Gapless, tmp_path: Path
) -> None:
    full = [Frame.from_elements(DEFAULT_SCHEMA, parse("ins(A,1,2) stable(inf)"))]
    none = [Frame.from_elements(DEFAULT_SCHEMA, parse("stable(1)"))]
    paths = [record(tmp_path / "full", full, "journal"), record(tmp_path / "none", none, "journal")]
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
        recordings = [Recording(path) for path in paths]
        found = interleave(recordings, by_vs, lambda: steps.append(None), 7)
        text = " ".join(format(frame.elements()) for _, frame in found)
        assert len(steps) == 7  # the progress bar came to its end
        return text

    assert merged(False) == "ins(A,1,9) ins(B,5,9) ins(A,8,9) ins(B,2,9) stable(9)"
    assert merged(True) == "ins(A,1,9) ins(B,5,9) ins(B,2,9) ins(A,8,9) stable(9)"


def test_a_torn_journal_is_merged_as_far_as_it_goes_and_named(
    gapless: Gapless, tmp_path: Path
) -> None:
    _, (frames, *_) = streams(1)
    path = record(tmp_path / "a", frames, "journal")
    path.write_bytes(path.read_bytes()[:-10])
    outcome = gapless("merge", "--files", path)
    assert outcome.code == 1
    assert "is torn" in outcome.err
    assert outcome.out


def broken_files(tmp_path: Path) -> dict[str, bytes]:
    _, (frames, *_) = streams(1)
    journal = record(tmp_path / "j", frames, "journal").read_bytes()
    stream = record(tmp_path / "s", frames, "stream").read_bytes()
    plain = io.BytesIO()
    batch = pa.record_batch({"x": [1]})
    with pa.ipc.new_stream(plain, batch.schema) as writer:
        writer.write_batch(batch)
    return {
        "empty": b"",
        "text": b"attach a\n",
        "journal, header cut": journal[:40],
        "journal, first body cut": journal[:100],
        "journal, first body damaged": journal[:200] + b"\xff" * 40 + journal[240:],
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
        list(Recording(path).frames())


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
