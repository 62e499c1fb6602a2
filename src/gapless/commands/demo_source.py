"""The source of `gapless demo`: a process that makes the events, prepares a part, feeds the rest.

    netflow, from a seed   |--- a million events ---|--- 50,000 a second, while things die --->
    into the journal       by embedded Spark         by a JournalWriter, every 20 ms

In each second of ours pass five of the events' own time. The process says how far it is, a JSON
document a line, and is told "go" and "end". It ends with its starter, in whatever way
that ends; and closing it from outside ends Spark, too.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from secrets import token_hex
from typing import IO, Any

import pyarrow as pa

from gapless.actors.local_keeper import MARK, end
from gapless.engine.query import Query
from gapless.engine.source import source
from gapless.journal.generate import Netflow
from gapless.protocol.errors import Misuse

PREPARED_ROWS = 1_000_000
"""Of the files, which Spark prepares: what a query has to catch up with when it starts."""
EVENT_TIME_FACTOR = 5
"""Event time to ours: with a slide of a second there are results every 200 ms."""
HOSTS = 300
"""Groups of the query: so many results a slide, few enough that every one of them is judged."""
LATENESS_MS = 1_000
PARTITIONS = 4
LIVE_S_MAX = 90
"""How long it feeds at most, if nothing ends it."""
BATCH_MS = 20
"""Between two batches of the feed."""
TELL_MS = 200
"""Between two lines on how far the feed is."""
SPARK_MEMORY = "1g"
SPARK_CORES = 2
READY_S = 300.0
"""How long Spark may take to start and to prepare, on a machine that is busy otherwise."""
END_S = 60.0
"""How long the journal may take to be ended."""
COMPRESSION = "zstd"
SAID_CHARS_MAX = 2_000


def flows() -> Query:
    """The stream, as a query reads it."""
    columns = {field.name: field.type for field in Netflow(events=1).schema}
    return source("flows", columns, time="ts", lateness=LATENESS_MS)


@dataclass(frozen=True)
class Spec:
    """What is to be made."""

    folder: str
    """Where the files and the journal go."""
    seed: int
    rate: int
    """Events a second of ours, fed live."""

    @property
    def journal(self) -> Path:
        """Where the journal lies."""
        return Path(self.folder) / "journal"

    @property
    def file(self) -> Path:
        """Where the events lie that Spark prepares."""
        return Path(self.folder) / "netflow.parquet"

    def events(self) -> Netflow:
        """All that there may be."""
        return Netflow(
            seed=self.seed,
            events=PREPARED_ROWS + self.rate * LIVE_S_MAX,
            rate=max(1, self.rate // EVENT_TIME_FACTOR),
            hosts=HOSTS,
            lateness_ms=LATENESS_MS,
        )


# -- in the program that shows ---------------------------------------------------------------------


class Source:
    """The process, from outside. Close it."""

    def __init__(self, spec: Spec) -> None:
        """Starts it; it begins with the files at once."""
        self.spec = spec
        self.rows = 0
        """Events in the journal, as far as it has said."""
        self._mark = token_hex(8)
        self._said: dict[str, dict[str, Any]] = {}
        self._changed = threading.Condition()
        self._has_ended = False
        self._log = (Path(spec.folder) / "source.log").open("w+", errors="replace")
        spark_dir = Path(spec.folder) / "spark"
        spark_dir.mkdir()
        self._process = subprocess.Popen(
            [sys.executable, "-m", __name__, json.dumps(asdict(spec))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
            start_new_session=True,  # a person's Ctrl-C is for the one who shows
            env={**os.environ, MARK: f"{self._mark}/source", "TMPDIR": str(spark_dir)},
        )
        self._listener = threading.Thread(target=self._listen, name="source", daemon=True)
        self._listener.start()

    def _listen(self) -> None:
        for line in _lines(self._process.stdout):
            said = json.loads(line)
            with self._changed:
                self.rows = said.get("rows", self.rows)
                self._said[said["what"]] = said
                self._changed.notify_all()
        with self._changed:
            self._has_ended = True
            self._changed.notify_all()

    def heard(self, what: str) -> dict[str, Any] | None:
        """What it has said of a step, if it is there yet. Raises `Misuse` where it has failed."""
        with self._changed:
            said = self._said.get(what)
            if said is None and self._has_ended:
                raise Misuse(f"the events cannot be made: {self._why()}")
            return said

    def wait_for(self, what: str, timeout_s: float) -> dict[str, Any]:
        """What it says of a step, once it is there."""
        until = time.monotonic() + timeout_s
        while (said := self.heard(what)) is None:
            left_s = until - time.monotonic()
            if left_s <= 0:
                raise Misuse(f"the events are not {what} after {timeout_s:g} s: {self._why()}")
            with self._changed:
                if what not in self._said and not self._has_ended:
                    self._changed.wait(min(left_s, 1.0))  # a second, so that Ctrl-C is heard
        return said

    def go(self) -> None:
        """Has it feed, live."""
        self._tell("go")

    def end(self) -> int:
        """Has it end the journal: no events follow. How many there are."""
        self._tell("end")
        return int(self.wait_for("ended", END_S)["rows"])

    def _tell(self, word: str) -> None:
        pipe = self._process.stdin
        try:
            if pipe is not None:
                pipe.write(f"{word}\n")
                pipe.flush()
        except BrokenPipeError:
            raise Misuse(f"the events cannot be made: {self._why()}") from None

    def _why(self) -> str:
        self._log.flush()
        self._log.seek(0)
        return self._log.read()[-SAID_CHARS_MAX:].strip() or "it said nothing"

    def close(self) -> None:
        """Ends the process, and Spark where it is in the middle of it."""
        if self._process.stdin is not None:
            try:
                self._process.stdin.close()
            except BrokenPipeError:
                pass  # it has ended
        end(f"{self._mark}/")
        self._process.wait(END_S)
        self._listener.join(END_S)
        if self._process.stdout is not None:
            self._process.stdout.close()
        self._log.close()


def _lines(pipe: IO[str] | None) -> Iterator[str]:
    return iter(()) if pipe is None else iter(pipe)


# -- in the process itself -------------------------------------------------------------------------


class _Told:
    """What its owner tells it."""

    def __init__(self) -> None:
        self.go, self.end = threading.Event(), threading.Event()
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        for line in sys.stdin:
            {"go": self.go, "end": self.end}[line.strip()].set()
        os._exit(1)  # the owner is gone; Spark's JVM ends as its pipe does


def _say(what: str, **more: Any) -> None:
    sys.stdout.write(json.dumps({"what": what, **more}) + "\n")
    sys.stdout.flush()


def run(spec: Spec) -> None:
    """Makes, prepares, feeds, ends."""
    told = _Told()
    batches = iter(spec.events())
    left = _write(spec, batches)
    done = _prepare(spec)
    _say("prepared", rows=done["written"], seconds=done["seconds"], stable=_stable(spec))
    told.go.wait()
    rows = _feed(spec, _chain(left, batches), told.end, done["written"])
    _say("ended", rows=rows)


def _write(spec: Spec, batches: Iterator[pa.RecordBatch]) -> pa.RecordBatch:
    """The first events, into a file; what is left of the batch where they end."""
    import pyarrow.parquet as pq

    wanted, batch = PREPARED_ROWS, next(batches)
    with pq.ParquetWriter(spec.file, batch.schema, compression=COMPRESSION) as file:
        while len(batch) < wanted:
            file.write_batch(batch)
            wanted -= len(batch)
            batch = next(batches)
        file.write_batch(batch.slice(0, wanted))
    _say("generated", rows=0, made=PREPARED_ROWS, bytes=spec.file.stat().st_size)
    return batch.slice(wanted)


def _prepare(spec: Spec) -> Mapping[str, Any]:
    from gapless.spark_sources.prepare import prepare
    from gapless.spark_sources.session import embedded

    with embedded(cores=SPARK_CORES, driver_memory=SPARK_MEMORY) as spark:
        return prepare(
            spark,
            str(spec.file),
            spec.journal,
            time="ts",
            key="src",
            lateness=LATENESS_MS,
            partitions=PARTITIONS,
        ).document()


def _stable(spec: Spec) -> int:
    from gapless.journal.commit import Commits
    from gapless.journal.disk import LocalDisk
    from gapless.journal.layout import opened

    disk = LocalDisk(spec.journal)
    return int(Commits(disk, opened(disk)).head.stable)


def _chain(first: pa.RecordBatch, others: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield first
    yield from others


def _feed(spec: Spec, batches: Iterator[pa.RecordBatch], ends: threading.Event, rows: int) -> int:
    """Appends what is due, whatever became of the batch before; all rows of the journal."""
    from gapless.io.journal_handles import JournalWriter

    size = max(1, spec.rate * BATCH_MS // 1000)
    writer = JournalWriter(spec.journal)
    began, fed, tell_at = time.monotonic(), 0, 0.0
    for piece in _pieces(batches, size):
        due_s = began + fed / spec.rate
        if ends.wait(max(0.0, due_s - time.monotonic())):
            break
        writer.append(piece)
        fed += len(piece)
        if time.monotonic() >= tell_at:
            tell_at = time.monotonic() + TELL_MS / 1000
            _say("feeding", rows=rows + fed, rejected=writer.rejected)
    rejected = writer.rejected
    writer.end()
    _say("feeding", rows=rows + fed, rejected=rejected)
    return rows + fed


def _pieces(batches: Iterator[pa.RecordBatch], size: int) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for start in range(0, len(batch), size):
            yield batch.slice(start, size)


if __name__ == "__main__":
    run(Spec(**json.loads(sys.argv[1])))
