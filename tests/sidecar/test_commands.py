"""The commands, as processes: a sidecar that is stopped or killed, a person's push and tail."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from gapless.sidecar.client.consumer import Consumer
from gapless.sidecar.client.producer import Producer
from tests.sidecar.conforming import SaysAFrameFirst
from tests.sidecar.helpers import HOST, PATIENCE_S, SCHEMA, frame_of, read_until, table_of

GAPLESS = [sys.executable, "-c", "from gapless.cli import main; main()"]


@contextmanager
def process(data: Path, listen: str = f"{HOST}:0") -> Iterator[tuple[Any, str]]:
    """A sidecar of its own process, and its address."""
    started = subprocess.Popen(
        [*GAPLESS, "sidecar", "--listen", listen, "--http", "", "--data", str(data), "--json"],
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert started.stdout is not None
        said = "".join(iter(started.stdout.readline, "}\n")) + "}"
        yield started, json.loads(said)["listen"]
    finally:
        started.kill()
        started.wait()
        assert started.stdout is not None
        started.stdout.close()


def gapless(*arguments: str | Path, stdin: str | None = None) -> Any:
    done = subprocess.run(
        [*GAPLESS, *map(str, arguments)], input=stdin, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_person_pushes_a_file_and_reads_it(tmp_path: Path) -> None:
    file = tmp_path / "flows.txt"
    file.write_text("ins((A,7),6,20) ins((B,8),9,12) stable(10)\nadj((A,7),6,20,30) stable(21)\n")
    with process(tmp_path / "data") as (_, address):
        at = ("--sidecar", address)
        pushed = gapless(
            "push", str(file), "--stream", "s", "--name", "a", "--schema", "src:string,n:int64", *at
        )
        assert pushed == "2 frames, 3 rows pushed to s as a\n"
        read = gapless("tail", "s", "--start", "earliest", "--frames", "1", *at).splitlines()
        assert set(read) >= {"ins((B,8),9,12)", "stable(21)"}
        table = json.loads(gapless("tail", "s", "--table", "--json", *at))
        assert table == [{"_vs": "6", "_ve": "30", "src": "A", "n": "7"}]
        frame = json.loads(gapless("tail", "s", "--frames", "1", "--json", *at))
        assert frame["reset"]
        assert frame["elements"] == ["ins((A,7),6,30)", "stable(21)"]


def test_sigterm_makes_all_durable_and_ends_well(tmp_path: Path) -> None:
    with process(tmp_path) as (started, address):
        with Producer(address, "s", "a", SCHEMA) as a:
            a.push(frame_of("ins((A,7),6,20) stable(10)"))
            assert a.flush()
        started.send_signal(signal.SIGTERM)
        said, _ = started.communicate()
        assert started.returncode == 0
        assert json.loads(said)["ended"] == "it was asked to stop"
    with process(tmp_path) as (_, address), Consumer(address, "s", start="earliest") as consumer:
        assert read_until(consumer, 10) == table_of("ins((A,7),6,20)")


def test_a_killed_process_loses_and_repeats_nothing(tmp_path: Path) -> None:
    with process(tmp_path) as (started, address):
        producer = Producer(address, "s", "a", SCHEMA)
        consumer = Consumer(address, "s", start="earliest")
        for t in range(1, 51):
            producer.push(frame_of(f"ins((A,{t}),{t},{t + 5}) stable({t})"))
        started.kill()
        started.wait()
        with process(tmp_path, listen=address):
            for t in range(51, 101):
                producer.push(frame_of(f"ins((A,{t}),{t},{t + 5}) stable({t})"))
            rows = []
            stable = 0
            while stable < 100:
                frame = consumer.next(PATIENCE_S)
                assert frame is not None
                rows += frame.payload.column(1).to_pylist()
                stable = frame.stable or stable
            assert sorted(rows) == list(range(1, 101))
            producer.close()
            consumer.close()


def test_a_setting_that_means_nothing_is_one_sentence_and_exit_2(tmp_path: Path) -> None:
    done = subprocess.run(
        [*GAPLESS, "sidecar", "--listen", "0.0.0.0:0", "--data", str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert done.stderr.startswith("gapless: 0.0.0.0:0 can be reached from other machines")
    assert len(done.stderr.splitlines()) == 1


def refused(*arguments: str | Path) -> str:
    """What a command says that cannot do it: one sentence, and exit code 2."""
    done = subprocess.run(
        [*GAPLESS, *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_S,
    )
    assert done.returncode == 2
    *above, said = done.stderr.splitlines()
    assert "Traceback" not in "".join(above)
    return said


def test_a_directory_that_cannot_be_one_is_a_sentence(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("no directory")
    said = refused("sidecar", "--listen", "127.0.0.1:0", "--http", "", "--data", file)
    assert said == f"gapless: data = {str(file)!r}: cannot be written to: Not a directory"


def test_an_address_that_another_program_has_is_a_sentence(tmp_path: Path) -> None:
    with process(tmp_path / "first") as (_, taken):
        said = refused("sidecar", "--listen", taken, "--http", "", "--data", tmp_path / "second")
    assert said.startswith(f"gapless: cannot listen on {taken}: another program does")


def test_a_second_sidecar_on_a_directory_is_a_sentence(tmp_path: Path) -> None:
    with process(tmp_path) as (started, address):
        said = refused("sidecar", "--listen", "127.0.0.1:0", "--http", "", "--data", tmp_path)
        assert f"held by a sidecar, process {started.pid} of" in said
        with Producer(address, "s", "a", SCHEMA) as a:
            a.push(frame_of("ins((A,7),6,20) stable(10)"))
            assert a.wait_durable(10)


def test_push_says_which_option_a_file_wants_that_is_no_recording(tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    log.write_text('{"op": "+I", "ts": 1, "id": "a"}\n')
    said = refused("push", log, "--stream", "s", "--name", "a")
    assert said.endswith("if it is text, add --schema; if it is a changelog, add --changelog")


def test_an_address_at_which_nobody_can_answer_is_refused_at_once() -> None:
    for nowhere in ("127.0.0.1:65536", "127.0.0.1:0", ":7070", "sidecar"):
        said = refused("tail", "s", "--sidecar", nowhere)
        assert said == f"gapless: {nowhere!r}: the address of a sidecar is HOST:PORT"


def test_a_person_removes_a_producer_and_then_the_stream(tmp_path: Path) -> None:
    with process(tmp_path) as (_, address):
        with Producer(address, "s", "a", SCHEMA, incarnation=9) as a:
            a.push(frame_of("ins((A,7),6,20) stable(10)"))
        at = ("--sidecar", address)
        assert gapless("sidecar", "remove", "s", "--producer", "a", *at) == "a of s is removed\n"
        with Producer(address, "s", "a", SCHEMA, incarnation=1) as a:
            a.push(frame_of("ins((A,7),6,20) stable(13)"))
            assert a.wait_durable(13)
        assert json.loads(gapless("sidecar", "remove", "s", "--json", *at)) == {"removed": "s"}
        assert "there is no stream 's'" in refused("sidecar", "remove", "s", *at)
        assert not (tmp_path / "streams" / "s").exists()


def test_an_examination_says_at_the_shell_which_rule_is_broken() -> None:
    started = subprocess.Popen(
        [*GAPLESS, "sidecar", "--conformance", "--listen", f"{HOST}:0"],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert started.stdout is not None
    address = started.stdout.readline().split()[2].rstrip(";")
    SaysAFrameFirst(address).run()
    said, _ = started.communicate(timeout=PATIENCE_S)
    assert started.returncode == 1
    assert said.startswith("broken  credits are withheld, then the call breaks: rule 1: a frame")
