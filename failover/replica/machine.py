"""A replica: reads the sources, runs the plan, sends what comes out, and can say it all again.

    sources --ReadSource/SourceRead--> executor --> tail --+--> link --Attach, Data--> merger 0
                                                           +--> link --Attach, Data--> merger 1
                                                                  <-----Ack, Refused-----

A life begins with a live peer's state, with a checkpoint, or with nothing (jumpstart.py). It holds
every event with `ve >= tail.since`, and attaches to each of its mergers with that promise. What a
merger has made durable it will never need again; so the tail is trimmed by the slowest merger of
those that are assigned, and what all of them call settled the plan need not make.

A state whose sources cannot be opened any more, where it left them, is given up before anything is
read on from it: the next origin reads other places.

It stops reading, and nothing else, while nobody takes what it has: at the tail's limit, while every
open link lags, and while it holds its promise back for a cutover.
"""

from __future__ import annotations

from functools import partial

from gapless.engine.graph import Graph
from gapless.failover import parts
from gapless.failover.background_work import Beside
from gapless.failover.effects import (
    CheckpointLoaded,
    CheckpointWritten,
    Done,
    Exit,
    OpenSources,
    ReplicaEffect,
    ReplicaEvent,
    Send,
    SkipSource,
    SourceFailed,
    SourceRead,
    Start,
    Tick,
)
from gapless.failover.fold import folded_parts
from gapless.failover.life_start import Replay, ReplicaStart
from gapless.failover.machines import unhandled
from gapless.failover.messages import (
    SUPERVISOR,
    Ack,
    Assign,
    Drain,
    Hold,
    Life,
    Refused,
    ReplicaStatus,
    Retire,
    SnapshotReply,
    SnapshotRequest,
    TakeCheckpoint,
)
from gapless.failover.replica.checkpoint import Checkpoint
from gapless.failover.replica.draft import Draft
from gapless.failover.replica.executor import Executor
from gapless.failover.replica.jumpstart import Jumpstart
from gapless.failover.replica.link import OPEN
from gapless.failover.replica.outcome import Outcome
from gapless.failover.replica.output_sender import Sending, Told
from gapless.failover.replica.restore import Unfit, check, restoring
from gapless.failover.replica.snapshots import Snapshots
from gapless.failover.replica.source_progress import Reading
from gapless.failover.replica.tail import Tail
from gapless.failover.supervisor.rejoins import Rejoining
from gapless.failover.timing import Timing
from gapless.operators.state import State
from gapless.protocol.elements import BEGIN, INF
from gapless.protocol.errors import BadData, Bug, GaplessError
from gapless.protocol.frame import Frame

TAIL_ROWS_MAX = 1_000_000
"""Rows of output that some merger has not taken in; beyond it the sources are not read. It bounds
what piles up while a merger is away, and never what lives: a tail is as large as the answer is."""

STATE_BYTES_MAX = 8 << 20
"""Of a plan's state whose snapshot is taken, or taken over, at once, in milliseconds; a larger one
is beside the pump."""

Order = Assign | TakeCheckpoint | Drain | Hold | Retire


class Replica(Sending):
    """One life of one replica of a query. Pure: the shell does what the effects say."""

    def __init__(
        self, life: Life, start: ReplicaStart, executor: Executor, timing: Timing | None = None
    ) -> None:
        timing = timing or Timing()
        super().__init__(life, start.mergers, executor.schema, timing, start.awaited)
        self.executor = executor
        self.forwarded = BEGIN
        """Outputs that end before it are not made any more."""
        self.held_at = start.held_at
        """No stable beyond it is promised."""
        self._hold_of = (0, 0)  # term and version of the last hold
        self.is_drained = False
        """Whether it was told to drain, and has read and sent all there was."""
        self._jumpstart = Jumpstart(life, start, self._timing)
        self._reading = Reading(executor.sources)
        self._outcome = Outcome()
        self._snapshots = Snapshots(life, executor.name, self._draft, self._finish)
        self._beside = Beside()
        self._takes_over = False  # what it begins with is being taken over
        self._was_given = False  # it has begun with the state of another one
        self._told: Told | None = None  # what is made beside for sessions to begin with
        self._telling: Told | None = None
        self._kept_back: list[SourceRead | SourceFailed] = []  # while the plan is left alone
        self._skipped = dict.fromkeys(executor.sources, BEGIN)
        self._term = life.incarnation.term
        self._version = start.version
        self._said_at = 0
        self._read_at = 0  # when it was reading last
        self._rejoin = Rejoining(self.schema.time_unit)
        self._is_over = False

    # -- what it is ---------------------------------------------------------------------------

    @property
    def is_joining(self) -> bool:
        """Whether it still waits for the state that it starts from, or takes it over."""
        return not self._jumpstart.has_begun or self._takes_over

    def obeys(self, term: int) -> bool:
        """Whether it would follow an order of this term."""
        return term >= self._term

    def on(self, event: ReplicaEvent, now: int) -> list[ReplicaEffect]:
        """What follows from `event` at time `now`, in milliseconds."""
        if self._is_over:
            return []
        return self._handle(event, now) + self._beside.asked()

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
                return self._on_jumpstart(event, now)
            case CheckpointWritten():
                return self._snapshots.on_written(event)
            case Assign() | TakeCheckpoint() | Drain() | Hold() | Retire():
                return self._on_order(event, now)
            case Done():
                return self._beside.done(event, now)
            case Start():
                return self._on_start(now)
            case _:
                raise unhandled("a replica", event)

    def validate(self) -> None:
        """Raises `Bug` where an invariant is broken."""
        super().validate()
        if not self._outcome.is_under_way:  # else it is in the middle of something
            self.executor.validate()
        if self.tail.stable > self.executor.stable:
            raise Bug(f"promised {self.tail.stable}, the plan only {self.executor.stable}")

    # -- beginning ----------------------------------------------------------------------------

    def _on_start(self, now: int) -> list[ReplicaEffect]:
        self._rejoin.starts(now)
        effects = self._jumpstart.choose(now)
        effects += self._begun(now)
        if self.is_joining:
            effects.append(self._status(now))
        return effects

    def _on_jumpstart(
        self, event: SnapshotReply | CheckpointLoaded, now: int
    ) -> list[ReplicaEffect]:
        was_joining = self.is_joining
        if isinstance(event, SnapshotReply):
            effects = self._jumpstart.on_reply(event, now)
        elif not self.is_joining:
            return []
        else:
            effects = self._jumpstart.on_loaded(event, now)
        return effects + self._begun(now) if was_joining else effects

    def _begun(self, now: int) -> list[ReplicaEffect]:
        """Goes on from what was found, if it was; from the next origin where that does not fit."""
        if self.is_joining:
            return []
        found = self._jumpstart.found
        if found is None:
            return self._has_begun(self._begin_anew(), now)
        try:
            check(found, self.executor)
        except BadData as e:
            return self._jumpstart.give_up(str(e), now) + self._begun(now)
        restore = restoring(found, self.executor)
        if found.state_bytes <= STATE_BYTES_MAX:
            return self._take_over(found, restore(), now)
        self._takes_over = True
        self._beside.do("take a state over", restore, partial(self._take_over, found))
        return []

    def _has_begun(self, effects: list[ReplicaEffect], now: int) -> list[ReplicaEffect]:
        """It knows what it goes on from."""
        self._rejoin.has_state(now)
        effects += self._go_on(now)
        effects.append(self._status(now))
        return effects

    def _begin_anew(self) -> list[ReplicaEffect]:
        """A replay: reads as far back as outputs with `ve >= join_at` need."""
        origin = self._jumpstart.origin
        join_at = origin.join_at if isinstance(origin, Replay) else BEGIN
        self._begin_tail(Tail(self.schema, join_at))
        since = {}
        for name, reach in self.executor.reach.items():
            reads_all = join_at == BEGIN or reach == INF
            since[name] = BEGIN if reads_all else max(BEGIN, join_at - reach)
        effects: list[ReplicaEffect] = [OpenSources(None, since)]
        if join_at > BEGIN:
            effects += self._forward(join_at)
        return effects

    def _take_over(self, found: Checkpoint, made: Graph | Unfit, now: int) -> list[ReplicaEffect]:
        """Becomes what the checkpoint was; goes on to the next origin where that was no state."""
        self._takes_over = False
        self._jumpstart.forget()  # what it was given is not kept beside what was made of it
        if not isinstance(made, Graph):
            return self._jumpstart.give_up(str(made), now) + self._begun(now)
        self._was_given = True
        self.executor.become(made, found.given)
        self._reading.go_on_at(found.positions, found.given)
        promised = min(self.executor.stable, self.held_at)
        self._begin_tail(Tail.of_parts(found.tail, found.since, promised))
        everywhere = dict.fromkeys(self.executor.sources, BEGIN)
        return self._has_begun([OpenSources(dict(found.positions), everywhere)], now)

    def _go_on(self, now: int, *, more: bool = False) -> list[ReplicaEffect]:
        """Sends what can be sent, reads what can be read. Where there is `more` to read at once,
        what is new to send may wait for that.
        """
        if self._outcome.is_under_way and not self._is_full(TAIL_ROWS_MAX):
            return self._put_out_more(now)
        if more and self._may_gather(now) and self._may_read():
            reads = self._reading.ask()
            if reads or self._reading.is_under_way:
                return reads
        self._offer()
        return self._send_and_read(now)

    def _send_and_read(self, now: int) -> list[ReplicaEffect]:
        """Sends what is offered, as far as links have credit; reads, if there is room."""
        effects: list[ReplicaEffect] = []
        end, stable = self.tail.end, self.tail.stable
        for link in self.links.values():
            if link.cursor != end or link.told < stable or link.parts or link.state != OPEN:
                effects += self._send_over(link, now)
        if self._may_read():
            effects += self._reading.ask()
        if self._reading.is_draining and not self.is_drained and self._has_drained:
            self.is_drained = True
            effects.append(self._status(now))
        return effects

    # -- reading ------------------------------------------------------------------------------

    def _may_read(self) -> bool:
        """Whether what comes of a read has a place to go."""
        return (
            not self._is_held
            and self._has_room
            and not self._is_full(TAIL_ROWS_MAX)
            and not self._snapshots.holds_plan
        )

    def _make_room(self) -> None:
        """A full tail is folded as soon as that may leave fewer rows: nothing comes any more that
        would have it folded, and what is settled may lie behind an event that never ends.
        """
        if self._is_full(TAIL_ROWS_MAX) and self.tail.since > self.tail.folded_since:
            self._fold_tail()

    def _fold_tail(self) -> None:
        """Folds all that no link is soon to send: beside the pump, where that takes long."""
        tail = self.tail
        if tail.is_folding:
            return
        if len(tail) <= parts.ROWS_MAX:
            super()._fold_tail()
            return
        frames, floor = tail.begin_fold(self._kept_from()), tail.floor
        if frames:
            fold = partial(folded_parts, self.schema, frames, floor)
            self._beside.do("fold its tail", fold, partial(self._end_fold, tail))

    @staticmethod
    def _end_fold(tail: Tail, made: list[Frame], now: int) -> list[ReplicaEffect]:  # noqa: ARG004  # one form for all
        tail.end_fold(made)
        return []

    @property
    def _is_reading(self) -> bool:
        """Whether a source is being read, and what it gives is taken."""
        is_used = self._snapshots.holds_plan or self._outcome.is_under_way
        return self._reading.is_under_way and not is_used

    def _waits_for(self, now: int) -> str:
        """What it waits for since so long that people have to know; empty where it reads."""
        if self.is_joining or self._is_reading or self._reading.has_drained:
            self._read_at = now
        if now - self._read_at < self._timing.hang_ms or self._may_read():
            return ""
        if self._snapshots.holds_plan:
            return "its snapshot is being made"
        if self._is_held:
            return f"a cutover lets it promise nothing beyond {self.held_at}"
        return self._waits_for_merger(TAIL_ROWS_MAX)

    @property
    def is_draining(self) -> bool:
        """Whether it reads only what was there when it was told to drain."""
        return self._reading.is_draining

    @property
    def _has_drained(self) -> bool:
        """Whether all that was there is read, and every merger that can be reached has it."""
        return self._reading.has_drained and self._all_acked

    @property
    def _is_held(self) -> bool:
        """Whether the plan has gone further than may be told."""
        return self.executor.stable > self.held_at <= self.tail.stable

    def _on_source(self, event: SourceRead, now: int) -> list[ReplicaEffect]:
        if not self._reading.expects(event):
            return []
        if self._snapshots.holds_plan:
            self._kept_back.append(event)
            return []
        frame = event.frame
        made = iter(()) if frame is None else self.executor.parts(event.source, frame)
        self._outcome.begin(event, made)
        return self._put_out_more(now)

    def _put_out_more(self, now: int) -> list[ReplicaEffect]:
        """Puts out what comes of the last read, as far as the tail has room: the rest waits until
        mergers have taken that in.
        """
        try:
            event = self._outcome.take(self._put_out, partial(self._is_full, TAIL_ROWS_MAX))
        except GaplessError as e:
            return self._exit(f"{type(e).__name__}: {e}")
        if event is None:
            self._offer()
            return self._send_and_read(now)
        if event.frame is not None:
            self._rejoin.reads(now)
        self._promise()  # what a hold would have kept back that has ended meanwhile
        self._reading.answered(event)
        self._read_at = now
        return self._go_on(now, more=event.more)

    def _put_out(self, frame: Frame) -> None:
        """Output goes into the tail, its stable no further than may be promised."""
        stable = frame.stable
        if stable is not None and stable > self.held_at:
            frame = frame.with_stable(self.held_at if self.held_at > self.tail.stable else None)
        if frame:
            self._keep(frame)

    def _on_source_failed(self, event: SourceFailed, now: int) -> list[ReplicaEffect]:
        if self.is_joining:
            return []  # of sources that it has closed
        if self._snapshots.holds_plan:
            self._kept_back.append(event)
            return []
        if not self._may_begin_elsewhere:
            return self._exit(f"source {event.source}: {event.reason}")
        return self._begin_elsewhere(f"source {event.source}: {event.reason}", now)

    def _begin_elsewhere(self, why: str, now: int) -> list[ReplicaEffect]:
        """Forgets what it began with, and goes on to the next origin."""
        self._outcome.drop()
        self.executor.begin_anew()
        self._unsay()
        self._telling = None
        self._was_given = False
        self._reading = Reading(self.executor.sources)
        self._skipped = dict.fromkeys(self.executor.sources, BEGIN)
        self.forwarded = BEGIN
        effects = self._jumpstart.give_up(why, now) + self._begun(now)
        if self.is_joining:
            effects.append(self._status(now))
        return effects

    @property
    def _may_begin_elsewhere(self) -> bool:
        """Whether it has read nothing on from the state that it was given; a replay is the last of
        the origins, and has none.
        """
        return self._was_given and not self._rejoin.has_read

    # -- hearing from mergers -----------------------------------------------------------------

    def _on_ack(self, ack: Ack, now: int) -> list[ReplicaEffect]:
        if not self._hear_ack(ack, now):
            return []
        if not self._rejoin.is_over and self.is_attached:
            self._rejoin.is_taken_in(now)
        if (
            self._reading.is_under_way and not self._outcome.is_under_way
        ):  # what gathers goes when that is answered
            return self._send_and_read(now)
        return self._go_on(now)

    def _on_refused(self, event: Refused, now: int) -> list[ReplicaEffect]:
        if event.fenced and event.session.life == self.life:
            return self._exit(f"{event.session.merger} has fenced this life: {event.reason}")
        return self._go_on(now) if self._hear_refused(event) else []

    def _forward(self, t: int) -> list[ReplicaEffect]:
        """Outputs that end before t are not made any more, rows for them not read."""
        self.forwarded = t
        effects: list[ReplicaEffect] = []
        for source, before in self.executor.fast_forward(t).items():
            if before > self._skipped[source]:
                self._skipped[source] = before
                # Of no use are rows that end before it, and a row lives for one instant.
                effects.append(SkipSource(source, before - 1))
        return effects

    # -- time ---------------------------------------------------------------------------------

    def _on_tick(self, now: int) -> list[ReplicaEffect]:
        if self.is_joining:
            effects = self._jumpstart.on_tick(now) + self._begun(now)
        else:
            effects = self._on_time(now)
        if self._is_reading:
            self._read_at = now
        if now - self._said_at >= self._timing.heartbeat_ms:
            self._make_room()
            effects += self._snapshots.tick()
            effects.append(self._status(now))
        return effects

    def _on_time(self, now: int) -> list[ReplicaEffect]:
        """What is due for a replica that has begun. The plan is told here what is settled, and not
        with every ack: all operators look at their state for it.
        """
        effects: list[ReplicaEffect] = []
        settled = self._forward_to()
        is_used = self._snapshots.holds_plan or self._outcome.is_under_way
        if settled > self.forwarded and not is_used:
            if settled > self.executor.stable:  # up to there nothing is missing
                self._leaves_out(settled)
            self._rejoin.forwards(settled, self.forwarded, self.executor.stable)
            effects += self._forward(settled)
        effects += self._say_again(now)
        self._reading.ask_again()
        effects += self._go_on(now, more=self._gathers_since is not None)
        effects += self._probe(now)
        return effects

    def _status(self, now: int) -> Send:
        self._said_at = now
        status = ReplicaStatus(
            self.life,
            self.executor.name,
            self.tail.since,
            self.tail.stable,
            self._version,
            len(self.tail),
            self.is_joining,
            self.is_drained,
            self.held_at,
            self._hold_of,
            self.forwarded,
            self._rejoin.jumped_ms,
            self._jumpstart.words,
            self._rejoin.phases,
            self.executor.set_aside,
            waits_for=self._waits_for(now),
            parts_left=self._parts_left,
        )
        return Send(SUPERVISOR, status)

    def _exit(self, reason: str) -> list[ReplicaEffect]:
        self._is_over = True
        return [Exit(reason)]

    # -- snapshots and orders -----------------------------------------------------------------

    def _draft(self) -> Draft | str:
        """All that it is at this moment, or why it cannot say."""
        if self.is_joining:
            return "it is joining itself"
        if self._outcome.is_under_way:
            return "it is putting out what it has read last, as mergers take it in"
        if self._reading.unread:
            return f"it has not read {self._reading.unread[0]} yet"
        return Draft(
            self.executor.name,
            dict(self._reading.positions),
            dict(self.executor.given),
            self.tail.since,
            self.executor.stable,
            self.schema,
            self.tail.floor,
            tuple(self.tail.frames()),
            self.tail.stable,
            self.executor.snapshot,
        )

    def _finish(self, draft: Draft) -> list[ReplicaEffect]:
        """Makes a checkpoint of a draft: beside the pump, where that takes long. The plan is left
        alone until its state is there; then it goes on, while the tail is folded.
        """
        if len(self.tail) <= parts.ROWS_MAX and self.executor.nbytes <= STATE_BYTES_MAX:
            return self._snapshots.made(draft.finish(draft.state()))
        self._beside.do("take its state", draft.state, partial(self._has_state, draft))
        return []

    def _has_state(self, draft: Draft, state: State, now: int) -> list[ReplicaEffect]:
        finish = partial(draft.finish, state)
        made = self._snapshots.made
        self._beside.do("fold its tail for a snapshot", finish, lambda done, _: made(done))
        self._snapshots.has_state()
        return self._read_kept_back(now)

    # -- what is done beside ------------------------------------------------------------------

    def _tell(self) -> Told | None:
        """What a session begins with: folded beside the pump, where that takes long."""
        tail = self.tail
        if self._told is not None or len(tail) <= parts.ROWS_MAX or not tail.is_torn:
            return self._told or super()._tell()
        if self._telling is None:
            frames = tail.frames()
            self._telling = Told(tail.since, frames[-1:], tail.end, tail.put_out)
            fold = partial(folded_parts, self.schema, frames, tail.floor)
            begin = partial(self._begin_sessions, self._telling)
            self._beside.do("fold its tail for a session", fold, begin)
        return None

    def _begin_sessions(self, told: Told, made: list[Frame], now: int) -> list[ReplicaEffect]:
        """Those that have waited for what they begin with."""
        if told is not self._telling:
            return []  # it has begun elsewhere since
        last = made[-1] if made else self._nothing
        frames = [*made[:-1], last.with_stable(told.frames[-1].stable)]
        self._telling, self._told = None, told._replace(frames=frames)
        effects = self._send_and_read(now)
        self._told = None
        return effects

    def _read_kept_back(self, now: int) -> list[ReplicaEffect]:
        """Takes what was read while the plan was left alone, and reads on."""
        kept_back, self._kept_back = self._kept_back, []
        effects: list[ReplicaEffect] = []
        for event in kept_back:
            effects += self.on(event, now)
        return effects if self._is_over else effects + self._go_on(now)

    def _on_order(self, order: Order, now: int) -> list[ReplicaEffect]:
        if not self.obeys(order.term):
            return []
        self._term = order.term
        match order:
            case TakeCheckpoint():
                return self._snapshots.on_order(order, self.tail.since)
            case Retire():
                is_mine = order.life == self.life
                return self._exit(f"retired: {order.reason}") if is_mine else []
            case Assign():
                if order.version <= self._version:
                    return []
                self._version = order.version
                self._assign(order.mergers, order.awaited)
                self.tail.trim(self._trim_to())
            case Hold():
                if (order.term, order.version) < self._hold_of:
                    return []
                self._hold_of = order.term, order.version
                self._hold(order.at)
            case Drain():
                self._reading.drain()
            case _:
                raise unhandled("a replica", order)
        effects = [] if self.is_joining else self._go_on(now)
        effects.append(self._status(now))
        return effects

    def _hold(self, at: int) -> None:
        """Promises nothing beyond `at`, and at once what another hold had kept back."""
        self.held_at = at
        if not self._outcome.is_under_way:  # else the plan is ahead of what is put out
            self._promise()

    def _promise(self) -> None:
        promised = min(self.executor.stable, self.held_at)
        if promised > self.tail.stable:
            self._put_out(self._nothing.with_stable(promised))
