"""LMerge element by element, with dicts: the slow twin of `gapless.merge.LMerge`.

It follows `docs/lmerge.md` to the letter and the paper's Algorithms R3 and R4 line by line
(`reference_r3.py`, `reference_r4.py`), and shares no code with the fast cases: what both put out
for the same pushes must be the same. Nothing here is clever. Time and memory do not matter; that a
reader sees why it is right does.

A frame's rows are checked against what its input holds before any of them is taken in.
"""

from __future__ import annotations

from gapless.merge.choose import StreamProperties
from gapless.merge.membership import DetachedInput
from gapless.merge.policy import Policy
from gapless.merge.reference_case import R0, R1, R2, Case, Input, Row, violation
from gapless.merge.reference_r3 import R3
from gapless.merge.reference_r4 import R4
from gapless.protocol.elements import BEGIN, Insert, Stable, format_time
from gapless.protocol.errors import Bug, GaplessError, Misuse, SchemaError, StreamViolation
from gapless.protocol.frame import Frame
from gapless.protocol.schema import StreamSchema

CASES: dict[str, type[Case]] = {"r0": R0, "r1": R1, "r2": R2, "r3": R3, "r4": R4}


class ReferenceMerge:
    """Merges physically different streams of one table into one, slowly."""

    def __init__(self, schema: StreamSchema, case: str, policy: Policy | None = None) -> None:
        if case not in CASES:
            raise Misuse(f"case {case!r}: the twin has {', '.join(CASES)}")
        self.schema = schema
        self.policy = policy or Policy()
        self.inputs: dict[int, Input] = {}
        self.detached: dict[int, GaplessError | None] = {}
        """Who left, and why: None where the caller asked for it."""
        self.case = CASES[case](self.policy, self.inputs)
        self._attached_ever = 0

    @property
    def stable(self) -> int:
        """The output's stable."""
        return self.case.max_stable

    @property
    def divergences(self) -> int:
        """How often an acting input contradicted what the output had promised."""
        return self.case.divergences

    # -- membership ---------------------------------------------------------------------------

    def attach(
        self,
        join_at: int = BEGIN,
        properties: StreamProperties | None = None,  # noqa: ARG002  # its case is given
    ) -> int:
        """A new input that holds every event with `ve >= join_at`; its number."""
        number = self._attached_ever
        self._attached_ever += 1
        self.inputs[number] = Input(number, join_at)
        return number

    def detach(self, number: int, reason: GaplessError | None = None) -> None:
        """Lets an input go for good."""
        self._input(number)
        del self.inputs[number]
        self.detached[number] = reason
        self.case.forget_input(number)

    def feedback(self, number: int) -> int:
        """Events with a final `ve` below this time are settled."""
        self._input(number)
        self.case.excuse(number)
        return self.stable

    @property
    def waiting_for(self) -> str | None:
        """What is missing, where no attached input qualifies."""
        if any(map(self.qualifies, self.inputs.values())):
            return None
        return f"an input that knows the time from {format_time(self.stable)} on"

    def qualifies(self, i: Input) -> bool:
        """Whether an input may act."""
        return i.join_at <= self.stable

    def _input(self, number: int) -> Input:
        if number in self.detached:
            raise DetachedInput(f"input {number} is detached; attach again")
        if number not in self.inputs:
            raise Misuse(f"input {number} was never attached")
        return self.inputs[number]

    # -- a push -------------------------------------------------------------------------------

    def push(self, number: int, frame: Frame) -> Frame:
        """Takes a frame of one input; returns what it adds to the output."""
        r = self._input(number)
        rows = [e for e in frame.elements() if not isinstance(e, Stable)]
        try:
            self._check(r, rows, frame)
        except (SchemaError, StreamViolation) as reason:
            self.detach(number, reason)
            return Frame.empty(self.schema)
        r.held += rows
        r.last_vs = rows[-1].vs if rows else r.last_vs
        out = self._take_in(r)
        if frame.stable is not None:
            r.stable = frame.stable
            if self.policy.insert == "half_frozen" and self.qualifies(r):
                out += self.case.half_froze(r)
        stable = None
        while (acting := self._acting()) is not None:
            stable = self.target(acting)
            out += self.case.stable(stable, acting)
            for waiting in self.inputs.values():
                out += self._take_in(waiting)
        self.case.answer()
        last = [] if stable is None else [Stable(stable)]
        return Frame.from_elements(self.schema, [*out, *last])

    def _check(self, r: Input, rows: list[Row], frame: Frame) -> None:
        """Raises where the frame's content is bad; changes nothing."""
        if frame.schema != self.schema:
            raise SchemaError(f"input {r.number} sends {frame.schema}, expected {self.schema}")
        for y in rows:
            if (y.vs if isinstance(y, Insert) else min(y.was, y.ve)) < r.stable:
                raise violation(y, f"the input promised stable({format_time(r.stable)})")
        if frame.stable is not None and frame.stable < r.stable:
            raise violation(Stable(frame.stable), "stables never go back")
        self.case.check(rows, r)

    def _take_in(self, r: Input) -> list[Row]:
        """Takes in the rows of an input, unless they have to wait; what goes out at once."""
        if not r.held or (self.case.holds_back and not self.qualifies(r)):
            return []
        rows, r.held = r.held, []
        everybody = self.inputs.values()
        leads = all(r.stable >= i.stable for i in everybody)
        fullest = all(self.case.unfrozen(r) >= self.case.unfrozen(i) for i in everybody)
        r.highest = max(r.highest, *(y.vs for y in rows if isinstance(y, Insert)), BEGIN)
        match self.policy.insert:
            case "leading":
                self.case.favours = leads
            case "most_unfrozen":
                self.case.favours = fullest
            case "highest_insert":
                self.case.favours = all(r.highest >= i.highest for i in everybody)
            case insert:
                self.case.favours = insert == "first"
        adjust = self.policy.adjust
        self.case.follows = adjust == "at_once" or (adjust == "leading" and leads)
        out: list[Row] = []
        for y in rows:
            out += self.case.insert(y, r) if isinstance(y, Insert) else self.case.adjust(y, r)
        return out

    def _acting(self) -> Input | None:
        """The qualified input with the largest target above the output's stable, if any."""
        can = [i for i in self.inputs.values() if self.qualifies(i)]
        best = max(can, key=lambda i: (self.target(i), -i.number), default=None)
        return best if best is not None and self.target(best) > self.stable else None

    def target(self, i: Input) -> int:
        """How far an input may freeze the output."""
        t = self.policy.target(i.stable)
        return min(t, self.case.limit(i)) if self.policy.insert == "fully_frozen" else t

    def validate(self) -> None:
        """Raises `Bug` where an invariant is broken."""
        if acting := self._acting():
            raise Bug(f"input {acting.number} could act and has not")
        if both := self.inputs.keys() & self.detached.keys():
            raise Bug(f"inputs {sorted(both)} have left and are there")
