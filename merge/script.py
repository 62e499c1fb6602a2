"""Scripts: merges as people write them down, to be replayed.

    # two tellings of one lease
    attach a                          an input comes
    attach c join 120                 another, which knows every event with ve >= 120
    a: ins(A,6,20) adj(A,6,20,30)     an input says elements, in text notation
    a: stable(11)
    detach a                          an input goes; the name may be given to another one
    ---                               the next script starts: nobody is attached

A `#` at the start of a line or behind a space begins a comment; empty lines mean nothing. Elements
become frames, one after each stable. Whatever can be wrong with a script is found when it is
parsed: `ParseError` with source, line, column and what was expected there.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from gapless.merge.membership import INPUTS_MAX
from gapless.protocol import text
from gapless.protocol.elements import BEGIN, INF
from gapless.protocol.errors import FrameError, ParseError
from gapless.protocol.frame import Frame, frames_of
from gapless.protocol.schema import StreamSchema

SEPARATOR = "---"
"""The line between two scripts, and between their outputs."""


@dataclass(frozen=True, slots=True)
class Attach:
    """An input comes."""

    line: int
    name: str
    join_at: int = BEGIN


@dataclass(frozen=True, slots=True)
class Detach:
    """An input goes."""

    line: int
    name: str


@dataclass(frozen=True, slots=True)
class Say:
    """An input says something."""

    line: int
    name: str
    frames: tuple[Frame, ...]


Step = Attach | Detach | Say


@dataclass(frozen=True, slots=True)
class Script:
    """What one merger goes through."""

    source: str
    """Where it comes from, for messages."""
    steps: tuple[Step, ...]


def parse_scripts(
    content: str, schema: StreamSchema = text.DEFAULT_SCHEMA, source: str = "script"
) -> list[Script]:
    """The scripts that `content` holds: one more than it has separators."""
    if len(content) > text.TEXT_CHARS_MAX:
        raise ParseError(
            f"{source}: {len(content)} characters: at most {text.TEXT_CHARS_MAX} are read as text"
        )
    scripts = [_Open()]
    for number, line in enumerate(content.split("\n"), 1):
        code = _without_comment(line)
        if code == SEPARATOR:
            scripts.append(_Open())
        elif code:
            try:
                scripts[-1].add(_Line(code, number, schema).step())
            except _Unexpected as e:
                raise ParseError(f"{source}: line {number}, {e}") from None
    return [Script(source, tuple(script.steps)) for script in scripts]


_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*", re.ASCII)
_SAYS = re.compile(rf"\s*({_NAME.pattern})\s*:", re.ASCII)
_WORD = re.compile(r"\s*(\S*)")
_CODE = re.compile(r'(?:"(?:[^"\\]|\\.)*+"?|(?<=\S)\#|[^"\#])*+')
"""A line up to its comment: not inside a string, and not inside a word. A string that does not end
goes on to the end of the line. Nothing is looked at twice: a line may have millions of characters.
"""


class _Unexpected(Exception):
    """What is wrong in a line, with the column."""

    def __init__(self, at: int, expected: str, found: str) -> None:
        found = repr(found[:40]) if found else "the end of the line"
        super().__init__(f"column {at + 1}: expected {expected}, found {found}")


def _without_comment(line: str) -> str:
    code = _CODE.match(line)
    return code[0].rstrip() if code else ""


@dataclass(slots=True)
class _Open:
    """A script that is being read: who is attached decides what may come next."""

    steps: list[Step] = field(default_factory=list)
    attached: set[str] = field(default_factory=set)

    def add(self, step: tuple[Step, int]) -> None:
        match step:
            case Attach(_, name), at:
                if len(self.attached) == INPUTS_MAX:
                    raise _Unexpected(at, f"at most {INPUTS_MAX} inputs at once", name)
                if name in self.attached:
                    raise _Unexpected(at, "a name that no attached input has", name)
                self.attached.add(name)
            case said, at:
                if said.name not in self.attached:
                    known = ", ".join(sorted(self.attached)) or "none is"
                    raise _Unexpected(at, f"an attached input ({known})", said.name)
                if isinstance(said, Detach):
                    self.attached.remove(said.name)
        self.steps.append(step[0])


class _Line:
    """One line that is neither empty nor a separator."""

    def __init__(self, code: str, number: int, schema: StreamSchema) -> None:
        self._code = code
        self._number = number
        self._schema = schema
        self._at = 0

    def step(self) -> tuple[Step, int]:
        """What the line says, and the column of the input's name."""
        says = _SAYS.match(self._code)
        if says:
            return Say(self._number, says[1], self._frames(says.end())), says.start(1)
        verb, at = self._word()
        if verb not in ("attach", "detach"):
            wanted = f"attach NAME, detach NAME, NAME: elements, or {SEPARATOR}"
            raise _Unexpected(at, wanted, verb)
        name, at = self._word()
        if not _NAME.fullmatch(name):
            raise _Unexpected(at, "the name of an input", name)
        join_at = self._join() if verb == "attach" else None
        rest, behind = self._word()
        if rest:
            raise _Unexpected(behind, "the end of the line", rest)
        if verb == "detach":
            return Detach(self._number, name), at
        return Attach(self._number, name, BEGIN if join_at is None else join_at), at

    def _join(self) -> int | None:
        word, at = self._word()
        if not word:
            return None
        if word != "join":
            raise _Unexpected(at, "join TIME or the end of the line", word)
        time, at = self._word()
        if time == "inf":
            return INF
        if not re.fullmatch(r"[+-]?[0-9]{1,19}", time, re.ASCII) or not BEGIN < int(time) <= INF:
            raise _Unexpected(at, "a time: an integer or inf", time)
        return int(time)

    def _word(self) -> tuple[str, int]:
        match = _WORD.match(self._code, self._at)
        if match is None:
            return "", len(self._code)
        self._at = match.end()
        return match[1], match.start(1)

    def _frames(self, start: int) -> tuple[Frame, ...]:
        try:  # blanks in front keep the columns of messages right
            elements = text.parse(" " * start + self._code[start:], self._schema)
        except ParseError as e:
            raise _Nested(str(e).removeprefix("at line 1, ")) from None
        try:
            return tuple(frames_of(self._schema, elements))
        except FrameError as e:
            raise _Nested(f"column {start + 1}: {e}") from None


class _Nested(_Unexpected):
    """A message of a parser or frame below, with its column."""

    def __init__(self, message: str) -> None:
        Exception.__init__(self, message)
