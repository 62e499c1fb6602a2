"""A merger: LMerge over the replicas' streams, with an output that survives its own death.

    Attach, Data --> inputs.py --> LMerge --> output_writer.py --Append--> journal
                       |                                                    |
                    Ack (taken in; durable; feedback)  <--Appended---------'--> readers.py: Delivery

Nothing is delivered before it is durable in the output journal, so nothing is delivered that the
journal could forget. A new life (epoch) reads the journal back and hands its live table and its
stable to LMerge; the replicas, whose sessions it does not know, attach again with their tails.
Where they have all gone on without it, it catches up from its peer's journal (backfill.py).

    open -- drain --> draining -- sealed --> drained         each: -- exit --> over
                         ^------- more ---------'

Every rule that a promise rests on is a method of its own: who is fenced, what is expected, what is
durable, what feedback says, what may be delivered.
"""

from __future__ import annotations

from collections.abc import KeysView
from typing import Literal

from gapless.failover.effects import (
    Appended,
    AppendRefused,
    BaseMade,
    Exit,
    MergerEffect,
    MergerEvent,
    OutputLost,
    OutputRead,
    PeerRead,
    ReadRefused,
    Sealed,
    Send,
    Start,
    TableRead,
    Tick,
    WatchOutput,
)
from gapless.failover.life_start import MergerStart
from gapless.failover.lifecycles import Lifecycle
from gapless.failover.machines import unhandled
from gapless.failover.merger.backfill import Backfill
from gapless.failover.merger.inputs import NOTHING, Link, Links
from gapless.failover.merger.output_writer import Writing
from gapless.failover.merger.readers import Serving
from gapless.failover.merger.tallies import Tallies
from gapless.failover.messages import (
    SUPERVISOR,
    Ack,
    Attach,
    Data,
    Drain,
    Fence,
    Fetch,
    Life,
    MergerStatus,
    Open,
    Refused,
    Retire,
    Session,
    Token,
)
from gapless.failover.timing import Timing
from gapless.merge.lmerge import LMerge
from gapless.protocol.errors import Bug
from gapless.protocol.frame import Frame

PENDING_ROWS_MAX = 1 << 18
"""Rows merged and not durable: seconds of a disk's work. Beyond it nothing is taken in."""
STATE_BYTES_MAX = 1 << 30
"""Of the LMerge. Beyond it nothing is taken in of inputs ahead of the output: what they hold waits
for others, and grows without bound if those are slow.
"""
TIMING = Timing()

MergerState = Literal["open", "draining", "drained", "over"]
MERGER: Lifecycle[MergerState] = Lifecycle(
    "a merger",
    {
        "open": {"drain": "draining", "exit": "over"},
        "draining": {"sealed": "drained", "exit": "over"},
        "drained": {"more": "draining", "exit": "over"},
        "over": {},
    },
)


class Merger:
    """One life of a merger. Pure: the shell does what the effects say."""

    def __init__(
        self,
        life: Life,
        start: MergerStart,
        epoch: int,
        merge: LMerge,
        live: Frame,
        offset: int,
        timing: Timing = TIMING,
        *,
        acks_each: bool = False,
    ) -> None:
        """`live` is the output's live table and stable as the journal gives them up to `offset`,
        `epoch` the journal's, and `merge` a fresh LMerge. `acks_each`: a frame is acked at once,
        where an ack costs little and the sender may wait for it.
        """
        self.life = life
        self.epoch = epoch
        self._merge = merge
        merge.resume(live)
        self._offset = offset  # rows that are durable
        self._durable_stable = merge.stable
        self._timing = timing
        self._acks_each = acks_each
        self._state = MERGER.first
        self._term = 0  # the highest of a supervisor so far
        self._links = Links(start.fences)
        self._tallies = Tallies(merge, self._links)
        self._writing = Writing(merge.schema, merge.live, merge.__len__, timing.disk_retry_ms)
        self._serving = Serving(life.slot, epoch)
        self._backfill: Backfill | None = None
        if start.peers:  # a second peer has nothing that the first has not
            self._backfill = Backfill(start.peers[0], merge, self._links, timing.backfill_ms)
        self._is_full = False  # the state's limit is reached
        self._is_closing = False  # the seal that is under way is the last
        self._took_in_at = 0
        self._told_at = 0
        self._told_durable = self._durable_stable  # to all inputs
        self._detached = 0  # inputs that LMerge did not believe

    def on(self, event: MergerEvent, now: int) -> list[MergerEffect]:
        """What follows from `event`."""
        if self._state == "over":
            return []
        match event:
            case Attach() | Data():
                return self._on_input(event, now)
            case Fetch() | OutputRead() | Open() | TableRead() | ReadRefused():
                return self._on_reader(event, now)
            case Appended() | AppendRefused() | OutputLost() | Sealed() | BaseMade():
                return self._on_journal(event, now)
            case Tick():
                return self._on_tick(now)
            case PeerRead():
                return self._on_peer_read(event)
            case Fence() | Drain() | Retire():
                return self._on_order(event)
            case Start():
                return self._on_start(now)
            case _:
                raise unhandled("a merger", event)

    # -- rules --------------------------------------------------------------------------------

    @property
    def durable_stable(self) -> int:
        """The output is durable up to this time."""
        return self._durable_stable

    @property
    def attached(self) -> KeysView[Life]:
        """The lives that feed it."""
        return self._links.by_life.keys()

    def expects(self, session: Session, sequence: int) -> bool:
        """Whether this is the next message of its session; others are answered and dropped."""
        link = self._links.by_life.get(session.life)
        if sequence == 0:
            is_new = link is None or session.attempt > link.session.attempt
            return is_new and not self.is_fenced(session.life)
        return link is not None and link.session == session and sequence == link.taken_in + 1

    def taken_in(self, session: Session) -> int:
        """The last sequence number that was taken in of a session; -1 where it has none."""
        link = self._links.by_life.get(session.life)
        return link.taken_in if link is not None and link.session == session else -1

    def is_fenced(self, life: Life) -> bool:
        """Whether a life may feed us no more, for another one has taken its slot."""
        return self._links.is_fenced(life)

    def forget(self, slot: str) -> None:
        """Forgets the fence of a slot none of whose lives feeds us."""
        self._links.forget(slot)

    def obeys(self, term: int) -> bool:
        """Whether an order of a supervisor of this term counts."""
        return term >= self._term

    def _feedback(self, link: Link) -> int:
        """What ends before it is settled: the input need not say it. Never above what is durable:
        after a crash we would need it again.
        """
        return self._merge.feedback(link.number, at_most=self.durable_stable)

    def _is_ours(self, token: Token) -> bool:
        """Whether a token's offset means anything in our journal."""
        return token.merger == self.life.slot

    def _has_news(self, token: Token) -> bool:
        """Whether there may be something to deliver behind a token. A token from behind the end
        goes to the journal, too, which knows best whether it ever was there.
        """
        return token.offset != self._offset or token.stable < self.durable_stable

    def _may_take_in(self, link: Link, frame: Frame) -> bool:
        """Whether there is room for what an input says. Above the limit of the state one that is
        ahead of the output waits, and never one that the output waits for.
        """
        if self._writing.rows >= PENDING_ROWS_MAX:
            return False
        if len(frame) and not self._merge.may_hold(link.number, len(frame)):
            return False
        if not self._is_full:
            return True
        merge = self._merge
        return merge.policy.target(merge.input_stable(link.number)) <= merge.stable

    # -- inputs -------------------------------------------------------------------------------

    def _on_input(self, event: Attach | Data, now: int) -> list[MergerEffect]:
        match event:
            case Data():
                return self._on_data(event, now)
            case Attach():
                return self._on_attach(event, now)
            case _:
                raise unhandled("a merger", event)

    def _on_attach(self, event: Attach, now: int) -> list[MergerEffect]:
        session = event.session
        life = session.life
        if session.merger != self.life.slot:
            return [self._refuse(session, f"this is {self.life.slot}, not {session.merger}")]
        link = self._links.by_life.get(life)
        if not self.expects(session, 0):
            if self.is_fenced(life):
                return [self._refuse(session, "a later life has taken the slot", fenced=True)]
            if link is not None and session == link.session:
                return [self._ack(link)]  # a repeated message
            return [self._refuse(session, "a later session is attached")]
        if self._writing.rows >= PENDING_ROWS_MAX and len(event.tail):
            return []  # there is no session to answer in yet: it says so again
        effects: list[MergerEffect] = []
        before = NOTHING
        if link is not None:
            before = self._tallies.of(link)
            self._drop(link)
        if (silent := self._links.displaced(life)) is not None:
            self._drop(silent)
            effects.append(self._refuse(silent.session, "it was silent, and others have come"))
        if (full := self._links.full()) is not None:
            return [*effects, self._refuse(session, full)]
        number = self._merge.attach(event.join_at)
        link = self._links.add(session, number, event.join_at, now, before, event.parts)
        return effects + self._take_in(link, event.tail, now)

    def _on_data(self, event: Data, now: int) -> list[MergerEffect]:
        session = event.session
        link = self._links.by_life.get(session.life)
        if link is None or link.session != session:
            return [self._refuse(session, "no such session")]
        if not self.expects(session, event.sequence):
            link.keep_early(event.sequence, event.frame)
            return [self._ack(link)]  # repeated, or one before it was lost, or overtaken
        if not self._may_take_in(link, event.frame):
            return [self._ack(link, throttled=True)]
        link.taken_in = event.sequence
        return self._take_in(link, event.frame, now)

    def _take_in(self, link: Link, frame: Frame, now: int) -> list[MergerEffect]:
        """Merges what an input says, and all behind it that had come before its turn."""
        effects: list[MergerEffect] = []
        link.heard_at = now
        throttled = False
        while True:
            out = self._merge.push(link.number, frame)
            self._tallies.look(self._offset)
            if not out and link.number not in self._merge.inputs:
                reason = str(self._merge.detached[link.number])
                self._links.remove(link)
                self._detached += 1
                return [*effects, self._refuse(link.session, reason)]
            if frame:  # an empty one only asks whether we know the session
                self._took_in_at = now
            self._links.reached(self._merge.stable)
            if out:
                effects += self._put_out(out)
            if not link.early or (early := link.early.pop(link.taken_in + 1, None)) is None:
                break
            throttled = not self._may_take_in(link, early)
            if throttled:
                break
            link.taken_in += 1
            frame = early
        if throttled or self._acks_each or link.waits_for_ack():
            return [self._ack(link, throttled=throttled), *effects]
        return effects

    def _ack(self, link: Link, *, throttled: bool = False) -> Send:
        feedback = self._feedback(link)
        link.acked = link.taken_in
        return Send(
            link.to,
            Ack(link.session, self.epoch, link.taken_in, self.durable_stable, feedback, throttled),
        )

    def _refuse(self, session: Session, reason: str, *, fenced: bool = False) -> Send:
        return Send(str(session.life), Refused(session, self.epoch, reason, fenced))

    def _drop(self, link: Link) -> None:
        """An input feeds us no more."""
        self._merge.detach(link.number)
        self._links.remove(link)

    # -- output -------------------------------------------------------------------------------

    def _put_out(self, frame: Frame) -> list[MergerEffect]:
        """What the LMerge has said goes to the journal, and to nobody else before."""
        if self._state == "drained":
            self._state = MERGER.after(self._state, "more")
        return self._writing.gather(frame)

    def _on_journal(
        self, event: Appended | AppendRefused | OutputLost | Sealed | BaseMade, now: int
    ) -> list[MergerEffect]:
        match event:
            case Appended():
                return self._on_appended(event, now)
            case AppendRefused(reason):
                return self._writing.refused(reason, now)
            case OutputLost(reason):
                return self._exit(reason)
            case Sealed():
                return self._on_sealed(now)
            case BaseMade():
                return self._writing.base_made(event, now)
            case _:
                raise unhandled("a merger", event)

    def _on_appended(self, event: Appended, now: int) -> list[MergerEffect]:
        self._offset = event.offset
        effects = self._writing.appended(event, now)
        if event.stable > self._durable_stable:
            self._durable_stable = event.stable
            effects += self._serving.go_on(self.durable_stable, now)
        return effects + self._serving.wake()

    def _on_sealed(self, now: int) -> list[MergerEffect]:
        effects = self._writing.sealed()
        was_last, self._is_closing = self._is_closing and not effects, False
        if not was_last:
            return effects
        self._state = MERGER.after(self._state, "sealed")
        return [self._status(now)]

    def _on_peer_read(self, event: PeerRead) -> list[MergerEffect]:
        if self._backfill is None:
            return []
        is_full = self._writing.rows >= PENDING_ROWS_MAX
        out, effects = self._backfill.read(event, is_full=is_full)
        self._tallies.look(self._offset)
        self._links.reached(self._merge.stable)
        return self._put_out(out) + effects if out else effects

    # -- subscribers --------------------------------------------------------------------------

    def _on_reader(
        self, event: Fetch | OutputRead | Open | TableRead | ReadRefused, now: int
    ) -> list[MergerEffect]:
        match event:
            case Fetch():
                return self._on_fetch(event)
            case OutputRead():
                return self._serving.was_read(event)
            case Open():
                return self._on_open(event, now)
            case TableRead() | ReadRefused():
                return self._on_table(event, now)
            case _:
                raise unhandled("a merger", event)

    def _on_fetch(self, event: Fetch) -> list[MergerEffect]:
        token = event.token
        self._serving.goes_on(event.subscriber)
        if not self._is_ours(token):
            return [self._serving.elsewhere(event)]
        if self._has_news(token):
            return self._serving.read(event.subscriber, token)
        self._serving.wait(event.subscriber, token)
        return []

    def _on_open(self, event: Open, now: int) -> list[MergerEffect]:
        durable = self.durable_stable
        since = durable if event.since is None else event.since
        return self._serving.open(event, since, durable, now)

    def _on_table(self, event: TableRead | ReadRefused, now: int) -> list[MergerEffect]:
        """Another one may have its turn then."""
        serving = self._serving
        if isinstance(event, ReadRefused):
            done = serving.refused(event)
        else:
            done = serving.table_read(event, now)
        return done + serving.go_on(self.durable_stable, now)

    # -- time ---------------------------------------------------------------------------------

    def _on_start(self, now: int) -> list[MergerEffect]:
        self._took_in_at = now
        return [self._status(now)]

    def _on_tick(self, now: int) -> list[MergerEffect]:
        self._is_full = self._merge.nbytes > STATE_BYTES_MAX
        effects = self._writing.tick(now) + self._serving.go_on(self.durable_stable, now)
        if self._durable_stable > self._told_durable:  # who sends hears of it sooner, by its acks
            self._told_durable = self._durable_stable
            effects += [self._ack(link) for link in self._links.by_life.values()]
        else:
            waiting = [each for each in self._links.by_life.values() if each.acked < each.taken_in]
            effects += [self._ack(link) for link in waiting]
        if self._backfill is not None:
            effects += self._backfill.tick(now)
        if self._state == "draining":
            effects += self._close_when_silent(now)
        if now - self._told_at >= self._timing.heartbeat_ms:
            # One that has nothing to append would else never hear that another has its journal.
            effects += [self._status(now), WatchOutput()]
        return effects

    def _close_when_silent(self, now: int) -> list[MergerEffect]:
        """Seals for good once nothing comes any more and all of it is durable."""
        is_silent = now - self._took_in_at >= self._timing.drain_ms
        if not is_silent or not self._writing.is_idle:
            return []
        self._is_closing = True
        live = self._merge.live()
        return self._writing.seal(None if live.stable is None else live)

    def _status(self, now: int) -> Send:
        merge, self._told_at = self._merge, now
        return Send(
            SUPERVISOR,
            MergerStatus(
                self.life,
                self.epoch,
                merge.stable,
                self.durable_stable,
                self._tallies.inputs(),
                merge.waiting_for,
                merge.divergences.count,
                self._state == "drained",
                self._detached,
                self._links.fences,
                self._tallies.newest,
            ),
        )

    # -- orders -------------------------------------------------------------------------------

    def _heeds(self, term: int) -> bool:
        """Whether an order counts; it makes those of lower terms void."""
        if not self.obeys(term):
            return False
        self._term = max(self._term, term)
        return True

    def _on_order(self, order: Fence | Drain | Retire) -> list[MergerEffect]:
        match order:
            case Fence():
                return self._on_fence(order)
            case Drain():
                return self._on_drain(order)
            case Retire():
                return self._on_retire(order)
            case _:
                raise unhandled("a merger", order)

    def _on_fence(self, event: Fence) -> list[MergerEffect]:
        if not self._heeds(event.term):
            return []
        effects: list[MergerEffect] = []
        for link in self._links.fence(event.life):
            self._drop(link)
            effects.append(
                self._refuse(link.session, f"{event.life} has taken the slot", fenced=True)
            )
        return effects

    def _on_drain(self, event: Drain) -> list[MergerEffect]:
        if self._heeds(event.term) and self._state == "open":
            self._state = MERGER.after(self._state, "drain")
        return []

    def _on_retire(self, event: Retire) -> list[MergerEffect]:
        if self._heeds(event.term) and event.life == self.life:
            return self._exit(event.reason)
        return []

    def _exit(self, reason: str) -> list[MergerEffect]:
        self._state = MERGER.after(self._state, "exit")
        return [Exit(reason)]

    # -- looking at it ------------------------------------------------------------------------

    @property
    def state_bytes(self) -> int:
        """Of the LMerge."""
        return self._merge.nbytes

    def sizes(self) -> dict[str, int]:
        """What it keeps, in numbers: nothing, except waiting subscribers, once the output has
        ended.
        """
        return {
            "live keys": len(self._merge),
            "pending rows": self._writing.rows,
            "waiting questions": self._serving.waiting,
        }

    def validate(self) -> None:
        """Raises `Bug` where an invariant is broken."""
        self._merge.validate()
        self._writing.validate()
        self._serving.validate()
        self._links.validate(self._merge.stable)
        numbers = [link.number for link in self._links.by_life.values()]
        if self._backfill is not None and self._backfill.number is not None:
            numbers.append(self._backfill.number)
        if sorted(numbers) != sorted(self._merge.inputs):
            raise Bug(f"sessions feed the inputs {numbers}, attached are {self._merge.inputs}")
        if self._durable_stable > self._merge.stable:
            raise Bug(f"durable to {self._durable_stable}, merged to {self._merge.stable}")
