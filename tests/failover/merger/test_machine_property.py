"""Random replicas through mergers that crash, are taken over and live on as zombies.

The replicas here are the smallest that keep the protocol's promises: each tells the same table in
its own way, keeps all that it has said, and on a new session says what ends at or behind the last
durable stable that was acked. What must hold, whatever happens between: what was delivered is what
the journal has at that offset (so nothing past a cut ever was), what was called durable is there,
and the journal tells the table in the end.
"""

import random
from collections.abc import Callable
from typing import Any

import pytest

from gapless.chaos.sim.disk import SimulatedDisk
from gapless.failover.effects import Send
from gapless.failover.fold import Fold
from gapless.failover.merger.durable_output import DurableOutput
from gapless.failover.merger.effects import Appended, MergerEffect
from gapless.failover.merger.machine import Merger
from gapless.failover.merger.output_journal import OutputJournal
from gapless.failover.messages import (
    Ack,
    Attach,
    Data,
    Delivery,
    Fetch,
    Refused,
    Session,
    Token,
)
from gapless.merge.choose import CaseName
from gapless.protocol.elements import BEGIN, INF
from gapless.protocol.errors import Fenced, GaplessError
from gapless.protocol.frame import Frame
from gapless.protocol.tdb import Tdb
from gapless.protocol.text import DEFAULT_SCHEMA
from gapless.protocol.variants import random_tdb, random_telling, tell
from tests.effort import cases
from tests.failover.mergers import M1, Pump, journal_rows, life

SEEDS = cases(12)
STEPS_MAX = 2000
"""Several times what the slowest good run takes to its end."""
PAYLOADS: list[tuple[object, ...]] = [("A",), ("B",), ("C",)]


class Teller:
    """The smallest replica: one session at a time, one frame at a time."""

    def __init__(self, index: int, frames: list[Frame]) -> None:
        self.life = life(f"r0.{index}")
        self.frames = frames
        self.at = 0  # of the next frame
        self.since = BEGIN
        self.session: Session | None = None
        self.attempt = 0
        self.sequence = 0

    def speak(self) -> Attach | Data | None:
        """The next message; None where all is said."""
        if self.session is None:
            self.attempt += 1
            self.session, self.sequence = Session(self.life, M1, self.attempt), 0
            tail = Fold(DEFAULT_SCHEMA, self.since)
            for frame in self.frames[: self.at]:
                tail.add(frame)
            return Attach(self.session, self.since, tail.table())
        if self.at == len(self.frames):
            return Data(self.session, self.sequence + 1, Frame.empty(DEFAULT_SCHEMA))
        return Data(self.session, self.sequence + 1, self.frames[self.at])

    def hear(self, message: Ack | Refused) -> None:
        if message.session != self.session:
            return
        if isinstance(message, Refused):
            self.session = None
            return
        if message.sequence == self.sequence + 1:
            self.sequence += 1
            self.at = min(self.at + 1, len(self.frames))
        self.since = max(self.since, message.durable_stable)


class Follower:
    """A cursor, that remembers at which offset it got which row."""

    def __init__(self) -> None:
        self.token = Token(M1, 0, 0, BEGIN)
        self.rows: list[Any] = []

    def hear(self, message: Delivery) -> None:
        if message.after == self.token.offset and message.token.merger == self.token.merger:
            self.rows += message.frame.with_stable(None).elements()
            self.token = message.token


class Scene:
    """One random schedule."""

    def __init__(
        self, seed: int, case: CaseName, build: type[Merger], journal: type[OutputJournal]
    ) -> None:
        self.rng = rng = random.Random(f"merger {seed}")
        self.disk = SimulatedDisk()
        self.table = random_tdb(rng, DEFAULT_SCHEMA, PAYLOADS, 40, duplicates=case == "r4")
        streams = [tell(self.table, random_telling(rng), rng.randrange(10**6)) for _ in range(3)]
        self.tellers = [Teller(i, frames) for i, frames in enumerate(streams)]
        self.follower = Follower()
        self.lives = 0
        self.zombies: list[Pump] = []
        self.bases = 0
        self.durable = BEGIN
        """What some life has said is durable."""
        self.astray = False
        """Whether the replicas mostly reach lives that are over."""
        self._make: Callable[[], Pump] = lambda: Pump(
            self.disk, counter=self.lives, case=case, lazy=True, build=build, journal=journal
        )
        self.pump = self._next()

    def _next(self) -> Pump:
        self.lives += 1
        return self._make()

    @property
    def is_over(self) -> bool:
        return all(t.at == len(t.frames) and t.session is not None for t in self.tellers)

    def run(self) -> None:
        for _ in range(150):
            self.step(self.rng.random())
        self.astray = False
        for _ in range(STEPS_MAX):
            if self.is_over and self.pump.machine.durable_stable == INF:
                return
            self.step(self.rng.choice((0.5, 0.85, 0.95)))
        raise AssertionError("it does not end")

    def step(self, what: float) -> None:
        pump = self.pump
        if what < 0.02:
            self.bases += pump.bases
            self.disk.crash(M1, self.rng)  # the machine, with all that ran there
            self.zombies = []
            self.pump = self._next()
        elif what < 0.06:
            self.bases += pump.bases
            self.zombies = [*self.zombies, pump][-2:]
            self.pump = self._next()
        elif what < 0.08:
            self.astray = not self.astray
        elif what < 0.75:
            lost = self.zombies and self.rng.random() < (0.8 if self.astray else 0.1)
            self._to(self.rng.choice(self.zombies) if lost else pump)
        elif what < 0.9:
            for each in [*self.zombies, pump]:
                if each.unsynced and each.over is None and self.rng.random() < 0.8:
                    each.sync()
        else:
            self._fetch(self.rng.choice([*self.zombies, pump]))
        for each in [*self.zombies, self.pump]:
            self._listen(each)
        for each in [*self.zombies, self.pump]:
            each.machine.validate()
            if self.rng.random() < 0.1:
                each.tick()

    def _to(self, pump: Pump) -> None:
        teller = self.rng.choice(self.tellers)
        message = teller.speak()
        if message is not None and self.rng.random() < 0.95:
            for _ in range(self.rng.choice((1, 1, 1, 2))):
                pump.happens(message)

    def _fetch(self, pump: Pump) -> None:
        pump.happens(Fetch("s", self.follower.token))

    def _listen(self, pump: Pump) -> None:
        for to, message in list(pump.sent):
            if isinstance(message, Delivery) and self.rng.random() < 0.9:
                self.follower.hear(message)
            elif isinstance(message, Ack | Refused):
                if isinstance(message, Ack) and message.durable_stable > self.durable:
                    self.durable = message.durable_stable
                    assert journal_rows(self.disk)[0].stable >= self.durable
                for teller in self.tellers:
                    if to == str(teller.life) and self.rng.random() < 0.95:
                        teller.hear(message)
        pump.sent.clear()

    def check(self) -> None:
        table, rows = journal_rows(self.disk)
        assert table == self.table, table.difference(self.table)
        delivered = self.follower.rows
        assert delivered == rows[: len(delivered)]
        for _ in range(100):
            if len(delivered) == len(rows):
                break
            self._fetch(self.pump)
            self._listen(self.pump)
        assert delivered == rows
        folded = Tdb(DEFAULT_SCHEMA)
        folded.fold(OutputJournal.recover(self._next().journal)[0])
        assert folded.counts() == {}  # stable(inf): all is settled


def run(
    seed: int,
    case: CaseName = "r3",
    build: type[Merger] = Merger,
    journal: type[OutputJournal] = OutputJournal,
) -> Scene:
    scene = Scene(seed, case, build, journal)
    scene.run()
    scene.check()
    return scene


@pytest.mark.parametrize("case", ["r3", "r4"])
def test_the_journal_is_the_table_and_nothing_past_a_cut_is_delivered(case: CaseName) -> None:
    scenes = [run(seed, case) for seed in range(SEEDS)]
    assert sum(scene.lives for scene in scenes) > 3 * SEEDS
    assert sum(scene.bases for scene in scenes) > SEEDS


# -- broken mergers: each small fault is found ----------------------------------------------------


class DurableTooSoon(Merger):
    """Says durable what is merged: replicas forget what a crash may still take."""

    class OUTPUT(DurableOutput):
        @property
        def durable_stable(self) -> int:
            return self._merge.stable


class DeliversFirst(Merger):
    """Hands rows out before they are in the journal."""

    class OUTPUT(DurableOutput):
        def put_out(self, frame: Frame) -> list[MergerEffect]:
            token = Token(M1, 1, self.offset + len(frame), self.durable_stable)
            return [Send("s", Delivery(self.offset, frame, token)), *super().put_out(frame)]


class LooksAway(OutputJournal):
    """Does not look whether somebody has taken the journal over."""

    def sync(self) -> Any:
        try:
            return super().sync()
        except Fenced:
            writer = self._writer
            assert writer is not None
            writer._ended_by = None
            return Appended(writer.rows, writer.stable)


class ForgetsItsTable(OutputJournal):
    """A life that begins with the table of nothing."""

    def recover(self) -> tuple[Frame, int]:
        return Frame.empty(DEFAULT_SCHEMA), super().recover()[1]


@pytest.mark.parametrize(
    ("build", "journal"),
    [
        (DurableTooSoon, OutputJournal),
        (DeliversFirst, OutputJournal),
        (Merger, LooksAway),
        (Merger, ForgetsItsTable),
    ],
)
def test_a_broken_merger_is_found(build: type[Merger], journal: type[OutputJournal]) -> None:
    for seed in range(SEEDS):
        try:
            run(seed, "r3", build, journal)
        except (AssertionError, GaplessError):
            return
    raise AssertionError(f"{build.__name__} over {journal.__name__} was not found")
