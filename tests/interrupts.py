"""Ctrl-C at every line: a call is interrupted at its first line, then at its second, and so on."""

from __future__ import annotations

import linecache
import sys
import threading
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any


class Interrupts:
    """Interrupts what runs in some modules at the n-th line that it comes to."""

    def __init__(self, *modules: Any) -> None:
        self._files = {m.__file__ for m in modules}
        self._at = 0
        self._lines = 0

    def at(self, number: int, call: Callable[[], Any]) -> tuple[bool, Any]:
        """Whether it was interrupted; else what the call has returned."""
        self._at, self._lines = number, 0
        before = sys.gettrace()
        sys.settrace(self._enter)
        try:
            return False, call()
        except KeyboardInterrupt:
            return True, None
        finally:
            sys.settrace(before)

    def everywhere(self, call: Callable[[], Any]) -> Iterator[Any]:
        """Interrupts it at each line in turn, and then lets it through: what it returns at last.
        Yields after each interrupt, for a look at what it has left.
        """
        for number in range(1, 10_000):
            was_interrupted, result = self.at(number, call)
            if not was_interrupted:
                yield result
                return
            yield KeyboardInterrupt

    def _enter(self, frame: FrameType, event: str, argument: Any) -> Any:  # noqa: ARG002  # a tracer's form
        return self._line if frame.f_code.co_filename in self._files else None

    def _line(self, frame: FrameType, event: str, argument: Any) -> Any:  # noqa: ARG002  # a tracer's form
        if event == "line" and not _is_with(frame):
            self._lines += 1
            if self._lines == self._at:
                raise KeyboardInterrupt
        return self._line


def _is_with(frame: FrameType) -> bool:
    """Python comes to the line of a `with` again to leave it, and takes no signal before it has."""
    return linecache.getline(frame.f_code.co_filename, frame.f_lineno).strip().startswith("with ")


def interrupt_the_wait(call: Callable[[], Any]) -> None:
    """Interrupts a call where it waits for another thread; fails where it does not wait."""

    def enter(frame: FrameType, event: str, argument: Any) -> Any:  # noqa: ARG001  # a tracer's form
        return line if frame.f_code.co_filename == threading.__file__ else None

    def line(frame: FrameType, event: str, argument: Any) -> Any:  # noqa: ARG001  # a tracer's form
        text = linecache.getline(frame.f_code.co_filename, frame.f_lineno)
        if event == "line" and "waiter.acquire(" in text and "saved_state" in frame.f_locals:
            raise KeyboardInterrupt  # a condition has let go of its lock by now
        return line

    before = sys.gettrace()
    sys.settrace(enter)
    try:
        call()
    except KeyboardInterrupt:
        return
    finally:
        sys.settrace(before)
    raise AssertionError("it did not wait")
