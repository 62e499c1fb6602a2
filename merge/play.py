"""Plays a script to a merger, and checks after every line that the output can still come out right.

    attach a; attach b          -> nothing
    a: ins(A,6,7)               -> Heard(out: ins(A,6,7))
    b: ins(A,6,12) stable(11)   -> Heard(out: adj(A,6,7,12) stable(11))
    b: ins(B,3,4)               -> Heard(detached: b breaks its own stable)
    b: stable(20)               -> Heard(skipped)

An input that is detached for bad content is out until the script attaches it anew; what it goes on
saying is skipped, and everybody else goes on. The check is that of `compatible.py`. It needs every
table of every input, kept whole, so it costs time and memory that merging does not.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from gapless.merge.choose import CaseName
from gapless.merge.compatible import Breach, compatible
from gapless.merge.lmerge import LMerge
from gapless.merge.policy import Policy
from gapless.merge.script import Attach, Detach, Say, Step
from gapless.protocol.errors import GaplessError, StreamViolation
from gapless.protocol.frame import Frame
from gapless.protocol.schema import StreamSchema
from gapless.protocol.tdb import Tdb


@dataclass(frozen=True, slots=True)
class Heard:
    """What came of something that an input said."""

    out: tuple[Frame, ...] = ()
    """What the output adds; only frames that say something."""
    detached: GaplessError | None = None
    """Why the input was detached at this point."""
    skipped: bool = False
    """It had been detached before."""
    breaches: tuple[Breach, ...] = ()
    """What does not hold of the output now; empty where nothing was checked."""


class Player:
    """One merger, its inputs by name."""

    def __init__(
        self,
        schema: StreamSchema,
        case: CaseName | Literal["auto"] = "auto",
        policy: Policy | None = None,
        *,
        check: bool = False,
    ) -> None:
        self.merge = LMerge(schema, case, policy)
        self._numbers: dict[str, int] = {}
        self._checker = _Checker(schema) if check else None

    def step(self, step: Step) -> Heard:
        """Plays one line. Raises `Misuse` for a name that is not attached."""
        match step:
            case Attach(_, name, join_at):
                number = self._numbers[name] = self.merge.attach(join_at)
                if self._checker is not None:
                    self._checker.attach(number, name, join_at)
            case Detach(_, name):
                number = self._numbers.pop(name)
                if number not in self.merge.detached:
                    self.merge.detach(number)
            case Say(_, name, frames):
                return self.say(name, frames)
        return Heard()

    def say(self, name: str, frames: tuple[Frame, ...]) -> Heard:
        """Frames of an input; what follows bad content is not looked at any more."""
        number = self._numbers[name]
        if number in self.merge.detached:
            return Heard(skipped=True)
        out: list[Frame] = []
        for frame in frames:
            given = self.merge.push(number, frame)
            reason = self.merge.detached.get(number)
            if reason is not None:
                return Heard(tuple(out), detached=reason)
            if given:
                out.append(given)
            if self._checker is not None:
                breaches = self._checker.heard(number, frame, given, self.merge.case)
                if breaches:
                    return Heard(tuple(out), breaches=tuple(breaches))
        return Heard(tuple(out))


class _Checker:
    """The tables of all inputs that ever were, and that of the output."""

    def __init__(self, schema: StreamSchema) -> None:
        self._output = Tdb(schema)
        self._said: dict[int, Tdb] = {}
        self._names: dict[int, str] = {}
        self._join_at: list[int] = []
        self._key = True  # until an input has a (payload, vs) twice

    def attach(self, number: int, name: str, join_at: int) -> None:
        """An input from which end on it knows its table."""
        self._said[number] = Tdb(self._output.schema)
        self._names[number] = name
        self._join_at.append(join_at)

    def heard(self, number: int, frame: Frame, given: Frame, case: CaseName) -> list[Breach]:
        """What does not hold after an input said `frame` and the merger gave `given`."""
        for whose, tdb, told in (
            (self._names[number], self._said[number], frame),
            ("the output", self._output, given),
        ):
            try:
                tdb.fold(told)
            except StreamViolation as e:
                return [Breach("own promises", f"{whose}: {e}")]
        if case == "r4" or not _is_key(self._said[number]):
            self._key = False
        inputs = list(self._said.values())
        return compatible(inputs, self._output, key=self._key, join_at=self._join_at)


def _is_key(tdb: Tdb) -> bool:
    """Whether no (payload, vs) is there twice."""
    return len(tdb) == len({(event.payload, event.vs) for event in tdb.counts()})
