"""`gapless merge`: the paper's tables as they stand in examples/, options, scripts, exits."""

from __future__ import annotations

import io
import shlex
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import typer

from gapless.commands.merge_options import parse_policy
from gapless.commands.options import parse_schema
from gapless.merge.lmerge import LMerge
from gapless.merge.policy import Policy, lag, quorum
from gapless.protocol.frame import Frame
from tests.gapless.command import Gapless, Outcome

EXAMPLES = Path(__file__).parents[2] / "examples" / "merge"


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
