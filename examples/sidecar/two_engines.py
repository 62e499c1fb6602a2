"""Two engines compute the same query, either is killed, and readers do not notice.

    python examples/sidecar/two_engines.py [--kill spark]

Both count how often each key comes in each second of the same events. `eager`, a plain program,
says what it knows as soon as it knows it, and takes it back when it knows better; the other is
Spark structured streaming (spark_copy.py), which says each second once it is over. The sidecar
merges what they say. After half of the events one is killed with SIGKILL; the reader holds every
answer, once, and they are those of a plain count. It waits for as long as the one that is left is
behind: Spark some seconds, `eager` not at all.

Needs Java 17, as Spark does. A real engine is any program that pushes (docs/sidecar.md).
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from gapless import INF, Tdb
from gapless.client import Consumer, Producer
from gapless.protocol.elements import format_time

SECONDS = 20
EVENTS_PER_S = 500
KEYS = "ABCDE"
KILLED_AT = 10_000
COLUMNS = {"key": "string", "count": "int64"}
STREAM = "counts"
ADDRESS = "127.0.0.1:7470"
FILE_S = 0.5
"""Spark reads files: one holds the events of so many seconds."""
SPARK_READY = "ready"
"""The file that says that Spark reads."""


def events() -> Iterator[tuple[int, str]]:
    """What both engines read: times in milliseconds, and keys."""
    rng = random.Random(7)
    for i in range(SECONDS * EVENTS_PER_S):
        yield i * 1000 // EVENTS_PER_S, rng.choice(KEYS)


def paced() -> Iterator[tuple[int, str]]:
    """The same, as time passes."""
    began = time.monotonic()
    for t, key in events():
        time.sleep(max(0.0, began + t / 1000 - time.monotonic()))
        yield t, key


def eager() -> None:
    """Says each count at once, and takes it back when it grows."""
    with Producer(ADDRESS, STREAM, "eager", COLUMNS) as producer:
        counts: Counter[str] = Counter()
        second = 0
        for t, key in paced():
            if t // 1000 != second:
                producer.stable(t // 1000 * 1000)
                second, counts = t // 1000, Counter()
            start, end = second * 1000, second * 1000 + 1000
            if counts[key]:
                producer.adjust(start, end, start, key=key, count=counts[key])  # it never was
            counts[key] += 1
            producer.insert(start, end, key=key, count=counts[key])
        producer.stable(INF)


def feed(folder: Path) -> None:
    """Writes the events into files, as time passes. A last one, far off, ends the last second."""
    lines: list[str] = []
    number = 0

    def put() -> None:
        nonlocal number
        beside = folder / f".{number}"
        beside.write_text("".join(lines))
        beside.rename(folder / f"{number:06}.json")
        number += 1
        lines.clear()

    due = FILE_S
    for t, key in paced():
        if t >= due * 1000:
            put()
            due += FILE_S
        lines.append(json.dumps({"ts": t, "key": key}) + "\n")
    lines.append(json.dumps({"ts": (SECONDS + 10) * 1000, "key": "-"}) + "\n")
    put()


def read(engines: dict[str, subprocess.Popen[bytes]], doomed: str) -> Tdb:
    """Reads the stream to the end of the last second; kills one engine on the way."""
    began = time.monotonic()
    with Consumer(ADDRESS, STREAM, start="earliest") as consumer:
        table: Tdb | None = None
        for frame in consumer:
            table = table or Tdb(frame.schema)
            table.fold(frame)
            if frame.stable is None:
                continue
            print(f"{time.monotonic() - began:5.1f} s   stable {format_time(frame.stable)}")
            if frame.stable >= KILLED_AT and engines[doomed].poll() is None:
                print(f"          {doomed} is killed")
                engines[doomed].kill()
            if frame.stable >= SECONDS * 1000:
                return table
    raise SystemExit("the stream has ended too early")


def main() -> None:
    """Starts a sidecar and both engines, kills one, and compares."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kill", choices=("eager", "spark"), default="eager")
    doomed = parser.parse_args().kill
    expected = Counter((t // 1000, key) for t, key in events())
    with tempfile.TemporaryDirectory() as folder:
        data, files = Path(folder) / "data", Path(folder) / "events"
        files.mkdir()
        command = "from gapless.cli import main; main()"
        sidecar = subprocess.Popen(
            [
                *(sys.executable, "-c", command, "sidecar"),
                *("--listen", ADDRESS, "--http", "", "--data", str(data)),
            ]
        )
        copy = Path(__file__).with_name("spark_copy.py")
        ready = Path(folder) / SPARK_READY
        spark = subprocess.Popen(
            [sys.executable, copy, files, "--sidecar", ADDRESS, "--ready", ready]
        )
        while not ready.exists() and spark.poll() is None:
            time.sleep(0.1)  # so that both begin together
        feeder = threading.Thread(target=feed, args=(files,), daemon=True)
        feeder.start()
        engines = {"spark": spark, "eager": subprocess.Popen([sys.executable, __file__, "eager"])}
        table = read(engines, doomed)
        feeder.join()
        for process in (*engines.values(), sidecar):
            process.terminate()
            process.wait()
    got = {
        (e.vs // 1000, e.payload[0]): e.payload[1] for e in table.events if e.vs < SECONDS * 1000
    }
    whole = got == dict(expected) and len(table) == len(got)
    print(f"{len(got)} answers of {len(expected)}: {'all, each once' if whole else 'NOT whole'}")
    sys.exit(0 if whole else 1)


if __name__ == "__main__":
    if sys.argv[1:] == ["eager"]:
        eager()
    else:
        main()
