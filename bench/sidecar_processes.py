"""The processes that the sidecar's bench starts, and ends whatever happens."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from typing import Any, Self

import psutil

from gapless.protocol.errors import JobError

START_S = 60.0
"""How long a process may take to start on a busy machine."""
END_S = 300.0
"""How long a worker may take to come to its end."""


class Worker:
    """A process that prints one JSON document at its end."""

    def __init__(self, argument: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "gapless.bench.sidecar_worker", argument],
            stdout=subprocess.PIPE,
            text=True,
        )

    def answer(self, timeout_s: float = END_S) -> dict[str, Any]:
        """What it printed. Raises `JobError` where it failed."""
        said, _ = self.process.communicate(timeout=timeout_s)
        if self.process.returncode:
            raise JobError(f"a worker of the bench ended with {self.process.returncode}")
        answer: dict[str, Any] = json.loads(said)
        return answer

    def kill(self) -> None:
        """As a machine would that fails."""
        self.process.kill()
        self.process.wait()


class Sidecar:
    """A sidecar of its own process, on ports that stay its own over restarts."""

    def __init__(self, data: Path, *flags: str) -> None:
        self._data = data
        self._flags = flags
        self.port, self.http_port = _free_port(), _free_port()
        self.process: subprocess.Popen[str]
        self.start()

    @property
    def address(self) -> str:
        """Of gRPC."""
        return f"127.0.0.1:{self.port}"

    def start(self) -> None:
        """Starts it, and waits until it is ready."""
        self.launch()
        until = time.monotonic() + START_S
        while time.monotonic() < until and self.process.poll() is None:
            try:
                if self._get("readyz"):
                    return
            except OSError:
                time.sleep(0.02)
        raise JobError(f"the sidecar has not begun within {START_S:g} s")

    def launch(self) -> None:
        """Starts it, and does not wait."""
        self.process = subprocess.Popen(
            [
                *(sys.executable, "-c", "from gapless.cli import main; main()", "sidecar"),
                *("--listen", self.address, "--http", f"127.0.0.1:{self.http_port}"),
                *("--data", str(self._data), *self._flags),
            ],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def _get(self, path: str) -> str:
        with urllib.request.urlopen(  # of our own process
            f"http://127.0.0.1:{self.http_port}/{path}", timeout=START_S
        ) as answer:
            text: str = answer.read().decode()
            return text

    def rows_in(self) -> float:
        """Rows that it has taken in from all producers."""
        lines = self._get("metrics").splitlines()
        name = "gapless_sidecar_input_rows_total"
        return sum(float(line.rpartition(" ")[2]) for line in lines if line.startswith(name))

    def memory_bytes(self) -> int:
        """What it has resident."""
        resident: int = psutil.Process(self.process.pid).memory_info().rss
        return resident

    def kill(self) -> None:
        """As a machine would that fails."""
        self.process.kill()
        self.process.wait()

    def stop(self) -> None:
        """Asks it to drain."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            self.process.wait(START_S)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.kill()


def _free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port: int = taken.getsockname()[1]
        return port
