"""The sidecar against its bars, over loopback, with real processes.

    section      what
    throughput   three producers as fast as can be, merged, and read by one subscriber
    latency      50,000 elements a second from two producers: when a frame was due, when it was read
    many         200 subscribers of one stream at 1,000 elements a second
    stuck        20,000 elements a second beside a subscriber that reads nothing: memory, then
                 OUT_OF_RANGE once what it has not read is trimmed
    kills        a producer; the sidecar, which is started again; one of two sidecars

`gapless bench sidecar --only kills` looks at one of them. Rows of a feed are numbered, so what is
lost and what is doubled is counted row by row. Producers, sidecars, subscribers and whatever else
the machine does share its cores.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

import numpy as np

from gapless.bench.harness import Context, Row
from gapless.bench.sidecar_processes import Sidecar, Worker
from gapless.bench.sidecar_worker import STREAM, Feed
from gapless.protocol.errors import Misuse

SUMMARY = "The sidecar over loopback: throughput, latency, many subscribers, memory, kills"

LEAD_S = 6.0
"""From when processes are started to when a paced feed begins: they import libraries first."""
COPIES = ("a", "b", "c")


def run(context: Context) -> Iterator[Row]:
    """All sections, or those that were asked for."""
    unknown = set(context.only) - set(SECTIONS)
    if unknown:
        raise Misuse(f"--only {min(unknown)}: the sections are {', '.join(SECTIONS)}")
    for name, measure in SECTIONS.items():
        if not context.only or name in context.only:
            with tempfile.TemporaryDirectory(prefix="gapless-sidecar-") as folder:
                yield from measure(context, Path(folder))


# -- throughput -----------------------------------------------------------------------------------


def _throughput(context: Context, folder: Path) -> Iterator[Row]:
    frames = 300 if context.quick else 3000
    arrow = _rate(folder / "arrow", Feed("", frames, 1000))
    yield Row("3 producers, Arrow, merged and read", arrow, "elements/s", bar=2.5e6, op=">=")
    frames = 30 if context.quick else 300
    msgpack = _rate(folder / "msgpack", Feed("", frames, 1000, encoding="msgpack"))
    yield Row("3 producers, msgpack, merged and read", msgpack, "elements/s", bar=150e3, op=">=")


def _rate(data: Path, feed: Feed) -> float:
    """Elements that the sidecar took in a second, until the last was read."""
    with Sidecar(data) as one:
        begin = time.monotonic() + LEAD_S
        feeds = [_of(feed, one.address, begin, name) for name in COPIES]
        reader = Worker(feeds[0].argument("read"))
        pushers = [Worker(each.argument("push")) for each in feeds]
        began = min(pusher.answer()["began"] for pusher in pushers)
        last = reader.answer()["last"]
        taken_in = one.rows_in() - len(COPIES) * feed.rows  # the first frame opens the stream
    return float(taken_in / (last - began))


def _of(feed: Feed, sidecars: str, begin: float, name: str) -> Feed:
    return replace(feed, sidecars=sidecars, begin=begin, name=name)


# -- latency --------------------------------------------------------------------------------------


def _latency(context: Context, folder: Path) -> Iterator[Row]:
    seconds = 3 if context.quick else 20
    feed = Feed("", 250 * seconds, 100, 250.0)
    with Sidecar(folder / "data") as one:
        begin = time.monotonic() + LEAD_S
        feeds = [_of(feed, one.address, begin, name) for name in COPIES[:2]]
        reader = Worker(feeds[0].argument("read"))
        pushers = [Worker(each.argument("push")) for each in feeds]
        for pusher in pushers:
            pusher.answer()
        answer = reader.answer()
    what = "push to subscriber at 50,000 elements/s"
    yield Row(f"{what}, p50", answer["p50_ms"], "ms", bar=3, op="<=")
    yield Row(f"{what}, p99", answer["p99_ms"], "ms", bar=15, op="<=")


# -- many subscribers -----------------------------------------------------------------------------


def _many(context: Context, folder: Path) -> Iterator[Row]:
    seconds, count = (3, 50) if context.quick else (20, 200)
    feed = Feed("", 20 * seconds, 50, 20.0)
    with Sidecar(folder / "data") as one:
        begin = time.monotonic() + LEAD_S
        asked = _of(feed, one.address, begin, COPIES[0])
        pusher = Worker(asked.argument("push"))
        reader = Worker(asked.argument("many", count=count))
        time.sleep(LEAD_S + seconds / 4)
        before = one.memory_bytes()
        pusher.answer()
        answer = reader.answer()
        after = one.memory_bytes()
    yield Row(f"{count} subscribers: came to the end", answer["finished"], "", bar=count, op=">=")
    yield Row(f"{count} subscribers: the farthest behind", answer["worst_ms"], "ms", 500, "<=")
    grown_mb = (after - before) / 2**20
    yield Row(f"{count} subscribers: memory grown", grown_mb, "MB", bar=50, op="<=")


# -- a stuck subscriber ---------------------------------------------------------------------------


def _stuck(context: Context, folder: Path) -> Iterator[Row]:
    import grpc

    from gapless.sidecar import gapless_pb2 as pb

    seconds = 15 if context.quick else 600
    feed = Feed("", 20 * seconds, 1000, 20.0)
    with Sidecar(folder / "data", "--retain-bytes", str(4 << 20)) as one:
        begin = time.monotonic() + LEAD_S
        pusher = Worker(_of(feed, one.address, begin, COPIES[0]).argument("push"))
        time.sleep(LEAD_S)
        channel = grpc.insecure_channel(one.address, [("grpc.http2.bdp_probe", 0)])
        call = channel.unary_stream(
            "/gapless.v1.Sidecar/Subscribe",
            pb.SubscribeRequest.SerializeToString,
            pb.Delivery.FromString,
        )(pb.SubscribeRequest(stream=STREAM, edge=pb.EDGE_BEGIN))
        resident = []
        step_s = seconds / 60
        while pusher.process.poll() is None:
            time.sleep(step_s)
            resident.append(one.memory_bytes() / 2**20)
        pusher.answer()
        code = "OK"
        try:
            for _ in call:
                continue
        except grpc.RpcError as e:
            code = e.code().name
        channel.close()
    steady = np.array(resident[len(resident) // 3 :])
    grown = float(np.median(steady[-5:]) - np.median(steady[:5]))
    yield Row("stuck subscriber: memory grown", grown, "MB", bar=30, op="<=")
    told = float(code == "OUT_OF_RANGE")
    yield Row("stuck subscriber: told OUT_OF_RANGE", told, "", bar=1, op=">=")


# -- kills ----------------------------------------------------------------------------------------


def _kills(context: Context, folder: Path) -> Iterator[Row]:
    kills = 1 if context.quick else max(1, context.kills // 4)
    for what, strike, bar in (
        ("a producer killed", _kill_producer, 50.0),
        ("the sidecar killed and started again", _kill_sidecar, 2000.0),
        ("one of two sidecars killed", _kill_one_of_two, 100.0),
    ):
        answers = [strike(folder / f"{what.replace(' ', '-')}-{i}") for i in range(kills)]
        pause = max(answer["pause_ms"] for answer in answers)
        yield Row(f"{what}: longest pause", pause, "ms", bar=bar, op="<=")
        for loss in ("lost", "doubled"):
            total = sum(answer[loss] for answer in answers)
            yield Row(f"{what}: {loss}", total, "rows", bar=0, op="<=")


PACE = 100.0
"""Frames a second while something is killed: a pause is seen to ten milliseconds."""
SECONDS = 6
STRIKE_S = 2.0
"""From the beginning of a feed to the strike."""


def _struck(
    folder: Path, sidecars: int, strike: Callable[[list[Sidecar], list[Worker]], None]
) -> dict[str, float]:
    """What a subscriber has seen of a strike; all but it goes on."""
    feed = Feed("", int(PACE * SECONDS), 100, PACE, struck_s=STRIKE_S)
    with ExitStack() as stack:
        nodes = [stack.enter_context(Sidecar(folder / str(number))) for number in range(sidecars)]
        addresses = ",".join(node.address for node in nodes)
        begin = time.monotonic() + LEAD_S
        feeds = [_of(feed, addresses, begin, name) for name in COPIES[:2]]
        reader = Worker(feeds[0].argument("read"))
        pushers = [Worker(each.argument("push")) for each in feeds]
        time.sleep(max(0.0, begin + STRIKE_S - time.monotonic()))
        strike(nodes, pushers)
        answer = reader.answer()
        for pusher in pushers:
            if pusher.process.poll() is None:
                pusher.answer()
    return answer


def _kill_producer(folder: Path) -> dict[str, float]:
    return _struck(folder, 1, lambda nodes, pushers: pushers[0].kill())


def _kill_sidecar(folder: Path) -> dict[str, float]:
    def strike(nodes: list[Sidecar], _: list[Worker]) -> None:
        nodes[0].kill()
        nodes[0].launch()

    return _struck(folder, 1, strike)


def _kill_one_of_two(folder: Path) -> dict[str, float]:
    return _struck(folder, 2, lambda nodes, pushers: nodes[0].kill())


SECTIONS = MappingProxyType(
    {
        "throughput": _throughput,
        "latency": _latency,
        "many": _many,
        "stuck": _stuck,
        "kills": _kills,
    }
)
