"""One run of a peer's program: a process of its own, with a limit to its time.

    run(python, "run_duckdb.py", ["w1", "parquet", data, out, "2"])     {"seconds": 0.72, ...}

A program prints its report, one JSON object, as the last line of its output. What overruns is
killed, by its number: the process, all that it has started, and their process group. Flink starts
a Java process, which would otherwise go on without anybody.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import psutil

from gapless.protocol.errors import Misuse

RUN_LIMIT_S = 120
"""The slowest, Flink on W1, takes 15 s on a quiet machine with two cores."""

PROGRAMS = Path(__file__).parent
_TAIL_LINES = 15


def run(
    python: Path, program: str, arguments: Sequence[str], limit_s: float = RUN_LIMIT_S
) -> dict[str, Any]:
    """What the program reports. Raises `Misuse`, with the end of its errors, where it fails."""
    command = [str(python), str(PROGRAMS / program), *arguments]
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        cwd=os.sep,  # nothing that lies here is imported by chance
    )
    shown = f"{program} {arguments[0]}"
    overran = threading.Event()

    def stop() -> None:
        overran.set()
        end(process)

    limit = threading.Timer(limit_s, stop)
    limit.start()
    try:
        out, errors = process.communicate()
    finally:
        limit.cancel()
        end(process)
    if overran.is_set():
        raise Misuse(f"peer {shown} was still running after {limit_s:g} s")
    lines = [line for line in out.splitlines() if line.startswith("{")]
    if process.returncode or not lines:
        tail = "\n".join(errors.splitlines()[-_TAIL_LINES:])
        raise Misuse(f"peer {shown} failed with exit code {process.returncode}:\n{tail}")
    report: dict[str, Any] = json.loads(lines[-1])
    return report


def end(process: subprocess.Popen[str]) -> None:
    """Ends a process that leads its group, if it still runs, and all that it has started."""
    if process.poll() is not None:
        return
    started = psutil.Process(process.pid).children(recursive=True)
    os.killpg(process.pid, signal.SIGKILL)
    for child in started:  # those that have left the group
        if child.is_running():
            child.kill()
    process.wait()
