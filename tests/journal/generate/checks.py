"""What the tests of generators ask of rows: columns as numpy arrays, checks that find a breach."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from gapless.journal.generate import Events

Ints = npt.NDArray[np.int64]


def table(events: Events) -> pa.Table:
    """All rows."""
    return pa.Table.from_batches(list(events), events.schema)


def column(rows: pa.Table, name: str) -> Ints:
    """An integer column, or a column of times in milliseconds."""
    values = rows.column(name).combine_chunks()
    if pa.types.is_timestamp(values.type):
        values = values.view(pa.int64())
    numbers: Ints = values.to_numpy(zero_copy_only=False).astype(np.int64)
    return numbers


def disorder_ms(times: Ints) -> int:
    """The most that a row is below the largest before it."""
    return int((np.maximum.accumulate(times) - times).max(initial=0))


def replay_leases(rows: Iterable[dict[str, Any]]) -> list[str]:
    """Replays leases row by row; says each breach of what a server may do."""
    holders: dict[str, tuple[str, Any]] = {}  # by address: who holds it, and until when
    holdings: dict[str, tuple[str, Any]] = {}  # by client: which address, and until when
    breaches, last = [], None
    for row in rows:
        ts, mac, ip, event = row["ts"], row["mac"], row["ip"], row["event"]
        if last is not None and ts < last:
            breaches.append(f"{ts}: after {last}")
        last = ts
        holder, until = holders.get(ip, ("", ts))
        if event == "lease":
            if until > ts:
                breaches.append(f"{ts}: {ip} is still {holder}'s")
            if mac in holdings and holdings[mac][1] > ts:
                breaches.append(f"{ts}: {mac} has {holdings[mac][0]} already")
        elif holder != mac or until <= ts:
            breaches.append(f"{ts}: {event} of {ip} by {mac}, who does not hold it")
        if event == "release" and row["expires"] != ts:
            breaches.append(f"{ts}: a release that ends later")
        if event != "release" and row["expires"] <= ts:
            breaches.append(f"{ts}: a {event} that ends at once")
        holders[ip], holdings[mac] = (mac, row["expires"]), (ip, row["expires"])
    return breaches
