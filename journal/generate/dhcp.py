"""Leases of addresses: how long one lasts is known only later.

    ts        mac                ip        event    expires
    10:00:00  02:00:00:00:00:07  10.0.0.2  lease    11:00:00    holds the address until then, so far
    10:29:12  02:00:00:00:00:07  10.0.0.2  renew    11:29:12    ... longer
    10:41:05  02:00:00:00:00:07  10.0.0.2  release  10:41:05    ... no, only up to now

As a stream of lifetimes: a lease inserts [ts, expires), a renew moves the end up, a release moves
it back to its `ts`. A lease of which nothing more is heard ends when it said.

Each address lives by itself. Half of a lease's time before its end, more or less, its client
renews it, except for a share (`early_share`) that release it before, and one (`silent_share`) of
which nothing is heard again. Then the address is idle for up to half a lease, and goes to one of
its clients: each address has `clients` of them, who get no other, as servers give a client the
address that it had before.

    Never: a renew or a release of a lease that is over, or another's; two leases of an address, or
    of a client, at a time.

All addresses are advanced together, a slice of event time after the other: the state is three
numbers an address.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gapless.journal.generate.blocks import (
    BLOCK_ROWS,
    TIMESTAMP,
    Events,
    Ints,
    times,
    within,
)
from gapless.protocol.errors import Misuse

GENERATOR, FIRST_LEASES = 3, 103
LEASE_MIN_MS, LEASE_MAX_MS = 1_000, 30 * 86_400_000
"""From a second, where the shares of a lease still are whole milliseconds, to a month."""
ADDRESSES_MIN, ADDRESSES_MAX = 64, 1 << 20
"""With fewer, advancing them together would be a loop over rows; more are 24 MB of state."""
CLIENTS_MAX = 4
SHARES_MAX = 0.9
"""Of early and silent ends together: else there were no renewals."""
JITTER = 0.05
"""A renewal comes at half of the lease's time, plus or minus so much of it."""
LEASE, RENEW, RELEASE = 0, 1, 2
EVENTS = pa.array(["lease", "renew", "release"])


@dataclass(frozen=True, kw_only=True)
class Dhcp(Events):
    """Leases, renewals and releases in the order of their times.

    How many addresses there are follows from the rate and the lease time. At the start none is
    leased: the rate is reached after about a lease time.
    """

    rate: int = 100
    """Once the addresses are in use, on average."""
    lease_ms: int = 600_000
    early_share: float = 0.1
    silent_share: float = 0.1
    clients: int = 3
    """For each address, at most one at a time."""

    def _check(self) -> None:
        within("lease", self.lease_ms, LEASE_MIN_MS, LEASE_MAX_MS, "ms")
        within("early share", self.early_share, 0.0, SHARES_MAX)
        within("silent share", self.silent_share, 0.0, SHARES_MAX)
        within("clients", self.clients, 1, CLIENTS_MAX)
        ends = self.early_share + self.silent_share
        within("early and silent share together", ends, 0.01, SHARES_MAX)
        if not ADDRESSES_MIN <= self.addresses <= ADDRESSES_MAX:
            raise Misuse(
                f"{self.rate} events a second and leases of {self.lease_ms} ms keep "
                f"{self.addresses} addresses busy: it is from {ADDRESSES_MIN} to {ADDRESSES_MAX}; "
                "change the rate or the lease"
            )

    @cached_property
    def addresses(self) -> int:
        """How many it takes for the rate: each has `events` of them in a cycle of `leases` time."""
        early, silent = self.early_share, self.silent_share
        ends = early + silent
        renewals = (1 - ends) / ends
        events = 1 + renewals + early / ends
        leases = renewals / 2 + (early / 4 + silent) / ends + 1 / 4
        return round(self.rate * self.lease_ms * leases / events / 1000)

    def _span_ms(self) -> int:
        return (self.events - 1) * 1000 // self.rate + self.lease_ms

    @property
    def schema(self) -> pa.Schema:
        """`event` is lease, renew or release; `expires` is when the lease ends as of now."""
        return pa.schema(
            [
                ("ts", TIMESTAMP),
                ("mac", pa.string()),
                ("ip", pa.string()),
                ("event", pa.string()),
                ("expires", TIMESTAMP),
            ]
        )

    def _blocks(self) -> Iterator[pa.RecordBatch]:
        slice_ms = max(1, BLOCK_ROWS * 1000 // self.rate)
        state = _Addresses(self)
        number = 0
        while True:
            ts, address, client, event = state.until((number + 1) * slice_ms, number)
            expires = np.where(event == RELEASE, ts, ts + self.lease_ms)
            columns = [times(self.start_ms, ts), _macs(client), _ips(address)]
            columns += [EVENTS.take(pa.array(event)), times(self.start_ms, expires)]
            yield pa.record_batch(columns, schema=self.schema)
            number += 1


class _Addresses:
    """What each address does next, and when."""

    def __init__(self, of: Dhcp) -> None:
        self._of = of
        draws = of.draws(FIRST_LEASES, 0)
        self._next_ms = draws.integers(0, of.lease_ms, of.addresses)
        self._event = np.full(of.addresses, LEASE, np.int64)
        self._client = np.zeros(of.addresses, np.int64)

    def until(self, end_ms: int, number: int) -> tuple[Ints, Ints, Ints, Ints]:
        """Time, address, client and event of what happens before `end_ms`, in order of time.

        A pass lets each address that is due do one thing: there are as many as the busiest has
        things to do, not as there are rows.
        """
        draws = self._of.draws(GENERATOR, number)
        done: list[tuple[Ints, Ints, Ints, Ints]] = []
        due = np.flatnonzero(self._next_ms < end_ms)
        while len(due):
            done.append(self._advance(due, draws))
            due = due[self._next_ms[due] < end_ms]
        if not done:
            return (np.zeros(0, np.int64),) * 4
        ts, address, client, event = (np.concatenate(column) for column in zip(*done, strict=True))
        order = np.lexsort((address, ts))
        return ts[order], address[order], client[order], event[order]

    def _advance(self, due: Ints, draws: np.random.Generator) -> tuple[Ints, Ints, Ints, Ints]:
        of, ts, event = self._of, self._next_ms[due], self._event[due]
        fresh = due * of.clients + draws.integers(0, of.clients, len(due))
        client = np.where(event == LEASE, fresh, self._client[due])
        half = of.lease_ms // 2
        jitter = max(1, int(of.lease_ms * JITTER))
        fate = draws.random(len(due))
        soon = draws.integers(1, half, len(due))
        is_over = (event == RELEASE) | (fate >= 1 - of.silent_share)
        is_early = ~is_over & (fate < of.early_share)
        wait = half + draws.integers(-jitter, jitter + 1, len(due))
        wait = np.where(is_early, soon, wait)
        wait = np.where(is_over, np.where(event == RELEASE, 0, of.lease_ms) + soon, wait)
        self._next_ms[due] = ts + wait
        self._event[due] = np.where(is_over, LEASE, np.where(is_early, RELEASE, RENEW))
        self._client[due] = client
        return ts, due, client, event


DECIMAL = pa.array([str(byte) for byte in range(256)])
HEX = pa.array([f"{byte:02x}" for byte in range(256)])


def _ips(address: Ints) -> pa.Array:
    """10.0.0.0 and those after it."""
    return pc.binary_join_element_wise("10", *_bytes(address, 3, DECIMAL), ".")


def _macs(client: Ints) -> pa.Array:
    """Locally administered ones, 02:00:00:00:00:00 and those after it."""
    return pc.binary_join_element_wise("02:00", *_bytes(client, 4, HEX), ":")


def _bytes(numbers: Ints, count: int, texts: pa.Array) -> list[pa.Array]:
    """The last bytes of each number as texts, the highest first."""
    shifts = reversed(range(0, 8 * count, 8))
    return [texts.take(pa.array(numbers >> shift & 255)) for shift in shifts]
