"""Every fault of a real cluster, by its name."""

from __future__ import annotations

from collections.abc import Mapping

from gapless.chaos.drill.faults.corrupt_frames import CorruptFrames
from gapless.chaos.drill.faults.cut_one_way import CutOneWay
from gapless.chaos.drill.faults.delay_messages import DelayFeedback, DelayFrames
from gapless.chaos.drill.faults.delay_packets import DelayPackets
from gapless.chaos.drill.faults.double_messages import DoubleFeedback, DoubleFrames
from gapless.chaos.drill.faults.fault import Fault
from gapless.chaos.drill.faults.fill_disk import FillDisk
from gapless.chaos.drill.faults.flip_checkpoint import FlipCheckpoint
from gapless.chaos.drill.faults.flip_output import FlipOutput
from gapless.chaos.drill.faults.flip_source import FlipSource
from gapless.chaos.drill.faults.freeze_node import FreezeNode
from gapless.chaos.drill.faults.freeze_raylet import FreezeRaylet
from gapless.chaos.drill.faults.jitter_packets import JitterPackets
from gapless.chaos.drill.faults.jump_clock import JumpClock
from gapless.chaos.drill.faults.kill import KillMerger, KillReplica, KillRoot
from gapless.chaos.drill.faults.kill_all import KillAllButOne, KillAllProcesses, KillAllReplicas
from gapless.chaos.drill.faults.kill_driver import KillDriver
from gapless.chaos.drill.faults.kill_gcs import KillGcs
from gapless.chaos.drill.faults.kill_node import KillNode
from gapless.chaos.drill.faults.kill_raylet import KillRaylet
from gapless.chaos.drill.faults.kill_rejoining import KillRejoining
from gapless.chaos.drill.faults.kill_replica_and_merger import KillReplicaAndMerger
from gapless.chaos.drill.faults.lose_gcs import LoseGcs
from gapless.chaos.drill.faults.lose_messages import LoseFeedback, LoseFrames
from gapless.chaos.drill.faults.lose_packets import LosePackets
from gapless.chaos.drill.faults.narrow import Narrow
from gapless.chaos.drill.faults.partition import Partition
from gapless.chaos.drill.faults.refuse import Refuse
from gapless.chaos.drill.faults.reorder_frames import ReorderFrames
from gapless.chaos.drill.faults.reorder_packets import ReorderPackets
from gapless.chaos.drill.faults.reset_connections import ResetConnections
from gapless.chaos.drill.faults.slow_disk import SlowDisk
from gapless.chaos.drill.faults.slow_subscriber import SlowSubscriber
from gapless.chaos.drill.faults.squeeze_memory import SqueezeMemory
from gapless.chaos.drill.faults.stale_frames import StaleFrames
from gapless.chaos.drill.faults.starve import StarveAll, StarveCpu
from gapless.chaos.drill.faults.stop import StopMerger, StopReplica, StopRoot
from gapless.chaos.drill.faults.tear_checkpoint import TearCheckpoint

_KINDS: tuple[type[Fault], ...] = (
    KillReplica,
    KillMerger,
    KillRoot,
    KillReplicaAndMerger,
    KillAllButOne,
    KillAllReplicas,
    KillAllProcesses,
    KillRejoining,
    StopReplica,
    StopMerger,
    StopRoot,
    KillNode,
    FreezeNode,
    KillRaylet,
    FreezeRaylet,
    KillGcs,
    LoseGcs,
    KillDriver,
    Partition,
    Refuse,
    CutOneWay,
    DelayPackets,
    JitterPackets,
    LosePackets,
    ReorderPackets,
    Narrow,
    ResetConnections,
    LoseFrames,
    DoubleFrames,
    ReorderFrames,
    CorruptFrames,
    DelayFrames,
    StaleFrames,
    LoseFeedback,
    DoubleFeedback,
    DelayFeedback,
    SqueezeMemory,
    StarveCpu,
    StarveAll,
    FillDisk,
    SlowDisk,
    TearCheckpoint,
    FlipCheckpoint,
    FlipOutput,
    FlipSource,
    JumpClock,
    SlowSubscriber,
)

FAULTS: Mapping[str, type[Fault]] = {kind.name: kind for kind in _KINDS}
