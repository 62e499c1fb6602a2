"""Checkpointing: which replica writes the next one, which ones are kept, which one a start uses.

    every checkpoint_ms, by (shard, plan):   TakeCheckpoint --> a replica that does not lead
    of a large state less often              CheckpointTaken --> remembered
    kept:   o       o  o      the newest two of a (shard, plan), and the newest that joins at or
            |       newest    before the durable stable of every merger: the only ones that a life
            joins in time     can start from without a gap at a merger that is behind

A replica that leads is not asked while another could, nor for a while where another is on its way:
it reads nothing while its state is taken, and the output would wait. Nor is anybody asked for a
large one then: the replica that joins needs the cores and the disk.
An answer may be lost. Then the next question has another name, and the file of the first is
dropped with the next one that is known to be there.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from gapless.failover.messages import Life
from gapless.failover.statuses import CheckpointTaken
from gapless.protocol.errors import Bug

KEPT = 2
"""Of each shard and plan: one may turn out not to verify, and then there is another."""
ASKED_MAX = 64
"""Questions without an answer whose files may be there, of each shard and plan. So many answers
are not lost one after the other; a new supervisor lists the directory anyway.
"""

BYTES_A_SECOND = 1 << 24
"""Of checkpoints of one shard and plan, in the mean: to take so many, fold and write them costs a
tenth of a core. A larger state is written less often."""
SPARED_MAX = 6
"""Intervals by which a checkpoint may be late, so that a joining replica takes it and not the
leader: a minute, in which most have rejoined. A replay from the last one gets longer by as much."""


@dataclass(frozen=True, slots=True)
class CheckpointInfo:
    """What is known of a checkpoint without reading it whole."""

    name: str
    shard: int
    plan: str
    join_at: int
    """A replica that starts from it has every event with `ve` from here on."""
    nbytes: int = 0
    """How large it is, about."""


Kind = tuple[int, str]
"""A shard and a plan: a checkpoint fits replicas of one kind."""


class Checkpoints:
    """All checkpoints of a job. `known` are those that are there already, the oldest first."""

    def __init__(self, term: int, known: Iterable[CheckpointInfo], every_ms: int) -> None:
        self._term = term
        self._every_ms = every_ms
        self._made = 0
        self._kept: dict[Kind, list[CheckpointInfo]] = {}
        self._asked: dict[Kind, list[str]] = {}
        self._asked_at: dict[Kind, int] = {}
        for info in known:
            self._kept.setdefault((info.shard, info.plan), []).append(info)

    # -- making -------------------------------------------------------------------------------

    def is_due(self, kind: Kind, now: int) -> bool:
        """Whether it is time for the next one; the first is due a whole wait from now."""
        asked_at = self._asked_at.setdefault(kind, now)
        return now - asked_at >= self._wait_ms(kind)

    def _wait_ms(self, kind: Kind) -> int:
        """From one to the next: the larger they are the longer."""
        return max(self._every_ms, self.nbytes(kind) * 1000 // BYTES_A_SECOND)

    def nbytes(self, kind: Kind) -> int:
        """How large the newest one is; 0 where there is none."""
        infos = self._kept.get(kind)
        return infos[-1].nbytes if infos else 0

    def may_wait(self, kind: Kind, now: int) -> bool:
        """Whether the one that is due may wait until another replica can take it, or until the
        replica that is starting has joined.
        """
        late_ms = now - self._asked_at[kind] - self._wait_ms(kind)
        return late_ms < SPARED_MAX * self._every_ms

    def ask(self, kind: Kind, now: int) -> str:
        """The name of the next one, which is asked for now."""
        self._made += 1
        name = f"{kind[0]}-{kind[1]}-{self._term}-{self._made}"
        self._asked_at[kind] = now
        asked = self._asked.setdefault(kind, [])
        asked.append(name)
        del asked[:-ASKED_MAX]
        return name

    def taken(self, shard: int, answer: CheckpointTaken) -> list[str]:
        """One is there; returns the names of older ones whose answers never came."""
        kind = (shard, answer.plan)
        asked = self._asked.get(kind, [])
        if answer.name not in asked:
            if any(info.name == answer.name for info in self._kept.get(kind, [])):
                return []  # the message was delivered twice
            return [answer.name]  # given up meanwhile, or of a supervisor before
        place = asked.index(answer.name)
        if answer.reason:
            del asked[place]
            return []
        info = CheckpointInfo(answer.name, shard, answer.plan, answer.join_at, answer.nbytes)
        self._kept.setdefault(kind, []).append(info)
        lost = asked[:place]
        del asked[: place + 1]
        return lost

    # -- using and dropping -------------------------------------------------------------------

    def newest(self, kind: Kind, join_by: int) -> CheckpointInfo | None:
        """The newest one that joins at `join_by` or before."""
        for info in reversed(self._kept.get(kind, [])):
            if info.join_at <= join_by:
                return info
        return None

    def drop(
        self, kinds: Collection[Kind], join_by: Mapping[int, int], used: Collection[str]
    ) -> list[str]:
        """Forgets what is no longer needed, and returns the names.

        `kinds` are those that run or are to run, `join_by` has of each shard the smallest durable
        stable of its mergers, `used` are names that a life may be reading now.
        """
        dropped: list[str] = []
        for kind in list(self._kept):
            infos = self._kept[kind]
            keep: set[str] = set(used)
            if kind in kinds:
                keep.update(info.name for info in infos[-KEPT:])
                in_time = self.newest(kind, join_by[kind[0]])
                if in_time is not None:
                    keep.add(in_time.name)
            if len(infos) <= KEPT and kind in kinds:
                continue
            dropped += [info.name for info in infos if info.name not in keep]
            self._kept[kind] = [info for info in infos if info.name in keep]
            if not self._kept[kind]:
                del self._kept[kind]
        return dropped

    def names(self) -> list[str]:
        """All that are kept."""
        return [info.name for infos in self._kept.values() for info in infos]

    def validate(self) -> None:
        """Raises `Bug` where a checkpoint is kept twice, or with the wrong kind."""
        names = self.names()
        if len(set(names)) != len(names):
            raise Bug(f"checkpoints kept twice: {names}")
        for kind, infos in self._kept.items():
            if any((info.shard, info.plan) != kind for info in infos):
                raise Bug(f"checkpoints of another kind than {kind}: {infos}")


def taker(running: Mapping[Life, int], leader: Life | None) -> Life | None:
    """Who writes the next one, of the running replicas of a kind, by their stables: the one that is
    farthest and does not lead the shard; the leader only where there is no other.
    """
    others = {life: stable for life, stable in running.items() if life != leader}
    candidates = others or running
    return max(candidates, key=lambda life: (candidates[life], life), default=None)
