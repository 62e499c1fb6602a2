"""What a flight recorder costs of a pump's turn in a job: python -m tests.actors.recorder_cost 40

A job of two replicas and a merger runs on Ray, fed steadily. In each of its processes a clock is
read before and behind what the pump does for its recorder, in the source of the pump itself; and
the CPU time of the pump's thread is counted, of which that is a part. A turn is all that the thread
does for one event: it takes messages from bytes, turns the machine, does the effects, calls other
processes.

    Start ... 600 events | copies of them fill the recorder | ... each event is counted ...

The recorder is full, as any is after some minutes: it lets go of an old event for each new one.
"""

from __future__ import annotations

import inspect
import json
import os
import sys
import time
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import gapless as gl
from gapless.actors import pump as pumps
from gapless.actors.pump import Pump
from gapless.failover.recorder.image import read, written
from gapless.failover.recorder.recorder import EVENTS_MAX, IMAGE_EVERY, Recorder
from tests.actors.rays import Feed, end, started, talkers, until, wait_whole

FOLDER = "GAPLESS_RECORDER_COST"
"""Names the folder that the processes write to."""
HOOK = "tests.actors.recorder_cost.plant"
FILL = 600
"""Events of which copies fill a recorder."""
TELL_EVERY = 100
"""Events from one writing of what was counted to the next."""
CUT = 0.01
"""So much of the longest times is left out: another thread had the processor."""
LOOKS = 1001
"""At the clock, one behind the other: the median of what is between two is what one takes."""
NOTES = (
    "        if recorder is not None and (kind not",
    "if message is event else (event, now))\n",
)
"""What a pump does for its recorder with each event: from this text to that one."""


class Cost:
    """Of one pump, in nanoseconds."""

    def __init__(self) -> None:
        self.seen = 0
        self.noting: list[int] = []
        """On the clock: too short for the thread's CPU time, which takes a system call."""
        self.blocks_ns = 0
        """CPU time of `begin_block`, which makes the images as well."""
        self.images_ns = 0
        self.is_noting = False
        self.began_ns = 0
        looks = [time.perf_counter_ns() for _ in range(LOOKS)]
        self.look_ns = median(b - a for a, b in pairwise(looks))

    def noted(self, pump: Pump, took_ns: int) -> None:
        """An event was noted."""
        self.seen += 1
        if self.seen <= FILL:
            recorder = pump._recorder
            if recorder is not None and self.seen == FILL:
                fill(recorder)
            self.blocks_ns = self.images_ns = 0
            self.began_ns = time.thread_time_ns()
            return
        self.noting.append(took_ns)
        if len(self.noting) % TELL_EVERY == 0:
            self.tell(type(pump.machine).__name__)

    def tell(self, machine: str) -> None:
        """Writes what was counted."""
        count, times = len(self.noting), sorted(self.noting)
        kept = times[: int(count * (1 - CUT))]
        told = {
            "machine": machine,
            "count": count,
            "turn": (time.thread_time_ns() - self.began_ns) / count,
            "note": sum(kept) / len(kept) - self.look_ns,
            "block": (self.blocks_ns - self.images_ns) / count,
            "image": self.images_ns / count,
        }
        path = Path(os.environ[FOLDER]) / f"{os.getpid()}-{id(self)}"
        path.with_suffix(".new").write_text(json.dumps(told))
        path.with_suffix(".new").rename(path.with_suffix(".json"))


def fill(recorder: Recorder) -> None:
    """Has a recorder hold copies of what it holds, until it is full: no two are one object."""
    blocks = (*(block.held for block in recorder._blocks), recorder.recent)
    data = written([held for block in blocks for held in block])
    for _ in range((EVENTS_MAX + IMAGE_EVERY) // FILL + 1):
        for held in read(data, _no_executor):
            if len(recorder.recent) >= recorder.full:
                recorder.begin_block()
            if type(held[0]) not in recorder.large or recorder.has_room(held[0]):
                recorder.recent.append(held)


def _no_executor(*_: Any) -> Any:
    raise AssertionError("no event has one")


COSTS: dict[int, Cost] = {}
"""By the id of a recorder."""


def noted(pump: Pump, took_ns: int) -> None:
    """Called by a pump whose source has the clock."""
    COSTS[id(pump._recorder)].noted(pump, took_ns)


def plant() -> None:
    """Has the pumps of this process counted: before anything of a job is there."""
    source = "if True:\n" + inspect.getsource(Pump.happens)
    begin, behind = NOTES
    assert source.count(begin) == source.count(behind) == 1, "the pump is another"
    source = source.replace(begin, f"        _began = _clock()\n{begin}")
    source = source.replace(behind, f"{behind}        _noted(self, _clock() - _began)\n")
    names: dict[str, Any] = {"_clock": time.perf_counter_ns, "_noted": noted}
    exec(source, vars(pumps) | names, names)  # noqa: S102  # the product's own source
    begin_block, begin_image = Recorder.begin_block, Recorder._begin_image

    def timed(recorder: Recorder, call: Callable[[], None], sum_of: str) -> None:
        cost = COSTS.setdefault(id(recorder), Cost())
        before = time.thread_time_ns()
        call()
        setattr(cost, sum_of, getattr(cost, sum_of) + time.thread_time_ns() - before)

    def begins_block(recorder: Recorder, nbytes: int = 0) -> None:
        timed(recorder, partial(begin_block, recorder, nbytes), "blocks_ns")

    def begins_image(recorder: Recorder) -> None:
        timed(recorder, partial(begin_image, recorder), "images_ns")

    for owner, name, what in (
        (Pump, "happens", names["happens"]),
        (Recorder, "begin_block", begins_block),
        (Recorder, "_begin_image", begins_image),
    ):
        setattr(owner, name, what)


def main(seconds: float) -> None:
    """Prints the shares, by pump."""
    with TemporaryDirectory(prefix="cost", dir="/tmp") as folder:
        path = Path(folder)
        told = path / "told"
        told.mkdir()
        variables = {FOLDER: str(told), "PYTHONPATH": str(Path.cwd())}
        where = {"env_vars": variables, "worker_process_setup_hook": HOOK}
        with started(runtime_env=where), Feed(path / "flows") as feed:
            job = gl.launch(talkers(), journal=feed.path, dir=path / "job", replicas=2, mergers=1)
            wait_whole(job)
            over = time.monotonic() + seconds
            until(lambda: time.monotonic() > over, "the time is over", 2 * seconds)
            feed.stop()
            end(job)
        for file in sorted(told.glob("*.json")):
            row = json.loads(file.read_text())
            parts = row["note"], row["block"], row["image"]
            sys.stdout.write(
                f"{row['machine']:<10} {row['count']} turns of {row['turn'] / 1000:.0f} us; "
                "note {:.1f} us, let go {:.1f} us, image {:.1f} us; ".format(
                    *(part / 1000 for part in parts)
                )
                + f"together {100 * sum(parts) / row['turn']:.2f} %\n"
            )


if __name__ == "__main__":
    main(float(sys.argv[1]) if len(sys.argv) > 1 else 40.0)
