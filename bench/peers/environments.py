"""An interpreter for each peer, with that engine and nothing else.

    environments = Environments.at(root, say)
    environments.python("duckdb")        root/duckdb/bin/python, made now or before

They cannot live with ours: each pins its own numpy and Arrow. What goes into one stands in
`requirements/NAME.txt`; it is made again when that changes. Packages come from where pip is
configured to look, and only a bench that was asked for its peers gets here.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from gapless.protocol.errors import Misuse

PEERS_DIR = "GAPLESS_PEERS_DIR"
"""The environment variable that says where environments and data are kept."""

INSTALL_LIMIT_S = 900
"""Flink is 300 MB to fetch; what takes longer than this hangs."""

_REQUIREMENTS = Path(__file__).parent / "requirements"
_MARK = "installed.txt"
_TAIL_LINES = 15


def work_dir() -> Path:
    """Where the peers live: $GAPLESS_PEERS_DIR, or the user's cache."""
    given = os.environ.get(PEERS_DIR)
    return Path(given) if given else Path.home() / ".cache" / "gapless-peers"


@dataclass(frozen=True)
class Environments:
    """Virtual environments, by the engine's name."""

    root: Path
    say: Callable[[str], None]
    """Told before anything that takes long."""

    def python(self, engine: str) -> Path:
        """The interpreter that has `engine`. Raises `Misuse` where it cannot be made."""
        home = self.root / engine
        python = home / "bin" / "python"
        wanted = (_REQUIREMENTS / f"{engine}.txt").read_text()
        mark = home / _MARK
        if python.exists() and mark.exists() and mark.read_text() == wanted:
            return python
        if engine == "flink" and shutil.which("java") is None:
            raise Misuse("Flink needs Java 17 on PATH, and there is no java")
        names = ", ".join(wanted.split())
        self.say(f"installing {names} into {home}")
        self._run([sys.executable, "-m", "venv", "--clear", str(home)], f"make {home}")
        pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        listed = str(_REQUIREMENTS / f"{engine}.txt")
        self._run([*pip, "--requirement", listed], f"install {names}")
        mark.write_text(wanted)
        return python

    @staticmethod
    def _run(command: Sequence[str], what: str) -> None:
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, timeout=INSTALL_LIMIT_S, check=False
            )
        except subprocess.TimeoutExpired:
            raise Misuse(f"could not {what} within {INSTALL_LIMIT_S} s") from None
        if done.returncode:
            tail = "\n".join(done.stderr.splitlines()[-_TAIL_LINES:])
            raise Misuse(f"could not {what}; without --with-peers the bench needs none:\n{tail}")
