"""Several processes at one journal: followers see the same, and of two writers the later wins."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import gapless as gl
from gapless.journal import takeover
from gapless.journal.commit import Commits
from tests.gapless.io.journal_rows import (
    EXAMPLES,
    NOON,
    TABLE,
    made,
    rows,
)

# -- processes ------------------------------------------------------------------------------------

PRINTS = "print(i, flush=True)"
APPENDS = f"""
import sys, gapless as gl
path, first, count = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
schema = dict(ts="int64", src="int64")
writer = gl.JournalWriter(path, schema, time="ts", key="src", partitions=3, segment_bytes=20_000)
print("ready", flush=True)
sys.stdin.readline()
try:
    for i in range(first, first + count):
        writer.append(dict(ts=[i] * 50, src=list(range(50 * i, 50 * i + 50))))
        {PRINTS}
except gl.Fenced as error:
    print("fenced:", error, flush=True)
    sys.exit(2)
if "end" in sys.argv:
    writer.end()
"""

FOLLOWS = """
import sys, gapless as gl
with gl.JournalReader(sys.argv[1], frame_rows=int(sys.argv[2])) as reader:
    print("ready", flush=True)
    promises = []
    for frame in reader.follow():
        for row in frame.payload.column("src").to_pylist():
            print(row)
        if frame.stable is not None:
            print("stable", frame.stable)
print("end", flush=True)
"""


@contextmanager
def process(program: str, *arguments: object) -> Iterator[subprocess.Popen[str]]:
    """A Python program that has said that it is ready; killed if it does not end by itself."""
    pipe = subprocess.PIPE
    command = [sys.executable, "-c", program, *map(str, arguments)]
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as child:
        try:
            assert child.stdout is not None
            assert child.stdout.readline() == "ready\n"
            yield child
        finally:
            child.kill()


def lines_of(child: subprocess.Popen[str]) -> Sequence[str]:
    assert child.stdout is not None
    return child.stdout.read().splitlines()


def go(child: subprocess.Popen[str]) -> None:
    assert child.stdin is not None
    child.stdin.write("\n")
    child.stdin.flush()


def test_followers_in_other_processes_see_the_same_rows_and_stables(tmp_path: Path) -> None:
    path, count = tmp_path / "j", 60
    with (
        process(APPENDS, path, 0, count, "end") as writer,
        process(FOLLOWS, path, 7) as narrow,
        process(FOLLOWS, path, 100_000) as wide,
    ):
        go(writer)
        told = [lines_of(narrow), lines_of(wide)]
    stables = []
    for lines in told:
        assert lines[-1] == "end"
        assert [int(line) for line in lines if line.isdecimal()] != []
        at: dict[int, list[int]] = {}  # which rows were given before each stable
        given: list[int] = []
        for line in lines[:-1]:
            if line.startswith("stable"):
                at[int(line.split()[1])] = sorted(given)
            else:
                given.append(int(line))
        assert sorted(given) == list(range(50 * count))
        stables.append(at)
        for stable, before in at.items():
            assert before[: 50 * min(stable, count)] == list(range(50 * min(stable, count)))
    assert max(stables[0]) == max(stables[1]) == gl.INF
    for stable in stables[0].keys() & stables[1].keys():
        assert stables[0][stable] == stables[1][stable]


def rows_after_two_writers(path: Path) -> tuple[list[int], list[int], str]:
    """What a journal has, and what its writers were told, where a second comes while the first
    appends; and the last that the first one said.
    """
    with process(APPENDS, path, 0, 10**6) as first:
        go(first)
        assert first.stdout is not None
        acked = [int(first.stdout.readline()) for _ in range(5)]
        with process(APPENDS, path, 10**6, 20) as second:
            go(second)
            told = lines_of(second)
            assert second.wait() == 0
        *rest, last = lines_of(first)
        assert first.wait() == 2
    acked += [int(line) for line in rest]
    with gl.JournalReader(path) as reader:
        got = [row for frame in reader for row in frame.payload.column("src").to_pylist()]
    return sorted(got), [*acked, *map(int, told)], last


def expected_after(acked: list[int]) -> list[list[int]]:
    """The rows of the batches that were acknowledged, without and with the one in between."""
    last = max(i for i in acked if i < 10**6)
    batches = [sorted(acked), sorted([*acked, last + 1])]
    return [[row for i in each for row in range(50 * i, 50 * i + 50)] for each in batches]


def test_of_two_writers_the_later_wins_and_the_earlier_is_told(tmp_path: Path) -> None:
    got, acked, last = rows_after_two_writers(tmp_path / "j")
    assert re.search("fenced: .*this writer is of epoch 1, .* taken the journal over", last)
    assert "process" in last, "who has taken over is said"
    assert got in expected_after(acked)


def test_that_check_can_fail(tmp_path: Path) -> None:
    """A writer that does not look for a later one says that it has written what nobody reads."""
    careless = "import gapless.journal.writer as w; w.is_fenced = lambda *_: False\n"
    pausing = APPENDS.replace(PRINTS, f"{PRINTS}\n        if i == 4: sys.stdin.readline()")
    unsealed = pausing.replace("20_000", "1 << 30")  # at a seal it would find out
    path = tmp_path / "j"
    with process(careless + unsealed, path, 0, 10) as first:
        go(first)
        assert first.stdout is not None
        acked = [int(first.stdout.readline()) for _ in range(5)]
        gl.JournalWriter(path).close()
        go(first)
        acked += [int(line) for line in lines_of(first)]
    assert acked == list(range(10))
    with gl.JournalReader(path) as reader:
        got = sorted(row for frame in reader for row in frame.payload.column("src").to_pylist())
    assert got not in expected_after(acked)


def test_a_writer_that_is_overtaken_while_it_seals_writes_into_no_segment_of_the_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, others = made(tmp_path), []
    first.append(TABLE)
    add = first._commits.add

    def overtaken(*arguments: Any, **options: Any) -> bool:
        done = add(*arguments, **options)
        others.append(made(tmp_path))  # between the commit and the segment that is begun then
        return done

    monkeypatch.setattr(first._commits, "add", overtaken)
    with pytest.raises(gl.Fenced):
        first.seal()
    with pytest.raises(gl.Misuse, match="taken over"):
        first.append(TABLE)
    with others[0] as second:
        second.append(TABLE)
        second.seal()
        second.append(TABLE)
    assert len(rows(tmp_path)) == 9


def test_a_writer_that_is_overtaken_while_it_takes_over_is_told_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    others: list[gl.JournalWriter] = []
    collect = takeover.collect_garbage

    def overtaken(commits: Commits) -> None:
        monkeypatch.undo()
        others.append(made(tmp_path))
        commits.catch_up()
        collect(commits)

    monkeypatch.setattr(takeover, "collect_garbage", overtaken)
    with pytest.raises(gl.Fenced):
        made(tmp_path)
    with others[0] as second:
        second.append(TABLE)
    assert len(rows(tmp_path)) == 3


def test_the_examples_run_one_beside_the_other(tmp_path: Path) -> None:
    path = tmp_path / "readings"

    def example(name: str, *arguments: str) -> str:
        command = [sys.executable, str(EXAMPLES / name), str(path), *arguments]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        return done.stdout

    assert example("append.py", "20") == "20 batches, 2000 rows, 0 rejected\n"
    told = example("follow.py").splitlines()
    assert sum(int(line.split()[0]) for line in told[:-1]) == 2_000
    assert told[-1].startswith("the end, at {0: ")


def test_a_writer_is_of_one_thread_at_a_time(tmp_path: Path) -> None:
    writer = made(tmp_path)

    def origin(_: int) -> str:  # while the first append is under way
        with pytest.raises(gl.Misuse, match="another thread is appending"):
            writer.append(TABLE)
        return "here"

    written = writer.append({"ts": [NOON, None], "src": [1, 2], "len": [1, 2]}, origin=origin)
    assert (written.rows, written.rejected) == (1, 1)
    assert writer.append(TABLE).rows == 3
    writer.close()
    assert len(rows(tmp_path)) == 4


def test_a_writer_is_of_the_process_that_opened_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = made(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr("os.getpid", lambda: -1)  # as in a fork
        for call in (lambda: writer.append(TABLE), writer.sync, writer.close):
            with pytest.raises(gl.Misuse, match="belongs to the parent process"):
                call()
    assert writer.append(TABLE).rows == 3


def test_what_is_not_said_of_a_journal_that_is_there_is_what_it_has(tmp_path: Path) -> None:
    schema = {"ts": "timestamp[ms]", "src": "int32"}
    gl.JournalWriter(
        tmp_path / "j", schema, time="ts", key="src", partitions=3, lateness="5s"
    ).close()
    with gl.JournalWriter(tmp_path / "j", schema) as writer:
        assert (writer.layout.time, writer.layout.partitions) == ("ts", 3)
        assert writer.layout.lateness == 5_000
    with pytest.raises(gl.Misuse, match="lateness 5000, not 9000"):
        gl.JournalWriter(tmp_path / "j", schema, lateness="9s")
    with pytest.raises(gl.Misuse, match="a journal's directory has a name"):
        gl.JournalWriter("", schema, time="ts")
