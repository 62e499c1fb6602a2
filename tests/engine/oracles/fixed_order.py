"""The fixed order of payloads (docs/engine.md), as keys for Python's own sorting.

None last, NaN last except for None, false before true, strings by their bytes, structs by field
"""

from __future__ import annotations

from typing import Any


def place(payload: tuple[Any, ...]) -> tuple[Any, ...]:
    """A key that sorts canonical payloads of one schema in the fixed order."""
    return tuple(_place(value) for value in payload)


def _place(value: Any) -> tuple[Any, ...]:
    if value is None:
        return (2,)
    if isinstance(value, float) and value != value:
        return (1,)
    if isinstance(value, str):
        return (0, value.encode())
    if isinstance(value, tuple):
        return (0, place(value))
    return (0, value)
