"""Origins: what a new life of a replica is told to start from, the best first.

    live peers    of the same plan, not the one that leads: a snapshot makes it pause, and the
                  output would wait; never the last one, for the same reason
    a checkpoint  the newest that joins at or before what every merger has made durable; before
                  live peers where it is large
    a replay      of the sources, to join where the slowest merger's durable output ends

All three hold every event that some merger may lack.

A peer gives a state that is too large for a message by the disk. A checkpoint is there already,
some seconds older: what it lacks is read again before a peer would have made and written another.
"""

from __future__ import annotations

from gapless.failover.life_start import LivePeer, Origin, Replay, Stored
from gapless.failover.messages import Life
from gapless.failover.replica import snapshots
from gapless.failover.supervisor.checkpoint_policy import CheckpointInfo
from gapless.failover.supervisor.slots import Shard

PEERS_MAX = 2
"""Peers that are asked one after the other, each with a wait: a checkpoint is sooner then."""


def origins(
    shard: Shard, plan: str, leader: Life | None, join_at: int, stored: CheckpointInfo | None
) -> tuple[Origin, ...]:
    """The origins of a life that runs `plan`; the farthest peers first among them."""
    peers = [known for known in shard.running() if known.plan == plan and known.life != leader]
    peers.sort(key=lambda known: known.stable, reverse=True)
    chosen: list[Origin] = [LivePeer(known.life) for known in peers[:PEERS_MAX]]
    if stored is not None:
        is_large = stored.nbytes > snapshots.MESSAGE_BYTES_MAX
        chosen.insert(0 if is_large else len(chosen), Stored(stored.name))
    return (*chosen, Replay(join_at))
