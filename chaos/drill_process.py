"""A drill in a process of its own: whatever a lost cluster does to it, the one who asked goes on.

    gapless chaos run  ==> python -m gapless.chaos.drill_process JSON     one for each scenario
                      <--  {"say": "the job is whole"} ...                a line each
    the report's directory, with its verdicts.json                        what came of it

When its pipe ends it ends the drill as if it was interrupted: nothing is left.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NoReturn

from gapless.chaos.broken import BROKEN_BUILDS
from gapless.chaos.drill import Drill, Say, seeded, versions
from gapless.chaos.outcome import Held, Outcome, Strike
from gapless.chaos.report import write_report
from gapless.chaos.scenario import Scenario, loaded
from gapless.protocol.errors import GaplessError, JobError, Misuse

SPARE_S = 400.0
"""How much longer than its timeline a drill may take: starting, draining, judging, ending."""
LEAVE_S = 60.0
"""How long one that is told to end may take to leave nothing behind."""
WELL, NOT_WELL, NOT_RUN, INTERRUPTED = 0, 1, 2, 3
"""How the process exits."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What to run."""

    scenario: str
    """A name of the library, or a file."""
    folder: str
    """Where its report goes."""
    seed: int | None = None
    broken: str | None = None
    minutes: float | None = None
    """Of one with faults at random: for so long instead."""

    def read(self) -> Scenario:
        """The scenario, with what is wanted of it. Raises `Misuse` where it cannot be run."""
        scenario = seeded(loaded(self.scenario), self.seed)
        if self.minutes is not None:
            scenario = scenario.lasting(self.minutes)
        if self.broken is not None and self.broken not in BROKEN_BUILDS:
            raise Misuse(
                f"there is no broken build {self.broken!r}; there are: {', '.join(BROKEN_BUILDS)}"
            )
        scenario.check()
        return scenario


def run_apart(wanted: Wanted, say: Say) -> Outcome:
    """Plays a scenario in a process of its own; returns once nothing of it is left.

    Raises `Misuse` before anything starts, and what interrupts it after everything has ended.
    """
    limit_s = wanted.read().seconds_at_most + SPARE_S
    code = watch("gapless.chaos.drill_process", json.dumps(_document(wanted)), limit_s, say)
    return read_outcome(Path(wanted.folder), code)


def watch(module: str, argument: str, limit_s: float, say: Say) -> int:
    """Runs a program that says lines of its own; how it exits. Nothing of it is left then."""
    process = subprocess.Popen(
        [sys.executable, "-m", module, argument],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,  # a person's Ctrl-C is for us: we tell it
    )
    timer = threading.Timer(limit_s, process.kill)
    timer.start()
    try:
        for line in process.stdout or ():
            say(json.loads(line)["say"])
        process.wait(LEAVE_S)
    finally:
        timer.cancel()
        _leave(process)
    return process.returncode


def _leave(process: subprocess.Popen[str]) -> None:
    """Has it end, which ends all that it has started."""
    if process.stdin is not None:
        process.stdin.close()
    try:
        process.wait(LEAVE_S)
    except subprocess.TimeoutExpired:
        process.kill()  # its keepers see its pipes end
        process.wait(LEAVE_S)
    if process.stdout is not None:
        process.stdout.close()


def _document(wanted: Wanted) -> dict[str, Any]:
    return {name: getattr(wanted, name) for name in Wanted.__dataclass_fields__}


def read_outcome(folder: Path, code: int | None = None) -> Outcome:
    """What a drill has left in its report."""
    try:
        document = json.loads((folder / "verdicts.json").read_text("utf-8"))
    except (OSError, ValueError) as e:
        raise JobError(f"the drill has left no verdict in {folder} (exit {code}): {e}") from None
    document.pop("is_well")
    document["strikes"] = tuple(Strike(**each) for each in document["strikes"])
    document["held"] = tuple(Held(**each) for each in document["held"])
    document["judgement"] = tuple(document["judgement"])
    return Outcome(**document)


def unplayed(wanted: Wanted, why: str) -> Outcome:
    """What came of a drill that has left no verdict."""
    scenario = wanted.read()
    return Outcome(
        name=scenario.name,
        about=scenario.about,
        seed=scenario.seed,
        began=datetime.now(UTC).isoformat(timespec="seconds"),
        seconds=0.0,
        config={**scenario.document(), "broken": wanted.broken},
        versions=versions(),
        strikes=(),
        held=(),
        problem=why,
    )


# -- in the process itself -------------------------------------------------------------------------


def _interrupt(*_: object) -> None:
    """The first ends the drill; those after it wait for that."""
    for each in (signal.SIGINT, signal.SIGTERM):
        signal.signal(each, signal.SIG_IGN)
    raise KeyboardInterrupt


def _end_with_pipe() -> None:
    """Interrupts this process when nobody holds the other end of its pipe any more: its main
    thread, as a signal that another one gets would not wake it up.
    """
    main_thread = threading.get_ident()

    def wait() -> None:
        sys.stdin.read()
        signal.pthread_kill(main_thread, signal.SIGINT)

    threading.Thread(target=wait, name="pipe", daemon=True).start()


def play(folder: Path, make: Callable[[Say], Drill]) -> int:
    """Runs a drill, made by `make` of whom to tell, and leaves its report; the exit code."""
    lines = os.fdopen(os.dup(sys.stdout.fileno()), "w", buffering=1)
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # whatever Ray prints is no line of ours

    def say(what: str) -> None:
        try:
            lines.write(json.dumps({"say": what}) + "\n")
        except BrokenPipeError:
            return  # nobody listens any more; the pipe that has ended says so, too

    for each in (signal.SIGINT, signal.SIGTERM):
        signal.signal(each, _interrupt)
    _end_with_pipe()
    try:
        drill = make(say)
    except GaplessError as e:
        say(str(e))
        raise
    outcome = drill.run()
    write_report(folder, outcome, drill.record)
    return WELL if outcome.is_well else NOT_WELL


def end_with(run: Callable[[], int]) -> NoReturn:
    """Ends this process with what `run` gives, or with why it gives nothing."""
    try:
        code = run()
    except KeyboardInterrupt:
        code = INTERRUPTED
    except GaplessError as e:
        sys.stderr.write(f"{e}\n")
        code = NOT_RUN
    sys.stdout.flush()
    os._exit(code)  # threads of a cluster that is lost may never end


def main(document: dict[str, Any]) -> int:
    """Runs the drill that is wanted."""
    wanted = Wanted(**document)
    return play(
        Path(wanted.folder), lambda say: Drill(wanted.read(), broken=wanted.broken, say=say)
    )


if __name__ == "__main__":
    end_with(lambda: main(json.loads(sys.argv[1])))
