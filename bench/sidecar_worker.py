"""Processes of the sidecar's bench: one that pushes, one that reads, one that reads many times.

    python -m gapless.bench.sidecar_worker '{"role": "push", "sidecars": "127.0.0.1:7070", ...}'

Frame i of a feed has the rows i*R to (i+1)*R, each an event that starts at its number; so its
reader knows what is missing and what came twice. A feed with a pace has frame i due at `begin +
i / frames_per_s`, on the clock that all processes of a machine share, and a latency is counted from
there: a late push counts. Each prints one JSON document at its end.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from gapless.protocol.frame import Frame
from gapless.protocol.schema import StreamSchema
from gapless.sidecar.client.consumer import Consumer
from gapless.sidecar.client.producer import Producer

SCHEMA = StreamSchema({"src": "int32", "n": "int64"})
STREAM = "bench"
KEYS = 97
LIFE_FRAMES = 100
"""How many frames an event lives for: what the merger holds of each copy."""
FLUSH_S = 120.0
SUBSCRIBE_S = 1.0
"""Before a feed begins many subscribe to it: by then the stream is there."""
PAUSE_S_MAX = 10.0
"""For so long after a strike a silence counts as its pause."""
MADE_MAX = 4000
"""Frames that are made before the first is pushed: making them is not what is measured."""


@dataclass(frozen=True)
class Feed:
    """What a producer pushes."""

    sidecars: str
    frames: int
    rows: int
    frames_per_s: float = 0.0
    """0: as fast as can be."""
    begin: float = 0.0
    """On the monotonic clock."""
    name: str = "a"
    encoding: str = "arrow"
    struck_s: float = 0.0
    """When something is killed, from the beginning on: pauses are looked for from there."""

    def argument(self, role: str, **more: Any) -> str:
        """For a process of its own."""
        return json.dumps({"role": role, **asdict(self), **more})


def frame(i: int, rows: int) -> Frame:
    """The frame of this number."""
    starts = np.arange(i * rows, (i + 1) * rows, dtype=np.int64)
    columns = [pa.array((starts % KEYS).astype(np.int32)), pa.array(starts)]
    ends = starts + LIFE_FRAMES * rows
    return Frame.from_columns(SCHEMA, starts, ends, columns, stable=(i + 1) * rows)


def push(feed: Feed) -> dict[str, Any]:
    """Pushes a feed: when the first frame went, and when the last was taken in."""
    made = [frame(i, feed.rows) for i in range(min(feed.frames, MADE_MAX))]
    late_ms = 0.0
    with Producer(
        feed.sidecars, STREAM, feed.name, SCHEMA, key=True, encoding=feed.encoding
    ) as producer:
        producer.push(made[0])
        producer.flush(FLUSH_S)
        _until(feed.begin)
        began = time.monotonic()
        for i in range(1, feed.frames):
            if feed.frames_per_s:
                due = feed.begin + i / feed.frames_per_s
                _until(due)
                late_ms = max(late_ms, (time.monotonic() - due) * 1e3)
            producer.push(made[i] if i < MADE_MAX else frame(i, feed.rows))
        if not producer.flush(FLUSH_S):
            raise SystemExit(f"not all was taken in within {FLUSH_S:g} s")
        ended = time.monotonic()
    return {"began": began, "ended": ended, "late_ms": late_ms}


def _until(moment: float) -> None:
    wait_s = moment - time.monotonic()
    if wait_s > 0:
        time.sleep(wait_s)


def read(feed: Feed) -> dict[str, Any]:
    """Reads to the end of a feed: what was lost or came twice, latencies, and the longest pause."""
    numbers: list[Any] = []
    moments: list[tuple[float, int]] = []
    first = 0.0
    with Consumer(feed.sidecars, STREAM, start="earliest") as consumer:
        for got in consumer:
            now = time.monotonic()
            first = first or now
            if len(got):
                numbers.append(got.payload.column(1).to_numpy().copy())
            if got.stable is not None:
                moments.append((now, got.stable))
                if got.stable >= feed.frames * feed.rows:
                    break
    every = np.concatenate(numbers)
    different = len(np.unique(every))
    times = np.array([moment for moment, _ in moments])
    answer = {
        "first": first,
        "last": float(times[-1]),
        "deliveries": len(moments),
        "lost": feed.frames * feed.rows - different,
        "doubled": len(every) - different,
    }
    if feed.frames_per_s:
        answer |= _paced(feed, times, np.array([stable for _, stable in moments]))
    return answer


def _paced(feed: Feed, times: Any, stables: Any) -> dict[str, Any]:
    """Of each frame, how long after it was due its stable had come; and the longest silence."""
    numbers = np.arange(1, feed.frames)
    came = times[np.searchsorted(stables, (numbers + 1) * feed.rows)]
    latencies = (came - (feed.begin + numbers / feed.frames_per_s)) * 1e3
    struck = feed.begin + feed.struck_s
    since = times[max(0, int(np.searchsorted(times, struck)) - 1) :]
    gaps = np.diff(since[since <= struck + PAUSE_S_MAX]) * 1e3
    return {
        "p50_ms": float(np.percentile(latencies, 50)),
        "p99_ms": float(np.percentile(latencies, 99)),
        "max_ms": float(latencies.max()),
        "pause_ms": float(gaps.max()) if len(gaps) else 0.0,
    }


async def _read_many(feed: Feed, count: int) -> dict[str, Any]:
    """Many subscribers in one process, by raw calls: how far behind the slowest was at its worst,
    and whether all came to the end.
    """
    import grpc

    from gapless.sidecar import gapless_pb2 as pb

    channels = [
        grpc.aio.insecure_channel(feed.sidecars, [("grpc.use_local_subchannel_pool", 1)])
        for _ in range(8)
    ]
    end = feed.frames * feed.rows
    worst_ms = 0.0
    finished = 0

    async def one(i: int) -> None:
        nonlocal worst_ms, finished
        await asyncio.sleep(max(0.0, feed.begin - SUBSCRIBE_S - time.monotonic()))
        call = channels[i % len(channels)].unary_stream(
            "/gapless.v1.Sidecar/Subscribe",
            pb.SubscribeRequest.SerializeToString,
            pb.Delivery.FromString,
        )(pb.SubscribeRequest(stream=STREAM, edge=pb.EDGE_BEGIN))
        async for delivery in call:
            for each in delivery.frames:
                if each.HasField("stable") and each.stable > feed.rows:
                    due = feed.begin + (each.stable // feed.rows - 1) / feed.frames_per_s
                    worst_ms = max(worst_ms, (time.monotonic() - due) * 1e3)
                    if each.stable >= end:
                        finished += 1
                        call.cancel()
                        return

    await asyncio.gather(*(one(i) for i in range(count)), return_exceptions=True)
    return {"worst_ms": worst_ms, "finished": finished}


def main() -> None:
    """Does what the argument says."""
    asked = json.loads(sys.argv[1])
    role, count = asked.pop("role"), asked.pop("count", 0)
    feed = Feed(**asked)
    if role == "push":
        answer = push(feed)
    elif role == "read":
        answer = read(feed)
    else:
        answer = asyncio.run(_read_many(feed, count))
    sys.stdout.write(json.dumps(answer) + "\n")


if __name__ == "__main__":
    main()
