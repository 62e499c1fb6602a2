"""Interrupts: a person's Ctrl-C, and SIGTERM, end what runs in an orderly way, once."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def ending_in_peace() -> Iterator[None]:
    """The first Ctrl-C, or SIGTERM, ends what is inside; those after it wait for that."""
    signals = (signal.SIGINT, signal.SIGTERM)

    def interrupt(*_: object) -> None:
        for each in signals:
            signal.signal(each, signal.SIG_IGN)
        raise KeyboardInterrupt

    were = [signal.signal(each, interrupt) for each in signals]
    try:
        yield
    finally:
        for each, was in zip(signals, were, strict=True):
            signal.signal(each, was)
