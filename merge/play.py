"""Plays a script to a merger, and checks after every line that the output can still come out right.

    attach a; attach b          -> nothing
    a: ins(A,6,7)               -> Heard(out: ins(A,6,7))
    b: ins(A,6,12) stable(11)   -> Heard(out: adj(A,6,7,12) stable(11))
    b: ins(B,3,4)               -> Heard(detached: b breaks its own stable)
    b: stable(20)               -> Heard(skipped)

An input that is detached for bad content is out until the script attaches it anew; what it goes on
saying is skipped, and everybody else goes on. A merger counts its inputs and a script names them;
what is said about them here has their names. The check is that of `compatible.py`. It needs every
table of every input, kept whole, so it costs time and memory that merging does not.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from gapless.merge.choose import CaseName
from gapless.merge.compatible import Breach, compatible
from gapless.merge.lmerge import LMerge
from gapless.merge.policy import Policy
from gapless.merge.script import Attach, Detach, Say, Step
from gapless.protocol.elements import INF, format_time
from gapless.protocol.errors import GaplessError, StreamViolation
from gapless.protocol.frame import Frame
from gapless.protocol.schema import StreamSchema
from gapless.protocol.tdb import Tdb

_INPUT = re.compile(r"\binput ([0-9]+)\b")


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
        self._names: dict[int, str] = {}  # of all that ever were
        self._join_at: dict[int, int] = {}
        self._checker = _Checker(schema) if check else None

    def step(self, step: Step) -> Heard:
        """Plays one line. Raises `Misuse` for a name that is not attached."""
        match step:
            case Attach(_, name, join_at):
                number = self._numbers[name] = self.merge.attach(join_at)
                self._names[number], self._join_at[number] = name, join_at
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
                return Heard(tuple(out), detached=self._named(reason))
            if given:
                out.append(given)
            if self._checker is not None:
                breaches = self._checker.heard(number, frame, given, self.merge.case)
                if breaches:
                    return Heard(tuple(out), breaches=tuple(breaches))
        return Heard(tuple(out))

    def divergences(self) -> list[str]:
        """The divergences that the merger has kept, with the names of the inputs."""
        return [self._renamed(str(sample)) for sample in self.merge.divergences.samples]

    def waiting_for(self) -> str | None:
        """What the output waits for; None where it is at its end, or as far as any input is."""
        merge = self.merge
        if merge.stable == INF or not self._names:
            return None
        why = merge.waiting_for
        if why is not None:
            return self._renamed(why)
        ended = [n for n in merge.inputs if merge.input_stable(n) == INF]
        if not ended:
            return None
        told = [
            f"{self._names[n]}, which is stable to {format_time(merge.input_stable(n))}"
            for n in merge.inputs
            if self._join_at[n] <= merge.stable
        ]
        first = min(ended, key=self._join_at.__getitem__)
        joined = format_time(self._join_at[first])
        return f"{' or '.join(told)}: {self._names[first]} is at its end, but joined at {joined}"

    def _named(self, problem: GaplessError) -> GaplessError:
        if not isinstance(problem, StreamViolation):
            return problem
        return StreamViolation(problem.element, self._renamed(problem.rule))

    def _renamed(self, text: str) -> str:
        """Names the input that a message numbers: the last one, as payloads stand in front."""
        found = list(_INPUT.finditer(text))
        if not found:
            return text
        start, end = found[-1].span()
        return text[:start] + self._names.get(int(found[-1][1]), text[start:end]) + text[end:]


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
