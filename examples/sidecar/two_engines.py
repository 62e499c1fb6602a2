"""Two engines compute the same query, one is killed, and whoever reads does not notice.

    python examples/sidecar/two_engines.py

Both count how often each key comes in each second of the same events. `eager` says what it knows as
soon as it knows it, and takes it back when it knows better; `patient` says each second once it is
over. The sidecar merges what they say. Once three seconds are answered `eager` is killed with
SIGKILL; the reader holds every answer, once, and they are those of a plain count.

Engines are processes of this script here; a real one is any program that pushes (docs/sidecar.md).
"""

from __future__ import annotations

import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator

from gapless import INF, Tdb
from gapless.client import Consumer, Producer
from gapless.protocol.elements import format_time

SECONDS = 8
EVENTS_PER_S = 500
KEYS = "ABCDE"
KILLED_AT = 3000
COLUMNS = {"key": "string", "count": "int64"}
STREAM = "counts"
ADDRESS = "127.0.0.1:7470"


def events() -> Iterator[tuple[int, str]]:
    """The source that both engines read: times in milliseconds, and keys."""
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


def patient() -> None:
    """Says each count once, when its second is over."""
    with Producer(ADDRESS, STREAM, "patient", COLUMNS) as producer:
        counts: Counter[str] = Counter()
        second = 0
        for t, key in paced():
            if t // 1000 != second:
                say(producer, second, counts)
                second, counts = t // 1000, Counter()
            counts[key] += 1
        say(producer, second, counts)
        producer.stable(INF)


def say(producer: Producer, second: int, counts: Counter[str]) -> None:
    """The answer of one second."""
    for key, count in sorted(counts.items()):
        producer.insert(second * 1000, second * 1000 + 1000, key=key, count=count)
    producer.stable(second * 1000 + 1000)


def main() -> None:
    """Starts a sidecar and both engines, kills one, and compares."""
    expected = Counter((t // 1000, key) for t, key in events())
    with tempfile.TemporaryDirectory() as folder:
        command = "from gapless.cli import main; main()"
        sidecar = subprocess.Popen(
            [
                *(sys.executable, "-c", command, "sidecar"),
                *("--listen", ADDRESS, "--http", "", "--data", folder),
            ]
        )
        engines = {
            name: subprocess.Popen([sys.executable, __file__, name])
            for name in ("eager", "patient")
        }
        table: Tdb | None = None
        began = time.monotonic()
        with Consumer(ADDRESS, STREAM, start="begin") as consumer:
            for frame in consumer:
                table = table or Tdb(frame.schema)
                table.fold(frame)
                if frame.stable is None:
                    continue
                print(f"{time.monotonic() - began:5.1f} s   stable {format_time(frame.stable)}")
                if frame.stable >= KILLED_AT and engines["eager"].poll() is None:
                    print("          eager is killed")
                    engines["eager"].kill()
        engines["patient"].wait()
        sidecar.terminate()
        sidecar.wait()
    read = (
        {} if table is None else {(e.vs // 1000, e.payload[0]): e.payload[1] for e in table.events}
    )
    whole = read == dict(expected) and table is not None and len(table) == len(expected)
    print(f"{len(read)} answers of {len(expected)}: {'all, each once' if whole else 'NOT whole'}")
    sys.exit(0 if whole else 1)


if __name__ == "__main__":
    {"eager": eager, "patient": patient}.get(sys.argv[-1], main)()
