"""Errors about names that help: they say what there is, and what was probably meant."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from difflib import get_close_matches

from gapless.protocol.errors import SchemaError

SHOWN_MAX = 20
"""Names that a message lists."""


def unknown(what: str, name: object, known: Collection[str]) -> str:
    """The sentence for a column that is not there."""
    shown = list(known)[:SHOWN_MAX]
    more = f", ... ({len(known)} in all)" if len(known) > len(shown) else ""
    near = get_close_matches(str(name), known, n=1)
    guess = f" (did you mean {near[0]!r}?)" if near else ""
    return f"{what}: no column {name!r} among {', '.join(shown)}{more}{guess}"


def check_column(what: str, name: object, known: Sequence[str]) -> None:
    """Raises `SchemaError` unless `name` is one of the columns."""
    if name not in known:
        raise SchemaError(unknown(what, name, known))
