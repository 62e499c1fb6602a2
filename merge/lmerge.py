"""LMerge: one output from inputs that differ physically and agree logically.

    m = LMerge(schema)
    a, b = m.attach(), m.attach()
    m.push(a, frame of "ins(A,6,7)")                -> ins(A,6,7)
    m.push(b, frame of "ins(A,6,12) stable(11)")    -> adj(A,6,7,12) stable(11)

This is the front of the five cases (`r0.py` to `r4.py`): it knows who takes part, what each input
has promised and who may act; the case knows what to put out. `docs/lmerge.md` has every rule.

Whatever an input says, the output goes on: bad content detaches that input, with the reason in
`detached`, before any of the frame counts. Only a caller's misuse raises.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from gapless.merge import in_order
from gapless.merge.adapt import LADDER, Declarations, Step, needed
from gapless.merge.case import Case, CaseViolation, Favour, Taken, violation
from gapless.merge.choose import CaseName, StreamProperties
from gapless.merge.divergence import Divergences
from gapless.merge.history import History
from gapless.merge.membership import Input, Membership
from gapless.merge.policy import Policy, Quorum
from gapless.merge.r0 import R0
from gapless.merge.r1 import R1
from gapless.merge.r2 import R2
from gapless.merge.r3 import R3
from gapless.merge.r4 import R4
from gapless.merge.snapshot import Snapshot, restore, take
from gapless.merge.stats import InputStats, OutputCounts, Stats
from gapless.protocol.elements import BEGIN, INF, format_time
from gapless.protocol.errors import (
    Bug,
    GaplessError,
    Misuse,
    SchemaError,
    StreamViolation,
)
from gapless.protocol.frame import Frame
from gapless.protocol.schema import StreamSchema

CASES: dict[CaseName, type[Case]] = {"r0": R0, "r1": R1, "r2": R2, "r3": R3, "r4": R4}


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
        self.schema = schema
        self.policy = policy or Policy()
        self.divergences = Divergences()
        self.steps: list[Step] = []
        self._adapts = case == "auto" and properties is None
        if case == "auto":
            case = LADDER[0] if properties is None else needed(self.policy, *properties)
            if self.policy.keeps_events and case < "r3":
                case = "r3"
        if case not in CASES:
            raise Misuse(f"case {case!r}: use auto, {', '.join(CASES)}")
        self._case = CASES[case](schema, self.policy, self.divergences)
        self._history = History(schema) if self._adapts and case < "r3" else None
        self._declared = Declarations()
        self._resumed = False
        self._rescued: list[Frame] = []  # by a step between two pushes; goes out with the next
        self._members = Membership()
        self._put_out = OutputCounts()
        self._nothing = Frame.empty(schema)
        self._follows_all = Favour(insert=True, adjust=self.policy.adjust == "at_once")

    # -- who takes part -----------------------------------------------------------------------

    def attach(self, join_at: int = BEGIN, properties: StreamProperties | None = None) -> int:
        """A new input that holds every event with `ve >= join_at`; its number.

        `properties` is what it declares to be, for `case="auto"`. In case r1 an input joins between
        two starts: it holds all events of a start, or none.
        """
        if self._adapts:
            case = needed(self.policy, *self._declared.with_one_more(properties))
            if case > self.case:
                declares = "nothing" if properties is None else str(properties)
                why = f"an input attaches that declares {declares}"
                self._rescued += self._step(LADDER.index(case), why)
        number = self._members.attach(join_at).number
        if self._adapts:
            self._declared.attach(number, properties)
        self._case.attach(number)
        if self._history is not None:
            self._history.attach(number)
        return number

    def detach(self, number: int, reason: GaplessError | None = None) -> None:
        """Lets an input go. What it held is freed, its number never used again."""
        self._members.detach(number, reason)
        self._declared.detach(number)
        self._case.detach(number)
        self.divergences.detach(number)
        if self._history is not None:
            self._history.detach(number)

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
        entry = self._members.get(number)
        if not self._case.holds_back or entry.qualifies(self.stable):
            return True
        return self._case.held_rows(number) + rows <= in_order.HELD_ROWS_MAX

    def feedback(self, number: int, at_most: int = INF) -> int:
        """Events with a final `ve` below this time are settled: the input need not send them.

        Ask only to pass the answer on: what the input may now leave out is no longer held against
        it as a divergence. `at_most` caps the answer, say at what is durable.
        """
        self._members.get(number)
        settled = min(self.stable, at_most)
        self._case.settles(number, settled)
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
        drawn = _Drawn(self._rescued)
        try:
            self._check(entry, frame)
            if len(frame):
                drawn.frames = self._rescued + self._take(entry, frame)
        except (StreamViolation, SchemaError) as reason:
            self.detach(number, reason)
            return self._nothing
        self._rescued = []
        if frame.stable is not None:
            self._promise(entry, frame.stable, drawn)
        if frame.stable is not None or self.policy.insert == "fully_frozen":
            self._advance(drawn)
        return self._draw(drawn)

    def _check(self, entry: Input, frame: Frame) -> None:
        """Raises where a frame breaks what its own input has promised."""
        if frame.schema is not self.schema and frame.schema != self.schema:
            raise SchemaError(f"input {entry.number} sends {frame.schema}, expected {self.schema}")
        stable = entry.stable
        if stable == BEGIN:
            return
        if frame.stable is not None and frame.stable < stable:
            text = f"stable({format_time(frame.stable)})"
            raise StreamViolation(text, f"stables never go back, and {_promised(entry)}")
        if not len(frame) or (frame.insert_only and np.minimum.reduce(frame.vs) >= stable):
            return
        floor = np.where(frame.is_insert, frame.vs, np.minimum(frame.was, frame.ve))
        bad = floor < stable
        if bad.any():
            raise violation(frame, int(bad.argmax()), _promised(entry))

    def _take(self, entry: Input, frame: Frame) -> list[Frame]:
        """The rows, through the case, or through the first more general one that takes them."""
        if self.policy.insert == "highest_insert":
            starts = frame.vs[frame.is_insert]
            highest = max(entry.highest, int(starts.max())) if len(starts) else entry.highest
        else:
            highest = entry.highest
        try:
            if self._case.holds_back and not entry.qualifies(self.stable):
                self._case.hold(entry.number, frame)
                entry.elements += len(frame)
                return []
            taken = self._case.take(entry.number, frame, self._favour(entry, highest))
        except CaseViolation as why:
            if not self._declared.observes(entry.number) or self.case == LADDER[-1]:
                raise  # it has declared, or was known, to be otherwise
            rescued = self._step(LADDER.index(self.case) + 1, str(why))
            taken = self._case.take(entry.number, frame, self._favour(entry, highest))
            taken = Taken(rescued + taken.out, taken.dropped)
        entry.highest = highest
        entry.elements += len(frame)
        entry.dropped += taken.dropped
        if self._history is not None:
            self._history.said(entry.number, frame)
            self._history.put_out(taken.out)
        return taken.out

    def _promise(self, entry: Input, stable: int, drawn: _Drawn) -> None:
        """Records an input's stable."""
        entry.stable = stable
        entry.elements += 1
        self._case.promised(entry.number, stable)
        if self.policy.insert == "half_frozen" and entry.qualifies(self.stable):
            drawn.frames += self._case.half_froze(entry.number, stable)

    def _advance(self, drawn: _Drawn) -> None:
        """Freezes the output as far as some input may act."""
        while (acting := self._acting()) is not None:
            t, all_qualified = self._target(acting), self._members.latest_join <= self.stable
            drawn.frames += self._case.freeze(acting.number, t, acting.stable)
            drawn.stable = t
            acting.led += 1
            self._put_out.freezes += 1
            if self._history is not None:
                self._history.settle(t)
            if all_qualified and self.policy.insert != "fully_frozen":
                return  # the largest target has been reached, and nobody new may act
            if self._case.holds_back:
                drawn.frames += self._admit()

    def _admit(self) -> list[Frame]:
        """Takes in what was held back of inputs that now qualify."""
        out = []
        for entry in self._members.attached.values():
            held = self._case.held(entry.number)
            if not held or not entry.qualifies(self.stable):
                continue
            passed = self._case.admit(entry.number)
            entry.dropped += sum(map(len, held)) - sum(map(len, passed))
            if self._history is not None:
                for frame in held:
                    self._history.said(entry.number, frame)
                self._history.put_out(passed)
            out += passed
        return out

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
        """The join gate."""
        return entry.qualifies(self.stable)

    def _target(self, entry: Input) -> int:
        """How far an input would freeze the output."""
        target = self.policy.target(entry.stable)
        if self.policy.insert == "fully_frozen":
            target = min(target, self._case.limit(entry.number, entry.stable))
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

    # -- policies of arrival ------------------------------------------------------------------

    def _favour(self, entry: Input, highest: int) -> Favour:
        """What the policy allows the rows of a frame of `entry`."""
        policy = self.policy
        if policy.adjust != "leading" and (
            policy.insert == "first" or isinstance(policy.insert, Quorum)
        ):
            return self._follows_all
        match policy.insert:
            case "first" | Quorum():
                insert = True
            case "leading":
                insert = self._leads(entry)
            case "highest_insert":
                others = self._members.attached.values()
                insert = all(highest >= o.highest for o in others if o is not entry)
            case "most_unfrozen":
                mine = self._case.unfrozen(entry.number)
                insert = all(mine >= self._case.unfrozen(n) for n in self._members.attached)
            case _:
                insert = False
        adjust = policy.adjust == "at_once" or (policy.adjust == "leading" and self._leads(entry))
        return Favour(insert, adjust)

    def _leads(self, entry: Input) -> bool:
        return all(entry.stable >= other.stable for other in self._members.attached.values())

    # -- stepping to a more general case ------------------------------------------------------

    def _step(self, first: int, why: str) -> list[Frame]:
        """Rebuilds the state in the strictest case, from `first` on, that can hold it.

        Returns rows that the present case had passed over and the new one puts out.
        """
        before = self._case
        for name in LADDER[first:]:
            case = CASES[name](self.schema, self.policy, self.divergences)
            case.stable = before.stable
            try:
                rescued = self._rebuild(case)
            except CaseViolation:
                continue
            self._case = case
            if self._members.total or self._resumed:  # else nothing has gone before
                self.steps.append(Step(before.name, name, why))
            if name >= "r3":
                self._history = None
            elif self._history is not None:
                self._history.put_out(rescued)
            return rescued
        raise Bug(f"{LADDER[-1]} holds any table, and did not take this one")

    def _rebuild(self, case: Case) -> list[Frame]:
        """Gives `case` what is known of the output and the inputs."""
        source = self._history or self._case
        case.adopt_output(source.live())
        out = []
        for number, entry in self._members.attached.items():
            case.attach(number)
            case.promised(number, entry.stable)
        for number in self._members.attached:
            for frame in self._case.held(number):
                if case.holds_back:
                    case.hold(number, frame)
                else:
                    out += case.take(number, frame, Favour(insert=True, adjust=False)).out
            told = source.told(number)
            if not len(told):
                continue
            if self._history is None:
                case.adopt_input(number, told)
            else:
                out += case.take(number, told, Favour(insert=True, adjust=False)).out
        return out

    # -- going on -----------------------------------------------------------------------------

    def resume(self, live: Frame) -> None:
        """Takes up an output where it was left: its events with `ve >= stable`, and its stable.

        Only for a merger that has put out nothing yet and has no inputs.
        """
        if self._resumed or self._members.total:
            raise Misuse("resume comes once, and before any input")
        if live.schema != self.schema:
            raise SchemaError(f"resume: the table is of {live.schema}, expected {self.schema}")
        if not live.is_insert.all():
            raise Misuse("resume takes the live table as inserts")
        stable = BEGIN if live.stable is None else live.stable
        rows = _ending_from(live.with_stable(None), stable)
        self._case.stable = stable
        try:
            self._case.adopt_output(rows)
        except CaseViolation as e:
            self._case = CASES[self._case.name](self.schema, self.policy, self.divergences)
            raise Misuse(f"resume: {e}") from None
        self._resumed = True
        if self._history is not None:
            self._history.put_out([rows])
            self._history.settle(stable)

    def live(self) -> Frame:
        """What of the output is not settled, as inserts, and its stable: what `resume` takes.

        Rows that a step to another case has put out count, though only the next push gives them.
        """
        rows, stable = (self._history or self._case).live(), self.stable
        return rows if stable == BEGIN else _ending_from(rows, stable).with_stable(stable)

    def snapshot(self) -> Snapshot:
        """All of it as data. Samples of divergences and open questions stay behind."""
        return take(self)

    @staticmethod
    def restore(schema: StreamSchema, snapshot: Snapshot) -> LMerge:
        """A merger whose output goes on from a snapshot exactly as that of the one that gave it.

        Raises `DecodeError` where the snapshot is not one, whatever is wrong with it.
        """
        return restore(LMerge, schema, snapshot)

    # -- looking at it ------------------------------------------------------------------------

    @property
    def stable(self) -> int:
        """The output's stable."""
        return self._case.stable

    @property
    def case(self) -> CaseName:
        """The case in use; more general than the first after a step."""
        return self._case.name

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
        return len(self._case)

    @property
    def nbytes(self) -> int:
        """Bytes of state."""
        return self._case.nbytes + (self._history.nbytes if self._history is not None else 0)

    def validate(self) -> None:
        """Raises `Bug` where an invariant is broken."""
        self._case.validate()
        if self._case.inputs != set(self._members.attached):
            raise Bug(f"the case knows the inputs {self._case.inputs}")
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


def _promised(entry: Input) -> str:
    return f"input {entry.number} promised stable({format_time(entry.stable)})"
