"""Counters: what a sidecar has done, in numbers that only grow. Metrics are made of them.

Kept by plain integers on the loop's thread: counting costs nothing where frames pass.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field


@dataclass(slots=True)
class Counters:
    """By stream, or by code; streams are bounded by the registry."""

    rows_in: Counter[str] = field(default_factory=Counter)
    frames_in: Counter[str] = field(default_factory=Counter)
    bytes_in: Counter[str] = field(default_factory=Counter)
    deliveries: Counter[str] = field(default_factory=Counter)
    bytes_out: Counter[str] = field(default_factory=Counter)
    refusals: Counter[str] = field(default_factory=Counter)
    """By status code."""
    calls: Counter[str] = field(default_factory=Counter)
    """Under way, by kind."""
    peer_calls: Counter[tuple[str, str]] = field(default_factory=Counter)
    """Under way, by kind and host; of hosts that have some."""
