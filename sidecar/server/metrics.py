"""Metrics: a sidecar in numbers, as Prometheus reads them.

    gapless_sidecar_input_rows_total{stream="talkers"} 120000
    gapless_sidecar_stable{stream="talkers"} 1718000000000

They are computed when somebody asks, from what is counted and known anyway; series are bounded by
the streams and by the producers of each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

from gapless.protocol.elements import BEGIN, INF
from gapless.sidecar.server.counters import Counters
from gapless.sidecar.server.registry import Registry

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_PREFIX = "gapless_sidecar_"


class Metrics:
    """A collector of one sidecar's numbers."""

    def __init__(
        self, registry: Registry, counters: Counters, problem: Callable[[], str | None]
    ) -> None:
        self._registry = registry
        self._counters = counters
        self._problem = problem
        self._collectors = CollectorRegistry(auto_describe=False)
        self._collectors.register(self)

    def text(self) -> bytes:
        """All of them."""
        return generate_latest(self._collectors)

    def describe(self) -> list[Any]:
        """Nothing: names are known once they are collected."""
        return []

    def collect(self) -> Iterator[Any]:
        """For `prometheus_client`."""
        yield from self._counted()
        yield from self._known()

    def _counted(self) -> Iterator[Any]:
        counters = self._counters
        for name, words, counter, label in (
            ("input_rows", "Rows taken in from producers", counters.rows_in, "stream"),
            ("input_frames", "Frames taken in from producers", counters.frames_in, "stream"),
            ("input_bytes", "Bytes of those frames", counters.bytes_in, "stream"),
            ("deliveries", "Messages sent to subscribers", counters.deliveries, "stream"),
            ("delivered_bytes", "Bytes of those messages", counters.bytes_out, "stream"),
            ("refusals", "Calls that ended with a status other than OK", counters.refusals, "code"),
        ):
            family = CounterMetricFamily(_PREFIX + name, words, labels=[label])
            for key, value in counter.items():
                family.add_metric([key], value)
            yield family
        calls = GaugeMetricFamily(_PREFIX + "calls", "Calls under way", labels=["kind"])
        for kind, value in self._counters.calls.items():
            calls.add_metric([kind], value)
        yield calls

    def _known(self) -> Iterator[Any]:
        def gauge(name: str, words: str, *labels: str) -> GaugeMetricFamily:
            return GaugeMetricFamily(_PREFIX + name, words, labels=["stream", *labels])

        ready = GaugeMetricFamily(_PREFIX + "ready", "Whether the data path is whole")
        ready.add_metric([], 0 if self._problem() else 1)
        rows = gauge("output_rows", "Durable rows of the output")
        stable = gauge("stable", "How far the output is durably stable, in the stream's unit")
        producers = gauge("producers", "Producers with a call under way")
        subscribers = gauge("subscribers", "Subscribers")
        divergences = gauge("divergences", "Events of which copies differ")
        detached = gauge("detached_producers", "Producers that were not believed")
        held = gauge("state_bytes", "What the merger holds")
        state = gauge("pending_rows", "Rows that are merged and not durable yet")
        keys = gauge("live_keys", "Events that the merger holds")
        copies = gauge("producer_stable", "How far a copy is stable", "producer")
        for name, stream in self._registry.streams.items():
            sizes = stream.machine.sizes()
            rows.add_metric([name], stream.rows)
            _add_time(stable, [name], stream.machine.durable_stable)
            producers.add_metric([name], len(stream.copies))
            subscribers.add_metric([name], stream.subscribers)
            state.add_metric([name], sizes["pending rows"])
            held.add_metric([name], stream.machine.state_bytes)
            keys.add_metric([name], sizes["live keys"])
            if stream.status is not None:
                divergences.add_metric([name], stream.status.divergences)
                detached.add_metric([name], stream.status.detached)
                for each in stream.status.inputs:
                    _add_time(copies, [name, each.life.slot], each.stable)
        yield from (
            ready,
            rows,
            stable,
            producers,
            subscribers,
            divergences,
            detached,
            state,
            held,
            keys,
            copies,
        )


def _add_time(family: GaugeMetricFamily, labels: list[str], t: int) -> None:
    """A time, where it is one: before the first promise and after the last there is no number."""
    if BEGIN < t < INF:
        family.add_metric(labels, t)
