"""docs/testing.md holds: what it shows is of the examples, and pytest prints what it says."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from gapless.chaos.sim.simulation import SEEDS
from gapless.testing import drill, simulate
from tests.effort import cases

ROOT = Path(__file__).parents[2]
MANUAL = (ROOT / "docs" / "testing.md").read_text("utf-8")
EXAMPLES = ROOT / "examples" / "testing"
SECONDS = 120


def blocks(language: str) -> list[str]:
    """The manual's blocks of a language, in order."""
    return re.findall(rf"```{language}\n(.*?)```", MANUAL, re.DOTALL)


FLAWED, TEST, MENDED, *_ = blocks("python")
SAID, *_ = blocks("text")


def without_header(file: str) -> str:
    """A file's text behind its docstring, which is for readers of the file alone."""
    text = (EXAMPLES / file).read_text("utf-8")
    return text[text.index('"""', 3) + 3 :].lstrip("\n")


def run_pytest(folder: Path, payments: str, *options: str) -> subprocess.CompletedProcess[str]:
    """What a reader does: two files of the examples, and the manual's command."""
    (folder / "payments.py").write_text(without_header(payments))
    (folder / "test_payments.py").write_text(without_header("test_payments.py"))
    (folder / "pytest.ini").write_text("[pytest]\n")
    return subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-p",
            "no:cacheprovider",
            "-m",
            "not gapless_ray",
            *options,
        ],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )


@pytest.mark.parametrize(
    ("block", "file"),
    [(FLAWED, "payments_flawed.py"), (TEST, "test_payments.py"), (MENDED, "payments.py")],
)
def test_what_the_manual_shows_is_of_the_examples(block: str, file: str) -> None:
    assert block in without_header(file)


def test_the_query_with_the_bug_is_shown_whole() -> None:
    assert without_header("payments_flawed.py") == FLAWED


def test_the_query_with_the_bug_fails_as_the_manual_shows(tmp_path: Path) -> None:
    done = run_pytest(tmp_path, "payments_flawed.py")
    told = [line for line in done.stdout.splitlines() if line.startswith("E  ")]
    assert "\n".join(told) == SAID.rstrip("\n"), "put what is printed now into docs/testing.md"
    assert "1 failed, 1 passed, 1 deselected" in done.stdout


def test_the_mended_query_passes(tmp_path: Path) -> None:
    seeds = f"--gapless-seeds={cases(SEEDS)}"
    done = run_pytest(tmp_path, "payments.py", seeds)
    assert "2 passed, 1 deselected" in done.stdout


@pytest.mark.parametrize("function", [simulate, drill])
def test_every_argument_is_in_the_manual(function: object) -> None:
    code = function.__code__  # type: ignore[attr-defined]  # a plain function
    names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    assert [name for name in names if f"`{name}`" not in MANUAL] == []


def test_the_manual_has_every_option_and_no_other() -> None:
    plugin = (ROOT / "src" / "gapless" / "pytest_plugin.py").read_text("utf-8")
    options = set(re.findall(r'^ +"(--gapless-[a-z]+)",$', plugin, re.MULTILINE))
    assert len(options) == 4
    assert set(re.findall(r"`(--gapless-[a-z]+)", MANUAL)) == options
    for written in ("gapless_seeds", "gapless_reports"):
        assert f'"{written}"' in plugin
        assert f"`{written}`" in MANUAL
