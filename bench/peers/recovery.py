"""How long a checkpoint-and-restart engine is silent when its worker dies: Flink, on W1.

    flink_recovery(environments, rate=50_000, seconds=40, kill_at_s=12, conf="tuned", say=print)

     results  |  |  |  |  |  |  |                      |  |  |  |  |
              └──┘ undisturbed_s   X worker-0 is killed
                             └──────── pause_s ────────┘          extra_s = pause_s - undisturbed_s

A result is there when a reader of the sink can see it. The sink is exactly-once, so that is when a
checkpoint commits its file, once a second: this is what `undisturbed_s` shows, and why it is taken
off. A replayed row is not news: only the first appearance of a row ends a silence. All answers are
compared with the same query computed in numpy.

    processes.py         what is started, and that it ends
    flink_cluster.py     the cluster, in two configurations, and what it can be asked
    recovery_stream.py   events and answers
    run_flink_recovery.py     hands the query over, in Flink's own interpreter
"""

from __future__ import annotations

import json
import shutil
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.csv as pc

from gapless.bench.harness import Row
from gapless.bench.peers.environments import Environments
from gapless.bench.peers.flink_cluster import JOB, MANAGER, SLOTS, Cluster, Conf
from gapless.bench.peers.processes import Processes
from gapless.bench.peers.recovery_stream import (
    BATCH,
    EVENTS_MAX,
    Answers,
    answers,
    events,
    keys,
    statements,
)
from gapless.bench.peers.runner import run
from gapless.protocol.errors import BadData, Misuse

SETTLE_S = 5.0
"""Silences before this, from the first result on, are a JVM that is warming up."""
KILL_EARLIEST_S = SETTLE_S + 3.0
"""Three seconds are enough to see a commit of every second undisturbed."""
AFTER_KILL_MIN_S = 10.0
"""From the kill to the end of the stream: the first result comes up to 5 s after the start."""

READY_LIMIT_S = 60.0
"""Three JVMs on two busy cores are ready in 10 s."""
OUTAGE_LIMIT_S = 120.0
"""How long a run may take beside its stream: the slowest outage seen was 20 s."""

_WATCH_S = 0.02
_ASK_S = 0.5

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Recovery:
    """What one kill cost."""

    conf: Conf
    rate: int
    """Events a second."""
    pause_s: float
    """The longest silence between new results that ends after the kill."""
    undisturbed_s: float
    """The longest one that ends before it."""
    lost: int
    """Answers that never came."""
    duplicated: int
    """Rows beyond the first of their kind."""
    results: int
    """Rows that came."""

    @property
    def extra_s(self) -> float:
        """What the kill added to the silence that is usual anyway."""
        return self.pause_s - self.undisturbed_s


def lines(recoveries: Iterable[Recovery]) -> Iterator[Row]:
    """Rows of a bench for these runs, one of each configuration."""
    for each in recoveries:
        name = f"W1 at {each.rate:,} events/s, flink {each.conf}, worker killed"
        yield Row(f"{name}: pause", each.pause_s, "s")
        yield Row(f"{name}: longest silence undisturbed", each.undisturbed_s, "s")
        yield Row(f"{name}: pause beyond it", each.extra_s, "s")
        yield Row(f"{name}: lost", each.lost, "rows")
        yield Row(f"{name}: duplicated", each.duplicated, "rows")


def flink_recovery(
    environments: Environments,
    *,
    rate: int,
    seconds: float,
    kill_at_s: float,
    conf: Conf,
    say: Callable[[str], None],
) -> Recovery:
    """Runs W1 on a cluster of its own for `seconds` of stream, kills the worker that runs it
    `kill_at_s` after the first result, and waits for the end.

    All that was started has ended when this returns or raises. Logs stay below the environments'
    root. Raises `Misuse` where the run could not be made, `BadData` where an answer is wrong.
    """
    count = _check(rate, seconds, kill_at_s)
    python = environments.python("flink")
    directory = environments.root / "out" / f"flink-recovery-{conf}"
    shutil.rmtree(directory, ignore_errors=True)
    for name in ("result", "checkpoints"):
        (directory / name).mkdir(parents=True)
    say(f"running flink, {conf}: {rate:,} events/s for {seconds:g} s; its worker is killed")
    with Processes(directory) as processes:
        cluster = Cluster.start(_home(python), directory, processes, conf)
        _until_ready(cluster)
        settings = {
            **JOB[conf],
            "execution.checkpointing.dir": (directory / "checkpoints").as_uri(),
        }
        told = statements(count, rate, (directory / "result").as_uri())
        arguments = [str(cluster.rest_port), json.dumps(settings), json.dumps(told)]
        job = str(run(python, "run_flink_recovery.py", arguments)["job"])
        watch = Watch(directory / "result")
        _until_finished(cluster, job, watch, kill_at_s, seconds + OUTAGE_LIMIT_S)
        if not cluster.restored(job):
            raise Misuse("Flink went on without restoring a checkpoint: the kill hit no task")
    return judge(answers(events(count)), watch.read(), watch.killed_s, rate=rate, conf=conf)


def _check(rate: int, seconds: float, kill_at_s: float) -> int:
    """How many events that are. Raises `Misuse` where nothing could be measured."""
    if kill_at_s < KILL_EARLIEST_S:
        raise Misuse(f"kill_at_s={kill_at_s:g}: the first {KILL_EARLIEST_S:g} s show what is usual")
    if seconds < kill_at_s + AFTER_KILL_MIN_S:
        least = kill_at_s + AFTER_KILL_MIN_S
        raise Misuse(f"seconds={seconds:g} ends too early after the kill: at least {least:g}")
    if not 0 < rate * seconds <= EVENTS_MAX:
        raise Misuse(f"rate * seconds = {rate * seconds:g} is not in 1..{EVENTS_MAX:,} events")
    if rate % (BATCH * SLOTS):
        raise Misuse(f"rate={rate} must be a multiple of {BATCH * SLOTS}: a batch for each task")
    return int(rate * seconds) // BATCH * BATCH


def _home(python: Path) -> Path:
    """Where the Flink of this interpreter is: its scripts, jars and configuration."""
    found = list(python.parent.parent.glob("lib/python3*/site-packages/pyflink"))
    if len(found) != 1:
        raise Misuse(f"{python} has no pyflink: remove {python.parent.parent} to have it made anew")
    return found[0]


# -- the run --------------------------------------------------------------------------------------


@dataclass
class Watch:
    """When each file of results was seen first, on the monotonic clock, and when the kill was."""

    directory: Path
    seen_s: dict[str, float] = field(default_factory=dict)
    """In the order in which they were seen."""
    killed_s: float = float("inf")

    def look(self, now: float) -> None:
        """Notes the files that were not there before; hidden ones are not committed yet."""
        for each in sorted(self.directory.iterdir()):
            if not each.name.startswith((".", "_")):
                self.seen_s.setdefault(each.name, now)

    @property
    def first_s(self) -> float:
        """When the first was seen; never, so far, where there is none."""
        return next(iter(self.seen_s.values()), float("inf"))

    def read(self) -> Came:
        """All rows, in the order in which they were seen."""
        names = pc.ReadOptions(column_names=["w", "src", "count", "bytes"])
        types = pc.ConvertOptions(column_types=dict.fromkeys(names.column_names, pa.int64()))
        tables = [pc.read_csv(self.directory / each, names, None, types) for each in self.seen_s]
        if not tables:
            raise BadData("no results came at all: see the logs beside the results' directory")
        columns = pa.concat_tables(tables).combine_chunks()
        w, src, count, sums = (columns[i].to_numpy() for i in range(4))
        sizes = [table.num_rows for table in tables]
        seen_s = np.repeat(np.array(list(self.seen_s.values())), sizes)
        return Came(Answers(keys(w, src), count, sums), seen_s)


def _until_ready(cluster: Cluster) -> None:
    """Waits for the workers. Raises `Misuse` where they do not come."""
    limit_s = time.monotonic() + READY_LIMIT_S
    pause = threading.Event()  # nobody sets it: a wait that Ctrl-C ends
    while not cluster.ready():
        cluster.processes.check()
        if time.monotonic() > limit_s:
            end = cluster.processes.tail(MANAGER)
            raise Misuse(f"Flink's workers were not ready after {READY_LIMIT_S:g} s:\n{end}")
        pause.wait(_ASK_S)


def _until_finished(
    cluster: Cluster, job: str, watch: Watch, kill_at_s: float, limit_s: float
) -> None:
    """Watches the results, kills the worker in time, and returns when the stream is over."""
    begin = asked = time.monotonic()
    pause = threading.Event()
    state = "RUNNING"
    while state != "FINISHED":
        now = time.monotonic()
        watch.look(now)
        if watch.killed_s == float("inf") and now >= watch.first_s + kill_at_s:
            worker = cluster.busiest(job)
            watch.killed_s = time.monotonic()
            cluster.processes.kill(worker)
        if now >= asked + _ASK_S:
            asked = now
            cluster.processes.check()
            state = cluster.state(job)
        if state in ("FAILED", "CANCELED") or now > begin + limit_s:
            end = cluster.processes.tail(MANAGER)
            raise Misuse(f"Flink's job is {state} after {now - begin:.0f} s:\n{end}")
        pause.wait(_WATCH_S)
    watch.look(time.monotonic())  # what the last checkpoint has committed
    if watch.killed_s == float("inf"):
        raise Misuse(f"the stream was over before the kill, {kill_at_s:g} s after its first result")


# -- what it shows --------------------------------------------------------------------------------


@dataclass(frozen=True)
class Came:
    """Rows in the order in which they were seen, and when each was."""

    rows: Answers
    seen_s: Floats


def judge(right: Answers, came: Came, killed_s: float, *, rate: int, conf: Conf) -> Recovery:
    """Compares with the right answers, whose keys are in order, and measures the silences.

    A row that is no right answer is an error and not a figure: raises `BadData`.
    """
    rows = came.rows
    at = np.minimum(np.searchsorted(right.key, rows.key), len(right.key) - 1)
    is_right = (
        (right.key[at] == rows.key)
        & (right.count[at] == rows.count)
        & (right.bytes[at] == rows.bytes)
    )
    if not is_right.all():
        bad = int(np.flatnonzero(~is_right)[0])
        raise BadData(
            f"{np.count_nonzero(~is_right):,} of {len(at):,} rows are wrong, the first: key "
            f"{rows.key[bad]}, count {rows.count[bad]}, bytes {rows.bytes[bad]}; near it "
            f"{right.key[at[bad]]}, {right.count[at[bad]]}, {right.bytes[at[bad]]} would be right"
        )
    times = np.bincount(at, minlength=len(right.key))
    first_s = np.full(len(right.key), np.inf)
    first_s[at[::-1]] = came.seen_s[::-1]  # of those that came twice, the earliest stays
    pause_s, undisturbed_s = silences(np.unique(first_s[times > 0]), killed_s)
    return Recovery(
        conf=conf,
        rate=rate,
        pause_s=pause_s,
        undisturbed_s=undisturbed_s,
        lost=int(np.count_nonzero(times == 0)),
        duplicated=int(len(at) - np.count_nonzero(times)),
        results=len(at),
    )


def silences(news_s: Floats, killed_s: float) -> tuple[float, float]:
    """The longest time without news that ends after the kill, and the longest before it.

    `news_s` are the times of new results, in order. Raises `BadData` where there are too few.
    """
    ends, lengths = news_s[1:], np.diff(news_s)
    after = lengths[ends > killed_s]
    before = lengths[(ends <= killed_s) & (news_s[:-1] >= news_s[:1] + SETTLE_S)]
    if not len(after) or not len(before):
        raise BadData(
            f"{len(before)} silences before the kill and {len(after)} after it: both are needed; "
            "a longer run, killed later, has more"
        )
    return float(after.max()), float(before.max())
