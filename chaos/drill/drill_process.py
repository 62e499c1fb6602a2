"""A drill in a process of its own: whatever a lost cluster does to it, the one who asked goes on.

    gapless chaos run  ==> python -m gapless.chaos.drill.drill_process JSON     one for each
    scenario                   <--  {"say": "the job is whole"} ...                a line each
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
import traceback
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NoReturn

from gapless.chaos.drill.drill import Drill, Say, seeded, versions
from gapless.chaos.drill.means.builds import build_named
from gapless.chaos.drill.outcome import Outcome, Requirement, Strike
from gapless.chaos.drill.scenario import Scenario, loaded
from gapless.chaos.report.directory import VERDICTS, write_report
from gapless.protocol.errors import GaplessError, JobError

SPARE_S = 400.0
"""How much longer than its timeline a drill may take: starting, draining, judging, ending."""
LEAVE_S = 60.0
"""How long one that is told to end may take to leave nothing behind."""
WELL, NOT_WELL, NOT_RUN, INTERRUPTED, BROKEN = range(5)
"""How the process exits; the last where the harness itself is wrong."""


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
        if self.broken is not None:
            build_named(self.broken)
        scenario.check()
        return scenario


def run_apart(wanted: Wanted, say: Say) -> Outcome:
    """Plays a scenario in a process of its own; returns once nothing of it is left.

    Raises `Misuse` before anything starts, and what interrupts it after everything has ended.
    """
    limit_s = wanted.read().seconds_at_most + SPARE_S
    folder = Path(wanted.folder)
    forget_outcome(folder)
    code = watch("gapless.chaos.drill.drill_process", json.dumps(_document(wanted)), limit_s, say)
    return read_outcome(folder, code)


def watch(module: str, argument: str, limit_s: float, say: Say) -> int:
    """Runs a program that says lines of its own; how it exits. Nothing of it is left then.

    Raises `JobError` where it had to be killed, as it had not ended within `limit_s`.
    """
    process = subprocess.Popen(
        [sys.executable, "-m", module, argument],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,  # a person's Ctrl-C is for us: we tell it
    )
    is_late = threading.Event()

    def end_late() -> None:
        is_late.set()
        process.kill()

    timer = threading.Timer(limit_s, end_late)
    timer.start()
    try:
        for line in process.stdout or ():
            say(json.loads(line)["say"])
        with suppress(subprocess.TimeoutExpired):  # then it is made to leave
            process.wait(LEAVE_S)
    finally:
        timer.cancel()
        _leave(process)
    if is_late.is_set():
        raise JobError(f"the drill had not ended after {limit_s:g} s, and was killed")
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


def forget_outcome(folder: Path) -> None:
    """Before a drill: what an earlier one has left in its report says nothing of this one."""
    (folder / VERDICTS).unlink(missing_ok=True)


def read_outcome(folder: Path, code: int | None = None) -> Outcome:
    """What a drill has left in its report; `code` is how its process has ended. Raises `JobError`
    where it has left none.
    """
    try:
        document = json.loads((folder / VERDICTS).read_text("utf-8"))
    except (OSError, ValueError) as e:
        raise JobError(f"the drill has left no verdict in {folder} (exit {code}): {e}") from None
    document.pop("is_well")
    document["strikes"] = tuple(Strike(**each) for each in document["strikes"])
    document["held"] = tuple(Requirement(**each) for each in document["held"])
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
    except Exception:  # noqa: BLE001  # whatever it is, threads must not keep this process alive
        traceback.print_exc()
        code = BROKEN
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
