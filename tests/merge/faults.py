"""Deliberately broken mergers and inputs: the proof that trials can fail.

Each plants one mistake, most of them ones that the paper's text invites. The cases are broken in
the slow twin, whose lines are the paper's, the front in `LMerge` itself.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gapless.chaos.planted.mergers import NoJoinGate
from gapless.chaos.tellers import Row, Story, Teller
from gapless.chaos.trials import Maker
from gapless.merge.choose import CaseName, StreamProperties
from gapless.merge.lmerge import LMerge
from gapless.merge.policy import Lag, Policy, lag
from gapless.merge.reference import ReferenceMerge
from gapless.merge.reference_case import OUT, R0, R1, R2, Case, Input, Key
from gapless.merge.reference_r3 import R3
from gapless.merge.reference_r4 import R4
from gapless.protocol.elements import BEGIN, INF, Adjust, Insert
from gapless.protocol.errors import GaplessError
from gapless.protocol.schema import StreamSchema


@dataclass(frozen=True)
class Fault:
    """A broken merger, or broken inputs, and where the fault shows."""

    case: CaseName
    make: Maker
    policy: Policy = Policy()  # noqa: RUF009  # frozen
    teller: type[Teller] = Teller


def twin(broken: type[Case]) -> Maker:
    """The slow twin with another case in it."""

    def make(schema: StreamSchema, case: str, policy: Policy) -> ReferenceMerge:
        merge = ReferenceMerge(schema, case, policy)
        merge.case = broken(merge.policy, merge.inputs)
        return merge

    return make


# -- the front --------------------------------------------------------------------------------


class FeedbackAhead(LMerge):
    """Tells inputs that the leader's promise is settled already."""

    def feedback(self, number: int, at_most: int = INF) -> int:
        super().feedback(number, at_most)
        return max(self.input_stable(n) for n in self.inputs)


class NumbersComeBack(ReferenceMerge):
    """Gives the number of an input that left to the next, with all that is known under it."""

    def attach(self, join_at: int = BEGIN, properties: StreamProperties | None = None) -> int:
        for number in self.detached:
            del self.detached[number]
            self.inputs[number] = Input(number, join_at)
            return number
        return super().attach(join_at, properties)

    def detach(self, number: int, reason: GaplessError | None = None) -> None:
        del self.inputs[number]
        self.detached[number] = reason
        self.case.excuse(number)


class TheDepartedAct(ReferenceMerge):
    """Follows the stable of an input that has left."""

    def __init__(self, schema: StreamSchema, case: str, policy: Policy) -> None:
        super().__init__(schema, case, policy)
        self.ghosts: dict[int, Input] = {}

    def detach(self, number: int, reason: GaplessError | None = None) -> None:
        self.ghosts[number] = self.inputs[number]
        super().detach(number, reason)

    def _acting(self) -> Input | None:
        everybody = [*self.ghosts.values(), *self.inputs.values()]
        best = max(filter(self.qualifies, everybody), key=self.target, default=None)
        return best if best is not None and self.target(best) > self.stable else None


class LagsBehindTheEnd(ReferenceMerge):
    """Policy lag(d) without the exception for INF: the output never ends."""

    def target(self, i: Input) -> int:
        return i.stable - (self.policy.stable.d if isinstance(self.policy.stable, Lag) else 0)


# -- r0 to r2 ---------------------------------------------------------------------------------


class JoinersAtOnceR0(R0):
    """Takes in the rows of an input that lacks what lies before them."""

    holds_back = False


class JoinersAtOnceR1(R1):
    """Counts ties of an input that has not all of them."""

    holds_back = False


class JoinersAtOnceR2(R2):
    """As R0."""

    holds_back = False


class EmittedCountLeaves(R1):
    """Takes what was put out for the largest count of those who are there."""

    def forget_input(self, number: int) -> None:
        super().forget_input(number)
        self.emitted = Counter()
        for count in self.count.values():
            self.emitted |= count


class CountsKept(R1):
    """Counts on from the last start, for the inputs that did not raise it."""

    def insert(self, y: Insert, r: Input) -> list[Row]:
        others = {n: count for n, count in self.count.items() if n != r.number}
        out = super().insert(y, r)
        self.count = others | self.count
        return out


class EqualsAreOne(R2):
    """Drops an event that equals one at the same start."""

    def insert(self, y: Insert, r: Input) -> list[Row]:
        if y.vs == self.max_vs and self.emitted[self.what(y)]:
            return []
        return super().insert(y, r)


# -- r3 ---------------------------------------------------------------------------------------


class FirstEndAsWas(R3):
    """Names the end that the event had when its node was made (line 24 of the paper)."""

    def __init__(self, policy: Policy, inputs: Mapping[int, Input]) -> None:
        super().__init__(policy, inputs)
        self.first: dict[Key, int] = {}

    def insert(self, y: Insert, r: Input) -> list[Row]:
        self.first.setdefault((y.vs, y.payload), y.ve)
        return super().insert(y, r)

    def put_right(self, key: Key, f: dict[int, int], ve: int) -> list[Row]:
        rows = super().put_right(key, f, ve)
        return [
            Adjust(y.payload, y.vs, self.first[key], y.ve) if isinstance(y, Adjust) else y
            for y in rows
        ]


class LateInserts(R3):
    """Takes an insert below the stable for a new event (without line 6)."""

    def insert(self, y: Insert, r: Input) -> list[Row]:
        stable, self.max_stable = self.max_stable, BEGIN
        out = super().insert(y, r)
        self.max_stable = stable
        return out


class PassesStablesOn(R3):
    """Promises what an input promises, and puts nothing right."""

    def stable(self, t: int, r: Input) -> list[Row]:
        return Case.stable(self, t, r)


class KeepsWhatIsMissing(R3):
    """Leaves an event that the acting input lacks (without line 20)."""

    def stable(self, t: int, r: Input) -> list[Row]:
        for (vs, _), f in self.index.items():
            if vs < t and OUT in f and r.number not in f:
                f[r.number] = f[OUT]
        return super().stable(t, r)


class LooksAtTheInputOnly(R3):
    """Puts right only what the input has fully frozen (half of line 23)."""

    def stable(self, t: int, r: Input) -> list[Row]:
        if t < INF:
            for (vs, _), f in self.index.items():
                if vs < t <= f.get(r.number, vs) and OUT in f:
                    f[r.number] = f[OUT]
        return super().stable(t, r)


class FreezesTooLittle(R3):
    """Takes the end t - 1 for one that can still move at stable t."""

    def stable(self, t: int, r: Input) -> list[Row]:
        out = super().stable(t - 1, r) if t < INF else super().stable(t, r)
        self.max_stable = t
        return out


class SuspectsTheObedient(R3):
    """Takes an event that feedback let an input skip for a divergence."""

    def excuse(self, number: int) -> None:
        if number not in self.inputs:
            super().excuse(number)


class FrozenWithoutLimit(R3):
    """Policy fully_frozen that goes on past events whose end may still move."""

    def limit(self, r: Input) -> int:  # noqa: ARG002  # that is the fault
        return INF


class NeverFinal(R3):
    """Policy fully_frozen that waits for the end of events that have none."""

    def limit(self, r: Input) -> int:
        half = (vs for (vs, _), f in self.index.items() if r.stable <= f.get(r.number, vs))
        return min((vs for vs in half if vs < r.stable), default=INF)


# -- r4 ---------------------------------------------------------------------------------------


class AllEnds(R4):
    """Compares with the acting input over all ends, also those frozen long ago."""

    def lacks(self, f: dict[int, Counter[int]], r: Input) -> tuple[list[int], list[int]]:
        mine, out = f.get(r.number, Counter()), f[OUT]
        return sorted((mine - out).elements()), sorted((out - mine).elements())


class NoCounts(R4):
    """Only turns ends into others (without lines 20 to 22)."""

    def adjust_output_count(
        self,
        key: Key,  # noqa: ARG002  # that is the fault
        f: dict[int, Counter[int]],  # noqa: ARG002  # as above
        r: Input,  # noqa: ARG002  # as above
    ) -> list[Row]:
        return []


class NoEnds(R4):
    """Only makes the counts equal (without lines 23 to 26)."""

    def adjust_output(
        self,
        key: Key,  # noqa: ARG002  # that is the fault
        f: dict[int, Counter[int]],  # noqa: ARG002  # as above
        t: int,  # noqa: ARG002  # as above
        r: Input,  # noqa: ARG002  # as above
    ) -> list[Row]:
        return []


class Line15AsPrinted(R4):
    """Counts `ve` up and then down again."""

    def check(self, rows: Sequence[Row], r: Input) -> None:
        pass

    def adjust(self, y: Adjust, r: Input) -> list[Row]:  # noqa: ARG002  # that is the fault
        return []


# -- inputs -----------------------------------------------------------------------------------


class SkipsByStart(Teller):
    """Skips what starts before the feedback time, whenever it ends."""

    def may_skip(self, row: Row, story: Story, feedback: int) -> bool:
        return row.vs < feedback and not story.begun


class SkipsByPresentEnd(Teller):
    """Skips rows whose end lies below the feedback time, though it is provisional."""

    def may_skip(self, row: Row, story: Story, feedback: int) -> bool:  # noqa: ARG002  # as above
        return row.ve < feedback


class StopsInTheMiddle(Teller):
    """Stops telling an event that it has begun, where (payload, vs) is not a key."""

    def may_skip(self, row: Row, story: Story, feedback: int) -> bool:  # noqa: ARG002  # as above
        return story.end is not None and story.end < feedback


FAULTS: dict[str, Fault] = {
    "no join gate": Fault("r3", NoJoinGate),
    "no join gate, r4": Fault("r4", NoJoinGate),
    "feedback ahead of the output": Fault("r4", FeedbackAhead),
    "numbers come back": Fault("r3", NumbersComeBack),
    "the departed act": Fault("r3", TheDepartedAct),
    "lag behind the end": Fault("r3", LagsBehindTheEnd, Policy(stable=lag(4))),
    "r0 takes joiners at once": Fault("r0", twin(JoinersAtOnceR0)),
    "r1 takes joiners at once": Fault("r1", twin(JoinersAtOnceR1)),
    "r2 takes joiners at once": Fault("r2", twin(JoinersAtOnceR2)),
    "r0 for what r1 is for": Fault("r1", twin(R0)),
    "r1 for what r2 is for": Fault("r2", twin(R1)),
    "r3 for what r4 is for": Fault("r4", twin(R3)),
    "r1 loses the emitted count": Fault("r1", twin(EmittedCountLeaves)),
    "r1 does not start counting anew": Fault("r1", twin(CountsKept)),
    "r2 takes equal events for one": Fault("r2", twin(EqualsAreOne)),
    "first end as was": Fault("r3", twin(FirstEndAsWas), Policy(adjust="at_once")),
    "late inserts": Fault("r3", twin(LateInserts)),
    "stables passed on": Fault("r3", twin(PassesStablesOn)),
    "keeps what the acting input lacks": Fault("r3", twin(KeepsWhatIsMissing)),
    "looks at the input's ends only": Fault("r3", twin(LooksAtTheInputOnly)),
    "freezes too little": Fault("r3", twin(FreezesTooLittle)),
    "never final": Fault("r3", twin(NeverFinal), Policy("fully_frozen")),
    "suspects the obedient": Fault("r3", twin(SuspectsTheObedient)),
    "fully frozen without limit": Fault("r3", twin(FrozenWithoutLimit), Policy("fully_frozen")),
    "r4 over all ends": Fault("r4", twin(AllEnds)),
    "r4 without the counts": Fault("r4", twin(NoCounts)),
    "r4 without the ends": Fault("r4", twin(NoEnds)),
    "r4, line 15 as printed": Fault("r4", twin(Line15AsPrinted)),
    "skips by start": Fault("r3", LMerge, teller=SkipsByStart),
    "skips by start, r4": Fault("r4", LMerge, teller=SkipsByStart),
    "skips by a provisional end": Fault("r3", LMerge, teller=SkipsByPresentEnd),
    "stops in the middle, r4": Fault("r4", LMerge, teller=StopsInTheMiddle),
}
