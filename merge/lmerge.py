"""LMerge: one output from inputs that differ physically and agree logically.

    m = LMerge(schema)
    a, b = m.attach(), m.attach()
    m.push(a, frame of "ins(A,6,7)")                -> ins(A,6,7)
    m.push(b, frame of "ins(A,6,12) stable(11)")    -> adj(A,6,7,12) stable(11)

This is the front: it decides who may act, and how far the output freezes. What it stands on:

    membership.py     who takes part, and what each input has promised
    arrival.py        what the policy lets go out at once
    case_in_use.py    which of the five cases (`r0.py` to `r4.py`) knows what to put out, and the
                      step to a more general one

`docs/lmerge.md` has every rule. Whatever an input says, the output goes on: bad content detaches
that input, with the reason in `detached`, before any of the frame counts. Only a caller's misuse
raises.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from gapless.merge.adapt import LADDER, Step, needed
from gapless.merge.arrival import Arrival
from gapless.merge.case import CaseViolation
from gapless.merge.case_in_use import CASES, CaseInUse
from gapless.merge.choose import CaseName, StreamProperties
from gapless.merge.divergence import Divergences
from gapless.merge.membership import Input, Membership
from gapless.merge.policy import Policy
from gapless.merge.snapshot import MergeParts, Snapshot, restore, take
from gapless.merge.stats import InputStats, OutputCounts, Stats
from gapless.protocol.elements import BEGIN, INF
from gapless.protocol.errors import (
    Bug,
    GaplessError,
    Misuse,
    SchemaError,
    StreamViolation,
)
from gapless.protocol.frame import Frame
from gapless.protocol.schema import StreamSchema


@dataclass(slots=True)
class _Drawn:
    """What one push gives."""

    frames: list[Frame] = field(default_factory=list)
    stable: int | None = None


class LMerge:
    """Merges physically different streams of one table. Pure and not thread-safe."""

    def __init__(
        self,
        schema: StreamSchema,
        case: CaseName | Literal["auto"] = "auto",
        policy: Policy | None = None,
        properties: Sequence[StreamProperties] | None = None,
    ) -> None:
        """`case="auto"` chooses: once for all by `properties` of every input that may come; without
        them by what each input declares when it attaches, as general as the weakest needs.
        """
        if type(schema) is not StreamSchema:
            raise Misuse(f"LMerge takes a StreamSchema, not {type(schema).__name__}")
        if policy is not None and type(policy) is not Policy:
            raise Misuse(f"policy takes a Policy(...), not {policy!r}")
        if isinstance(properties, StreamProperties):
            raise Misuse("properties takes a list: one StreamProperties for each kind of input")
        policy = policy or Policy()
        adapts = case == "auto" and properties is None
        if case == "auto":
            case = LADDER[0] if properties is None else needed(policy, *properties)
            if policy.keeps_events and case < "r3":
                case = "r3"
        if case not in CASES:
            raise Misuse(f"case {case!r}: use auto, {', '.join(CASES)}")
        members = Membership()
        in_use = CaseInUse(schema, case, policy, members, adapts=adapts)
        self._compose(MergeParts(in_use, members, OutputCounts()))

    def _compose(self, parts: MergeParts) -> None:
        self._in_use = parts.in_use
        self._members = parts.members
        self._put_out = parts.put_out
        self.schema = self._in_use.schema
        self.policy = self._in_use.policy
        self._arrival = Arrival(self.policy, self._members)
        self._nothing = Frame.empty(self.schema)

    # -- who takes part -----------------------------------------------------------------------

    def attach(self, join_at: int = BEGIN, properties: StreamProperties | None = None) -> int:
        """A new input that holds every event with `ve >= join_at`; its number.

        `properties` is what it declares to be, for `case="auto"`. In case r1 an input joins between
        two starts: it holds all events of a start, or none.
        """
        self._in_use.make_fit(properties)
        number = self._members.attach(join_at).number
        self._in_use.attach(number, properties)
        return number

    def detach(self, number: int, reason: GaplessError | None = None) -> None:
        """Lets an input go. What it held is freed, its number never used again."""
        self._members.detach(number, reason)
        self._in_use.detach(number)

    @property
    def inputs(self) -> list[int]:
        """The attached inputs."""
        return list(self._members.attached)

    @property
    def detached(self) -> dict[int, GaplessError | None]:
        """Who left, and why: None where the caller asked for it."""
        return dict(self._members.detached)

    @property
    def waiting_for(self) -> str | None:
        """Why the output cannot advance, where no attached input may act; else None."""
        return self._members.waiting_for(self.stable)

    def led(self, number: int) -> int:
        """How often an attached input has advanced the output's stable: it was the acting one."""
        return self._members.get(number).led

    def input_stable(self, number: int) -> int:
        """The last stable that an attached input promised."""
        return self._members.get(number).stable

    def may_hold(self, number: int, rows: int) -> bool:
        """Whether so many rows more of an input may come now: one that joined ahead of the output
        is held back in some cases, and what is held back has a bound. Pushed all the same, it is
        detached.
        """
        return self._in_use.may_hold(self._members.get(number), rows)

    def feedback(self, number: int, at_most: int = INF) -> int:
        """Events with a final `ve` below this time are settled: the input need not send them.

        Ask only to pass the answer on: what the input may now leave out is no longer held against
        it as a divergence. `at_most` caps the answer, say at what is durable.
        """
        self._members.get(number)
        settled = min(self.stable, at_most)
        self._in_use.case.settles(number, settled)
        return settled

    # -- merging ------------------------------------------------------------------------------

    def push(self, number: int, frame: Frame) -> Frame:
        """Takes a frame of one input; returns what it adds to the output, maybe nothing.

        Content that breaks the input's promises, or another schema, detaches it: `detached` has
        the reason, the output goes on without it, and nothing is raised.
        """
        entry = self._members.get(number)
        if type(frame) is not Frame:
            raise Misuse(
                f"push takes a Frame (see Frame.from_elements), not {type(frame).__name__}"
            )
        in_use = self._in_use
        drawn = _Drawn(in_use.rescued)
        try:
            if frame.schema is not self.schema and frame.schema != self.schema:
                raise SchemaError(f"input {number} sends {frame.schema}, expected {self.schema}")
            entry.check(frame)
            if len(frame):
                drawn.frames = in_use.rescued + self._take(entry, frame)
        except (StreamViolation, SchemaError) as reason:
            self.detach(number, reason)
            return self._nothing
        in_use.rescued = []
        if frame.stable is not None:
            self._promise(entry, frame.stable, drawn)
        if frame.stable is not None or self.policy.insert == "fully_frozen":
            self._advance(drawn)
        return self._draw(drawn)

    def _take(self, entry: Input, frame: Frame) -> list[Frame]:
        """The rows, through the case, or through the first more general one that takes them."""
        in_use, arrival, number = self._in_use, self._arrival, entry.number
        highest = arrival.highest(entry, frame)
        rescued: list[Frame] = []
        try:
            if in_use.case.holds_back and not entry.qualifies(self.stable):
                in_use.case.hold(number, frame)
                entry.elements += len(frame)
                return []
            taken = in_use.take(number, frame, arrival.favour(entry, highest, in_use.case))
        except CaseViolation as why:
            rescued = in_use.step_for(entry, why)
            taken = in_use.take(number, frame, arrival.favour(entry, highest, in_use.case))
        entry.highest = highest
        entry.elements += len(frame)
        entry.dropped += taken.dropped
        return rescued + taken.out if rescued else taken.out

    def _promise(self, entry: Input, stable: int, drawn: _Drawn) -> None:
        """Records an input's stable."""
        entry.stable = stable
        entry.elements += 1
        case = self._in_use.case
        case.promised(entry.number, stable)
        if self.policy.insert == "half_frozen" and entry.qualifies(self.stable):
            drawn.frames += case.half_froze(entry.number, stable)

    def _advance(self, drawn: _Drawn) -> None:
        """Freezes the output as far as some input may act."""
        in_use = self._in_use
        while (acting := self._acting()) is not None:
            t, all_qualified = self._target(acting), self._members.latest_join <= self.stable
            drawn.frames += in_use.freeze(acting.number, t, acting.stable)
            drawn.stable = t
            acting.led += 1
            self._put_out.freezes += 1
            if all_qualified and self.policy.insert != "fully_frozen":
                return  # the largest target has been reached, and nobody new may act
            if in_use.case.holds_back:
                drawn.frames += in_use.admit()

    def _acting(self) -> Input | None:
        """The qualified input with the largest target, if that is above the output's stable."""
        best, largest = None, self.stable
        for entry in self._members.attached.values():
            if entry.stable > largest and self._may_act(entry):
                target = self._target(entry)
                if target > largest:
                    best, largest = entry, target
        return best

    def _may_act(self, entry: Input) -> bool:
        """The join gate (membership.py)."""
        return entry.qualifies(self.stable)

    def _target(self, entry: Input) -> int:
        """How far an input would freeze the output."""
        target = self.policy.target(entry.stable)
        if self.policy.insert == "fully_frozen":
            target = min(target, self._in_use.case.limit(entry.number, entry.stable))
        return target

    def _draw(self, drawn: _Drawn) -> Frame:
        """One frame of all that came of a push."""
        frames = drawn.frames
        if drawn.stable is not None:
            self._put_out.stables += 1
        if not frames:
            return (
                self._nothing if drawn.stable is None else self._nothing.with_stable(drawn.stable)
            )
        self._put_out.count(frames)
        frame = frames[0] if len(frames) == 1 else Frame.concat(frames)
        return frame if frame.stable == drawn.stable else frame.with_stable(drawn.stable)

    # -- going on -----------------------------------------------------------------------------

    def resume(self, live: Frame) -> None:
        """Takes up an output where it was left: its events with `ve >= stable`, and its stable.

        Only for a merger that has put out nothing yet and has no inputs.
        """
        if self._in_use.is_resumed or self._members.total:
            raise Misuse("resume comes once, and before any input")
        if live.schema != self.schema:
            raise SchemaError(f"resume: the table is of {live.schema}, expected {self.schema}")
        if not live.is_insert.all():
            raise Misuse("resume takes the live table as inserts")
        stable = BEGIN if live.stable is None else live.stable
        self._in_use.resume(_ending_from(live.with_stable(None), stable), stable)

    def live(self) -> Frame:
        """What of the output is not settled, as inserts, and its stable: what `resume` takes.

        Rows that a step to another case has put out count, though only the next push gives them.
        """
        rows, stable = self._in_use.source.live(), self.stable
        return rows if stable == BEGIN else _ending_from(rows, stable).with_stable(stable)

    def snapshot(self) -> Snapshot:
        """All of it as data. Samples of divergences and open questions stay behind."""
        return take(MergeParts(self._in_use, self._members, self._put_out))

    @staticmethod
    def restore(schema: StreamSchema, snapshot: Snapshot) -> LMerge:
        """A merger whose output goes on from a snapshot exactly as that of the one that gave it.

        Raises `DecodeError` where the snapshot is not one, whatever is wrong with it.
        """
        return restore(LMerge._of, schema, snapshot)

    @staticmethod
    def _of(parts: MergeParts) -> LMerge:
        merge = object.__new__(LMerge)
        merge._compose(parts)
        return merge

    # -- looking at it ------------------------------------------------------------------------

    @property
    def stable(self) -> int:
        """The output's stable."""
        return self._in_use.case.stable

    @property
    def case(self) -> CaseName:
        """The case in use; more general than the first after a step."""
        return self._in_use.case.name

    @property
    def steps(self) -> list[Step]:
        """The changes to a more general case, so far."""
        return self._in_use.steps

    @property
    def divergences(self) -> Divergences:
        """Where inputs that should agree do not, and for good."""
        return self._in_use.divergences

    @property
    def stats(self) -> Stats:
        """What it has done and what it holds."""
        total = self._put_out.freezes
        inputs = {
            number: InputStats(
                entry.elements,
                entry.dropped,
                max(0, self.stable - entry.stable) if entry.stable > BEGIN < self.stable else 0,
                entry.led / total if total else 0.0,
            )
            for number, entry in self._members.attached.items()
        }
        out = self._put_out
        return Stats(inputs, out.inserts, out.adjusts, out.stables, len(self), self.nbytes)

    def __len__(self) -> int:
        """Live keys."""
        return len(self._in_use.case)

    @property
    def nbytes(self) -> int:
        """Bytes of state."""
        return self._in_use.nbytes

    def validate(self) -> None:
        """Raises `Bug` where an invariant is broken."""
        self._in_use.validate()
        for entry in self._members.attached.values():
            if entry.qualifies(self.stable) and self._target(entry) > self.stable:
                raise Bug(f"input {entry.number} could act and has not")


def _ending_from(rows: Frame, stable: int) -> Frame:
    """Rows that are not settled; mostly all of them, and then nothing is copied."""
    if stable == INF:
        return rows.slice(0, 0)
    if not len(rows) or int(rows.ve.min()) >= stable:
        return rows
    return rows.take(rows.ve >= stable)
