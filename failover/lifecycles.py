"""Life cycles as tables: every state of a thing, what can happen to it there, and what it is then.

    LinkState = Literal["closed", "opening", "open"]
    LINK: Lifecycle[LinkState] = Lifecycle("a replica's link to a merger", {
        "closed":  {"attach": "opening"},
        "opening": {"ack": "open", "refused": "closed"},
        ...})

    state = LINK.after(state, "ack")

A reader sees the whole life at once; the diagrams of lifecycles.md are drawn from the same
tables (`diagram`). What a table does not have cannot happen; where it does, that is our bug.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Generic, TypeVar

from gapless.protocol.errors import Bug

StateT = TypeVar("StateT", bound=str)


class Lifecycle(Generic[StateT]):
    """The states of one kind of thing, the first of them first."""

    def __init__(self, what: str, table: Mapping[StateT, Mapping[str, StateT]]) -> None:
        """`table`: of each state, what can happen there, and the state behind it."""
        unknown = {after for row in table.values() for after in row.values()} - set(table)
        if unknown:
            raise Bug(f"{what}: {sorted(unknown)} can be reached, and have no row")
        self.what = what
        self.table = table
        self.first: StateT = next(iter(table))

    def after(self, state: StateT, cause: str) -> StateT:
        """The state behind `cause`; raises `Bug` where that cannot happen in `state`."""
        behind = self.table[state].get(cause)
        if behind is None:
            raise Bug(f"{self.what} that is {state}: {cause!r} cannot happen to it")
        return behind

    def allows(self, state: StateT, cause: str) -> bool:
        """Whether `cause` can happen in `state`."""
        return cause in self.table[state]

    def diagram(self) -> str:
        """The table as lines `state -- cause --> state`, for lifecycles.md."""
        width = max(map(len, self.table))
        causes = max((len(c) for row in self.table.values() for c in row), default=0)
        lines = []
        for state, row in self.table.items():
            if not row:
                lines.append(f"{state:<{width}}  (the end)")
            for i, (cause, behind) in enumerate(row.items()):
                shown = state if i == 0 else ""
                lines.append(f"{shown:<{width}} -- {cause:-<{causes}}--> {behind}")
        return "\n".join(lines)
