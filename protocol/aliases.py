"""Names that people know from pandas, Polars, Spark and SQL: some work, others lead to ours.

    q.filter(x > 3)       is q.where(x > 3)
    q.limit(10)           AttributeError: a stream has no first rows: use q.top_k(10, by=...)
    q.wheer(x > 3)        AttributeError: ... did you mean where?

A name works where the other means the same; where it means something else, or takes its arguments
in another way, the error says what to write.
"""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any


def under_another_name(
    holder: Any, called: str, name: str, same: Mapping[str, str], instead: Mapping[str, str]
) -> Any:
    """What `holder`, which has no `name`, has under our name for it.

    Raises `AttributeError` that says what to write in its place, or which names are near.
    """
    if name in same:
        return getattr(holder, same[name])
    if name.startswith("__"):  # Python asks for these to learn what an object can do
        raise AttributeError(name)
    if name in instead:
        raise AttributeError(f"{called} has no {name!r}: {instead[name]}")
    ours = [each for each in dir(holder) if not each.startswith("_")]
    near = get_close_matches(name, [*ours, *same], n=3)
    meant = dict.fromkeys(same.get(each, each) for each in near)
    hint = f": did you mean {', '.join(meant)}?" if meant else ""
    raise AttributeError(f"{called} has no {name!r}{hint}")
