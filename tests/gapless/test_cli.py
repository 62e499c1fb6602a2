"""The command line: exit codes, JSON on stdout alone, errors that are one sentence, quick help."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from importlib import metadata
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import typer.main

from gapless.bench import harness
from gapless.bench.harness import Context, Row
from gapless.cli import app
from gapless.commands import terminal
from gapless.doctor import Check, Verdict
from gapless.protocol.errors import Misuse
from tests.gapless.command import Gapless, Outcome

HEAVY = {"ray", "pyspark", "pandas", "grpc"}
"""Packages that take a second to import, and that no help text needs."""


# -- every command -------------------------------------------------------------------------------


def leaves(command: Any, path: str = "gapless") -> Iterator[tuple[str, Any]]:
    for name, child in command.commands.items():
        if hasattr(child, "commands"):
            yield from leaves(child, f"{path} {name}")
        else:
            yield f"{path} {name}", child


COMMANDS = dict(leaves(typer.main.get_command(app)))


@pytest.mark.parametrize("path", COMMANDS)
def test_every_command_offers_json(path: str) -> None:
    assert "--json" in [option for p in COMMANDS[path].params for option in p.opts]


@pytest.mark.parametrize("path", COMMANDS)
def test_every_command_says_what_it_is_for_in_a_line_that_the_list_shows_whole(
    path: str, gapless: Gapless
) -> None:
    group = gapless(*path.split()[1:-1], "--help")
    summary = COMMANDS[path].help.splitlines()[0]
    assert summary in group.out


def test_only_commands_that_exist_are_offered() -> None:
    assert set(COMMANDS) == {
        "gapless doctor",
        "gapless bench",
        "gapless demo",
        "gapless chaos list",
        "gapless chaos replay",
        "gapless chaos run",
        "gapless chaos soak",
        "gapless chaos sim",
        "gapless merge",
        "gapless ingest",
        "gapless prepare",
        "gapless run",
        "gapless explain",
        "gapless sql",
        "gapless status",
        "gapless stop",
        "gapless cutover",
        "gapless sidecar remove",  # and itself, which is a group
        "gapless push",
        "gapless tail",
        "gapless generate quotes",
        "gapless generate dhcp",
        "gapless generate nexmark",
        "gapless generate netflow",
        "gapless journal show",
        "gapless journal verify",
        "gapless journal export",
        "gapless journal trim",
    }


def test_the_version_is_that_of_the_package(gapless: Gapless) -> None:
    assert gapless("--version") == Outcome(0, f"gapless {metadata.version('gapless')}\n", "")


@pytest.mark.parametrize(
    "arguments",
    [
        ["fly"],
        ["bench", "--jump"],
        ["bench", "kernel", "--all"],
        ["bench", "--all", "--list"],
        ["chaos", "sim", "--seeds", "0"],
        ["chaos", "sim", "--seeds", "99999999999999999999"],
        ["chaos", "sim", "--seeds", "3", "--seed", "1", "--trace"],
        ["chaos", "sim", "--workload", "no"],
        ["chaos", "sim", "--jobs", "0"],
        ["chaos", "sim", "--trace"],
    ],
)
def test_wrong_usage_could_not_run_and_says_why(arguments: list[str], gapless: Gapless) -> None:
    outcome = gapless(*arguments)
    assert outcome.code == 2
    assert outcome.out == ""
    assert "Error: " in outcome.err


def test_help_waits_for_no_heavy_package() -> None:
    program = f"import sys, gapless.cli; print(sorted({HEAVY!r} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    assert done.stdout.strip() == b"[]"


# -- bench ---------------------------------------------------------------------------------------


HELD = Row("fast", 9e6, "rows/s", bar=4e6, op=">=")
MISSED = Row("slow", 1.25, "x", bar=5, op=">=")


@pytest.fixture
def benches(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Registers benches of given rows, or of an error, in place of the real ones."""
    monkeypatch.setattr("gapless.kernels.KERNEL", "native", raising=False)

    def register(**contents: list[Row] | Exception) -> None:
        for name, content in contents.items():
            monkeypatch.setitem(sys.modules, f"fake_bench_{name}", bench_module(name, content))
        monkeypatch.setattr(harness, "BENCHES", {name: f"fake_bench_{name}" for name in contents})

    return register


def bench_module(name: str, content: list[Row] | Exception) -> ModuleType:
    module: Any = ModuleType(name)

    def run(context: Context) -> Iterator[Row]:
        if isinstance(content, Exception):
            raise content
        if context.plot_dir is not None:
            (context.plot_dir / f"{name}.svg").write_text("<svg/>")
        yield from content

    module.SUMMARY, module.run = f"what {name} is about", run
    return module  # type: ignore[no-any-return]  # Any lets us set the module's attributes


def test_a_bench_prints_a_table_of_what_it_measured(
    gapless: Gapless, benches: Callable[..., None]
) -> None:
    benches(one=[HELD, Row("to know", 123456, "bytes")])
    outcome = gapless("bench", "one")
    assert (outcome.code, outcome.err) == (0, "")
    for text in ("one", "fast", "9 M", ">= 4 M", "rows/s", "yes", "to know", "123,456", "python"):
        assert text in outcome.out


def test_a_missed_bar_is_a_problem_found(gapless: Gapless, benches: Callable[..., None]) -> None:
    benches(one=[HELD, MISSED])
    outcome = gapless("bench", "one")
    assert outcome.code == 1
    assert "MISSED" in outcome.out


def test_a_bench_prints_one_json_object(gapless: Gapless, benches: Callable[..., None]) -> None:
    benches(one=[HELD, MISSED])
    outcome = gapless("bench", "one", "--json")
    assert outcome.code == 1
    assert outcome.err == ""
    assert outcome.document["bench"] == "one"
    assert [row["holds"] for row in outcome.document["rows"]] == [True, False]


def test_a_quick_bench_finds_no_problem(gapless: Gapless, benches: Callable[..., None]) -> None:
    benches(one=[MISSED])
    outcome = gapless("bench", "one", "--quick")
    assert outcome.code == 0
    assert ">= 5" not in outcome.out, "a bar that is not judged only misleads"
    assert gapless("bench", "one", "--quick", "--json").document["rows"][0]["holds"] is None


def test_where_the_figures_are_is_said(
    gapless: Gapless, benches: Callable[..., None], tmp_path: Path
) -> None:
    benches(one=[HELD], two=[HELD])
    assert gapless("bench", "one", "--plot", tmp_path).out.endswith(f"1 figure in {tmp_path}\n")
    assert gapless("bench", "--all", "--plot", tmp_path).out.endswith(f"2 figures in {tmp_path}\n")
    assert "figure" not in gapless("bench", "one").out


def test_a_bench_is_told_whether_peers_are_wanted_and_what_it_says_goes_to_stderr(
    gapless: Gapless, benches: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    benches(one=[HELD])

    def run(context: Context) -> Iterator[Row]:
        if context.with_peers:
            context.say("installing a peer")
        yield HELD

    monkeypatch.setattr(sys.modules["fake_bench_one"], "run", run)
    assert gapless("bench", "one", "--with-peers").err == "installing a peer\n"
    assert gapless("bench", "one").err == ""


def test_a_bench_that_ends_early_says_what_it_has_measured(
    gapless: Gapless, benches: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    benches(one=[HELD])

    def run(_: Context) -> Iterator[Row]:
        yield HELD
        raise Misuse("the cluster is gone")

    monkeypatch.setattr(sys.modules["fake_bench_one"], "run", run)
    outcome = gapless("bench", "one")
    assert outcome.code == 2
    first, last = outcome.err.splitlines()
    assert first.startswith(f"{HELD.name}: ")
    assert last == "gapless: the cluster is gone"


def test_all_benches_make_one_report(gapless: Gapless, benches: Callable[..., None]) -> None:
    benches(one=[HELD], two=[MISSED])
    outcome = gapless("bench", "--all", "--json")
    assert outcome.code == 1
    assert [report["bench"] for report in outcome.document["reports"]] == ["one", "two"]
    assert outcome.document["could_not_run"] == {}


def test_a_bench_that_cannot_run_leaves_the_report_of_the_others(
    gapless: Gapless, benches: Callable[..., None]
) -> None:
    benches(a=Misuse("give it a peer"), b=[HELD])
    outcome = gapless("bench", "--all")
    assert outcome.code == 2
    assert "fast" in outcome.out
    assert outcome.err == "gapless: bench a could not run: give it a peer\n"


@pytest.mark.parametrize("arguments", [["bench"], ["bench", "--list"]])
def test_the_benches_are_listed_with_what_they_are_about(
    arguments: list[str], gapless: Gapless, benches: Callable[..., None]
) -> None:
    benches(one=[HELD], two=[HELD])
    outcome = gapless(*arguments)
    assert outcome.code == 0
    assert [line.split(maxsplit=1) for line in outcome.out.splitlines()] == [
        ["one", "what one is about"],
        ["two", "what two is about"],
    ]
    listed = gapless(*arguments, "--json").document
    assert listed[0] == {"bench": "one", "summary": "what one is about"}


def test_figures_are_drawn_into_a_directory_that_is_made_if_it_is_missing(
    gapless: Gapless, benches: Callable[..., None], tmp_path: Path
) -> None:
    benches(one=[HELD])
    assert gapless("bench", "one", "--plot", str(tmp_path / "new" / "figures")).code == 0
    assert (tmp_path / "new" / "figures" / "one.svg").exists()


def test_a_plot_directory_that_cannot_be_made_is_wrong_usage(
    gapless: Gapless, benches: Callable[..., None], tmp_path: Path
) -> None:
    benches(one=[HELD])
    (tmp_path / "file").touch()
    outcome = gapless("bench", "one", "--plot", str(tmp_path / "file" / "figures"))
    assert outcome.code == 2
    assert "cannot make that directory" in outcome.err


def test_an_error_of_ours_is_one_sentence_on_stderr(
    gapless: Gapless, benches: Callable[..., None]
) -> None:
    benches(one=Misuse("the size is 0; give one above it"))
    assert gapless("bench", "one") == Outcome(2, "", "gapless: the size is 0; give one above it\n")


def test_an_unexpected_error_keeps_its_traceback_and_is_not_taken_for_a_finding(
    gapless: Gapless, benches: Callable[..., None]
) -> None:
    benches(one=ZeroDivisionError("of all things"))
    outcome = gapless("bench", "one")
    assert outcome.code == 2
    assert outcome.err.startswith("Traceback (most recent call last)")
    assert outcome.err.endswith("ZeroDivisionError: of all things\n")


def test_progress_is_shown_only_when_a_person_watches(
    gapless: Gapless, benches: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    benches(one=[HELD])
    assert gapless("bench", "one", "--json").err == ""
    monkeypatch.setattr(terminal, "is_watched", lambda: True)
    monkeypatch.setenv("TTY_COMPATIBLE", "1")
    watched = gapless("bench", "one", "--json")
    assert "measuring one" in watched.err
    assert watched.document["bench"] == "one"


# -- doctor --------------------------------------------------------------------------------------


@pytest.fixture
def checks(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Puts checks of given verdicts in place of the real ones."""

    def install(*verdicts: Verdict) -> None:
        fakes = [
            Check(f"check {number}", lambda: None, lambda _, verdict=verdict: verdict)  # type: ignore[misc]  # a lambda's default has no annotation
            for number, verdict in enumerate(verdicts)
        ]
        monkeypatch.setattr("gapless.doctor.checks_of", lambda _: tuple(fakes))

    return install


FINE = Verdict("ok", "17 [of them]")
ILL = Verdict("problem", "3", "have 4 or more")
DARK = Verdict("unknown", "may not look", "run it as root")


def test_the_doctor_says_each_finding_and_its_advice_in_a_line(
    gapless: Gapless, checks: Callable[..., None]
) -> None:
    checks(FINE, ILL, DARK)
    assert gapless("doctor").out.splitlines() == [
        "ok       check 0        17 [of them]",
        "problem  check 1        3; have 4 or more",
        "unknown  check 2        may not look; run it as root",
    ]


@pytest.mark.parametrize(
    ("verdicts", "code"),
    [((FINE, FINE), 0), ((FINE, ILL), 1), ((DARK, FINE), 2), ((DARK, ILL, FINE), 1)],
)
def test_the_doctor_exits_with_what_it_found(
    verdicts: tuple[Verdict, ...], code: int, gapless: Gapless, checks: Callable[..., None]
) -> None:
    checks(*verdicts)
    assert gapless("doctor").code == code
    assert gapless("doctor", "--json").code == code


def test_the_doctor_as_json_is_a_list_of_findings(
    gapless: Gapless, checks: Callable[..., None]
) -> None:
    checks(FINE, ILL)
    assert gapless("doctor", "--json").document == [
        {"check": "check 0", "status": "ok", "found": "17 [of them]", "advice": None},
        {"check": "check 1", "status": "problem", "found": "3", "advice": "have 4 or more"},
    ]


def test_a_long_line_of_the_doctor_is_not_broken(
    gapless: Gapless, checks: Callable[..., None]
) -> None:
    checks(Verdict("ok", "x" * 500))
    assert len(gapless("doctor").out.splitlines()) == 1


@pytest.mark.parametrize(("findings", "code"), [(0, 0), (1, 1)])
def test_a_command_whose_output_nobody_reads_ends_with_its_own_verdict(
    findings: int, code: int
) -> None:
    program = f"""
import sys, time, typer
from gapless import cli
from gapless.commands.terminal import output, print_json
def command():
    typer.echo("x" * 100_000)
    output().print("y" * 100_000)
    print_json(["z"])
    raise typer.Exit({findings})
cli.app.command()(command)
sys.argv = ["gapless", "command"]
sys.stdin.read()
cli.main()
"""
    pipe = subprocess.PIPE
    command = [sys.executable, "-c", program]
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True) as child:
        assert child.stdout is not None
        child.stdout.close()
        assert (child.communicate()[1], child.returncode) == ("", code)
