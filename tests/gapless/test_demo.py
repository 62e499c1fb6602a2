"""`gapless demo`: the output is whole though things die, what is off is told, nothing is left."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest
from typer.testing import CliRunner

from gapless.cli import app
from gapless.commands import demo_run
from gapless.commands.demo_outcome import Kill, Outcome
from gapless.commands.demo_run import Options, is_whole
from gapless.failover.job.state import SlotState
from gapless.failover.messages import Life
from gapless.protocol.envelope import Incarnation
from gapless.protocol.errors import Misuse

WAIT_S = 30.0
DEMO_S = 280.0

COMMAND = [sys.executable, "-c", "from gapless.cli import main; main()", "demo"]

WELL = Outcome(
    events=2_200_000,
    prepared=1_000_000,
    rate=50_000,
    results=69_000,
    delivered=69_000,
    kills=(
        Kill("replica r0.1", "on n2", 6.0, 0.9, 0.26),
        Kill("node n2", "m0.0 ran there", 15.0, 2.1, 0.5),
    ),
    gaps=0,
    duplicates=0,
    contradictions=0,
    longest_pause_s=0.5,
    undisturbed_pause_s=0.25,
    seconds=71.0,
    problems=(),
)


# -- the outcome ----------------------------------------------------------------------------------


def test_an_outcome_says_all_that_was_promised() -> None:
    text = "\n".join(WELL.lines())
    for said in (
        "2,200,000 (1,000,000 prepared by Spark, 1,200,000 live, 50,000 a second)",
        "gaps                0",
        "duplicates          0",
        "longest pause       0.50 s (undisturbed 0.25 s)",
        "full redundancy     2.1 s",
        "nothing lost, nothing twice",
    ):
        assert said in text
    assert WELL.is_well
    assert json.loads(json.dumps(WELL.document()))["longest_back_s"] == 2.1


@pytest.mark.parametrize(
    "off",
    [{"gaps": 1}, {"duplicates": 1}, {"contradictions": 1}, {"problems": ("replicas differ",)}],
)
def test_whatever_is_off_is_told(off: Mapping[str, Any]) -> None:
    outcome = replace(WELL, **off)
    assert not outcome.is_well
    assert list(outcome.lines())[-1] == "something is off: see above"


def test_a_job_that_never_came_back_has_no_time_in_which_it_did() -> None:
    kill = Kill("merger m0.0", "on n1", 9.0, None, 0.2)
    outcome = replace(WELL, kills=(*WELL.kills, kill))
    assert outcome.longest_back_s is None
    assert "  merger m0.0       not back" in "\n".join(outcome.lines())


@pytest.mark.parametrize("off", [{"gaps": 3}, {}])
def test_the_exit_says_whether_anything_is_off(
    off: Mapping[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(demo_run, "run", lambda *_: replace(WELL, **off))
    ended = CliRunner().invoke(app, ["demo", "--json"])
    assert ended.exit_code == (1 if off else 0)
    assert json.loads(ended.stdout)["is_well"] is not bool(off)


def test_a_rate_that_makes_no_sense_is_refused() -> None:
    ended = CliRunner().invoke(app, ["demo", "--rate", "3"])
    assert isinstance(ended.exception, Misuse)
    assert "from 1,000 to 500,000" in str(ended.exception)


def test_a_directory_with_something_in_it_is_not_used(tmp_path: Path) -> None:
    (tmp_path / "precious").touch()
    ended = CliRunner().invoke(app, ["demo", "--keep", str(tmp_path)])
    assert isinstance(ended.exception, Misuse)
    assert "not empty" in str(ended.exception)
    assert Options().keep is None


# -- whole again ----------------------------------------------------------------------------------


def slots(**changes: Any) -> tuple[SlotState, ...]:
    """Of a job that is whole; `r0_1={...}` changes one."""
    found = []
    for name in ("m0.0", "m0.1", "r0.0", "r0.1", "r0.2"):
        state = SlotState(name, "running", life(name, 1), "node", "paned", "", None)
        state = replace(state, qualified_ms=900, inputs=3)
        found.append(replace(state, **changes.get(name.replace(".", "_"), {})))
    return tuple(found)


def life(slot: str, number: int) -> Life:
    return Life(slot, Incarnation(1, number))


def test_a_job_is_whole_when_every_slot_takes_part() -> None:
    assert is_whole(slots(), ())
    assert is_whole(slots(r0_1={"life": life("r0.1", 2)}), (life("r0.1", 1),))


@pytest.mark.parametrize(
    "changes",
    [
        {"r0_1": {"state": "joining"}},
        {"r0_1": {"qualified_ms": -1}},
        {"m0_0": {"state": "empty", "life": None}},
        {"m0_0": {"inputs": 2}},
    ],
)
def test_a_job_is_not_whole_while_a_slot_does_not_take_part(changes: Mapping[str, Any]) -> None:
    assert not is_whole(slots(**changes), ())


def test_a_job_is_not_whole_while_it_does_not_know_who_died() -> None:
    assert not is_whole(slots(), (life("r0.1", 1),))
    assert not is_whole(slots()[1:], ())


# -- on real machines -----------------------------------------------------------------------------


@contextmanager
def short_tmp() -> Iterator[Path]:
    """Of this test alone, so that whatever is left is seen; short, as sockets go there."""
    folder = Path(tempfile.mkdtemp(prefix="gd-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def running_in(folder: Path) -> list[str]:
    """Processes whose directory for temporary files is there, or below."""
    found = []
    for process in psutil.process_iter():
        try:
            is_ours = process.environ().get("TMPDIR", "").startswith(str(folder))
            if is_ours and process.status() != psutil.STATUS_ZOMBIE:
                found.append(f"{process.pid} {process.name()}")
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            continue
    return found


def start(folder: Path, *options: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*COMMAND, *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "TMPDIR": str(folder)},
    )


def nobody_is_left(folder: Path) -> None:
    until = time.monotonic() + WAIT_S
    while left := running_in(folder):
        assert time.monotonic() < until, left
        time.sleep(0.1)


@pytest.mark.ray
@pytest.mark.spark
@pytest.mark.cluster
def test_a_replica_a_merger_and_a_node_die_and_the_output_is_whole() -> None:
    with short_tmp() as folder:
        demo = start(folder, "--json")
        out, err = demo.communicate(timeout=DEMO_S)
        assert demo.returncode == 0, err
        said = json.loads(out)
        assert said["gaps"] == said["duplicates"] == said["contradictions"] == 0
        assert [kill["what"].split()[0] for kill in said["kills"]] == ["replica", "merger", "node"]
        assert said["results"] > 40_000
        assert said["longest_back_s"] is not None
        assert "Raylet is terminated" not in out + err
        assert running_in(folder) == []
        assert list(folder.iterdir()) == []


@pytest.mark.ray
@pytest.mark.spark
@pytest.mark.cluster
@pytest.mark.parametrize(
    ("number", "moment"),
    [
        (signal.SIGINT, "a Ray cluster is up"),  # Spark is at work
        (signal.SIGTERM, "KILL replica"),
        (signal.SIGKILL, "comes live"),
    ],
)
def test_nothing_runs_on_where_it_is_ended_in_the_midst(
    number: signal.Signals, moment: str
) -> None:
    with short_tmp() as folder:
        demo = start(folder)
        assert demo.stderr is not None
        assert demo.stdout is not None
        with demo.stderr, demo.stdout:
            before: list[str] = []
            while not before or moment not in before[-1]:
                before.append(demo.stderr.readline())
                assert before[-1], "".join(["it ended before that:\n", *before])
            demo.send_signal(number)
            rest = demo.stderr.read()
            demo.wait(WAIT_S)
        if number != signal.SIGKILL:
            assert demo.returncode == 2
            assert "interrupted: everything it started has been ended" in rest
            assert running_in(folder) == []
            assert list(folder.iterdir()) == []
        nobody_is_left(folder)
