"""Whether a query can be cut into shards, each of which answers for its partitions alone."""

from __future__ import annotations

from collections.abc import Mapping

from gapless.engine.plan import Plan
from gapless.journal.layout import Layout
from gapless.protocol.errors import Misuse


def check_shards(plan: Plan, layouts: Mapping[str, Layout], shards: int) -> None:
    """Raises `Misuse` where the answers of so many shards would not be the answer."""
    if shards > 1:
        raise Misuse(f"{len(layouts)} sources of {plan}: shards are not built yet")
