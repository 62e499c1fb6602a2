"""What the tests of commands share: `gapless`, which runs one."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from gapless.cli import main
from tests.gapless.command import Gapless, Outcome
from tests.gapless.ingested import SCHEMA_TOML


@pytest.fixture
def gapless(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Gapless:
    """Runs the command line in this process."""

    def run(*arguments: str | Path) -> Outcome:
        monkeypatch.setattr(sys, "argv", ["gapless", *map(str, arguments)])
        with pytest.raises(SystemExit) as end:
            main()
        captured = capsys.readouterr()
        code = end.value.code
        return Outcome(0 if code is None else int(code), captured.out, captured.err)

    return run


@pytest.fixture
def schema(tmp_path: Path) -> Path:
    """A file with the columns of what the tests of `gapless ingest` write."""
    path = tmp_path / "schema.toml"
    path.write_text(SCHEMA_TOML)
    return path
