"""Each command, given the wrong kind of path in each of its places: one sentence, exit code 2, and
no traceback.
"""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import pyarrow as pa
import pytest
import typer
from pyarrow import parquet

import gapless as gl
from gapless.cli import app
from tests.gapless.command import Gapless

X = "{X}"
"""Where the wrong path goes."""
SENTENCE_CHARS_MAX = 1000
"""The longest names all scenarios."""
COLUMNS = {"ts": "timestamp[ms]", "src": "int32"}

COMMANDS = [
    "run {X} --journal {journal} --dir {new}",
    "run {query} --journal {X} --dir {new}",
    "run {query} --journal flows={X} --dir {new}",
    "run {query} --journal {journal} --dir {X}",
    "run {query} --journal {journal} --dir {new} --timing {X}",
    "run --resume {X}",
    "explain {X}",
    "sql {X}",
    "cutover job {X}",
    "merge {X}",
    "merge {X} --check",
    "merge --files {X}",
    "ingest {X} --journal {new} --time ts",
    "ingest {rows} --journal {X} --time ts",
    "ingest {rows} --journal {new} --time ts --schema {X}",
    "prepare {X} --out {new} --time ts",
    "prepare {rows} --out {X} --time ts",
    "prepare {rows} --out {new} --time ts --schema {X}",
    "prepare {rows} --out {new} --time ts --rules {X}",
    "prepare {folder} --out {new} --time ts --follow --checkpoint {X}",
    "journal show {X}",
    "journal verify {X}",
    "journal export {X} {new}.csv",
    "journal export {journal} {X}",
    "journal trim {X} --before 10",
    "generate netflow {X} --events 10",
    "sidecar --config {X}",
    "sidecar --data {X}",
    "sidecar --data {new} --tls-certificate {X} --tls-key {X}",
    "sidecar --data {new} --tls-client-ca {X}",
    "sidecar --data {new} --peer 127.0.0.1:1 --peer-ca {X}",
    "sidecar --data {new} --peer 127.0.0.1:1 --peer-token-file {X}",
    "sidecar remove s --ca {X}",
    "push {X} s --name c",
    "push {rows} s --name c --ca {X}",
    "push {X} s --name c --changelog flink --schema src:int32",
    "tail s --ca {X}",
    "chaos run {X}",
    "chaos run kill-replica --out {X}",
    "chaos soak --out {X}",
    "chaos replay {X}",
    "demo --keep {X}",
    "bench kernel --plot {X}",
]

KINDS = ("file", "folder", "missing", "below a file", "empty", "garbage", "/dev/null", "/proc")


class GoesOn(BaseException):
    """What was given is taken: it goes on to start something."""


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """What is right, and what is wrong, by name."""
    at = tmp_path_factory.mktemp("paths")
    rows = pa.table({"ts": pa.array([1, 2], pa.timestamp("ms")), "src": pa.array([1, 2], "int32")})
    with gl.JournalWriter(at / "flows", COLUMNS, time="ts") as writer:
        writer.append(rows.to_batches()[0])
    parquet.write_table(rows, at / "rows.parquet")
    (at / "talkers_of_paths.py").write_text(
        "import gapless as gl\n"
        'flows = gl.source("flows", {"ts": "timestamp[ms]", "src": "int32"}, time="ts")\n'
        'query = flows.window(range="10s", slide="1s").group_by("src").aggregate(n=gl.count())\n'
    )
    (at / "schema.toml").write_text('ts = "timestamp[ms]"\nsrc = "int32"\n')
    (at / "file").write_text("some text\n")
    (at / "empty").write_bytes(b"")
    (at / "garbage").write_bytes(bytes(range(256)) * 8)
    (at / "folder").mkdir()
    return {
        "at": at,
        "query": at / "talkers_of_paths.py",
        "journal": at / "flows",
        "rows": at / "rows.parquet",
        "file": at / "file",
        "folder": at / "folder",
        "missing": at / "missing",
        "below a file": at / "file" / "below",
        "empty": at / "empty",
        "garbage": at / "garbage",
        "/dev/null": Path("/dev/null"),
        "/proc": Path("/proc"),
    }


commands = functools.cache(typer.main.get_command)
"""As the command line has them; putting them together takes longer than most refusals."""


@pytest.fixture(autouse=True)
def nothing_starts(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Neither Ray nor Spark nor a server, and nobody is called. What is made is made in a folder of
    the test's: some commands write below the current one where they are told no other.
    """
    monkeypatch.chdir(tmp_path)

    def goes_on(*_: Any, **__: Any) -> Any:
        raise GoesOn

    for name in (
        "gapless.actors.cluster.connect",
        "gapless.actors.whereabouts.at_hand",
        "gapless.spark_sources.session._jvm",
        "gapless.sidecar.server.server.Server.listen",
        "gapless.chaos.drill.drill_process.run_apart",
        "gapless.commands.demo_run._Demo.run",
        "gapless.commands.bench._measure",
        "grpc.insecure_channel",
        "grpc.secure_channel",
    ):
        monkeypatch.setattr(name, goes_on)
    monkeypatch.setattr("typer.main.get_command", commands)
    monkeypatch.setattr("gapless.sidecar.server.grpc_server.server", MagicMock())
    monkeypatch.setattr("gapless.sidecar.server.directory.Directory.lock", lambda _: None)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("command", COMMANDS)
def test_a_path_of_the_wrong_kind_is_one_sentence(
    command: str, kind: str, place: dict[str, Path], gapless: Gapless, tmp_path: Path
) -> None:
    given = {name: str(path) for name, path in place.items()}
    given |= {"new": str(tmp_path / "new"), "X": given[kind]}
    try:
        outcome = gapless(*(part.format(**given) for part in command.split()))
    except GoesOn:
        return  # it is a right kind of path here
    assert "Traceback" not in outcome.err, outcome.err
    if outcome.code == 0:
        return  # likewise
    assert outcome.code == 2, (outcome.code, outcome.out, outcome.err)
    *usage, line = outcome.err.strip().splitlines()
    if command.startswith("sql "):  # of a text: the sentence, the line, a caret
        usage, line = [], (usage or [line])[0]
    assert line.startswith("gapless: ") if not usage else usage[0].startswith("Usage: ")
    assert len(line) < SENTENCE_CHARS_MAX


def test_every_command_that_takes_a_path_is_tried() -> None:
    takes_none = {"doctor", "status", "stop", "chaos list", "chaos sim"}
    there = set()
    group: Any = commands(app)
    for name, command in group.commands.items():
        below = getattr(command, "commands", {})
        there |= {f"{name} {each}" for each in below} if below else {name}
    tried = {name for name in there if any(f"{each} ".startswith(f"{name} ") for each in COMMANDS)}
    streams = {name for name in there if name.startswith("generate ")}
    assert there - tried - takes_none == streams - {"generate netflow"}, "they share their options"
