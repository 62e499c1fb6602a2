"""Origins: what a new life of a replica is told to start from, the best first.

    live peers    of the same plan, not the one that leads: a snapshot makes it pause, and the
                  output would wait; never the last one, for the same reason
    a checkpoint  the newest that joins at or before what every merger has made durable
    a replay      of the sources, to join where the slowest merger's durable output ends

All three hold every event that some merger may lack.
"""

from __future__ import annotations

from gapless.failover.checkpointing import CheckpointInfo
from gapless.failover.messages import Life
from gapless.failover.slots import Shard
from gapless.failover.starting import LivePeer, Origin, Replay, Stored

PEERS_MAX = 2
"""Peers that are asked one after the other, each with a wait: a checkpoint is sooner then."""


def origins(
    shard: Shard, plan: str, leader: Life | None, join_at: int, stored: CheckpointInfo | None
) -> tuple[Origin, ...]:
    """The origins of a life that runs `plan`; the farthest peers first."""
    peers = [known for known in shard.running() if known.plan == plan and known.life != leader]
    peers.sort(key=lambda known: known.stable, reverse=True)
    chosen: list[Origin] = [LivePeer(known.life) for known in peers[:PEERS_MAX]]
    if stored is not None:
        chosen.append(Stored(stored.name))
    return (*chosen, Replay(join_at))
