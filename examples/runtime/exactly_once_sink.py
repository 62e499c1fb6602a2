"""An exactly-once sink: the rows of a job and the token behind them, in one SQLite transaction.

    python examples/runtime/exactly_once_sink.py

A frame and its token are written together or not at all. So whatever dies, and whenever, the table
is that of a prefix of the output, and the token beside it goes on exactly there. The program makes
a journal, runs a job on it, follows the output, "crashes" in the middle of a transaction, kills a
replica and a merger, starts again from what the database says, and compares the table with what the
query says of the journal.
"""

import sqlite3
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa

import gapless as gl

flows = gl.source("flows", {"ts": "timestamp[ms]", "src": "int32"}, time="ts", lateness="1s")
query = flows.window(range="10s", slide="1s").group_by("src").aggregate(packets=gl.count())

SECONDS, ROWS_A_SECOND, SOURCES = 120, 1_000, 20


class Crash(Exception):
    """The program dies here."""


class Sink:
    """A table of final results. `deliver="final"` says each once: nothing is ever taken back."""

    def __init__(self, path: Path) -> None:
        self.db = sqlite3.connect(path)
        with self.db:
            self.db.execute("CREATE TABLE IF NOT EXISTS packets (vs INT, ve INT, src INT, n INT)")
            self.db.execute("CREATE TABLE IF NOT EXISTS place (token TEXT)")

    @property
    def start(self) -> str:
        """Where to go on: behind the last frame that was committed."""
        row = self.db.execute("SELECT token FROM place").fetchone()
        return "earliest" if row is None else row[0]

    def take(self, frame: gl.Frame, token: str, *, crash: bool = False) -> None:
        """Takes a frame with its token, both or neither."""
        payload = frame.payload
        columns = (payload.column("src").to_pylist(), payload.column("packets").to_pylist())
        rows = list(zip(frame.vs.tolist(), frame.ve.tolist(), *columns, strict=True))
        with self.db:  # commits at the end, or rolls back
            self.db.executemany("INSERT INTO packets VALUES (?, ?, ?, ?)", rows)
            self.db.execute("DELETE FROM place")
            self.db.execute("INSERT INTO place VALUES (?)", (token,))
            if crash:
                raise Crash


def follow(job: gl.Job, path: Path, until: int, crash_at: int | None = None) -> None:
    """Takes what comes up to a time; dies within the n-th frame if told to."""
    sink = Sink(path)
    with job.subscribe(deliver="final", start=sink.start) as subscription:
        for number, frame in enumerate(subscription):
            sink.take(frame, subscription.token, crash=number == crash_at)
            if frame.stable is not None and frame.stable >= until:
                return


def append(journal: gl.JournalWriter, second: int) -> None:
    """One second of rows."""
    ts = second * 1_000 + np.arange(ROWS_A_SECOND) * 1_000 // ROWS_A_SECOND
    src = (np.arange(ROWS_A_SECOND) * 7919 + second) % SOURCES
    columns = {"ts": pa.array(ts, pa.timestamp("ms")), "src": pa.array(src, pa.int32())}
    journal.append(pa.record_batch(columns))


def main(folder: Path) -> None:
    """Runs it all."""
    rows_path, database = folder / "flows", folder / "sink.db"
    columns = {"ts": "timestamp[ms]", "src": "int32"}
    with gl.JournalWriter(rows_path, columns, time="ts", key="src", lateness="1s") as journal:
        for second in range(SECONDS // 2):
            append(journal, second)
        with gl.launch(query, journal=rows_path, dir=folder / "job", mergers=2) as job:
            follow(job, database, until=1_000)
            append(journal, SECONDS // 2)
            try:
                follow(job, database, until=30_000, crash_at=0)
            except Crash:
                print("crashed in a transaction; the database says", Sink(database).start)
            job.kill("r0.1")
            job.kill("m0.0")
            for second in range(SECONDS // 2 + 1, SECONDS):
                append(journal, second)
            until = (SECONDS - 2) * 1_000  # as far as the rows promise: less the lateness
            follow(job, database, until)
            job.stop(drain=False)
    compare(rows_path, database, until)


def compare(rows: Path, database: Path, until: int) -> None:
    """Raises where the table is not what the query says of the journal, row by row."""
    asked = "SELECT vs, ve, src, n FROM packets WHERE ve <= ? ORDER BY vs, ve, src"
    found = Sink(database).db.execute(asked, (until,)).fetchall()
    table = gl.Tdb(query.schema)
    for frame in gl.execute(query, rows):
        table.fold(frame)
    events = [(e.vs, e.ve, *e.payload) for e in table.events if e.ve <= until]
    if found != sorted(events):
        raise SystemExit(f"{len(found)} results in the database, {len(events)} are right")
    print(f"{len(found)} results, each once, whatever died")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        main(Path(folder))
