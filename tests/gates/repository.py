"""The files of this repository, as the gates read them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]

MADE_HERE = frozenset({"build", "dist", "plots", "fuzz-corpus"})
"""Folders that the Makefile fills; .gitignore has them too."""

HOSTED = frozenset({".ci", ".github"})
"""Hidden folders that are ours all the same: what a machine that checks changes runs."""


def files(*patterns: str, root: Path = ROOT) -> Iterator[Path]:
    """The files whose name matches a pattern: each once, none that was made here or is hidden."""
    for entry in sorted(root.iterdir()):
        if entry.is_symlink() or entry.name in MADE_HERE:
            continue
        if entry.is_dir() and (not entry.name.startswith(".") or entry.name in HOSTED):
            yield from files(*patterns, root=entry)
        elif entry.is_file() and any(map(entry.match, patterns)):
            yield entry
