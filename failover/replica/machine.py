"""A replica: reads the sources, runs the plan, sends what comes out, and can say it all again.

    sources --ReadSource/SourceRead--> executor --> tail --+--> link --Attach, Data--> merger 0
                                                           +--> link --Attach, Data--> merger 1
                                                                  <-----Ack, Refused-----

A life begins with a live peer's state, with a checkpoint, or with nothing. It holds every event
with `ve >= tail.since`, and attaches to each of its mergers with that promise. What a merger has
made durable it will never need again; so the tail is trimmed by the slowest merger of those that
are awaited, and what all of them call settled the plan need not make.

Its parts, each of which returns the effects of what it is asked:

    initial_state.py     what it begins with                output_sender.py    the tail, the links
    intake.py            what it reads, through the plan    promise_limit.py    held for a cutover
    fast_forward.py      what it leaves out as settled      snapshots.py        what it gives away

A state whose sources cannot be opened any more, where it left them, is given up before anything is
read on from it: the next origin reads other places.

It stops reading, and nothing else, while nobody takes what it has: at the tail's limit, while every
open link lags, and while it holds its promise back for a cutover.
"""

from __future__ import annotations

from typing import ClassVar

from gapless.failover.background_work import BackgroundWork
from gapless.failover.effects import Exit, Send, Start, Tick
from gapless.failover.life_start import ReplicaStart
from gapless.failover.machines import unhandled
from gapless.failover.messages import (
    SUPERVISOR,
    Ack,
    Assign,
    Drain,
    Hold,
    Life,
    Refused,
    Retire,
    SnapshotReply,
    SnapshotRequest,
    TakeCheckpoint,
)
from gapless.failover.replica.draft import DraftMaker
from gapless.failover.replica.effects import (
    CheckpointLoaded,
    CheckpointWritten,
    Done,
    OpenSources,
    ReplicaEffect,
    ReplicaEvent,
    SourceFailed,
    SourceRead,
)
from gapless.failover.replica.executor import Executor
from gapless.failover.replica.fast_forward import FastForward
from gapless.failover.replica.initial_state import InitialState, Restored
from gapless.failover.replica.intake import ReplicaIntake
from gapless.failover.replica.output_sender import OutputSender
from gapless.failover.replica.promise_limit import PromiseLimit
from gapless.failover.replica.rejoins import RejoinTracker
from gapless.failover.replica.snapshots import Snapshots
from gapless.failover.replica.tail import Tail
from gapless.failover.replica.tail_folder import TailFolder
from gapless.failover.statuses import ReplicaStatus
from gapless.failover.timing import Timing
from gapless.protocol.elements import BEGIN
from gapless.protocol.errors import Bug, GaplessError
from gapless.protocol.schema import StreamSchema

Order = Assign | TakeCheckpoint | Drain | Hold | Retire


class Replica:
    """One life of one replica of a query. Pure: the shell does what the effects say."""

    OUTPUT: ClassVar[type[OutputSender]] = OutputSender
    LIMIT: ClassVar[type[PromiseLimit]] = PromiseLimit
    INTAKE: ClassVar[type[ReplicaIntake]] = ReplicaIntake
    DRAFTS: ClassVar[type[DraftMaker]] = DraftMaker

    def __init__(
        self, life: Life, start: ReplicaStart, executor: Executor, timing: Timing | None = None
    ) -> None:
        self.life = life
        self.executor = executor
        self._timing = timing = timing or Timing()
        background = self._background = BackgroundWork()
        folder = TailFolder(executor.schema, background, self._send_and_read)
        about = life, start.mergers, executor.schema, timing, start.awaited
        self.output = self.OUTPUT(*about, folder=folder)
        self._limit = self.LIMIT(executor, self.output, start.held_at)
        state = InitialState(life, start, executor, timing, background, self._begin)
        self._initial_state = state
        self._intake = self.INTAKE(executor, self.output, self._limit, self._holds_plan)
        drafts = self.DRAFTS(executor, self.output, self._intake, state, background)
        self._snapshots = Snapshots(life, executor.name, drafts, self._read_kept_back)
        self._rejoin = RejoinTracker(self.schema.time_unit)
        self._fast_forward = FastForward(executor, self.output, self._rejoin)
        self.is_drained = False
        """Whether it was told to drain, and has read and sent all there was."""
        self._term = life.incarnation.term
        self._version = start.version
        self._said_at = 0
        self._is_over = False

    # -- what it is ---------------------------------------------------------------------------

    @property
    def schema(self) -> StreamSchema:
        """Of the output."""
        return self.executor.schema

    @property
    def is_joining(self) -> bool:
        """Whether it still waits for the state that it starts from, or takes it over."""
        return self._initial_state.is_awaited

    @property
    def forwarded(self) -> int:
        """Outputs that end before it are not made any more."""
        return self._fast_forward.at

    @property
    def held_at(self) -> int:
        """No stable beyond it is promised."""
        return self._limit.held_at

    def obeys(self, term: int) -> bool:
        """Whether it would follow an order of this term."""
        return term >= self._term

    def on(self, event: ReplicaEvent, now: int) -> list[ReplicaEffect]:
        """What follows from `event` at time `now`, in milliseconds."""
        if self._is_over:
            return []
        return self._handle(event, now) + self._background.asked()

    def _handle(self, event: ReplicaEvent, now: int) -> list[ReplicaEffect]:
        match event:
            case SourceRead():
                return self._on_source(event, now)
            case Ack():
                return self._on_ack(event, now)
            case Tick():
                return self._on_tick(now)
            case SourceFailed():
                return self._on_source_failed(event, now)
            case Refused():
                return self._on_refused(event, now)
            case SnapshotRequest():
                return self._snapshots.on_request(event)
            case SnapshotReply() | CheckpointLoaded():
                return self._initial_state.on_answer(event, now)
            case CheckpointWritten():
                return self._snapshots.on_written(event)
            case Assign() | TakeCheckpoint() | Drain() | Hold() | Retire():
                return self._on_order(event, now)
            case Done():
                return self._background.done(event, now)
            case Start():
                return self._on_start(now)
            case _:
                raise unhandled("a replica", event)

    def validate(self) -> None:
        """Raises `Bug` where an invariant is broken."""
        self.output.validate()
        if not self._intake.has_more:  # else it is in the middle of something
            self.executor.validate()
        promised = self.output.tail.stable
        if promised > self.executor.stable:
            raise Bug(f"promised {promised}, the plan only {self.executor.stable}")

    # -- beginning ----------------------------------------------------------------------------

    def _on_start(self, now: int) -> list[ReplicaEffect]:
        self._rejoin.starts(now)
        effects = self._initial_state.choose(now)
        if self.is_joining:
            effects.append(self._status(now))
        return effects

    def _begin(self, restored: Restored | None, now: int) -> list[ReplicaEffect]:
        """It knows what it goes on from."""
        effects = self._begin_anew() if restored is None else self._take_over(restored)
        self._rejoin.has_state(now)
        effects += self._go_on(now)
        effects.append(self._status(now))
        return effects

    def _begin_anew(self) -> list[ReplicaEffect]:
        """A replay: reads as far back as outputs with `ve >= join_at` need."""
        join_at = self._initial_state.join_at
        self.output.begin(Tail(self.schema, join_at))
        effects: list[ReplicaEffect] = [OpenSources(None, self.executor.read_from(join_at))]
        if join_at > BEGIN:
            effects += self._fast_forward.to(join_at)
        return effects

    def _take_over(self, restored: Restored) -> list[ReplicaEffect]:
        """Becomes what the checkpoint was."""
        found = restored.found
        self.executor.become(restored.graph, found.given)
        self._intake.progress.go_on_at(found.positions, found.given)
        self.output.begin(Tail.of_parts(found.tail, found.since, self._limit.promised))
        everywhere = dict.fromkeys(self.executor.sources, BEGIN)
        return [OpenSources(dict(found.positions), everywhere)]

    def _begin_elsewhere(self, why: str, now: int) -> list[ReplicaEffect]:
        """Forgets what it began with, and goes on to the next origin."""
        self._intake.begin_anew()
        self.executor.begin_anew()
        self.output.begin_anew()
        self._fast_forward.begin_anew()
        effects = self._initial_state.begin_elsewhere(why, now)
        if self.is_joining:
            effects.append(self._status(now))
        return effects

    # -- going on -----------------------------------------------------------------------------

    def _go_on(self, now: int, *, more: bool = False) -> list[ReplicaEffect]:
        """Sends what can be sent, reads what can be read. Where there is `more` to read at once,
        what is new to send may wait for that.
        """
        intake = self._intake
        if intake.has_more and not intake.is_full():
            return self._put_out(now)
        if more and self.output.may_gather(now) and intake.may_read():
            reads = intake.progress.ask()
            if reads or intake.progress.is_under_way:
                return reads
        self.output.offer()
        return self._send_and_read(now)

    def _send_and_read(self, now: int) -> list[ReplicaEffect]:
        """Sends what is offered, as far as links have credit; reads, if there is room."""
        effects: list[ReplicaEffect] = [*self.output.send(now), *self._intake.ask()]
        if self._intake.progress.has_drained and not self.is_drained and self.output.all_acked:
            self.is_drained = True  # all that was there is read, and every merger has it
            effects.append(self._status(now))
        return effects

    @property
    def is_draining(self) -> bool:
        """Whether it reads only what was there when it was told to drain."""
        return self._intake.progress.is_draining

    # -- reading ------------------------------------------------------------------------------

    def _on_source(self, event: SourceRead, now: int) -> list[ReplicaEffect]:
        if not self._intake.progress.expects(event) or self._intake.keep_back(event):
            return []
        self._intake.take_in(event)
        return self._put_out(now)

    def _put_out(self, now: int) -> list[ReplicaEffect]:
        """Puts out what comes of the last read, as far as the tail has room."""
        try:
            event = self._intake.put_out(now)
        except GaplessError as e:
            return self._exit(f"{type(e).__name__}: {e}")
        if event is None:
            self.output.offer()
            return self._send_and_read(now)
        if event.frame is not None:
            self._rejoin.reads(now)
        return self._go_on(now, more=event.more)

    def _on_source_failed(self, event: SourceFailed, now: int) -> list[ReplicaEffect]:
        if self.is_joining or self._intake.keep_back(event):
            return []  # of sources that it has closed; or it comes again
        if self._rejoin.has_read or not self._initial_state.was_given:
            return self._exit(f"source {event.source}: {event.reason}")
        return self._begin_elsewhere(f"source {event.source}: {event.reason}", now)

    def _holds_plan(self) -> bool:
        """Whether its snapshot is being taken: the plan is left alone until its state is there."""
        return self._snapshots.holds_plan

    def _read_kept_back(self, now: int) -> list[ReplicaEffect]:
        """Takes what was read while the plan was left alone, and reads on."""
        effects: list[ReplicaEffect] = []
        for event in self._intake.kept_back():
            effects += self.on(event, now)
        return effects if self._is_over else effects + self._go_on(now)

    # -- hearing from mergers -----------------------------------------------------------------

    def _on_ack(self, ack: Ack, now: int) -> list[ReplicaEffect]:
        if not self.output.hear_ack(ack, now):
            return []
        if not self._rejoin.is_over and self.output.links.is_attached:
            self._rejoin.is_taken_in(now)
        if self._intake.progress.is_under_way and not self._intake.has_more:
            return self._send_and_read(now)  # what gathers goes when that is answered
        return self._go_on(now)

    def _on_refused(self, event: Refused, now: int) -> list[ReplicaEffect]:
        if event.fenced and event.session.life == self.life:
            return self._exit(f"{event.session.merger} has fenced this life: {event.reason}")
        return self._go_on(now) if self.output.hear_refused(event) else []

    # -- time ---------------------------------------------------------------------------------

    def _on_tick(self, now: int) -> list[ReplicaEffect]:
        if self.is_joining:
            effects = self._initial_state.on_tick(now)
        else:
            effects = self._on_time(now)
        if self._intake.is_reading:
            self._intake.read_at = now
        if now - self._said_at >= self._timing.heartbeat_ms:
            self._intake.make_room()
            effects += self._snapshots.tick()
            effects.append(self._status(now))
        return effects

    def _on_time(self, now: int) -> list[ReplicaEffect]:
        """What is due for a replica that has begun. The plan is told here what is settled, and not
        with every ack: all operators look at their state for it.
        """
        uses_plan = self._intake.uses_plan
        effects = [] if uses_plan else self._fast_forward.heed_feedback()
        effects += self.output.resend(now)
        self._intake.progress.ask_again()
        effects += self._go_on(now, more=self.output.gathers)
        effects += self.output.probe(now)
        return effects

    def _status(self, now: int) -> Send:
        self._said_at = now
        tail = self.output.tail
        status = ReplicaStatus(
            self.life,
            self.executor.name,
            tail.since,
            tail.stable,
            self._version,
            len(tail),
            self.is_joining,
            self.is_drained,
            self.held_at,
            self._limit.hold,
            self.forwarded,
            self._rejoin.jumped_ms,
            self._initial_state.origin,
            self._rejoin.phases,
            self.executor.set_aside,
            waits_for=self._waits_for(now),
            parts_left=self.output.links.parts_left,
        )
        return Send(SUPERVISOR, status)

    def _exit(self, reason: str) -> list[ReplicaEffect]:
        self._is_over = True
        return [Exit(reason)]

    def _waits_for(self, now: int) -> str:
        """What it waits for since so long that people have to know; empty where it reads."""
        intake = self._intake
        if self.is_joining or intake.is_reading or intake.progress.has_drained:
            intake.read_at = now
        return "" if now - intake.read_at < self._timing.hang_ms else intake.waits_for()

    # -- orders -------------------------------------------------------------------------------

    def _on_order(self, order: Order, now: int) -> list[ReplicaEffect]:
        if not self.obeys(order.term):
            return []
        self._term = order.term
        match order:
            case TakeCheckpoint():
                return self._snapshots.on_order(order, self.output.tail.since)
            case Retire():
                is_mine = order.life == self.life
                return self._exit(f"retired: {order.reason}") if is_mine else []
            case Assign():
                if order.version <= self._version:
                    return []
                self._version = order.version
                self.output.assign(order.mergers, order.awaited)
                self.output.trim()
            case Hold():
                if not self._limit.obey(order):
                    return []
                if not self._intake.has_more:  # else the plan is ahead of what is put out
                    self._limit.promise()
            case Drain():
                self._intake.progress.drain()
            case _:
                raise unhandled("a replica", order)
        effects = [] if self.is_joining else self._go_on(now)
        effects.append(self._status(now))
        return effects
