"""Seeded streams of events: any number of them, the same ones every time.

    for batch in Netflow(seed=7, events=5_000_000, lateness_ms=2_000):
        ...                      # Arrow record batches; the next time the very same rows

    Netflow   network flow records: busy hosts, band or block-sorted disorder, lulls, time skew
    Nexmark   the benchmark's persons, auctions and bids
    Dhcp      leases of addresses, whose ends are known only later
    Quotes    updates of prices, in bursts

A generator is a value: (seed, events, options) and nothing else decide its rows. It reads no clock
and touches no file; what writes files is `gapless generate`. `blocks.py` has what they share, and
why memory stays flat; `pace.py` has lulls and bursts.
"""

from gapless.journal.generate.blocks import Events
from gapless.journal.generate.dhcp import Dhcp
from gapless.journal.generate.netflow import Netflow
from gapless.journal.generate.nexmark import Nexmark
from gapless.journal.generate.quotes import Quotes

__all__ = ["Dhcp", "Events", "Netflow", "Nexmark", "Quotes"]
