"""What was probably meant, of the names that there are."""

from __future__ import annotations

from collections.abc import Collection
from difflib import get_close_matches

NEAR = 3
"""Names that are offered."""


def nearest(name: str, known: Collection[str]) -> str:
    """The end of a sentence about a name that is not there."""
    near = get_close_matches(name.lower(), [k.lower() for k in known], n=NEAR)
    spelled = [k for k in known if k.lower() in near]
    if spelled:
        return f": did you mean {' or '.join(spelled)}?"
    few = ", ".join(list(known)[:12])
    return f": there are {few}{', ...' if len(known) > 12 else ''}" if known else ""
