"""`gapless ingest` as a process: killed, stopped or overtaken, and each row is in exactly once."""

from __future__ import annotations

import array
import fcntl
import json
import random
import signal
import subprocess
import sys
import termios
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from threading import Event
from typing import IO, Any

import duckdb
import pyarrow as pa
import pytest
from pyarrow import parquet
from pyarrow.json import ParseOptions, read_json

import gapless as gl
from gapless.io.ingest_batches import Input
from gapless.io.ingest_input import input_of, kind_of
from gapless.io.stop_signals import StopSignals
from tests.gapless.command import Gapless
from tests.gapless.ingested import (
    MAKES,
    SCHEMA,
    SCHEMA_TOML,
    read,
    rejects,
    table,
    text_lines,
    write,
)

# -- processes ------------------------------------------------------------------------------------

GATE_BATCHES = 40
"""How far a gated process goes for each line that it is sent: however busy the machine is, it is
never at its end before it can be killed."""
GATED = f"""
import sys
from gapless.io.journal_handles import JournalWriter
append, appended = JournalWriter.append, iter(range(10**9))
def gated(self, *arguments, **options):
    if next(appended) % {GATE_BATCHES} == 0:
        sys.stdin.readline()
    return append(self, *arguments, **options)
JournalWriter.append = gated
"""
PROGRAM = """
import sys
from gapless.cli import main
from gapless.io.journal_handles import JournalWriter
JournalWriter.__init__.__kwdefaults__["segment_bytes"] = 30_000
sys.argv[0] = "gapless"
main()
"""


@contextmanager
def ingest(*arguments: object, before: str = "") -> Iterator[subprocess.Popen[str]]:
    """The command in a process of its own, with small segments; it does not outlive the test."""
    pipe = subprocess.PIPE
    command = [sys.executable, "-c", before + PROGRAM, "ingest", *map(str, arguments)]
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True) as child:
        try:
            yield child
        finally:
            child.kill()


def stream(pipe: IO[str] | None) -> IO[str]:
    assert pipe is not None
    return pipe


class Ended(Event):
    """Set once a process has ended."""

    def __init__(self, child: subprocess.Popen[str]) -> None:
        super().__init__()
        self._child = child

    def is_set(self) -> bool:
        return self._child.poll() is not None


def rows_seen(reader: gl.JournalReader, child: subprocess.Popen[str], rows: int) -> bool:
    """Follows until so many rows have come; false where the process ends before."""
    for frame in reader.follow(Ended(child)):
        rows -= len(frame)
        if rows <= 0:
            return True
    return False


def empty(journal: Path) -> None:
    gl.JournalWriter(journal, SCHEMA, time="ts", key="src", partitions=3, lateness="2s").close()


def killed(source: Path, journal: Path, kills: int, batch_rows: int, seed: int) -> None:
    """Kills the command at random moments, and goes on after each but the last."""
    rng = random.Random(seed)
    arguments = [source, "--out", journal, "--batch-rows", batch_rows, "--resume", "--json"]
    empty(journal)
    for _ in range(kills):
        with (
            gl.JournalReader(journal, start="end") as reader,
            ingest(*arguments, before=GATED) as child,
        ):
            gates = rng.choice([1, 2])
            stream(child.stdin).write("\n" * gates)
            stream(child.stdin).flush()
            some = rng.randrange(gates * GATE_BATCHES * batch_rows * 9 // 10)  # a few are late
            assert rows_seen(reader, child, 1 + some)
            child.send_signal(signal.SIGKILL)


def check_each_row_is_there_once(source: Path, journal: Path) -> None:
    """Asks DuckDB, over the file itself, the journal and what the journal has not taken."""
    options = ParseOptions(explicit_schema=SCHEMA)
    is_parquet = source.suffix == ".parquet"
    with duckdb.connect() as db:
        db.register(
            "source",
            parquet.read_table(source) if is_parquet else read_json(source, parse_options=options),
        )
        db.register("written", read(journal))
        db.register("rejected", pa.table({"n": [line["row"]["n"] for line in rejects(journal)]}))
        differ = db.execute(
            """
            SELECT 'is missing, or there twice', n FROM source
                LEFT JOIN (SELECT n FROM written UNION ALL SELECT n FROM rejected) there USING (n)
                GROUP BY n HAVING count(there.n) <> 1
            UNION ALL
            SELECT 'is no row of the file', n FROM (FROM written EXCEPT FROM source)
            """
        ).fetchall()
    assert differ == []


@pytest.mark.parametrize(("kind", "kills"), [("parquet", 5), ("jsonl", 3)])
def test_killed_at_any_moments_each_row_is_there_exactly_once(
    kind: str, kills: int, gapless: Gapless, tmp_path: Path
) -> None:
    source = write(table(5_000 * kills, seed=5), tmp_path / f"flows.{kind}")
    killed(source, tmp_path / "j", kills, batch_rows=50, seed=5)
    options = ["--batch-rows", "50", "--resume", "--json"]
    assert gapless("ingest", source, "--out", tmp_path / "j", *options).document["resumed"] > 0
    check_each_row_is_there_once(source, tmp_path / "j")
    empty(tmp_path / "twin")
    assert gapless("ingest", source, "--out", tmp_path / "twin", *options).code == 0
    assert read(tmp_path / "j").equals(read(tmp_path / "twin")), "as if nothing had happened"
    assert rejects(tmp_path / "j") == rejects(tmp_path / "twin")


def test_that_check_can_fail(
    gapless: Gapless, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that goes on a batch too early has rows twice, one too late misses some."""
    source = write(table(500), tmp_path / "flows.parquet")
    skip = Input.skip
    for shift in (-1, 1):
        journal = tmp_path / f"j{shift}"
        with gl.JournalWriter(
            journal, SCHEMA, time="ts", key="src", partitions=3, lateness="2s"
        ) as writer:
            for at in (0, 100):
                writer.append(table(500).slice(at, 100))

        def shifted(self: Input, batches: int, shift: int = shift) -> tuple[int, int]:
            skip(self, batches + shift)
            return batches, 100 * batches

        monkeypatch.setattr(Input, "skip", shifted)
        outcome = gapless("ingest", source, "--out", journal, "--batch-rows", "100", "--resume")
        assert outcome.code == 0
        with pytest.raises(AssertionError):
            check_each_row_is_there_once(source, journal)


def test_lines_are_in_as_they_come(tmp_path: Path) -> None:
    lines = text_lines(table(100))
    empty(tmp_path / "j")
    options = ["--out", tmp_path / "j", "--max-wait", "5ms", "--json"]
    with gl.JournalReader(tmp_path / "j") as reader, ingest("-", *options) as child:
        frames = reader.follow()
        for line in lines[:20]:
            stream(child.stdin).write(f"{line}\n")
            stream(child.stdin).flush()
            assert len(next(frames)) == 1, "each is a batch: nobody waits for others"
        stream(child.stdin).write("\n".join(lines[20:]))  # the last has no end
        stream(child.stdin).close()
        document = json.loads(stream(child.stdout).read())
        assert child.wait() == 0
    assert (document["rows_in"], document["interrupted"]) == (100, False)
    assert document["batches"] >= 21
    assert document["written"] == len(read(tmp_path / "j"))


def unread_bytes(pipe: IO[str]) -> int:
    """What was written to a pipe and not read from it yet."""
    count = array.array("i", [0])
    fcntl.ioctl(pipe.fileno(), termios.FIONREAD, count)
    return count[0]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_whoever_follows_until_he_is_asked_to_stop(
    number: signal.Signals, gapless: Gapless, tmp_path: Path
) -> None:
    source = write(table(10), tmp_path / "flows.parquet")
    gapless("ingest", source, "--out", tmp_path / "j", *MAKES)
    with StopSignals() as stop, gl.JournalReader(tmp_path / "j") as reader:
        assert not stop.wait(0)
        frames = reader.follow(stop)
        assert len(next(frames))
        signal.raise_signal(number)
        assert stop.wait(60)
        assert list(frames) == []


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_asked_to_stop_it_takes_the_lines_that_it_has_and_says_the_totals(
    number: signal.Signals, tmp_path: Path, schema: Path
) -> None:
    lines = text_lines(table(100))
    options = ["--out", tmp_path / "j", "--schema", schema, *MAKES, "--max-wait", "1h", "--json"]
    with ingest("-", *options) as child:
        stream(child.stdin).write("".join(f"{line}\n" for line in lines) + '{"ts": "2024-')
        stream(child.stdin).flush()
        while unread_bytes(stream(child.stdin)):
            assert child.poll() is None
        child.send_signal(number)
        document = json.loads(stream(child.stdout).read())
        assert child.wait() == 0
    assert (document["rows_in"], document["rejected"]) == (100, document["late"])
    assert document["interrupted"]
    assert len(read(tmp_path / "j")) == document["written"]


def test_a_file_that_was_interrupted_is_gone_on_with(tmp_path: Path) -> None:
    source = write(table(30_000), tmp_path / "flows.parquet")
    empty(tmp_path / "j")
    options = ["--out", tmp_path / "j", "--batch-rows", 50, "--json"]
    with (
        gl.JournalReader(tmp_path / "j") as reader,
        ingest(source, *options, before=GATED) as child,
    ):
        stream(child.stdin).write("\n")
        stream(child.stdin).flush()
        assert rows_seen(reader, child, 500)
        child.terminate()
        stream(child.stdin).close()
        first = json.loads(stream(child.stdout).read())
        assert child.wait() == 1, "a problem: not all of it is in"
    assert first["interrupted"]
    assert first["rows_in"] < 30_000
    with ingest(source, *options, "--resume") as child:
        second = json.loads(stream(child.stdout).read())
    assert second["resumed"] == first["rows_in"]
    assert second["resumed"] + second["rows_in"] == 30_000
    check_each_row_is_there_once(source, tmp_path / "j")


def test_of_two_that_ingest_the_later_goes_on_and_the_earlier_is_told(tmp_path: Path) -> None:
    lines = text_lines(table(20))
    source = write(table(1_000).slice(100), tmp_path / "flows.parquet")
    empty(tmp_path / "j")
    with gl.JournalReader(tmp_path / "j") as reader:
        with ingest("-", "--out", tmp_path / "j", "--batch-rows", 10) as first:
            stream(first.stdin).write("".join(f"{line}\n" for line in lines[:10]))
            stream(first.stdin).flush()
            assert rows_seen(reader, first, 10)
            with ingest(source, "--out", tmp_path / "j", "--json") as second:
                document = json.loads(stream(second.stdout).read())
                assert second.wait() == 0
            stream(first.stdin).write("".join(f"{line}\n" for line in lines[10:]))
            stream(first.stdin).flush()
            assert first.wait() == 2
            said = stream(first.stderr).read()
        assert said.startswith("gapless: ")
        assert "has taken the journal over" in said
        assert len(said.splitlines()) == 1
        assert sum(len(frame) for frame in reader) == document["written"]
    got = sorted(read(tmp_path / "j").column("n").to_pylist())
    assert got[:10] == list(range(10))
    assert len(got) == 10 + document["written"]


def test_what_is_read_at_once_decides_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = write(table(300), tmp_path / "flows.jsonl")

    def cuts() -> list[tuple[int, list[Any]]]:
        with StopSignals() as stop:
            given = input_of(str(source), "jsonl", SCHEMA, 70, 0, stop)
            skipped = given.skip(2)
            return [(skipped[1], batch.rows.to_pylist()) for batch in islice(given, 10)]

    whole = cuts()
    monkeypatch.setattr("gapless.io.ingest_lines.READ_BYTES", 37)
    assert cuts() == whole
    assert [len(rows) for _, rows in whole] == [70, 70, 20]


def test_an_input_that_is_closed_or_has_too_long_a_name_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with pytest.raises(gl.Misuse, match="cannot be looked at"):
        kind_of("x" * 300, None)
    with pytest.raises(gl.Misuse, match="'/' is not a file: redirect"):
        kind_of("/", None)
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(gl.Misuse, match="standard input is closed"):
        kind_of("-", None)


def test_an_input_that_cannot_be_read_is_said_to_be_so(tmp_path: Path) -> None:
    (tmp_path / "s.toml").write_text(SCHEMA_TOML)
    with (tmp_path / "in").open("w") as write_only:
        ran = subprocess.run(
            [sys.executable, "-c", PROGRAM, "ingest", "--out", "j", "--schema", "s.toml", *MAKES],
            cwd=tmp_path,
            stdin=write_only,
            capture_output=True,
            text=True,
            check=False,
        )
    assert ran.returncode == 2
    assert ran.stderr.startswith("gapless: standard input cannot be read")


def test_a_row_may_wait_for_longer_than_the_system_counts(tmp_path: Path) -> None:
    (tmp_path / "s.toml").write_text(SCHEMA_TOML)
    wait = ("--max-wait", "99999999d", "--schema", tmp_path / "s.toml")
    with ingest("--out", tmp_path / "j", *MAKES, *wait) as child:
        out, err = child.communicate(text_lines(table(1))[0] + "\n")
    assert (child.returncode, err) == (0, "")
    assert "1 written" in out
