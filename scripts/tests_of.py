"""Answers "which test holds this?" from what `make coverage` has recorded: tests_of.py FILE[:LINE].

    make tests-of FILE=merge/r3.py          files of tests, those that run most of it first
    make tests-of FILE=merge/r3.py:120      tests that run this line, the most specific first

A test is specific if most of what it runs is in FILE. Only what runs in the test's own process is
recorded: a line that only a job's processes or a command's run has no test here.
"""

import sys
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from coverage import CoverageData

ROOT = Path(__file__).parent.parent
SHOWN = 30
"""Lines of an answer: what comes behind them is less specific."""


@dataclass(frozen=True)
class Hit:
    """A test, or a file of tests, that runs lines of FILE."""

    name: str
    lines: int
    """Lines of FILE that it runs."""
    elsewhere: int
    """Lines of other files that it runs."""

    @property
    def share(self) -> float:
        """Of the lines that it runs, those in FILE."""
        return self.lines / (self.lines + self.elsewhere)


def hits(
    lines_of: Mapping[str, Mapping[str, frozenset[int]]], file: str, line: int | None = None
) -> list[Hit]:
    """The tests that run a file, or a line of it, from the lines that each test runs."""
    found = []
    for test, files in lines_of.items():
        mine = files.get(file, frozenset())
        if mine and (line is None or line in mine):
            elsewhere = sum(len(lines) for name, lines in files.items() if name != file)
            found.append(Hit(test, len(mine), elsewhere))
    return sorted(found, key=lambda hit: (-hit.share, hit.name))


def by_file(
    lines_of: Mapping[str, Mapping[str, frozenset[int]]],
) -> dict[str, dict[str, frozenset[int]]]:
    """The same for files of tests: what their tests run together."""
    merged: dict[str, dict[str, frozenset[int]]] = defaultdict(dict)
    for test, files in lines_of.items():
        mine = merged[test.partition("::")[0]]
        for name, lines in files.items():
            mine[name] = mine.get(name, frozenset()) | lines
    return dict(merged)


def recorded(data: CoverageData, file: str) -> dict[str, dict[str, frozenset[int]]]:
    """Of each test that runs a file: the lines of every file that it runs."""
    tests = {context for contexts in data.contexts_by_lineno(file).values() for context in contexts}
    lines_of: dict[str, dict[str, set[int]]] = {test: defaultdict(set) for test in tests if test}
    for name in data.measured_files():
        for line, contexts in data.contexts_by_lineno(name).items():
            for test in contexts:
                if test in lines_of:
                    lines_of[test][name].add(line)
    merged: dict[str, dict[str, set[int]]] = defaultdict(lambda: defaultdict(set))
    for (
        context,
        files,
    ) in lines_of.items():  # a context is a test and its phase: phases are one
        for name, lines in files.items():
            merged[context.partition("|")[0]][name] |= lines
    return {
        test: {name: frozenset(lines) for name, lines in files.items()}
        for test, files in merged.items()
    }


def told(found: Iterable[Hit]) -> list[str]:
    """One line each, as many as a person reads."""
    every = list(found)
    lines = [f"{hit.lines:5} lines, {hit.share:4.0%} of what it runs  {hit.name}" for hit in every]
    rest = [f"... and {len(every) - SHOWN} more"] if len(every) > SHOWN else []
    return lines[:SHOWN] + rest


def main(*arguments: str) -> str | None:
    """None where it has answered; else what is missing."""
    if len(arguments) != 1:
        return (
            "say which file: make tests-of FILE=merge/r3.py, or a line of it, FILE=merge/r3.py:120"
        )
    name, _, number = arguments[0].partition(":")
    if number and not number.isdecimal():
        return f"{number} is no line: make tests-of FILE={name}:120"
    recording = ROOT / ".coverage"
    if not recording.exists():
        return "nothing is recorded yet: run `make coverage` first"
    data = CoverageData(str(recording))
    data.read()
    file = str((ROOT / name).resolve())
    if file not in data.measured_files():
        return f"{name} is not recorded: a path from the repository's root, as in merge/r3.py"
    lines_of = recorded(data, file)
    found = hits(lines_of, file, int(number)) if number else hits(by_file(lines_of), file)
    if not found:
        return f"no test runs {arguments[0]} in its own process"
    print(*told(found), sep="\n")
    return None


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
