"""The case that an LMerge uses, and its step to a more general one.

    r2   ins(A,6,20)            inputs declare nothing, so r2 might do: its events are in order
         ins(A,6,20)            ... the same event twice from one input: not a key, as r2 assumed
    r4   history -> adopted     the table so far, and what each input said of it, from the history
         ins(A,6,20)            taken again, by r4; what r2 had passed over goes out first

A case of `"auto"` is as general as its inputs need (see adapt.py). While that may still change, and
the case keeps too little of its own to be rebuilt from (r0 to r2), a `History` is kept beside it.
A step is never taken back.
"""

from __future__ import annotations

from gapless.merge import in_order
from gapless.merge.adapt import LADDER, Declarations, Step, needed
from gapless.merge.case import Case, CaseViolation, Favour, Taken
from gapless.merge.choose import CaseName, StreamProperties
from gapless.merge.divergence import Divergences
from gapless.merge.history import History
from gapless.merge.membership import Input, Membership
from gapless.merge.policy import Policy
from gapless.merge.r0 import R0
from gapless.merge.r1 import R1
from gapless.merge.r2 import R2
from gapless.merge.r3 import R3
from gapless.merge.r4 import R4
from gapless.protocol.errors import Bug, Misuse
from gapless.protocol.frame import Frame
from gapless.protocol.schema import StreamSchema

CASES: dict[CaseName, type[Case]] = {"r0": R0, "r1": R1, "r2": R2, "r3": R3, "r4": R4}

_ALL_INSERTS = Favour(insert=True, adjust=False)


class CaseInUse:
    """A case, what its inputs declare, and what a step needs."""

    def __init__(
        self,
        schema: StreamSchema,
        name: CaseName,
        policy: Policy,
        members: Membership,
        *,
        adapts: bool,
    ) -> None:
        self.schema = schema
        self.policy = policy
        self.members = members
        self.divergences = Divergences()
        self.adapts = adapts
        """Whether attaching inputs decide on the case."""
        self.case = self._made(name)
        self.history = History(schema) if adapts and name < "r3" else None
        self.declared = Declarations()
        self.steps: list[Step] = []
        self.rescued: list[Frame] = []
        """Put out by a step between two pushes; goes out with the next."""
        self.is_resumed = False

    def _made(self, name: CaseName) -> Case:
        return CASES[name](self.schema, self.policy, self.divergences)

    @property
    def source(self) -> History | Case:
        """What knows the tables."""
        return self.history or self.case

    # -- inputs -------------------------------------------------------------------------------

    def make_fit(self, properties: StreamProperties | None) -> None:
        """Steps to the case that is needed once an input attaches that declares this."""
        if not self.adapts:
            return
        name = needed(self.policy, *self.declared.with_one_more(properties))
        if name > self.case.name:
            declares = "nothing" if properties is None else str(properties)
            why = f"an input attaches that declares {declares}"
            self.rescued += self._step(LADDER.index(name), why)

    def attach(self, number: int, properties: StreamProperties | None) -> None:
        """A new input, that the case fits."""
        if self.adapts:
            self.declared.attach(number, properties)
        self.case.attach(number)
        if self.history is not None:
            self.history.attach(number)

    def detach(self, number: int) -> None:
        """Frees what an input held."""
        self.declared.detach(number)
        self.case.detach(number)
        self.divergences.detach(number)
        if self.history is not None:
            self.history.detach(number)

    def may_hold(self, entry: Input, rows: int) -> bool:
        """Whether so many rows more of an input may come now (see `LMerge.may_hold`)."""
        if not self.case.holds_back or entry.qualifies(self.case.stable):
            return True
        return self.case.held_rows(entry.number) + rows <= in_order.HELD_ROWS_MAX

    # -- rows ---------------------------------------------------------------------------------

    def take(self, number: int, frame: Frame, favour: Favour) -> Taken:
        """The rows of an input that qualifies, or of a case that holds nothing back."""
        taken = self.case.take(number, frame, favour)
        if self.history is not None:
            self.history.said(number, frame)
            self.history.put_out(taken.out)
        return taken

    def step_for(self, entry: Input, why: CaseViolation) -> list[Frame]:
        """Steps to the first more general case that may take what an input says. Raises `why` where
        the input has declared, or was known, to be otherwise. Returns what goes out.
        """
        if not self.declared.observes(entry.number) or self.case.name == LADDER[-1]:
            raise why
        return self._step(LADDER.index(self.case.name) + 1, str(why))

    def admit(self) -> list[Frame]:
        """Takes in what was held back of inputs that now qualify; what goes out."""
        out = []
        for entry in self.members.attached.values():
            held = self.case.held(entry.number)
            if not held or not entry.qualifies(self.case.stable):
                continue
            passed = self.case.admit(entry.number)
            entry.dropped += sum(map(len, held)) - sum(map(len, passed))
            if self.history is not None:
                for frame in held:
                    self.history.said(entry.number, frame)
                self.history.put_out(passed)
            out += passed
        return out

    def freeze(self, number: int, t: int, promised: int) -> list[Frame]:
        """Makes the output agree with an input as far as stable `t` freezes it."""
        out = self.case.freeze(number, t, promised)
        if self.history is not None:
            self.history.settle(t)
        return out

    # -- stepping -----------------------------------------------------------------------------

    def _step(self, first: int, why: str) -> list[Frame]:
        """Rebuilds the state in the strictest case, from `first` on, that can hold it.

        Returns rows that the present case had passed over and the new one puts out.
        """
        before = self.case
        for name in LADDER[first:]:
            case = self._made(name)
            case.stable = before.stable
            try:
                rescued = self._rebuild(case)
            except CaseViolation:
                continue
            self.case = case
            if self.members.total or self.is_resumed:  # else nothing has gone before
                self.steps.append(Step(before.name, name, why))
            if name >= "r3":
                self.history = None
            elif self.history is not None:
                self.history.put_out(rescued)
            return rescued
        raise Bug(f"{LADDER[-1]} holds any table, and did not take this one")

    def _rebuild(self, case: Case) -> list[Frame]:
        """Gives `case` what is known of the output and the inputs."""
        source = self.source
        case.adopt_output(source.live())
        out = []
        for number, entry in self.members.attached.items():
            case.attach(number)
            case.promised(number, entry.stable)
        for number in self.members.attached:
            for frame in self.case.held(number):
                if case.holds_back:
                    case.hold(number, frame)
                else:
                    out += case.take(number, frame, _ALL_INSERTS).out
            told = source.told(number)
            if not len(told):
                continue
            if self.history is None:
                case.adopt_input(number, told)
            else:
                out += case.take(number, told, _ALL_INSERTS).out
        return out

    def resume(self, rows: Frame, stable: int) -> None:
        """Takes up an output that has these events yet, before any input."""
        self.case.stable = stable
        try:
            self.case.adopt_output(rows)
        except CaseViolation as e:
            self.case = self._made(self.case.name)
            raise Misuse(f"resume: {e}") from None
        self.is_resumed = True
        if self.history is not None:
            self.history.put_out([rows])
            self.history.settle(stable)

    # -- looking at it ------------------------------------------------------------------------

    @property
    def nbytes(self) -> int:
        """Bytes of state."""
        return self.case.nbytes + (self.history.nbytes if self.history is not None else 0)

    def validate(self) -> None:
        """Raises `Bug` where an invariant is broken."""
        self.case.validate()
        if self.case.inputs != set(self.members.attached):
            raise Bug(f"the case knows the inputs {self.case.inputs}")
