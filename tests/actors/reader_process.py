"""A subscriber in a process of its own, which may be killed at any moment and started again.

    python -m tests.actors.reader_process JOB ADDRESS FILE

FILE gets a line for each frame: the token behind it, and its rows. Both are in one line, so that a
part of a line is the only thing that a death can leave; what starts again takes that away and
resumes at the token of the last whole line. So the file has each final event once.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import gapless as gl
from tests.actors.plain_answers import Event

AGAIN_S = 0.1
"""Between two tries to reach a job that is away."""
WAIT_S = 60.0
END = "end"
"""The token of the last line."""


class Lines:
    """The file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def cut(self) -> None:
        """Takes away what a death has left of a line."""
        if self.path.exists():
            data = self.path.read_bytes()
            os.truncate(self.path, data.rfind(b"\n") + 1)

    def add(self, token: str, events: list[Event]) -> None:
        """One line more, all of it at once."""
        with self.path.open("ab", buffering=0) as file:
            file.write(json.dumps([token, events]).encode() + b"\n")

    def __iter__(self) -> Iterator[tuple[str, list[Event]]]:
        whole = self.path.read_bytes().rpartition(b"\n")[0] if self.path.exists() else b""
        for line in whole.splitlines():
            token, events = json.loads(line)
            yield token, [(tuple(payload), begin, end) for payload, begin, end in events]

    @property
    def token(self) -> str:
        """Where to go on."""
        return next(reversed([token for token, _ in self]), "earliest")


class Reader:
    """The process, for tests that start and kill it."""

    def __init__(self, job: str, address: str, path: Path) -> None:
        self.lines = Lines(path)
        self._command = [sys.executable, "-m", "tests.actors.reader_process", job, address]
        self._process: subprocess.Popen[bytes] | None = None
        self.start()

    def start(self) -> None:
        """Goes on."""
        where = Path(__file__).parents[2]
        command = [*self._command, str(self.lines.path)]
        self._process = subprocess.Popen(command, cwd=where)

    def kill(self) -> None:
        """It dies in whatever it does."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    @property
    def has_ended(self) -> bool:
        """Whether it has read all; a process that fails raises."""
        assert self._process is not None
        assert self._process.poll() in (None, 0)
        return self.lines.token == END

    def end(self) -> None:
        """It has read all, or nobody needs it any more."""
        assert self._process is not None
        if self.lines.token == END:
            self._process.wait(WAIT_S)
        self.kill()

    def events(self) -> list[Event]:
        """All that it has."""
        return [event for _, events in self.lines for event in events]


def events_of(frame: gl.Frame) -> list[Event]:
    """Inserts as payload, begin and end."""
    payloads = zip(*(column.to_pylist() for column in frame.payload.columns), strict=True)
    times = zip(frame.vs.tolist(), frame.ve.tolist(), strict=True)
    return [(p, *t) for p, t in zip(payloads, times, strict=True)]


def follow(name: str, address: str, lines: Lines) -> None:
    """Reads to the end, whatever happens to the job."""
    while True:
        try:
            job = gl.attach(name, address=address)
            with job.subscribe(deliver="final", start=lines.token) as subscription:
                for frame in subscription:
                    lines.add(subscription.token, events_of(frame))
        except gl.GaplessError as e:
            sys.stderr.write(f"reader of {name}: {e}\n")
            time.sleep(AGAIN_S)
        else:
            lines.add(END, [])
            return


if __name__ == "__main__":
    its_job, its_address, its_path = sys.argv[1:]
    its_lines = Lines(Path(its_path))
    its_lines.cut()
    if its_lines.token != END:
        follow(its_job, its_address, its_lines)
