"""A stream's changes as lines: for a person, or JSON lines that `gapless push --changelog` reads.

+I 6 (A,7)                                      flink, settled
-U [6,20) (A,7)                                 flink, eager: the whole lifetime
{"op": "+I", "ts": 6, "src": "A", "n": 7}       the first, as JSON

What is settled comes from `FinalChanges`, what is eager from `Changes.of_frame`.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from typing import Any

from gapless.operators.changelog import FinalChanges
from gapless.protocol.changelog import KINDS, Changes
from gapless.protocol.debezium import to_debezium
from gapless.protocol.elements import format_time
from gapless.protocol.errors import Misuse
from gapless.protocol.frame import Frame
from gapless.protocol.text import format_payload

WORDS = {"flink": "flink", "plus-minus": "+/-", "open-close": "open/close"}
"""How kinds are spelled in each form; Debezium's is another."""
_WORD_OF_KIND = {
    "flink": KINDS,
    "plus-minus": ("+", "-", "+", "-"),
    "open-close": ("open", "close", "open", "close"),
    "debezium": ("c", "u", "u", "d"),
}


class ChangeLines:
    """The lines of frames that come one after the other."""

    def __init__(self, form: str, key: tuple[str, ...], *, eager: bool, as_json: bool) -> None:
        """Settled: each change once, when it is final. Eager: at once, with whole lifetimes, and
        revisions of them.
        """
        if eager and key:
            raise Misuse("--eager prints whole lifetimes and uses no key: leave out --by")
        if eager and form not in ("flink", "plus-minus"):
            raise Misuse(f"--eager prints whole lifetimes, for which {form} has no form")
        if form == "open-close" and key:
            raise Misuse("open-close has no keys: leave out --by")
        self._form = form
        self._key = key
        self._eager = eager
        self._as_json = as_json
        self._writer: FinalChanges | None = None

    def reset(self) -> None:
        """What follows says the table anew."""
        self._writer = None

    def of(self, frame: Frame) -> Iterator[str]:
        """The lines of the next frame. Raises `BadData` where the key is none."""
        changes, watermark = self._changes(frame)
        yield from self._json_lines(changes) if self._as_json else self._lines(changes)
        if watermark is not None and not self._as_json:
            yield f"-- watermark {format_time(watermark)}"

    def _changes(self, frame: Frame) -> tuple[Changes, int | None]:
        if self._eager:
            return Changes.of_frame(frame), frame.stable
        if self._writer is None:
            self._writer = FinalChanges(frame.schema, self._key)
        changes, watermark = self._writer.push(frame)
        return changes, watermark

    def _lines(self, changes: Changes) -> Iterator[str]:
        words = _WORD_OF_KIND[self._form]
        for kind, *times, payload in changes.to_list():
            word = words[KINDS.index(kind)]
            if len(times) == 2:
                life = f"[{format_time(times[0])},{format_time(times[1])})"
                yield f"{word} {life} {format_payload(payload)}"
            else:
                yield f"{word} {format_time(times[0])} {format_payload(payload)}"

    def _json_lines(self, changes: Changes) -> Iterator[str]:
        if self._form == "debezium":
            rows = to_debezium(changes)
        else:
            rows = changes.to_arrow(words=WORDS[self._form])
        for row in rows.to_pylist():
            yield json.dumps(_plain(row), allow_nan=False, ensure_ascii=False)


def _plain(value: Any) -> Any:
    """A value as JSON has one; what it has no form for as text."""
    if isinstance(value, dict):
        return {name: _plain(each) for name, each in value.items()}
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float) and math.isfinite(value):
        return value
    return value.isoformat() if hasattr(value, "isoformat") else str(value)
